"""What of an image is here already: the chunks of local images that a list in a registry names.

Nobody's list is believed: what is put together is the image by its digest, or it comes as a whole.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from stackproof.core import limits
from stackproof.core.effects import files
from stackproof.core.effects.foreign.folder import open_folder
from stackproof.core.errors import StackproofError
from stackproof.share import chunks, manifests
from stackproof.share.chunks import Chunk, SourcePart
from stackproof.share.effects.oci import OciRegistry
from stackproof.share.labels import LabelRecord
from stackproof.share.manifests import OciDescriptor, OciManifest

FILE = "chunks"
"""In the folder of an image: the list of its chunks."""
_BLOCK = 4 << 20
_SOURCES = 3


def chunks_of(path: str) -> tuple[Chunk, ...]:
    """Return the chunks of a file; raises what reading it raises."""
    try:
        with open(path, "rb") as stream, open(path, "rb") as again:
            blocks: Iterator[bytes] = iter(lambda: stream.read(_BLOCK), b"")
            return tuple(
                Chunk(
                    begin=begin, length=length, digest=hashlib.sha256(again.read(length)).digest()
                )
                for begin, length in chunks.cut(blocks)
            )
    except OSError as error:
        raise files.translate(error, path) from error


def layer_of(content: bytes) -> OciDescriptor:
    """Return the descriptor of a list of chunks."""
    return OciDescriptor(
        media_type=chunks.ARTEFACT, digest=manifests.digest_of(content), size=len(content),
        annotations={manifests.TITLE: FILE},
    )  # fmt: skip


def listed(
    registry: OciRegistry, repository: str, attached: Sequence[OciManifest], size: int
) -> tuple[Chunk, ...]:
    """Return the chunks that a registry lists for an image; none where it has no such list."""
    layers = [one.layers[0] for one in attached if one.kind == chunks.ARTEFACT and one.layers]
    for layer in layers[:1]:
        with contextlib.suppress(StackproofError):
            most = min(limits.LISTING.bytes, chunks.most_bytes(size))
            content = registry.blob(repository, layer, most=most)
            return chunks.parse(content, size)
    return ()


def plan(
    wanted: Sequence[Chunk], records: Sequence[LabelRecord], name: str, size: int
) -> tuple[SourcePart, ...]:
    """Return from where each part of an image comes: from images of its name, newest first."""
    known: dict[bytes, tuple[str, Chunk]] = {}
    alike = {one.digest: one for one in records if one.label.name == name} if wanted else {}
    newest = sorted(alike.values(), key=lambda one: one.date, reverse=True)
    for record in newest[:_SOURCES]:
        with contextlib.suppress(StackproofError):
            for one in _local(record):
                known.setdefault(one.digest, (record.file, one))
    if not known:
        return (SourcePart(begin=0, end=size),)
    return chunks.plan(wanted, known)


def _local(record: LabelRecord) -> tuple[Chunk, ...]:
    """Return the chunks of an image that is here, and keep the list of them beside it."""
    place = Path(record.folder)
    with contextlib.suppress(StackproofError), open_folder(place, any_owner=True) as folder:
        content = folder.read(FILE, limits.LISTING)
        if found := chunks.parse(content, record.size):
            return found
    found = chunks_of(record.file)
    with contextlib.suppress(StackproofError), open_folder(place) as folder:
        folder.write(FILE, chunks.render(found))
    return found
