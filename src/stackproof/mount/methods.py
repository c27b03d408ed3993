"""Ways to mount an image: what each needs of a machine, the best one first.

`stackproof.mount.effects.mount_exec` does the mounting; here is what can be said without a machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from stackproof.core.errors import Problem, Reason
from stackproof.core.value import Value
from stackproof.mount import without_mount


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


def _kernel_problems(facts: MountFacts) -> Iterator[Problem]:
    if not facts.kernel_mounts:
        yield Problem(
            reason=Reason.NOT_PERMITTED,
            message="only root, outside of user namespaces, may mount by the kernel, and only "
            "where /dev/loop-control is to be had",
            hint="mount with squashfuse instead",
        )


def _helper_problems(facts: MountFacts) -> Iterator[Problem]:
    if facts.helper is None:
        yield Problem(
            reason=Reason.TOOL_MISSING,
            message="`stackproof-mount` is not installed",
            hint="let the administrator install it, or mount with squashfuse instead",
        )
    elif not facts.helper_mounts:
        yield Problem(
            reason=Reason.NOT_PERMITTED,
            message=f"`{facts.helper}` has no right to mount that it could lend here",
            hint="let the administrator install it setuid root or with file capabilities",
        )


def _fuse_problems(facts: MountFacts) -> Iterator[Problem]:
    if facts.squashfuse is None:
        yield Problem(
            reason=Reason.TOOL_MISSING,
            message="`squashfuse` is not installed",
            hint=without_mount.add_pack("install it, for example: apt-get install squashfuse"),
        )
    if not facts.fuse:
        yield Problem(
            reason=Reason.NO_FUSE,
            message="/dev/fuse is missing or not readable and writable for you",
            hint=without_mount.add_pack(
                "let the administrator load the `fuse` module and set mode 0666"
            ),
        )
    if not (facts.mounts or facts.user_namespaces):
        yield Problem(
            reason=Reason.NO_USER_NAMESPACES,
            message="this machine does not let you make a user namespace",
            hint=without_mount.add_pack(
                "let the administrator look at the sysctls user.max_user_namespaces, "
                "kernel.unprivileged_userns_clone (Debian) and "
                "kernel.apparmor_restrict_unprivileged_userns (Ubuntu)"
            ),
        )


class Mounter(Value):
    """One way to mount an image.

    `name` is also a value of `--how`, `title` stands behind `mounted by`, and `find_problems` gives
    everything that keeps a user from mounting this way.
    """

    name: str
    title: str
    find_problems: Callable[[MountFacts], Iterable[Problem]]

    def problems(self, facts: MountFacts) -> tuple[Problem, ...]:
        """Return everything that keeps a user from mounting this way."""
        return tuple(self.find_problems(facts))


_ROWS = (
    ("kernel", "the kernel, over a loop device", _kernel_problems),
    ("helper", "stackproof-mount", _helper_problems),
    ("fuse", "squashfuse", _fuse_problems),
)
"""A loop device that the kernel releases by itself when the mount is gone; the kernel for users
without rights, at mount points that the site permits; a process for each mount."""
REGISTRY = {
    name: Mounter(name=name, title=title, find_problems=find) for name, title, find in _ROWS
}


def first(facts: MountFacts) -> Mounter | None:
    """Return the way that `--how auto` takes on a machine, None if there is none."""
    return next((way for way in REGISTRY.values() if not way.problems(facts)), None)
