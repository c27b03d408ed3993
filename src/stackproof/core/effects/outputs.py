"""Files that a command is told to write: never an input, never a file that is not of their kind.

A file of the same kind may be replaced, as a second run of the same command does it; so may an
empty one. Anything else is somebody's, whatever name, link or hard link it was reached by.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from stackproof.core.effects import files
from stackproof.core.errors import Location, Reason, fail

# --------------------------------------------------------------------------------------------------
# Whether a file or folder can be believed, by its owner and mode: the one place that judges.
#
# It is asked of the state of what is open, or of an entry itself; `run` asks before every command.

ROOT = 0
_GROUP_WRITES, _OTHERS_WRITE = 0o020, 0o002
_NOT_OWNER = 0o077


def is_foreign(state: os.stat_result) -> bool:
    """Return true for what belongs neither to this user nor to root."""
    return state.st_uid not in {os.geteuid(), ROOT}


def writable_by_others(state: os.stat_result) -> bool:
    """Return true where the mode lets somebody else write.

    A group that has the user's own number is the user's alone, as many systems make one for each.
    """
    alone = state.st_gid == os.getegid() == os.geteuid()
    return bool(state.st_mode & (_OTHERS_WRITE if alone else _GROUP_WRITES | _OTHERS_WRITE))


def is_private(state: os.stat_result) -> bool:
    """Return true for what this user owns, and nobody else may use."""
    return state.st_uid == os.geteuid() and not state.st_mode & _NOT_OWNER


def keeps_names(state: os.stat_result) -> bool:
    """Return true for a folder in which nobody else can rename what this user has made."""
    return not is_foreign(state) and (
        bool(state.st_mode & stat.S_ISVTX) or not writable_by_others(state)
    )


_HEAD = 64 << 10


def _schema(*names: str) -> bytes:
    return rb'\s*\{\s*"schema":\s*"stackproof/(?:%s)/' % "|".join(names).encode()


# Options of container tools, a CDI file, or one of the hooks' two forms.
_INJECTION = (
    rb"--(?:bind|volume|env|device|annotation|mount)\b"
    rb'|\s*\{\s*"cdiVersion"[\s\S]*stackproof|\s*\{[\s\S]*"hooks?"[\s\S]*--artefact='
)
# What a file of each kind is called, and how it begins.
KINDS: dict[str, tuple[str, bytes]] = {
    "image": ("a SquashFS image", rb"hsqs"),
    "report": ("a report of ours", rb'<!doctype html>[\s\S]*name="generator" content="stackproof '),
    "comparison": ("a comparison of ours (JSON)", _schema("comparison")),
    "points": ("a table of ours (CSV)", rb"challenger,baseline,|placement,locality,"),
    "verdicts": ("verdicts of ours (Markdown)", rb"# [^\n]*: (?:PASS|FAIL|INCONCLUSIVE)\n"),
    "containerfile": ("a Containerfile of ours", rb"# [^\n]*`stackproof image containerfile`"),
    "edf": ("an environment definition of ours", rb"# [^\n]*`stackproof image edf`"),
    "injection": ("a definition that `inject container` wrote", _INJECTION),
    "digest": ("a digest", rb"[0-9a-f]{64}  [^\n]*\n\Z"),
    "lock": ("a lock", _schema("(?:[a-z]+-)?lock")),
    # Of zstd; of gzip at its usual level, without name and time; an OCI layout as an archive.
    "pack": ("a pack", rb"\x28\xb5\x2f\xfd|\x1f\x8b\x08\0\0\0\0\0\0\xff|blobs\0"),
    "provenance": ("the provenance of a pack", _schema("pack")),
    "graph": ("a chart of ours", rb"// written by `stackproof plan"),
    "guix": ("a file of ours for Guix", rb";; written by `stackproof build`"),
    "file": ("a file", rb""),
}


def claim(
    path: os.PathLike[str] | str, kind: str, *, inputs: Iterable[os.PathLike[str] | str] = ()
) -> str:
    """Return the path to write a file of a kind to: as given, or the target of a link.

    Raises `StackproofError`: NOT_REPLACED when it is one of the inputs, no plain file, or a file of
    another kind, as files are that cannot be read; FILE_MISSING when its folder is not there.
    """
    given = os.fspath(path)
    real = follow_own_link(given)
    try:
        found = os.stat(real)
    except OSError:  # it is not there; or what makes it so is said where it is written
        parent = os.path.dirname(real) or "."
        if os.path.lexists(parent):
            return real
        raise fail(
            Reason.FILE_MISSING, f"the folder `{parent}` does not exist", hint="make it first"
        ) from None
    title, begin = KINDS[kind]
    why = ""
    if stat.S_ISDIR(found.st_mode):
        why = "it is a folder"
    elif not stat.S_ISREG(found.st_mode):
        why = "it is no plain file"
    elif any(_same(found, one) for one in inputs):
        why = "it is an input of this command"
    elif found.st_size and not re.match(begin, _head(real)):
        why = f"it is not {title}"
    if not why:
        return real
    raise fail(
        Reason.NOT_REPLACED,
        f"`{given}` is there and would be replaced: {why}",
        where=Location(file=given),
        hint="name another file, or move this one away first",
    )


def write(
    path: os.PathLike[str] | str,
    content: bytes | str,
    kind: str,
    *,
    beside: os.PathLike[str] | None = None,
) -> None:
    """Write a file of a kind as `files.write` does; raises `StackproofError` as `claim` does."""
    files.write(claim(path, kind), content, beside=beside)


def follow_own_link(given: str) -> str:
    """Return the path that an output leads to; raises NOT_REPLACED for a link of somebody else."""
    try:
        state = os.lstat(given)
        if not stat.S_ISLNK(state.st_mode):
            return given
        if not is_foreign(state):
            return os.path.realpath(given)
    except OSError:  # nothing is there, or others exchange it at this moment
        return given
    raise fail(
        Reason.NOT_REPLACED,
        f"`{given}` is a link that somebody else has made",
        where=Location(file=given),
        hint="name another file, in a folder that only you may write to",
    )


def _same(found: os.stat_result, other: os.PathLike[str] | str) -> bool:
    try:
        return os.path.samestat(found, os.stat(other))
    except (OSError, ValueError):
        return False


def _head(path: str) -> bytes:
    try:
        with Path(path).open("rb") as stream:
            return stream.read(_HEAD)
    except OSError:
        return b"\0"
