"""A profile: settings that a sweep found best, as views that a recipe carries or a job is given.

It is a part of a recipe, so that `build --profile` lays it over one. `run --profile` takes the
variables of its view `tuned` without building anything.
"""

from __future__ import annotations

from collections.abc import Mapping

import yaml
from msgspec import field

from stackproof.core import document as documents
from stackproof.core.document import Document
from stackproof.core.errors import Location, Problem, Reason, StackproofError
from stackproof.core.value import Value

TUNED = "tuned"
"""The view with the settings that serve most sizes."""

_VIEW_KEYS = frozenset(("description", "set"))


class ProfileView(Value):
    """Variables that are set together, and in a sentence where they are best."""

    description: str
    set: Mapping[str, str] = field(default_factory=dict)


def render_profile(views: Mapping[str, ProfileView], comments: tuple[str, ...]) -> str:
    """Return a profile as YAML, with lines of comment in front."""
    data = {
        "views": {
            "default": {},
            **{
                name: {"description": view.description, "set": dict(view.set)}
                for name, view in views.items()
            },
        }
    }
    head = "".join(f"# {line}".rstrip() + "\n" for line in comments)
    text: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=100)
    return head + text


def parse_profile(document: Document) -> dict[str, ProfileView]:
    """Return the views of a profile by name, without `default`.

    Raises `StackproofError` (INVALID_VALUE) for a document of another form.
    """
    data = document.data
    views = data.get("views") if isinstance(data, dict) and set(data) == {"views"} else None
    if not isinstance(views, dict):
        raise StackproofError(_wrong(document, (), "a profile has `views` and nothing else"))
    found: dict[str, ProfileView] = {}
    problems: list[Problem] = []
    for name, view in views.items():
        if name == "default" and not view:
            continue
        if not isinstance(view, dict) or not set(view) <= _VIEW_KEYS:
            keys = "a view of a profile has `description` and `set` alone"
            problems.append(_wrong(document, ("views", name), keys))
            continue
        changes = view.get("set") or {}
        if not isinstance(changes, dict) or not all(isinstance(v, str) for v in changes.values()):
            texts = "`set` of a profile's view maps variables to texts"
            problems.append(_wrong(document, ("views", name), texts))
            continue
        found[name] = ProfileView(description=str(view.get("description", "")), set=changes)
    if problems:
        raise StackproofError(*problems)
    return found


def tuned(text: bytes, *, file: str) -> Mapping[str, str]:
    """Return the variables of the view `tuned`, none where what was there is best as it is."""
    views = parse_profile(documents.parse(text, file=file))
    return views[TUNED].set if TUNED in views else {}


def _wrong(document: Document, path: tuple[str, ...], message: str) -> Problem:
    where = document.where(*path) if path else Location(file=document.file)
    hint = "`stackproof bench` writes one where a specification has `sweep`"
    return Problem(reason=Reason.INVALID_VALUE, message=message, hint=hint, where=where)
