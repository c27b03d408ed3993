"""What a file looks for changed in place by patchelf, and the file read again afterwards."""

from __future__ import annotations

import os
from collections.abc import Mapping

from stackproof.core.command import Command
from stackproof.core.effects import run
from stackproof.core.errors import Location, Reason, fail
from stackproof.core.value import replace
from stackproof.linking.effects.view import RootView
from stackproof.linking.elf import ElfFile

_TOOL_TIMEOUT_S = 120.0
_KEPT = (
    "soname", "needed", "exports", "more_exports", "imports", "objects", "version_needs",
    "version_definitions", "interpreter", "rpath", "runpath",
)  # fmt: skip


def read(path: str) -> ElfFile:
    """Return what an ELF file of this machine says; raises `StackproofError` like reading does."""
    view = RootView()
    file = view.look(os.path.abspath(path))
    if file is None:
        raise fail(Reason.FILE_MISSING, f"`{path}` does not exist", where=Location(file=path))
    return view.elf(file)


def seal(
    path: str, rpath: str, *, soname: str = "", needed: Mapping[str, str] | None = None,
    asks: str = "",
) -> None:  # fmt: skip
    """Give a file a DT_RPATH, which comes before LD_LIBRARY_PATH, in the place of what it has.

    With a `soname` it gets that, by `needed` names of libraries that it needs are exchanged, and
    `asks` is one that it needs besides. patchelf 0.14 mixes up changes that one call asks for, so
    that each has its own. Raises `StackproofError`: TOOL_MISSING without patchelf, BUILD_FAILED
    when it damaged the file.
    """
    before, new = read(path), needed or {}
    words = [word for pair in new.items() for word in ("--replace-needed", *pair)]
    calls = [
        ["--set-soname", soname] if soname not in {"", before.soname} else [], words,
        ["--force-rpath", "--set-rpath", rpath], ["--add-needed", asks] if asks else [],
    ]  # fmt: skip
    for options in filter(None, calls):
        run.check(Command(argv=("patchelf", *options, path), timeout_s=_TOOL_TIMEOUT_S))
    expected = replace(
        before,
        soname=soname or before.soname,
        needed=(*([asks] if asks else []), *(new.get(name, name) for name in before.needed)),
        version_needs=tuple(
            need._replace(library=new.get(need.library, need.library))
            for need in before.version_needs
        ),
        rpath=rpath,
        runpath=None,
    )
    after = read(path)
    if any(getattr(expected, word) != getattr(after, word) for word in _KEPT):
        raise fail(
            Reason.BUILD_FAILED,
            "patchelf changed more, or less, than names and the search path",
            where=Location(file=path),
            hint="use another release of patchelf: some damage libraries",
        )
