"""A folder of sources as Spack's mirrors and source caches are: files by their digest.

The layout is Spack's (lib/spack/spack/mirrors/layout.py): `_source-cache/archive/<first two
digits>/<sha256>.<extension>`. A mirror made here holds the git repositories of a stack besides, as
`git/<owner>+<name>.git`, so that `STACKPROOF_SPACK_MIRROR=<mirror>/git` finds them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stackproof.build.effects.workspace import locked
from stackproof.core.effects import cache_kinds, files
from stackproof.core.errors import Location, Reason, fail
from stackproof.core.monitor import Monitor
from stackproof.core.value import Value

SOURCES = "_source-cache"
GIT = "git"
EASYBUILD = "easybuild"
"""The folder of source files for EasyBuild, under their names."""


class Contents(Value):
    """What a mirror holds: sources by path with their sizes, and bytes of repositories."""

    sources: dict[str, int]
    git_bytes: int

    @property
    def source_bytes(self) -> int:
        """Return how large all sources are together, in bytes."""
        return sum(self.sources.values())


def contents(folder: Path) -> Contents:
    """Return what a mirror holds; an absent folder holds nothing."""
    return Contents(
        sources={
            str(path.relative_to(folder)): path.stat().st_size for path in _files(folder, GIT)
        },
        git_bytes=sum(path.stat().st_size for path in _files(folder / GIT)),
    )


def prepare(folder: Path) -> Path:
    """Return the absolute path of a mirror that can be written to, made if need be.

    Raises `StackproofError`: NOT_PERMITTED, DISK_FULL, INVALID_VALUE for a folder that holds
    something else.
    """
    target = folder.absolute()
    try:
        target.mkdir(parents=True, exist_ok=True)
        names = os.listdir(target)
    except FileExistsError:
        raise fail(Reason.INVALID_VALUE, f"`{folder}` is a file, not a folder") from None
    except OSError as error:
        raise files.translate(error, folder) from error
    if names and not {SOURCES, GIT, EASYBUILD} & set(names):
        raise fail(
            Reason.INVALID_VALUE,
            f"`{folder}` holds something else than a mirror",
            where=Location(file=str(folder)),
            hint="name a new or an empty folder",
        )
    if not os.access(target, os.W_OK):
        raise fail(Reason.NOT_PERMITTED, f"no right to write into `{folder}`")
    return target


@contextmanager
def exclusive(folder: Path, monitor: Monitor) -> Iterator[None]:
    """Hold a mirror: Spack does not expect that two write into one."""
    key = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    busy = f"somebody else fills {folder}"
    cache_kinds.in_use()
    with locked(cache_kinds.locks_of("mirrors") / key, monitor, busy):
        yield


def _files(folder: Path, *left_out: str) -> list[Path]:
    """Return the regular files below a folder; links (Spack's readable names) do not count."""
    found = []
    for where, names, inside in os.walk(folder):
        if Path(where) == folder:
            names[:] = [name for name in names if name not in left_out]
        paths = (Path(where, name) for name in inside)
        found += [path for path in paths if path.is_file() and not path.is_symlink()]
    return sorted(found)
