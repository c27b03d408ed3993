"""Mount by the kernel's own SquashFS over a loop device: the fastest way, for root."""

from __future__ import annotations

from stackproof.core.errors import Problem, Reason
from stackproof.mount.methods.facts import MountFacts


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
