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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.inject.replacement import Main, Replacement, part_of
from stackproof.linking.loader import FileView, LoaderSettings, Machine, MappedObject, load_program
from stackproof.mpi import abi, homes
from stackproof.mpi.abi import LibraryRole

PRIVATE = "private"
"""The folder below `lib` for what only the MPI itself uses."""

# EasyBuild's names of MPI families: easybuild-framework, toolchains/mpi/*.py, TC_CONSTANT_….
_FAMILIES = {"openmpi": "OpenMPI", "openmpi6": "OpenMPI", "mpich": "MPICH"}
_WORD = re.compile(r"[A-Za-z0-9_]+")
_ACCELERATOR = re.compile(r"(CUDA|ROCM)-[0-9]+(?:\.[0-9]+)*")
# What glibc installs (shlib-versions): it must be the one of the program's own loader.
_C_LIBRARY = re.compile(
    r"(?:ld-linux[\w-]*|ld64|libc|libm|libmvec|libpthread|libdl|librt|libutil|libresolv|libanl|"
    r"libnsl|libnss_\w+|libBrokenLocale|libthread_db)\.so\.\d+"
)
# These belong to the driver that the kernel runs; EESSI has a place of their own for them.
_DRIVERS = re.compile(r"lib(?:cuda|nvidia-[\w-]+)\.so\.\d+")


_LIBRARY = re.compile(r"lib.+\.so(?:\.[0-9.]+)?")
# What opens plug-ins in a folder beside itself, and that folder.
_BESIDE = {"libucs.so.": "ucx", "libfabric.so.": "libfabric"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """A library that is copied: from where, to where below the folder, with which DT_RPATH."""

    source: str
    target: str
    rpath: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """What an override folder is filled with.

    `links` maps a path below the folder to the text of the link; `left` are names that stay those
    of the program's own machine and loader; `environment` is what the MPI must be told, as it was
    moved before. `without` are plug-ins that stay behind, with the reason: the MPI goes on without
    them.
    """

    prefix: str
    libraries: tuple[Copied, ...]
    links: Mapping[str, str]
    left: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()


def family_folder(main: Main) -> str:
    """Return the folder's name for an MPI; raises `StackproofError` (UNSUPPORTED)."""
    name = _FAMILIES.get(main.family.name)
    if name is None:
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
    view: FileView, replacement: Replacement, names: Sequence[str], machine: Machine
) -> Filling:
    """Return which files an override folder gets, and where; `names` are what programs ask for.

    Every library of the MPI is taken: one that stays behind would meet one of another release.
    Raises `StackproofError` with all that is in the way: NO_MPI, INJECTION_FAILS.
    """
    if not replacement.mains:
        raise fail(
            Reason.NO_MPI,
            f"there is no MPI in `{replacement.prefix}`",
            where=Location(file=replacement.prefix),
            hint="name the prefix of a whole MPI: parts of one are not put under EESSI's MPI",
        )
    problems: list[Problem] = []
    own = _own(view, replacement)
    found: dict[str, MappedObject] = {}
    left: set[str] = set()
    for path in own.values():
        closure = load_program(view, path, machine=machine, setting=LoaderSettings())
        for edge in closure.missing:
            # What is copied beside it is found there: Intel's libraries name no folder themselves.
            if not stays(edge.name) and edge.name not in own:
                by = closure.objects[edge.by].path
                problems.append(_problem(f"`{edge.name}` is not found", by, "install it"))
        for loaded in closure.objects:
            soname = _soname(loaded)
            if stays(soname):
                left.add(soname)
            elif found.setdefault(soname, loaded).file.identity != loaded.file.identity:
                other = found[soname].path
                text = f"`{loaded.path}` and `{other}` both are `{soname}`"
                problems.append(_problem(text, loaded.path, "remove one from its search path"))
    plugins, without = _plugins(view, found, machine)
    for loaded in found.values():
        problems += _absolute_needs(loaded)
    if problems:
        raise StackproofError(*dict.fromkeys(problems))
    return Filling(
        prefix=replacement.prefix,
        libraries=tuple(sorted((*_copies(found, own), *plugins), key=lambda one: one.target)),
        links={"lib64": "lib", **_aliases(replacement, own, names)},
        left=tuple(sorted(left)),
        environment=_environment(view, replacement, found),
        without=without,
    )


def _own(view: FileView, replacement: Replacement) -> dict[str, str]:
    """Return the paths of all libraries of the MPI by SONAME."""
    own: dict[str, str] = {}
    for name, path in replacement.names.items():
        if part_of(name) is None:
            continue
        file = view.look(path)
        if file is None:
            continue
        try:
            soname = view.elf(file).soname or name
        except StackproofError:  # a linker script, for example
            continue
        own.setdefault(soname, replacement.names.get(soname, path))
    # Cray's have a compiler in their names, others may have anything: what MPI is shows inside.
    for main in replacement.mains:
        own.setdefault(main.elf.soname or posixpath.basename(main.path), main.path)
    return own


def _copies(found: Mapping[str, MappedObject], own: Mapping[str, str]) -> Iterator[Copied]:
    for soname, loaded in found.items():
        if soname in own:
            target, rpath = f"lib/{soname}", f"$ORIGIN:$ORIGIN/{PRIVATE}"
        else:
            target, rpath = f"lib/{PRIVATE}/{soname}", "$ORIGIN:$ORIGIN/.."
        yield Copied(source=loaded.file.path, target=target, rpath=rpath)


def _plugins(
    view: FileView, found: dict[str, MappedObject], machine: Machine
) -> tuple[list[Copied], tuple[str, ...]]:
    """Return plug-ins to copy, and which stay behind and why; what they need goes into `found`.

    UCX looks for its transports in a folder beside its own library (ucs/sys/module.c), so that
    they must move with it.
    """
    copies, without = [], []
    for soname, loaded in tuple(found.items()):
        name = next((sub for start, sub in _BESIDE.items() if soname.startswith(start)), None)
        if name is None:
            continue
        folder = posixpath.join(posixpath.dirname(loaded.file.path), name)
        for entry in view.listing(folder):
            path = posixpath.join(folder, entry)
            if not _LIBRARY.fullmatch(entry) or view.look(path) is None:
                continue
            more, why = _needs_of_plugin(view, path, found, machine)
            if why:
                without.append(f"{entry}: {why}")
                continue
            found.update(more)
            target = f"lib/{PRIVATE}/{name}/{entry}"
            copies.append(Copied(source=path, target=target, rpath="$ORIGIN:$ORIGIN/.."))
    return copies, tuple(without)


def _needs_of_plugin(
    view: FileView, path: str, found: Mapping[str, MappedObject], machine: Machine
) -> tuple[dict[str, MappedObject], str]:
    """Return the libraries that a plug-in brings, and why it cannot be taken, empty if it can."""
    more: dict[str, MappedObject] = {}
    try:
        closure = load_program(view, path, machine=machine, setting=LoaderSettings())
    except StackproofError as error:
        return more, error.problems[0].message
    missing = dict.fromkeys(edge.name for edge in closure.missing if not stays(edge.name))
    if missing:
        return more, f"{', '.join(f'`{name}`' for name in missing)} not found"
    beside = posixpath.dirname(path)
    for loaded in closure.objects[1:]:
        soname = _soname(loaded)
        if stays(soname) or posixpath.dirname(loaded.path) == beside:
            continue
        known = found.get(soname, loaded)
        if known.file.identity != loaded.file.identity:
            return {}, f"it finds another `{soname}`: `{loaded.path}`"
        more[soname] = known
    return more, ""


def _aliases(
    replacement: Replacement, own: Mapping[str, str], names: Sequence[str]
) -> dict[str, str]:
    """Return links for main libraries that the programs ask for under another name."""
    links = {}
    for name in names:
        promise = abi.abi_of_name(name)
        if name in own or promise is None or promise[1] is not LibraryRole.MAIN:
            continue
        main = replacement.main_for(promise[0])
        if main is not None and main.family.abi == promise[0]:
            links[f"lib/{name}"] = main.elf.soname or posixpath.basename(main.path)
    return links


def _environment(
    view: FileView, replacement: Replacement, found: Mapping[str, MappedObject]
) -> dict[str, str]:
    """Return the variables of an Open MPI that does not lie where it was configured for."""
    for soname, loaded in found.items():
        if soname.startswith(("libopen-pal.", "libopen_mpi.")):
            prefix = view.traces(loaded.file).prefix
            home = replacement.home
            if prefix and posixpath.normpath(prefix) != posixpath.normpath(home):
                return dict.fromkeys(homes.OPEN_MPI, home)
    return {}


def _soname(loaded: MappedObject) -> str:
    return loaded.elf.soname or posixpath.basename(loaded.path)


def stays(name: str) -> bool:
    """Return whether a library always is the machine's own: the C library's, or a driver's."""
    base = posixpath.basename(name)
    return bool(_C_LIBRARY.fullmatch(base) or _DRIVERS.fullmatch(base))


def _absolute_needs(loaded: MappedObject) -> Iterator[Problem]:
    for name in loaded.elf.needed:
        if "/" in name:
            text = f"it needs `{name}` by its path, which no search order can change"
            yield _problem(text, loaded.path, "patchelf --replace-needed, in a copy")


def _problem(message: str, file: str, hint: str) -> Problem:
    return Problem(
        reason=Reason.INJECTION_FAILS, message=message, where=Location(file=file), hint=hint
    )
