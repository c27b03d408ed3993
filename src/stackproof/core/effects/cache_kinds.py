"""Everything that stackproof writes into the cache, by kind: where it lies, what holds it.

Whoever keeps something gets its folder here, so that `stackproof image du` knows of all of it.
Whoever reads what may be deleted says so with `in_use`; that ends with the process.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path

from stackproof.core import harmless, ownership
from stackproof.core.effects import files
from stackproof.core.effects.foreign.folder import fault, owner_text
from stackproof.core.errors import Reason, fail
from stackproof.core.value import Value


class Entries(StrEnum):
    """What is deleted at once: a child of the folder, a file anywhere below it, or nothing."""

    CHILDREN = "children"
    FILES = "files"
    NONE = "none"


class UseSign(StrEnum):
    """How it shows that somebody uses an entry.

    OWN: by a lock in the entry. TOGETHER: by one lock for the whole cache (`in_use`). NOBODY: an
    entry is read at once, and may go at any time. UNSEEN: by what runs on any node, so that it is
    deleted only where it is asked for by its kind.
    """

    OWN = "own"
    TOGETHER = "together"
    NOBODY = "nobody"
    UNSEEN = "unseen"


class Kind(Value):
    """One kind of content; `folders` are below the cache's folder, the first is where it is put.

    `again` says what is lost by deleting it.
    """

    name: str
    title: str
    again: str
    folders: tuple[str, ...]
    entries: Entries = Entries.CHILDREN
    held: UseSign = UseSign.TOGETHER


MEMORY = "memory"
"""The kind of build trees that lie outside of the cache, in memory."""
IMAGES = "images"
"""The kind of images with labels, which lie in the repository."""

KINDS = (
    Kind(
        name=IMAGES,
        title="images of your repository, with their labels",
        again="built, copied or pulled again; they may be nowhere else",
        folders=(),
        held=UseSign.UNSEEN,
    ),
    Kind(
        name="builds",
        title="build folders: image, logs, and the tree unless it lies elsewhere",
        again="the next build of that recipe runs again",
        folders=("builds",),
        held=UseSign.OWN,
    ),
    Kind(
        name=MEMORY,
        title="trees of interrupted builds in memory (/dev/shm)",
        again="an interrupted build starts again, from what the other kinds keep",
        folders=(),
        held=UseSign.OWN,
    ),
    Kind(
        name="downloads",
        title="wheels and source files, by digest",
        again="downloaded again",
        folders=("downloads",),
    ),
    Kind(
        name="uploads",
        title="unfinished uploads to registries: where each goes on",
        again="the upload begins again",
        folders=("uploads",),
        held=UseSign.NOBODY,
    ),
    Kind(
        name="listings",
        title="labels of registries as they were last listed, for completion",
        again="listed again by the next `image find`",
        folders=("listings",),
        held=UseSign.NOBODY,
    ),
    Kind(
        name="components",
        title="components that EasyBuild built",
        again="built again",
        folders=("easybuild/components",),
    ),
    Kind(
        name="packages",
        title="packages that Spack built, one cache for each mount point",
        again="built again, which may take hours",
        folders=("spack/packages",),
    ),
    Kind(
        name="sources",
        title="source files that Spack fetched",
        again="downloaded again",
        folders=("spack/sources",),
        entries=Entries.FILES,
    ),
    Kind(
        name="solutions",
        title="what Spack's solver found",
        again="solved again, in minutes",
        folders=("spack/solutions",),
        entries=Entries.FILES,
    ),
    Kind(
        name="indices",
        title="Spack's indices of package repositories",
        again="made again, in a minute",
        folders=("spack/indices",),
    ),
    Kind(
        name="clones",
        title="commits of git repositories",
        again="fetched again",
        folders=("git/objects",),
    ),
    Kind(
        name="checkouts",
        title="files of commits",
        again="unpacked again from the clones",
        folders=("git/trees",),
    ),
    Kind(
        name="keys",
        title="GPG keys that mirrors give in base64",
        again="written again",
        folders=("keys",),
    ),
    Kind(
        name="trees",
        title="images unpacked for `inject`",
        again="unpacked again",
        folders=("trees",),
    ),
    Kind(
        name="layers",
        title="layers of containers' images",
        again="read again from the images",
        folders=("layers",),
    ),
    Kind(
        name="archives",
        title="compressed archives of containers' images, unpacked",
        again="unpacked again",
        folders=("archives",),
    ),
    Kind(
        name="elf",
        title="what was read of programs and libraries",
        again="read again",
        folders=("elf",),
        entries=Entries.FILES,
        held=UseSign.NOBODY,
    ),
    Kind(
        name="injections",
        title="answers for `--inject`, and the links that jobs with it use while they run",
        again="judged again",
        folders=("injections",),
        held=UseSign.UNSEEN,
    ),
    Kind(
        name="programs",
        title="benchmark programs, compiled for MPIs that are no image",
        again="compiled again",
        folders=("programs",),
    ),
    Kind(
        name="delay-switch",
        title="the program that delays packets of clusters where the kernel cannot",
        again="compiled again",
        folders=("delay-switch",),
        held=UseSign.NOBODY,
    ),
    Kind(
        name="native",
        title="the plug-in for Slurm, compiled for clusters",
        again="compiled again",
        folders=("native",),
    ),
    Kind(
        name="digests",
        title="digests of images that a site's policy was asked about",
        again="each image is read once more",
        folders=("digests",),
        entries=Entries.FILES,
        held=UseSign.NOBODY,
    ),
    Kind(
        name="locks",
        title="lock files, all empty: two commands must find the same ones",
        again="",
        folders=("locks", "git/locks", "mirrors"),
        entries=Entries.NONE,
    ),
)
"""Every kind, in the order in which it is shown."""

_BY_NAME = {kind.name: kind for kind in KINDS}
_held: dict[Path, int] = {}
_told: set[str] = set()


def home(name: str) -> Path:
    """Return the folder of a kind; it need not be there."""
    return cache() / _BY_NAME[name].folders[0]


def get(name: str) -> Kind:
    """Return a kind by its name."""
    return _BY_NAME[name]


def check_names(names: Sequence[str]) -> None:
    """Raise `StackproofError` (USAGE) for a name that no kind has."""
    known = [kind.name for kind in KINDS]
    for name in names:
        if name not in known:
            raise fail(
                Reason.USAGE, f"there is no kind `{name}`", hint=f"kinds are: {', '.join(known)}"
            )


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
        if ownership.is_foreign(one.st_uid, os.geteuid()):
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
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_SH)  # waits while somebody deletes, which is short
        _held[path] = descriptor


@contextlib.contextmanager
def nobody_uses() -> Iterator[bool]:
    """Yield True where no process is using the cache; while this holds, none begins to."""
    path = _lock_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise files.translate(error, path) from error
    try:
        yield _locked(descriptor)
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _lock_path() -> Path:
    return locks_of("locks") / "in-use"
