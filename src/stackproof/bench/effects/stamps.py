"""What tells that a file is another one than before."""

from __future__ import annotations

import os


def stamp_of(path: str) -> tuple[int, int, int]:
    """Return what changes with the file at a path: inode, size, time of change in ns."""
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return status.st_ino, status.st_size, status.st_mtime_ns
