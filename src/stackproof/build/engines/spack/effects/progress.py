"""A running `spack install`: its lines to events, its failure to an error that shows the cause."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from stackproof.build.effects.workspace import Workspace
from stackproof.build.engines.spack import layout
from stackproof.build.engines.spack import output as spack_output
from stackproof.build.engines.spack.output import PackageFailure, Progress
from stackproof.core.command import Command, Completed
from stackproof.core.effects import files
from stackproof.core.effects import run as core_run
from stackproof.core.errors import Problem, Reason, StackproofError, fail
from stackproof.core.monitor import Event, Monitor

_EVERY_S = 0.2


class Reader:
    """Takes the lines of `spack install` and tells a monitor how far it is."""

    def __init__(self, name: str, monitor: Monitor, parts: Sequence[str] = ()) -> None:
        self._name = name
        self._parts = parts
        self._monitor = monitor
        self._each = dict.fromkeys(parts or ("",), Progress())
        self._progress = Progress()
        self._told_at = 0.0

    def __call__(self, line: str) -> None:
        """Take one line; `parts` are the names that it may have in front."""
        part, text = layout.split_label(line, self._parts)
        self._each[part] = spack_output.advance(self._each.get(part, Progress()), text)
        after = spack_output.join_progress(self._each.values())
        finished = len(after.done) > len(self._progress.done)
        changed = after != self._progress
        self._progress = after
        now = time.monotonic()
        if changed and (finished or now - self._told_at > _EVERY_S):
            self._told_at = now
            event = Event(
                what="progress", name=self._name, text=after.text,
                done=len(after.done), total=after.total or None,
            )  # fmt: skip
            self._monitor(event)


def failure(
    calls: Mapping[str, Command], done: Completed, log: Path, space: Workspace, mount: str
) -> StackproofError:
    """Return the error for an installation that failed: which package, its log, how to repeat it.

    `calls` are what was run, by the name that its lines have in front. The build log is copied
    beside the other logs, since the stage is removed by the next try.
    """
    problems = [
        _problem(entry, calls.get(name, first), log, space, mount)
        for first in (next(iter(calls.values())),)
        for name, text in _lines_by_part(done, tuple(calls)).items()
        for entry in spack_output.failures(text)
        if entry.package
    ]
    if not problems:
        return core_run.failure(next(iter(calls.values())), done, log=log)
    seen: dict[str, Problem] = {}
    for problem in problems:
        seen.setdefault(problem.message, problem)
    return StackproofError(*seen.values())


def _lines_by_part(done: Completed, parts: Sequence[str]) -> dict[str, str]:
    text = f"{done.stdout.decode(errors='replace')}\n{done.stderr.decode(errors='replace')}"
    return layout.group_lines(text, parts)


def check_signatures(
    done: Completed, log: Path, monitor: Monitor, parts: Sequence[str] = ()
) -> None:
    """Raise `StackproofError` (BAD_SIGNATURE) when an entry of a cache was not what was signed.

    Spack has built such packages from source, so the store is sound; but somebody has changed the
    cache. Entries that were signed with a key that is not known are only told of.
    """
    found = spack_output.signatures("\n".join(_lines_by_part(done, parts).values()))
    built = ", ".join(found.built) or "none"
    if found.bad:
        raise fail(
            Reason.BAD_SIGNATURE,
            "a cache holds entries that were changed after they were signed",
            detail="\n".join((*found.bad, f"built from source instead: {built}")),
            hint="nothing of them was used; leave the cache out or rebuild it, then run the "
            f"same command again; all that was said is in `{log}`",
        )
    if found.unknown_keys:
        keys = ", ".join(key or "?" for key in found.unknown_keys)
        text = f"not used, their key is not known ({keys}): name it as `public_key`; built: {built}"
        monitor(Event(what="note", name="signatures", text=text))


def _problem(
    entry: PackageFailure, command: Command, log: Path, space: Workspace, mount: str
) -> Problem:
    kept = log
    shown: tuple[str, ...] = entry.lines[-8:]
    path = space.on_host(entry.log, mount) if entry.log else None
    if path is not None:
        content = path.read_bytes()
        kept = space.logs / f"{entry.package}-{entry.version}-{entry.hash[:7]}.log"
        files.write(kept, content)
        lines = content.decode(errors="replace").splitlines()
        shown = spack_output.first_error("\n".join(lines)) or tuple(lines[-10:])
    full = any("No space left on device" in line for line in shown)
    return fail(
        Reason.DISK_FULL if full else Reason.BUILD_FAILED,
        f"`{entry.package}@{entry.version}` was not installed: {entry.message}",
        detail="\n".join(shown) or None,
        hint=f"the whole log is in `{kept}`; repeat it with "
        f"`stackproof shell {space.home.name} -- {_repeat(command, entry)}`",
    ).problems[0]


def _repeat(command: Command, entry: PackageFailure) -> str:
    """Return the call of Spack that installs one package of the same environment again."""
    words = list(command.argv)
    where = words[words.index("-e") : words.index("-e") + 2] if "-e" in words else []
    return shlex.join(
        ["spack", *where, "install", "--keep-stage", "--only=package", f"/{entry.hash[:10]}"]
    )
