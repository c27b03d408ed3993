"""Images mounted for this process, or by the helper that it becomes, and the environment with them.

This runs before every command of a user: whatever is slow to import is imported where it is used.
"""

from __future__ import annotations

import os

from stackproof.core import harmless, mountlist
from stackproof.core.effects.foreign import squash
from stackproof.core.effects.libc import MountFailure
from stackproof.core.mountlist import MountRequest
from stackproof.image import activate, described, view_variables
from stackproof.mount import undo
from stackproof.mount.effects import methods, mount_exec

TYPE_CHECKING = False  # `typing`, msgspec and errors take longer to import than to mount
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from stackproof.core.errors import StackproofError
    from stackproof.image.activate import AnyView
    from stackproof.image.described import Described
    from stackproof.mount.options import ActivateOptions, MpiOptions, StartOptions


_OF_MPI = (
    "mpicc", "mpicxx", "mpic++", "mpiCC", "mpifort", "mpif77", "mpif90", "mpifc", "mpiexec",
    "mpirun",
)  # fmt: skip
"""What every MPI calls its compilers and its launcher; several MPIs lie on many a PATH."""


class PlainOptions:
    """What `run IMAGE -- COMMAND` asks for: `StartOptions` by default, without what parses them."""

    __slots__ = ("images",)
    views: Sequence[str] | None = ()
    how = join = "auto"
    verbose = accept_unknown = False
    inject = transport = path = site = None
    memory = "host"

    def __init__(self, images: str) -> None:
        self.images = images

    @property
    def mpi(self) -> MpiOptions:
        """Which MPI the command gets: its own."""
        return self  # type: ignore[return-value]  # what they have is above

    def permit(self, environment: Mapping[str, str]) -> frozenset[str]:
        """Return the variables that views may change beside the usual ones."""
        return view_variables.read_permitted(environment)


class Entered:
    """What a command is started with: images, the list of them, a program in front, environment.

    `words` are those of the command, with what is for its ranks alone.
    """

    __slots__ = ("environment", "images", "mounts", "start", "words")

    def __init__(
        self,
        images: Sequence[Described],
        mounts: str,
        environment: dict[str, str],
        words: Sequence[str],
        start: Sequence[str] = (),
    ) -> None:
        self.images = images
        self.mounts = mounts
        self.environment = environment
        self.words = words
        self.start = start


def enter(
    options: StartOptions | PlainOptions,
    words: Sequence[str] = (),
    say: Callable[[str], None] = lambda _: None,
) -> Entered:
    """Mount the images for this process, or have them mounted by the helper that it becomes.

    `words` are those of the command, whose programs an injection is judged for; `say` hears what
    users should know. Raises `StackproofError`; this process is then good for nothing but to end.
    """
    if options.how == "helper" and options.join == "yes":
        raise wrong(
            "usage",
            "`--how helper` and `--join yes` exclude each other",
            hint="ranks that the helper has mounted for reach each other as they are",
        )
    injected = None
    if options.mpi.inject is not None or options.mpi.accept_unknown:
        from stackproof.mount.effects import job_mpi  # noqa: PLC0415 - see above

        injected = job_mpi.requested(options.mpi)
    try:
        requests = mountlist.parse(options.images)
        # Where labels count, a file in the working folder is none: see `image_asked`.
        if mount_exec.has_policy() or not all(os.path.isfile(item.image) for item in requests):
            from stackproof.share.effects import naming  # noqa: PLC0415 - see above

            requests = naming.images(requests)
        wanted, number = with_injected(requests, injected)
        asked = EntryRequest(words, say, own=len(requests), injected=number)
        if options.join != "yes" and methods.may_need_helper(options.how):
            entered = _by_helper(options, wanted, asked)
            if entered:
                return entered
        return _by_itself(options, wanted, asked)
    except MountFailure as failure:
        raise wrong(failure.reason, failure.message, hint=failure.hint) from None


def with_injected(
    requests: Sequence[MountRequest], injected: MountRequest | None
) -> tuple[Sequence[MountRequest], int | None]:
    """Return all images to mount, and the number of the one to inject, which may be among them."""
    if injected is None:
        return requests, None
    for number, request in enumerate(requests):
        is_same = os.path.realpath(request.image) == os.path.realpath(injected.image)
        if is_same and injected.mount_point in {None, request.mount_point}:
            return requests, number
    return (*requests, injected), len(requests)


class EntryRequest:
    """The command, whom notes are told, how many images are the job's own, and which is injected.

    The injected one is the last, behind the own ones, or one of these.
    """

    __slots__ = ("injected", "own", "say", "words")

    def __init__(
        self, words: Sequence[str], say: Callable[[str], None], *, own: int, injected: int | None
    ) -> None:
        self.words = words
        self.say = say
        self.own = own
        self.injected = injected


def _by_itself(
    options: StartOptions | PlainOptions, wanted: Sequence[MountRequest], asked: EntryRequest
) -> Entered:
    places: list[tuple[Described, str]] = []

    def place(item: MountRequest, meta: bytes | None, size: int) -> str:
        bare = _may_be_silent(options, asked, len(places))
        image = _described(item, meta, size, bare=bare)
        places.append((image, _mount_point(item, image)))
        if asked.own < len(places):
            from stackproof.mount.effects import job_mpi  # noqa: PLC0415 - see above

            job_mpi.check_places(places)
        return places[-1][1]

    join = options.join == "yes" or (options.join == "auto" and mount_exec.is_rank(os.environ))
    say = asked.say if options.verbose else lambda _: None
    mounted = mount_exec.attach(wanted, how=options.how, place=place, say=say, join=join)
    images = [image for image, _ in places]
    points = [item.mount_point or "" for item in mounted]
    changed, words = changed_environment(options, images, points, asked, os.environ, mounted=True)
    if asked.words and asked.words[0] in _OF_MPI and any(image.mpi for image in images):
        injected = "" if asked.injected is not None else options.mpi.inject or ""
        _tell_of_others(asked, points, changed.get("PATH", ""), injected)
    if options.views is not None and options.mpi.inject is None:
        _tell_of_other_mpi(options, images, points, asked, changed)
    environment = mount_exec.with_marker(mounted, changed)
    return Entered(images, environment[mount_exec.MARKER], environment, words)


def _tell_of_others(asked: EntryRequest, points: Sequence[str], path: str, injected: str) -> None:
    """Tell of a compiler or launcher that no image has, and that PATH finds on this machine.

    `injected` is a folder or library that is injected, empty for none.
    """
    name = asked.words[0]
    places = (f"{folder}/{name}" for folder in path.split(":"))
    found = next((place for place in places if os.access(place, os.X_OK)), "")
    home = os.path.abspath(injected) if injected else ""
    if os.path.isfile(home):  # its library: PREFIX/lib/libmpi.so.12
        home = home.rpartition("/lib/")[0] or home.rpartition("/lib64/")[0]
    if home and found.startswith(f"{home}/"):
        asked.say(f"`{name}` is that of the injected MPI: `{found}`")
    elif found and not any(found.startswith(f"{point}/") for point in points):
        asked.say(
            f"`{name}` is `{found}` of this machine, as the image's MPI has none: it may be for "
            "another MPI, and `stackproof inject check` says what works with the image's"
        )


_STARTERS = frozenset({
    *_OF_MPI, "env", "gdb", "nice", "numactl", "orterun", "prterun", "srun", "strace", "taskset",
    "time", "timeout",
})  # fmt: skip
"""Commands that start a program which is named behind them."""
_MOST_WORDS, _LOOKED_AT_BYTES = 64, 4 << 20


def _tell_of_other_mpi(
    options: StartOptions | PlainOptions,
    images: Sequence[Described],
    points: Sequence[str],
    request: EntryRequest,
    environment: Mapping[str, str],
) -> None:
    """Tell, as the first of all ranks, of a program that takes another MPI than the images'."""
    number = next((number for number, image in enumerate(images) if image.mpi), None)
    if number is None or any(os.environ.get(name, "0") != "0" for name in mount_exec.RANKS):
        return
    is_start = os.path.basename(request.words[0]) in _STARTERS if request.words else False
    for word in request.words[: _MOST_WORDS if is_start else 1]:
        place = _place_of(word, environment.get("PATH", ""))
        if not place.startswith(tuple(f"{point}/" for point in points)) and _names_mpi(place):
            from stackproof.mount.effects import other_mpi  # noqa: PLC0415 - see above

            image = mountlist.parse(options.images)[number].image
            start = ["stackproof", "run", options.images, "--inject", image, "--", *request.words]
            text = other_mpi.describe_other(
                place, images[number].mpi or {}, points, environment, start
            )
            if text:
                request.say(f"`{harmless.line(word)}` {text}")
            return


def _place_of(word: str, path: str) -> str:
    """Return the file that a word names, itself or by PATH; empty for none."""
    places = [word] if "/" in word else [f"{folder}/{word}" for folder in path.split(":")]
    return next((os.path.realpath(place) for place in places if os.path.isfile(place)), "")


def _names_mpi(place: str) -> bool:
    """Return True for an ELF file with the name of an MPI library near its beginning."""
    try:
        descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        is_elf = os.pread(descriptor, 4, 0) == b"\x7fELF"
        return is_elf and b"libmpi" in os.pread(descriptor, _LOOKED_AT_BYTES, 0)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _by_helper(
    options: StartOptions | PlainOptions, wanted: Sequence[MountRequest], asked: EntryRequest
) -> Entered | None:
    """Return the way by the helper; None where it cannot serve and nobody insists on it."""
    from stackproof.mount.effects import helper  # noqa: PLC0415 - see above

    program = helper.choose(options.how, os.environ)
    if program is None:
        return None
    from stackproof.image.effects import image_file  # noqa: PLC0415 - see above

    if options.how == "auto" and not squash.can_read():
        return None
    images = [
        image_file.load_described(
            item.image,
            bare=bool(item.mount_point and _may_be_silent(options, asked, place)),
        )
        for place, item in enumerate(wanted)
    ]
    points = [
        _mount_point(item, _for_here(image)) for item, image in zip(wanted, images, strict=True)
    ]
    if asked.own < len(images):
        from stackproof.mount.effects import job_mpi  # noqa: PLC0415 - see above

        job_mpi.check_places(list(zip(images, points, strict=True)))
    if options.how == "auto" and not helper.can_reach(points):
        return None
    marker = os.environ.get(mount_exec.MARKER, "")
    for target in map(os.path.realpath, points):  # the helper does not know who is around
        if methods.around(target, marker):
            raise methods.occupied(target, marker)
    if options.verbose:
        asked.say(f"mounting by {methods.WAYS['helper']}, `{program}`")
    places = [(image.path, point) for image, point in zip(images, points, strict=True)]
    environment, words = changed_environment(options, images, points, asked, os.environ)
    environment = helper.forwarded(environment)
    labels = [item.label for item in wanted] if mount_exec.has_policy() else ()
    start = helper.argv(program, places, labels, verbose=options.verbose)
    mounts = ",".join(f"{path}:{point}" for path, point in places)
    return Entered(images, mounts, environment, words, start)


def changed_environment(
    options: StartOptions | PlainOptions | ActivateOptions,
    images: Sequence[Described | None],
    points: Sequence[str],
    asked: EntryRequest,
    before: Mapping[str, str],
    *,
    mounted: bool = False,
) -> tuple[dict[str, str], Sequence[str]]:
    """Return an environment with the views, and the words of the command.

    None is an image that is not on this machine. Tells of images that are not at their own place.
    """
    last: tuple[Described | None, str] = (None, "")
    if asked.injected is not None:
        last = (images[asked.injected], points[asked.injected])
    own = zip(images[: asked.own], points, strict=False)
    placed = [(image, point) for image, point in own if image]
    known = [image for image, _ in placed]
    for image, point in placed if options.views is not None else ():
        if point != image.mount and image.views:
            asked.say(
                f"`{image.name}` was built for {image.mount}; its views name that path, not {point}"
            )
    permitted = options.permit(before)
    views: Sequence[AnyView] = ()
    if options.views is not None:
        views = activate.choose_views(known, options.views, permitted=permitted)
    if last[0]:
        activate.choose_views((last[0],), (), permitted=permitted)
    activate.forced_transport(known, views, options.mpi.path)
    change = activate.combined(views, environment=before)
    if not (options.mpi.inject or options.mpi.path):
        return undo.entered(before, change), asked.words
    from stackproof.mount.effects import job_mpi  # noqa: PLC0415 - see above

    job = None
    injected = job_mpi.part_of(options.mpi, *last)
    if injected:
        around = change.apply(before)
        job = job_mpi.injection(
            options.mpi, placed, injected, around, words=asked.words, mounted=mounted
        )
        change = change.then(job.all)
    if options.mpi.path:
        change = change.then(job_mpi.transport(options.mpi, known, injected, asked.say))
    environment = undo.entered(before, change)
    return environment, job.command(asked.words, environment) if job else asked.words


def _may_be_silent(options: StartOptions | PlainOptions, request: EntryRequest, place: int) -> bool:
    """Return true for an image that need not say its content: tools behind the first one."""
    return options.views is None or 0 < place < request.own


def _described(wanted: MountRequest, meta: bytes | None, size: int, *, bare: bool) -> Described:
    """Return the facts of an image; one of others has none, and is mounted where it is told."""
    path = wanted.image
    if meta is not None:
        return _for_here(described.parse(meta, path=path, size=size))
    if bare and wanted.mount_point:
        return described.silent(path, size)
    raise wrong(
        "image-no-meta",
        f"image `{path}` has no `{described.META}`, so nothing tells what is in it",
        file=path,
        hint="make images with `stackproof build`; a SquashFS file of others is mounted by "
        "`IMAGE:MOUNT` behind an image of a build, or with --no-view",
    )


def _for_here(image: Described) -> Described:
    """Return an image; raises `StackproofError` (UNSUPPORTED) for one of another architecture."""
    here = os.uname().machine
    if image.architecture in {"", here}:
        return image
    raise wrong(
        "unsupported",
        f"the image is for {image.architecture}, and this machine is {here}",
        file=image.path,
        hint=f"use it on a machine that is {image.architecture}, or build its recipe here",
    )


def _mount_point(wanted: MountRequest, image: Described) -> str:
    point = wanted.mount_point or image.mount
    # A link may lead to a place that must not be hidden.
    for path in (point, os.path.realpath(point) if point.startswith("/") else point):
        if fault := bad_place(path, image.path):
            raise fault
    return point


def bad_place(point: str, image: str) -> StackproofError | None:
    """Return the error for what cannot be a mount point; None for any other."""
    if why := mountlist.bad_mount_point(point):
        text = f"`{point}` cannot be a mount point: {why}"
        return wrong("bad-mount-point", text, file=image, hint="name another one: IMAGE:MOUNT")
    return None


def wrong(reason: str, message: str, *, file: str = "", hint: str = "") -> StackproofError:
    """Return an error; what it is made of is imported now."""
    from stackproof.core.errors import Location, Reason, fail  # noqa: PLC0415 - see above

    where = Location(file=file) if file else None
    return fail(Reason(reason), message, where=where, hint=hint or None)
