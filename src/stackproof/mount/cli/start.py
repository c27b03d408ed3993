"""`stackproof start IMAGE`: a shell with images mounted."""

from __future__ import annotations

import os
import sys

from stackproof.mount.cli.run import become, note
from stackproof.mount.effects.entering import enter
from stackproof.mount.effects.mount_exec import MARKER
from stackproof.mount.options import StartOptions


def run(options: StartOptions) -> int:
    """Mount, and become the user's shell; raises `StackproofError` (BUSY) inside of another."""
    if MARKER in os.environ:
        from stackproof.core.errors import Reason, fail  # noqa: PLC0415 - most have no use of it

        raise fail(
            Reason.BUSY,
            f"images are mounted in this session: {os.environ[MARKER]}",
            hint="leave it with `exit`, or start all images at once: IMAGE,IMAGE",
        )
    entered = enter(options, say=note)
    names = ",".join(image.name for image in entered.images)
    shell = os.environ.get("SHELL") or "/bin/sh"
    argv = [shell]
    if sys.stdin.isatty():
        print(f"{entered.mounts}\nleave with `exit`", file=sys.stderr)
        if os.path.basename(shell) == "bash":
            argv += ["--rcfile", f"/proc/self/fd/{_startup_file(names)}"]
    return become(entered, argv)


def _startup_file(names: str) -> int:
    """Return a descriptor of a bash start-up file: the user's own, then names in the prompt."""
    import shlex  # noqa: PLC0415 - only for bash at a terminal

    descriptor = os.memfd_create("stackproof-prompt", 0)
    prompt = shlex.quote(f"[{names}] ".replace("\\", "").replace("$", "").replace("`", ""))
    lines = [
        "for _stackproof in /etc/bash.bashrc ~/.bashrc; do",
        '  [ ! -r "$_stackproof" ] || . "$_stackproof"',
        "done",
        "unset _stackproof",
        f"PS1={prompt}$PS1",
        f"exec {descriptor}<&-",
    ]
    os.write(descriptor, "\n".join([*lines, ""]).encode())
    os.set_inheritable(descriptor, True)
    return descriptor
