"""Images that others will mount, to the list of them and the environment with their views.

What the plug-in for Slurm asks at submission passes here: what is slow to import is imported where
it is used.
"""

from __future__ import annotations

import os

from stackproof.core import mountlist
from stackproof.core.mountlist import MountRequest
from stackproof.image.effects.image_file import load_described
from stackproof.mount.effects import job_mpi
from stackproof.mount.effects.entering import (
    EntryRequest,
    bad_place,
    changed_environment,
    with_injected,
    wrong,
)

TYPE_CHECKING = False  # `typing`, msgspec and errors take longer to import than all the rest
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stackproof.core.errors import Problem, StackproofError
    from stackproof.image.described import Described
    from stackproof.mount.options import ActivateOptions


def activated(
    options: ActivateOptions, before: Mapping[str, str], say: Callable[[str], None] = lambda _: None
) -> tuple[str, str, dict[str, str]]:
    """Return the mount list, its labels, and the environment with the views; `say` hears notes.

    The labels are what each image was asked for, with commas between; empty where there is none.
    How to mount is not asked of the options. Raises `StackproofError`: BAD_MOUNT_POINT, and what
    `trusted.require`, reading images and choosing views raise.
    """
    mpi = options.mpi
    injected = job_mpi.requested(mpi)
    own_requests = mountlist.parse(options.images)
    if not all(os.path.isfile(item.image) for item in own_requests):
        from stackproof.share.effects import naming  # noqa: PLC0415 - see above

        own_requests = naming.images(own_requests)
    requests, number = with_injected(own_requests, injected)
    labels = [request.label for request in requests]
    if any(labels):
        from stackproof.share.effects import trusted  # noqa: PLC0415 - see above

        for request in requests:
            trusted.require(request.image, request.label)
    optional = options.views is None and not mpi.path and not mpi.inject
    images = _load(requests, say, optional=optional)
    if len(own_requests) < len(requests):
        job_mpi.check_places(
            [
                (image, request.mount_point or image.mount)
                for request, image in zip(requests, images, strict=True)
                if image
            ]
        )
    placed = _placed(requests, images)
    points = [request.mount_point or "" for request in placed]
    entry = EntryRequest((), say, own=len(own_requests), injected=number)
    environment, _ = changed_environment(options, images, points, entry, before)
    return mountlist.render(placed), ",".join(labels) if any(labels) else "", environment


def _load(
    requests: Sequence[MountRequest], say: Callable[[str], None], *, optional: bool
) -> tuple[Described | None, ...]:
    """Return the facts of the images about themselves.

    None for one that is not on this machine, when `optional` (nothing of it is needed here) and its
    mount point is named: the nodes may have it.
    """
    found: list[Described | None] = []
    problems: list[Problem] = []
    for request in requests:
        try:
            found.append(load_described(request.image))
        except _error() as error:
            away = error.reason in {"image-missing", "image-no-meta"}
            if not (away and optional and request.mount_point):
                problems += error.problems
                continue
            if error.reason == "image-missing":
                say(f"`{request.image}` is not on this machine")
            found.append(None)
    _raise(problems)
    return tuple(found)


def _placed(
    requests: Sequence[MountRequest], images: Sequence[Described | None]
) -> list[MountRequest]:
    """Return the images with absolute paths and every mount point; raises BAD_MOUNT_POINT."""
    placed: list[MountRequest] = []
    problems: list[Problem] = []
    for request, image in zip(requests, images, strict=True):
        wanted = request.mount_point or (image.mount if image else "")
        if fault := bad_place(wanted, request.image):
            problems += fault.problems
            continue
        path = os.path.abspath(request.image)
        placed.append(MountRequest(image=path, mount_point=mountlist.normal(wanted)))
    problems += mountlist.clashes(placed)
    _raise(problems)
    return placed


def _error() -> type[StackproofError]:
    """Return the class of our errors; what stands behind `except` is looked at when one comes."""
    from stackproof.core.errors import StackproofError  # noqa: PLC0415 - see above

    return StackproofError


def _raise(problems: Sequence[Problem]) -> None:
    """Raise all problems together, if there are any."""
    if problems:
        raise _error()(*problems)


def check_names(to_set: Mapping[str, str]) -> None:
    """Raise `StackproofError` (IMAGE_NO_META) for what cannot be the name of a variable."""
    bad = [name for name in to_set if not name or "=" in name]
    if bad:
        raise wrong(
            "image-no-meta",
            f"a view sets what cannot be the name of a variable: `{bad[0]}`",
            hint="build the image again with another name",
        )
