"""Which MPI the programs of a job get, and the path that it is made to take, as variables.

What is needed for it is imported when it is asked for: commands of users wait for the rest.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` takes longer to import than an image to mount
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stackproof.core.command import EnvPatch
    from stackproof.core.mountlist import MountRequest
    from stackproof.image.described import Described
    from stackproof.inject.effects.job import JobChange
    from stackproof.inject.effects.job_key import MountedImage
    from stackproof.mount.options import MpiOptions
    from stackproof.mpi.transports import Libfabric, Memory


def requested(options: MpiOptions) -> MountRequest | None:
    """Return the image that is to be mounted for an injection, None where there is none.

    Raises `StackproofError`: USAGE, UNSUPPORTED, FILE_MISSING, NOT_PERMITTED.
    """
    if options.inject is None:
        if options.accept_unknown:
            from stackproof.core.errors import Reason, fail  # noqa: PLC0415 - see above

            raise fail(Reason.USAGE, "`--accept-unknown` is for `--inject`")
        return None
    from stackproof.inject.effects import job_key  # noqa: PLC0415 - see above

    return job_key.image_in(options.inject)


def check_places(images: Sequence[tuple[Described, str]]) -> None:
    """Raise `StackproofError` for images in one place, the last of which is to be injected.

    INJECTION_FAILS where their MPIs are of different ABIs: no other place would help. Else
    MOUNT_POINT_CLASH.
    """
    from stackproof.core import mountlist  # noqa: PLC0415 - see above

    problems = mountlist.clashes(
        [mountlist.MountRequest(image=image.path, mount_point=point) for image, point in images]
    )
    if not problems:
        return
    from stackproof.core.errors import Location, Reason, StackproofError, fail  # noqa: PLC0415
    from stackproof.mpi import families  # noqa: PLC0415 - see above

    other, place = images[-1]
    abis = {
        image.path: families.abi_of(image.mpi["family"], image.mpi["version"])
        for image, point in images
        if point == place and image.mpi and image.mpi["family"] in families.REGISTRY
    }
    for path, abi in abis.items():
        if other.mpi and abi != abis.get(other.path, abi):
            title = families.REGISTRY[other.mpi["family"]].title
            raise fail(
                Reason.INJECTION_FAILS,
                f"programs of `{path}` are for the {abi} ABI, and `{other.path}` is {title} "
                f"{other.mpi['version']}: they cannot work with it",
                where=Location(file=path),
                hint=f"inject an MPI of the {abi} ABI, or use the programs with their own",
            )
    raise StackproofError(*problems)


def part_of(options: MpiOptions, image: Described | None, point: str) -> MountedImage | None:
    """Return the injected thing: an image and its mount point, or the folder; None for none."""
    if not options.inject:
        return None
    from stackproof.inject.effects.job_key import MountedImage  # noqa: PLC0415 - see above

    return (
        MountedImage(image.path, point, image)
        if image
        else MountedImage(options.inject, options.inject)
    )


def injection(
    options: MpiOptions,
    images: Sequence[tuple[Described, str]],
    injected: MountedImage,
    environment: Mapping[str, str],
    *,
    words: Sequence[str] = (),
    mounted: bool = False,
) -> JobChange:
    """Return the variables that an injection sets; `images` come with their mount points.

    `environment` has the views in it; `words` and `mounted` are those of `JobCase`. Raises
    `StackproofError` as `inject.effects.job.change` does.
    """
    from stackproof.inject.effects import job  # noqa: PLC0415 - see above
    from stackproof.inject.effects.job_key import JobCase, MountedImage  # noqa: PLC0415

    parts = [MountedImage(image.path, point, image) for image, point in images]
    case = JobCase(parts, injected, environment, words=words, mounted=mounted)
    return job.change(case, accept_unknown=options.accept_unknown)


def transport(
    options: MpiOptions,
    images: Sequence[Described],
    injected: MountedImage | None,
    say: Callable[[str], None],
) -> EnvPatch:
    """Return the variables that make the one MPI among the images take a transport.

    An MPI that is injected takes the place of theirs, and so does a libfabric. `say` hears what is
    not sure. Raises `StackproofError`: UNSUPPORTED, USAGE where there is not exactly one MPI,
    and what reading the image or the site raises.
    """
    from stackproof.core.errors import Reason, fail  # noqa: PLC0415
    from stackproof.mpi import transports  # noqa: PLC0415 - see above
    from stackproof.mpi.effects import fabric  # noqa: PLC0415
    from stackproof.mpi.transports import Memory, Setup  # noqa: PLC0415
    from stackproof.results.case import Placement, Rank  # noqa: PLC0415
    from stackproof.results.path import Medium  # noqa: PLC0415

    path = transports.get(options.path or "")
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
    kind, nics, own = _fabric_of(options.site)
    # Where the ranks will be is not known before the job runs. One node is what every path allows;
    # a job on several nodes that asks for `shm` fails in its MPI, as a forced path should.
    profile = transports.profile_of(
        path.name,
        Setup(
            family=mpi["family"],
            version=mpi["version"],
            placement=Placement(name="job", ranks=(Rank(node="node"),)),
            libfabric=_libfabric(with_mpi[0], injected),
            fabric=kind,
            own_libfabric=own,
            nics=nics,
            memory=Memory(options.memory),
            without=_without(with_mpi[0], injected),
            xpmem=None if options.site else fabric.has_xpmem(),
            launcher=mpi["launcher"],
        ),
    )
    # `lnx` as well, where libfabric has cxi: TCP instead would be slow unseen on nodes with NICs.
    if not kind and not options.site and Medium.SLINGSHOT in profile.between:
        raise fail(
            Reason.UNSUPPORTED,
            f"the transport `{path.name}` of {with_mpi[0].name} sends by Slingshot-11, and there "
            "is no NIC of it here",
            hint="`--site NAME` says on which machine the job will run; here use `tcp` or `shm`",
        )
    for text in profile.notes:
        say(text)
    return profile.env


def _libfabric(image: Described, injected: MountedImage | None) -> Libfabric:
    """Return the injected libfabric, or else the image's."""
    from stackproof.mpi.effects import fabric  # noqa: PLC0415 - see above

    if injected:
        from stackproof.inject.effects import job  # noqa: PLC0415 - see above

        found = job.libfabric_of(injected)
        if found.version:
            return found
    return fabric.libfabric_of_image(image.path)


def _without(image: Described, injected: MountedImage | None) -> frozenset[Memory]:
    """Return the GPUs that the image's MPI takes no buffers of; of an injected one nobody knows."""
    from stackproof.mpi.effects import fabric  # noqa: PLC0415 - see above

    other = injected is not None and injected.described is None
    if image.mpi is None or other:
        return frozenset()
    return fabric.mpi_without(image.path, image.mpi["family"])


def _fabric_of(name: str | None) -> tuple[str, int, str]:
    """Return the fabric of a site, the NICs of a node where all have as many, and its libfabric.

    Without a name it is this machine, whose libfabric is not looked for.

    The last is a file, empty where the site names none.
    """
    if not name:
        from stackproof.mpi.effects import fabric  # noqa: PLC0415 - see above

        return *fabric.of_this_machine(), ""
    from stackproof.site.effects.probe import load_site  # noqa: PLC0415 - see above

    site = load_site(name)
    counts = {partition.nics for partition in site.partitions.values()}
    kind = site.fabric.type.value if site.fabric.type else ""
    nics = (counts.pop() or 0) if len(counts) == 1 else 0
    return kind, nics, site.libfabric_file()
