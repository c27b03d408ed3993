"""What a file looks for changed in place by patchelf, and the file read again afterwards."""

from __future__ import annotations

import os

from stackproof.core.command import Command
from stackproof.core.effects import run
from stackproof.core.errors import Location, Reason, fail
from stackproof.linking.effects.view import RootView
from stackproof.linking.elf import ElfFile

_TOOL_TIMEOUT_S = 120.0
_KEPT = ("soname", "needed", "exports", "version_needs", "version_definitions", "interpreter")


def read(path: str) -> ElfFile:
    """Return what an ELF file of this machine says; raises `StackproofError` like reading does."""
    view = RootView()
    file = view.look(os.path.abspath(path))
    if file is None:
        raise fail(Reason.FILE_MISSING, f"`{path}` does not exist", where=Location(file=path))
    return view.elf(file)


def seal(path: str, rpath: str) -> None:
    """Give a file a DT_RPATH, which comes before LD_LIBRARY_PATH, in the place of what it has.

    patchelf 0.14 mixes up changes that one call asks for, so that this asks for one. Raises
    `StackproofError`: TOOL_MISSING without patchelf, BUILD_FAILED when it damaged the file.
    """
    before = read(path)
    argv = ("patchelf", "--force-rpath", "--set-rpath", rpath, path)
    run.check(Command(argv=argv, timeout_s=_TOOL_TIMEOUT_S))
    after = read(path)
    same = all(getattr(before, word) == getattr(after, word) for word in _KEPT)
    if not same or after.rpath != rpath or after.runpath is not None:
        raise fail(
            Reason.BUILD_FAILED,
            "patchelf changed more, or less, than the search path",
            where=Location(file=path),
            hint="use another release of patchelf: some damage libraries",
        )


def ask_for(path: str, name: str) -> None:
    """Let a file need one library more, before all others; raises as `seal` does."""
    before = read(path)
    run.check(Command(argv=("patchelf", "--add-needed", name, path), timeout_s=_TOOL_TIMEOUT_S))
    after = read(path)
    kept = (*(word for word in _KEPT if word != "needed"), "rpath", "runpath")
    same = all(getattr(before, word) == getattr(after, word) for word in kept)
    if not same or sorted(after.needed) != sorted((name, *before.needed)):
        raise fail(
            Reason.BUILD_FAILED,
            f"patchelf changed more, or less, than the need for `{name}`",
            where=Location(file=path),
            hint="use another release of patchelf: some damage libraries",
        )
