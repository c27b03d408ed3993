"""Documents from files: refused by size before they are read."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from stackproof.core import document, limits, noun
from stackproof.core.document import Document
from stackproof.core.effects import files
from stackproof.core.errors import Reason, StackproofError

Noun = TypeVar("Noun")


def load(path: str, *, ours: bool = False) -> Document:
    """Read and parse a YAML file; `ours` is one that comes with stackproof (`document.parse`).

    Raises `StackproofError`: FILE_MISSING, NOT_PERMITTED, TOO_LARGE (before anything is read),
    and what `document.parse` raises.
    """
    text = files.read_bounded(path, limits.DOCUMENT, hint="check that this is the file you meant")
    return document.parse(text, file=path, ours=ours)


def load_noun(kind: type[Noun], path: Path) -> Noun | None:
    """Return a value as it was written to a file, None where there is no file.

    Raises `StackproofError`: NOT_PERMITTED, TOO_LARGE, and what `noun.from_json` raises.
    """
    try:
        text = files.read_bounded(path, limits.LOCK, hint="no file of this kind is as large")
    except StackproofError as error:
        if error.reason is Reason.FILE_MISSING:
            return None
        raise
    return noun.from_json(kind, text, file=str(path))
