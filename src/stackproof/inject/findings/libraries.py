"""Libraries of a replacement that would come from elsewhere, and plug-ins that would not open.

A DT_RUNPATH comes after LD_LIBRARY_PATH: where the program's own path has a libfabric, an injected
MPI takes that one and not the one that it was made with. Symbols and versions may all fit, and the
MPI still find no provider in it: seen with MPICH 4.3.1 and 4.0.3 over the libfabric of Intel MPI.
"""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Iterator

from stackproof.core.errors import StackproofError
from stackproof.inject.attempt import InjectionAttempt
from stackproof.inject.model import Cause, Effect, Finding
from stackproof.inject.program import shown_abis
from stackproof.inject.ways import inner_folders
from stackproof.linking.elf import ElfFile
from stackproof.linking.loader import Closure, MappedObject, Scope, elf_at, missing_nodes
from stackproof.linking.loader.binding import unbound_of
from stackproof.mpi import abi

# --------------------------------------------------------------------------------------------------
# Tools of MPI's profiling interface: what they take, whether they are reached, and for which ABI.
#
# A tool defines `MPI_Send`, and calls the MPI's own as `PMPI_Send` (MPI 4.1, chapter 15.2). Score-P
# and mpiP are such, and EZTrace, which finds the MPI's own by dlsym(3). LD_PRELOAD puts them before
# the MPI.

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
        f"takes {', '.join(taken[:_SHOWN])}{more}, and calls the MPI's own{behind}",
        file=loaded.path,
        symbols=tuple(taken),
        remedy="" if reached else f"LD_PRELOAD={loaded.path}",
    )


def named_tool(case: InjectionAttempt) -> str:
    """Return the path of a tool that was named as the replacement, empty for none."""
    for folder in case.replacement.folders:
        for name in case.replacement.named:
            elf = elf_at(case.view, posixpath.join(folder, name))
            if elf is not None and is_tool(elf):
                return posixpath.join(folder, name)
    return ""


# What carries messages, and what plug-ins are opened by; of libz any one will do.
_CARRIES = re.compile(r"lib(?:fabric|uc[pstm]|cxi|psm2?|pmix|xpmem)\.so.*")


def mixed_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield every library that an injected one takes from elsewhere and has beside itself."""
    replacement, after = case.replacement, case.after
    own = {
        name: posixpath.join(folder, name)
        for folder in inner_folders(replacement)
        for name in case.view.listing(folder)
    }
    seen = set()
    for edge in after.edges:
        if edge.to is None or edge.name not in own or not _CARRIES.fullmatch(edge.name):
            continue
        taken, asking = after.objects[edge.to], after.objects[edge.by]
        if replacement.owns(taken.path) or not case.owns(asking.path):
            continue
        if taken.number not in seen:
            seen.add(taken.number)
            yield Finding(
                cause=Cause.MIXED,
                effect=Effect.CANNOT_TELL,
                message=f"`{edge.name}` would be `{taken.path}`, not the one that the replacement "
                "brings",
                file=asking.path,
                provider=taken.path,
                remedy=f"put `{posixpath.dirname(own[edge.name])}` first in LD_LIBRARY_PATH",
            )


_MOST = 500


def plugin_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield the plug-ins that the program could not open, by reason: MPI goes on without them."""
    if case.after.missing or case.after.unreadable:
        return
    caller = next((o for o in case.after.objects if case.replacement.owns(o.path)), None)
    if caller is None:
        return
    groups: dict[str, list[str]] = {}
    for path in itertools.islice(case.replacement.plugins(case.view), _MOST):
        why = fault_of(case.after, path, caller.number, case.scope)
        if why:
            groups.setdefault(why, []).append(path)
    for why, paths in groups.items():
        names = ", ".join(f"`{posixpath.basename(path)}`" for path in paths)
        yield Finding(
            cause=Cause.PLUGIN,
            effect=Effect.NOTE,
            message=f"the program cannot open {names}: {why}",
            file=paths[0],
        )


def fault_of(closure: Closure, path: str, caller: int, below: Scope | None = None) -> str:
    """Return why an object of a closure could not open a plug-in, empty when it can.

    `below` is the scope of the closure, for those who have it already.
    """
    try:
        opened = closure.opened(path, caller)
    except StackproofError as error:
        return error.problems[0].message
    if opened is None:
        return ""
    known = len(closure.objects)
    missing = sorted({edge.name for edge in opened.missing})
    if missing:
        return f"{', '.join(f'`{name}`' for name in missing)} not found"
    for node in missing_nodes(opened, known):
        return f"version `{node.need.name}` is not in `{node.provider.path}`"
    scope = Scope(opened, below)
    for loaded in opened.objects[known:]:
        for entry in unbound_of(loaded, scope):
            if entry.eager:
                return f"nothing defines `{entry.name}`"
    return ""
