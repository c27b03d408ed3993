"""README's two commands on machines that nobody prepared: a table of cases, each in its own root.

    python tools/fresh.py [--list] [--install] [--keep] [--folder FOLDER] [WORD...]

A WORD chooses the cases that have it in their row (`trixie`, `demo`, `sudo`, `no-fuse`, …); several
words choose those that have them all; `short` is the one that continuous integration runs. What
every case wrote is in build/fresh/CASE.log, what came of it in build/fresh.xml.

Needs root and debootstrap (`--install` gets it by apt), and what is committed is what is tried.
FRESH_MIRROR_UBUNTU=URL and FRESH_KEYS_UBUNTU=FILE let a Debian make Ubuntu's (..._DEBIAN: the
other way round).
"""

from __future__ import annotations

import argparse
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

from msgspec import field

from fresh_root import CHECKOUT, DISTRIBUTIONS, NotHere, Root, Setting, make_base, needed_by
from stackproof.core.value import Value

LOGS = CHECKOUT / "build" / "fresh"
JUNIT = CHECKOUT / "build" / "fresh.xml"
TAIL = 40
TIMEOUT_S = 5400.0
SHORT_TIMEOUT_S = 2400.0  # it runs after all tests, and both together must come to an end
SHORT_DEMO = "tools/bootstrap demo && .venv/bin/python tools/demo.py --short"
COMMANDS = {"demo": "make demo", "short-demo": SHORT_DEMO, "test": "make test"}


class Case(Value):
    """One row: a distribution, what is unusual there, and a command of README's."""

    suite: str
    command: str
    setting: Setting = field(default_factory=Setting)
    # What the full list leaves to those who ask for it by its name.
    short: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """Return the words of the row, in the order in which they are printed."""
        odd = self.setting
        return (
            self.suite,
            self.command,
            "root" if odd.user == "root" else "sudo",
            *(["private-python"] if odd.private else []),
            *(["blank"] if odd.blank else []),
            *([f"umask-{odd.umask:03o}"] if odd.umask != 0o022 else []),
            *([] if odd.ipv6 else ["no-ipv6"]),
            *([] if odd.fuse else ["no-fuse"]),
        )

    @property
    def name(self) -> str:
        """Return the name of the row, which is that of its log."""
        return "-".join(self.words)


CASES = (
    Case(suite="bookworm", command="demo"),
    Case(suite="bookworm", command="test"),
    Case(suite="trixie", command="demo"),
    Case(suite="trixie", command="test", setting=Setting(user="sudo", private=True)),
    # Each odd thing once by itself or with one that it may get on badly with.
    Case(suite="trixie", command="short-demo", setting=Setting(user="sudo")),
    Case(suite="bookworm", command="short-demo", setting=Setting(private=True)),
    Case(suite="bookworm", command="short-demo", setting=Setting(user="sudo", blank=True)),
    Case(suite="trixie", command="short-demo", setting=Setting(user="sudo", umask=0o077)),
    Case(suite="trixie", command="short-demo", setting=Setting(ipv6=False)),
    Case(suite="bookworm", command="short-demo", setting=Setting(fuse=False)),
    Case(suite="noble", command="short-demo"),
    Case(suite="trixie", command="short-demo", short=True),
)


class Outcome(Value):
    """What came of a case: `passed`, `failed` or `not here`, with a sentence, and its minutes."""

    case: Case
    state: str
    note: str
    seconds: float


def chosen(words: Sequence[str]) -> list[Case]:
    """Return the cases that have all of the words; SystemExit for a word that none has."""
    if list(words) == ["short"]:
        return [case for case in CASES if case.short]
    cases = [case for case in CASES if not case.short]
    known = {word for case in cases for word in (*case.words, case.name)}
    unknown = [word for word in words if word not in known]
    if unknown:
        sys.exit(
            f"error: no case has `{unknown[0]}`\nhint: one of {', '.join(sorted(known))}, short"
        )
    found = [case for case in cases if set(words) <= {*case.words, case.name}]
    if not found:
        sys.exit(f"error: no case has all of: {' '.join(words)}\nhint: --list shows them")
    return found


def run_case(case: Case, folder: Path, *, keep: bool) -> Outcome:
    """Make the root of a case and run its command there; everything it says goes to its log."""
    begun = time.monotonic()
    log = LOGS / f"{case.name}.log"
    log.unlink(missing_ok=True)
    root = Root(path=folder / case.name, setting=case.setting)
    limit_s = SHORT_TIMEOUT_S if case.short else TIMEOUT_S
    try:
        base = make_base(case.suite, folder, log)
        root.prepare(base, log)
        ready = time.monotonic()
        with log.open("ab") as stream:
            done = root.run(
                ["bash", "-c", COMMANDS[case.command]], stream.fileno(), folder=root.checkout,
                env=needed_by(case.suite), timeout_s=limit_s,
            )  # fmt: skip
        note = f"{_minutes(time.monotonic() - ready)} in the root; {last_line(log)}"
        state = "failed" if done.returncode else "passed"
        if done.returncode:
            note = f"exit code {done.returncode}; {note}"
    except NotHere as reason:
        state, note = "not here", str(reason)
    except subprocess.TimeoutExpired:
        state, note = "failed", f"not done after {_minutes(limit_s)}"
    except subprocess.CalledProcessError as error:
        state, note = "failed", f"the root could not be made: {error}"
    finally:
        if root.path.exists() and not keep:
            root.remove()
    return Outcome(case=case, state=state, note=note, seconds=time.monotonic() - begun)


def last_line(log: Path) -> str:
    """Return the last line of a log, which is what the command ends with."""
    lines = log.read_text(errors="replace").strip().splitlines() or [""]
    return re.sub(r"\x1b\[[\d;]*m", "", lines[-1])[:160]


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d} min"


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the summary: one row for each case, with its minutes."""
    rows = [(o.state, _minutes(o.seconds), o.case.name, o.note) for o in outcomes]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = []
    for *cells, note in rows:
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
        lines.append("  ".join((*padded, note)))
    return "\n".join(lines)


def junit(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes as JUnit, for `tools/count_tests.py`."""
    suite = ET.Element("testsuite", name="fresh", tests=str(len(outcomes)), errors="0")
    for state, key in (("failed", "failures"), ("not here", "skipped")):
        suite.set(key, str(sum(outcome.state == state for outcome in outcomes)))
    for outcome in outcomes:
        case = ET.SubElement(
            suite, "testcase", classname="fresh", name=outcome.case.name,
            time=f"{outcome.seconds:.1f}",
        )  # fmt: skip
        if outcome.state != "passed":
            kind = "failure" if outcome.state == "failed" else "skipped"
            ET.SubElement(case, kind, message=outcome.note)
    return ET.tostring(suite, encoding="unicode")


def install() -> None:
    """Get debootstrap where it is missing."""
    if shutil.which("debootstrap") is None:
        subprocess.run(["apt-get", "-qq", "update"], check=True)  # noqa: S607 - root's own PATH
        subprocess.run(
            ["apt-get", "-qq", "install", "--yes", "--no-install-recommends", "debootstrap"],  # noqa: S607 - root's own PATH
            check=True,
        )


def main() -> int:
    """Run the chosen cases one after the other; exit with 1 when one failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", metavar="WORD", help="only cases with these words")
    parser.add_argument("--list", action="store_true", help="print the cases and do nothing")
    parser.add_argument(
        "--install", action="store_true", help="get debootstrap where it is missing"
    )
    parser.add_argument("--keep", action="store_true", help="leave the root folders behind")
    parser.add_argument("--folder", help="where the roots are made (default: a temporary folder)")
    args = parser.parse_args()
    cases = chosen(args.words)
    if args.list:
        print("\n".join(case.name for case in cases))
        return 0
    # Ended politely, it ends what runs in the root as well, and takes the root away.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    LOGS.mkdir(parents=True, exist_ok=True)
    if args.install:
        install()
    folder = Path(args.folder or tempfile.mkdtemp(prefix="stackproof-fresh-")).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    outcomes = []
    try:
        for case in cases:
            print(f"fresh: {case.name} ...", flush=True)
            outcome = run_case(case, folder, keep=args.keep)
            outcomes.append(outcome)
            print(f"fresh: {case.name}: {outcome.state}, {_minutes(outcome.seconds)}", flush=True)
            log = LOGS / f"{case.name}.log"
            if outcome.state == "failed" and log.exists():
                lines = log.read_text(errors="replace").splitlines()[-TAIL:]
                print("\n".join(f"    | {line}" for line in lines))
                print(f"fresh: all of it is in {log}")
    finally:
        if not args.folder and not args.keep:
            shutil.rmtree(folder)
        JUNIT.write_text(junit(outcomes))
    print(f"\nFresh machines, of {', '.join(DISTRIBUTIONS)}:\n\n{table(outcomes)}", flush=True)
    return int(any(outcome.state == "failed" for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
