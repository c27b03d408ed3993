"""What version nodes and values of libraries mean, as the shipped knowledge says."""

from __future__ import annotations

import functools

from stackproof.core.effects import shipped
from stackproof.core.value import replace
from stackproof.inject.releases import Releases, parse_releases
from stackproof.inject.values import parse_values


@functools.cache
def load_releases() -> Releases:
    """Return the meaning of version nodes and of values."""
    from stackproof.core.effects import documents  # noqa: PLC0415 - slow to import, rarely needed

    nodes, values = (
        documents.load(str(shipped.find("knowledge", name)), ours=True)
        for name in ("symbol-versions.yaml", "mpi-constants.yaml")
    )
    return replace(parse_releases(nodes), values=parse_values(values))
