"""Mount with squashfuse in a user namespace: for everybody, where the machine allows it."""

from __future__ import annotations

from stackproof.core.errors import Problem, Reason
from stackproof.mount.methods.facts import MountFacts


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
                    hint="install it, for example: apt-get install squashfuse",
                )
            )
        if not facts.fuse:
            found.append(
                Problem(
                    reason=Reason.NO_FUSE,
                    message="/dev/fuse is missing or not readable and writable for you",
                    hint="let the administrator load the `fuse` module and set mode 0666",
                )
            )
        if not (facts.mounts or facts.user_namespaces):
            found.append(
                Problem(
                    reason=Reason.NO_USER_NAMESPACES,
                    message="this machine does not let you make a user namespace",
                    hint="let the administrator look at the sysctls user.max_user_namespaces, "
                    "kernel.unprivileged_userns_clone (Debian) and "
                    "kernel.apparmor_restrict_unprivileged_userns (Ubuntu)",
                )
            )
        return tuple(found)
