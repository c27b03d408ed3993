"""`stackproof activate IMAGE[:MOUNT][,…]`: what a job must mount and set to see images.

Nothing is mounted. It is for those who mount and start by themselves: the Slurm plug-in asks it at
submission, as the user, so that nothing of an image is ever read with root's rights; and a job
script for another scheduler can `eval` it.

With `--null` each record ends with a NUL byte: `stackproof-activate 1` first, then `mounts LIST`,
`set NAME=VALUE` and `unset NAME`, and `end` last, without which the answer is not whole.
"""

from __future__ import annotations

import argparse
import os
import sys

from stackproof import activate, harmless, mountlist, session
from stackproof.cli import job_injection, streams, transport
from stackproof.cli.arguments import choices
from stackproof.host.imagefile import load_described
from stackproof.mountlist import MountRequest

TYPE_CHECKING = False  # `typing`, dataclasses and errors take longer to import than all the rest
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from stackproof.errors import Problem, StackproofError
    from stackproof.images.described import Described


_PROTOCOL = "stackproof-activate 1"
# Bash and its like run what these hold, or what they name, without anything of an image started.
_OF_SHELLS = frozenset({
    "BASH_ENV", "BASHOPTS", "ENV", "FPATH", "IFS", "PROMPT_COMMAND", "PS0", "PS1", "PS2", "PS3",
    "PS4", "SHELLOPTS", "ZDOTDIR",
})  # fmt: skip
# Programs outside of the image run code for these, or trust whom they name.
_OF_EVERY_PROGRAM = frozenset({
    "EDITOR", "GCONV_PATH", "GIT_EXTERNAL_DIFF", "GIT_SSH", "GIT_SSH_COMMAND", "HOME",
    "JAVA_TOOL_OPTIONS", "LD_AUDIT", "LD_PRELOAD", "LESSOPEN", "NODE_OPTIONS", "PAGER", "PERL5OPT",
    "PYTHONHOME", "PYTHONSTARTUP", "RUBYOPT", "SLURM_CONF", "SSH_ASKPASS", "SUDO_ASKPASS", "VISUAL",
})  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Print the mount list and the change to the environment."""
    names = [name for text in args.view for name in text.split(",")]
    if names and args.no_view:
        raise _usage("`--view` and `--no-view` exclude each other")
    before = dict(os.environ) if args.keep else session.left(os.environ)
    injected = job_injection.requested(args)
    if args.images == choices.NO_IMAGES:
        if names or args.transport or args.inject:
            raise _usage("`none` has no views, no transport and no injection")
        mounts, after = "", before
    else:
        requests = (*mountlist.parse(args.images), *((injected,) if injected else ()))
        optional = args.no_view and not args.transport and not args.inject
        images = _load(requests, optional=optional)
        has_views = [not args.no_view and injected is not request for request in requests]
        placed = _placed(requests, images, has_views)
        mounts = mountlist.render(placed)
        own = images[:-1] if injected else images
        known = tuple(image for image in own if image)
        views = () if args.no_view else activate.choose_views(known, names)
        activate.forced_transport(known, views, args.transport)
        patch = activate.combined(views, environment=before)
        _judge({*patch.set, *patch.prepend, *patch.append, *patch.unset})
        last = (images[-1], placed[-1].mount_point or "") if injected else (None, "")
        part = job_injection.part_of(args, *last)
        if part:
            points = [request.mount_point or "" for request in placed]
            together = list(zip(known, points, strict=False))
            around = patch.apply(before)
            patch = patch.then(job_injection.change(args, together, part, around).all)
        if args.transport:
            patch = patch.then(transport.change(args, known, part))
        after = session.entered(before, patch)
    to_set, to_unset = session.difference(os.environ, after)
    _check_names(to_set)
    if args.null:
        _write_records(mounts, to_set, to_unset)
    elif args.json:
        import json  # noqa: PLC0415 - not for the plug-in

        data = {"mounts": mounts, "set": to_set, "unset": list(to_unset)}
        print(json.dumps({"schema": "stackproof/activation/1", **data}, indent=1))
    else:
        out = sys.stdout if sys.stdout.isatty() else streams.unguarded(sys.stdout)
        print(render(mounts, to_set, to_unset), file=out)  # to a shell every value as it is
    return 0


def render(mounts: str, to_set: Mapping[str, str], to_unset: Sequence[str]) -> str:
    """Return the change as text for a POSIX shell."""
    import shlex  # noqa: PLC0415 - not for the plug-in

    lines = [f"# mount: {harmless.line(mounts) or 'nothing'}"]
    lines += [f"unset {name}" for name in to_unset if name.isidentifier()]
    lines += [
        f"export {name}={shlex.quote(value)}"
        for name, value in sorted(to_set.items())
        if name.isidentifier()
    ]
    return "\n".join(lines)


def _load(requests: Sequence[MountRequest], *, optional: bool) -> tuple[Described | None, ...]:
    """Return what the images say of themselves.

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
                print(f"note: `{request.image}` is not on this machine", file=sys.stderr)
            found.append(None)
    _raise(problems)
    return tuple(found)


def _placed(
    requests: Sequence[MountRequest], images: Sequence[Described | None], has_views: Sequence[bool]
) -> list[MountRequest]:
    """Return the images with absolute paths and every mount point; raises BAD_MOUNT_POINT."""
    placed: list[MountRequest] = []
    problems: list[Problem] = []
    for request, image, views in zip(requests, images, has_views, strict=True):
        wanted = request.mount_point or (image.mount if image else "")
        if why := mountlist.bad_mount_point(wanted):
            problems.append(_bad_place(wanted, why, request.image))
            continue
        if views and image and wanted != image.mount and image.views:
            print(
                f"note: `{image.name}` was built for {image.mount}; its views name that path, "
                f"not {wanted}",
                file=sys.stderr,
            )
        path = os.path.abspath(request.image)
        placed.append(MountRequest(image=path, mount_point=mountlist.normal(wanted)))
    problems += mountlist.clashes(placed)
    _raise(problems)
    return placed


def _bad_place(wanted: str, why: str, image: str) -> Problem:
    from stackproof.errors import Location, Problem, Reason  # noqa: PLC0415 - see above

    return Problem(
        reason=Reason.BAD_MOUNT_POINT,
        message=f"`{wanted}` cannot be a mount point: {why}",
        where=Location(file=image),
        hint="name another one: IMAGE:MOUNT",
    )


def _usage(message: str) -> StackproofError:
    from stackproof.errors import Reason, fail  # noqa: PLC0415 - see above

    return fail(Reason.USAGE, message)


def _error() -> type[StackproofError]:
    """Return the class of our errors; what stands behind `except` is looked at when one comes."""
    from stackproof.errors import StackproofError  # noqa: PLC0415 - see above

    return StackproofError


def _raise(problems: Sequence[Problem]) -> None:
    """Raise all problems together, if there are any."""
    if problems:
        raise _error()(*problems)


def _judge(names: Collection[str]) -> None:
    """Refuse what has a shell run code at once; say what changes every program."""
    for name in sorted(names):
        if name in _OF_SHELLS or name.startswith("BASH_FUNC_"):
            from stackproof.errors import Reason, fail  # noqa: PLC0415 - see above

            raise fail(
                Reason.NOT_PERMITTED,
                f"a view changes `{name}`, by which a shell runs code of the image at once",
                hint="`stackproof run` uses the image for one command; --no-view leaves views out",
            )
        if name in _OF_EVERY_PROGRAM:
            said = f"note: a view changes `{name}`: every program that you start obeys the image"
            print(said, file=sys.stderr)


def _check_names(to_set: Mapping[str, str]) -> None:
    bad = [name for name in to_set if not name or "=" in name]
    if bad:
        from stackproof.errors import Reason, fail  # noqa: PLC0415 - see above

        raise fail(
            Reason.IMAGE_NO_META,
            f"a view sets what cannot be the name of a variable: `{bad[0]}`",
            hint="build the image again with another name",
        )


def _write_records(mounts: str, to_set: Mapping[str, str], to_unset: Sequence[str]) -> None:
    records = [_PROTOCOL, f"mounts {mounts}"]
    records += [f"set {name}={value}" for name, value in to_set.items()]
    records += [f"unset {name}" for name in to_unset]
    text = "".join(f"{record}\0" for record in (*records, "end"))
    sys.stdout.flush()
    # The environment is bytes, which Python shows as text with surrogates.
    sys.stdout.buffer.write(os.fsencode(text))
