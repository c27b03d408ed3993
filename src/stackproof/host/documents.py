"""Documents from files: refused by size before they are read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

from stackproof import document, noun
from stackproof.document import Document
from stackproof.errors import Location, Reason, fail
from stackproof.host import files

Noun = TypeVar("Noun")


def load(path: str) -> Document:
    """Read and parse a YAML file.

    Raises `StackproofError`: FILE_MISSING, NOT_PERMITTED, TOO_LARGE (before anything is read),
    and what `document.parse` raises.
    """
    try:
        with open(path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if size > document.MAX_BYTES:
                raise fail(
                    Reason.TOO_LARGE,
                    f"the file has {size} bytes; a document may have {document.MAX_BYTES}",
                    where=Location(file=path),
                    hint="check that this is the file you meant",
                )
            text = stream.read(document.MAX_BYTES + 1)
    except OSError as error:
        raise files.translate(error, path) from error
    return document.parse(text, file=path)


def load_noun(kind: type[Noun], path: Path) -> Noun | None:
    """Return a value as it was written to a file, None where there is no file.

    Raises `StackproofError`: NOT_PERMITTED, and what `noun.from_json` raises.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise files.translate(error, path) from error
    return noun.from_json(kind, text, file=str(path))
