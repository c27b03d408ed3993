"""Delete a folder with all in it, by descriptors: no link is followed, whoever swaps what.

Folders below others are moved up before they are emptied, so that no tree is too deep.
"""

from __future__ import annotations

import os
import stat

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(name: str, *, at: int | None = None) -> None:
    """Delete a folder, in the open folder `at` where that is given; raises `OSError`.

    Folders that their owner may not write to, as installed software has them, are opened first.
    """
    top = _open_to_delete(name, at)
    try:
        _empty(top, top)
        while inner := os.listdir(top):
            for below in inner:
                descriptor = _open_to_delete(below, top)
                try:
                    _empty(descriptor, top)
                finally:
                    os.close(descriptor)
                os.rmdir(below, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=at)


def _empty(descriptor: int, top: int) -> None:
    """Delete the files of a folder, and move the folders in it to the top of the tree."""
    with os.scandir(descriptor) as entries:
        every = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in every:
        if not is_folder:
            os.unlink(name, dir_fd=descriptor)
        elif descriptor != top:
            os.close(_open_to_delete(name, descriptor))  # only who may write to it may move it
            os.rename(name, os.urandom(12).hex(), src_dir_fd=descriptor, dst_dir_fd=top)


def _open_to_delete(name: str, at: int | None) -> int:
    """Open a folder, and let its owner write to it."""
    handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
    try:
        state = os.fstat(handle)
        if state.st_uid == os.geteuid() and stat.S_IMODE(state.st_mode) & 0o700 != 0o700:
            os.chmod(f"/proc/self/fd/{handle}", 0o700)
        return os.open(".", _FOLDER, dir_fd=handle)
    finally:
        os.close(handle)
