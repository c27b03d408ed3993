"""Ways to mount an image: what each needs of a machine, the best one first.

`stackproof.mount.effects.mount_exec` does the mounting; here is what can be said without a machine.
"""

from __future__ import annotations

from collections.abc import Callable

from stackproof.core.errors import Problem, Reason
from stackproof.core.value import Value
from stackproof.mount.without_mount import add_pack


class MountFacts(Value):
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


TITLES = {
    "kernel": "the kernel, over a loop device",
    "helper": "stackproof-mount",
    "fuse": "squashfuse",
}
"""What stands behind `mounted by` for each value of `--how`, the best first.

A loop device that the kernel releases by itself when the mount is gone; the kernel for users
without rights, at mount points that the site permits; a process for each mount.
"""


_NO_KERNEL = (
    "only root, outside of user namespaces, may mount by the kernel, and only where "
    "/dev/loop-control is to be had"
)
_NAMESPACES = (
    "let the administrator look at the sysctls user.max_user_namespaces, "
    "kernel.unprivileged_userns_clone (Debian) and kernel.apparmor_restrict_unprivileged_userns "
    "(Ubuntu)"
)


def find_problems(way: str, facts: MountFacts) -> tuple[Problem, ...]:
    """Return everything that keeps a user from mounting in a way."""
    return tuple(
        Problem(reason=reason, message=message, hint=hint)
        for fine, reason, message, hint in _ROWS[way](facts)
        if not fine
    )


_Row = tuple[bool, Reason, str, str]
_ROWS: dict[str, Callable[[MountFacts], tuple[_Row, ...]]] = {
    "kernel": lambda facts: (
        (facts.kernel_mounts, Reason.NOT_PERMITTED, _NO_KERNEL,
         "mount with squashfuse instead"),
    ),
    "helper": lambda facts: (
        (facts.helper is not None, Reason.TOOL_MISSING, "`stackproof-mount` is not installed",
         "let the administrator install it, or mount with squashfuse instead"),
        (facts.helper is None or facts.helper_mounts, Reason.NOT_PERMITTED,
         f"`{facts.helper}` has no right to mount that it could lend here",
         "let the administrator install it setuid root or with file capabilities"),
    ),
    "fuse": lambda facts: (
        (facts.squashfuse is not None, Reason.TOOL_MISSING, "`squashfuse` is not installed",
         add_pack("install it, for example: apt-get install squashfuse")),
        (facts.fuse, Reason.NO_FUSE, "/dev/fuse is missing or not readable and writable for you",
         add_pack("let the administrator load the `fuse` module and set mode 0666")),
        (facts.mounts or facts.user_namespaces, Reason.NO_USER_NAMESPACES,
         "this machine does not let you make a user namespace", add_pack(_NAMESPACES)),
    ),
}  # fmt: skip


def first(facts: MountFacts) -> str | None:
    """Return the way that `--how auto` takes on a machine, None if there is none."""
    return next((way for way in TITLES if not find_problems(way, facts)), None)
