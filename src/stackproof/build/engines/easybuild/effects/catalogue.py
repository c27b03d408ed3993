"""The catalogue of components that come with stackproof, and the known conflicts between them."""

from __future__ import annotations

import functools
from importlib import resources

from stackproof.build.engines.easybuild.components import Catalogue, parse_catalogue
from stackproof.build.engines.spack import conflicts
from stackproof.core import document
from stackproof.core.effects import documents, shipped

PROVENANCE = "provenance.yaml"
_CONFLICTS = "conflicts.yaml"


@functools.cache
def load() -> Catalogue:
    """Return the catalogue; raises `StackproofError` with every problem of its files."""
    folder = resources.files("stackproof.build.engines.easybuild") / "components"
    parsed = {
        entry.name: document.parse(entry.read_bytes(), file=f"components/{entry.name}")
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith(".yaml")
    }
    provenance = parsed.pop(PROVENANCE)
    known = conflicts.parse_conflicts(
        documents.load(str(shipped.find("knowledge", _CONFLICTS)), ours=True)
    )
    return parse_catalogue(provenance, tuple(parsed.values()), known)
