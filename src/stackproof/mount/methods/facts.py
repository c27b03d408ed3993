"""What a machine offers a user for mounting images."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MountFacts:
    """Seen by the user who asks; `mount.effects.facts` looks.

    `kernel_mounts` is the right to mount block devices and a loop device to be had, `mounts` the
    right to mount at all, `user_namespaces` the possibility to gain it, `fuse` a /dev/fuse that
    opens, `squashfuse` the program's path. `helper` is the path of `stackproof-mount`,
    `helper_mounts` whether it has a right to mount that the user lacks.
    """

    kernel_mounts: bool
    mounts: bool
    user_namespaces: bool
    fuse: bool
    squashfuse: str | None
    helper: str | None = None
    helper_mounts: bool = False
