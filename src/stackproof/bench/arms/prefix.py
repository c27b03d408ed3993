"""An MPI as it is installed in a folder: by the machine's packages, a vendor, or its user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stackproof.bench.arms.paths import absolute


class PrefixArm:
    """`prefix: DIR`, or the path of a compiler wrapper where a folder holds several MPIs."""

    name = "prefix"
    title = "an installed MPI"
    keys: frozenset[str] = frozenset()

    def short(self, text: str) -> dict[str, Any]:
        """Return the entry for DIR or a wrapper."""
        return {"prefix": text}

    def fields(self, entry: Mapping[str, Any], folder: str) -> dict[str, Any]:
        """Return the fields, with the folder made absolute."""
        return {"prefix": absolute(entry["prefix"], folder)}
