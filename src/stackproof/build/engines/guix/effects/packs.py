"""Packs of Guix on disk: tarballs and SquashFS images that may be anybody's, unpacked and read.

Of a pack only its store is taken: `gnu/store`, and in it items by their names. What is unpacked
lies in the cache under the pack's digest, and is read once for all builds.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
from pathlib import Path
from typing import IO, ClassVar, cast

from msgspec import Struct, field

from stackproof.build.engines.guix.stack import HASH, ITEM, MOUNT, StoreItem
from stackproof.core import limits, links, noun
from stackproof.core.effects import cache_folder, cache_kinds, files
from stackproof.core.effects.foreign import unpack as foreign_unpack
from stackproof.core.effects.foreign.tree import ForeignTree, set_mode
from stackproof.core.effects.foreign.unpack import Packed, UnpackRules
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.links import LinkRules
from stackproof.core.value import Value
from stackproof.image.container import tar
from stackproof.image.container.effects import layers

STORE = "gnu/store"
# `package-name->name+version`: a version begins with the first digit behind a hyphen.
_VERSIONED = re.compile(r"(.+?)-(\d.*)")
_REFERENCE = re.compile(f"/gnu/store/({HASH})".encode())
_LONGEST = len(STORE) + 34
_DAMAGED = "make it again with `guix pack`, and copy it whole"
_LIST = "store.json"
_TREE = "tree"
_CHUNK = 1 << 20
_MAX_CACHED_BYTES = 16 << 30
_SQUASHFS = b"hsqs"
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = _FILE | os.O_DIRECTORY
_ROOT = LinkRules(root="/", stays=True)


class Store(Value):
    """The items of a pack's store, by name."""

    SCHEMA: ClassVar[str] = "stackproof/guix-store/1"

    items: tuple[StoreItem, ...]


def unpack_pack(pack: Path, sha256: str) -> tuple[Path, Store]:
    """Return the unpacked tree of a pack in the cache, and the items in its `gnu/store`.

    Raises `StackproofError`: IMAGE_UNREADABLE for what is damaged, is no pack, or holds what no
    store has; DIGEST_MISMATCH for a file that changes, TOO_LARGE, DISK_FULL, TOOL_MISSING.
    """
    cache_kinds.in_use()
    place = _place(sha256)
    store = _load_cached(place)
    if store is None:
        with cache_folder.alone(place):
            store = _load_cached(place) or _unpack(pack, sha256, place)
    return place / _TREE, store


def in_cache(sha256: str) -> tuple[Path, Store] | None:
    """Return the same for a pack that was unpacked before, None where the cache has it not."""
    store = _load_cached(_place(sha256))
    return (_place(sha256) / _TREE, store) if store else None


def open_tree(tree: Path) -> ForeignTree:
    """Open an unpacked pack, in which an absolute link begins at its own root."""
    return ForeignTree.at(tree, _ROOT)


def _place(sha256: str) -> Path:
    return cache_kinds.home("archives") / f"guix-{sha256}"


def _load_cached(place: Path) -> Store | None:
    try:
        store = noun.from_json(Store, (place / _LIST).read_bytes())
    except (OSError, StackproofError):
        return None
    cache_folder.used(place)
    return store


def _unpack(pack: Path, sha256: str, place: Path) -> Store:
    with cache_folder.making(place) as folder:
        target = folder / _TREE
        with pack.open("rb") as stream:
            squashfs = stream.read(len(_SQUASHFS)) == _SQUASHFS
        if squashfs:
            packed = Packed(path=str(pack), member=STORE)
            foreign_unpack.unpack(packed, target, UnpackRules(links=_ROOT)).close()
        else:
            target.mkdir()
            with open_tree(target) as tree:
                _Tarball(pack, tree).extract(folder)
        with open_tree(target) as tree:
            store = _read(tree, str(pack))
        if files.sha256(pack) != sha256:
            message = f"`{pack}` changed while it was read"
            raise fail(Reason.DIGEST_MISMATCH, message, hint="wait until it is whole")
        files.write(folder / _LIST, noun.to_json(store, indent=None))
    cache_folder.prune("archives", _MAX_CACHED_BYTES, keep=place)
    return store


def _refused(pack: str, what: str, hint: str = _DAMAGED) -> StackproofError:
    where = Location(file=pack)
    return fail(Reason.IMAGE_UNREADABLE, f"the pack {what}", where=where, hint=hint)


class _Tarball:
    """A tarball whose store is unpacked into a tree; what was made of it is known by its path."""

    def __init__(self, pack: Path, tree: ForeignTree) -> None:
        self.pack = str(pack)
        self.tree = tree
        self.folders: set[str] = set()
        self.files: set[str] = set()

    def extract(self, aside: Path) -> None:
        """Unpack what is in the store; what else there is (`bin`, `etc`, `var`) is passed over."""
        blob = layers.whole(self.pack)
        names = 0
        with (
            tempfile.TemporaryDirectory(dir=aside) as folder,
            layers.open_plain(blob, hashlib.sha256(), folder) as stream,
        ):
            for count, entry in enumerate(tar.entries(stream)):
                names += len(entry.name) + len(entry.link)
                if count >= limits.LAYER.count or names > limits.LAYER_NAMES.bytes:
                    raise fail(
                        Reason.TOO_LARGE,
                        f"the pack has more than {limits.LAYER.count} entries",
                        where=Location(file=self.pack),
                        hint="check that this is the file you meant",
                    )
                path = self._path(entry.name)
                if path.startswith(f"{STORE}/"):
                    self._take(path, entry, stream)
            stream.finish()

    def _path(self, name: str) -> str:
        parts = [part for part in name.split("/") if part not in {"", "."}]
        if ".." in parts or len(parts) > limits.FOREIGN.depth:
            raise _refused(self.pack, f"holds the path {ascii(name)[:200]}, which no store has")
        return "/".join(parts)

    def _take(self, path: str, entry: tar.ArchiveMember, stream: tar.Stream) -> None:
        self._folder(path if entry.kind == "folder" else os.path.dirname(path))
        if entry.kind == "folder":
            return
        if path in self.folders:
            raise _refused(self.pack, f"holds {ascii(path)[:200]} twice")
        if path in self.files:  # the last of several entries counts
            self.tree.remove(path)
        self.files.add(path)
        if entry.kind == "symlink":
            self.tree.make_link(path, entry.link)
        elif entry.kind == "hardlink":
            self.tree.make_name(path, self._path(entry.link))
        elif entry.kind == "file":
            content = cast("IO[bytes]", _Content(stream, entry.size))
            self.tree.write(path, content, mode=0o755 if entry.mode & 0o100 else 0o644)
        else:
            raise _refused(self.pack, f"holds {path!a}, which is no file, folder or link")

    def _folder(self, path: str) -> None:
        """Make a folder, and those above it; none of them may be a link, or a file."""
        parts = path.split("/")
        made = len(parts)
        while made and "/".join(parts[:made]) not in self.folders:
            made -= 1
        for count in range(made + 1, len(parts) + 1):
            folder = "/".join(parts[:count])
            if folder in self.files:
                raise _refused(self.pack, f"holds a file below {ascii(folder)[:200]}, no folder")
            self.tree.make_folder(folder)
            self.folders.add(folder)


class _Content:
    """The content of an entry, which is read once."""

    def __init__(self, stream: tar.Stream, size: int) -> None:
        self._stream, self._left = stream, size

    def read(self, count: int) -> bytes:
        """Return the next bytes; raises `StackproofError` where the tarball ends within a file."""
        part = self._stream.read(min(self._left, count))
        if self._left and not part:
            raise tar.damaged(self._stream.name, "it ends within a file")
        self._left -= len(part)
        return part


def _read(tree: ForeignTree, pack: str) -> Store:
    """Return the items of an unpacked store, judged, and give their files the modes of a store."""
    if not all(tree.is_folder(path, follow=False) for path in ("gnu", STORE)):
        raise _refused(pack, f"has no `{STORE}`", "name a tarball or SquashFS image of `guix pack`")
    names = tree.names(STORE)
    hashes: dict[bytes, str] = {}
    for name in names:
        if not ITEM.fullmatch(name):
            raise _refused(pack, f"holds {ascii(name)[:200]}, which is no name of a store item")
        other = hashes.setdefault(name[:32].encode(), name)
        if other != name:
            raise _refused(pack, f"holds `{other}` and `{name}`, which have one hash")
    judged = _Judged()
    store = os.open(f"/proc/self/fd/{tree.descriptor}/{STORE}", _FOLDER)  # no link is on the way
    try:
        items = tuple(_item(store, name, judged, hashes) for name in names)
    finally:
        os.close(store)
    bad = links.faults(judged.links, judged.folders, LinkRules(root=MOUNT))
    if bad:
        link = ascii(f"{bad[0].path} -> {bad[0].target}")
        raise _refused(pack, f"holds a link that leads out of its store: {link}")
    return Store(items=items)


def _item(store: int, name: str, judged: _Judged, hashes: dict[bytes, str]) -> StoreItem:
    reading = _Reading(judged=judged)
    reading.words(b"nix-archive-1")
    reading.node(store, name, f"store/{name}")
    needs = {hashes[code] for code in reading.codes if code in hashes} - {name}
    match = _VERSIONED.fullmatch(name[33:])
    return StoreItem(
        filename=name,
        name=match[1] if match else name[33:],
        version=match[2] if match else "",
        sha256=reading.digest.hexdigest(),
        needs=tuple(sorted(needs)),
    )


class _Judged(Struct):
    """The links and folders of a store, by their paths below the mount point."""

    links: dict[str, str] = field(default_factory=dict)
    folders: set[str] = field(default_factory=lambda: {"store"})


class _Reading(Struct):
    """A walk through an item: its digest as a nar, and the hashes that stand in it.

    A nar has the content of files, whether their owner may execute them, and the texts of links
    (E. Dolstra, "The Purely Functional Software Deployment Model", figure 5.2).
    """

    judged: _Judged
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)
    codes: set[bytes] = field(default_factory=set)

    def words(self, *texts: bytes) -> None:
        """Add strings: each with its length in front, and filled up to eight bytes."""
        for text in texts:
            self.digest.update(len(text).to_bytes(8, "little") + text + bytes(-len(text) % 8))

    def node(self, folder: int, name: str, path: str) -> None:
        """Add what has a name in an open folder; nothing is followed."""
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        self.words(b"(", b"type")
        if stat.S_ISLNK(mode):
            text = os.readlink(name, dir_fd=folder)
            self.judged.links[path] = text
            self.words(b"symlink", b"target", os.fsencode(text))
            self.codes.update(_REFERENCE.findall(os.fsencode(text)))
        elif stat.S_ISDIR(mode):
            self.judged.folders.add(path)
            self.words(b"directory")
            set_mode(folder, name, 0o755)
            self._entries(os.open(name, _FOLDER, dir_fd=folder), path)
        else:
            runs = bool(mode & stat.S_IXUSR)
            self.words(b"regular", *((b"executable", b"") if runs else ()), b"contents")
            set_mode(folder, name, 0o755 if runs else 0o644)
            self._content(os.open(name, _FILE, dir_fd=folder))
        self.words(b")")

    def _entries(self, folder: int, path: str) -> None:
        try:
            for name in sorted(os.listdir(folder), key=os.fsencode):
                self.words(b"entry", b"(", b"name", os.fsencode(name), b"node")
                self.node(folder, name, f"{path}/{name}")
                self.words(b")")
        finally:
            os.close(folder)

    def _content(self, descriptor: int) -> None:
        with os.fdopen(descriptor, "rb") as stream:
            size = os.fstat(descriptor).st_size
            self.digest.update(size.to_bytes(8, "little"))
            tail = b""
            while chunk := stream.read(_CHUNK):
                self.digest.update(chunk)
                self.codes.update(_REFERENCE.findall(tail + chunk))
                tail = chunk[-_LONGEST:]
            self.digest.update(bytes(-size % 8))
