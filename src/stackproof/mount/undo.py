"""An environment that views change, and how the change is taken back.

A job may replace the images that it got from a login session or from the job around it. What the
views of those had set must not stay: it could name another stack's paths. So the change is recorded
in the environment itself, in the variable `STACKPROOF_UNDO`.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False  # `typing` takes longer to import than an image to mount
if TYPE_CHECKING:
    from collections.abc import Mapping

    from stackproof.core.command import EnvPatch
    from stackproof.core.environment import Change

    _Record = dict[str, tuple[str | None, str | None]]

UNDO = "STACKPROOF_UNDO"
"""Environment variable: JSON, a map of variable to [value before, value after], null for unset."""


def entered(environment: Mapping[str, str], patch: EnvPatch | Change) -> dict[str, str]:
    """Return the environment with a patch applied, and with the record of the change.

    In an environment that has a record, the record afterwards leads back to before both changes.
    """
    earlier = _record(environment)
    result = patch.apply(environment)
    result.pop(UNDO, None)
    names = [name for name in dict.fromkeys((*earlier, *environment, *result)) if name != UNDO]
    before = {
        name: earlier[name][0] if name in earlier else environment.get(name) for name in names
    }
    record = {name: (before[name], result.get(name)) for name in names}
    changed = {name: values for name, values in record.items() if values[0] != values[1]}
    if changed:
        result[UNDO] = json.dumps(changed, separators=(",", ":"))
    return result


def left(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment as it was before the recorded changes.

    A variable that has been changed by somebody else since then stays as it is. So does everything
    when there is no record, or none that can be read.
    """
    result = dict(environment)
    for name, (before, after) in _record(environment).items():
        if environment.get(name) != after:
            continue
        if before is None:
            result.pop(name, None)
        else:
            result[name] = before
    result.pop(UNDO, None)
    return result


def difference(
    before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the variables to set and to unset to come from one environment to another."""
    to_set = {name: value for name, value in after.items() if before.get(name) != value}
    return to_set, tuple(name for name in before if name not in after)


def _record(environment: Mapping[str, str]) -> _Record:
    """Return the record; an empty one for a text that is none, since anybody can set a variable."""
    try:
        data = json.loads(environment.get(UNDO, "{}"))
    except (ValueError, RecursionError):
        return {}
    if not isinstance(data, dict):
        return {}
    return {
        name: (values[0], values[1])
        for name, values in data.items()
        if isinstance(values, list)
        and len(values) == 2
        and all(value is None or isinstance(value, str) for value in values)
    }
