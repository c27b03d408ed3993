"""Bring mounted images to their mount points, in a mount namespace that is already private.

Imports nothing but `libc` and little of the standard library: see `mount_exec`.
"""

from __future__ import annotations

import os

from stackproof.core.effects import libc
from stackproof.core.effects.libc import MountFailure

TYPE_CHECKING = False  # `typing` takes longer to import than an image to mount
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_ROOM = "mode=0755,size=4m"


class Stage:
    """A private folder over `/` in which images are mounted before they go to their places.

    A mount on `/` is not seen through `/`, since every process already stands below it, but it is
    reached through `/..`. So metadata can be read before the mount point is known, without another
    program and without a folder on the host. The same folder becomes the new root when a mount
    point must be made that the host does not have.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._covered: list[str] = []
        libc.mount("stackproof", "/", "tmpfs", libc.MS_NOSUID | libc.MS_NODEV, _ROOM)
        self._folder = os.open("/..", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        os.fchdir(self._folder)

    def slot(self, number: int) -> str:
        """Make an empty folder for image `number`; its path is relative to the working folder."""
        path = _slot(number)
        os.mkdir(path)
        return path

    def publish(self, places: Sequence[tuple[str, str]]) -> None:
        """Move images to their mount points, outer ones first, and clean up.

        `places` are image and mount point by number. Raises `MountFailure`: bad-mount-point,
        mount-point-missing, -occupied, -clash, mount-failed.
        """
        seen: dict[str, str] = {}
        for number in sorted(range(len(places)), key=lambda number: places[number][1].split("/")):
            image, mount_point = places[number]
            target = self._prepare(mount_point)
            if target in seen:
                raise MountFailure(
                    "mount-point-clash",
                    f"two images at `{target}`: `{seen[target]}` and `{image}`",
                    "give each image its own mount point: IMAGE:MOUNT",
                )
            seen[target] = image
            _check_free(target)
            libc.mount(_slot(number), target, None, libc.MS_MOVE)
            os.rmdir(_slot(number))
        for folder in self._covered:
            flags = libc.MS_REMOUNT | libc.MS_BIND | libc.READ_ONLY
            libc.mount(None, folder, None, flags)
        if "/" not in self._covered:
            libc.detach("/..")
        os.close(self._folder)

    def _prepare(self, mount_point: str) -> str:
        """Return the real path of a mount point; make it, in this namespace only, if missing."""
        target = os.path.realpath(mount_point)
        if not mount_point.startswith("/") or target == "/":
            raise MountFailure("bad-mount-point", f"`{mount_point}` cannot be a mount point")
        parent = target
        while not os.path.lexists(parent):
            parent = os.path.dirname(parent)
        if not os.path.isdir(parent):
            raise MountFailure(
                "mount-point-missing", f"cannot mount at `{target}`: `{parent}` is not a folder"
            )
        if parent != target:
            if parent not in self._covered:
                self._cover(parent, target)
            os.makedirs(target)
        return target

    def _cover(self, parent: str, target: str) -> None:
        """Put an equal folder of ours over `parent`, in which a mount point can be made.

        Not over a folder in which the command could make files, since they would be lost with it.
        `/` is the exception: what belongs there is not made by commands, and the cover is made
        read-only, so that nothing can be lost.
        """
        if parent != "/" and os.access(parent, os.W_OK):
            raise MountFailure(
                "mount-point-missing",
                f"the mount point `{target}` does not exist",
                f"make it: mkdir -p {target}",
            )
        self._say(f"`{target}` does not exist: making it in a private copy of `{parent}`")
        try:
            if parent == "/":
                self._fill("", "/")
                os.chroot(".")
            else:
                old = os.open(parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
                libc.mount("stackproof", parent, "tmpfs", libc.MS_NOSUID | libc.MS_NODEV, _ROOM)
                self._fill(f"{parent}/", f"/proc/self/fd/{old}/")
                os.close(old)
        except OSError as error:
            raise MountFailure(
                "mount-point-missing",
                f"the mount point `{target}` does not exist and cannot be made: {error.strerror}",
                f"let the administrator make it: mkdir -p {target}",
            ) from None
        self._covered.append(parent)

    def _fill(self, target: str, source: str) -> None:
        """Let an empty folder show everything that another one shows."""
        with os.scandir(source) as entries:
            for entry in entries:
                made = target + entry.name
                if entry.is_symlink():
                    os.symlink(os.readlink(source + entry.name), made)
                    continue
                try:
                    if entry.is_dir():
                        os.mkdir(made)
                    else:
                        os.close(os.open(made, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
                    libc.mount(source + entry.name, made, None, libc.MS_BIND | libc.MS_REC)
                except OSError as error:  # a dead network mount must not stop everything else
                    self._say(f"`{entry.name}` is not visible to the command: {error.strerror}")


def _slot(number: int) -> str:
    return f".stackproof{number}"


def _check_free(target: str) -> None:
    try:
        with os.scandir(target) as entries:
            occupied = any(entries)
    except OSError as error:
        raise MountFailure(
            "mount-point-occupied", f"cannot look into mount point `{target}`: {error.strerror}"
        ) from None
    if occupied:
        raise MountFailure(
            "mount-point-occupied",
            f"the mount point `{target}` is not empty: files or another mount are there",
            "give another mount point: IMAGE:MOUNT",
        )
