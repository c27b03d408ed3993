"""A tree of layers as a root for the loader's model, with folders of this machine bound into it."""

from __future__ import annotations

import contextlib
import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping

from stackproof.core.errors import Location, Reason, fail
from stackproof.image.container.effects.layers import Content
from stackproof.image.container.tree import RootTree, TreeNode
from stackproof.linking.effects.cache import ElfCache
from stackproof.linking.effects.view import FileSource, HostView, is_utf8
from stackproof.linking.elf import MAGIC
from stackproof.linking.loader import File

_SET_ID = 0o6000


class TreeView(HostView):
    """The `FileView` of a tree of layers; `contents` has the kept content of each layer."""

    def __init__(
        self,
        tree: RootTree,
        contents: tuple[Content, ...],
        binds: Mapping[str, str] | None = None,
        kept: ElfCache | None = None,
    ) -> None:
        super().__init__("/", binds, kept)
        self._tree = tree
        self._contents = contents

    def _bound(self, inside: str) -> bool:
        return any(inside == place or inside.startswith(f"{place}/") for place in self.binds)

    def _file(self, inside: str, real: str) -> File | None:
        if self._bound(inside):
            return super()._file(inside, real)
        node = self._tree.at(inside)
        if node is None or node.kind != "file":
            return None
        return File(inside, f"layer {node.layer}:{id(node)}", bool(node.mode & _SET_ID))

    def _names(self, inside: str, real: str) -> Iterable[str]:
        if self._bound(inside):
            return super()._names(inside, real)
        node = self._tree.at(inside)
        below = {posixpath.basename(p) for p in self.binds if posixpath.dirname(p) == inside}
        return below if node is None else {*node.children, *below}

    def _is_folder(self, inside: str) -> bool:
        if self._bound(inside):
            return super()._is_folder(inside)
        if any(place.startswith(f"{inside.rstrip('/')}/") for place in self.binds):
            return True
        node = self._tree.at(inside)
        return node is not None and node.kind == "folder"

    def _link(self, inside: str) -> str | None:
        if self._bound(inside):
            return super()._link(inside)
        node = self._tree.at(inside)
        return node.link if node is not None and node.kind == "symlink" else None

    def exists(self, path: str) -> bool:
        """Return whether there is anything at a path."""
        found = self.resolve(path)
        if found is None or self._bound(found[0]):
            return super().exists(path)
        return self._tree.at(found[0]) is not None

    def _elf_files(self, inside: str, real: str) -> Iterator[str]:
        if self._bound(inside):
            yield from super()._elf_files(inside, real)
            return
        for path, node in self._tree.files(inside):
            if node.offset >= 0 and not self._bound(path) and self._is_elf(node):
                if is_utf8(path):
                    yield path
                else:
                    self.skipped.append(path)

    def _is_elf(self, node: TreeNode) -> bool:
        descriptor = self._contents[node.layer].descriptor
        return os.pread(descriptor, len(MAGIC), node.offset) == MAGIC

    @property
    def _name(self) -> str:
        return repr(([one.digest for one in self._contents], sorted(self.binds.items())))

    def _key(self, file: File) -> str:
        if self._bound(file.path):
            return super()._key(file)
        node = self._tree.at(file.path)
        if node is None or node.offset < 0:
            return ""
        return f"{self._contents[node.layer].digest}:{node.offset}"

    @contextlib.contextmanager
    def _opened(self, file: File) -> Iterator[FileSource]:
        if self._bound(file.path):
            with super()._opened(file) as source:
                yield source
            return
        node = self._tree.at(file.path)
        if node is None:
            raise fail(
                Reason.FILE_MISSING, f"`{file.path}` is gone", where=Location(file=file.path)
            )
        if node.offset < 0:  # no ELF file, so that nothing but its size was kept
            yield FileSource(file.path, -1, 0)
            return
        descriptor = self._contents[node.layer].descriptor
        yield FileSource(file.path, descriptor, node.size, node.offset)
