"""`stackproof shell BUILD`: a shell in the sandbox of a build, with the same environment."""

from __future__ import annotations

import argparse
import os
import sys

from stackproof.build.effects import workspace
from stackproof.build.effects.shell import find_build, shell_command
from stackproof.core.effects import sandbox
from stackproof.core.errors import Reason, fail


def run(args: argparse.Namespace) -> int:
    """Become the command inside the sandbox; returns only when that cannot be."""
    words = list(args.rest)
    while words and words[0] == "--network":  # argparse leaves what follows BUILD alone
        args.network = True
        del words[0]
    if words[:1] == ["--"]:
        del words[0]
    elif words and words[0].startswith("-"):
        raise fail(Reason.USAGE, f"unknown option `{words[0]}`", hint="put `--` before a command")
    folder = find_build(args.build)
    command = shell_command(folder, tuple(words), network=args.network)
    argv = list(sandbox.argv(command, terminal=True))
    workspace.hold_for_shell(folder)
    sys.stdout.flush()
    os.execvp(argv[0], argv)  # noqa: S606 - argv only, no shell
    return 0
