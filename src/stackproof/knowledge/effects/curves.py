"""Loading the reference curves that come with stackproof."""

from __future__ import annotations

from pathlib import Path

from stackproof.core import document as documents
from stackproof.core import limits
from stackproof.core.document import Document
from stackproof.core.effects import files, shipped
from stackproof.knowledge.reference_curves import (
    ReferenceCurve,
    check_index,
    file_names,
    parse_curves,
)


def load_curves(folder: Path | None = None) -> tuple[ReferenceCurve, ...]:
    """Return the reference curves of a folder with an `index.yaml`, the shipped ones by default.

    Raises `StackproofError` (FILE_MISSING, or what `curves.parse_curves` raises).
    """
    return parse_curves(*_load(folder))


def _load(folder: Path | None) -> tuple[Document, dict[str, str]]:
    base = shipped.root("knowledge") / "reference-curves" if folder is None else folder
    index = documents.parse(_read(base / "index.yaml"), file=str(base / "index.yaml"))
    check_index(index)
    return index, {name: _read(base / name).decode(errors="replace") for name in file_names(index)}


def _read(path: Path) -> bytes:
    return files.read_bounded(path, limits.TABLES)
