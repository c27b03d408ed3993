"""A closure to lines of a tree: who loads what, from where, and whose it is."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

from stackproof.inject.model import TreeLine
from stackproof.linking.loader import Closure, MappedObject

_SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/lib32", "/lib32")
# Folders below which one administration keeps many packages: EESSI, EasyBuild, Spack, Guix, Nix.
_DEEPEST = 100
_COLLECTIONS = ("host_injections", "compat", "software", "installations", "store", "spack")


def tree_of(closure: Closure, roots: Sequence[str]) -> tuple[TreeLine, ...]:
    """Return the lines of a closure, depth first; `roots` are prefixes with a name of their own."""
    return tuple(_lines(closure, closure.program, 0, set(), roots))


def _lines(
    closure: Closure, loaded: MappedObject, depth: int, seen: set[int], roots: Sequence[str]
) -> Iterator[TreeLine]:
    seen.add(loaded.number)
    if depth == 0:
        yield _line(loaded, loaded.path.rpartition("/")[2], 0, roots)
        for one in closure.objects[1:]:
            if one.by == 0 and not any(edge.to == one.number for edge in closure.edges):
                seen.add(one.number)
                yield _line(one, one.path.rpartition("/")[2], 1, roots)
    for edge in closure.needs_of(loaded.number):
        if edge.to is None:
            yield TreeLine(depth=depth + 1, name=edge.name, path="", how="not found", root="")
            continue
        target = closure.objects[edge.to]
        if target.number in seen:
            yield _line(target, edge.name, depth + 1, roots, again=True)
        elif target.by != loaded.number:
            continue  # it is shown below the one that had it loaded
        else:
            seen.add(target.number)
            yield _line(target, edge.name, depth + 1, roots)
            if depth < _DEEPEST:
                yield from _lines(closure, target, depth + 1, seen, roots)


def _line(
    loaded: MappedObject, name: str, depth: int, roots: Sequence[str], *, again: bool = False
) -> TreeLine:
    return TreeLine(
        depth=depth,
        name=name,
        path=loaded.path,
        how=loaded.how,
        root=root_of(loaded.path, roots),
        again=again,
    )


def root_of(path: str, roots: Sequence[str]) -> str:
    """Return whose a file is: a given prefix, the system, a collection, or its own prefix."""
    for root in sorted(roots, key=len, reverse=True):
        if path == root or path.startswith(root.rstrip("/") + "/"):
            return root
    for folder in _SYSTEM:
        if path.startswith(f"{folder}/"):
            return "system"
    words = path.split("/")
    for number, word in enumerate(words[:-1]):
        if word in _COLLECTIONS:
            return "/".join(words[: number + 1])
    folder = posixpath.dirname(path)
    for name in ("lib", "lib64", "bin"):
        head, found, _ = (folder + "/").rpartition(f"/{name}/")
        if found:
            return head or "/"
    return folder


def render(lines: Sequence[TreeLine]) -> list[str]:
    """Return the tree in lines; letters stand for the roots that the last lines name."""
    letters: dict[str, str] = {}
    for line in lines:
        if line.root and line.root not in letters:
            number = len(letters)
            letters[line.root] = chr(ord("A") + number) if number < 26 else f"#{number}"
    rows = []
    for line in lines:
        mark = letters.get(line.root, "!")
        place = "again" if line.again else line.path or "NOT FOUND"
        how = "" if line.again or line.depth == 0 or not line.path else f"   ({_short(line.how)})"
        rows.append(f"{mark} {'  ' * line.depth}{line.name} => {place}{how}")
    return [*rows, "", *(f"{letter} = {root}" for root, letter in letters.items())]


def _short(how: str) -> str:
    """Return the reason with the bare name of the object that it is about."""
    reason, found, path = how.partition(" of ")
    return f"{reason} of {posixpath.basename(path)}" if found else how
