"""Print `N passed, N failed, N skipped` of a JUnit file that pytest wrote."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path


def count(text: str) -> tuple[int, int, int]:
    """Return how many tests of a JUnit text passed, failed (errors too) and were skipped."""
    passed = failed = skipped = 0
    for suite in ET.fromstring(text).iter("testsuite"):  # noqa: S314 - our own pytest wrote it
        bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        left = int(suite.get("skipped", 0))
        failed += bad
        skipped += left
        passed += int(suite.get("tests", 0)) - bad - left
    return passed, failed, skipped


def main() -> None:
    """Print the line for the file named on the command line; exit with 1 when there is none."""
    file = Path(sys.argv[1])
    if not file.exists():
        print("no test was run: the log above says why", file=sys.stderr)
        sys.exit(1)
    passed, failed, skipped = count(file.read_text())
    print(f"{passed} passed, {failed} failed, {skipped} skipped")


if __name__ == "__main__":
    main()
