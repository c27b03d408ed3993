"""Closures before and after an injection to findings: files, versions, symbols, copies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from stackproof.core.errors import StackproofError
from stackproof.inject.attempt import InjectionAttempt
from stackproof.inject.model import Cause, Effect, Finding
from stackproof.inject.replacement import Main, part_of
from stackproof.inject.target import is_c_library
from stackproof.linking.loader import (
    Closure,
    File,
    FileView,
    MappedObject,
    Scope,
    Unbound,
    missing_nodes,
    unbound,
    unversioned_providers,
)
from stackproof.mpi import abi
from stackproof.mpi.abi import MPICH_BLOCKS, OPENMPI_BLOCKS, Abi, LibraryRole

_NAME = re.compile(r"(lib.+?)\.so(?:\.([0-9.]+))?")
# What an artefact of ours adds to the names of its private libraries stands for no other library.
_RELEASE_IN_NAME = re.compile(r"-(?:\d+(?:\.\d+)+|sp[0-9a-f]{8})$")
_MPI_CALL = re.compile(r"P?MPIX?_\w+")
# Two of these in one process have two states of one device, job or progress engine.
_STATEFUL = re.compile(
    r"lib(?:open-pal|open-rte|open_mpi|prrte|mpi\w*|fabric|ucp|uct|ucs|ucm|pmix|pmi\w*|cxi|hwloc|"
    r"event\w*|psm2?|infinipath|hcoll|ucc|xpmem|gfortran|stdc\+\+)"
)
_SHOWN = 12


def file_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield what is wrong with the files: not found, not readable, for another machine."""
    old = {(edge.name, case.before.objects[edge.by].path) for edge in case.before.missing}
    seen = set()
    for edge in case.after.missing:
        by = case.after.objects[edge.by]
        if edge.name in seen:
            continue
        seen.add(edge.name)
        before = (edge.name, by.path) in old
        others = [p for p in case.after.passed_over if p.endswith(f"/{edge.name}")]
        if others:
            kind = case.after.passed_over[others[0]]
            yield Finding(
                cause=Cause.OTHER_MACHINE,
                effect=Effect.FAILS,
                message=f"`{others[0]}` is for another machine ({kind})",
                file=by.path,
                provider=others[0],
                remedy="inject a build for the machine of the program",
                before=before and others[0] in case.before.passed_over,
            )
            continue
        yield Finding(
            cause=Cause.LIBRARY_MISSING,
            effect=Effect.FAILS,
            message=f"`{edge.name}` is not found",
            file=by.path,
            provider=edge.name,
            remedy=_remedy_for_missing(case, edge.name, by, before=before),
            before=before,
        )
    for broken in case.after.unreadable:
        yield Finding(
            cause=Cause.LIBRARY_UNREADABLE,
            effect=Effect.FAILS,
            message=f"the loader ends at `{broken.path}`: {broken.message}",
            file=case.after.objects[broken.by].path,
            provider=broken.path,
            remedy="put the library, or a link to it, under that name into a folder that comes "
            "before it",
        )


def _remedy_for_missing(
    case: InjectionAttempt, name: str, by: MappedObject, *, before: bool
) -> str:
    if releases := abi.releases_of_part(name):
        return (
            f"it is a part of {releases}: link the program again with the MPI that it is to run "
            "with; beside another release that part crashes"
        )
    if before:
        return (
            "the program lacks it without the injection too: install it, or name its folder "
            "with --library-path"
        )
    if is_c_library(name) or part_of(name) is not None:
        return (
            "it is of the C library: the root that the program runs in must have it"
            if is_c_library(name)
            else f"inject an MPI that has `{name}` too, as all its parts must be of one release"
        )
    if case.replacement.owns(by.path):
        if by.elf.runpath and "$ORIGIN" in by.elf.runpath:
            return (
                "its DT_RUNPATH counts from the path that it is opened by: move the whole folder, "
                "or name the folder of its libraries too"
            )
        return "bring the library along with the replacement, in a folder that its DT_RUNPATH names"
    return "name the folder that has it in LD_LIBRARY_PATH"


def version_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield version nodes that a library lacks: they end the program at its start."""
    old = {(m.by.path, m.need.name) for m in missing_nodes(case.before)}
    for missing in missing_nodes(case.after):
        name = missing.need.name
        meaning = case.question.releases().meaning(name)
        has = case.question.releases().newest(
            entry.name for entry in missing.provider.elf.version_definitions
        )
        words = f" (that is {meaning})" if meaning else ""
        newest = f"; its newest is {has}" if has else ""
        yield Finding(
            cause=Cause.VERSION_MISSING,
            effect=Effect.FAILS,
            message=f"version `{name}`{words} is not in `{missing.provider.path}`{newest}",
            file=missing.by.path,
            provider=missing.provider.path,
            version=name,
            remedy=_remedy_for_version(case, missing.by, missing.provider, name),
            before=(missing.by.path, name) in old,
        )
    noted = set()
    for missing in unversioned_providers(case.after):
        pair = (missing.by.path, missing.provider.path)
        if pair not in noted:
            noted.add(pair)
            yield Finding(
                cause=Cause.NO_VERSIONS,
                effect=Effect.NOTE,
                message=f"`{missing.provider.path}` has no versions; the loader warns and goes on",
                file=missing.by.path,
                provider=missing.provider.path,
                version=missing.need.name,
            )


def _remedy_for_version(
    case: InjectionAttempt, by: MappedObject, provider: MappedObject, name: str
) -> str:
    if name.startswith("GLIBC_"):
        return "use a build of the replacement for an older glibc, or a container with a newer one"
    if case.replacement.owns(provider.path):
        return (
            f"inject a release of `{_base(provider)}` that has {name}, or leave the program its own"
        )
    if case.replacement.owns(by.path):
        return f"inject `{_base(provider)}` of the replacement's own machine as well"
    return f"put a newer `{_base(provider)}` first in LD_LIBRARY_PATH"


def symbol_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield functions and variables that nothing defines, grouped by who asks."""
    if case.after.missing or case.after.unreadable:
        return
    groups: dict[tuple[str, bool, str, bool], list[Unbound]] = {}
    broken = {(m.by.path, m.need.name) for m in missing_nodes(case.after)}
    for entry in unbound(case.after, case.scope):
        if (entry.by.path, entry.version) not in broken:
            of_mpi = bool(_MPI_CALL.fullmatch(entry.name) or abi.is_fortran_call(entry.name))
            key = (entry.by.path, entry.eager, entry.version, of_mpi)
            groups.setdefault(key, []).append(entry)
    users = {loaded.path: loaded for loaded in case.demand.users}
    program = case.after.program
    opened = "" if program.elf.is_program else program.path
    old = set()
    if groups and not case.before.missing:  # what is missing would have defined them
        old = {(u.by.path, u.name) for u in unbound(case.before, Scope(case.before))}
    for (path, eager, version, of_mpi), entries in groups.items():
        names = sorted(entry.name for entry in entries)
        before = all((path, name) in old for name in names)
        # Without the MPI that it was built with nothing is known of before, but who defines them.
        if path == opened and not of_mpi and (before or case.before.missing):
            yield _host_defines(path, names)
            continue
        asks = path in users and of_mpi and not eager and asks_for_the_version(users[path])
        # What another MPI lacks too says nothing of the program's calls: that one was no better.
        # A part of an MPI that stays may never be asked for what needs the missing ones.
        called = path in users and (of_mpi or not before)
        fails = eager or (called and not asks)
        idle = not eager and of_mpi and not before and _is_idle(case, path, names)
        unsure = asks or not (before or idle)
        yield Finding(
            cause=Cause.SYMBOL_MISSING,
            effect=Effect.FAILS if fails else Effect.CANNOT_TELL if unsure else Effect.NOTE,
            message=_words(names, version)
            + (" when it starts" if eager else " when it first calls it")
            + ("; it asks for the version of the MPI, and may not call it" if asks else "")
            + ("; the program calls no procedure that does" if idle else ""),
            file=path,
            symbols=tuple(names),
            version=version,
            provider=entries[0].other_versions[0].path if entries[0].other_versions else "",
            remedy=_remedy_for_symbol(case, names),
            before=before,
        )


def _is_idle(case: InjectionAttempt, path: str, functions: list[str]) -> bool:
    """Return whether nothing that is loaded makes a Fortran part, which stays, call functions."""
    part = next(loaded for loaded in case.after.objects if loaded.path == path)
    if case.demand.is_module or case.main is None or case.main.family.abi != Abi.MPICH:
        return False
    if case.is_injected(part) or part_of(part.soname) is not LibraryRole.FORTRAN:
        return False
    asked = (
        entry.name for one in case.after.objects for entry in one.elf.imports if one is not part
    )
    return not abi.may_call([name for name in asked if name in part.elf.exports], functions)


def asks_for_the_version(user: MappedObject) -> bool:
    """Return whether an object may call a function only where the MPI is new enough for it."""
    return any(entry.name == "MPI_Get_version" for entry in user.elf.imports)


def _host_defines(path: str, names: list[str]) -> Finding:
    shown = ", ".join(f"`{name}`" for name in names[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return Finding(
        cause=Cause.HOST,
        effect=Effect.NOTE,
        message=f"whoever opens it must define {shown}{more}, as an interpreter does for its "
        "modules",
        file=path,
        before=True,
    )


def _words(names: list[str], version: str) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    wanted = f" of version {version}" if version else ""
    return f"nothing defines {shown}{more}{wanted}; the program ends"


def _remedy_for_symbol(case: InjectionAttempt, names: list[str]) -> str:
    if any("_f08" in name for name in names):
        return (
            "inject the Fortran 2008 library of the release that the program was built with, "
            "or build it again"
        )
    if any(name.startswith(("PMPI", "MPI", "mpi", "pmpi")) for name in names):
        return "inject a newer release, which has them; or build the program again"
    if case.main is None:
        return "inject the release that has them"
    return "inject all parts of one release"


def copy_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield variables that the program copies with another size than the library has."""
    program = case.after.program
    for copy in program.elf.copies:
        for loaded in case.scope.all_with(copy.name):
            size = loaded.elf.objects.get(copy.name)
            if loaded is program or size is None:
                continue
            if size != copy.size:
                yield Finding(
                    cause=Cause.COPY_SIZE,
                    effect=Effect.FAILS if size > copy.size else Effect.CANNOT_TELL,
                    message=f"`{copy.name}` has {copy.size} bytes in the program and {size} in "
                    f"`{loaded.path}`",
                    provider=loaded.path,
                    symbols=(copy.name,),
                    remedy="build the program against this release",
                )
            break


def block_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield common blocks of Fortran that the program has with another size than the MPI.

    The program's own is what both use, and only its address means something: MPI_STATUS_IGNORE has
    8 bytes in Open MPI 4 and 24 in programs.
    """
    program = case.after.program
    blocks = (MPICH_BLOCKS | OPENMPI_BLOCKS) & program.elf.objects.keys()
    for name in sorted(blocks):
        for loaded in case.after.objects[1:]:
            size = loaded.elf.objects.get(name)
            if size is not None and size != program.elf.objects[name]:
                yield Finding(
                    cause=Cause.COPY_SIZE,
                    effect=Effect.NOTE,
                    message=f"the common block `{name}` has {program.elf.objects[name]} bytes in "
                    f"the program and {size} in `{loaded.path}`; only its address counts",
                    provider=loaded.path,
                    symbols=(name,),
                )
                break


def double_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield libraries that are loaded in two versions, or twice in one."""
    old = _by_base(case.before)
    for base, loaded in _by_base(case.after).items():
        sonames = {entry.soname for entry in loaded}
        if len(loaded) < 2:
            continue
        there = old.get(base, ())
        before = {e.path for e in loaded} <= {e.path for e in there} or (
            # One of several was replaced by its like: there are no more than there were.
            len(there) >= len(loaded) and sonames <= {e.soname for e in there}
        )
        stateful = bool(_STATEFUL.fullmatch(base))
        same = len(sonames) < len(loaded)
        effect = Effect.FAILS if stateful and not before else Effect.NOTE
        paths = " and ".join(f"`{entry.path}`" for entry in loaded)
        yield Finding(
            cause=Cause.TWO_COPIES if same else Cause.TWO_VERSIONS,
            effect=effect,
            message=f"{base} is loaded {'twice' if same else 'in two versions'}: {paths}",
            file=loaded[1].path,
            provider=loaded[0].path,
            remedy="inject every library that needs the old one, so that one release is left"
            if effect is Effect.FAILS
            else "",
            before=before,
        )


def _by_base(closure: Closure) -> dict[str, list[MappedObject]]:
    found: dict[str, list[MappedObject]] = {}
    for loaded in closure.objects[1:]:
        found.setdefault(_base(loaded), []).append(loaded)
    return found


def _base(loaded: MappedObject) -> str:
    """Return the name of a library without numbers: `libhwloc`, `libevent_core`."""
    match = _NAME.fullmatch(loaded.soname)
    return _RELEASE_IN_NAME.sub("", match.group(1)) if match else loaded.soname


def partial_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield parts of an MPI that still come from elsewhere while its main library is injected."""
    main = case.main
    if main is None:
        return
    parts: Mapping[str, MappedObject] = {
        loaded.soname: loaded for loaded in case.after.objects if part_of(loaded.soname)
    }
    injected = {name for name, one in parts.items() if case.is_injected(one)}
    if not injected:
        return
    for name, loaded in parts.items():
        promise = abi.abi_of_name(name)
        if name in injected or promise is None:
            continue
        before = case.before.named(name)
        if promise[0] != main.family.abi and before is not None and before.file == loaded.file:
            continue  # of another MPI, which the program has loaded all the time and does not call
        fits = _fits(case, main, promise[1])
        releases = abi.releases_of_part(name)
        relink = f"; it is a part of {releases}: or link the program again" if releases else ""
        yield Finding(
            cause=Cause.PARTIAL,
            effect=Effect.NOTE if fits else Effect.CANNOT_TELL,
            message=f"`{name}` still is `{loaded.path}`, of another MPI"
            + (f", which fits: {fits}" if fits else ""),
            file=loaded.path,
            provider=main.path,
            remedy=""
            if fits
            else f"inject an MPI that has `{name}` too: parts of two releases may not fit{relink}",
        )


def _fits(case: InjectionAttempt, main: Main, part: LibraryRole) -> str:
    """Return why a part that was not replaced fits the injected main library, empty if unknown."""
    if part not in {LibraryRole.FORTRAN, LibraryRole.CXX, LibraryRole.FORTRAN_2008}:
        return ""
    if main.family.abi == Abi.MPICH:
        return "the MPICH ABI holds between its main library and those of Fortran and C++"
    old, new = _series(maker_before(case)[1]), _series(maker_injected(case)[1])
    return f"both are of Open MPI {new}" if new and new == old else ""


def _series(release: str) -> str:
    """Return the first two numbers of a release."""
    return ".".join(release.split(".")[:2])


def maker_before(case: InjectionAttempt) -> tuple[str, str]:
    """Return family and release of the MPI that the program has without the injection.

    That is the one that compiled it, where a user says which that was.
    """
    if case.question.compiled and case.main:
        standard = "-standard" if case.main.family.abi == Abi.STANDARD else ""
        return case.question.compiled[0] + standard, case.question.compiled[1]
    for loaded in case.before.objects[1:]:
        known = abi.family_of(loaded.elf)
        if known is not None:
            return _maker_of(case.before.searcher.view, loaded.file, known[0].abi)
    return "", ""


def compiled_with(case: InjectionAttempt) -> tuple[str, str]:
    """Return family and release of the MPI that a program was compiled with, empty for unknown.

    That is the MPI that the program's own paths or the user's lead to, if it has all functions that
    the program calls. The system's MPI may only have the same name.
    """
    if case.question.compiled:
        return maker_before(case)
    own = next((o for o in case.before.objects[1:] if abi.family_of(o.elf) is not None), None)
    if own is None or own.how in {"ld.so.cache", "a default folder"}:
        return "", ""
    asked = {e.name for user in case.demand.users for e in user.elf.imports}
    lacks = any(_MPI_CALL.fullmatch(name) and name not in own.elf.exports for name in asked)
    return ("", "") if lacks else maker_before(case)


def maker_injected(case: InjectionAttempt) -> tuple[str, str]:
    """Return family and release of the injected MPI, empty where nothing tells."""
    view = case.after.searcher.view
    file = view.look(case.main.path) if case.main else None
    return _maker_of(view, file, case.main.family.abi) if case.main and file else ("", "")


def _maker_of(view: FileView, file: File, of_abi: str) -> tuple[str, str]:
    """Return family and release that a main library names; one of the MPICH ABI has many makers."""
    try:
        traces = view.traces(file)
    except StackproofError:
        return "", ""
    if not traces.release:
        return "", ""
    from stackproof.mpi import families  # noqa: PLC0415 - most judgements ask for no maker

    family, by_word = families.maker_of(of_abi, traces.release, traces.words)
    suffix = "-standard" if of_abi == Abi.STANDARD and not by_word else ""
    return family + suffix, traces.release
