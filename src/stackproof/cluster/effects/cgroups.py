"""Control groups that keep each node of a cluster on one core, where they can be made.

The only thing of a cluster that the kernel does not take away with its head: `remove` does, and
whoever takes a dead cluster's folder away calls it. Groups are named by that folder, so that they
are found without a state file. See cpuset(7), cgroups(7).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from pathlib import Path

_REMOVE_S = 2.0


def make(folder: Path, name: str, core: int) -> str | None:
    """Make the group of a node and return its folder, None where that is not permitted."""
    parent = _parent()
    if parent is None:
        return None
    group = f"{parent}/{_prefix(folder)}{name}"
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(group)
        _put(f"{group}/cpuset.cpus", str(core))
        memory = Path(parent, "cpuset.mems.effective")
        if not memory.exists():  # version 1, which wants its memory nodes said
            memory = Path(parent, "cpuset.mems")
        _put(f"{group}/cpuset.mems", memory.read_text(encoding="utf-8").strip())
    except OSError:
        _remove_one(group)
        return None
    return group


def present(folder: Path) -> list[str]:
    """Return the groups of a cluster that are there, whether it lives or not."""
    parent = _parent()
    if parent is None:
        return []
    return [f"{parent}/{name}" for name in os.listdir(parent) if name.startswith(_prefix(folder))]


def remove(folder: Path) -> None:
    """Remove the groups of a cluster whose processes have ended."""
    end = time.monotonic() + _REMOVE_S
    for group in present(folder):
        # A process stays in its group until its parent has seen its end.
        while not _remove_one(group) and time.monotonic() < end:
            time.sleep(0.005)


def _remove_one(group: str) -> bool:
    try:
        os.rmdir(group)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _prefix(folder: Path) -> str:
    return f"stackproof-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]}-"


def _put(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as stream:
        stream.write(text)


def _parent() -> str | None:
    """Return the folder where groups with a cpuset can be made, None if there is none."""
    mounts = (
        Path("/proc/self/mountinfo")
        .read_text(errors="surrogateescape", encoding="utf-8")
        .splitlines()
    )
    return find_parent(mounts)


def find_parent(mounts: list[str]) -> str | None:
    """Return that folder for the lines of mountinfo: a cpuset hierarchy, else version 2's root.

    Version 2 counts only where its root hands cpusets on already: nothing of the machine's own
    settings is changed.
    """
    unified = None
    for line in mounts:
        before, _, after = line.partition(" - ")
        place, (kind, _, options) = before.split(" ")[4], after.split(" ")
        if kind == "cgroup" and "cpuset" in options.split(","):
            return place
        if kind == "cgroup2":
            unified = place
    try:
        handed_on = (
            Path(unified or "/", "cgroup.subtree_control").read_text(encoding="utf-8").split()
        )
    except OSError:
        return None
    return unified if "cpuset" in handed_on else None
