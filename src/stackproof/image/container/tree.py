"""Layers to one tree: what a container's root holds, with whiteouts, links and replaced entries.

The rules are those of the OCI image specification, "Image Layer Filesystem Changeset": a whiteout
hides what lower layers have, never what its own layer has, in whatever order they stand.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from stackproof.core import limits
from stackproof.core.errors import Location, Reason, fail
from stackproof.image.container.tar import damaged
from stackproof.linking.loader.ldcache import without_links

_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"


class Member(NamedTuple):
    """An entry of a layer: `offset` says where its content was kept, -1 when it was not."""

    name: str
    kind: str
    link: str
    mode: int
    size: int
    offset: int


class TreeNode:
    """A place of the tree; a hard link is the same node under two names."""

    __slots__ = ("children", "kind", "layer", "link", "mode", "offset", "size")

    def __init__(self, member: Member, layer: int) -> None:
        self.kind = member.kind
        self.link = member.link
        self.mode = member.mode
        self.size = member.size
        self.offset = member.offset
        self.layer = layer
        self.children: dict[str, TreeNode] = {}


def _folder(layer: int) -> TreeNode:
    return TreeNode(Member("", "folder", "", 0o755, 0, -1), layer)


class RootTree:
    """The root of an image, made of its layers, the lowest first."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.root = _folder(-1)
        self._count = 0
        self._layer = -1

    def add_layer(self, members: Iterable[Member]) -> None:
        """Put a layer on top.

        Raises `StackproofError`: IMAGE_UNREADABLE for a path that leads out of the root or a hard
        link to nothing, TOO_LARGE for more entries than any real image has.
        """
        self._layer += 1
        todo = [(self._words(member.name), member) for member in members]
        for words, _ in todo:
            if words and words[-1].startswith(_WHITEOUT):
                self._hide(words)
        for words, member in todo:
            if words and not words[-1].startswith(_WHITEOUT):
                self._add(words, member)

    def _words(self, name: str) -> tuple[str, ...]:
        words = tuple(word for word in name.split("/") if word not in {"", "."})
        if ".." in words:
            raise damaged(self.name, f"the path `{_shown(name)}` leads out of its root")
        return words

    def _hide(self, words: tuple[str, ...]) -> None:
        parent = self.find("/" + "/".join(words[:-1]))
        if parent is None:
            return
        if words[-1] == _OPAQUE:
            parent.children.clear()
        elif not words[-1].startswith(_WHITEOUT * 2):  # names of aufs itself
            parent.children.pop(words[-1][len(_WHITEOUT) :], None)

    def _add(self, words: tuple[str, ...], member: Member) -> None:
        parent = self._made(words[:-1])
        old = parent.children.get(words[-1])
        if member.kind == "folder" and old is not None and old.kind == "folder":
            old.mode = member.mode
            return
        if member.kind == "hardlink":
            target = self.find("/" + "/".join(self._words(member.link)), follow=False)
            if target is None or target.kind == "folder":
                raise damaged(self.name, f"`{_shown(member.name)}` is a hard link to nothing")
            parent.children[words[-1]] = target
            return
        parent.children[words[-1]] = TreeNode(member, self._layer)
        self._counted()

    def _counted(self) -> None:
        self._count += 1
        if self._count > limits.TREE.count:
            raise fail(
                Reason.TOO_LARGE,
                f"the image has more than {limits.TREE.count} files",
                where=Location(file=self.name),
                hint="check that this is the image you meant",
            )

    def _made(self, words: tuple[str, ...]) -> TreeNode:
        """Return the folder at a path, made where it is missing; links are followed inside."""
        node = self.root
        for number, word in enumerate(words):
            child = node.children.get(word)
            if child is not None and child.kind == "symlink":
                path = self.resolved("/" + "/".join(words[: number + 1]))
                inside = tuple(part for part in (path or "").split("/") if part)
                if path is None or inside == words[: number + 1]:
                    raise damaged(self.name, f"`{_shown('/'.join(words))}` is in a loop of links")
                child = self._made(inside)
            elif child is None or child.kind != "folder":
                child = node.children[word] = _folder(self._layer)
                self._counted()
            node = child
        return node

    def resolved(self, path: str) -> str | None:
        """Return a path without links, inside of this root; None when there are too many."""
        return without_links(path, self._link)

    def _link(self, path: str) -> str | None:
        node = self.at(path)
        return node.link if node is not None and node.kind == "symlink" else None

    def find(self, path: str, *, follow: bool = True) -> TreeNode | None:
        """Return the node at a path, links followed, the last one only with `follow`."""
        folder, name = posixpath.split(path)
        base = self.resolved(path if follow or not name else folder)
        if base is None:
            return None
        return self.at(base if follow or not name else posixpath.join(base, name))

    def at(self, path: str) -> TreeNode | None:
        """Return the node at a path that has no links."""
        node: TreeNode | None = self.root
        for word in path.split("/"):
            if word and node is not None:
                node = node.children.get(word)
        return node

    def files(self, path: str) -> Iterator[tuple[str, TreeNode]]:
        """Yield paths and nodes of the files below a folder, links not followed, in order."""
        start = self.at(path)
        todo = [(path.rstrip("/"), start)] if start is not None else []
        while todo:
            here, node = todo.pop()
            if node.kind == "file":
                yield here, node
            todo += [
                (f"{here}/{name}", child)
                for name, child in sorted(node.children.items(), reverse=True)
            ]


def _shown(name: str) -> str:
    return name.encode("utf-8", "backslashreplace").decode()
