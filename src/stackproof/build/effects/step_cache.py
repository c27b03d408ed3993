"""Results of steps, kept for other builds: a step's id says all that decides them."""

from __future__ import annotations

import os
import tarfile
import tempfile
from pathlib import Path

from stackproof.build.effects import inside
from stackproof.build.effects.workspace import Workspace
from stackproof.build.plan import Step
from stackproof.core.effects import cache_folder, files
from stackproof.core.effects.foreign import tars
from stackproof.core.effects.foreign.tree import ForeignTree
from stackproof.core.errors import StackproofError


def restore(step: Step, space: Workspace, folder: Path) -> bool:
    """Put the kept result of a step into the store; return whether there was one.

    Only this user writes into the cache. One that cannot be read is removed and made again.
    """
    path = _path(step, folder)
    if not path.is_file():
        return False
    for output in step.outputs:
        inside.place(space.store, output)
    try:
        space.store.mkdir(exist_ok=True)  # of the first step nothing has made it yet
        with ForeignTree.at(space.store) as store:
            tars.extract(path, store)
        cache_folder.used(path)
    except StackproofError:
        files.remove(path)
        for output in step.outputs:
            files.remove(space.store / output)
        return False
    return True


def keep(step: Step, space: Workspace, folder: Path) -> None:
    """Keep the outputs of a step that reports or makes a program, in one piece."""
    if not (step.outputs and (step.reports or step.makes_program)):
        return
    target = _path(step, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as part:
            new = Path(part) / "new.tar"
            with tarfile.open(new, "w") as archive:
                for output in step.outputs:
                    archive.add(inside.place(space.store, output), output)
            os.replace(new, target)
    except OSError as error:
        raise files.translate(error, target) from error


def _path(step: Step, folder: Path) -> Path:
    return folder / f"{step.id}.tar"
