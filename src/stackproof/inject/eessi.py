"""An MPI to what is put into the override folders that EESSI's software looks into first.

Programs of EESSI carry `…/rpath_overrides/<MPI>/system[-<compiler>[-<accelerator>]]/lib` at the
front of their DT_RPATH (EESSI's software-layer-scripts, eb_hooks.py), below `host_injections`. A
DT_RPATH counts before LD_LIBRARY_PATH and for the libraries of the program too, so that whatever
lies there is taken for every name that is asked for. Therefore only the libraries of the MPI get
such a place; what they need lies in a folder of its own below, where nobody else finds it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.inject.delivery import (
    Copied,
    Gathered,
    InjectionDelivery,
    find_beside,
    problem,
    stays,
)
from stackproof.inject.program import configured_for
from stackproof.inject.replacement import Main, Replacement, libraries_of, part_of
from stackproof.linking.loader import (
    Closure,
    FileView,
    Machine,
    MappedObject,
    elf_at,
    load_program,
)
from stackproof.mpi import abi, families, requirement
from stackproof.mpi.abi import LibraryRole

PRIVATE = "private"
"""The folder below `lib` for what only the MPI itself uses."""

_WORD = re.compile(r"[A-Za-z0-9_]+")
_ACCELERATOR = re.compile(r"(CUDA|ROCM)-[0-9]+(?:\.[0-9]+)*")
_LIBRARY = re.compile(r"lib.+\.so(?:\.[0-9.]+)?")
# Folders of an Open MPI's plug-ins, below its libraries; what it reads; and what starts its ranks.
_COMPONENTS = ("openmpi", "pmix", "prte")
_COMPONENT = re.compile(r"(?=(?:\w*_)?mca_)\w+\.so")
_READ = ("etc", "share/openmpi", "share/pmix", "share/prte")
_STARTERS = ("prterun", "orterun")
_LAUNCHER = re.compile(r"(?:mpiexec|(?:o?mpi|prte|orte)run|prte|prun|pterm|psched|orte)\w*")

HOME = "home"
"""The folder of an override for what an Open MPI that was carried there finds by its prefix."""


def family_folder(main: Main) -> str:
    """Return the folder's name for an MPI; raises `StackproofError` (UNSUPPORTED).

    It is EasyBuild's name of the family (easybuild-framework, toolchains/mpi/*.py, TC_CONSTANT_…).
    """
    known = families.REGISTRY.get(main.family.abi)
    name = known.easybuild if known else ""
    if not name:
        raise fail(
            Reason.UNSUPPORTED,
            f"EESSI has no override folder for {main.family.title}",
            where=Location(file=main.path),
            hint="name the folder: `--family`, for example `--family MPICH`",
        )
    return name


def variant_name(compiler: str, accelerator: str) -> str:
    """Return `system`, `system-GCC` or `system-GCC-CUDA-12.6.0`.

    Raises `StackproofError` (USAGE) for what is no such name.
    """
    if accelerator and not compiler:
        raise fail(
            Reason.USAGE,
            "`--accelerator` needs `--compiler`",
            hint="the folders are called system-<compiler>-<accelerator>",
        )
    if compiler and not _WORD.fullmatch(compiler):
        raise fail(Reason.USAGE, f"`{compiler}` is no compiler's name", hint="for example: GCC")
    if accelerator and not _ACCELERATOR.fullmatch(accelerator):
        raise fail(
            Reason.USAGE,
            f"`{accelerator}` is no accelerator's name and version",
            hint="for example: CUDA-12.6.0, ROCM-6.4.1",
        )
    return "-".join(word for word in ("system", compiler, accelerator) if word)


def plan_filling(
    view: FileView,
    replacement: Replacement,
    names: Sequence[str],
    machine: Machine,
    carried: str = "",
) -> InjectionDelivery:
    """Return which files an override folder gets, and where; `names` are what programs ask for.

    Every library of the MPI is taken: one that stays behind would meet one of another release.
    `carried` is the folder as jobs see it, for an MPI that they do not see where it is now: then
    what an Open MPI finds by its prefix comes along too. Raises `StackproofError` with all that is
    in the way: NO_MPI, INJECTION_FAILS.
    """
    if not replacement.mains:
        raise fail(
            Reason.NO_MPI,
            f"there is no MPI in `{replacement.prefix}`",
            where=Location(file=replacement.prefix),
            hint="name the prefix of a whole MPI: parts of one are not put under EESSI's MPI",
        )
    own = libraries_of(view, replacement, part_of)
    launchers = _launchers(view, replacement) if carried else {}
    got = gather(view, (*own.values(), *launchers.values()), own, machine)
    for path in launchers.values():
        got.found.pop(posixpath.basename(path), None)
    wanted = [*beside(view, got.found), *(_components(view, replacement) if carried else ())]
    plugins, without = take_plugins(view, wanted, got, machine)
    check(got)
    starters = [
        Copied(source=path, target=f"{HOME}/bin/{name}", rpath=_up_to_lib(2))
        for name, path in launchers.items()
    ]
    copies = (*_copies(got.found, own), *plugins, *starters)
    environment = _environment(view, replacement, got.found, carried)
    return InjectionDelivery(
        copies=tuple(sorted(copies, key=lambda one: one.target)),
        links={"lib64": "lib", **aliases(view, replacement, names)},
        trees=_read(view, replacement.home) if carried and environment else {},
        left=tuple(sorted(got.left)),
        environment=environment,
        without=without,
    )


def gather(
    view: FileView, paths: Sequence[str], own: Collection[str], machine: Machine
) -> Gathered:
    """Return what files and all that they need are, down to glibc; `own` are SONAMEs among them."""
    gathered = Gathered(stays=stays)
    for path in paths:
        closure = load_program(view, path, machine=machine)
        # What is copied beside it is found there: Intel's libraries name no folder themselves.
        gathered.take(closure, own)
    return gathered


def check(gathered: Gathered) -> None:
    """Raise `StackproofError` (INJECTION_FAILS) with all that is in the way."""
    for loaded in gathered.found.values():
        gathered.problems += _absolute_needs(loaded)
    gathered.check()


def _up_to_lib(above: int) -> str:
    """Return the DT_RPATH of a file so many folders below the one that has `lib`."""
    lib = "/".join(("$ORIGIN", *[".."] * above, "lib"))
    return f"{lib}:{lib}/{PRIVATE}"


def _launchers(view: FileView, replacement: Replacement) -> dict[str, str]:
    """Return the programs that start the ranks of an Open MPI, by name; none of another MPI."""
    folder = posixpath.join(replacement.home, "bin")
    names = sorted(name for name in view.listing(folder) if _LAUNCHER.fullmatch(name))
    found = {name: posixpath.join(folder, name) for name in names}
    # A script finds what it starts by itself.
    elves = {n: p for n, p in found.items() if (elf := elf_at(view, p)) and elf.interpreter}
    return elves if any(name in elves for name in _STARTERS) else {}


def _read(view: FileView, home: str) -> dict[str, str]:
    """Return the files that an Open MPI reads below its prefix, by where they are copied to."""
    found = {f"{HOME}/{name}": posixpath.join(home, name) for name in _READ}
    return {target: path for target, path in found.items() if view.listing(path)}


def _copies(found: Mapping[str, MappedObject], own: Mapping[str, str]) -> Iterator[Copied]:
    for soname, loaded in found.items():
        if soname in own:
            target, rpath = f"lib/{soname}", f"$ORIGIN:$ORIGIN/{PRIVATE}"
        else:
            target, rpath = f"lib/{PRIVATE}/{soname}", "$ORIGIN:$ORIGIN/.."
        yield Copied(source=loaded.file.path, target=target, rpath=rpath)


def beside(view: FileView, found: Mapping[str, MappedObject]) -> Iterator[tuple[str, str, str]]:
    """Yield plug-ins that libraries open beside themselves: path, target and DT_RPATH."""
    for name, path in find_beside(view, found):
        entry = posixpath.basename(path)
        if _LIBRARY.fullmatch(entry):
            yield path, f"lib/{PRIVATE}/{name}/{entry}", "$ORIGIN:$ORIGIN/.."


def _components(view: FileView, replacement: Replacement) -> Iterator[tuple[str, str, str]]:
    """Yield plug-ins that an Open MPI opens below its prefix, as `beside` does."""
    for folder in replacement.folders:
        for name in _COMPONENTS:
            for entry in view.listing(posixpath.join(folder, name)):
                if _COMPONENT.fullmatch(entry):
                    target = f"{HOME}/lib/{name}/{entry}"
                    yield posixpath.join(folder, name, entry), target, _up_to_lib(3)


def take_plugins(
    view: FileView, wanted: Sequence[tuple[str, str, str]], gathered: Gathered, machine: Machine
) -> tuple[list[Copied], tuple[str, ...]]:
    """Return plug-ins to copy, and which stay behind and why; what they need is gathered too."""
    copies, without = [], []
    for path, target, rpath in wanted:
        if view.look(path) is None:
            continue
        more, why = _needs_of_plugin(view, path, gathered, machine)
        if why:
            without.append(f"{posixpath.basename(path)}: {why}")
            continue
        gathered.found.update(more)
        copies.append(Copied(source=path, target=target, rpath=rpath))
    return copies, tuple(without)


def _needs_of_plugin(
    view: FileView, path: str, gathered: Gathered, machine: Machine
) -> tuple[dict[str, MappedObject], str]:
    """Return the libraries that a plug-in brings, and why it cannot be taken, empty if it can."""
    more: dict[str, MappedObject] = {}
    try:
        closure = load_program(view, path, machine=machine)
    except StackproofError as error:
        return more, error.problems[0].message
    if why := gathered.missing(closure):
        return more, why
    beside = posixpath.dirname(path)
    for loaded in closure.objects[1:]:
        soname = loaded.soname
        if stays(soname) or posixpath.dirname(loaded.path) == beside:
            continue
        known = gathered.found.get(soname, loaded)
        if known.file.identity != loaded.file.identity:
            return {}, f"it finds another `{soname}`: `{loaded.path}`"
        more[soname] = known
    return more, ""


def aliases(view: FileView, replacement: Replacement, names: Sequence[str]) -> dict[str, str]:
    """Return links for main libraries that the programs ask for under another name."""
    links, own = {}, libraries_of(view, replacement, part_of)
    for name in names:
        promise = abi.abi_of_name(name)
        if name in own or promise is None or promise[1] is not LibraryRole.MAIN:
            continue
        main = replacement.main_for(promise[0])
        if main is not None and main.family.abi == promise[0]:
            links[f"lib/{name}"] = main.soname
    return links


def _environment(
    view: FileView, replacement: Replacement, found: Mapping[str, MappedObject], carried: str
) -> dict[str, str]:
    """Return the variables of an Open MPI that does not lie where it was configured for."""
    prefix = configured_for(view, found.values())
    home = posixpath.join(carried, HOME) if carried else replacement.home
    moved = prefix and posixpath.normpath(prefix) != posixpath.normpath(home)
    return dict.fromkeys(requirement.OPEN_MPI, home) if moved else {}


def _absolute_needs(loaded: MappedObject) -> Iterator[Problem]:
    for name in loaded.elf.needed:
        if "/" in name:
            text = f"it needs `{name}` by its path, which no search order can change"
            yield problem(text, loaded.path, "patchelf --replace-needed, in a copy")


# --------------------------------------------------------------------------------------------------
# libfabric alone to what an override folder gets: the programs' own MPI, asking for it first.
#
# EESSI's MPI has a DT_RPATH of its own, which leads to EESSI's libfabric before the override folder
# of the program is looked into: a libfabric there is asked for by nobody. What the program itself
# asks for is the main library of the MPI. So that this one is copied, unchanged but for one name
# more that it needs and one folder more in front of those where it looks; libfabric is then loaded
# at the start, and whoever asks for that name later, a plug-in as well, is given it.

FABRIC = "libfabric.so.1"
FABRIC_FOLDER = "lib/fabric"
"""The folder of an override that holds libfabric, and nothing that a program asks for itself."""


def find_fabric(view: FileView, replacement: Replacement, machine: Machine) -> str:
    """Return the path of the libfabric of a prefix; raises `StackproofError` (NO_MPI)."""
    if FABRIC in replacement.names:
        return replacement.names[FABRIC]
    for main in replacement.mains:
        closure = load_program(view, main.path, machine=machine)
        found = closure.named(FABRIC)
        if found is not None and found.path.startswith(f"{replacement.prefix}/"):
            return found.path
    raise fail(
        Reason.NO_MPI,
        f"there is no `{FABRIC}` in `{replacement.prefix}`",
        where=Location(file=replacement.prefix),
        hint="name the prefix that has `lib/libfabric.so.1`",
    )


def main_of(closures: Mapping[str, Closure]) -> MappedObject:
    """Return the main library of the MPI that programs load today, which must be one for all.

    Raises `StackproofError`: NO_MPI, INJECTION_FAILS for programs of two releases.
    """
    found: dict[object, tuple[str, MappedObject]] = {}
    problems = []
    for program, closure in closures.items():
        own = next((one for one in closure.objects[1:] if abi.family_of(one.elf)), None)
        if own is None:
            problems.append(_of_programs(Reason.NO_MPI, "it loads no MPI", program))
        else:
            found.setdefault(own.file.identity, (program, own))
    if len(found) > 1:
        problems += [
            _of_programs(
                Reason.INJECTION_FAILS,
                f"it has `{own.path}`, and an override folder has one MPI for all programs",
                program,
            )
            for program, own in found.values()
        ]
    if problems:
        raise StackproofError(*problems)
    return next(iter(found.values()))[1]


def plan_fabric(
    view: FileView, path: str, main: MappedObject, machine: Machine, carried: str
) -> InjectionDelivery:
    """Return what an override folder gets for the libfabric at a path; `carried` is that folder.

    Raises `StackproofError` (INJECTION_FAILS) with all that is in the way.
    """
    got = gather(view, (path,), (), machine)
    own = got.found[next(name for name in got.found if name.startswith("libfabric."))]
    wanted = [
        (source, f"{FABRIC_FOLDER}/{PRIVATE}/libfabric/{posixpath.basename(source)}", "$ORIGIN/..")
        for source, _, _ in beside(view, {FABRIC: own})
    ]
    plugins, without = take_plugins(view, wanted, got, machine)
    check(got)
    copies = [
        Copied(source=own.file.path, target=f"{FABRIC_FOLDER}/{FABRIC}", rpath=f"$ORIGIN/{PRIVATE}")
    ]
    copies += [
        Copied(source=one.file.path, target=f"{FABRIC_FOLDER}/{PRIVATE}/{soname}", rpath="$ORIGIN")
        for soname, one in got.found.items()
        if one is not own
    ]
    name = main.soname
    looks = ":".join(("$ORIGIN/fabric", *_own_folders(main)))
    copies.append(Copied(source=main.file.path, target=f"lib/{name}", rpath=looks, asks=FABRIC))
    provider = f"{carried}/{FABRIC_FOLDER}/{PRIVATE}/libfabric"
    return InjectionDelivery(
        copies=tuple(sorted((*copies, *plugins), key=lambda one: one.target)),
        links={"lib64": "lib"},
        left=tuple(sorted(got.left)),
        environment={"FI_PROVIDER_PATH": provider} if plugins else {},
        without=without,
    )


def _own_folders(main: MappedObject) -> Sequence[str]:
    """Return where a library looks for what it needs, whatever folder its copy lies in."""
    origin = posixpath.dirname(main.path)
    text = main.elf.rpath if main.elf.runpath is None else main.elf.runpath
    words = (text or "").replace("${ORIGIN}", origin).replace("$ORIGIN", origin).split(":")
    return [word for word in (*words, origin) if word]


def _of_programs(reason: Reason, message: str, program: str) -> Problem:
    hint = "name programs that were built with one release of one MPI"
    return Problem(reason=reason, message=message, where=Location(file=program), hint=hint)
