"""Arms that are images, or folders with their trees: what they say of themselves is read."""

from __future__ import annotations

import glob
import os
import re

from stackproof.bench import arms
from stackproof.bench.effects.kinds import ArmReader, Tell, stamp_of
from stackproof.bench.ready import ReadyArm
from stackproof.bench.spec import Arm
from stackproof.core import mountlist
from stackproof.core.command import EnvPatch
from stackproof.core.effects import files, shipped
from stackproof.core.errors import Location, Reason, fail
from stackproof.core.value import replace
from stackproof.image import activate, view_variables
from stackproof.image.described import META
from stackproof.image.effects.image_file import load_image
from stackproof.image.effects.tree import load_tree
from stackproof.image.model import Deployment, Image, ImageMount
from stackproof.mpi import families
from stackproof.mpi.effects import fabric
from stackproof.results.case import Locality
from stackproof.share.effects import naming


def locate(arm: Arm, folder: str, tell: Tell) -> Arm:
    """Return an arm with files in the place of labels, and called by the label of its image.

    Raises what finding labels raises.
    """
    del tell
    image = _file_of(arm.image, folder)
    label = "" if image == arm.image else os.path.relpath(arm.image, folder)
    return replace(
        arm,
        image=image,
        name=arm.name or re.sub(r"[^\w.+-]", "-", label),
        inject=_file_of(arm.inject or "", folder) or None,
        program_image=_file_of(arm.program_image or "", folder) or None,
    )


def _file_of(text: str, folder: str) -> str:
    """Return a path `IMAGE[:MOUNT]` as it is, or what a label means that was taken for a path."""
    if not text or os.path.exists(mountlist.split(text)[0]):
        return text
    word = os.path.relpath(text, folder)
    found = naming.text_of(word)
    if found == word:
        if not (word.endswith((".yaml", ".yml")) or word in shipped.names("recipes")):
            naming.image_asked(mountlist.split(word)[0])  # raises for what is no label either
        return text
    from stackproof.share.effects import trusted  # noqa: PLC0415 - for labels alone

    trusted.require(*naming.image_asked(mountlist.split(word)[0]))
    return found


def read_arm(arm: Arm, programs: tuple[str, ...]) -> ReadyArm:
    """Read an arm's images and turn them into a deployment; `programs` are those that it runs."""
    wanted = mountlist.parse(arm.image)[0]
    stamp = stamp_of(wanted.image)  # before its digest is taken
    if os.path.isdir(wanted.image):
        _refuse_other_folder(wanted.image)
        image = load_tree(wanted.image)
    else:
        image = replace(load_image(wanted.image), sha256=files.sha256(wanted.image))
    if image.mpi is None:
        raise fail(
            Reason.UNSUPPORTED,
            f"the image `{image.name}` does not say which MPI it has",
            where=Location(file=wanted.image),
            hint="build it with `stackproof build`",
        )
    name = arm.name or image.name
    permitted = view_variables.read_permitted(os.environ)
    deployment = activate.deployment(image, arm.view, name=name, permitted=permitted)
    if wanted.mount_point and wanted.mount_point != image.mount:
        raise fail(
            Reason.UNSUPPORTED,
            f"the image `{image.name}` was built for {image.mount}, not {wanted.mount_point}",
            hint="leave the mount point out",
            where=Location(file=wanted.image),
        )
    if os.path.isdir(image.path):
        deployment = replace(deployment, mounts=())
    if arm.program_image:
        deployment = _with_program_image(deployment, arm.program_image)
    libfabric = fabric.libfabric_of_image(image.path)
    arm = _as_its_view(arm, image)
    ready = ReadyArm(arm=arm, image=image, deployment=deployment, libfabric=libfabric)
    if arm.inject:
        from stackproof.bench.effects.kinds import injected  # noqa: PLC0415 - for such arms alone

        ready = injected.with_injection(ready, arm.inject, programs)
    mounted = {mount.image for mount in ready.deployment.mounts if os.path.isfile(mount.image)}
    stamps = {path: stamp if path == image.path else stamp_of(path) for path in mounted}
    return replace(ready, stamps=stamps)


def _refuse_other_folder(folder: str) -> None:
    """Raise `StackproofError` (INVALID_VALUE) for a pack or an installed MPI without its word."""
    from stackproof.pack.model import STACK  # noqa: PLC0415 - for failures only

    name = min(folder, os.path.relpath(folder), key=len)
    for kind, mark in (("pack", STACK), ("prefix", "bin/mpicc*")):
        if glob.glob(mark, root_dir=folder) and not glob.glob(META, root_dir=folder):
            message = f"the folder `{name}` is {arms.REGISTRY[kind].title}, not an image"
            raise fail(Reason.INVALID_VALUE, message, hint=f"write `{kind}:{name}`")


def _as_its_view(arm: Arm, image: Image) -> Arm:
    """Return an arm whose view forces a transport as one that is told to use it everywhere."""
    views = activate.choose_views((image,), (arm.view,) if arm.view else (), permitted=None)
    forced = activate.forced_transport((image,), views)
    if forced is None:
        return arm
    for asked in arm.transports.values():
        activate.forced_transport((image,), views, asked)
    return replace(arm, transports={locality.value: forced for locality in Locality})


def _with_program_image(deployment: Deployment, path: str) -> Deployment:
    """Add the programs that another image brings; they must be of the same ABI."""
    other = load_image(mountlist.parse(path)[0].image)
    family = families.REGISTRY[deployment.mpi.family]
    if other.mpi is None or families.REGISTRY[other.mpi.family].abi != family.abi:
        raise fail(
            Reason.UNSUPPORTED,
            f"programs of `{other.name}` cannot run on {family.title}: "
            "their MPI has another binary interface",
            where=Location(file=path),
            hint="MPICH, Intel MPI and Cray MPICH share one; Open MPI has its own",
        )
    extra = {program.name: program.path for program in other.benchmarks}
    libraries = EnvPatch(prepend={"LD_LIBRARY_PATH": (f"{deployment.mpi.prefix}/lib",)})
    return replace(
        deployment,
        mounts=(*deployment.mounts, ImageMount(image=other.path, mount_point=other.mount)),
        programs={**extra, **deployment.programs},
        env=deployment.env.then(libraries),
    )


READER = ArmReader(read=read_arm, locate=locate)
