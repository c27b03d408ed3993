"""`stackproof run IMAGE[:MOUNT][,…] -- COMMAND`: a command with images mounted.

The command takes the place of this process, so its exit code and signals are its own. Whatever
can be left out is left out here: this runs before every command of a user.
"""

from __future__ import annotations

import argparse
import os
import sys

from stackproof import activate, mountlist, session
from stackproof.cli import job_injection, transport
from stackproof.cli.arguments.run import add_options
from stackproof.cli.parsing import Parser
from stackproof.host import imagefile, mountexec, mounthelper, mountjoin, mountways
from stackproof.host.libc import MountFailure
from stackproof.images import described

TYPE_CHECKING = False  # `typing`, dataclasses and errors take longer to import than to mount
if TYPE_CHECKING:
    from collections.abc import Sequence

    from stackproof.errors import StackproofError
    from stackproof.images.described import Described


def run(args: argparse.Namespace) -> int:
    """Mount, and become the command; returns only if that cannot be executed."""
    try:
        command = _split(args.parser, args)
    except SystemExit as stop:  # argparse has printed help or what is wrong
        return int(stop.code or 0)
    entered = enter(args, command)
    return become(entered, entered.words)


def _split(parser: argparse.ArgumentParser, args: argparse.Namespace) -> list[str]:
    """Return the command; read the options that stand between the image and `--`.

    argparse cannot do this by itself: it takes away a `--` that belongs to the command.
    """
    rest: list[str] = args.rest
    if rest and rest[0].startswith("-"):
        at = rest.index("--") if "--" in rest else len(rest)
        between = Parser(prog=parser.prog, usage=parser.usage, add_help=False)
        between.add_argument("-h", "--help", action="store_true")
        add_options(between)
        between.parse_args(rest[:at], namespace=args)
        if args.help:
            parser.print_help()
            parser.exit()
        rest = rest[at + 1 :]
    if not rest:
        parser.error("say what to run: -- COMMAND")
    return rest


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


def become(entered: Entered, argv: Sequence[str]) -> int:
    """Become a command; return 126 or 127 as env(1) after telling why that failed."""
    try:
        mountexec.become((*entered.start, *argv), entered.environment)
    except MountFailure as failure:
        print(f"error: {failure.message}", file=sys.stderr)
        return failure.exit_code


def enter(args: argparse.Namespace, words: Sequence[str] = ()) -> Entered:
    """Mount the images for this process, or have them mounted by the helper that it becomes.

    `words` are those of the command, whose programs an injection is judged for. Raises
    `StackproofError`; this process is then good for nothing but to end.
    """
    names = [name for text in args.view for name in text.split(",")]
    if names and args.no_view:
        raise _wrong("usage", "`--view` and `--no-view` exclude each other")
    if args.how == "helper" and args.join == "yes":
        raise _wrong(
            "usage",
            "`--how helper` and `--join yes` exclude each other",
            hint="ranks that the helper has mounted for reach each other as they are",
        )
    injected = job_injection.requested(args)
    wanted = [
        mountexec.Wanted(item.image, item.mount_point or "")
        for item in (*mountlist.parse(args.images), *((injected,) if injected else ()))
    ]
    asked = Asked(names, words, injected=injected is not None)
    try:
        program = None if args.join == "yes" else mounthelper.choose(args.how, os.environ)
        entered = program and _by_helper(args, program, wanted, asked)
        return entered or _by_itself(args, wanted, asked)
    except MountFailure as failure:
        raise _wrong(failure.reason, failure.message, hint=failure.hint) from None


class Asked:
    """The views that were named, the command, and whether the last image is one to inject."""

    __slots__ = ("injected", "names", "words")

    def __init__(self, names: Sequence[str], words: Sequence[str], *, injected: bool) -> None:
        self.names = names
        self.words = words
        self.injected = injected


def _by_itself(
    args: argparse.Namespace, wanted: Sequence[mountexec.Wanted], asked: Asked
) -> Entered:
    images: list[Described] = []

    def place(wanted: mountexec.Wanted, meta: bytes | None, size: int) -> str:
        image = _described(wanted, meta, size, bare=args.no_view)
        images.append(image)
        return _mount_point(wanted, image)

    join = args.join == "yes" or (args.join == "auto" and mountjoin.is_rank(os.environ))
    say = _say if args.verbose else lambda _: None
    mounted = mountexec.attach(wanted, how=args.how, place=place, say=say, join=join)
    points = [item.mount_point for item in mounted]
    changed, words = _environment(args, images, points, asked, mounted=True)
    environment = mountexec.with_marker(mounted, changed)
    return Entered(images, environment[mountexec.MARKER], environment, words)


def _by_helper(
    args: argparse.Namespace, program: str, wanted: Sequence[mountexec.Wanted], asked: Asked
) -> Entered | None:
    """Return how to start the helper; None where it cannot serve and nobody insists on it."""
    if args.how == "auto" and not imagefile.can_read():
        return None
    images = [
        imagefile.load_described(item.image, bare=bool(args.no_view and item.mount_point))
        for item in wanted
    ]
    points = [_mount_point(item, image) for item, image in zip(wanted, images, strict=True)]
    if args.how == "auto" and not mounthelper.can_reach(points):
        return None
    if args.verbose:
        _say(f"mounting by {mountways.WAYS['helper']}, `{program}`")
    places = [(image.path, point) for image, point in zip(images, points, strict=True)]
    environment, words = _environment(args, images, points, asked, mounted=False)
    environment = mounthelper.forwarded(environment)
    start = mounthelper.argv(program, places, verbose=args.verbose)
    mounts = ",".join(f"{path}:{point}" for path, point in places)
    return Entered(images, mounts, environment, words, start)


def _environment(
    args: argparse.Namespace,
    images: Sequence[Described],
    points: Sequence[str],
    asked: Asked,
    *,
    mounted: bool,
) -> tuple[dict[str, str], Sequence[str]]:
    """Return the environment with the views, and the words of the command.

    Tells of images that are not at their own place.
    """
    own = images[:-1] if asked.injected else images
    views = () if args.no_view else activate.choose_views(own, asked.names)
    activate.forced_transport(own, views, args.transport)
    for image, point in zip(own, points, strict=False):
        if point != image.mount and image.views and not args.no_view:
            _say(
                f"`{image.name}` was built for {image.mount}; its views name that path, not {point}"
            )
    change = activate.combined(views, environment=os.environ)
    last = (images[-1], points[-1]) if asked.injected else (None, "")
    injected = job_injection.part_of(args, *last)
    if injected:
        placed = list(zip(own, points, strict=False))
        before = change.apply(os.environ)
        job = job_injection.change(
            args, placed, injected, before, words=asked.words, mounted=mounted
        )
        change = change.then(job.all)
    if args.transport:
        change = change.then(transport.change(args, own, injected))
    environment = session.entered(os.environ, change)
    return environment, job.command(asked.words, environment) if injected else asked.words


def _described(wanted: mountexec.Wanted, meta: bytes | None, size: int, *, bare: bool) -> Described:
    """Return what an image says; one of others says nothing, and is mounted where it is told."""
    path = wanted.image
    if meta is not None:
        return described.parse(meta, path=path, size=size)
    if bare and wanted.mount_point:
        return described.silent(path, size)
    raise _wrong(
        "image-no-meta",
        f"image `{path}` has no `{described.META}`, so nothing tells what is in it",
        file=path,
        hint="make images with `stackproof build`; a SquashFS file of others is mounted by "
        "`IMAGE:MOUNT` with --no-view",
    )


def _mount_point(wanted: mountexec.Wanted, image: Described) -> str:
    point = wanted.mount_point or image.mount
    # A link may lead to a place that must not be hidden.
    real = os.path.realpath(point) if point.startswith("/") else point
    for path in (point, real):
        if why := mountlist.bad_mount_point(path):
            raise _wrong(
                "bad-mount-point",
                f"`{path}` cannot be a mount point: {why}",
                file=image.path,
                hint="name another one: IMAGE:MOUNT",
            )
    return point


def _wrong(reason: str, message: str, *, file: str = "", hint: str = "") -> StackproofError:
    from stackproof.errors import Location, Reason, fail  # noqa: PLC0415 - see above

    where = Location(file=file) if file else None
    return fail(Reason(reason), message, where=where, hint=hint or None)


def _say(text: str) -> None:
    print(f"note: {text}", file=sys.stderr)
