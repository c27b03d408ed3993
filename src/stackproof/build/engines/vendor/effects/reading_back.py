"""The step that changes libraries, and each of them read again: patchelf does what it was asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from stackproof.build.effects.workspace import Installing
from stackproof.build.engines.vendor import closure
from stackproof.build.engines.vendor.closure import LibraryChange
from stackproof.build.engines.vendor.effects import folder
from stackproof.build.engines.vendor.stack import VendorLock, VendorStack
from stackproof.core.effects import run
from stackproof.core.errors import Location, Reason, fail
from stackproof.core.monitor import Event, Monitor
from stackproof.linking import elf
from stackproof.linking.elf import ElfFile

_SAME = (
    "exports",
    "more_exports",
    "imports",
    "version_definitions",
    "objects",
    "soname",
    "machine",
)


def installer(
    stack: VendorStack, lock: VendorLock, blobs: Mapping[str, Path]
) -> Callable[[Installing, Monitor], None]:
    """Return what runs the command of the step and reads all libraries of a lock afterwards.

    `blobs` are the files as they came, by digest. It raises `StackproofError` (BUILD_FAILED) for a
    library in which more changed, or less, than was asked for.
    """
    digests = {one.target: one.sha256 for package in lock.packages for one in package.files}
    asked = closure.changes(stack, lock)

    def install(job: Installing, monitor: Monitor) -> None:
        run.check(job.command, log=job.log)
        for target, change in asked.items():
            before, after = _read(blobs[digests[target]]), _read(job.space.store / target)
            if not is_as_asked(before, after, change):
                raise fail(
                    Reason.BUILD_FAILED,
                    "patchelf changed more, or less, than names and the search path",
                    where=Location(file=target),
                    hint="use another release of patchelf: some damage libraries",
                )
        text = f"{len(asked)} libraries and programs read again"
        monitor(Event(what="progress", name=job.step.name, text=text))

    return install


def _read(path: Path) -> ElfFile:
    with folder.opened(path) as source:
        return elf.read(source)


def is_as_asked(before: ElfFile, after: ElfFile, change: LibraryChange) -> bool:
    """Return whether a library differs from what it was in what was asked for, and no more."""
    needed = [change.replace.get(name, name) for name in before.needed]
    versions = [
        need._replace(library=change.replace.get(need.library, need.library))
        for need in before.version_needs
    ]
    return (
        all(getattr(before, word) == getattr(after, word) for word in _SAME)
        and sorted(after.needed) == sorted((*needed, *change.add))
        and [name for name in after.needed if name not in change.add] == needed
        and list(after.version_needs) == versions
        and (after.rpath, after.runpath) == (change.rpath, None)
    )
