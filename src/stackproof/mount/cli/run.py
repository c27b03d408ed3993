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
    from collections.abc import Sequence

    from stackproof.mount.effects.entering import Entered
    from stackproof.mount.options import RunOptions


def plain(images: str, command: Sequence[str]) -> int:
    """Do what `run IMAGES -- COMMAND` asks, without any option."""
    entered = enter(PlainOptions(images), command, note)
    return become(entered, entered.words)


def run(options: RunOptions) -> int:
    """Mount, and become the command; returns only if that cannot be executed."""
    entered = enter(options, options.rest, note)
    return become(entered, entered.words)


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
