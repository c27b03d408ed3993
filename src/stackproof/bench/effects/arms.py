"""The arms of a bench made ready: their images are read and turned into deployments."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from stackproof.bench.effects.kinds import container_arm, eessi_arm, host_arm, pack_arm, vendor
from stackproof.bench.effects.stamps import stamp_of
from stackproof.bench.ready import ReadyArm
from stackproof.bench.spec import Arm, BenchSpec
from stackproof.build.benchmark import NATIVE
from stackproof.core import mountlist
from stackproof.core.command import EnvPatch
from stackproof.core.effects import files
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.image import activate
from stackproof.image.described import Described
from stackproof.image.effects import image_file
from stackproof.image.effects.folder import load_tree, read_tree_member
from stackproof.image.effects.load import load_image, read_member
from stackproof.image.model import Deployment, Image, ImageMount, MpiFacts
from stackproof.inject.effects import job, job_key, named
from stackproof.inject.effects.job_key import JobCase, MountedImage
from stackproof.inject.replacement import find_replacement
from stackproof.linking.effects.view import RootView
from stackproof.mpi import families
from stackproof.mpi.effects import fabric
from stackproof.results.case import Locality
from stackproof.results.model import ComparedArm


@dataclass(frozen=True, slots=True, kw_only=True)
class Arms:
    """All arms by name, the baseline first; `null` is the baseline once more."""

    by_name: Mapping[str, ReadyArm]
    baseline: str
    null: str | None
    challengers: tuple[str, ...]

    @property
    def programs(self) -> dict[str, frozenset[str]]:
        """Return the programs that each arm can run."""
        return {name: frozenset(one.deployment.programs) for name, one in self.by_name.items()}

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the files and folders that every node must see."""
        mounted = {mount.image for one in self.by_name.values() for mount in one.deployment.mounts}
        folders = {folder for one in self.by_name.values() for folder in one.folders}
        images = {one.image.path for one in self.by_name.values()}
        return tuple(sorted(mounted | images | folders))


def make_ready(spec: BenchSpec) -> Arms:
    """Read the images of all arms; raises `StackproofError` with the problems of all at once."""
    arms: list[ReadyArm] = []
    problems: list[Problem] = []
    # What has sources is compiled for an arm that does not bring it; every arm has our own.
    wanted = tuple(one.name for one in spec.programs if not one.source) or (NATIVE,)
    for arm in (spec.baseline, *spec.challengers):
        try:
            arms.append(_READERS[arm.kind](arm, wanted))
        except StackproofError as error:
            problems += error.problems
    ready = {one.deployment.name: one for one in _told_apart(arms)}
    if len(ready) < len(arms):
        counts = Counter(one.deployment.name for one in _told_apart(arms))
        problems += [_same_name(name) for name, count in counts.items() if count > 1]
    if problems:
        raise StackproofError(*problems)
    names = list(ready)
    null = f"{names[0]}-again" if spec.null_arm else None
    if null:
        again = replace(ready[names[0]].deployment, name=null)
        ready[null] = replace(ready[names[0]], deployment=again)
    return Arms(by_name=ready, baseline=names[0], null=null, challengers=tuple(names[1:]))


def check_unchanged(ready: ReadyArm) -> None:
    """Raise `StackproofError` (IMAGE_DAMAGED) when an image, or a library, is another file.

    Every launch mounts it anew, and numbers of the other one would stand under the name and the
    digest of the first.
    """
    for path, stamp in ready.stamps.items():
        if stamp_of(path) != stamp:
            raise fail(
                Reason.IMAGE_DAMAGED,
                f"`{path}` was replaced while it was measured",
                where=Location(file=path),
                hint="put it back, or measure the other one into another folder",
            )


def _told_apart(arms: Sequence[ReadyArm]) -> list[ReadyArm]:
    """Give arms that nobody named and that are called the same the version of their MPI, too.

    Where that is not enough they are called by their files.
    """
    found = list(arms)
    for better in (_versioned_name, _file_name):
        counts = Counter(one.deployment.name for one in found)
        found = [
            replace(one, deployment=replace(one.deployment, name=better(one)))
            if counts[one.deployment.name] > 1 and not one.arm.name
            else one
            for one in found
        ]
    return found


def _versioned_name(one: ReadyArm) -> str:
    return f"{one.deployment.name}-{one.deployment.mpi.version}"


def _file_name(one: ReadyArm) -> str:
    name = one.arm.label
    return re.sub(r"[^A-Za-z0-9._+-]", "-", name)


def read_text(image: Image, member: str) -> str:
    """Return the text of a file inside an image, empty when there is none."""
    if os.path.isdir(image.path):
        return read_tree_member(image.path, member)
    return read_member(image.path, member)


def recipe_text(image: Image) -> str:
    """Return the recipe that an image was built from, empty when it does not have it."""
    if os.path.isdir(image.path):
        folder = os.path.join(image.path, "meta", "recipe")
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        return "".join(read_tree_member(folder, name) for name in names)
    return read_member(image.path, "meta/recipe/*")


def compared(ready: ReadyArm) -> ComparedArm:
    """Return what results say of an arm."""
    facts = ready.deployment.mpi
    return ComparedArm(
        image=ready.image.path,
        image_sha256=ready.image.sha256,
        lock_digest=ready.image.lock_digest,
        mpi={"family": facts.family, "version": facts.version},
        recipe=recipe_text(ready.image),
        lock=ready.documents.get("lock.json") or read_text(ready.image, "meta/lock.json"),
        view=ready.arm.view or ready.image.default_view,
        transport=", ".join(f"{k}: {v}" for k, v in ready.arm.transports.items()) or None,
        env=dict(ready.arm.env),
        rate=ready.arm.rate,
        kind=ready.arm.kind,
        asked=ready.arm.asked,
        found=ready.found,
    )


def _same_name(name: str) -> Problem:
    return Problem(
        reason=Reason.INVALID_VALUE,
        message=f"two arms are called `{name}`",
        hint="give each arm a name of its own: `name` in a specification, or NAME=IMAGE",
    )


def _ready_image(arm: Arm, programs: tuple[str, ...]) -> ReadyArm:
    """Read an arm's images and turn them into a deployment; `programs` are those that it runs."""
    wanted = mountlist.parse(arm.image)[0]
    stamp = stamp_of(wanted.image)  # before its digest is taken
    if os.path.isdir(wanted.image):
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
    deployment = activate.deployment(image, arm.view, name=name)
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
    ready = _with_injection(ready, arm.inject, programs) if arm.inject else ready
    mounted = {mount.image for mount in ready.deployment.mounts if os.path.isfile(mount.image)}
    stamps = {path: stamp if path == image.path else stamp_of(path) for path in mounted}
    return replace(ready, stamps=stamps)


def _as_its_view(arm: Arm, image: Image) -> Arm:
    """Return an arm whose view forces a transport as one that is told to use it everywhere."""
    views = activate.choose_views((image,), (arm.view,) if arm.view else ())
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


def _with_injection(ready: ReadyArm, text: str, programs: tuple[str, ...]) -> ReadyArm:
    """Put another MPI, or a libfabric, under an arm's programs, after it was judged."""
    deployment, request = ready.deployment, job_key.image_in(text)
    described = image_file.load_described(request.image) if request else None
    point = (request and request.mount_point) or (described.mount if described else "")
    injected = MountedImage(request.image if request else text, point or text, described)
    for mount in deployment.mounts:
        if described and mount.mount_point == point:
            raise fail(
                Reason.MOUNT_POINT_CLASH,
                f"two images at `{point}`: `{mount.image}` and `{injected.path}`",
                hint=f"mount what is injected at another folder: `{injected.path}:/other`",
            )
    parts = [
        MountedImage(mount.image, mount.mount_point, image_file.load_described(mount.image))
        for mount in deployment.mounts
    ]
    paths = [path for name, path in deployment.programs.items() if name in programs]
    case = JobCase(parts, injected, deployment.env.apply({}), programs=paths)
    change = job.change(case, accept_unknown=ready.arm.accept_unknown)
    links = job.links_folder(case)
    mounts = (ImageMount(image=injected.path, mount_point=injected.point),) if described else ()
    other = job.libfabric_of(injected)
    name = described.name if described else os.path.basename(text.rstrip("/"))
    image = ready.image
    return replace(
        ready,
        image=replace(image, sha256=f"{image.sha256}+{job_key.digest(injected)}"),
        deployment=replace(
            deployment,
            name=ready.arm.name or f"{deployment.name}+{name}",
            mounts=(*deployment.mounts, *mounts),
            env=deployment.env.then(EnvPatch.of(change.all)),
            mpi=_mpi_of(described, injected) or deployment.mpi,
        ),
        libfabric=other if other.version or (described and described.mpi) else ready.libfabric,
        folders=(*((links,) if links else ()), *(() if described else (text,))),
    )


def _mpi_of(described: Described | None, injected: MountedImage) -> MpiFacts | None:
    """Return the MPI that takes the place of an arm's own, None where that stays."""
    if described is not None:
        if described.mpi is None:
            return None
        prefix = injected.point + described.mpi["prefix"][len(described.mount) :]
        return MpiFacts(**{**described.mpi, "prefix": prefix})
    if find_replacement(RootView(), named.load_prefix(injected.path).path).mains:
        raise fail(
            Reason.UNSUPPORTED,
            f"nothing says which release the MPI in `{injected.path}` is, and how it is started",
            where=Location(file=injected.path),
            hint="inject an image that `stackproof build` made, or use `stackproof inject prove`",
        )
    return None


def _ready_vendor(arm: Arm, programs: tuple[str, ...]) -> ReadyArm:
    found = vendor.find_vendor(arm)
    return _READERS[found.kind](found, programs)


_READERS: Mapping[str, Callable[[Arm, tuple[str, ...]], ReadyArm]] = {
    "image": _ready_image,
    "pack": pack_arm.of_pack,
    "prefix": host_arm.of_prefix,
    "module": host_arm.of_module,
    "vendor": _ready_vendor,
    "container": container_arm.of_container,
    "eessi": eessi_arm.of_eessi,
}
