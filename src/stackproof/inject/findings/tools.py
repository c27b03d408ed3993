"""Tools of MPI's profiling interface: what they take, whether they are reached, and for which ABI.

A tool defines `MPI_Send`, and calls the MPI's own as `PMPI_Send` (MPI 4.1, chapter 15.2). Score-P
and mpiP are such; LD_PRELOAD puts them before the MPI.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from stackproof.core.errors import StackproofError
from stackproof.inject.findings.symbols import InjectionAttempt
from stackproof.inject.model import Cause, Effect, Finding
from stackproof.inject.program import shown_abis
from stackproof.linking.elf import ElfFile
from stackproof.linking.loader import MappedObject
from stackproof.mpi import abi

_SHOWN = 4


def tool_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield the tools that a program loads, and those that do not fit its MPI."""
    objects = case.after.objects
    for loaded in objects[1:]:
        if not is_tool(loaded.elf):
            continue
        yield _described(case, loaded)
        shown = shown_abis(case.view, loaded) or _promised(loaded.elf)
        main = case.main
        if main is not None and shown and main.family.abi not in shown:
            name, words = next(iter(shown.items()))
            yield Finding(
                cause=Cause.OTHER_ABI,
                effect=Effect.FAILS,
                message=f"the tool `{loaded.path}` is compiled for the {name} ABI ({words}), "
                f"`{main.path}` is {main.family.title} ({main.shown})",
                file=loaded.path,
                provider=main.path,
                remedy="compile the tool with the MPI that runs the program, or take it away",
            )


def _promised(elf: ElfFile) -> dict[str, str]:
    """Return the ABI that the name of a tool's own MPI library says, where its code shows none."""
    named = ((abi.abi_of_name(name), name) for name in elf.needed)
    return {promise[0].value: f"it asks for `{name}`" for promise, name in named if promise}


def is_tool(elf: ElfFile) -> bool:
    """Return true for a library that takes calls of MPI and hands them to the MPI behind it."""
    return not elf.is_program and abi.calls_below(elf) and bool(_taken(elf))


def _taken(elf: ElfFile) -> list[str]:
    return sorted(name for name in elf.exports if name.startswith("MPI_"))


def _described(case: InjectionAttempt, loaded: MappedObject) -> Finding:
    taken = _taken(loaded.elf)
    more = f" and {len(taken) - _SHOWN} more" if len(taken) > _SHOWN else ""
    first = case.scope.provider("MPI_Init") if "MPI_Init" in taken else None
    reached = first is None or first.path == loaded.path
    behind = f"; it comes behind `{first.path}`, so that nothing calls it" if first else ""
    behind = "" if reached else behind
    return Finding(
        cause=Cause.TOOL,
        effect=Effect.NOTE,
        message=f"`{posixpath.basename(loaded.path)}` is a tool of MPI's profiling interface: it "
        f"takes {', '.join(taken[:_SHOWN])}{more}, and calls the MPI's own (`PMPI_…`){behind}",
        file=loaded.path,
        symbols=tuple(taken),
        remedy="" if reached else f"LD_PRELOAD={loaded.path}",
    )


def named_tool(case: InjectionAttempt) -> str:
    """Return the path of a tool that was named as the replacement, empty for none."""
    for folder in case.replacement.folders:
        for name in case.replacement.named:
            file = case.view.look(posixpath.join(folder, name))
            try:
                if file is not None and is_tool(case.view.elf(file)):
                    return posixpath.join(folder, name)
            except StackproofError:
                continue
    return ""
