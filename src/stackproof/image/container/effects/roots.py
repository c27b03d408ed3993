"""Root file systems that a user names: folders, OCI layouts, archives of containers, SIF files.

`oci:FOLDER[:TAG]`, `oci-archive:FILE[:TAG]` and `docker-archive:FILE[:TAG]` as skopeo and podman
have them, `rootfs:FILE`, `sif:FILE`; without such a word the file tells what it is.
"""

from __future__ import annotations

import contextlib
import functools
import os
import posixpath
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO, NamedTuple

from msgspec import field

from stackproof.core import limits
from stackproof.core.effects import cache_folder, cache_kinds, files
from stackproof.core.effects.foreign import unpack as foreign_unpack
from stackproof.core.effects.foreign.unpack import Packed, UnpackRules
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.links import ROOT_FILE_SYSTEM
from stackproof.core.value import Value
from stackproof.image import superblock
from stackproof.image.container import tar
from stackproof.image.container.effects import archives, layers
from stackproof.image.container.effects.layers import Blob, Content
from stackproof.image.container.oci import LAYOUT, ImageConfig
from stackproof.image.container.tar import damaged
from stackproof.image.container.tree import RootTree
from stackproof.linking.effects.cache import ElfCache
from stackproof.linking.effects.view import Entry, FileSource, RootView
from stackproof.linking.elf import MAGIC

# ---------------------- A SIF file (Singularity Image Format) to the partition that holds its root
# The format is that of github.com/sylabs/sif, which Apptainer uses as well (pkg/sif/sif.go, "Global
# header" and "Data object descriptor"): little-endian, a header of 128 bytes, then a table of
# descriptors of 585 bytes each.

MAGIC_OFFSET, SIF_MAGIC = 32, b"SIF_MAGIC\0"
HEADER_BYTES, DESCRIPTOR_BYTES = 128, 585
_HEADER = struct.Struct("<32s10s3s3s16sqqqqqqqq")
_DESCRIPTOR = struct.Struct("<i?IIIqqqqqqq128s384s")
_PARTITION = 0x4004
_FORMATS = {1: "squashfs", 2: "ext3", 5: "encrypted"}
_PRIMARY = 2
_ARCHITECTURES = {"02": "x86_64", "04": "aarch64", "06": "ppc64", "11": "s390x"}


class SifPartition(NamedTuple):
    """A file system in a SIF file: its format, where it begins and how long it is, in bytes."""

    format: str
    offset: int
    size: int
    architecture: str


def looks_like_sif(head: bytes) -> bool:
    """Return True for the beginning of a SIF file."""
    return head[MAGIC_OFFSET : MAGIC_OFFSET + len(SIF_MAGIC)] == SIF_MAGIC


def find_partition(stream: BinaryIO, *, file_size: int, file: str) -> SifPartition:
    """Return the root of a SIF file.

    Raises `StackproofError` (IMAGE_UNREADABLE, UNSUPPORTED).
    """
    found = []
    for fields in _descriptors(stream, file_size, file):
        kind, used, offset, size, extra = fields[0], fields[1], *fields[5:7], fields[-1]
        if not used or kind != _PARTITION:
            continue
        if offset < 0 or size < 0 or offset + size > file_size:
            raise damaged(file, "a partition goes on after its end")
        form, role = struct.unpack_from("<ii", extra)
        if role == _PRIMARY:
            machine = extra[8:11].split(b"\0", 1)[0].decode("ascii", "replace")
            name = _FORMATS.get(form, f"kind {form}")
            found.append(SifPartition(name, offset, size, _ARCHITECTURES.get(machine, "")))
    if len(found) != 1:
        raise damaged(file, f"it has {len(found)} root partitions, not one")
    if found[0].format not in {"squashfs", "ext3"}:
        raise fail(
            Reason.UNSUPPORTED,
            f"the root of the SIF file is {found[0].format}",
            where=Location(file=file),
            hint="an encrypted image must be opened first: `apptainer build --sandbox`",
        )
    return found[0]


def _descriptors(stream: BinaryIO, file_size: int, file: str) -> Iterator[tuple[Any, ...]]:
    """Yield what each descriptor of a SIF file has."""
    head = stream.read(HEADER_BYTES)
    if len(head) < HEADER_BYTES or not looks_like_sif(head):
        raise damaged(file, "it is no SIF file, or ends within its header")
    fields = _HEADER.unpack_from(head)
    version, free, total, table, room = fields[2], *fields[7:11]
    if version.split(b"\0", 1)[0] != b"01":
        raise fail(
            Reason.UNSUPPORTED,
            f"the SIF file is of version {version!r}, not 01",
            where=Location(file=file),
            hint="build it with a current Apptainer",
        )
    if not 0 <= total <= limits.SIF.count or free < 0:
        raise damaged(file, f"it has {total} descriptors")
    if table < HEADER_BYTES or room < 0 or table + total * DESCRIPTOR_BYTES > file_size:
        raise damaged(file, "its descriptors are outside of it")
    stream.seek(table)
    content = stream.read(total * DESCRIPTOR_BYTES)
    for at in range(0, len(content) - DESCRIPTOR_BYTES + 1, DESCRIPTOR_BYTES):
        yield _DESCRIPTOR.unpack_from(content, at)


_SCHEMES = ("oci", "oci-archive", "docker-archive", "rootfs", "sif")
_MAX_CACHED_BYTES = 32 << 30
# What Apptainer writes for each variable of the image that it was made of.
_EXPORT = re.compile(
    r"""^\s*export\s+([A-Za-z_]\w*)=["']?(?:\$\{\1:-["']?)?([^"'$}\n]*)["']?\}?["']?\s*$""",
    re.MULTILINE,
)
# Apptainer's own folder for libraries that it brings along (`--nv` and others).
_SIF_LIBRARIES = "/.singularity.d/libs"
_SCRIPTS = "/.singularity.d/env"


class Root(Value):
    """A root file system: a folder of this machine, or a tree of layers, and how it is started.

    `config` has the variables and the command of an image; `name` is what the user called it.
    """

    name: str
    folder: str = ""
    tree: RootTree | None = None
    contents: tuple[Content, ...] = ()
    config: ImageConfig = field(default_factory=ImageConfig)

    def view(self, binds: Mapping[str, str] | None = None) -> RootView:
        """Return the view of this root with folders of this machine bound into it."""
        content = self.folder if self.tree is None else LayerFiles(self.tree, self.contents)
        return RootView(content, binds, ElfCache())

    def program(self, name: str) -> str:
        """Return the path that a command leads to, as a container's runtime looks for it in PATH.

        A path is returned as it is. Raises `StackproofError` (FILE_MISSING).
        """
        if "/" in name:
            return posixpath.join(self.config.folder, name)
        view = self.view()
        folders = self.config.environment.get("PATH", "/usr/local/bin:/usr/bin:/bin").split(":")
        for folder in folders:
            path = posixpath.join(self.config.folder, folder, name)
            if view.look(path) is not None:
                return path
        raise fail(
            Reason.FILE_MISSING,
            f"there is no `{name}` in the PATH of `{self.name}`",
            where=Location(file=self.name),
            hint=f"name it by its path; PATH is {':'.join(folders)}",
        )


def is_image(text: str) -> bool:
    """Return True for a text that names a container's image, and no plain file or folder."""
    scheme, colon, _ = text.partition(":")
    if colon and scheme in _SCHEMES:
        return True
    path = _split(text)[1]
    if os.path.isdir(path):
        return os.path.isfile(os.path.join(path, LAYOUT))
    head = _head(path)
    return looks_like_sif(head) or tar.looks_like_tar(head) or _is_packed_tar(path, head)


def _is_packed_tar(path: str, head: bytes) -> bool:
    packed = head.startswith((layers.GZIP, layers.ZSTD))
    return packed and path.endswith((".tar.gz", ".tgz", ".tar.zst", ".tar.zstd"))


def is_squashfs(path: str) -> bool:
    """Return True for a file that begins as SquashFS images do."""
    return _head(path).startswith(superblock.MAGIC)


def is_sif(path: str) -> bool:
    """Return True for a file that begins as SIF files do."""
    return looks_like_sif(_head(path))


def _head(path: str) -> bytes:
    if not os.path.isfile(path):
        return b""
    try:
        with open(path, "rb") as stream:
            return stream.read(tar.BLOCK)
    except OSError as error:
        raise files.translate(error, path) from error


def _split(text: str) -> tuple[str, str, str]:
    """Return scheme, path and tag of an image's name; a path that exists has no tag."""
    scheme, colon, rest = text.partition(":")
    if not colon or scheme not in _SCHEMES:
        scheme, rest = "", text
    path, colon, tag = rest.partition(":")
    if not colon or os.path.lexists(rest):
        return scheme, rest, ""
    return scheme, path, tag


@functools.cache
def load_root(text: str) -> Root:
    """Return the root file system that a user named.

    Raises `StackproofError`: FILE_MISSING, INVALID_VALUE for a tag that is not there or a file of
    another kind than its word says, IMAGE_UNREADABLE, DIGEST_MISMATCH, TOO_LARGE, UNSUPPORTED.
    """
    scheme, path, tag = _split(text)
    if not os.path.exists(path):
        raise fail(
            Reason.FILE_MISSING,
            f"`{path}` does not exist",
            where=Location(file=path),
            hint="name a folder, an OCI layout, an archive of `podman save`, or a SIF file",
        )
    if os.path.isdir(path):
        layout = os.path.isfile(os.path.join(path, LAYOUT))
        if scheme not in {"", "oci"} or (scheme == "oci" and not layout):
            raise _other_kind(text, "a folder" if not layout else "an OCI layout")
        if not layout:
            return Root(name=text, folder=path)
        return _of_layers(text, *archives.load_layout(path, tag))
    head = _head(path)
    if looks_like_sif(head):
        if scheme not in {"", "sif"}:
            raise _other_kind(text, "a SIF file")
        return _of_sif(text, path)
    if head.startswith(superblock.MAGIC) and scheme in {"", "rootfs"}:
        return Root(name=text, folder=unsquashed(layers.whole(path)))
    if not (tar.looks_like_tar(head) or head.startswith((layers.GZIP, layers.ZSTD))):
        raise fail(
            Reason.IMAGE_UNREADABLE,
            f"`{path}` is neither a folder nor an image",
            where=Location(file=path),
            hint="name a folder, an OCI layout, an archive of `podman save`, or a SIF file",
        )
    kind, config, blobs = archives.load_archive(path, tag)
    if scheme not in {"", kind}:
        raise _other_kind(text, kind)
    return _of_layers(text, config, blobs)


def _other_kind(text: str, kind: str) -> StackproofError:
    return fail(
        Reason.INVALID_VALUE,
        f"`{text}` is {kind}",
        where=Location(file=text),
        hint="leave the word before the colon out: the file tells what it is",
    )


def _of_layers(text: str, config: ImageConfig, blobs: tuple[Blob, ...]) -> Root:
    tree = RootTree(text)
    contents = []
    for blob in blobs:
        layer, content = layers.load_layer(blob)
        contents.append(content)
        tree.add_layer(layer.members)
    return Root(name=text, tree=tree, contents=tuple(contents), config=config)


def _of_sif(text: str, path: str) -> Root:
    """Return the root in a SIF file, with the variables that its scripts set."""
    size = layers.whole(path).size
    try:
        with open(path, "rb") as stream:
            one = find_partition(stream, file_size=size, file=path)
    except OSError as error:
        raise files.translate(error, path) from error
    blob = Blob(path=path, offset=one.offset, size=one.size)
    folder = unsquashed(blob, "squashfs" if one.format == "squashfs" else "ext")
    environment = _scripted(RootView(folder))
    libraries = environment.get("LD_LIBRARY_PATH", "")
    environment["LD_LIBRARY_PATH"] = f"{libraries}:{_SIF_LIBRARIES}".lstrip(":")
    config = ImageConfig(environment=environment, architecture=one.architecture)
    return Root(name=text, folder=folder, config=config)


def _scripted(view: RootView) -> dict[str, str]:
    """Return the plain variables that the scripts of a SIF file export."""
    found: dict[str, str] = {}
    for name in view.listing(_SCRIPTS):
        real = view.resolve(f"{_SCRIPTS}/{name}")
        if real is not None and view.look(f"{_SCRIPTS}/{name}") is not None:
            text = files.read_bounded(
                real[1], limits.SIF_SCRIPT, hint="check what made this image"
            ).decode(errors="replace")
            found |= {match[1]: match[2] for match in _EXPORT.finditer(text)}
    return found


def unsquashed(blob: Blob, kind: str = "squashfs") -> str:
    """Return the folder of the cache that a root file system was unpacked to, once for all.

    It is SquashFS, or ext2, ext3 or ext4 (`ext`), which debugfs(8) copies.
    """
    packed = Packed(path=blob.path, offset=blob.offset, processors=1, kind=kind)
    cache_kinds.in_use()
    place = cache_kinds.home("trees") / layers.digest_of(blob)
    rules = UnpackRules(links=ROOT_FILE_SYSTEM, whole_system=True)
    with cache_folder.alone(place):
        if (place / "root").is_dir():
            cache_folder.used(place)
        else:
            with cache_folder.making(place) as folder:
                foreign_unpack.unpack(packed, folder / "root", rules).close()
            cache_folder.prune("trees", _MAX_CACHED_BYTES, keep=place)
    return str(place / "root")


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
