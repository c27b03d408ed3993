"""Digests of images and of the folder `meta` beside them; what was read once is remembered.

A digest is remembered by all that tells the file from what it may become (device, inode, size,
times of content and of inode): whoever changes a byte changes the last, which nobody can set.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from pathlib import Path

from stackproof.core import limits
from stackproof.core.effects import cache_kinds, files
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.share.trust.verity import VerityMeasure

KIND = "digests"
"""The kind of the cache's entries."""
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
                hint="try again when whoever writes it has ended",
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
    measured = VerityMeasure()
    while piece := os.pread(descriptor, _CHUNK, measured.size):
        measured.update(piece)
    return Measured(sha256=measured.sha256(), verity=measured.verity(), size=measured.size)


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
