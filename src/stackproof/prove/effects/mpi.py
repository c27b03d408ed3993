"""The MPIs of a proof: what a user names, or a program finds by itself, and how it is started."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Sequence

from msgspec import field

from stackproof.core import mountlist
from stackproof.core.command import EnvPatch
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.image import activate, metadata, view_variables
from stackproof.image.effects import image_file
from stackproof.image.effects.tree import relocated
from stackproof.image.model import MpiFacts
from stackproof.inject.effects import job_key
from stackproof.inject.effects import named as inject_named
from stackproof.inject.effects.job_key import MountedImage
from stackproof.inject.findings import launcher as findings_launcher
from stackproof.inject.program import Demand, demand_of
from stackproof.inject.replacement import find_replacement
from stackproof.inject.ways import inner_folders
from stackproof.linking.effects.view import RootView
from stackproof.linking.loader import Closure, LoaderSettings, load_program
from stackproof.mpi import abi
from stackproof.mpi.abi import Abi
from stackproof.mpi.requirement import OPEN_MPI

# Launchers by what `inject check` calls them: ours, and the ABI of the MPIs that they are part of.
_KINDS = {
    "hydra": ("hydra", Abi.MPICH),
    "intel-hydra": ("intel-hydra", Abi.MPICH),
    "prte": ("prte", Abi.OPENMPI),
    "orterun": ("prte", Abi.OPENMPI),
}
_NAMES = ("mpiexec.hydra", "mpiexec", "mpiexec.openmpi", "mpiexec.mpich")
# Where Linux distributions keep MPIs, with `lib` below.
_AT_HAND = (
    "/usr/lib/x86_64-linux-gnu/openmpi", "/usr/lib/x86_64-linux-gnu/mpich",
    "/usr/lib/aarch64-linux-gnu/openmpi", "/usr/lib/aarch64-linux-gnu/mpich",
    "/usr/lib64/openmpi", "/usr/lib64/mpich",
)  # fmt: skip


class Provided(Value):
    """An MPI, or what lies below one: where it is and how it starts ranks.

    `part` is the image or the folder, None for what a program finds by itself; `launcher` a name
    in `stackproof.launch.launchers`, empty where there is no MPI; `env` what it sets as a program's
    own.
    """

    title: str
    prefix: str
    part: MountedImage | None = None
    launcher: str = ""
    mpiexec: str = ""
    facts: MpiFacts | None = None
    env: EnvPatch = field(default_factory=EnvPatch)


def named(text: str) -> Provided:
    """Return what an image or a folder provides.

    Raises `StackproofError` as reading them does, and NO_MPI for an MPI without a launcher.
    """
    request = job_key.image_in(text)
    return _of_image(request.image, request.mount_point) if request else _of_folder(text)


def found_by(program: str) -> Provided:
    """Return the MPI that a program finds by itself.

    Raises `StackproofError`: FILE_MISSING without the program, NO_MPI where it finds none.
    """
    program = program_in(program, Provided(title="", prefix=""), RootView())
    closure = _closure(RootView(), program, LoaderSettings())
    for loaded in closure.objects[1:]:
        family = abi.family_of(loaded.elf)
        if family is None:
            continue
        real = os.path.realpath(loaded.path)
        folders = [*_above(posixpath.dirname(loaded.path)), *_above(posixpath.dirname(real))]
        launcher, mpiexec = _launcher(folders, family[0].abi, real)
        prefix = posixpath.dirname(posixpath.dirname(mpiexec))
        return Provided(title=real, prefix=prefix, launcher=launcher, mpiexec=mpiexec)
    raise fail(
        Reason.NO_MPI,
        f"`{program}` does not find an MPI by itself",
        where=Location(file=program),
        hint="name its own one: --own IMAGE|FOLDER",
    )


def at_hand(wanted: str) -> Provided | None:
    """Return an installed MPI of another ABI than `wanted`, None when there is none."""
    for folder in _AT_HAND:
        try:
            mains = find_replacement(RootView(), folder).mains
            if mains and all(main.family.abi != wanted for main in mains):
                return _of_folder(folder)
        except StackproofError:  # it is not there, or has no launcher
            continue
    return None


def program_in(text: str, own: Provided, view: RootView) -> str:
    """Return the path of a program: as it is, or by its name in what the own MPI's image sets.

    Raises `StackproofError` (FILE_MISSING).
    """
    described = own.part.described if own.part else None
    candidates = []
    if "/" not in text and described:
        point = own.part.point if own.part else ""
        if text in described.benchmarks:
            candidates.append(point + described.benchmarks[text][len(described.mount) :])
        candidates += [f"{folder}/{text}" for folder in own.env.prepend.get("PATH", ())]
    candidates.append(os.path.abspath(text))
    for path in candidates:
        if view.look(path):
            return path
    raise fail(
        Reason.FILE_MISSING,
        f"there is no program `{text}`",
        where=Location(file=text),
        hint="name it by its path, or by its name in the image that --own names",
    )


def demand_on(view: RootView, program: str, setting: LoaderSettings) -> tuple[Closure, Demand]:
    """Return what a program loads and asks of MPI, without any injection."""
    closure = _closure(view, program, setting)
    return closure, demand_of(view, closure)


def _closure(view: RootView, program: str, setting: LoaderSettings) -> Closure:
    return load_program(view, program, machine=inject_named.this_machine(), setting=setting)


def _of_image(path: str, mount_point: str | None) -> Provided:
    described = image_file.load_described(path)
    point = mountlist.normal(mount_point or described.mount)
    part = MountedImage(os.path.abspath(path), point, described)
    title = f"{described.name} ({os.path.basename(path)}) at {point}"
    if described.mpi is None:
        return Provided(title=title, prefix=point, part=part)
    image = relocated(metadata.image_of(described), point)
    facts = image.mpi
    if facts is None:
        raise ValueError("the image has an MPI")
    program = "mpiexec.hydra" if facts.launcher == "intel-hydra" else "mpiexec"
    return Provided(
        title=f"{facts.family} {facts.version}, {title}",
        prefix=facts.prefix,
        part=part,
        launcher=facts.launcher,
        mpiexec=f"{facts.prefix}/bin/{program}",
        facts=facts,
        env=activate.environment_patch(image, permitted=view_variables.read_permitted(os.environ)),
    )


def _of_folder(text: str) -> Provided:
    folder = os.path.abspath(text)
    replacement = find_replacement(RootView(), folder)
    part = MountedImage(folder, folder)
    folders = (*replacement.folders, *inner_folders(replacement))
    if not replacement.mains:
        return Provided(title=folder, prefix=replacement.prefix, part=part)
    main = replacement.mains[0]
    launcher, mpiexec = _launcher([replacement.home, *_above(folder)], main.family.abi, main.path)
    homes = {}
    if main.family.abi == Abi.OPENMPI:
        homes = dict.fromkeys(OPEN_MPI, replacement.home)
    return Provided(
        title=f"{main.family.title}, {folder}",
        prefix=posixpath.dirname(posixpath.dirname(mpiexec)),
        part=part,
        launcher=launcher,
        mpiexec=mpiexec,
        env=EnvPatch(set=homes, prepend={"LD_LIBRARY_PATH": folders}),
    )


def _above(folder: str) -> Iterator[str]:
    """Yield a folder and all above it."""
    while folder != "/":
        yield folder
        folder = posixpath.dirname(folder)


def _launcher(folders: Sequence[str], wanted: str, main: str) -> tuple[str, str]:
    """Return the launcher of an ABI that lies in `bin` of one of some folders, and its path.

    Raises `StackproofError` (NO_MPI) when there is none.
    """
    for folder in dict.fromkeys(folders):
        for name in _NAMES:
            path = f"{folder}/bin/{name}"
            if not os.path.isfile(path):
                continue
            try:
                kind = inject_named.launcher_kind(path, findings_launcher.OFFERS)
            except StackproofError:
                continue
            if _KINDS[kind][1] == wanted:
                return _KINDS[kind][0], path
    raise fail(
        Reason.NO_MPI,
        f"there is no mpiexec that belongs to `{main}`",
        where=Location(file=main),
        hint="install the programs of this MPI too: Debian has them apart, as openmpi-bin or mpich",
    )
