"""Documents from files: refused by size before they are read."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from pathlib import Path
from typing import TypeVar

from stackproof.core import document, kinds, limits, noun
from stackproof.core.document import Document
from stackproof.core.effects import files, shipped
from stackproof.core.errors import Reason, StackproofError

Noun = TypeVar("Noun")


def load(path: str, *, ours: bool = False, wanted: str = "") -> Document:
    """Read and parse a YAML file; `ours` is one that comes with stackproof (`document.parse`).

    A file of another kind than `wanted` is refused by what it is (`kinds.problem`). Raises
    `StackproofError`: FILE_MISSING, NOT_PERMITTED, TOO_LARGE (before anything is read),
    and what `document.parse` raises.
    """
    if wanted:
        refuse_other_kind(path, wanted)
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


def refuse_other_kind(
    path: str, wanted: str, reason: Reason = Reason.INVALID_VALUE, *, texts: bool = True
) -> None:
    """Raise `StackproofError` for a file or folder that is known to be of another kind.

    Without `texts` a text is never refused, as another reader has looked at it. What cannot be
    read, and what is neither file nor folder, is left to whoever reads it.
    """
    kind = kind_of(path, texts=texts)
    problem = kinds.problem(kind, wanted, path, reason)
    if problem is not None:
        recipes = _recipes_like(kind, path)
        raise StackproofError(kinds.problem(kind, wanted, path, reason, recipes) or problem)


def _recipes_like(kind: str, path: str) -> list[str]:
    """Return the shipped recipes about what a file, or the first such file of a folder, has."""
    engine = "spack" if kind.startswith("spack") else kind.replace("config", "build")
    folder = sorted(os.listdir(path)) if os.path.isdir(path) else ()
    telling = (name for name in folder if name == "spack.yaml" or name.endswith(".eb"))
    text = _head(os.path.join(path, *itertools.islice(telling, 1))).decode(errors="replace")
    names = shipped.names("recipes") if engine in ("spack", "easybuild") else ()
    return kinds.name_recipes(kind, text, [name for name in names if _engine(name) == engine])


def _engine(name: str) -> str:
    """Return the engine of a shipped recipe, empty for one that others inherit."""
    text = shipped.find("recipes", name).read_text(encoding="utf-8")
    if "\ndescription: " not in text:
        return ""
    match = re.search(r"^engine: (\S+)$", text, re.MULTILINE)
    return match[1] if match else "spack" if "\ninherit: " in text else "wheel"


def kind_of(path: str, *, texts: bool = True) -> str:
    """Return the kind of a file or folder, empty where it has none or cannot be read."""
    with contextlib.suppress(OSError, ValueError):
        return _kind(path, texts=texts)
    return ""


def _kind(path: str, *, texts: bool) -> str:
    if os.path.isdir(path):
        with os.scandir(path) as entries:
            names = {entry.name for entry in itertools.islice(entries, limits.KIND.count)}
        telling = names.intersection(kinds.TOLD_BY)
        heads = {name: _head(os.path.join(path, name)) for name in telling}
        return kinds.kind_of_folder(names, heads)
    return kinds.kind_of_file(_head(path)) if texts else kinds.kind_of_bytes(_head(path))


def _head(path: str) -> bytes:
    """Return the first bytes of a regular file, nothing of others."""
    if not os.path.isfile(path):
        return b""
    with open(path, "rb") as stream:
        return stream.read(limits.KIND.bytes)
