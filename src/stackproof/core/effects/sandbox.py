"""Bubblewrap: a closed list of binds around a command. Never unsandboxed by accident.

What runs inside has no capability, whoever builds. Where the machine makes user namespaces it is in
one of its own, in which no further one can be made; there root's builds are an ordinary user's.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess

from stackproof.core.command import Command
from stackproof.core.effects import seccomp
from stackproof.core.errors import Reason, fail

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
    "setsid": "util-linux",
    "debugfs": "e2fsprogs",
    "taskset": "util-linux",
    "gcc": "gcc libc6-dev",
    "uname": "coreutils",
    "clang++": "clang",
    "libtoolize": "libtool",
    "autoreconf": "autoconf automake libtool",
}

# Bubblewrap keeps root's capabilities unless it is told, and with them a step could mount what is
# read-only again, writable.
_WALLS = ("--unshare-all", "--cap-drop", "ALL")
# As whom root builds inside. As root, tar and others give files to users whom the namespace lacks.
_BUILDER = ("--uid", "1000", "--gid", "1000")
# Bubblewrap's own process has been told where all comes from; nothing of it is to be seen.
_FIRST = ("--tmpfs", "/proc/1", "--remount-ro", "/proc/1")
# Parts of /proc that belong to the whole machine. Their files are root's own, so that root needs no
# capability to write to them.
_MACHINES = ("sys", "bus", "fs", "irq", "acpi", "scsi", "driver", "mtrr", "sysrq-trigger")
# Everybody may read of the caller's keys there.
_KEYS = ("keys", "key-users")
# The filter of system calls is handed over as an open file that has no name any more.
_FILTER = """
file=$(mktemp) && printf '%s' >"$file" && exec 9<"$file" && rm "$file" || exit 125
"""
# Root also owns what bubblewrap takes along from the host: the device nodes, and its own program,
# which `/proc/1/exe` leads to. Modes could be changed through them. Here they are read-only.
_LENT = """
for lent in /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty "$1"; do
  mount --bind "$lent" "$lent" && mount -o remount,bind,ro "$lent" || exit 125
done
"""
_UNSHARE = ("unshare", "--propagation", "private", "--mount")
_TIMEOUT_S = 20.0


def packages(program: str) -> tuple[str, ...]:
    """Return the packages of Debian and Ubuntu that bring a program."""
    name = os.path.basename(program)
    return tuple(_PACKAGES.get(name, name).split())


def package_hint(program: str) -> str:
    """Return the hint that gets a missing program on Debian and Ubuntu."""
    return f"install it, for example: apt-get install {' '.join(packages(program))}"


def program() -> str:
    """Return bubblewrap; raises `StackproofError` (TOOL_MISSING) when it is not installed."""
    found = shutil.which("bwrap")
    if found is None:
        raise fail(
            Reason.TOOL_MISSING,
            "builds run in a sandbox, and `bwrap` is not installed",
            hint=package_hint("bwrap"),
        )
    return found


def argv(command: Command, *, terminal: bool = False) -> tuple[str, ...]:
    """Return the argv that runs a command inside its sandbox.

    With `terminal` it keeps the caller's. Raises `StackproofError` (TOOL_MISSING) when bubblewrap
    is not installed: a command that asks for a sandbox is never run without one.
    """
    if command.sandbox is None:
        return command.argv
    box = command.sandbox
    line = [*_start(program(), os.geteuid(), terminal), "--die-with-parent", "--clearenv"]
    line += [] if terminal else ["--new-session"]
    line += ["--hostname", "stackproof"]  # a build that asks gets the same answer everywhere
    if box.network:
        line.append("--share-net")
    line += ["--proc", "/proc", *_FIRST, *_less_of_the_machine(), "--dev", "/dev"]
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


@functools.cache
def _less_of_the_machine() -> list[str]:
    """Return the words that make /proc read-only and cover its private files.

    Its owner is root, who builds without being anything else to these files.
    """
    paths = [f"/proc/{name}" for name in _MACHINES if os.path.exists(f"/proc/{name}")]
    with os.scandir("/proc") as entries:
        closed = sorted(
            entry.path
            for entry in entries
            if not entry.name.isdigit()
            and entry.is_file(follow_symlinks=False)
            and (entry.name in _KEYS or not entry.stat().st_mode & 0o004)
        )
    return [
        *(word for path in paths for word in ("--ro-bind", path, path)),
        *(word for path in closed for word in ("--ro-bind", "/dev/null", path)),
    ]


@functools.cache
def _start(program: str, user: int, terminal: bool) -> tuple[str, ...]:  # noqa: FBT001 - cached
    """Return the words that start bubblewrap here, found by trying it and the kernel.

    Releases before 0.8 and setuid ones cannot forbid further user namespaces: the filter does.
    Where none can be made, a step is in the caller's, without a capability.
    """
    filtered = seccomp.of_a_step(os.uname().machine)
    script = _FILTER % "".join(f"\\{byte:03o}" for byte in filtered) if filtered else ""
    walls = (*_WALLS, *(("--seccomp", "9") if filtered else ()))
    own = ("--unshare-user", *(_BUILDER if user == 0 else ()))
    outer: tuple[tuple[str, ...], ...] = ((),)
    if user == 0:
        script += _LENT
        outer = ((*_UNSHARE, "--"), (*_UNSHARE, "--user", "--map-root-user", "--"))
    # Bubblewrap needs no variable, and what it was started with could be read inside.
    script += 'exec env -i "$@"' if terminal else 'exec env -i "$@" </dev/null'
    ways = [
        (*first, "sh", "-c", script, "sh", program, *walls, *options)
        for first in outer
        for options in ((*own, "--disable-userns"), own, ())
    ]
    return next((way for way in ways if _works(way)), ways[0])


def _works(start: tuple[str, ...]) -> bool:
    argv = (*start, "--ro-bind", "/", "/", "true")
    try:
        done = subprocess.run(  # noqa: S603 - bubblewrap, in the words of this module
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
