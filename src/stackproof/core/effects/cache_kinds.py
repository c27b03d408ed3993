"""Everything that stackproof writes into the cache, by kind: where it lies.

Whoever keeps something gets its folder here, so that `stackproof image prune` knows of all of it.
Whoever reads what may be deleted says so with `in_use`; that ends with the process.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from stackproof.core import harmless
from stackproof.core.effects import files, outputs
from stackproof.core.effects.foreign.folder import fault, owner_text
from stackproof.core.errors import Reason, fail

FOLDERS: Mapping[str, str] = {
    "builds": "builds",
    "downloads": "downloads",
    "uploads": "uploads",
    "listings": "listings",
    "components": "easybuild/components",
    "packages": "spack/packages",
    "sources": "spack/sources",
    "solutions": "spack/solutions",
    "indices": "spack/indices",
    "clones": "git/objects",
    "checkouts": "git/trees",
    "keys": "keys",
    "trees": "trees",
    "layers": "layers",
    "archives": "archives",
    "elf": "elf",
    "injections": "injections",
    "programs": "programs",
    "delay-switch": "delay-switch",
    "native": "native",
    "digests": "digests",
}
"""The folder of each kind of content, below the cache's."""
LOCKS = ("locks", "git/locks", "mirrors")
"""The folders of lock files, all empty: two commands must find the same ones."""

_held: dict[Path, int] = {}
_told: set[str] = set()


def home(name: str) -> Path:
    """Return the folder of a kind; it need not be there."""
    return cache() / FOLDERS[name]


def cache() -> Path:
    """Return the cache that is believed, as `own_cache` does; tell once of another one."""
    found, told = own_cache()
    if told and told not in _told:
        _told.add(told)
        # Here, as many a verb becomes the user's command and says nothing after that.
        sys.stderr.write(f"note: {harmless.line(told)}\n")
    return found


def own_cache() -> tuple[Path, str]:
    """Return the cache that nobody else can have put something into, and why it is another one.

    What lies in it is believed: packages, programs, answers. Where another user has the place that
    is named for it, one beside is this user's own, else the usual one; that is told in words, which
    are empty else. Raises `StackproofError` (NOT_PERMITTED) for one that others may write to, and
    where there is no other place.
    """
    named = files.cache_home()
    why, taken = _fault_of(named)
    if not why:
        return named, ""
    usual = files.cache_home({**os.environ, "STACKPROOF_CACHE": ""})
    for place in (named.with_name(f"{named.name}-{os.geteuid()}"), usual) if taken else ():
        with contextlib.suppress(OSError):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            if os.access(place, os.W_OK) and not _fault_of(place)[0]:
                return place, f"the cache `{named}` {why}: `{place}` is used in its place"
    raise fail(
        Reason.NOT_PERMITTED,
        f"the cache `{named}` {why}, so that anything could be in it",
        hint="set STACKPROOF_CACHE to a folder of your own, or: chmod go-w",
    )


def _fault_of(path: Path) -> tuple[str, bool]:
    """Return the fault of a cache, empty for none, and true if another user has its name.

    One that is not there yet will be made, or whoever uses it says why it cannot be.
    """
    try:
        states = (path.lstat(), path.stat())  # a link, too: it can lead elsewhere later
    except OSError:
        return "", False
    why = next(filter(None, (fault(one) for one in states if not stat.S_ISLNK(one.st_mode))), "")
    for one in states:
        if outputs.is_foreign(one):
            return f"belongs to {owner_text(one.st_uid)}", True
    return why, False


def locks_of(name: str) -> Path:
    """Return the folder with the locks of one of `locks`, `git` or `mirrors`."""
    return cache() / {"git": "git/locks"}.get(name, name)


def in_use() -> None:
    """Say that this process reads what is in the cache, until it ends: nothing of it is deleted.

    Where that cannot be said (a read-only cache, a file system without locks) nothing is said.
    """
    path = _lock_path()
    if path in _held:
        return
    with contextlib.suppress(OSError):
        descriptor = _open_lock(path)
        fcntl.flock(descriptor, fcntl.LOCK_SH)  # waits while somebody deletes, which is short
        _held[path] = descriptor


@contextlib.contextmanager
def nobody_uses() -> Iterator[bool]:
    """Yield True where no process is using the cache; while this holds, none begins to."""
    path = _lock_path()
    with files.translate_errors(path):
        descriptor = _open_lock(path)
    free = False
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        yield free
    finally:
        os.close(descriptor)


def _open_lock(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def _lock_path() -> Path:
    return locks_of("locks") / "in-use"
