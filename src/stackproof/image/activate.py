"""Image and view to what a job sees: an environment patch, a deployment."""

from __future__ import annotations

from stackproof.core import environment as environments
from stackproof.core.environment import Change
from stackproof.image import view_variables

TYPE_CHECKING = False  # `typing`, and nouns, take longer to import than an image to mount
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from stackproof.core.command import EnvPatch
    from stackproof.core.errors import Problem
    from stackproof.image.described import Described, DescribedView
    from stackproof.image.model import Deployment, Image, View

    AnyView = View | DescribedView


def environment_patch(
    image: Image,
    view: str | None = None,
    *,
    permitted: Collection[str] | None,
    environment: Mapping[str, str] | None = None,
) -> EnvPatch:
    """Return the patch of a view: of the image's default view when none is named.

    `environment` is the one that the patch will be applied to; `${@NAME@}` in a value is replaced
    from it, by nothing where it lacks the variable. An image without a default view changes
    nothing. `permitted` and what is raised are those of `choose_views`.
    """
    from stackproof.core.command import EnvPatch  # noqa: PLC0415 - see above

    views = choose_views((image,), (view,) if view else (), permitted=permitted)
    return EnvPatch.of(combined(views, environment=environment or {}))


def choose_views(
    images: Sequence[Image | Described],
    names: Sequence[str],
    *,
    permitted: Collection[str] | None,
) -> tuple[AnyView, ...]:
    """Return the views called `[IMAGE-NAME:]VIEW`, or without names each image's default view.

    `permitted` are variables that views may change beside the usual ones; None where somebody else
    has judged them. Raises `StackproofError` with all problems: UNKNOWN_VIEW for a view that no
    image has, USAGE for one that several images have, NOT_PERMITTED for a variable.
    """
    if names:
        views = _choose_named(images, names)
    else:
        defaults = [(image, image.default_view) for image in images if image.default_view]
        views = tuple(_view_of(image, name) for image, name in defaults)
    if permitted is not None:
        view_variables.require_permission(images, views, permitted)
    return views


def _choose_named(images: Sequence[Image | Described], names: Sequence[str]) -> tuple[AnyView, ...]:
    problems: list[Problem] = []
    chosen: list[AnyView] = []
    for name in names:
        owner, colon, view = name.rpartition(":")
        candidates = [image for image in images if view in image.views]
        if colon:
            candidates = [image for image in candidates if image.name == owner]
        if len(candidates) == 1:
            chosen.append(candidates[0].views[view])
        else:
            problems.append(_not_one(name, candidates, images))
    if problems:
        from stackproof.core.errors import StackproofError  # noqa: PLC0415 - see above

        raise StackproofError(*problems)
    return tuple(chosen)


def forced_transport(
    images: Sequence[Image | Described], views: Sequence[AnyView], asked: str | None = None
) -> str | None:
    """Return the transport that views of images, or who `asked`, force; None where nobody does.

    Raises `StackproofError` (USAGE) when they force different ones: settings of both would mix.
    """
    fixed = {name for image in images for name in image.transports if image.views[name] in views}
    if len(fixed | ({asked} if asked else set())) <= 1:
        return asked or next(iter(fixed), None)
    from stackproof.core.errors import Reason, fail  # noqa: PLC0415 - see above

    names = "`, `".join(sorted(fixed))
    and_asked = f", and `{asked}` is asked for" if asked else ""
    raise fail(
        Reason.USAGE,
        f"the views chosen force the transports `{names}`{and_asked}",
        hint="choose one: either a view of a transport, or another view and --transport",
    )


def combined(views: Sequence[AnyView], *, environment: Mapping[str, str]) -> Change:
    """Return the changes of views as one, in their order; `environment` as above."""
    change = Change()
    for view in views:
        change = change.then(environments.with_references(view.env, environment))
    return change


def deployment(
    image: Image,
    view: str | None = None,
    *,
    name: str,
    permitted: Collection[str],
) -> Deployment:
    """Return an image, mounted where it was built for, as an arm called `name` of a comparison.

    Raises `StackproofError`: as `choose_views`, or IMAGE_NO_META when the image does not say which
    MPI it holds.
    """
    from stackproof.core.errors import Location, Reason, fail  # noqa: PLC0415 - see above
    from stackproof.image.model import Deployment, ImageMount  # noqa: PLC0415

    if image.mpi is None:
        raise fail(
            Reason.IMAGE_NO_META,
            f"image `{image.path}` does not say which MPI it holds",
            where=Location(file=image.path),
            hint="make images for benchmarks with `stackproof build`",
        )
    return Deployment(
        name=name,
        mounts=(ImageMount(image=image.path, mount_point=image.mount),),
        mpi=image.mpi,
        programs={program.name: program.path for program in image.benchmarks},
        env=environment_patch(image, view, permitted=permitted),
        image_sha256=image.sha256,
        lock_digest=image.lock_digest,
        recipe=image.name,
    )


def _view_of(image: Image | Described, name: str) -> AnyView:
    if name not in image.views:
        from stackproof.core.errors import StackproofError  # noqa: PLC0415 - see above

        raise StackproofError(_not_one(name, [], (image,)))
    return image.views[name]


def _not_one(
    name: str, candidates: Sequence[Image | Described], images: Sequence[Image | Described]
) -> Problem:
    from stackproof.core.errors import Problem, Reason  # noqa: PLC0415 - see above

    if candidates:
        return Problem(
            reason=Reason.USAGE,
            message=f"view `{name}` is in {len(candidates)} images",
            hint="say which: " + ", ".join(f"{image.name}:{name}" for image in candidates),
        )
    known = [
        view if len(images) == 1 else f"{image.name}:{view}"
        for image in images
        for view in sorted(image.views)
    ]
    return Problem(
        reason=Reason.UNKNOWN_VIEW,
        message=f"no view `{name}` in `{'`, `'.join(image.path for image in images)}`",
        hint=f"views: {', '.join(known)}" if known else "there are no views; leave it out",
    )
