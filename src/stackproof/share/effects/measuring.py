"""Digests of images and of the folder `meta` beside them; what was read once is remembered.

A digest is remembered by all that tells the file from what it may become (device, inode, size,
times of content and of inode): whoever changes a byte changes the last, which nobody can set.

What fs-verity of Linux measures is the root of a tree of SHA-256 digests, of blocks of 4096 bytes
without salt, as fsverity(1) has it (Documentation/filesystems/fsverity.rst). Where the file system
has it, the kernel tells the measure of a file in no time, and holds every read to it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import time
from pathlib import Path

from stackproof.core import limits
from stackproof.core.effects import cache_kinds, files
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value

KIND = "digests"
"""The kind of the cache's entries."""
BLOCK = 4096
_SHA256_OF_LINUX = 1
_LOG_BLOCK = 12
_DIGEST = 32
_CHUNK = 1 << 20
_SETTLED_S = 2.0  # times have the grain of a kernel's tick: a younger file may still be written to


class Measured(Value):
    """The SHA-256 of a file, what fs-verity measures of it, and its size in bytes."""

    sha256: str
    verity: str
    size: int


def measure(path: str, *, descriptor: int | None = None) -> Measured:
    """Return the digests of a file, which may be open already; it is read where that is not known.

    Raises `StackproofError`: IMAGE_DAMAGED for one that changes meanwhile, and what reading raises.
    """
    try:
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if descriptor is None else descriptor
    except OSError as error:
        raise files.translate(error, path) from error
    try:
        before = _identity(opened)
        place = _place(before)
        known = _remembered(place)
        if known is not None:
            return known
        found = _read(opened)
        settled = time.time() - os.fstat(opened).st_ctime > _SETTLED_S
        if _identity(opened) != before:
            raise fail(
                Reason.IMAGE_DAMAGED,
                f"`{path}` changes while it is read",
                where=Location(file=path),
                hint="try again when the program that writes it has ended",
            )
        if settled:
            _remember(place, found)
    except OSError as error:
        raise files.translate(error, path) from error
    finally:
        if descriptor is None:
            os.close(opened)
    return found


def _read(descriptor: int) -> Measured:
    whole, size = hashlib.sha256(), 0
    levels = [bytearray()]
    piece = b""
    while more := os.pread(descriptor, _CHUNK, size):
        whole.update(more)
        size += len(more)
        piece += more
        end = len(piece) - len(piece) % BLOCK
        for at in range(0, end, BLOCK):
            _put(levels, 0, piece[at : at + BLOCK])
        piece = piece[end:]
    if piece:
        _put(levels, 0, piece.ljust(BLOCK, b"\0"))
    fields = (1, _SHA256_OF_LINUX, _LOG_BLOCK, 0, 0, size, _root(levels), b"")
    verity = hashlib.sha256(struct.pack("<BBBBIQ64s32s144x", *fields)).hexdigest()
    return Measured(sha256=whole.hexdigest(), verity=verity, size=size)


def _put(levels: list[bytearray], level: int, block: bytes) -> None:
    """Add the digest of a block to a level; a level that fills a block goes one up."""
    if level == len(levels):
        levels.append(bytearray())
    row = levels[level]
    if len(row) == BLOCK:
        _put(levels, level + 1, bytes(row))
        row.clear()
    row += hashlib.sha256(block).digest()


def _root(levels: list[bytearray]) -> bytes:
    """Return the digest at the top; an empty file has no tree."""
    level = 0
    while level < len(levels) - 1 or len(levels[level]) > _DIGEST:
        _put(levels, level + 1, bytes(levels[level]).ljust(BLOCK, b"\0"))
        level += 1
    return bytes(levels[level])


def _identity(descriptor: int) -> str:
    state = os.fstat(descriptor)
    times = f"{state.st_mtime_ns}-{state.st_ctime_ns}"
    return f"{state.st_dev}-{state.st_ino}-{state.st_size}-{times}"


def _place(identity: str) -> Path | None:
    """Return the file that remembers a digest; None where no cache can be believed."""
    with contextlib.suppress(StackproofError):
        return cache_kinds.own_cache()[0] / KIND / identity
    return None


def _remembered(place: Path | None) -> Measured | None:
    if place is None or not place.is_file():
        return None
    with contextlib.suppress(StackproofError, ValueError, TypeError, LookupError):
        data = json.loads(files.read_bounded(place, limits.SMALL_RECORD))
        return Measured(
            sha256=str(data["sha256"]), verity=str(data["fs-verity"]), size=int(data["size"])
        )
    return None


def _remember(place: Path | None, found: Measured) -> None:
    """Write a digest down where that can be."""
    if place is None:
        return
    data = {"sha256": found.sha256, "fs-verity": found.verity, "size": found.size}
    with contextlib.suppress(StackproofError):
        files.write(place, json.dumps(data))


def digest_of_meta(folder: Path) -> str:
    """Return a digest of all files of a folder, empty where it is not there.

    That of lines `SHA256  PATH`, in the order of their paths. A link or device in it is as a line.
    """
    if not folder.is_dir():
        return ""
    lines = []
    for path in sorted(folder.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            continue
        plain = path.is_file() and not path.is_symlink()
        digest = files.sha256(path) if plain else "0" * 64
        lines.append(f"{digest}  {path.relative_to(folder)}\n")
    return hashlib.sha256("".join(sorted(lines)).encode(errors="surrogateescape")).hexdigest()
