"""A pack written where it was asked for: whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from stackproof.core import noun
from stackproof.core.effects import files, outputs
from stackproof.core.errors import Location, Reason, fail
from stackproof.core.value import Value, replace
from stackproof.inject.effects import versions
from stackproof.pack.effects import formats, links
from stackproof.pack.effects.make import PackWishes, make
from stackproof.pack.model import OF_ITSELF, Pack

PROVENANCE = f"{OF_ITSELF}/provenance.json"


class Delivery(Value):
    """Where a pack goes; `format` None: by the name. `provenance` is `beside`, `inside`, `none`."""

    output: str
    format: str | None
    provenance: str

    @property
    def kind(self) -> str:
        """Return the format."""
        name = re.sub(r"\.oci\.tar$", ".oci", self.output)
        by_name = (kind for kind in formats.WRITERS if name.endswith(f".{kind}"))
        return self.format or next(by_name, "dir")

    @property
    def is_folder(self) -> bool:
        """Return whether it is a folder, not a file."""
        return self.kind == "dir" or (self.kind == "oci" and not self.output.endswith(".tar"))


def write_pack(image: str, wishes: PackWishes, target: Delivery) -> tuple[Pack, int]:
    """Make a pack of an image and write it; return it, and its size in bytes.

    Raises `StackproofError` as `make` does, and NOT_REPLACED, USAGE for what is there already.
    """
    output = Path(os.path.abspath(target.output.rstrip("/")))
    beside = output.with_name(f"{output.name}.provenance.json")
    if target.is_folder and os.path.lexists(output):
        raise fail(
            Reason.USAGE,
            f"`{target.output}` exists",
            where=Location(file=target.output),
            hint="name a folder that is not there yet: what is in use must not change",
        )
    if target.provenance == "beside":
        outputs.claim(beside, "provenance")
    at_root = {
        link: to
        for link, to in wishes.symlinks.items()
        if link.startswith("/") and target.kind.startswith("tar.")
    }
    inside = {link: to for link, to in wishes.symlinks.items() if link not in at_root}
    with _staging(output) as folder:
        tree = folder / "pack"
        tree.mkdir(mode=0o700)
        pack = make(image, replace(wishes, symlinks=inside), tree)
        beside_it = links.Beside(folder=tree.with_name(formats.BESIDE), name=pack.name)
        links.add_links(tree, at_root, pack.mpi.prefix if pack.mpi else "", beside_it)
        text = noun.to_json(pack)
        if target.provenance == "inside":
            files.write(tree / PROVENANCE, text)
            (tree / PROVENANCE).parent.chmod(0o755)
        size = _size(tree)
        formats.WRITERS[target.kind](tree, output, pack)
        if target.provenance == "beside":
            outputs.write(beside, text, "provenance", beside=folder)
    return pack, size if target.is_folder else _file_size(output)


def explain_pack(image: str, wishes: PackWishes) -> Pack:
    """Return what a pack of an image would say of itself; nothing stays."""
    with _staging(Path(tempfile.gettempdir(), "pack")) as folder:
        tree = folder / "pack"
        tree.mkdir(mode=0o700)
        return make(image, wishes, tree)


@contextlib.contextmanager
def _staging(output: Path) -> Iterator[Path]:
    """Give a folder on the file system of an output, which is gone afterwards."""
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise files.translate(error, output.parent) from error
    with versions.beside(os.fspath(output), "pack") as folder:
        try:
            yield Path(folder)
        except OSError as error:
            raise files.translate(error, output) from error


def _file_size(output: Path) -> int:
    try:
        return output.lstat().st_size
    except OSError as error:  # others may write to its folder
        raise files.translate(error, output) from error


def _size(tree: Path) -> int:
    found = (Path(inner, name) for inner, _, names in os.walk(tree) for name in names)
    return sum(path.lstat().st_size for path in found)
