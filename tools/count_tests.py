"""Print seconds of the slowest test files, of each room, and how many passed, of JUnit files.

python tools/count_tests.py FILE...

With `--attacks`, `N attacks, N successes` instead: what fails is an attack that succeeded, and
then the exit code is 1.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

SHOWN = 25


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
    """Return the seconds of each file, `room/test_x`; setting up and tearing down are in them."""
    found: dict[str, float] = {}
    for case in ET.fromstring(text).iter("testcase"):  # noqa: S314 - see above
        words = case.get("classname", "").removeprefix("tests.").split(".")
        file = "/".join(words[:2])
        found[file] = found.get(file, 0.0) + float(case.get("time", 0))
    return found


def of_all(texts: Sequence[str]) -> dict[str, float]:
    """Return the seconds of each test file in all texts, the slowest first."""
    found: dict[str, float] = {}
    for text in texts:
        for file, time in seconds(text).items():
            found[file] = found.get(file, 0.0) + time
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def render(texts: Sequence[str]) -> str:
    """Return the lines: the slowest files, all rooms, the count."""
    times, rooms = of_all(texts), dict[str, float]()
    for file, time in times.items():
        room = file.partition("/")[0]
        rooms[room] = rooms.get(room, 0.0) + time
    passed, failed, skipped = map(sum, zip(*map(count, texts), strict=True))
    ordered = sorted(rooms.items(), key=lambda item: -item[1])
    lines = [
        ", ".join(f"{name} {time:.0f} s" for name, time in some)
        for some in (list(times.items())[:SHOWN], ordered)
    ]
    return "\n".join((*lines, f"{passed} passed, {failed} failed, {skipped} skipped"))


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
