"""Folders of the cache that are made once for a content, and given up when they become too many.

An entry is filled under another name and gets its own by a rename, so that whoever looks sees all
of it or nothing. Of several that want the same one the first makes it, and the others wait.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from stackproof.core.effects import cache_kinds, files
from stackproof.core.errors import Reason, fail

_ABANDONED_S = 6 * 3600.0
_PATIENCE_S = 3600.0


@contextlib.contextmanager
def alone(place: Path) -> Iterator[None]:
    """Be the only one that makes the entry `place`; look again whether it is there by now.

    Raises `StackproofError` (BUSY after an hour, DISK_FULL, NOT_PERMITTED).
    """
    folder = cache_kinds.locks_of("locks")
    with files.translate_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    busy = fail(Reason.BUSY, f"`{place}` is being made by somebody", hint="try again later")
    name = f"{place.parent.name}-{place.name}"
    with files.locked(folder / name, seconds=_PATIENCE_S, mode=0o600, busy=busy):
        yield


@contextlib.contextmanager
def making(place: Path) -> Iterator[Path]:
    """Give a folder to fill; when that ends well, it becomes the entry `place`. Be `alone` in it.

    What was there, and was not good enough, is replaced. Raises `StackproofError` (DISK_FULL,
    NOT_PERMITTED).
    """
    temporary = ""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name[:40]}.")
        yield Path(temporary)
        _put(temporary, place)
    except OSError as error:
        raise files.translate(error, place) from error
    finally:
        if temporary:
            files.remove(temporary)


def _put(temporary: str, place: Path) -> None:
    try:
        os.rename(temporary, place)
    except OSError:
        if not place.is_dir():
            raise
        old = tempfile.mkdtemp(dir=place.parent, prefix=".old.")
        os.rename(place, os.path.join(old, "entry"))
        os.rename(temporary, place)
        files.remove(old)


def used(place: Path) -> None:
    """Say that an entry was used, so that others are deleted before it."""
    with contextlib.suppress(OSError):
        os.utime(place)


def prune(kind: str, most_bytes: int, *, keep: Path) -> None:
    """Delete the entries that were not used for longest, until the others have `most_bytes`.

    Also deletes what an interrupted command left behind. `keep` stays, however large it is.
    """
    entries = []
    now = time.time()
    for path in cache_kinds.home(kind).iterdir():
        with contextlib.suppress(OSError):
            used = path.stat().st_mtime
            if path.name.startswith(".") and now - used > _ABANDONED_S:
                files.remove(path)
            elif not path.name.startswith(".") and path != keep:
                entries.append((used, _size(path), path))
    total = _size(keep) + sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= most_bytes:
            break
        files.remove(path)
        total -= size


def _size(path: Path) -> int:
    """Return the bytes of the files in an entry."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size
    return total
