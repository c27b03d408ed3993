"""`--inject IMAGE|FOLDER`: another MPI, or a libfabric, under the programs of a job.

What is needed for it is imported when it is asked for: commands of users wait for the rest.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` takes longer to import than an image to mount
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from stackproof.host.jobcase import Part
    from stackproof.host.jobinjection import JobChange
    from stackproof.images.described import Described
    from stackproof.mountlist import MountRequest


def requested(args: argparse.Namespace) -> MountRequest | None:
    """Return the image that is to be mounted for an injection, None where there is none.

    Raises `StackproofError`: USAGE, UNSUPPORTED, FILE_MISSING, NOT_PERMITTED.
    """
    if args.inject is None:
        if args.accept_unknown:
            from stackproof.errors import Reason, fail  # noqa: PLC0415 - see above

            raise fail(Reason.USAGE, "`--accept-unknown` is for `--inject`")
        return None
    from stackproof.host import jobcase  # noqa: PLC0415 - see above

    return jobcase.image_in(args.inject)


def part_of(args: argparse.Namespace, image: Described | None, point: str) -> Part | None:
    """Return what is injected: an image and where it is mounted, or the folder; None for none."""
    if not args.inject:
        return None
    from stackproof.host.jobcase import Part  # noqa: PLC0415 - see above

    return Part(image.path, point, image) if image else Part(args.inject, args.inject)


def change(
    args: argparse.Namespace,
    images: Sequence[tuple[Described, str]],
    injected: Part,
    environment: Mapping[str, str],
    *,
    words: Sequence[str] = (),
    mounted: bool = False,
) -> JobChange:
    """Return what an injection sets; `images` come with their mount points.

    `environment` has the views in it; `words` and `mounted` are those of `JobCase`. Raises
    `StackproofError` as `jobinjection.change` does.
    """
    from stackproof.host import jobinjection  # noqa: PLC0415 - see above
    from stackproof.host.jobcase import JobCase, Part  # noqa: PLC0415

    parts = [Part(image.path, point, image) for image, point in images]
    case = JobCase(parts, injected, environment, words=words, mounted=mounted)
    return jobinjection.change(case, accept_unknown=args.accept_unknown)
