"""The folder for temporary files of launches made here, and the end of what a killed run left.

Each bench and each proof has one, for what it makes itself and as TMPDIR of its launches. It is
held locked while that lives: one that nobody holds is of a run that was killed. Whoever comes next
removes it, and the shared memory that is not older than it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from stackproof.core.command import Command, Completed, EnvPatch
from stackproof.core.effects import files
from stackproof.core.effects import run as core_run
from stackproof.core.effects.foreign.folder import private_folder
from stackproof.core.errors import StackproofError
from stackproof.core.value import replace
from stackproof.launch.effects import leftovers


@contextlib.contextmanager
def held() -> Iterator[str]:
    """Clear what killed runs left, and give the folder of this one, which goes with it.

    It is empty where none can be made: launches then have the temporary folder that others have.
    """
    with contextlib.ExitStack() as stack:
        folder = ""
        # Its name says since when, and is short: sockets that MPIs make in it have at most 108
        # characters.
        with contextlib.suppress(StackproofError, OSError):
            place = Path(tempfile.gettempdir()) / f"stackproof-launches-{os.geteuid()}"
            root = private_folder(place, hint="remove it")
            with _open(root) as around:
                fcntl.flock(around, fcntl.LOCK_EX)
                for path in root.iterdir():
                    _clear(path)
                folder = tempfile.mkdtemp(prefix=f"{int(time.time())}-", dir=root)
                fcntl.flock(stack.enter_context(_open(Path(folder))), fcntl.LOCK_EX)
            stack.callback(_remove, Path(folder))
        stack.callback(setattr, tempfile, "tempdir", tempfile.tempdir)
        tempfile.tempdir = folder or tempfile.tempdir
        yield folder


def run(command: Command, folder: str = "") -> Completed:
    """Run a launch with a folder for its temporary files, and clear what its ranks left here."""
    began = time.time()
    if folder:  # what the launch says itself counts
        own = EnvPatch(set={"TMPDIR": folder})
        command = replace(command, env=own.then(command.env))
    try:
        return core_run.run(command)
    finally:
        leftovers.sweep(began)


@contextlib.contextmanager
def _open(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _clear(path: Path) -> None:
    """Remove the folder of a run that was killed, once none of its ranks lives."""
    with contextlib.suppress(OSError, ValueError), _open(path) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        began = float(path.name.partition("-")[0])
        # What a process still uses is looked at once more by whoever comes after this one.
        if leftovers.sweep(began) and not leftovers.mentioned(os.fspath(path), began):
            _remove(path)


def _remove(path: Path) -> None:
    with contextlib.suppress(StackproofError):
        files.remove(path)
