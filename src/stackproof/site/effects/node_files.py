"""The files of this node that say what is in it, for `site.sysfs`.

A task of every node reads them before a launch, so this imports next to nothing.
"""

from __future__ import annotations

import os

from stackproof.core import limits
from stackproof.site import sysfs

VISIBLE = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
"""Variables by which a scheduler tells a task which GPUs are its own."""


def gather() -> dict[str, object]:
    """Return what this node says of its inside."""
    return sysfs.gather(read, names)


def read(path: str) -> str:
    """Return the text of a file, empty where there is none that can be read."""
    try:
        with open(path, "rb") as stream:
            return stream.read(limits.SMALL_RECORD.bytes).decode(errors="replace")
    except OSError:
        return ""


def names(folder: str) -> list[str]:
    """Return the names in a folder, nothing where there is none."""
    try:
        return os.listdir(folder)
    except OSError:
        return []
