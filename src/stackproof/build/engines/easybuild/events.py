"""What EasyBuild says of itself, by our hooks and its exit code, to progress and reasons."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from stackproof.core.errors import Reason
from stackproof.core.value import Value

MARK = "stackproof-event: "  # tested to be that of build/engines/easybuild/effects/hooks.py
# EasyBuildExit of easybuild-framework 5.4.1, easybuild/tools/build_log.py; what is not named here
# is a build that failed.
_REASONS: Mapping[int, Reason] = {
    30: Reason.FILE_MISSING,
    32: Reason.TOOL_MISSING,
    41: Reason.NO_NETWORK,
    42: Reason.DIGEST_MISMATCH,
}


class EasyBuildFailure(Value):
    """How EasyBuild ended: its words, its exit code, the step it was in, and the path of its log.

    `step` and `log` are empty when it had not begun with a component.
    """

    message: str
    code: int
    step: str = ""
    log: str = ""

    @property
    def reason(self) -> Reason:
        """Return the reason that the exit code stands for."""
        return _REASONS.get(self.code, Reason.BUILD_FAILED)


def event(line: str) -> Mapping[str, Any] | None:
    """Return the event that a line of output holds; None for any other line."""
    if not line.startswith(MARK):
        return None
    try:
        found = json.loads(line[len(MARK) :])
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def failure(output: str) -> EasyBuildFailure | None:
    """Return how EasyBuild failed by its own words; None when it did not say."""
    step = log = ""
    for line in output.splitlines():
        found = event(line)
        if found is None:
            continue
        if found.get("event") == "step":
            step, log = str(found.get("step", "")), str(found.get("log", ""))
        elif found.get("event") == "fail":
            code = found.get("code")
            return EasyBuildFailure(
                message=" ".join(str(found.get("message", "")).split()),
                code=code if isinstance(code, int) else 1,
                step=step,
                log=log,
            )
    return None
