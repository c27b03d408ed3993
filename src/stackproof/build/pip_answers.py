"""What pip says of an index that it cannot reach, or does not find."""

from __future__ import annotations

import re

_IGNORED = re.compile(r"Location '([^']+)' is ignored")
OFFLINE = ("Retrying (Retry(", "Failed to establish", "NewConnectionError", "NameResolution")
"""Words that tell of an index that does not answer."""


def nowhere(text: str) -> str:
    """Return what to do where pip was sent to a place that is not there; empty where it was not."""
    ignored = _IGNORED.search(text)
    return (
        f"pip looks into `{ignored[1]}`, which is not there: see PIP_FIND_LINKS" if ignored else ""
    )
