"""A pack as one file that mounts itself: a launcher, what mounts or unpacks, and an image."""

from __future__ import annotations

import os
import posixpath
import shutil
from pathlib import Path

from stackproof.core.command import Command
from stackproof.core.effects import files, run
from stackproof.core.errors import Reason, fail
from stackproof.image import squashfs
from stackproof.linking.effects import runpath
from stackproof.linking.effects.view import RootView, this_machine
from stackproof.linking.loader import LoaderSettings, load_program
from stackproof.pack import launchers
from stackproof.pack.effects import entry_files
from stackproof.pack.entries import fill, table_of
from stackproof.pack.model import Pack

_TIMEOUT_S = 3600.0
_TOOLS = ("unsquashfs", "squashfuse_ll", "squashfuse")


def write_one_file(tree: Path, output: Path, pack: Pack) -> None:
    """Write a pack as one program.

    Raises `StackproofError`: what packing and compiling raise, TOOL_MISSING without unsquashfs;
    UNSUPPORTED for another architecture, as programs of this machine go along.
    """
    here = os.uname().machine
    if pack.architecture not in {"", here}:
        raise fail(
            Reason.UNSUPPORTED,
            f"a pack for {pack.architecture} cannot be one file that mounts itself here: what "
            f"mounts it is taken from this machine, which is {here}",
            hint="choose another --format, or pack on such a machine",
        )
    image = tree.with_name("image.squashfs")
    argv = squashfs.pack_argv(os.fspath(tree), os.fspath(image))
    run.check(Command(argv=argv, timeout_s=_TIMEOUT_S))
    sources = [*_carried(), (launchers.IMAGE, "", os.fspath(image))]
    launcher = entry_files.template("self")
    sizes = [(kind, name, os.path.getsize(path)) for kind, name, path in sources]
    parts = launchers.lay_out(len(launcher), sizes)
    table = table_of(launchers.records(pack, parts), pack.name)
    whole = tree.with_name("whole")
    try:
        with whole.open("wb") as target:
            target.write(fill(launcher, table))
            for part, (_, _, path) in zip(parts, sources, strict=True):
                target.seek(part.begin)
                with open(path, "rb") as source:
                    shutil.copyfileobj(source, target)
            target.truncate(launchers.rounded(target.tell()))
        whole.chmod(0o755)
        os.replace(whole, output)
    except OSError as error:
        raise files.translate(error, output) from error


def _carried() -> list[tuple[str, str, str]]:
    """Return kind, name and path of the programs that go along, of their libraries and loader."""
    machine = this_machine()
    programs = launchers.tools({name: shutil.which(name) for name in _TOOLS})
    found: dict[str, tuple[str, str, str]] = {}
    for name, path in programs.items():
        loader = runpath.read(path).interpreter
        found[loader] = (launchers.LOADER, posixpath.basename(loader), loader)
        closure = load_program(RootView(), path, machine=machine, setting=LoaderSettings())
        for library, taken in closure.taken.items():
            if os.path.realpath(taken) != os.path.realpath(loader):
                found[library] = (launchers.LIBRARY, posixpath.basename(library), taken)
        found[path] = (launchers.TOOL, name, path)
    return list(found.values())
