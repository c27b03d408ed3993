"""A mount point in use to the error that says by what: the marker of a command around, or others.

Imports nothing but what `mount_exec` has imported.
"""

from __future__ import annotations

import os

from stackproof.core.effects.libc import MountFailure


def around(target: str, marker: str) -> str:
    """Return the image that a command around this one has mounted there; empty for none.

    `marker` is the mount list of the commands around, which other machines may have inherited.
    """
    for entry in reversed(marker.split(",")):
        image, _, point = entry.rpartition(":")
        if image and os.path.realpath(point) == target and os.path.ismount(target):
            return image
    return ""


def occupied(target: str, marker: str) -> MountFailure:
    """Return the error for a mount point that is not empty."""
    if image := around(target, marker):
        return MountFailure(
            "mount-point-occupied",
            f"`{image}` is mounted at `{target}` already, by the `run` or `start` around this one",
            "leave this one out where it is the same image, or end that one first; another mount "
            "point does not help an image that was made for this one",
        )
    return MountFailure(
        "mount-point-occupied",
        f"the mount point `{target}` is not empty: files or another mount are there",
        "give another mount point: IMAGE:MOUNT",
    )
