"""A SIF file (Singularity Image Format) to the partition that holds its root.

The format is that of github.com/sylabs/sif, which Apptainer uses as well (pkg/sif/sif.go,
"Global header" and "Data object descriptor"): little-endian, a header of 128 bytes, then a table of
descriptors of 585 bytes each.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from stackproof.core import limits
from stackproof.core.errors import Location, Reason, fail
from stackproof.image.container.tar import damaged

MAGIC_OFFSET, MAGIC = 32, b"SIF_MAGIC\0"
HEADER_BYTES, DESCRIPTOR_BYTES = 128, 585
_HEADER = struct.Struct("<32s10s3s3s16sqqqqqqqq")
_DESCRIPTOR = struct.Struct("<i?IIIqqqqqqq128s384s")
_PARTITION = 0x4004
_FORMATS = {1: "squashfs", 2: "ext3", 5: "encrypted"}
_PRIMARY, _OVERLAY = 2, 4
_ARCHITECTURES = {"02": "x86_64", "04": "aarch64", "06": "ppc64", "11": "s390x"}


class SifPartition(NamedTuple):
    """A file system in a SIF file: its format, where it begins and how long it is, in bytes."""

    format: str
    offset: int
    size: int
    primary: bool
    overlay: bool
    architecture: str


class DescriptorTable(NamedTuple):
    """Where the descriptors of a SIF file are."""

    offset: int
    entries: int


def looks_like_sif(head: bytes) -> bool:
    """Return True for the beginning of a SIF file."""
    return head[MAGIC_OFFSET : MAGIC_OFFSET + len(MAGIC)] == MAGIC


def parse_header(head: bytes, *, file_size: int, file: str) -> DescriptorTable:
    """Return the descriptors' place; raises `StackproofError` (IMAGE_UNREADABLE, TOO_LARGE)."""
    if len(head) < HEADER_BYTES or not looks_like_sif(head):
        raise damaged(file, "it is no SIF file, or ends within its header")
    fields = _HEADER.unpack_from(head)
    version, free, total, offset, room = fields[2], *fields[7:11]
    if version.split(b"\0", 1)[0] != b"01":
        raise fail(
            Reason.UNSUPPORTED,
            f"the SIF file is of version {version!r}, not 01",
            where=Location(file=file),
            hint="build it with a current Apptainer",
        )
    if not 0 <= total <= limits.SIF.count or free < 0:
        raise damaged(file, f"it has {total} descriptors")
    if offset < HEADER_BYTES or room < 0 or offset + total * DESCRIPTOR_BYTES > file_size:
        raise damaged(file, "its descriptors are outside of it")
    return DescriptorTable(offset, total)


def parse_partitions(content: bytes, *, file_size: int, file: str) -> tuple[SifPartition, ...]:
    """Return the file systems that descriptors tell of; raises `StackproofError`."""
    found = []
    for at in range(0, len(content) - DESCRIPTOR_BYTES + 1, DESCRIPTOR_BYTES):
        fields = _DESCRIPTOR.unpack_from(content, at)
        kind, used, offset, size, extra = fields[0], fields[1], *fields[5:7], fields[-1]
        if not used or kind != _PARTITION:
            continue
        if offset < 0 or size < 0 or offset + size > file_size:
            raise damaged(file, "a partition goes on after its end")
        form, role = struct.unpack_from("<ii", extra)
        architecture = extra[8:11].split(b"\0", 1)[0].decode("ascii", "replace")
        found.append(
            SifPartition(
                format=_FORMATS.get(form, f"kind {form}"),
                offset=offset,
                size=size,
                primary=role == _PRIMARY,
                overlay=role == _OVERLAY,
                architecture=_ARCHITECTURES.get(architecture, ""),
            )
        )
    return tuple(found)


def root_partition(partitions: tuple[SifPartition, ...], *, file: str) -> SifPartition:
    """Return the root's partition; raises `StackproofError` (UNSUPPORTED, IMAGE_UNREADABLE)."""
    primary = [partition for partition in partitions if partition.primary]
    if len(primary) != 1:
        raise damaged(file, f"it has {len(primary)} root partitions, not one")
    if primary[0].format not in {"squashfs", "ext3"}:
        raise fail(
            Reason.UNSUPPORTED,
            f"the root of the SIF file is {primary[0].format}",
            where=Location(file=file),
            hint="an encrypted image must be opened first: `apptainer build --sandbox`",
        )
    return primary[0]
