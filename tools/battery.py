"""Run the battery: every test that `make test` leaves out, each file in a process of its own.

python tools/battery.py [--since REV] [FILE...]

Files that share nothing run side by side, the longest first; files of the machine (mounts,
clusters, launches) run after them, one at a time. A file that passed is not run again until
something changes on which it depends: its own text, the helpers and data of the tests, its room of
src/ and the rooms below. So a run that was stopped goes on. `--since` begins with the files whose
room changed since REV. FILE names some files alone, `bench/test_bench`, or a room, `bench`.

A test that fails is run once more, alone. If it passes then, its file is `unsteady`: an error,
unless tests/known-unsteady.tsv lists each such test. build/battery/ has the output of every file.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import msgspec

from stackproof.core.value import Value

ROOT = Path(__file__).resolve().parents[1]
TESTS = ROOT / "tests"
STATE = ROOT / "build" / "battery"
UNSTEADY = TESTS / "known-unsteady.tsv"
CHOICE = "battery or machine or hypothesis"
"""The marker expression: with the gate's `not battery and not machine` it covers every test.

Tests by hypothesis run in both: in the gate with the same examples always, here with new ones.
"""
FRESH = "fresh"
"""The row of README's commands on a machine that nobody prepared."""
MOST_UNSTEADY = 20
_OURS = re.compile(r"pytest\.mark\.(?:battery|machine)\b|^@given\b", re.MULTILINE)
_MACHINE = re.compile(r"pytest\.mark\.machine\b")
# The command line imports every room; so do fixtures of conftest.py that start verbs.
_EVERYTHING = re.compile(
    r"import cli\b|stackproof\.cli|\"stackproof\"|\bdocs\b|"
    r"\b(?:bench_folder|fabric_image|for_everybody|room|runtime|trees)\b"
)
_IMPORTED = re.compile(r"^\s*(?:from|import) (\w+)", re.MULTILINE)
_UNKNOWN_S = 30.0
_STOPPED = threading.Event()
# pytest: all passed; some failed; none was left after the choice.
_PASSED, _NONE = 0, 5


class Outcome(Value):
    """How a file of tests ended, in the state of the tree that `key` names."""

    key: str
    word: str
    seconds: float
    counts: tuple[int, int, int] = (0, 0, 0)
    tests: tuple[str, ...] = ()

    @property
    def is_kept(self) -> bool:
        """Return whether the file need not run again."""
        return self.word == "passed"


def read_text(file: str) -> str:
    """Return the text of a file of tests, named `room/test_x`."""
    return (TESTS / f"{file}.py").read_text(encoding="utf-8")


def list_files() -> tuple[str, ...]:
    """Return the files with tests of the battery, as `room/test_x`."""
    paths = sorted(TESTS.glob("*/test_*.py"))
    names = [path.relative_to(TESTS).with_suffix("").as_posix() for path in paths]
    return tuple(name for name in names if _OURS.search(read_text(name)))


def needs_the_machine(file: str) -> bool:
    """Return whether a file runs alone, since it uses what the machine has one of."""
    return file == FRESH or _MACHINE.search(read_text(file)) is not None


@functools.cache
def list_layers() -> tuple[tuple[str, ...], ...]:
    """Return the rooms of src/, layer by layer, the highest first (pyproject.toml)."""
    data = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (layers,) = (c["layers"] for c in data["tool"]["importlinter"]["contracts"] if "layers" in c)
    return tuple(tuple(re.findall(r"\w+", line)) for line in layers)


@functools.cache
def list_sources() -> Mapping[str, str]:
    """Return the digest of each file of the checkout that git does not ignore, by path."""
    done = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],  # noqa: S607 - the caller's git
        cwd=ROOT, stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    paths = sorted(filter(None, set(done.stdout.decode().split("\0"))))
    return {
        path: hashlib.sha256((ROOT / path).read_bytes()).hexdigest()
        for path in paths
        if (ROOT / path).is_file()
    }


@functools.cache
def has_everything_below(file: str) -> bool:
    """Return whether a file, or a helper that it imports, may use every room of src/."""
    if file == FRESH or file.partition("/")[0] not in {r for layer in list_layers() for r in layer}:
        return True
    if needs_the_machine(file):
        return True
    seen: set[Path] = set()
    waiting = [TESTS / f"{file}.py"]
    while waiting:
        path = waiting.pop()
        if path in seen or not path.is_file():
            continue
        seen.add(path)
        text = path.read_text(encoding="utf-8")
        if _EVERYTHING.search(text):
            return True
        waiting += [TESTS / f"{name}.py" for name in _IMPORTED.findall(text)]
    return False


def depends_on(file: str, path: str) -> bool:
    """Return whether the outcome of a file may change with a path of the checkout."""
    if path.startswith("tests/"):
        other = Path(path).name.startswith("test_") and path != f"tests/{file}.py"
        return path != UNSTEADY.relative_to(ROOT).as_posix() and not other
    if has_everything_below(file):
        return True
    if path.startswith("src/stackproof/"):
        room = path.split("/")[2]
        return room not in _list_rooms_above(file.partition("/")[0])
    return not path.startswith(("docs/", "benchmarks/", "demo/", "packaging/"))


@functools.cache
def _list_rooms_above(room: str) -> frozenset[str]:
    """Return the rooms that a room cannot import: those above it, and those beside it."""
    above: set[str] = set()
    for layer in list_layers():
        if room in layer:
            return frozenset(above | {*layer} - {room})
        above |= {*layer}
    return frozenset()


def make_key(file: str) -> str:
    """Return the digest of everything that a file depends on, and of the Python that runs it."""
    lines = [
        f"{path} {digest}" for path, digest in list_sources().items() if depends_on(file, path)
    ]
    return hashlib.sha256("\n".join([sys.version, *lines]).encode()).hexdigest()


def list_touched(revision: str) -> frozenset[str]:
    """Return the paths that differ from a revision; a wrong one ends the program."""
    done = subprocess.run(  # noqa: S603 - git, and one revision
        ["git", "diff", "--name-only", "-z", "--end-of-options", revision],  # noqa: S607 - the caller's git
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"error: git has no revision `{revision}`")
    return frozenset(filter(None, done.stdout.decode().split("\0")))


def order(
    files: Sequence[str], before: Mapping[str, Outcome], touched: frozenset[str]
) -> tuple[str, ...]:
    """Return files in the order in which they run: touched rooms first, then the longest."""

    def rank(file: str) -> tuple[bool, float, str]:
        room = file.partition("/")[0]
        places = (f"tests/{room}/", f"src/stackproof/{room}/")
        return (
            not any(path.startswith(places) for path in touched),
            -(before[file].seconds if file in before else _UNKNOWN_S),
            file,
        )

    return tuple(sorted(files, key=rank))


def load_state() -> dict[str, Outcome]:
    """Return how each file ended the last time that it ran, by its name.

    A damaged record, or one of another version of this program, is no record: the file runs again.
    """
    state: dict[str, Outcome] = {}
    for path in STATE.glob("*.json"):
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
            data = json.loads(path.read_text(encoding="utf-8"))
            state[data.pop("file")] = msgspec.convert(data, Outcome)
    return state


def save_outcome(file: str, outcome: Outcome) -> None:
    """Write how a file ended; a run that is stopped meanwhile leaves the older record."""
    path = STATE / f"{file.replace('/', '-')}.json"
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"file": file, **msgspec.to_builtins(outcome)}), encoding="utf-8")
    new.replace(path)


def _start(file: str, *options: str) -> tuple[int, Path]:
    """Run pytest on a file; return its exit code and its JUnit file."""
    stem = STATE / file.replace("/", "-")
    junit = stem.with_suffix(".xml")
    junit.unlink(missing_ok=True)
    if file == FRESH:
        argv = [sys.executable, str(ROOT / "tools" / "fresh.py"), "--install", "short"]
        junit = ROOT / "build" / "fresh.xml"
    else:
        argv = [
            sys.executable, "-m", "pytest", "-q", "-m", CHOICE, "--hypothesis-profile=chance",
            f"--junit-xml={junit}", "-o", f"cache_dir={stem}.cache", *options, f"tests/{file}.py",
        ]  # fmt: skip
    with stem.with_suffix(".log").open("ab" if options else "wb") as log:
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
        if needs_the_machine(file):  # these never meet, so that they may share what they build
            env["STACKPROOF_TESTS_CACHE"] = str(STATE / "cache")
        done = subprocess.run(  # noqa: S603 - pytest, on a file of this checkout
            argv, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False
        )
    return done.returncode, junit


def _read_junit(junit: Path) -> tuple[tuple[int, int, int], tuple[str, ...]]:
    """Return how many tests passed, failed and were skipped, and the names of those that failed."""
    if not junit.is_file():
        return (0, 1, 0), ()
    counts = [0, 0, 0]
    failed = []
    for case in ET.parse(junit).getroot().iter("testcase"):  # noqa: S314 - our own pytest wrote it
        kinds = {child.tag for child in case}
        bad = bool(kinds & {"failure", "error"})
        counts[1 if bad else 2 if "skipped" in kinds else 0] += 1
        if bad:
            failed.append(case.get("name", ""))
    return (counts[0], counts[1], counts[2]), tuple(failed)


def run_file(file: str, key: str) -> Outcome | None:
    """Run a file, its failures once more; return how it ended, None if ctrl-C ended it."""
    begin = time.monotonic()
    code, junit = _start(file)
    seconds = round(time.monotonic() - begin, 1)
    counts, failed = _read_junit(junit) if code != _NONE else ((0, 0, 0), ())
    word = "passed"
    if code not in {_PASSED, _NONE} and not _STOPPED.is_set():
        again = _start(file, "--last-failed")[0] if file != FRESH else code
        word = "unsteady" if again == _PASSED else "failed"
        if word == "unsteady":
            counts = (counts[0] + counts[1], 0, counts[2])
    if _STOPPED.is_set():
        return None
    outcome = Outcome(key=key, word=word, seconds=seconds, counts=counts, tests=failed)
    save_outcome(file, outcome)
    return outcome


def load_unsteady() -> dict[str, str]:
    """Return the list of tests that fail by chance: `room/test_x::test_y` and its whole line."""
    lines = UNSTEADY.read_text(encoding="utf-8").splitlines()[1:]
    return {line.partition("\t")[0]: line for line in lines}


def is_known(file: str, outcome: Outcome, known: Mapping[str, str]) -> bool:
    """Return whether the list has every test of a file that failed and then passed."""
    names = {f"{file}::{test.partition('[')[0]}" for test in outcome.tests}
    return outcome.word == "unsteady" and bool(names) and names <= {*known}


def render(
    outcomes: Mapping[str, Outcome], missing: Sequence[str], known: Mapping[str, str]
) -> str:
    """Return the table: how many files ended how, which did not pass, and all tests counted."""
    words = [outcome.word for outcome in outcomes.values()]
    lines = [
        "",
        f"{words.count('passed'):5} files passed",
        f"{words.count('failed'):5} failed",
        f"{words.count('unsteady'):5} failed, then passed again",
        f"{len(missing):5} not run",
        "",
    ]
    for file, outcome in sorted(outcomes.items()):
        if not outcome.is_kept:
            mark = " (known)" if is_known(file, outcome, known) else ""
            lines.append(f"{outcome.word}{mark}  {file}  {', '.join(outcome.tests)}")
    lines += [f"not run  {file}" for file in missing]
    if known:
        lines += ["", "known to be unsteady (tests/known-unsteady.tsv):", *known.values()]
    total = [sum(column) for column in zip(*(o.counts for o in outcomes.values()), strict=True)]
    passed, failed, skipped = total or (0, 0, 0)
    return "\n".join([*lines, "", f"{passed} passed, {failed} failed, {skipped} skipped"])


def run_all(files: Sequence[str], keys: Mapping[str, str]) -> dict[str, Outcome]:
    """Run files, those without the machine side by side; return the outcomes until ctrl-C."""
    outcomes: dict[str, Outcome] = {}

    def take(file: str, outcome: Outcome | None) -> None:
        if outcome is not None:
            outcomes[file] = outcome
            print(f"{outcome.word:9}{outcome.seconds:7.0f} s  {file}", flush=True)

    alone = [file for file in files if needs_the_machine(file)]
    pool = ThreadPoolExecutor(max_workers=max(1, min(os.cpu_count() or 1, 4)))
    try:
        running = {
            pool.submit(run_file, file, keys[file]): file for file in files if file not in alone
        }
        for future in as_completed(running):
            take(running[future], future.result())
        for file in alone:
            take(file, run_file(file, keys[file]))
    except KeyboardInterrupt:
        print("stopped: the same command goes on", file=sys.stderr)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    return outcomes


def _stop(*_: object) -> None:
    """Take no child's end for an outcome any more: ctrl-C reaches them all."""
    _STOPPED.set()
    raise KeyboardInterrupt


def choose(words: Sequence[str]) -> tuple[str, ...]:
    """Return the files that words name, all of them for none; an unknown word ends the program."""
    files = (*list_files(), FRESH)
    names = [word.removeprefix("tests/").removesuffix(".py") for word in words]
    unknown = [name for name in names if name not in files and not (TESTS / name).is_dir()]
    if unknown:
        sys.exit(f"error: the battery has no file {', '.join(unknown)}")
    chosen = [f for f in files if not names or any(f == n or f.startswith(f"{n}/") for n in names)]
    return tuple(chosen)


def main() -> None:
    """Run what the command line names and print the table; exit with 1 unless everything passed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--since", metavar="REV", default="")
    words = parser.parse_args()
    signal.signal(signal.SIGINT, _stop)
    STATE.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(STATE / "cache", ignore_errors=True)
    before = load_state()
    touched = list_touched(words.since) if words.since else frozenset()
    files = order(choose(words.files), before, touched)
    keys = {file: make_key(file) for file in files}
    kept = {
        f: before[f]
        for f in files
        if f in before and before[f].is_kept and before[f].key == keys[f]
    }
    if kept:
        print(f"{len(kept)} of {len(files)} files passed before, and nothing changed for them")
    outcomes = {**kept, **run_all([file for file in files if file not in kept], keys)}
    missing = [file for file in files if file not in outcomes]
    known = load_unsteady()
    print(render(outcomes, missing, known))
    bad = [f for f, o in outcomes.items() if not o.is_kept and not is_known(f, o, known)]
    sys.exit(1 if bad or missing else 0)


if __name__ == "__main__":
    main()
