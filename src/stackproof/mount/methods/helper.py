"""Mount by `stackproof-mount`, which the administrator has installed with the right to."""

from __future__ import annotations

from stackproof.core.errors import Problem, Reason
from stackproof.mount.methods.facts import MountFacts


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
