"""Loading the knowledge that comes with stackproof."""

from __future__ import annotations

from pathlib import Path

from stackproof.core.effects import documents, shipped
from stackproof.core.errors import Location, Reason, fail
from stackproof.knowledge.model import Knowledge, KnowledgeFiles, parse_knowledge


def load_knowledge(folder: Path | None = None, *, settings: bool = True) -> Knowledge:
    """Return settings, known problems and rules on curves; those that are shipped by default.

    Without `settings` only the rules are read, which is faster.

    Raises `StackproofError` (FILE_MISSING, and what `knowledge.parse_knowledge` raises).
    """
    base = shipped.root("knowledge") if folder is None else folder
    described, rules = sorted(base.glob("settings/*.yaml")), sorted(base.glob("rules/*.yaml"))
    if not described or not rules:
        raise fail(
            Reason.FILE_MISSING,
            f"`{base}` holds no settings or no rules",
            where=Location(file=str(base)),
        )
    return parse_knowledge(
        KnowledgeFiles(
            sources=documents.load(str(base / "sources.yaml")),
            settings=tuple(documents.load(str(path)) for path in described if settings),
            rules=tuple(documents.load(str(path)) for path in rules),
            curve_rules=documents.load(str(base / "curve-rules.yaml")),
            whole=settings,
        )
    )
