"""OCI layouts and archives of containers: their descriptions, and where their layers lie."""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

from stackproof.core import limits
from stackproof.core.effects import cache_folder, cache_kinds, files
from stackproof.core.errors import Location, Reason, fail
from stackproof.image.container import oci, tar
from stackproof.image.container.effects import layers
from stackproof.image.container.effects.layers import Blob, FileStream
from stackproof.image.container.oci import DOCKER, INDEX, LAYOUT, ImageConfig

_HINT = "check that this is the image you meant"
_MAX_CACHED_BYTES = 32 << 30
# Names that archives of images have: blobs, digests with and without an ending, their descriptions.
_OF_IMAGE = re.compile(
    r"(?:\./)?(?:blobs(?:/.*)?|[0-9a-f]{64}(?:\.json|\.tar|/.*)?|oci-layout|index\.json|"
    r"manifest\.json|repositories)/?"
)
_PEEKED = 8


class _Part(NamedTuple):
    """A file of an archive: its place and size in bytes, or the name that a link leads to."""

    offset: int
    size: int
    link: str = ""


class _Folder:
    """The files of an OCI layout that is a folder."""

    def __init__(self, path: str) -> None:
        self.path = path

    def blob(self, name: str) -> Blob:
        """Return a file of the layout; raises `StackproofError` (FILE_MISSING)."""
        return layers.whole(os.path.join(self.path, name))


class _Archive:
    """The files of an archive that is not compressed."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.parts: dict[str, _Part] = {}
        size = os.path.getsize(path)
        with open(path, "rb") as opened:
            stream = FileStream(path, opened, 0, size)
            for entry in tar.entries(stream):
                if len(self.parts) >= limits.ARCHIVE.count:
                    return  # an archive of an image has far fewer
                name = posixpath.normpath(entry.name)
                if entry.kind == "file":
                    if stream.tell() + entry.size > size:
                        raise tar.damaged(path, "it ends within a file")
                    self.parts[name] = _Part(stream.tell(), entry.size)
                elif entry.kind in {"symlink", "hardlink"}:
                    beside = posixpath.dirname(name) if entry.kind == "symlink" else ""
                    target = posixpath.normpath(posixpath.join(beside, entry.link))
                    self.parts[name] = _Part(0, 0, target)

    def blob(self, name: str) -> Blob:
        """Return a file of the archive; raises `StackproofError` (IMAGE_UNREADABLE)."""
        part = self.parts.get(posixpath.normpath(name))
        if part is not None and part.link:
            part = self.parts.get(part.link)
        if part is None or part.link:
            raise tar.damaged(self.path, f"it has no `{name}`")
        return Blob(path=self.path, offset=part.offset, size=part.size)


def load_layout(folder: str, tag: str) -> tuple[ImageConfig, tuple[Blob, ...]]:
    """Return configuration and layers of an image in an OCI layout, the lowest layer first."""
    return _of_layout(_Folder(folder), folder, tag)


def load_archive(path: str, tag: str) -> tuple[str, ImageConfig, tuple[Blob, ...]]:
    """Return kind, configuration and layers of an archive.

    Raises `StackproofError`: IMAGE_UNREADABLE, INVALID_VALUE for a tag that it has not.
    """
    blob = layers.whole(os.path.abspath(path))
    if _is_packed(path):
        if not _looks_like_image(blob):
            return "rootfs", ImageConfig(), (blob,)
        path = _unpacked(blob)
    try:
        archive = _Archive(path)
    except OSError as error:
        raise files.translate(error, path) from error
    if INDEX in archive.parts and LAYOUT in archive.parts:
        return "oci-archive", *_of_layout(archive, path, tag)
    if DOCKER in archive.parts:
        return "docker-archive", *_of_docker(archive, path, tag)
    return "rootfs", ImageConfig(), (blob,)


def _is_packed(path: str) -> bool:
    with open(path, "rb") as stream:
        return stream.read(4).startswith((layers.GZIP, layers.ZSTD))


def _looks_like_image(blob: Blob) -> bool:
    """Return True for a compressed archive that begins as those of images do."""
    with (
        tempfile.TemporaryDirectory() as aside,
        layers.open_plain(blob, hashlib.sha256(), aside) as one,
    ):
        return any(_OF_IMAGE.fullmatch(name) for name in _first_names(one))


def _first_names(stream: tar.Stream) -> Iterator[str]:
    for number, entry in enumerate(tar.entries(stream)):
        if number == _PEEKED:
            return
        yield entry.name


def _unpacked(blob: Blob) -> str:
    """Return the file that a compressed archive was unpacked to, once for its content."""
    cache_kinds.in_use()
    place = cache_kinds.home("archives") / layers.digest_of(blob)
    target = place / "archive.tar"
    with cache_folder.alone(place):
        if not target.is_file():
            with (
                cache_folder.making(place) as folder,
                tempfile.TemporaryDirectory(dir=folder) as aside,
                layers.open_plain(blob, hashlib.sha256(), aside) as stream,
                open(folder / target.name, "wb") as output,
            ):
                while content := stream.read(1 << 20):
                    output.write(content)
            cache_folder.prune("archives", _MAX_CACHED_BYTES, keep=place)
    return str(target)


def _document(blob: Blob, digest: str = "") -> bytes:
    """Return a description, with its digest checked."""
    if blob.size > limits.DESCRIPTION.bytes:
        raise fail(
            Reason.TOO_LARGE,
            f"a description of the image has {blob.size} bytes",
            where=Location(file=blob.path),
            hint=_HINT,
        )
    try:
        with open(blob.path, "rb") as stream:
            stream.seek(blob.offset)
            content = stream.read(blob.size)
    except OSError as error:
        raise files.translate(error, blob.path) from error
    kind, _, wanted = digest.partition(":")
    if digest and hashlib.new(kind, content).hexdigest() != wanted:
        raise fail(
            Reason.DIGEST_MISMATCH,
            f"a description of the image is not the one with the digest {digest}",
            where=Location(file=blob.path),
            hint="copy or save the image again",
        )
    return content


def _named(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _of_layout(
    holder: _Folder | _Archive, path: str, tag: str
) -> tuple[ImageConfig, tuple[Blob, ...]]:
    blobs = oci.parse_index(_document(holder.blob(INDEX)), file=path)
    for _ in range(limits.DESCRIPTION.depth):
        one = oci.chosen(blobs, tag, os.uname().machine, file=path)
        content = _document(holder.blob(_named(one.digest)), one.digest)
        if not one.is_index:
            break
        blobs, tag = oci.parse_index(content, file=path), ""
    else:
        raise tar.damaged(path, "its indexes name indexes without an end")
    config, parts = oci.parse_manifest(content, file=path)
    told = oci.parse_config(_document(holder.blob(_named(config.digest)), config.digest), file=path)
    found = []
    for number, part in enumerate(parts):
        blob = holder.blob(_named(part.digest))
        if part.size is not None and part.size != blob.size:
            raise tar.damaged(blob.path, f"a layer has {blob.size} bytes, not {part.size}")
        plain = told.diff_ids[number] if number < len(told.diff_ids) else ""
        found.append(_with(blob, part.digest, plain))
    return told, tuple(found)


def _of_docker(archive: _Archive, path: str, tag: str) -> tuple[ImageConfig, tuple[Blob, ...]]:
    images = oci.parse_archived(_document(archive.blob(DOCKER)), file=path)
    one = oci.chosen_archived(images, tag, file=path)
    name = posixpath.basename(one.config).removesuffix(".json")
    digest = f"sha256:{name}" if re.fullmatch(r"[0-9a-f]{64}", name) else ""
    told = oci.parse_config(_document(archive.blob(one.config), digest), file=path)
    if len(told.diff_ids) != len(one.layers):
        raise tar.damaged(
            path, f"it has {len(one.layers)} layers and {len(told.diff_ids)} digests of layers"
        )
    pairs = zip(one.layers, told.diff_ids, strict=True)
    return told, tuple(_with(archive.blob(layer), "", plain) for layer, plain in pairs)


def _with(blob: Blob, digest: str, plain: str) -> Blob:
    return Blob(
        path=blob.path, offset=blob.offset, size=blob.size, digest=digest, plain_digest=plain
    )
