"""Interpreters that go along with scripts, and what they are nothing without: Python's library."""

from __future__ import annotations

import os
import posixpath
import re
import shutil
from pathlib import Path

from stackproof.core.command import Command
from stackproof.core.effects import files, outputs, run
from stackproof.core.effects.foreign import folder

_PYTHON = re.compile(r"python(?:3(?:\.\d+)?)?")
# What no program of a pack asks for, is made again, or belongs to this machine alone.
_LEFT_OUT = shutil.ignore_patterns(
    "__pycache__", "site-packages", "dist-packages", "test", "idlelib", "tkinter", "turtledemo",
    "ensurepip", "config-*", "_tkinter.*", "_test*",
)  # fmt: skip
_ASK = (
    "import os, sys, sysconfig; print(os.path.realpath(sys.executable), sys.base_prefix, "
    "sysconfig.get_path('stdlib'), sysconfig.get_path('platstdlib'), sep='\\n')"
)
_TIMEOUT_S = 60.0
_SCRIPTS = 6  # execve(2) follows at most five interpreters that are scripts themselves


def named_by(interpreter: str, argument: str) -> tuple[str, str]:
    """Return the name of the interpreter that a script asks for, and the argument it gets.

    By env(1) the name is the argument.
    """
    if posixpath.basename(interpreter) == "env" and argument:
        return argument, ""
    return posixpath.basename(interpreter), argument


def _check_owner(path: str) -> None:
    """Raise `StackproofError` unless a file, and each name on the way to it, is root's or ours.

    `path` has no links.
    """
    why = folder.fault(os.stat(path), shared=folder.is_shared(Path(path)))
    for above in Path(path).parents:
        if not outputs.keeps_names(os.stat(above)) and not folder.is_shared(above):
            why = why or f"can be exchanged by others: see the mode of `{above}`"
    if why:
        raise folder.refused(path, f"would be started, to ask for its library, and {why}")


def shebang(path: Path) -> tuple[str, str] | None:
    """Return interpreter and argument that a script names, None for what is no script."""
    try:
        with path.open("rb") as stream:
            head = stream.read(4096)
    except OSError as error:
        raise files.translate(error, path) from error
    if not head.startswith(b"#!"):
        return None
    words = head[2:].split(b"\n", 1)[0].decode(errors="replace").strip().split(None, 1)
    return (words[0], words[1] if len(words) > 1 else "") if words else None


def carry(program: str, target: Path) -> None:
    """Copy a program of this machine, and with a Python its standard library.

    That goes to the prefix above the program's folder, where Python looks for it; packages that
    were installed stay here. What is named may be a script or a link that leads to the Python,
    which is asked where that library is. Raises `StackproofError` (NOT_PERMITTED) for a Python of
    another user: only root's and the user's own are started.
    """
    base, folders = "", []
    if _PYTHON.fullmatch(os.path.basename(program)):
        # By its own path: one that is started by a link takes what lies beside that for its own.
        program = os.path.realpath(program)
        path = program
        for _ in range(_SCRIPTS):
            _check_owner(path)
            if not (found := shebang(Path(path))):
                break
            path = os.path.realpath(found[0])
        done = run.check(Command(argv=(program, "-I", "-c", _ASK), timeout_s=_TIMEOUT_S))
        program, base, *folders = done.stdout.decode().splitlines()
    prefix = target.parent.parent
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(program, target)
    except OSError as error:
        raise files.translate(error, target) from error
    target.chmod(0o755)
    for library in dict.fromkeys(folders):
        place = prefix / os.path.relpath(os.path.realpath(library), os.path.realpath(base))
        try:
            shutil.copytree(
                library, place, ignore=_LEFT_OUT, ignore_dangling_symlinks=True, dirs_exist_ok=True
            )
        except OSError as error:
            raise files.translate(error, place) from error
