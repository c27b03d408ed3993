"""Bubblewrap: a closed list of binds around a command. Never unsandboxed by accident."""

from __future__ import annotations

import os
import shutil

from stackproof.command import Command
from stackproof.errors import Reason, fail

# Which distribution package brings a program, where the names differ (Debian and Ubuntu).
_PACKAGES = {
    "bwrap": "bubblewrap",
    "mksquashfs": "squashfs-tools",
    "unsquashfs": "squashfs-tools",
    "squashfuse_ll": "squashfuse",
    "ip": "iproute2",
    "tc": "iproute2",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "prlimit": "util-linux",
    "debugfs": "e2fsprogs",
    "taskset": "util-linux",
    "gcc": "gcc libc6-dev",
    "libtoolize": "libtool",
    "autoreconf": "autoconf automake libtool",
}


def packages(program: str) -> tuple[str, ...]:
    """Return the packages of Debian and Ubuntu that bring a program."""
    name = os.path.basename(program)
    return tuple(_PACKAGES.get(name, name).split())


def package_hint(program: str) -> str:
    """Return how to get a missing program on Debian and Ubuntu."""
    return f"install it, for example: apt-get install {' '.join(packages(program))}"


def argv(command: Command) -> tuple[str, ...]:
    """Return the argv that runs a command inside its sandbox.

    Raises `StackproofError` (TOOL_MISSING) when bubblewrap is not installed: a command that asks
    for a sandbox is never run without one.
    """
    if command.sandbox is None:
        return command.argv
    program = shutil.which("bwrap")
    if program is None:
        raise fail(
            Reason.TOOL_MISSING,
            "builds run in a sandbox, and `bwrap` is not installed",
            hint=package_hint("bwrap"),
        )
    box = command.sandbox
    line = [program, "--die-with-parent", "--new-session", "--unshare-all", "--clearenv"]
    line += ["--hostname", "stackproof"]  # a build that asks gets the same answer everywhere
    if box.network:
        line.append("--share-net")
    line += ["--proc", "/proc", "--dev", "/dev"]
    for folder in box.scratch:
        line += ["--tmpfs", folder]
    for bind in box.binds:
        line += ["--bind" if bind.writable else "--ro-bind", bind.source, bind.target]
    for link, target in box.links.items():
        line += ["--symlink", target, link]
    env = command.env.apply({"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"})  # noqa: S108 - the sandbox's own
    for key, value in sorted(env.items()):
        line += ["--setenv", key, value]
    line += ["--chdir", command.cwd or "/"]
    return (*line, "--", *command.argv)
