"""Give a mount namespace a root folder with mount points in it that the machine's own lacks.

    python -I -S root.py FOLDER POINT…

A program that the head of a cluster starts before there are nodes: a root that shows all that the
machine's shows, and the folders POINT beside it, takes the old one's place for every process of the
namespace (pivot_root(2)). Nothing changes on the machine. FOLDER is an empty one, used meanwhile.
What is in the root folder of the machine later is not seen there.
"""

from __future__ import annotations

import ctypes
import os
import sys

if __name__ == "__main__":  # run by its path, with `-I`: the package is around this file
    _here = os.path.abspath(__file__)
    for _ in range(4):  # effects, the room, the package
        _here = os.path.dirname(_here)
    sys.path.insert(0, _here)

from stackproof.core.effects import libc


def renew(folder: str, points: list[str]) -> None:
    """Do it, unless all points are there; raises `OSError`."""
    missing = [point for point in points if not os.path.isdir(point)]
    if not missing:
        return
    libc.mount("stackproof", folder, "tmpfs", libc.MS_NOSUID | libc.MS_NODEV, "mode=0755,size=4m")
    _fill(folder)
    for point in missing:
        os.makedirs(folder + point)
    os.chdir(folder)
    _pivot()
    libc.detach(".")  # the old root, which lies over the new one: pivot_root(2), "Notes"
    os.chdir("/")
    libc.detach(folder)  # the copy of the folder in what was bound from the old root
    os.rmdir(folder)


def _fill(folder: str) -> None:
    with os.scandir("/") as entries:
        for entry in entries:
            made = f"{folder}/{entry.name}"
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), made)
                continue
            if entry.is_dir():
                os.mkdir(made)
            else:
                os.close(os.open(made, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            libc.mount(entry.path, made, None, libc.MS_BIND | libc.MS_REC)


def _pivot() -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.pivot_root(b".", b".") != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "/")


if __name__ == "__main__":
    try:
        renew(sys.argv[1], sys.argv[2:])
    except OSError as problem:
        sys.exit(f"{problem.filename}: {problem.strerror}")
