"""YAML as Spack reads it, written the same way for the same data."""

from __future__ import annotations

from typing import Any

import yaml

_WIDTH = 1000  # one spec, one line: Spack's messages then name the line of the spec


def render(data: Any) -> str:
    """Return data as block-style YAML with its own order of keys.

    A text that YAML would take for something else (`true`, `1.10`) is quoted.
    """
    return yaml.safe_dump(
        plain(data), sort_keys=False, default_flow_style=False, width=_WIDTH, allow_unicode=True
    )


def plain(data: Any) -> Any:
    """Return data as dictionaries and lists without sharing, so that YAML needs no anchors."""
    if isinstance(data, dict) or hasattr(data, "items"):
        return {key: plain(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [plain(value) for value in data]
    return data
