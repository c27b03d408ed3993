"""Findings beyond files and symbols: ABI, static MPI, C library, launcher, plug-ins, steps."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator

from stackproof.inject.attempt import InjectionAttempt
from stackproof.inject.findings import opening
from stackproof.inject.model import Cause, Effect, Finding, Way
from stackproof.inject.program import configured_for, is_mpi, takes_no_handle
from stackproof.inject.ways import ANY_FOLDER, unnameable
from stackproof.linking.loader import Closure, FileView, MappedObject
from stackproof.linking.loader.machine import LEVELS
from stackproof.mpi import abi
from stackproof.mpi.abi import Abi

# --------------------------------------------------------------------------------------------------
# A program to the pack of stackproof that it lies in, which another MPI cannot be put under.

_FOLDERS = frozenset({"stack", "bin"})
_REMEDY = (
    "put another MPI under the image that it was packed from, `stackproof run IMAGE --inject MPI "
    "-- PROGRAM`, or pack the program again with that MPI, `stackproof pack MPI PROGRAM`"
)


def pack_of(view: FileView, path: str) -> str:
    """Return the folder of the pack that a file lies in, empty for a file outside of packs."""
    folder = path
    while folder not in {"", "/"}:
        folder, name = posixpath.split(folder)
        loaders = view.listing(posixpath.join(folder, "glibc")) if name in _FOLDERS else ()
        if any(loader.startswith("ld-linux") for loader in loaders):
            return folder
    return ""


def packed_finding(view: FileView, program: MappedObject, cause: Cause) -> Finding | None:
    """Return the failure of a program of a pack, None for a program outside of packs.

    `cause` is what a check of the file alone says: STATIC of an entry point, which starts the
    program with the pack's own libraries, and NO_LOADER of a program that the pack's loader starts.
    """
    folder = pack_of(view, program.file.path)
    if not folder:
        return None
    what = {
        Cause.STATIC: "the entry point of a program",
        Cause.NO_LOADER: "a program that the pack's own loader starts",
    }[cause]
    return Finding(
        cause=cause,
        effect=Effect.FAILS,
        message=f"`{folder}` is a pack of stackproof, and this is {what}: it keeps its MPI",
        remedy=_REMEDY,
    )


def start_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield why nothing can be injected at all: static, no MPI, another C library."""
    program = case.after.program
    elf = program.elf
    if not elf.dynamic:
        yield packed_finding(case.view, program, Cause.STATIC) or Finding(
            cause=Cause.STATIC,
            effect=Effect.FAILS,
            message="the program is linked statically: it runs as it is, with what it has inside",
            remedy="to exchange its MPI, link it dynamically, or build it with the other MPI",
        )
        return
    kinds = set(_kinds(case))
    if kinds and (elf.machine, elf.bits) not in kinds:
        other, bits = min(kinds)
        same = other == elf.machine
        yield Finding(
            cause=Cause.OTHER_MACHINE,
            effect=Effect.FAILS,
            message=f"the program is for {elf.machine}, and the replacement for {other}"
            + (f" with {bits} bits" if same else ""),
            provider=case.replacement.prefix,
            remedy=f"take a build of the replacement for {elf.machine}",
        )
        return
    if elf.interpreter and case.view.look(elf.interpreter) is None:
        yield packed_finding(case.view, program, Cause.NO_LOADER) or Finding(
            cause=Cause.NO_LOADER,
            effect=Effect.FAILS,
            message=f"its loader `{elf.interpreter}` does not exist",
            provider=elf.interpreter,
            remedy="check it in the root (container) that it is for, with --root",
        )
    if "ld-musl" in elf.interpreter:
        yield Finding(
            cause=Cause.OTHER_C_LIBRARY,
            effect=Effect.FAILS,
            message="the program is for musl's loader; the replacement is for glibc",
            provider=elf.interpreter,
            remedy="build the program, or its container, on glibc",
        )
    if case.main is not None and not case.demand.users:
        yield opening.by_name(case) or _no_mpi(case.after)


def _kinds(case: InjectionAttempt) -> Iterator[tuple[str, int]]:
    """Yield the machines that a replacement is for, with their bits: its MPI alone if it is one."""
    for main in case.replacement.mains:
        yield main.elf.machine, main.elf.bits
    for path in () if case.replacement.mains else case.replacement.names.values():
        if file := case.view.look(path):
            elf = case.view.elf(file)
            yield elf.machine, elf.bits


# The C library opens its own plug-ins (iconv, names of hosts), as every program has it.
_OF_THE_C_LIBRARY = re.compile(r"(?:lib(?:c|m|dl|pthread|nss_\w+|resolv|gfortran)\.so|ld-linux)")
_STARTS = re.compile(r"f?exec(?:[lv]p?e?|veat)|posix_spawnp?|system|popen|_gfortran_execute_\w+")


def _opens(loaded: MappedObject) -> bool:
    """Return whether an object opens libraries or starts programs by itself."""
    if _OF_THE_C_LIBRARY.match(loaded.path.rpartition("/")[2]):
        return False
    names = [entry.name for entry in loaded.elf.imports]
    return any(opening.OPENS.fullmatch(name) or _STARTS.fullmatch(name) for name in names)


def _no_mpi(closure: Closure) -> Finding:
    program = closure.program
    if not program.elf.is_program and is_mpi(program.elf):
        return Finding(
            cause=Cause.NO_MPI,
            effect=Effect.FAILS,
            message="this is a library of an MPI itself",
            remedy="name a program that uses it",
        )
    own = [name for name in ("MPI_Init", "MPI_Init_thread") if name in program.elf.exports]
    if (own and program.elf.is_program) or program.elf.mpi_inside:
        return Finding(
            cause=Cause.STATIC,
            effect=Effect.FAILS,
            message="an MPI is linked into the program itself (it defines `MPI_Init`): it "
            "runs with that one",
            symbols=("MPI_Init",),
            remedy="to exchange its MPI, link it with a shared one, or build it with the other MPI",
        )
    opens = next((loaded for loaded in closure.objects if _opens(loaded)), None)
    if opens is not None:
        return Finding(
            cause=Cause.HOST,
            effect=Effect.CANNOT_TELL,
            message=f"`{posixpath.basename(program.path)}` does not use MPI itself; it opens "
            "libraries or starts programs while it runs, and an interpreter's modules may use MPI",
            file=opens.path,
            remedy="name what it opens or starts and what calls MPI: a program, or the `.so` of a "
            "module or plug-in",
        )
    return Finding(
        cause=Cause.NO_MPI,
        effect=Effect.FAILS,
        message="neither the program nor its libraries call MPI",
        remedy="name the program that calls MPI; for a plug-in or a Python module, its `.so` file",
    )


def abi_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield whether program and replacement are of one ABI, by what both show."""
    main, demand = case.main, case.demand
    yield from _unidentified(case)
    if main is None or not demand.users:
        return
    family = main.family
    shown = "; ".join(f"`{path}`: {words}" for path, words in demand.shown)
    if len(demand.abis) > 1:
        yield Finding(
            cause=Cause.OTHER_ABI,
            effect=Effect.FAILS,
            message=f"parts of the program are compiled for different ABIs ({shown})",
            remedy="build all of it with one MPI",
            before=True,
        )
    elif demand.abis and demand.abis[0] != family.abi:
        yield Finding(
            cause=Cause.OTHER_ABI,
            effect=Effect.FAILS,
            message=f"the program is compiled for the {demand.abis[0]} ABI ({shown}), "
            f"`{main.path}` is {family.title} ({main.shown})",
            file=demand.shown[0][0],
            provider=main.path,
            remedy=_OF_ITS_ABI,
        )
    elif not demand.abis and demand.promised == family.abi:
        yield Finding(
            cause=Cause.ABI_UNKNOWN,
            effect=Effect.NOTE,
            message="nothing in its code shows the ABI; the name of its MPI library says "
            f"{family.abi}, which fits",
        )
    elif (
        not demand.abis and family.abi == Abi.OPENMPI and takes_no_handle(case.before, demand.users)
    ):
        yield Finding(
            cause=Cause.OTHER_ABI,
            effect=Effect.FAILS,
            message=f"the program is compiled for {_named(demand.promised)}: none of its files "
            f"takes a handle of Open MPI, which are data of its library; `{main.path}` is "
            f"{family.title} ({main.shown})",
            provider=main.path,
            remedy=_OF_ITS_ABI,
        )
    elif not demand.abis:
        yield Finding(
            cause=Cause.ABI_UNKNOWN,
            effect=Effect.CANNOT_TELL,
            message="nothing in its code shows for which ABI it is compiled, and the name of its "
            f"MPI library says {demand.promised or 'nothing'}, not {family.abi}",
            provider=main.path,
            remedy="find out with which MPI it was built",
        )


_OF_ITS_ABI = "inject an MPI of the same ABI; symbols that resolve do not help here"


def _named(promised: str | None) -> str:
    """Return an ABI by what the names of libraries promise."""
    return f"the {promised} ABI, as the name of its MPI library says" if promised else "another ABI"


def _unidentified(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield an injected library that defines MPI and shows nothing of whose it is."""
    for loaded in case.after.objects[1:]:
        elf = loaded.elf
        if not _OF_EVERY_MPI & elf.exports.keys() or abi.family_of(elf) or abi.calls_below(elf):
            continue
        if case.is_injected(loaded) and case.demand.users:
            yield Finding(
                cause=Cause.ABI_UNKNOWN,
                effect=Effect.CANNOT_TELL,
                message="it defines MPI, and nothing shows of which ABI: it exports no handle of "
                "Open MPI (`ompi_mpi_comm_world`), no inner function of MPICH (`MPII_…`, "
                "`MPIR_…`), and is no `libmpi_abi.so` with `MPI_Abi_get_version`",
                file=loaded.path,
                provider=loaded.path,
                remedy="name the prefix of an MPI; of a wrapper, the MPI that it opens. Or try it: "
                "`inject prove`",
            )


_OF_EVERY_MPI = frozenset({"MPI_Init", "MPI_Init_thread", "PMPI_Init"})


def taken_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield whether the program really takes the replacement, and why not."""
    wanted = case.demand.names if case.main is not None else ()
    stays = []
    for name in wanted:
        loaded = case.after.named(name)
        if loaded is None or case.is_injected(loaded):
            continue
        if name in case.replacement.names or any(p.endswith(f"/{name}") for p in case.way.links):
            stays.append((name, loaded))
    bound = _bound_main(case) if case.main is not None and case.demand.users else None
    if bound is not None and not case.is_injected(bound) and bound not in dict(stays).values():
        stays.append((bound.soname, bound))
    for name, loaded in stays:
        yield _stays(case, name, loaded)
    taken = any(case.is_injected(loaded) for loaded in case.after.objects[1:])
    offered = (name for name, path in case.replacement.names.items() if case.replacement.owns(path))
    asked = case.demand.users or any(map(case.before.named, offered))
    if not taken and not stays and not case.after.missing and asked:
        yield from opening.nothing_findings(case)


def _bound_main(case: InjectionAttempt) -> MappedObject | None:
    """Return the MPI that calls are bound to: of several the one that was loaded first."""
    for loaded in case.after.objects[1:]:
        if abi.family_of(loaded.elf) is not None:
            return loaded
    return None


def _stays(case: InjectionAttempt, name: str, loaded: MappedObject) -> Finding:
    asking = case.after.objects[loaded.by or 0]
    by_path = any("/" in word for word in loaded.names)
    first = "a folder that something else puts first has it: use LD_PRELOAD, or take that away"
    rpath = "DT_RPATH wins over LD_LIBRARY_PATH: use LD_PRELOAD, or change the DT_RPATH"
    last = (
        "nothing of the replacement comes before it: what starts the program may take its folders "
    )
    last += "away, or it has no library of that name"
    return Finding(
        cause=Cause.NOT_INJECTED,
        effect=Effect.FAILS,
        message=f"`{name}` still is `{loaded.path}`, found by {loaded.how}",
        file=asking.path,
        provider=loaded.path,
        remedy="it is asked for by its path, which no variable changes: "
        f"patchelf --replace-needed {loaded.path} {name} COPY"
        if by_path
        else {"LD_LIBRARY_PATH": first}.get(loaded.how, rpath if "RPATH" in loaded.how else last),
    )


_PORTS = re.compile(r"MPI_(?:Open_port|Comm_(?:accept|connect|join|spawn(?:_multiple)?))")


def unjudged_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield functions whose success no file shows: it depends on fabric and launcher."""
    calls = (e.name.removeprefix("P") for user in case.demand.users for e in user.elf.imports)
    names = {name for name in calls if _PORTS.fullmatch(name)}
    if names:
        shown = ", ".join(f"`{name}`" for name in sorted(names))
        yield Finding(
            cause=Cause.NOT_JUDGED,
            effect=Effect.NOTE,
            message=f"not judged: {shown}, which only some fabrics and launchers of an MPI do",
            symbols=tuple(sorted(names)),
            remedy="try it: `inject prove`",
        )


def step_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield what must be done besides setting LD_LIBRARY_PATH."""
    way = case.way
    for link, target in way.links.items():
        folder, name = posixpath.split(target)
        beside = posixpath.dirname(link) == folder
        make = shlex.join(("ln", "-s", name if beside else target, link))
        yield Finding(
            cause=Cause.ALIAS,
            effect=Effect.STEP,
            message=f"`{posixpath.basename(link)}` must lead to `{target}`",
            provider=target,
            remedy=make if beside else f"{make}, with a folder of yours as {ANY_FOLDER}",
        )
    if way.name == "preload":
        yield Finding(
            cause=Cause.PRELOAD,
            effect=Effect.STEP,
            message="LD_LIBRARY_PATH is taken away, or comes too late (a DT_RPATH is before it): "
            "only LD_PRELOAD reaches it",
            remedy=f"LD_PRELOAD={':'.join(way.preload)}",
        )
    if way.name == "rpath":
        yield from _rpath_findings(case, way)
    if way.opened:
        yield Finding(
            cause=Cause.HOST,
            effect=Effect.NOTE,
            message="it asks for no MPI library: whoever opens it opens one first, and finds "
            f"`{way.opened[-1]}` by its name",
            provider=way.opened[-1],
        )
    prefix = moved_from(case)
    if prefix:
        yield Finding(
            cause=Cause.RELOCATED,
            effect=Effect.STEP,
            message=f"this Open MPI was configured for `{prefix}` and does not lie there",
            provider=case.main.path if case.main else "",
            remedy=f"OPAL_PREFIX={case.replacement.home} (and PMIX_PREFIX, PRTE_PREFIX)",
        )


def _rpath_findings(case: InjectionAttempt, way: Way) -> Iterator[Finding]:
    """Yield that a copy needs another DT_RPATH, and whether there can be such a one."""
    path = unnameable(way.rpath)
    if path:
        yield Finding(
            cause=Cause.UNNAMEABLE,
            effect=Effect.FAILS,
            message=f"no list of the loader can name `{path}`: `:` and `;` separate folders, and "
            "something else is put in the place of `$LIB` and its like",
            remedy="name a link to it, without such signs in its path",
        )
    if case.after.searcher.setting.secure:
        yield Finding(
            cause=Cause.MORE_RIGHTS,
            effect=Effect.NOTE,
            message="it is set-user-id, set-group-id or has capabilities: the loader drops "
            "LD_LIBRARY_PATH and LD_PRELOAD for all to whom that gives more rights",
            remedy="a copy with another DT_RPATH has none of these rights, until they are given",
        )
    yield Finding(
        cause=Cause.RPATH,
        effect=Effect.STEP,
        message="no variable reaches it: the DT_RPATH of a copy must be changed",
        remedy=f"patchelf --force-rpath --set-rpath {':'.join(way.rpath)}:OLD COPY",
    )


def moved_from(case: InjectionAttempt) -> str:
    """Return the folder that an injected Open MPI was configured for and does not lie in."""
    prefix = compiled_prefix(case)
    home = posixpath.normpath(case.replacement.home)
    return prefix if prefix and posixpath.normpath(prefix) != home else ""


def compiled_prefix(case: InjectionAttempt) -> str:
    """Return the folder that an injected Open MPI was configured for, empty for none."""
    if case.main is None or case.main.family.abi != Abi.OPENMPI:
        return ""
    owns = case.replacement.owns
    return configured_for(case.view, (one for one in case.after.objects if owns(one.path)))


def audit_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield audit libraries: they may send the loader to any other file (rtld-audit(7))."""
    elf = case.after.program.elf
    setting = case.after.searcher.setting
    told = () if setting.secure else setting.audit
    for name in (*elf.audits, *told):
        yield Finding(
            cause=Cause.AUDIT,
            effect=Effect.CANNOT_TELL,
            message=f"`{name}` audits the loader, and may have it load other files than these",
            provider=name,
            remedy="look at what is loaded when it runs: LD_DEBUG=files, or /proc/PID/maps"
            if name in elf.audits
            else "start it without LD_AUDIT",
        )


def instruction_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield injected libraries that demand more of the processor than it has."""
    level = case.after.searcher.machine.level
    if case.after.searcher.machine.architecture != "x86_64":
        return
    for loaded in case.after.objects:
        needed = loaded.elf.isa
        if needed and LEVELS.index(needed) > LEVELS.index(level):
            yield Finding(
                cause=Cause.INSTRUCTIONS,
                effect=Effect.FAILS,
                message=f"it demands {needed}; the processor has {level}",
                file=loaded.path,
                remedy="inject a build for this processor",
            )
