"""ld.so.cache: its bytes to entries, in the order in which the loader meets them.

The format is that of glibc's `sysdeps/generic/dl-cache.h`; the old one (before glibc 2.2) is only
skipped over, since every cache that has it holds the new one too.
"""

from __future__ import annotations

import posixpath
import struct
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from stackproof.core import limits
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.linking.elf import ElfFile
from stackproof.linking.elf.constants import Traces

# --------------------------------------------------------------------------------------------------
# What the loader's model sees of a file system; whoever can look at files gives it one.

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


def elf_at(view: FileView, path: str) -> ElfFile | None:
    """Return the ELF file at a path, None where nothing or no such file is there."""
    file = view.look(path)
    try:
        return view.elf(file) if file else None
    except StackproofError:  # a script, or a text of the linker, for example
        return None


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


_OLD, _NEW = b"ld.so-1.7.0", b"glibc-ld.so.cache1.1"
_OLD_HEADER, _OLD_ENTRY = 16, 12
_HEADER, _ENTRY = struct.Struct("<20sIIBxxxI12x"), struct.Struct("<iIIIQ")
_EXTENSION = 0xEAA42174
_HWCAPS_TAG = 1
_NAMES_OF_BYTES = 4  # a name is the end of a path, and the machine's are in two formats at most
_HWCAP_EXTENSION = 1 << 62


def parse(content: bytes, *, file: str) -> dict[str, tuple[CacheEntry, ...]]:
    """Return the entries of a cache by the name of the library.

    Raises `StackproofError` (INVALID_VALUE) for a file that is no cache, or a damaged one.
    """
    try:
        return _entries(content)
    except (struct.error, ValueError, IndexError) as error:
        raise fail(
            Reason.INVALID_VALUE,
            f"not an ld.so.cache: {error}",
            where=Location(file=file),
            hint="make it again with `ldconfig`",
        ) from None


def _entries(content: bytes) -> dict[str, tuple[CacheEntry, ...]]:
    base = 0
    if content.startswith(_OLD) and len(content) >= _OLD_HEADER:
        count = struct.unpack_from("<I", content, 12)[0]
        base = -(-(_OLD_HEADER + count * _OLD_ENTRY) // 8) * 8
    magic, count, _, _, extension = _HEADER.unpack_from(content, base)
    if magic != _NEW or count > limits.LD_CACHE.count:
        raise ValueError("no `glibc-ld.so.cache1.1` in it")
    folders = _folders(content, base, extension)
    found: dict[str, list[CacheEntry]] = {}
    left = _NAMES_OF_BYTES * len(content)
    for number in range(count):
        place = base + _HEADER.size + number * _ENTRY.size
        flags, key, value, _, hwcap = _ENTRY.unpack_from(content, place)
        subfolder = folders[hwcap & 0xFFFFFFFF] if hwcap & _HWCAP_EXTENSION else ""
        name, path = _text(content, base + key), _text(content, base + value)
        left -= len(name) + len(path)
        if left < 0:
            raise ValueError("its names overlap more than a path and its last part do")
        entry = CacheEntry(
            path=path, flags=flags, hwcap=0 if subfolder else hwcap, subfolder=subfolder
        )
        found.setdefault(name, []).append(entry)
    return {name: tuple(entries) for name, entries in found.items()}


def _folders(content: bytes, base: int, extension: int) -> tuple[str, ...]:
    """Return the names of the hwcaps folders, by their number."""
    if not extension:
        return ()
    magic, count = struct.unpack_from("<II", content, base + extension)
    if magic != _EXTENSION:
        return ()
    for number in range(min(count, 64)):
        tag, _, offset, size = struct.unpack_from(
            "<IIII", content, base + extension + 8 + 16 * number
        )
        if tag == _HWCAPS_TAG:
            places = struct.unpack_from(f"<{min(size // 4, 4096)}I", content, base + offset)
            return tuple(_text(content, base + place) for place in places)
    return ()


def _text(content: bytes, place: int) -> str:
    """Return the text at a place to its zero byte, which is near: names would add up."""
    end = content.index(b"\0", place, place + limits.LD_CACHE_NAME.bytes)
    return content[place:end].decode("utf-8", "backslashreplace")
