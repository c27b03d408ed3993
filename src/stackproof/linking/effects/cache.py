"""What was read of ELF files, kept for other runs.

An entry goes by what the system says of the file (device, number, size, time of its last change)
and by the version of the reader, or in an image by the digest of its layer. A file that was changed
just now is not kept: another change within the same tick of the clock would not show. Every entry
has a checksum, so that a damaged one is read again, and a half-written one never counts.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from pathlib import Path
from typing import TypeVar

import msgspec

from stackproof.core import limits
from stackproof.core.effects import cache_kinds

READER = "13"
"""To be raised with every change of what the reader returns."""
_KIND = "elf"
_MAX_CACHED_BYTES = 1 << 30
_CHECKSUM_BYTES = 16
_SETTLED_S = 2.0
_SWEPT_EVERY_S = 24 * 3600.0

T = TypeVar("T")


class ElfCache:
    """Entries below the cache of stackproof; whatever goes wrong with it costs time only."""

    def __init__(self, home: Path | None = None) -> None:
        self._home = home or cache_kinds.home(_KIND)
        self._stored = False

    def load(self, kind: type[T], key: str) -> T | None:
        """Return what was kept under a key, None when there is nothing, or nothing whole."""
        try:
            with open(self._path(kind, key), "rb") as stream:
                content = stream.read(limits.ELF_RECORD.bytes)
        except OSError:
            return None
        checksum, text = content[:_CHECKSUM_BYTES], content[_CHECKSUM_BYTES:]
        if _checksum(text) != checksum:
            return None
        try:
            return msgspec.json.decode(text, type=kind)
        except msgspec.MsgspecError:
            return None

    def store(self, kind: type[T], key: str, value: T) -> None:
        """Keep a value; a full disk or a missing right is no reason to end."""
        text = msgspec.json.encode(value)
        path = self._path(kind, key)
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent)
            try:
                with os.fdopen(handle, "wb") as stream:
                    stream.write(_checksum(text) + text)
                os.replace(temporary, path)
            except OSError:
                os.unlink(temporary)
                raise
        if not self._stored:
            self._stored = True
            self._sweep()

    def _path(self, kind: type[T], key: str) -> Path:
        name = hashlib.sha256(f"{READER}\0{kind!r}\0{key}".encode()).hexdigest()
        return self._home / name[:2] / name[2:]

    def _sweep(self) -> None:
        """Once a day delete the entries that are not read any more, the oldest first."""
        stamp = self._home / "swept"
        with contextlib.suppress(OSError):
            if stamp.exists() and time.time() - stamp.stat().st_mtime < _SWEPT_EVERY_S:
                return
            self._home.mkdir(parents=True, exist_ok=True)
            stamp.touch()
            sweep(self._home, _MAX_CACHED_BYTES)


def sweep(home: Path, most_bytes: int) -> None:
    """Delete the entries that were written first, until the others have `most_bytes`."""
    entries = []
    for path in home.glob("??/*"):
        with contextlib.suppress(OSError):
            state = path.stat()
            entries.append((state.st_mtime, state.st_size, path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= most_bytes:
            return
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size


def key_of(state: os.stat_result) -> str:
    """Return what a file of this machine is kept by, empty for one that was changed just now."""
    if time.time() - max(state.st_ctime, state.st_mtime) < _SETTLED_S:
        return ""
    numbers = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
    return ":".join(map(str, numbers))


def _checksum(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=_CHECKSUM_BYTES).digest()
