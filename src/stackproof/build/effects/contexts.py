"""A folder for a container builder: written whole, or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from stackproof.build.containerfile import Context
from stackproof.core.effects import files, outputs
from stackproof.core.errors import Location, Reason, fail

CONTAINERFILE = "Containerfile"


def write_folder(folder: Path, context: Context) -> None:
    """Write a context to a folder that is new or empty.

    Raises `StackproofError`: NOT_REPLACED for anything else that is there, NOT_PERMITTED,
    DISK_FULL; nothing half-written is left.
    """
    temporary = ""
    try:
        if os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir())):
            raise fail(
                Reason.NOT_REPLACED,
                f"`{folder}` is there, and no empty folder",
                where=Location(file=str(folder)),
                hint="name another folder, or move this one away first",
            )
        place = Path(outputs.follow_own_link(os.fspath(folder))).absolute()
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name}.")
        root = Path(temporary)
        for path, content in {CONTAINERFILE: context.text.encode(), **context.files}.items():
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod(0o755 if path in context.executable else 0o644)
        for name, _, _ in os.walk(root):
            os.chmod(name, 0o755)  # noqa: S103 - a builder gives these modes to the container
        os.rename(root, place)
        temporary = ""
    except OSError as error:
        raise files.translate(error, folder) from error
    finally:
        if temporary:
            shutil.rmtree(temporary, ignore_errors=True)
