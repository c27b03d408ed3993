"""A program to the pack of stackproof that it lies in, which another MPI cannot be put under."""

from __future__ import annotations

import posixpath

from stackproof.inject.model import Cause, Effect, Finding
from stackproof.linking.loader import FileView, MappedObject

_FOLDERS = frozenset({"stack", "bin"})
_REMEDY = (
    "put another MPI under the image that it was packed from, `stackproof run IMAGE --inject MPI "
    "-- PROGRAM`, or pack the program again with that MPI, `stackproof pack MPI PROGRAM`"
)


def pack_of(view: FileView, path: str) -> str:
    """Return the folder of the pack that a file lies in, empty for a file outside of packs."""
    folder = path
    while folder not in {"", "/"}:
        folder, name = posixpath.split(folder)
        loaders = view.listing(posixpath.join(folder, "glibc")) if name in _FOLDERS else ()
        if any(loader.startswith("ld-linux") for loader in loaders):
            return folder
    return ""


def packed_finding(view: FileView, program: MappedObject, cause: Cause) -> Finding | None:
    """Return the failure of a program of a pack, None for a program outside of packs.

    `cause` is what a check of the file alone says: STATIC of an entry point, which starts the
    program with the pack's own libraries, and NO_LOADER of a program that the pack's loader starts.
    """
    folder = pack_of(view, program.file.path)
    if not folder:
        return None
    what = {
        Cause.STATIC: "the entry point of a program",
        Cause.NO_LOADER: "a program that the pack's own loader starts",
    }[cause]
    return Finding(
        cause=cause,
        effect=Effect.FAILS,
        message=f"`{folder}` is a pack of stackproof, and this is {what}: it keeps its MPI",
        file=program.path,
        remedy=_REMEDY,
    )
