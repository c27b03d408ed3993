"""Ways to mount an image: what each needs of a machine, the best one first.

`stackproof.mount.effects.mount_exec` does the mounting; here is what can be said without a machine.
"""

from __future__ import annotations

from typing import Protocol

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


class Mounter(Protocol):
    """One way to mount an image."""

    @property
    def name(self) -> str:
        """Return the name in the registry, which is also a value of `--how`."""

    @property
    def title(self) -> str:
        """Return the method in words that go behind `mounted by`."""

    def problems(self, facts: MountFacts) -> tuple[Problem, ...]:
        """Return everything that keeps a user from mounting this way."""


class Kernel:
    """A loop device that the kernel releases by itself when the mount is gone."""

    name = "kernel"
    title = "the kernel, over a loop device"

    def problems(self, facts: MountFacts) -> tuple[Problem, ...]:
        """Return NOT_PERMITTED unless the user may do it."""
        if facts.kernel_mounts:
            return ()
        return (
            Problem(
                reason=Reason.NOT_PERMITTED,
                message="only root, outside of user namespaces, may mount by the kernel, and only "
                "where /dev/loop-control is to be had",
                hint="mount with squashfuse instead",
            ),
        )


class Helper:
    """The kernel mounts for users without rights, at mount points that the site permits."""

    name = "helper"
    title = "stackproof-mount"

    def problems(self, facts: MountFacts) -> tuple[Problem, ...]:
        """Return TOOL_MISSING without the program, NOT_PERMITTED for one without rights."""
        if facts.helper is None:
            return (
                Problem(
                    reason=Reason.TOOL_MISSING,
                    message="`stackproof-mount` is not installed",
                    hint="let the administrator install it, or mount with squashfuse instead",
                ),
            )
        if not facts.helper_mounts:
            return (
                Problem(
                    reason=Reason.NOT_PERMITTED,
                    message=f"`{facts.helper}` has no right to mount that it could lend here",
                    hint="let the administrator install it setuid root or with file capabilities",
                ),
            )
        return ()


class Fuse:
    """A squashfuse process for each mount, which ends with it."""

    name = "fuse"
    title = "squashfuse"

    def problems(self, facts: MountFacts) -> tuple[Problem, ...]:
        """Return all that is missing: TOOL_MISSING, NO_FUSE, NO_USER_NAMESPACES."""
        found = []
        if facts.squashfuse is None:
            found.append(
                Problem(
                    reason=Reason.TOOL_MISSING,
                    message="`squashfuse` is not installed",
                    hint=without_mount.add_pack(
                        "install it, for example: apt-get install squashfuse"
                    ),
                )
            )
        if not facts.fuse:
            found.append(
                Problem(
                    reason=Reason.NO_FUSE,
                    message="/dev/fuse is missing or not readable and writable for you",
                    hint=without_mount.add_pack(
                        "let the administrator load the `fuse` module and set mode 0666"
                    ),
                )
            )
        if not (facts.mounts or facts.user_namespaces):
            found.append(
                Problem(
                    reason=Reason.NO_USER_NAMESPACES,
                    message="this machine does not let you make a user namespace",
                    hint=without_mount.add_pack(
                        "let the administrator look at the sysctls user.max_user_namespaces, "
                        "kernel.unprivileged_userns_clone (Debian) and "
                        "kernel.apparmor_restrict_unprivileged_userns (Ubuntu)"
                    ),
                )
            )
        return tuple(found)


REGISTRY: dict[str, Mounter] = {mounter.name: mounter for mounter in (Kernel(), Helper(), Fuse())}


def first(facts: MountFacts) -> Mounter | None:
    """Return the way that `--how auto` takes on a machine, None if there is none."""
    return next((way for way in REGISTRY.values() if not way.problems(facts)), None)
