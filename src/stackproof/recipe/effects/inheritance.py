"""Recipe files of stackproof's own format, from disk, with those that they inherit.

A recipe may name other recipes in its own folder and below, and those that come with stackproof by
their names; nothing else.
"""

from __future__ import annotations

import os
from pathlib import Path

from stackproof.core import limits
from stackproof.core.document import Document
from stackproof.core.effects import documents, shipped
from stackproof.core.errors import Location, Problem, Reason, StackproofError
from stackproof.core.value import replace

_NAMES = "name a file in the folder, or a recipe of `stackproof recipe ls`"


def load_chain(path: str) -> tuple[Document, ...]:
    """Return a recipe file and those that it inherits, the base first.

    Raises `StackproofError`: what `documents.load` raises, and INVALID_VALUE for a path that
    leaves the recipe's folder, a circle, or more than 16 files.
    """
    root = os.path.dirname(path) or "."
    found: list[Document] = []
    seen: dict[str, str] = {}
    following: str | None = path
    while following is not None:
        real = os.path.realpath(following)
        where = found[-1].where("inherit") if found else None
        if real in seen:
            circle = " inherits ".join([*seen.values(), following])
            raise _refused(f"recipes inherit each other in a circle: {circle}", where)
        if len(found) == limits.INHERITED.depth:
            raise _refused(f"more than {limits.INHERITED.depth} recipes inherit each other", where)
        seen[real] = following
        document = _load(following, where, "" if found else "recipe")
        found.append(document)
        parent = document.data.get("inherit") if isinstance(document.data, dict) else None
        if not isinstance(parent, str):
            break
        following = _inherited(document, parent, root)
    return tuple(reversed(found))


def _inherited(document: Document, parent: str, root: str) -> str:
    """Return the file of a recipe that another one inherits: a path, or else a shipped name."""
    here = os.path.join(os.path.dirname(document.file), parent)
    if parent in shipped.names("recipes") and not os.path.lexists(here):
        return os.fspath(shipped.find("recipes", parent))
    return beside(document, parent, root, document.where("inherit"))


def _load(path: str, inherited_at: Location | None, wanted: str) -> Document:
    """Return a document; that it is not there is a problem of the recipe that inherits it."""
    try:
        return documents.load(path, wanted=wanted)
    except StackproofError as error:
        if inherited_at is None or error.reason is not Reason.FILE_MISSING:
            raise
        raise StackproofError(
            *(replace(problem, where=inherited_at, hint=_NAMES) for problem in error.problems)
        ) from None


def _refused(message: str, where: Location | None) -> StackproofError:
    hint = "let one recipe hold what is common, and the others inherit it"
    problem = Problem(reason=Reason.INVALID_VALUE, message=message, where=where, hint=hint)
    return StackproofError(problem)


def allowed_root(folder: str) -> str:
    """Return the folder that links may not leave: the git checkout around it, or itself.

    A checkout that is somebody's home or the whole machine does not count: it says nothing of what
    belongs together.
    """
    real = os.path.realpath(folder)
    excluded = {"/", os.path.realpath(os.path.expanduser("~"))}
    around = real
    while around not in excluded and around != os.path.dirname(around):
        if os.path.lexists(os.path.join(around, ".git")):
            return around
        around = os.path.dirname(around)
    return real


def beside(document: Document, path: str, root: str, where: Location) -> str:
    """Return a path that a document names, relative to its file; it may not leave `root`.

    What a shipped recipe names lies in the folder of these. Raises `StackproofError`
    (INVALID_VALUE) at `where`.
    """
    fault = path_fault(path)
    full = os.path.join(os.path.dirname(document.file), path)
    if fault is None:
        ours = shipped.has(Path(document.file))
        allowed = allowed_root(os.fspath(shipped.root("recipes")) if ours else root)
        real = os.path.realpath(full)
        if not (real == allowed or real.startswith(allowed.rstrip("/") + "/")):
            fault = "a link leads out of the recipe's folder"
    if fault is None:
        return full
    raise StackproofError(
        Problem(
            reason=Reason.INVALID_VALUE,
            message=f"`{path[:80]}` cannot be named here: {fault}",
            hint="name what lies in the recipe's folder or below, relative to the file",
            where=where,
        )
    )


def path_fault(path: str) -> str | None:
    """Return why a recipe may not name a path; None when it may."""
    if not path or not path.isprintable():
        return "it is no path"
    if path.startswith("/"):
        return "it is absolute"
    if ".." in path.split("/"):
        return "`..` leaves the folder"
    return None
