"""Loading the knowledge and the reference curves that come with stackproof."""

from __future__ import annotations

import functools
from pathlib import Path

from stackproof.core import document, limits
from stackproof.core.document import Document
from stackproof.core.effects import documents, files, shipped
from stackproof.core.errors import Location, Reason, fail
from stackproof.core.value import replace
from stackproof.knowledge.model import Knowledge, KnowledgeFiles, parse_knowledge
from stackproof.knowledge.reference_curves import (
    ReferenceCurve,
    check_index,
    file_names,
    parse_curves,
)
from stackproof.knowledge.variables import FILE, parse_variables


@functools.cache
def load_knowledge(folder: Path | None = None) -> Knowledge:
    """Return settings and known problems, the shipped ones by default; each folder is read once.

    Raises `StackproofError` (FILE_MISSING, and what `model.parse_knowledge` raises).
    """
    base = shipped.root("knowledge") if folder is None else folder
    described, rules = sorted(base.glob("settings/*.yaml")), sorted(base.glob("rules/*.yaml"))
    if not described or not rules:
        raise fail(
            Reason.FILE_MISSING,
            f"`{base}` holds no settings or no rules",
            where=Location(file=str(base)),
        )

    def load(path: Path) -> Document:
        return documents.load(str(path), ours=folder is None)

    return parse_knowledge(
        KnowledgeFiles(
            sources=load(base / "sources.yaml"),
            settings=tuple(load(path) for path in described),
            rules=tuple(load(path) for path in rules),
        )
    )


def load_everything() -> Knowledge:
    """Return the shipped knowledge with the table of variables; raises as `load_knowledge`."""
    text = _read(shipped.root("knowledge") / FILE).decode()
    return replace(load_knowledge(), variables=parse_variables(text))


def load_curves(folder: Path | None = None) -> tuple[ReferenceCurve, ...]:
    """Return the reference curves of a folder with an `index.yaml`, the shipped ones by default.

    Raises `StackproofError` (FILE_MISSING, or what `reference_curves.parse_curves` raises).
    """
    return parse_curves(*_load(folder))


def _load(folder: Path | None) -> tuple[Document, dict[str, str]]:
    base = shipped.root("knowledge") / "reference-curves" if folder is None else folder
    index = document.parse(_read(base / "index.yaml"), file=str(base / "index.yaml"))
    check_index(index)
    return index, {name: _read(base / name).decode(errors="replace") for name in file_names(index)}


def _read(path: Path) -> bytes:
    return files.read_bounded(path, limits.TABLES)
