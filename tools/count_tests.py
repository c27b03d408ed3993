"""Print the seconds of each room of tests, then `N passed, N failed, N skipped`, of JUnit files.

python tools/count_tests.py FILE...

With `--attacks`, `N attacks, N successes` instead: what fails is an attack that succeeded, and
then the exit code is 1.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
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


def seconds(text: str) -> dict[str, float]:
    """Return the seconds of each folder below tests/; setting up and tearing down are in them."""
    found: dict[str, float] = {}
    for case in ET.fromstring(text).iter("testcase"):  # noqa: S314 - see above
        folder = case.get("classname", "").removeprefix("tests.").partition(".")[0]
        found[folder] = found.get(folder, 0.0) + float(case.get("time", 0))
    return found


def render(texts: Sequence[str]) -> str:
    """Return both lines."""
    times: dict[str, float] = {}
    for text in texts:
        for folder, time in seconds(text).items():
            times[folder] = times.get(folder, 0.0) + time
    passed, failed, skipped = map(sum, zip(*map(count, texts), strict=True))
    slowest = sorted(times.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{folder} {time:.0f} s" for folder, time in slowest)
    return f"{shown}\n{passed} passed, {failed} failed, {skipped} skipped"


def render_attacks(texts: Sequence[str]) -> tuple[str, int]:
    """Return the line for attacks, and how many of them succeeded."""
    passed, failed, _ = map(sum, zip(*map(count, texts), strict=True))
    return f"{passed + failed} attacks, {failed} successes", failed


def main() -> None:
    """Print the lines for the files named on the command line; exit with 1 when one is missing."""
    words = sys.argv[1:]
    files = [Path(word) for word in words if word != "--attacks"]
    for file in files:
        if not file.exists():
            print(f"{file} is not there: the log above says why", file=sys.stderr)
            sys.exit(1)
    texts = [file.read_text() for file in files]
    if "--attacks" in words:
        line, successes = render_attacks(texts)
        print(line)
        sys.exit(1 if successes else 0)
    print(render(texts))


if __name__ == "__main__":
    main()
