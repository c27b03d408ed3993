"""Links of a tree that somebody else made, which is to lie anywhere: closed, or refused.

Unpacking has refused what climbs out. Here links that name the place the tree was built for become
relative, and others to the machine are refused: then every path in the tree leads to the tree.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Mapping
from pathlib import Path

from stackproof.core import links
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.links import LinkRules
from stackproof.core.value import Value
from stackproof.pack.model import check_inside


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


class Beside(Value):
    """A folder for what an archive has next to the pack's own, which is called `name` there."""

    folder: Path
    name: str


def add_links(
    pack: Path, wishes: Mapping[str, str], prefix: str = "", beside: Beside | None = None
) -> None:
    """Make the links that were asked for, by the paths of their targets in a pack.

    A target is a path in the pack, or below `prefix` in it; the links lie in the pack, or beside
    it. Raises `StackproofError` (USAGE) for a name that is there, and for a target that is not.
    """
    for word, target in wishes.items():
        place = check_inside(word, "--symlink")
        leads = check_inside(target, f"--symlink {word}=")
        if not (pack / leads).exists():
            leads = posixpath.join(prefix, leads)
        if beside is None and place == leads and (pack / leads).exists():
            continue  # it is there without a link
        root = beside.folder if beside else pack
        taken = os.path.lexists(root / place) or (beside and place.split("/")[0] == beside.name)
        if taken or not (pack / leads).exists():
            raise fail(
                Reason.USAGE,
                f"`--symlink {word}={target}`: "
                + ("the pack has that name" if taken else "there is no target"),
                hint="the target is a path in the pack, such as `bin` or `stack/share`",
            )
        link = root / place
        link.parent.mkdir(parents=True, exist_ok=True)
        whole = root / beside.name / leads if beside else pack / leads
        os.symlink(os.path.relpath(whole, link.parent), link)
