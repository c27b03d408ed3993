"""`--transport NAME`: the path that the MPI of an image is made to take.

What is needed for it is imported when it is asked for: commands of users wait for the rest.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # `typing` takes longer to import than an image to mount
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from stackproof.command import EnvPatch
    from stackproof.host.jobcase import Part
    from stackproof.images.described import Described
    from stackproof.transports import Libfabric


def change(
    args: argparse.Namespace, images: Sequence[Described], injected: Part | None = None
) -> EnvPatch:
    """Return the variables that make the one MPI among the images take `args.transport`.

    An MPI that is injected takes the place of theirs, and so does a libfabric. What is not sure is
    told on stderr. Raises `StackproofError`: UNSUPPORTED, USAGE where there is not exactly one MPI,
    and what reading the image or the site raises.
    """
    from stackproof import transports  # noqa: PLC0415 - see above
    from stackproof.case import Placement, Rank  # noqa: PLC0415
    from stackproof.errors import Reason, fail  # noqa: PLC0415
    from stackproof.host import fabric  # noqa: PLC0415
    from stackproof.transports import Memory, Setup  # noqa: PLC0415

    transport = transports.get(args.transport)
    other = injected.described if injected else None
    with_mpi = [other] if other and other.mpi else [image for image in images if image.mpi]
    if len(with_mpi) != 1 or with_mpi[0].mpi is None:
        has = ", ".join(image.name for image in with_mpi) or "none"
        raise fail(
            Reason.USAGE,
            f"`--transport` needs one image that says which MPI it holds; here: {has}",
            hint="leave `--transport` out, or name one image that `stackproof build` made",
        )
    mpi = with_mpi[0].mpi
    kind, nics = _site_fabric(args.site) if args.site else fabric.of_this_machine()
    # Where the ranks will be is not known before the job runs. One node is what every path allows;
    # a job on several nodes that asks for `shm` fails in its MPI, as a forced path should.
    anywhere = Placement(name="job", ranks=(Rank(node="node"),))
    profile = transport.profile(
        Setup(
            family=mpi["family"],
            version=mpi["version"],
            placement=anywhere,
            libfabric=_libfabric(with_mpi[0], injected),
            fabric=kind,
            nics=nics,
            memory=Memory(args.memory),
            launcher=mpi["launcher"],
        )
    )
    if not kind and not args.site and args.transport in transports.NEED_SLINGSHOT:
        raise fail(
            Reason.UNSUPPORTED,
            f"the transport `{args.transport}` needs Slingshot-11, and there is no NIC of it here",
            hint="`--site NAME` says on which machine the job will run; here use `tcp` or `shm`",
        )
    for text in profile.notes:
        print(f"note: {text}", file=sys.stderr)
    return profile.env


def _libfabric(image: Described, injected: Part | None) -> Libfabric:
    """Return the injected libfabric, or else the image's."""
    from stackproof.host import fabric  # noqa: PLC0415 - see above

    if injected:
        from stackproof.host import jobinjection  # noqa: PLC0415 - see above

        found = jobinjection.libfabric_of(injected)
        if found.version:
            return found
    return fabric.libfabric_of_image(image.path)


def _site_fabric(name: str) -> tuple[str, int]:
    """Return what joins a site's nodes, and the NICs of one node where all have as many."""
    from stackproof.host.probe import load_site  # noqa: PLC0415 - see above

    site = load_site(name)
    counts = {partition.nics for partition in site.partitions.values()}
    kind = site.fabric.type
    return kind.value if kind else "", (counts.pop() or 0) if len(counts) == 1 else 0
