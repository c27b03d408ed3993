"""`stackproof run IMAGE[:MOUNT][,…] -- COMMAND`: a command with images mounted.

The command takes the place of this process, so its exit code and signals are its own. Whatever
can be left out is left out here: this runs before every command of a user.
"""

from __future__ import annotations

import sys

from stackproof.core.effects.libc import MountFailure
from stackproof.mount.effects import mount_exec
from stackproof.mount.effects.entering import PlainOptions, enter

TYPE_CHECKING = False  # `typing`, and argparse, take longer to import than to mount
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from stackproof.mount.effects.entering import Entered
    from stackproof.mount.options import RunOptions


def plain(images: str, command: Sequence[str]) -> int:
    """Do what `run IMAGES -- COMMAND` asks, without any option."""
    entered = enter(PlainOptions(images), command, note)
    return become(entered, entered.words)


def run(options: RunOptions) -> int:
    """Mount, and become the command; returns only if that cannot be executed."""
    variables = _profile(options.profile) if options.profile else {}
    entered = enter(options, options.rest, note)
    entered.environment.update(variables)
    return become(entered, entered.words)


def _profile(file: str) -> Mapping[str, str]:
    """Return the variables that a profile sets; raises `StackproofError` for what is none."""
    from stackproof.core import limits  # noqa: PLC0415 - commands without a profile wait for less
    from stackproof.core.effects import files  # noqa: PLC0415 - as above
    from stackproof.image import profile  # noqa: PLC0415 - as above

    return profile.tuned(files.read_bounded(file, limits.DOCUMENT), file=file)


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
