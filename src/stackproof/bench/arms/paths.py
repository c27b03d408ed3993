"""Paths as specifications and command lines write them."""

from __future__ import annotations

import os


def absolute(path: str, folder: str) -> str:
    """Return a path, relative to a folder, as an absolute one."""
    return path if os.path.isabs(path) else os.path.normpath(os.path.join(folder, path))
