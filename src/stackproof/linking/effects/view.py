"""A root for the loader's model: folders of this machine, layers and images at their places.

Paths are followed one component at a time, as the kernel does in that root: an absolute link starts
again at the root, `..` stops there. What lies at a place is a `FileStore`; the view puts them
together. What was read of a file is kept for the life of the view, under the file's identity.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Literal, NamedTuple, Protocol, TypeVar

from stackproof.core import limits
from stackproof.core.effects import files
from stackproof.core.errors import StackproofError
from stackproof.linking.effects import cache as linking_cache
from stackproof.linking.effects.cache import ElfCache
from stackproof.linking.elf import MAGIC, ElfFile, Glance, ReadableFile, glance, read
from stackproof.linking.elf.constants import Traces, read_traces
from stackproof.linking.loader import CacheEntry, File, Machine, ldcache, level_of
from stackproof.linking.loader.ldcache import PRELOAD_FILE, without_links

_DOTS = {"", ".", ".."}
_EXECUTABLE = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH


T = TypeVar("T")


class FileSource:
    """An open file that the ELF reader reads in pieces."""

    def __init__(self, name: str, descriptor: int, size: int, start: int = 0) -> None:
        self.name = name
        self.size = size
        self._descriptor = descriptor
        self._start = start

    def read(self, offset: int, count: int) -> bytes:
        """Return `count` bytes from `offset`, fewer at the end of the file."""
        if offset < 0 or offset >= self.size:
            return b""
        count = min(count, self.size - offset)
        offset += self._start
        content = os.pread(self._descriptor, count, offset)
        while 0 < len(content) < count:
            more = os.pread(self._descriptor, count - len(content), offset + len(content))
            if not more:
                break
            content += more
        return content


class Entry(NamedTuple):
    """What is at a path: its kind, where a link points to, and what tells a file from any other.

    `set_id` says whether a program gains rights, `key` is what a file's content is kept by in the
    cache, empty for what cannot be kept.
    """

    kind: Literal["file", "folder", "symlink", "other"]
    link: str = ""
    identity: str = ""
    set_id: bool = False
    key: str = ""


class FileStore(Protocol):
    """Files that a view shows at a place; paths begin with `/` there, and have no links."""

    @property
    def name(self) -> str:
        """Return what this is, in a word that another run finds again."""

    def entry(self, path: str) -> Entry | None:
        """Return what is at a path, None for nothing."""

    def names(self, path: str) -> Iterable[str]:
        """Return the names in a folder, none when it is none."""

    def elf_files(self, path: str) -> Iterator[str]:
        """Yield the paths of regular ELF files below a folder, in order."""

    def opened(self, path: str, shown: str) -> AbstractContextManager[ReadableFile]:
        """Open a file, which messages call `shown`; raises NOT_PERMITTED and its like."""

    def real(self, path: str) -> str:
        """Return the path on this machine, empty where files are none of this machine."""


class HostFolder:
    """The `FileStore` of a folder of this machine, or of one file."""

    def __init__(self, folder: str) -> None:
        self.name = os.path.realpath(folder)

    def entry(self, path: str) -> Entry | None:
        """See `FileStore`."""
        real = self.real(path)
        try:
            state = os.stat(real, follow_symlinks=False)
            if stat.S_ISLNK(state.st_mode):
                return Entry("symlink", os.readlink(real))
        except OSError:
            return None
        if stat.S_ISDIR(state.st_mode):
            return Entry("folder")
        if not stat.S_ISREG(state.st_mode):
            return Entry("other")
        more_rights = bool(state.st_mode & (stat.S_ISUID | stat.S_ISGID)) or (
            bool(state.st_mode & _EXECUTABLE) and _has_capabilities(real)
        )
        identity = f"{state.st_dev}:{state.st_ino}"
        return Entry("file", "", identity, more_rights, linking_cache.key_of(state))

    def names(self, path: str) -> Iterable[str]:
        """See `FileStore`."""
        try:
            return os.listdir(self.real(path))
        except OSError:
            return ()

    def elf_files(self, path: str) -> Iterator[str]:
        """See `FileStore`."""
        real = self.real(path)
        for below, folders, names in os.walk(real):
            folders.sort()
            for name in sorted(names):
                found = os.path.join(below, name)
                if _is_elf(found):
                    yield posixpath.join(path, found[len(real) :].lstrip("/"))

    @contextlib.contextmanager
    def opened(self, path: str, shown: str) -> Iterator[FileSource]:
        """See `FileStore`."""
        try:
            # Without O_NONBLOCK a FIFO that takes a library's place would hang.
            flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
            descriptor = os.open(self.real(path), flags)
        except OSError as error:
            raise files.translate(error, shown) from error
        try:
            yield FileSource(shown, descriptor, os.fstat(descriptor).st_size)
        except OSError as error:
            raise files.translate(error, shown) from error
        finally:
            os.close(descriptor)

    def real(self, path: str) -> str:
        """See `FileStore`."""
        return (self.name.rstrip("/") + path.rstrip("/")) or "/"


class RootView:
    """The `FileView` of a root, with other folders or images at places in it (`binds`).

    A text names a folder of this machine: `/` is the machine itself. What is read of files is also
    taken from and put into `kept`, where that is given. `reader` reads ELF files.
    """

    def __init__(
        self,
        root: str | FileStore = "/",
        binds: Mapping[str, str | FileStore] | None = None,
        kept: ElfCache | None = None,
        reader: Callable[[ReadableFile], ElfFile] = read,
    ) -> None:
        self.kept = kept
        self._reader = reader
        self.skipped: list[str] = []
        self._root = _store(root)
        self._stores = {posixpath.normpath(at): _store(what) for at, what in (binds or {}).items()}
        self._places = sorted(self._stores, key=len, reverse=True)
        self._elfs: dict[str, ElfFile] = {}
        self._traces: dict[str, Traces] = {}
        self._folders: dict[str, str | None] = {}
        self._resolved: dict[str, tuple[str, str] | None] = {}
        self._looked: dict[str, File | None] = {}
        self._caches: dict[str, Mapping[str, tuple[CacheEntry, ...]]] = {}

    def _at(self, inside: str) -> tuple[FileStore, str]:
        """Return what holds a path of the view that has no links, and the path there."""
        for place in self._places:
            if inside == place or inside.startswith(f"{place}/"):
                return self._stores[place], inside[len(place) :] or "/"
        return self._root, inside

    def _entry(self, inside: str) -> Entry | None:
        """Return what is at a path without links; what leads to a place is a folder."""
        if any(place.startswith(f"{inside.rstrip('/')}/") for place in self._places):
            return Entry("folder")
        store, path = self._at(inside)
        return store.entry(path)

    def look(self, path: str) -> File | None:
        """Return the regular file at an absolute path of the view, None when there is none."""
        if path not in self._looked:
            self._looked[path] = self._look(path)
        return self._looked[path]

    def _look(self, path: str) -> File | None:
        folder, _, name = path.rpartition("/")
        if name not in _DOTS and self._folder(folder or "/") is None:
            return None  # most places that a loader looks at are not there
        found = self.resolve(path)
        entry = None if found is None else self._entry(found[0])
        if found is None or entry is None or entry.kind != "file":
            return None
        return File(found[0], entry.identity, entry.set_id)

    def elf(self, file: File) -> ElfFile:
        """Return what an ELF file says; raises like `elf.read`, and NOT_PERMITTED."""
        if file.identity not in self._elfs:
            self._elfs[file.identity] = self._read(file, ElfFile, self._reader)
        return self._elfs[file.identity]

    def glance(self, file: File) -> Glance:
        """Return the little that tells whether a file has to do with MPI; raises like `elf`."""
        with self._opened(file) as source:
            return glance(source)

    def head(self, file: File, count: int) -> bytes:
        """Return the first bytes of a file; raises NOT_PERMITTED and its like."""
        with self._opened(file) as source:
            return source.read(0, count)

    def glances(self, folder: str) -> Iterator[tuple[str, File, Glance]]:
        """Yield the ELF files below a folder with a glance at each; damaged ones are left out.

        What was seen is kept for the folder as a whole: to open a file takes no less than a glance.
        Raises what `elf_files` raises.
        """
        name = f"{self._name}\0{folder}"
        before = (self.kept.load(dict[str, Glance], name) if self.kept else None) or {}
        seen: dict[str, Glance] = {}
        for path in self.elf_files(folder):
            file = self.look(path)
            if file is None:
                continue
            key = self._key(file) if self.kept else ""
            found = before.get(key)
            if found is None:
                with contextlib.suppress(StackproofError):  # the loader would not take it either
                    found = self.glance(file)
            if found is not None:
                if key:
                    seen[key] = found
                yield path, file, found
        if self.kept and seen != before:
            self.kept.store(dict[str, Glance], name, seen)

    @property
    def _name(self) -> str:
        """Return what this view shows, in a word that another run finds again."""
        binds = sorted((place, store.name) for place, store in self._stores.items())
        return repr((self._root.name, binds))

    def traces(self, file: File) -> Traces:
        """Return what code and constants of an ELF file tell; raises like `elf`."""
        if file.identity not in self._traces:
            self._traces[file.identity] = self._read(file, Traces, read_traces)
        return self._traces[file.identity]

    def _read(self, file: File, kind: type[T], reader: Callable[[ReadableFile], T]) -> T:
        """Return what a reader says of a file, as it was kept or by reading it."""
        key = self._key(file) if self.kept else ""
        if self.kept is None or not key:
            with self._opened(file) as source:
                return reader(source)
        found = self.kept.load(kind, key)
        if found is None:
            with self._opened(file) as source:
                found = reader(source)
            if self._key(file) == key:
                self.kept.store(kind, key, found)
        return found

    def _key(self, file: File) -> str:
        """Return what a file is kept by, empty for one that cannot be kept."""
        entry = self._entry(file.path)
        return entry.key if entry else ""

    def listing(self, folder: str) -> tuple[str, ...]:
        """Return the sorted names in a folder, none when it is none.

        Names that are not UTF-8 are left out: no library that is asked for has one.
        """
        found = self.resolve(folder)
        if found is None:
            return ()
        store, path = self._at(found[0])
        bound = {posixpath.basename(p) for p in self._places if posixpath.dirname(p) == found[0]}
        return tuple(sorted(filter(is_utf8, {*store.names(path), *bound})))

    def elf_files(self, folder: str) -> Iterator[str]:
        """Yield the paths of regular ELF files below a folder, links not followed.

        Files whose names no JSON can hold are left out, and stand in `skipped`.
        """
        found = self.resolve(folder)
        if found is None:
            return
        store, start = self._at(found[0])
        place = found[0].removesuffix(start)
        for path in store.elf_files(start):
            shown = place + path
            if self._at(shown)[0] is not store:  # something else is mounted over it
                continue
            if is_utf8(shown):
                yield shown
            else:
                self.skipped.append(shown)

    def cache(self, path: str) -> Mapping[str, tuple[CacheEntry, ...]]:
        """Return the entries of an ld.so.cache by name, none when it is missing or damaged."""
        if path not in self._caches:
            self._caches[path] = self._read_cache(path)
        return self._caches[path]

    def _read_cache(self, path: str) -> Mapping[str, tuple[CacheEntry, ...]]:
        file = self.look(path)
        if file is None:
            return {}
        with self._opened(file) as source:
            content = source.read(0, min(source.size, limits.LD_CACHE.bytes))
        try:
            return ldcache.parse(content, file=path)
        except StackproofError:
            return {}  # as the loader does

    def preloads(self) -> tuple[str, ...]:
        """Return what every program has preloaded, nothing where that cannot be read."""
        file = self.look(PRELOAD_FILE)
        if file is None:
            return ()
        try:
            with self._opened(file) as source:
                content = source.read(0, min(source.size, limits.SMALL_RECORD.bytes))
        except StackproofError:
            return ()
        lines = (line.partition("#")[0] for line in content.decode(errors="replace").splitlines())
        return tuple(word for line in lines for word in line.replace(":", " ").split())

    def _opened(self, file: File) -> AbstractContextManager[ReadableFile]:
        store, path = self._at(file.path)
        return store.opened(path, file.path)

    def resolve(self, path: str) -> tuple[str, str] | None:
        """Return the real path inside the view and on this machine, None when it leads nowhere."""
        if path not in self._resolved:
            folder, name = posixpath.split(path)
            base = None if name in _DOTS else self._folder(folder)
            if base is None:
                inside = self._follow(path)
            else:
                here = posixpath.join(base, name)
                target = self._target(here)
                inside = here if target is None else self._follow(posixpath.join(base, target))
            self._resolved[path] = None if inside is None else (inside, self._real(inside))
        return self._resolved[path]

    def _folder(self, path: str) -> str | None:
        """Return the real path inside the view of a folder, None when there is none."""
        if path not in self._folders:
            self._folders[path] = self._find_folder(path)
        return self._folders[path]

    def _find_folder(self, path: str) -> str | None:
        above, _, name = path.rpartition("/")
        if name not in _DOTS and self._folder(above or "/") is None:
            return None
        found = self.resolve(path)
        entry = None if found is None else self._entry(found[0])
        return found[0] if found and entry is not None and entry.kind == "folder" else None

    def exists(self, path: str) -> bool:
        """Return whether there is anything at a path."""
        found = self.resolve(path)
        return found is not None and self._entry(found[0]) is not None

    def _follow(self, path: str) -> str | None:
        """Return a path of the view without links, None when there are too many."""
        return without_links(path, self._target)

    def _target(self, inside: str) -> str | None:
        """Return where a link of the view points to, None for what is no link."""
        if inside in self._stores:
            return None
        store, path = self._at(inside)
        entry = store.entry(path)
        return entry.link if entry is not None and entry.kind == "symlink" else None

    def _real(self, inside: str) -> str:
        """Return the path on this machine of a path of the view that has no links left."""
        store, path = self._at(inside)
        return store.real(path)


def _store(what: str | FileStore) -> FileStore:
    return HostFolder(what) if isinstance(what, str) else what


def _has_capabilities(path: str) -> bool:
    """Return whether a file gives capabilities to who runs it; capabilities(7)."""
    try:
        return bool(os.getxattr(path, "security.capability", follow_symlinks=False))
    except OSError:
        return False


def is_utf8(path: str) -> bool:
    """Return whether a path is UTF-8: no JSON can hold another one."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_elf(path: str) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
        try:
            return os.read(descriptor, len(MAGIC)) == MAGIC
        finally:
            os.close(descriptor)
    except OSError:
        return False


def this_machine() -> Machine:
    """Return the processor of this machine."""
    architecture = os.uname().machine
    flags: list[str] = []
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as stream:
        for line in stream:
            if line.startswith(("flags", "Features")):
                flags = line.partition(":")[2].split()
                break
    return Machine(architecture=architecture, level=level_of(flags))
