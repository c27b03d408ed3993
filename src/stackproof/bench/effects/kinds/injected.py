"""Images with another MPI, or a libfabric, under their programs: judged before anything runs."""

from __future__ import annotations

import os

from stackproof.bench.ready import ReadyArm
from stackproof.core.command import EnvPatch
from stackproof.core.errors import Location, Reason, fail
from stackproof.core.value import replace
from stackproof.image import activate, view_variables
from stackproof.image.described import Described
from stackproof.image.effects import image_file
from stackproof.image.model import ImageMount, MpiFacts
from stackproof.inject.effects import job, job_key, named
from stackproof.inject.effects.job_key import JobCase, MountedImage
from stackproof.inject.replacement import find_replacement
from stackproof.linking.effects.view import RootView


def with_injection(ready: ReadyArm, text: str, programs: tuple[str, ...]) -> ReadyArm:
    """Put another MPI, or a libfabric, under an arm's programs, after it was judged."""
    deployment, request = ready.deployment, job_key.image_in(text)
    described = image_file.load_described(request.image) if request else None
    if described:
        activate.choose_views((described,), (), permitted=view_variables.read_permitted(os.environ))
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
