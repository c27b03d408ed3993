"""Loading the catalogue of components that comes with stackproof."""

from __future__ import annotations

from pathlib import Path

from stackproof import conflicts
from stackproof.engines.easybuild import components
from stackproof.engines.easybuild.components import Catalogue
from stackproof.errors import Location, Reason, fail
from stackproof.host import documents, shipped

FOLDER = Path(components.__file__).with_name("components")
_PROVENANCE = "provenance.yaml"


def load_catalogue(folder: Path = FOLDER) -> Catalogue:
    """Return the components of a folder, with the versions known not to work together.

    Raises `StackproofError`: FILE_MISSING, and what `components.parse_catalogue` raises.
    """
    paths = sorted(path for path in folder.glob("*.yaml") if path.name != _PROVENANCE)
    if not paths:
        raise fail(
            Reason.FILE_MISSING,
            f"`{folder}` holds no components",
            where=Location(file=str(folder)),
            hint="install stackproof again",
        )
    known = documents.load(str(shipped.root("knowledge") / "conflicts.yaml"))
    return components.parse_catalogue(
        documents.load(str(folder / _PROVENANCE)),
        [documents.load(str(path)) for path in paths],
        conflicts.parse_conflicts(known),
    )
