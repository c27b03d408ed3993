"""A tree of layers as files for the loader's model."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator

from stackproof.core.errors import Location, Reason, fail
from stackproof.image.container.effects.layers import Content
from stackproof.image.container.tree import RootTree
from stackproof.linking.effects.view import Entry, FileSource
from stackproof.linking.elf import MAGIC

_SET_ID = 0o6000


class LayerFiles:
    """The `FileStore` of a tree of layers; `contents` has the kept content of each layer."""

    def __init__(self, tree: RootTree, contents: tuple[Content, ...]) -> None:
        self.name = repr([one.digest for one in contents])
        self._tree = tree
        self._contents = contents

    def entry(self, path: str) -> Entry | None:
        """See `FileStore`."""
        node = self._tree.at(path)
        if node is None:
            return None
        match node.kind:
            case "file":
                key = f"{self._contents[node.layer].digest}:{node.offset}"
                identity = f"layer {node.layer}:{id(node)}"
                set_id = bool(node.mode & _SET_ID)
                return Entry("file", "", identity, set_id, key if node.offset >= 0 else "")
            case "folder":
                return Entry("folder")
            case "symlink":
                return Entry("symlink", node.link)
            case _:
                return Entry("other")

    def names(self, path: str) -> Iterable[str]:
        """See `FileStore`."""
        node = self._tree.at(path)
        return () if node is None else node.children

    def elf_files(self, path: str) -> Iterator[str]:
        """See `FileStore`."""
        for found, node in self._tree.files(path):
            descriptor = self._contents[node.layer].descriptor
            if node.offset >= 0 and os.pread(descriptor, len(MAGIC), node.offset) == MAGIC:
                yield found

    @contextlib.contextmanager
    def opened(self, path: str, shown: str) -> Iterator[FileSource]:
        """See `FileStore`."""
        node = self._tree.at(path)
        if node is None:
            raise fail(Reason.FILE_MISSING, f"`{shown}` is gone", where=Location(file=shown))
        if node.offset < 0:  # no ELF file, so that nothing but its size was kept
            yield FileSource(shown, -1, 0)
            return
        yield FileSource(shown, self._contents[node.layer].descriptor, node.size, node.offset)

    def real(self, path: str) -> str:
        """See `FileStore`."""
        del path
        return ""
