"""The site's own helper, `stackproof-mount`: the kernel mounts, for users without a right to.

Where an administrator has installed it with rights, it is faster than squashfuse and needs neither
/dev/fuse nor a user namespace. It mounts and becomes the command itself, so this process becomes
the helper: what it refuses, it says in its own words, with the exit codes of all verbs.

Imports nothing but `libc`, `methods` and little of the standard library: see `mount_exec`.
"""

from __future__ import annotations

import os
import stat

from stackproof.core.effects import libc
from stackproof.core.effects.libc import MountFailure
from stackproof.mount.effects import methods

TYPE_CHECKING = False  # `typing` takes longer to import than an image to mount
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PROGRAM = "stackproof-mount"
VARIABLE = "STACKPROOF_MOUNT_HELPER"
"""Environment variable: the path of the helper to use; empty to use none."""

_FORWARD = "STACKPROOF_FWD_"
# What the C library takes from a program with rights (glibc, sysdeps/generic/unsecvars.h, and all
# of LD_*): the helper gives them to the command under these names (stackproof-mount(8)).
_TAKEN = frozenset({
    "GCONV_PATH", "GETCONF_DIR", "GLIBC_TUNABLES", "HOSTALIASES", "LOCALDOMAIN", "LOCPATH",
    "MALLOC_CHECK_", "MALLOC_TRACE", "NIS_PATH", "NLSPATH", "RESOLV_HOST_CONF", "RES_OPTIONS",
    "TMPDIR", "TZDIR",
})  # fmt: skip
_TAKEN_PREFIX = "LD_"


def choose(how: str, environment: Mapping[str, str]) -> str | None:
    """Return the helper to mount with; None where this process mounts by itself.

    `auto` takes it where it has rights that this process lacks. Raises `MountFailure`
    (tool-missing) where `how` is `helper` and there is none.
    """
    if not methods.may_need_helper(how):
        return None
    program = find(environment)
    if how == "auto":
        return program if program and has_rights(program) else None
    if program is None:
        raise MountFailure(
            "tool-missing", f"there is no `{environment.get(VARIABLE) or PROGRAM}`",
            f"let the administrator install it, or name it: {VARIABLE}=PROGRAM",
        )  # fmt: skip
    return program


def find(environment: Mapping[str, str]) -> str | None:
    """Return the path of the helper: the named one, or the first on PATH and where it belongs."""
    named = environment.get(VARIABLE)
    folders = [*environment.get("PATH", "").split(":"), "/usr/local/bin", "/usr/bin"]
    paths = [f"{folder}/{PROGRAM}" for folder in folders if folder] if named is None else [named]
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), None)


def has_rights(program: str) -> bool:
    """Return True for a helper that, started by this process, would have the right to mount."""
    try:
        state = os.stat(program)
        if os.statvfs(program).f_flag & os.ST_NOSUID:
            return False
        capable = "security.capability" in os.listxattr(program)
    except OSError:
        return False
    setuid = bool(state.st_mode & stat.S_ISUID) and state.st_uid == 0
    return (
        (setuid or capable)
        and libc.in_first_user_namespace()
        and not _may_gain_nothing()
        and os.path.exists("/dev/loop-control")
    )


def can_reach(points: Sequence[str]) -> bool:
    """Return True where the mount points are there: the helper makes none, as the other ways do."""
    return all(os.path.isdir(point) for point in points)


def argv(
    program: str, mounts: Sequence[tuple[str, str]], labels: Sequence[str] = (), *,
    verbose: bool = False,
) -> list[str]:  # fmt: skip
    """Return the start of a command line that mounts images, each with its mount point.

    `labels` are what the images were asked for, empty for none.
    """
    words = ["--verbose"] if verbose else []
    words.append("--images=" + ",".join(f"{image}:{point}" for image, point in mounts))
    if any(labels):
        words.append(f"--labels={','.join(labels)}")
    return [program, *words, "--"]


def forwarded(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for the helper, from which the command gets this one."""
    return {
        f"{_FORWARD}{name}" if name in _TAKEN or name.startswith(_TAKEN_PREFIX) else name: value
        for name, value in environment.items()
    }


def _may_gain_nothing() -> bool:
    """Return True where no program from here gains rights (prctl(2), PR_SET_NO_NEW_PRIVS)."""
    return libc.status_field("NoNewPrivs") != "0"
