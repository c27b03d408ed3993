"""Paths in a tree that a build wrote to, as this side of its sandbox may follow them.

A step can put a link anywhere in its tree, to any place of this machine. Inside it leads nowhere;
outside it would have stackproof itself write, read or delete there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from stackproof.core.command import Bind
from stackproof.core.errors import Reason, StackproofError, fail


def leads_out(path: Path, root: Path) -> bool:
    """Return whether a path below `root` is reached through a link, or `..`, that leads out of it.

    What the path itself is does not matter: it is replaced or deleted, never followed.
    """
    name = path.name
    if name in {"", ".", ".."} or not path.is_relative_to(root):
        return True
    base = os.path.realpath(root)
    parent = os.path.realpath(path.parent)
    return path != root and parent != base and not parent.startswith(f"{base}/")


def place(root: Path, relative: str) -> Path:
    """Return a path below `root` at which a file may be written or deleted.

    Raises `StackproofError` (BUILD_FAILED) where a link on the way leads out of it.
    """
    path = root / relative
    if leads_out(path, root):
        raise _link(relative)
    return path


def _link(relative: str) -> StackproofError:
    return fail(
        Reason.BUILD_FAILED,
        f"`{relative}` is not in the build's tree: a link in it leads elsewhere",
        hint="a step of this build made that link; find out what is being built",
    )


def check_mount_points(binds: Iterable[Bind], root: Path, seen: str) -> None:
    """Check what is mounted below `seen`, where a sandbox has the tree `root`: no link is there.

    Bubblewrap makes mount points before it changes roots. Raises `StackproofError` as `place` does.
    """
    for bind in binds:
        if bind.target.startswith(f"{seen}/"):
            relative = bind.target.removeprefix(f"{seen}/")
            if place(root, relative).is_symlink():
                raise _link(relative)


def is_file(path: Path, root: Path) -> bool:
    """Return whether a path below `root` is a regular file of that tree and no link."""
    try:
        return not leads_out(path, root) and stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False
