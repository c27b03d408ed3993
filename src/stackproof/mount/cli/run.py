"""`stackproof run IMAGE[:MOUNT][,…] -- COMMAND`: a command with images mounted.

The command takes the place of this process, so its exit code and signals are its own. Whatever
can be left out is left out here: this runs before every command of a user.
"""

from __future__ import annotations

import sys

from stackproof.core.effects.libc import MountFailure
from stackproof.image.activate import MountOptions, MpiOptions
from stackproof.mount.effects import mount_exec
from stackproof.mount.effects.entering import enter

TYPE_CHECKING = False  # `typing`, and argparse, take longer to import than to mount
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from stackproof.core.cli.parsing import Parser
    from stackproof.mount.effects.entering import Entered


def plain(images: str, command: Sequence[str]) -> int:
    """Do what `run IMAGES -- COMMAND` asks, without any option."""
    entered = enter(MountOptions(images), command, note)
    return become(entered, entered.words)


def run(args: argparse.Namespace) -> int:
    """Mount, and become the command; returns only if that cannot be executed."""
    from stackproof.core.cli.parsing import read  # noqa: PLC0415 - imported by who parsed

    between, command = _split(args.rest)
    if between:
        _behind(args.parser).parse_args(between, namespace=args)
        if args.help:
            args.parser.print_help()
            return 0
    if not command:
        args.parser.error("say what to run: -- COMMAND")
    views = view_names(args.view, no_view=args.no_view)
    options = read(MountOptions, args, views=views, mpi=read(MpiOptions, args))
    variables = _profile(args.profile) if args.profile else {}
    entered = enter(options, command, note)
    entered.environment.update(variables)
    return become(entered, entered.words)


def _profile(file: str) -> Mapping[str, str]:
    """Return the variables that a profile sets; raises `StackproofError` for what is none."""
    from stackproof.core import limits  # noqa: PLC0415 - commands without a profile wait for less
    from stackproof.core.effects import files  # noqa: PLC0415 - as above
    from stackproof.image import profile  # noqa: PLC0415 - as above

    return profile.tuned(files.read_bounded(file, limits.DOCUMENT), file=file)


def _split(rest: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the options that stand between the image and `--`, and the command.

    argparse cannot do this by itself: it takes away a `--` that belongs to the command.
    """
    if not rest or not rest[0].startswith("-"):
        return (), rest
    at = rest.index("--") if "--" in rest else len(rest)
    return rest[:at], rest[at + 1 :]


def _behind(parser: argparse.ArgumentParser) -> Parser:
    """Return the parser of what stands behind the image."""
    from stackproof.core.cli.parsing import Parser  # noqa: PLC0415 - imported by who parsed
    from stackproof.mount.cli.run_arguments import add_options, add_profile  # noqa: PLC0415

    between = Parser(prog=parser.prog, usage=parser.usage, add_help=False)
    between.add_argument("-h", "--help", action="store_true")
    add_options(between)
    add_profile(between)
    return between


def view_names(texts: Sequence[str], *, no_view: bool) -> Sequence[str] | None:
    """Return the views that were named, None for none at all; raises `StackproofError` (USAGE)."""
    names = [name for text in texts for name in text.split(",")]
    if names and no_view:
        from stackproof.core.errors import Reason, fail  # noqa: PLC0415 - commands of users wait

        raise fail(Reason.USAGE, "`--view` and `--no-view` exclude each other")
    return None if no_view else names


def become(entered: Entered, argv: Sequence[str]) -> int:
    """Become a command; return 126 or 127 as env(1) after telling why that failed."""
    try:
        mount_exec.become((*entered.start, *argv), entered.environment)
    except MountFailure as failure:
        print(f"error: {failure.message}", file=sys.stderr)
        return failure.exit_code


def note(text: str) -> None:
    """Print a note to standard error."""
    print(f"note: {text}", file=sys.stderr)
