"""A pack in a folder, read: what it says of itself, and whether its files are as it says."""

from __future__ import annotations

import os
import platform

from stackproof.core import limits, noun
from stackproof.core.effects import files
from stackproof.core.effects.foreign.tree import ForeignTree
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.image.effects import tree
from stackproof.linking.effects import runpath
from stackproof.pack.effects import links
from stackproof.pack.effects.deliver import PROVENANCE
from stackproof.pack.model import OF_ITSELF, PROGRAMS, STACK, Pack, is_inside

_BESIDE = ("", ".tar.zst", ".tar.gz", ".squashfs")
"""Endings that the name of an unpacked pack had when its provenance was written beside it."""
_ONE_FILE = {
    b"hsqs": "`unsquashfs -d DIR {path}` makes a folder of it",
    b"\x1f\x8b\x08": "`tar -xf {path}` makes a folder of it",
    b"\x28\xb5\x2f\xfd": "`tar -xf {path}` makes a folder of it",
}
"""How a pack in one file is unpacked, by its first bytes."""


def load_pack(folder: str) -> Pack:
    """Return what the pack in a folder says of itself.

    Raises `StackproofError`: FILE_MISSING; UNSUPPORTED for what is no folder of a pack, and for a
    pack of another processor; IMAGE_DAMAGED where its files are not those that were packed.
    """
    where = Location(file=folder)
    if not os.path.isdir(folder):
        raise _no_folder(folder)
    if not os.path.isdir(os.path.join(folder, STACK)):
        raise fail(
            Reason.UNSUPPORTED,
            f"`{folder}` is no pack: it has no `{STACK}/`",
            where=where,
            hint="make one with `stackproof pack IMAGE -o DIR`",
        )
    pack = _told(folder)
    _check_inside(folder, pack)
    _require_processor(folder, pack)
    found = tree.of_folder(folder, (OF_ITSELF,)).sha256
    if found != pack.tree:
        raise fail(
            Reason.IMAGE_DAMAGED,
            f"files of the pack `{folder}` are not as they were packed",
            where=where,
            detail=f"packed {pack.tree}\nfound  {found}",
            hint="copy or unpack it again, with all modes and links (`cp -a`, `tar -xpf`)",
        )
    return pack


def _no_folder(path: str) -> StackproofError:
    where = Location(file=path)
    if not os.path.exists(path):
        return fail(
            Reason.FILE_MISSING, f"there is no `{path}`", where=where, hint="name a pack's folder"
        )
    try:
        with open(path, "rb") as stream:
            begin = stream.read(4)
    except OSError as error:
        return files.translate(error, path)
    return fail(
        Reason.UNSUPPORTED,
        f"`{path}` is a file, and what is wanted here is the folder of a pack",
        where=where,
        hint=_hint_for(begin).format(path=path),
    )


def _hint_for(begin: bytes) -> str:
    """Return the hint for a pack in one file, by the file's first bytes."""
    hints = (hint for magic, hint in _ONE_FILE.items() if begin.startswith(magic))
    return next(hints, "make one with `stackproof pack IMAGE -o DIR`")


def _told(folder: str) -> Pack:
    """Return what is told of a pack in it, or beside it by its name."""
    plain = os.path.abspath(folder)
    beside = [f"{plain}{ending}.provenance.json" for ending in _BESIDE]
    with ForeignTree.at(folder) as tree:
        if tree.stat(PROVENANCE.partition("/")[0]) and tree.stat(PROVENANCE):
            content = tree.read(PROVENANCE, limits.LOCK)
            return noun.from_json(Pack, content, file=os.path.join(plain, PROVENANCE))
    for path in beside:
        if os.path.exists(path):
            return noun.from_json(Pack, files.read_bounded(path, limits.LOCK), file=path)
    raise fail(
        Reason.FILE_MISSING,
        f"nothing says what the pack `{folder}` is: there is no `{PROVENANCE}` in it, and no "
        f"`{os.path.basename(beside[0])}` beside it",
        where=Location(file=folder),
        hint="copy that file with it, or pack it with `--provenance inside`",
    )


def _check_inside(folder: str, pack: Pack) -> None:
    """Raise `StackproofError` (IMAGE_DAMAGED) for what is not in the folder, by name or by link."""
    places = [*pack.programs.values(), *((pack.mpi.prefix,) if pack.mpi else ())]
    named = [one for one in places if one[:1] == "/" or not is_inside(f"/pack/{one}", "/pack")]
    named += [name for name in pack.programs if "/" in name or name in {"", ".", ".."}]
    told = [f"`{name}`, which its provenance names" for name in named]
    told += [f"the link `{path}` to `{target}`" for path, target in links.leaving(folder)]
    if told:
        raise fail(
            Reason.IMAGE_DAMAGED,
            f"the pack `{folder}` is not all in its folder: {told[0]}",
            where=Location(file=folder),
            detail="\n".join(told[1:20]) or None,
            hint="find out who made it: no pack of `stackproof pack` leads out of its folder",
        )


def _require_processor(folder: str, pack: Pack) -> None:
    """Raise `StackproofError` (UNSUPPORTED) where its entry points are for another processor."""
    entries = [os.path.join(folder, PROGRAMS, name) for name in pack.programs]
    entry = next((path for path in entries if os.path.exists(path)), "")
    said, here = runpath.read(entry).machine if entry else "", platform.machine()
    if said and said != here:
        raise fail(
            Reason.UNSUPPORTED,
            f"the pack `{folder}` is for {said}, and this machine is {here}",
            where=Location(file=entry),
            hint=f"pack the stack on a machine of {here}, from an image that was built for it",
        )
