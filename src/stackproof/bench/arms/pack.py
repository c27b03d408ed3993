"""A pack that `stackproof pack` made: a folder whose programs find themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stackproof.bench.arms.paths import absolute


class PackArm:
    """`pack: DIR`, with what the pack says of itself in it or beside it."""

    name = "pack"
    title = "a pack"
    keys: frozenset[str] = frozenset()

    def short(self, text: str) -> dict[str, Any]:
        """Return the entry for DIR."""
        return {"pack": text}

    def fields(self, entry: Mapping[str, Any], folder: str) -> dict[str, Any]:
        """Return the fields, with the folder made absolute."""
        return {"pack": absolute(entry["pack"], folder)}
