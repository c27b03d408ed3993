"""What Spack says while it installs: lines to progress, to failures, and to a log's first error.

The lines are those of lib/spack/spack/installer.py (github.com/spack/spack, v0.23 and v1.1):

    ==> Installing zlib-1.3.1-<hash> [4/7]
    ==> zlib: Executing phase: 'install'
    [+] /user-environment/linux-debian12-zen3/zlib-1.3.1-<hash>
    ==> Error: ProcessError: Command exited with status 2:
    See build log for details:
      /build/stage/spack-stage-zlib-1.3.1-<hash>/spack-build-out.txt

and, of the installer that Spack has besides since 1.1 (lib/spack/spack/new_installer.py):

    <hash> zlib@1.3.1: staging
    <hash> zlib@1.3.1: finished
    ==> Error: The following packages failed to install:
    zlib@1.3.1/<hash>: /build/stage/…/spack-build-out.txt

which since 1.2 says

    [ ] <hash> zlib@1.3.1 staging (0s)
    [+] <hash> zlib@1.3.1 /user-environment/linux-debian12-zen3/zlib-1.3.1-<hash> (3s)
    [x] <hash> zlib@1.3.1 failed: /build/stage/…/spack-stage-zlib-1.3.1-<hash>-<word>.log (1s)
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

from msgspec import field

from stackproof.core.errors import Problem, Reason
from stackproof.core.value import Value, replace

_NAME = (
    r"(?P<name>[a-z0-9][a-z0-9_-]{0,99}?)-(?P<version>\d[^/\s]{0,99}?|[^-/\s]{1,99})"
    r"-(?P<hash>[a-z2-7]{32})"
)
_INSTALLING = re.compile(rf"==> Installing {_NAME}(?: \[(?P<number>\d+)/(?P<total>\d+)\])?")
_INSTALLED = re.compile(r"\[\+\] (?P<prefix>/\S*)(?: \((?P<external>.*)\))?")
_PHASE = re.compile(r"==> (?P<name>\S+): Executing phase: '(?P<phase>\w+)'")
_STATE = re.compile(
    r"(?P<hash>[a-z2-7]{7,32}) (?P<name>[a-z0-9_-]+)@(?P<version>\S+): (?P<state>.+)"
)
_NEWER = re.compile(
    r"\[(?P<mark>[ +x])\] (?P<hash>[a-z2-7]{7,32}) (?P<name>[a-z0-9_-]+)@\S+ (?P<state>.+) \(\d+s\)"
)
_ENDS = {"+": "finished", "x": "failed"}
_ERROR = re.compile(r"==> Error: (?P<text>.*)")
_LOG = re.compile(
    r"^(?:\s+|.*: )(?P<path>/\S*/spack-"
    r"(?:(?:build|configure|cmake)-\S*out\.txt|stage-\S+\.log))\s*$"
)
_STAGE = re.compile(rf"spack-stage-{_NAME}[/-]")
_PREFIX = re.compile(rf"(?:^|/){_NAME}$")
# gpg(1) on standard error; Spack itself only says that there is no binary (v1.1).
_SIGNATURE = re.compile(r"gpg: (?:(?P<bad>BAD signature)|(?P<unknown>Can't check signature)).*")
_KEY = re.compile(r"gpg: +using \w+ key (?P<key>[0-9A-F]+)")
_FROM_SOURCE = re.compile(rf"==> No binary for {_NAME} found: installing from source")
# The first thing that went wrong, in the words of compilers, linkers, make, configure, CMake,
# Meson, Cargo and Python; a summary such as make's comes last of them and is only taken alone.
_FIRST = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?:^|[\s:])(?:fatal )?error(?:\[\w+\])?: ",
        r"undefined reference to |cannot find -l|multiple definition of ",
        r"CMake Error|^configure: error|ERROR: ",
        r"^\w*(?:Error|Exception): ",
        r"No space left on device|Killed|Segmentation fault|cannot allocate memory",
        r": (?:command )?not found|No such file or directory|Permission denied",
    )
)
_LAST = re.compile(r"\*\*\* |^FAILED: |ninja: build stopped")
_BEFORE, _AFTER = 2, 7


class Progress(Value):
    """How far an installation is: packages by hash that are done, the running ones by name.

    `total` counts externals and what was installed before as well, as Spack does; 0 at first.
    """

    total: int = 0
    done: frozenset[str] = frozenset()
    running: tuple[str, ...] = ()
    phase: str = ""

    @property
    def left(self) -> int:
        """Return how many packages have not begun."""
        return max(0, self.total - len(self.done) - len(self.running))

    @property
    def text(self) -> str:
        """Return it in words: `libfabric (configure), xz; 12 left`."""
        names = list(self.running)
        if names and self.phase:
            names[-1] = f"{names[-1]} ({self.phase})"
        shown = ", ".join(names)
        return "; ".join(
            part for part in (shown, f"{self.left} left" if self.total else "") if part
        )


def advance(progress: Progress, line: str) -> Progress:
    """Return the progress after one more line of Spack's output."""
    if found := _INSTALLING.match(line):
        total = int(found["total"] or progress.total)
        name = found["name"]
        running = (*(n for n in progress.running if n != name), name)
        return replace(progress, total=max(total, progress.total), running=running, phase="")
    if found := _INSTALLED.match(line):
        prefix, external = found["prefix"], found["external"]
        named = _PREFIX.search(prefix)
        key = named["hash"] if named else (external or prefix)
        running = tuple(n for n in progress.running if not named or n != named["name"])
        return replace(
            progress,
            done=progress.done | {key},
            total=max(progress.total, len(progress.done | {key})),
            running=running,
            phase="",
        )
    if found := _PHASE.match(line):
        running = (*(n for n in progress.running if n != found["name"]), found["name"])
        return replace(progress, running=running, phase=found["phase"])
    if found := _STATE.fullmatch(line) or _NEWER.fullmatch(line):
        return _at_state(progress, found)
    if _ERROR.match(line):
        return replace(progress, running=progress.running[:-1], phase="")
    return progress


def join_progress(every: Iterable[Progress]) -> Progress:
    """Return the progress of several installations; what two of them want counts for each."""
    parts = list(every)
    return Progress(
        total=sum(part.total for part in parts),
        done=frozenset(f"{number} {key}" for number, part in enumerate(parts) for key in part.done),
        running=tuple(dict.fromkeys(name for part in parts for name in part.running)),
        phase=parts[0].phase if len(parts) == 1 else "",
    )


def _at_state(progress: Progress, found: re.Match[str]) -> Progress:
    state = _ENDS.get(found.groupdict().get("mark", ""), found["state"])
    others = tuple(name for name in progress.running if name != found["name"])
    if state == "failed":
        return replace(progress, running=others, phase="")
    if state == "finished":
        done = progress.done | {found["hash"]}
        return replace(progress, done=done, running=others, phase="")
    return replace(progress, running=(*others, found["name"]), phase=state)


class PackageFailure(Value):
    """A package that was not installed; `log` is the path of its build log in the sandbox."""

    message: str
    package: str = ""
    version: str = ""
    hash: str = ""
    log: str = ""
    lines: tuple[str, ...] = field(default=())


def failures(text: str) -> tuple[PackageFailure, ...]:
    """Return every failure that Spack's output tells of, those with a build log first."""
    found: list[PackageFailure] = []
    package: re.Match[str] | None = None
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if begun := _INSTALLING.match(line):
            package = begun
        error = _ERROR.match(line)
        if not error:
            continue
        block = _block(lines, number)
        path = next((m["path"] for m in map(_LOG.match, block) if m), "")
        named = _STAGE.search("\n".join(block)) or (package if path else None)
        found.append(
            PackageFailure(
                message=error["text"].rstrip(":"),
                package=named["name"] if named else "",
                version=named["version"] if named else "",
                hash=named["hash"] if named else "",
                log=path,
                lines=tuple(entry for entry in block[1:] if entry.strip()),
            )
        )
    return tuple(sorted(found, key=lambda failure: not failure.log))


def _block(lines: Sequence[str], start: int) -> list[str]:
    """Return the lines of one message: up to the next one of Spack's, or a log's path."""
    block = [lines[start]]
    for line in lines[start + 1 :]:
        if line.startswith(("==> ", "[+] ", "[-] ")):
            break
        block.append(line)
        if _LOG.match(line):
            break
    return block


def first_error(log: str) -> tuple[str, ...]:
    """Return the lines around the first error of a build log, at most ten; () for none."""
    lines = log.splitlines()
    at = next((n for n, line in enumerate(lines) if _is_error(line)), None)
    if at is None:
        at = next((n for n, line in enumerate(lines) if _LAST.search(line)), None)
    if at is None:
        return ()
    return tuple(lines[max(0, at - _BEFORE) : at + 1 + _AFTER])


def _is_error(line: str) -> bool:
    """Return whether a line tells of an error, and not of a flag, a test or a file named so."""
    if line.startswith(("checking ", "-- ", "make[", "==> ")) or "-Werror" in line:
        return bool(re.search(r"(?:^|\s)\S+:\d+:(?:\d+:)? (?:fatal )?error: ", line))
    return any(pattern.search(line) for pattern in _FIRST)


class Signatures(Value):
    """What was wrong with signatures of a cache: lines of gpg, and keys that are not known.

    `built` are the packages that were built from source, those with such an entry among them.
    """

    bad: tuple[str, ...] = ()
    unknown_keys: tuple[str, ...] = ()
    built: tuple[str, ...] = ()


def signatures(text: str) -> Signatures:
    """Return what the output of an installation says of signatures."""
    bad: dict[str, None] = {}
    unknown: dict[str, None] = {}
    built: dict[str, None] = {}
    key = ""
    for line in text.splitlines():
        if named := _KEY.match(line):
            key = named["key"]
        elif told := _SIGNATURE.match(line):
            if told["bad"]:
                bad[line.strip()] = None
            else:
                unknown[key] = None
        elif source := _FROM_SOURCE.match(line):
            built[f"{source['name']}@{source['version']}"] = None
    return Signatures(bad=tuple(bad), unknown_keys=tuple(unknown), built=tuple(built))


# --------------------------------------------------------------------------------------------------
# Sources that could not be had. The lines are those of lib/spack/spack/stage.py and
# fetch_strategy.py (v0.23 and v1.1):
#
#     All fetchers failed for spack-stage-libfabric-2.1.0-<hash>
#         https://…/libfabric-2.1.0.tar.bz2: DetailedURLError: GET https://… errored with: …
#     sha256 checksum failed for /build/stage/…
#     Expected 97df… but got 1a66…. File size = 3242640 bytes. Contents = b'…'

_OF_STAGE = (
    r"(?:resource-\S+-)?spack-stage-"
    r"(?P<name>[a-z0-9][a-z0-9_-]*?)-(?P<version>\d\S*?|[^-\s]+)-[a-z2-7]{32}"
)
_NOT_HAD = re.compile(rf"All fetchers failed for {_OF_STAGE}")
_OTHER_FILE = re.compile(rf"checksum failed for \S*?/{_OF_STAGE}")
_TRIED = re.compile(r"\s+(?P<url>[a-z0-9+]+://\S+): (?P<why>.*)")
_SHOWN = 3


def source_problems(text: str) -> tuple[Problem, ...]:
    """Return a problem for each package whose source Spack could not get, in its own order.

    NO_NETWORK where no address answered, DIGEST_MISMATCH where one gave another file.
    """
    found: dict[str, Problem] = {}
    lines = text.splitlines()
    for number, line in enumerate(lines):
        begun = _NOT_HAD.search(line) or _OTHER_FILE.search(line)
        if begun is None:
            continue
        package = f"{begun['name']}@{begun['version']}"
        if package in found:
            continue
        others = itertools.takewhile(
            lambda entry: not entry.startswith("==> ") and not _NOT_HAD.search(entry),
            lines[number + 1 :],
        )
        block = [line, *others]
        changed = any("checksum failed" in entry for entry in block)
        found[package] = (
            _changed_source(package, block) if changed else _missing_source(package, block)
        )
    return tuple(found.values())


def _missing_source(package: str, block: list[str]) -> Problem:
    tried = [match for match in map(_TRIED.match, block) if match]
    shown = [f"{match['url'][:120]}: {match['why'].rpartition(': ')[2]}" for match in tried]
    return Problem(
        reason=Reason.NO_NETWORK,
        message=f"the source of `{package}` cannot be had",
        detail="\n".join(shown[:_SHOWN]) or None,
        hint="connect to a network, or name a mirror that has it (--mirror); `stackproof mirror "
        "create` fills one where there is a network",
    )


def _changed_source(package: str, block: list[str]) -> Problem:
    words = [entry.strip() for entry in block if "Expected" in entry]
    return Problem(
        reason=Reason.DIGEST_MISMATCH,
        message=f"the source of `{package}` is not the file that its package names",
        detail="\n".join(_without_contents(word) for word in words[:_SHOWN]) or None,
        hint="a mirror, or the address, serves another file under this name: find out why",
    )


def _without_contents(text: str) -> str:
    """Return what Spack says of two digests, without the beginning of the file that it shows."""
    return re.sub(r" Contents = .*?(?= URL = |$)", "", text)
