"""Links of a tree that somebody else made, which is to lie anywhere: closed, or refused.

Unpacking has refused what climbs out. Here links that name the place the tree was built for become
relative, and others to the machine are refused: then every path in the tree leads to the tree.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator

from stackproof.core import links
from stackproof.core.errors import Location, Problem, Reason, StackproofError
from stackproof.core.links import LinkRules


def close(tree: str, prefix: str, shown: str) -> None:
    """Make links that name the place a tree was built for relative.

    Raises `StackproofError` (UNSUPPORTED) with every other link that leads out; `shown` is what
    messages call the tree.
    """
    rules = LinkRules(root=prefix)
    for place, target in _links(tree):
        inside = rules.inside(target) if target.startswith("/") else None
        if inside is not None:
            path = os.path.join(tree, place)
            os.unlink(path)
            os.symlink(_relative(place, inside.lstrip("/")), path)
    problems = [
        Problem(
            reason=Reason.UNSUPPORTED,
            message=f"`{shown}/{place}` is a link to `{target}`, which is not in the image",
            where=Location(file=f"{shown}/{place}"),
            hint="build the stack with a copy of it, not a link to the machine",
        )
        for place, target in leaving(tree)
    ]
    if problems:
        raise StackproofError(*problems)


def leaving(tree: str) -> list[tuple[str, str]]:
    """Return the links that lead out of a tree, by their paths in it, with their texts."""
    found = dict(_links(tree))
    absolute = [(place, target) for place, target in found.items() if target.startswith("/")]
    climbing = links.faults(found, (), links.PLAIN)
    return sorted({*absolute, *((one.path, one.target) for one in climbing)})


def _links(tree: str) -> Iterator[tuple[str, str]]:
    for folder, folders, names in os.walk(tree):
        for name in (*folders, *names):
            path = os.path.join(folder, name)
            if os.path.islink(path):
                yield os.path.relpath(path, tree), os.readlink(path)


def _relative(place: str, target: str) -> str:
    """Return the text of a link at a place to a path of the tree; `..` in that stays as it is."""
    above = posixpath.dirname(place)
    if ".." not in target.split("/"):
        return posixpath.relpath(target or ".", above or ".")
    return "/".join((*(".." for word in above.split("/") if word), target))
