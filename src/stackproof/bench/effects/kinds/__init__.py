"""Arms made ready: a module for each kind, named here and imported when an arm is of that kind."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import TypeAlias

from stackproof.bench.ready import ReadyArm
from stackproof.bench.spec import Arm
from stackproof.core.value import Value

Tell: TypeAlias = Callable[[str], None]


def _as_written(arm: Arm, folder: str, tell: Tell) -> Arm:
    del folder, tell
    return arm


class ArmReader(Value):
    """What has the effects of one kind of arm; both raise `StackproofError`.

    `read` makes an arm ready, and has the names of programs of which it must bring one. `locate`
    replaces words relative to a folder by what they mean here, and tells of what it finds.
    """

    read: Callable[[Arm, tuple[str, ...]], ReadyArm]
    locate: Callable[[Arm, str, Tell], Arm] = _as_written


REGISTRY: dict[str, str] = {
    "image": "image_arm",
    "pack": "pack_arm",
    "prefix": "host_arm",
    "module": "host_arm",
    "vendor": "vendor",
    "container": "container_arm",
    "eessi": "eessi_arm",
}
"""The module of each kind in this folder, which has its reader as `READER`."""


def reader_of(arm: Arm) -> ArmReader:
    """Return the reader of an arm's kind."""
    found: ArmReader = importlib.import_module(f"{__name__}.{REGISTRY[arm.kind]}").READER
    return found


def stamp_of(path: str) -> tuple[int, int, int]:
    """Return what changes with the file at a path: inode, size, time of change in ns."""
    try:
        status = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return status.st_ino, status.st_size, status.st_mtime_ns
