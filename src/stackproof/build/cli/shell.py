"""`stackproof shell BUILD`: a shell in the sandbox of a build, with the same environment."""

from __future__ import annotations

import os
import sys

from stackproof.build.effects import workspace
from stackproof.build.effects.shell import find_build, shell_command
from stackproof.build.options import BuildShellOptions
from stackproof.core.effects import sandbox
from stackproof.core.errors import Reason, fail


def run(asked: BuildShellOptions) -> int:
    """Become the command inside the sandbox; returns only when that cannot be."""
    words, network = list(asked.rest), asked.network
    while words and words[0] == "--network":  # argparse leaves what follows BUILD alone
        network = True
        del words[0]
    if words[:1] == ["--"]:
        del words[0]
    elif words and words[0].startswith("-"):
        raise fail(Reason.USAGE, f"unknown option `{words[0]}`", hint="put `--` before a command")
    folder = find_build(asked.build)
    command = shell_command(folder, tuple(words), network=network)
    argv = list(sandbox.argv(command, terminal=True))
    workspace.hold_for_shell(folder)
    sys.stdout.flush()
    os.execvp(argv[0], argv)  # noqa: S606 - argv only, no shell
    return 0
