"""What the loader's model sees of a file system; whoever can look at files gives it one."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from stackproof.core import limits
from stackproof.core.value import Value
from stackproof.linking.elf import ElfFile
from stackproof.linking.elf.constants import Traces

PRELOAD_FILE = "/etc/ld.so.preload"


class File(NamedTuple):
    """A regular file: its real path in the view, and what is the same for two names of it."""

    path: str
    identity: str
    set_id: bool = False


class CacheEntry(Value):
    """A library in ld.so.cache: where, for which kind of file, below which hwcaps folder."""

    path: str
    flags: int
    hwcap: int = 0
    subfolder: str = ""


class FileView(Protocol):
    """A root folder as programs in it see it; links never lead out of it."""

    def look(self, path: str) -> File | None:
        """Return the regular file at an absolute path, None when there is none."""

    def elf(self, file: File) -> ElfFile:
        """Return what an ELF file says; raises `StackproofError` (NOT_ELF, ELF_DAMAGED, …)."""

    def traces(self, file: File) -> Traces:
        """Return what the code and the constants of an ELF file tell; raises like `elf`."""

    def listing(self, folder: str) -> tuple[str, ...]:
        """Return the sorted names in a folder, none when it is none."""

    def cache(self, path: str) -> Mapping[str, tuple[CacheEntry, ...]]:
        """Return the entries of an ld.so.cache by name, none when there is no such file."""

    def preloads(self) -> tuple[str, ...]:
        """Return what `PRELOAD_FILE` names: the loader puts it into every program; ld.so(8)."""


def without_links(path: str, link: Callable[[str], str | None]) -> str | None:
    """Return a path inside of a root without links, None when it has too many, or is too long.

    `link` says where a link points to, None for what is none. An absolute one starts again at the
    root, and `..` stops there, as in path_resolution(7).
    """
    todo = _words(path)
    inside = "/"
    links = 0
    for _ in range(limits.TREE.depth):
        if not todo:
            return inside
        word = todo.pop()
        if word == "..":
            inside = posixpath.dirname(inside)
            continue
        here = posixpath.join(inside, word)
        target = link(here)
        if target is None:
            inside = here
            continue
        links += 1
        if links > limits.LINKS.count:
            return None
        if target.startswith("/"):
            inside = "/"
        todo += _words(target)
    return None


def _words(path: str) -> list[str]:
    """Return the components of a path, the last one first."""
    return [word for word in reversed(path.split("/")) if word and word != "."]
