"""The root of another system that a build happens in: what is seen of it, what it compiles with.

What is compiled in an older root runs on systems as old; the kernel and the network are the
machine's. A root is a folder, as debootstrap makes one or a container engine unpacks an image.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from stackproof.build.effects import visible
from stackproof.core.command import Command, Sandbox
from stackproof.core.effects.run import run
from stackproof.core.effects.sandbox import packages
from stackproof.core.errors import Problem, Reason, StackproofError, fail
from stackproof.site.effects import toolchain

_NEEDED = ("gcc", "getconf", "uname")
_FOLDERS = ("usr/bin", "usr/local/bin", "bin", "usr/sbin", "sbin")
_TIMEOUT_S = 20


def find(text: str) -> Path:
    """Return the folder of a root by what a user wrote.

    Raises `StackproofError`: USAGE for this machine's own, FILE_MISSING for what is no root,
    TOOL_MISSING for programs that every build runs.
    """
    root = Path(text).resolve()
    if root == Path("/"):
        raise fail(
            Reason.USAGE,
            f"`{text}` is the root of this machine, which builds have without `--root`",
            hint="leave it out, or name the root of another system",
        )
    if not (root / "usr").is_dir() or (root / "usr").is_symlink():
        raise fail(
            Reason.FILE_MISSING,
            f"`{text}` is not the root of another system: it has no folder `usr` of its own",
            hint="make one, for example: debootstrap --variant=minbase bullseye FOLDER",
        )
    lacking = [missing(name, root) for name in _NEEDED if not has(name, root)]
    if lacking:
        raise StackproofError(*lacking)
    return root


def missing(program: str, root: Path) -> Problem:
    """Return what is said of a program that a root lacks."""
    names = " ".join(packages(program))
    return Problem(
        reason=Reason.TOOL_MISSING,
        message=f"the build needs `{program}`, which the root `{root}` does not have",
        hint=f"install it there, for example: chroot {root} apt-get install {names}",
    )


def has(program: str, root: Path | None) -> bool:
    """Return whether a program is in a root, or on this machine without one."""
    if root is None:
        return shutil.which(program) is not None
    # A link may be absolute, and leads to its target only inside.
    return any(os.path.lexists(root / folder / program) for folder in _FOLDERS)


def facts(root: Path) -> dict[str, str]:
    """Return what `toolchain.build_facts` does, of a root; with the release of its C library.

    Raises `StackproofError` (UNSUPPORTED) where that is not glibc.
    """
    box = make_sandbox(root)
    known = toolchain.build_facts(box)
    asked = Command(argv=("getconf", "GNU_LIBC_VERSION"), sandbox=box, timeout_s=_TIMEOUT_S)
    name, _, release = run(asked).stdout.decode().strip().partition(" ")
    if name != "glibc":
        raise fail(Reason.UNSUPPORTED, f"the root `{root}` has another C library than glibc")
    return {**known, "glibc": release}


def make_sandbox(root: Path) -> Sandbox:
    """Return the closed view in which programs of a root run."""
    binds, links = visible.system(network=False, root=root)
    return Sandbox(binds=tuple(binds), links=links)
