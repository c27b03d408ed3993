"""What is in the cache, the repository and memory: entries with size, age, use; their deletion."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from stackproof.build.effects import workspace
from stackproof.core.effects import cache_kinds, files
from stackproof.core.effects.cache_kinds import IMAGES, KINDS, MEMORY, Entries, Kind, UseSign
from stackproof.core.effects.foreign.folder import private_folder
from stackproof.core.errors import Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.share.effects import checking, naming, places, storing
from stackproof.share.labels import Label

_KEPT_BUILDS = 2
_ABANDONED_S = 6 * 3600.0
"""What a command has under a name of its own is left behind when it is as old as this."""

_GONE = ".gone."


class DeletableEntry(Value):
    """One thing that can be deleted; `used` is when it was last used, as seconds since 1970.

    `size` is what it takes on disk. `tree` is the tree of a build that lies elsewhere, which is
    deleted with it. `interrupted` is a build without an image, `left` what a command that was ended
    left behind, `foreign` the tree of a build in another cache, which only commands with that
    cache delete.
    """

    kind: str
    name: str
    path: Path
    size: int
    used: float
    in_use: bool = False
    tree: Path | None = None
    interrupted: bool = False
    left: bool = False
    foreign: bool = False


class PruneOptions(Value):
    """What is to be deleted: what nobody needs, and of these kinds, or so old, or `every` entry."""

    kinds: tuple[str, ...] = ()
    older_than_s: float | None = None
    every: bool = False
    dry_run: bool = False


class Pruned(Value):
    """What was deleted, or would be, and what stays because it is in use."""

    gone: tuple[DeletableEntry, ...]
    left: tuple[DeletableEntry, ...]


def entries(kinds: Sequence[Kind] = KINDS) -> list[DeletableEntry]:
    """Return all entries of some kinds, those of one kind in the order of their last use."""
    with cache_kinds.nobody_uses() as free:
        together = not free
    return [entry for kind in kinds for entry in of_kind(kind, together=together)]


def of_kind(kind: Kind, *, together: bool) -> list[DeletableEntry]:
    """Return the entries of one kind; `together` says whether some process uses the cache."""
    if kind.name == MEMORY:
        found = [_memory(path) for path in _trees_in_memory()]
    elif kind.name == IMAGES:
        found = list(_images())
    elif kind.held is UseSign.OWN:
        found = [_build(path) for path in _children(cache_kinds.home(kind.name))]
    else:
        busy = together and kind.held is UseSign.TOGETHER
        found = [_plain(kind, path, in_use=busy) for path in _paths(kind)]
    return sorted((one for one in found if one), key=lambda one: (one.used, one.name))


def prune(options: PruneOptions) -> Pruned:
    """Delete what is meant and not in use, or only say what that is.

    Raises `StackproofError` (USAGE) for kinds that there are not, and for options that exclude
    each other.
    """
    cache_kinds.check_names(options.kinds)
    if options.every and (options.kinds or options.older_than_s is not None):
        raise fail(Reason.USAGE, "`--all` excludes `--kind` and `--older-than`")
    now = time.time()
    with cache_kinds.nobody_uses() as free:
        meant = [
            entry
            for kind in KINDS
            for entry in of_kind(kind, together=not free)
            if _is_meant(entry, options, now)
        ]
        gone = [one for one in meant if not one.in_use and (options.dry_run or remove(one))]
    return Pruned(gone=tuple(gone), left=tuple(one for one in meant if one not in gone))


def _is_meant(entry: DeletableEntry, options: PruneOptions, now: float) -> bool:
    kind = cache_kinds.get(entry.kind)
    if kind.entries is Entries.NONE or entry.foreign:
        return False
    if entry.left:
        return entry.used < now - _ABANDONED_S or entry.kind in {"builds", IMAGES}
    if options.kinds:
        chosen = entry.kind in options.kinds
    elif options.every or options.older_than_s is not None:
        chosen = kind.held is not UseSign.UNSEEN
    else:
        chosen = entry.kind == MEMORY
    return chosen and entry.used <= now - (options.older_than_s or 0.0)


def unknown() -> list[Path]:
    """Return what is in the cache and of no kind: another release of stackproof put it there."""
    home = cache_kinds.cache()
    known = {home / folder for kind in KINDS for folder in kind.folders}
    above = {parent for path in known for parent in path.parents}
    found = []
    folders = [home]
    while folders:
        for path in _children(folders.pop()):
            if path in above:
                folders.append(path)
            elif path not in known:
                found.append(path)
    return sorted(found)


def _trees_in_memory() -> list[Path]:
    """Return the trees in memory, none where somebody else has taken the name of their folder."""
    try:
        return _children(private_folder(workspace.memory_name(), hint="remove it", make=False))
    except StackproofError:
        return []


def _paths(kind: Kind) -> Iterator[Path]:
    home = cache_kinds.cache()
    for folder in kind.folders:
        if kind.entries is Entries.CHILDREN:
            yield from _children(home / folder)
        elif kind.entries is Entries.FILES:
            yield from _files(home / folder)
        elif (home / folder).exists():
            yield home / folder


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _files(folder: Path) -> Iterator[Path]:
    for where, _, names in os.walk(folder):
        yield from (Path(where, name) for name in sorted(names))


def _plain(kind: Kind, path: Path, *, in_use: bool) -> DeletableEntry | None:
    home = cache_kinds.cache()
    top = next(home / one for one in kind.folders if path.is_relative_to(home / one))
    state = _state(path)
    if state is None:
        return None
    return DeletableEntry(
        kind=kind.name,
        name=str(path.relative_to(top)) if path != top else path.name,
        path=path,
        size=_size(path),
        used=state.st_mtime,
        in_use=in_use,
        left=path.name.startswith("."),
    )


def _build(path: Path) -> DeletableEntry | None:
    state = _state(path)
    if state is None or not stat.S_ISDIR(state.st_mode):
        return None
    tree = workspace.find(path).tree
    tree_elsewhere = tree if tree != path and tree.exists() else None
    outside = tree_elsewhere is not None and not tree.is_relative_to(workspace.MEMORY)
    return DeletableEntry(
        kind="builds",
        name=path.name,
        path=path,
        size=_size(path) + (_size(tree) if outside else 0),
        used=state.st_mtime,
        in_use=is_used(path),
        tree=tree_elsewhere,
        interrupted=not _has_image(path),
        left=path.name.startswith(_GONE),
    )


def _memory(path: Path) -> DeletableEntry | None:
    """Return the entry of a tree in memory, in use while its build is; the build says so itself."""
    state = _state(path)
    if state is None:
        return None
    build = workspace.build_of(path)
    return DeletableEntry(
        kind=MEMORY,
        name=path.name,
        path=path,
        size=_size(path),
        used=max(state.st_mtime, _used(build)),
        in_use=build is not None and is_used(build),
        interrupted=True,
        left=not (path / workspace.BELONGS).exists(),
        foreign=build is not None and build.parent != workspace.builds_home(),
    )


def _images() -> Iterator[DeletableEntry | None]:
    """Yield the images of the repository, by their labels, and what lies there without any.

    An image was used when a label of it was last used, or the file read; that it is mounted on
    this machine shows by its loop device, and nowhere else.
    """
    repository = places.own()
    records = repository.records()
    mounted = _loop_files()
    named: dict[str, list[str]] = {}
    for record in records:
        named.setdefault(record.digest, []).append(str(record.label))
    for digest, labels in named.items():
        path = repository.folder_of(digest)
        yield _image(path, ", ".join(sorted(labels)), in_use=f"{path}/" in mounted)
    unlabelled = repository.unlabelled()
    for fault in checking.unnamed(repository, records):
        path = Path(fault.path)
        busy = checking.is_busy(path, unlabelled)
        yield _image(path, path.name, in_use=busy or f"{path}/" in mounted, left=True)


def _image(path: Path, name: str, *, in_use: bool, left: bool = False) -> DeletableEntry | None:
    state = _state(path)
    if state is None:
        return None
    return DeletableEntry(
        kind=IMAGES,
        name=name,
        path=path,
        size=_size(path),
        used=naming.last_use(str(path)) or state.st_mtime,
        in_use=in_use,
        left=left,
    )


def _loop_files() -> set[str]:
    """Return the folders of files that are mounted here, each with a slash at its end."""
    found = set()
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            found.add(f"{os.path.dirname(os.fsdecode(path.read_bytes()).strip())}/")
    return found


def _used(path: Path | None) -> float:
    state = _state(path) if path else None
    return state.st_mtime if state else 0.0


def _has_image(build: Path) -> bool:
    return (build / "out").is_dir() and any((build / "out").iterdir())


def _state(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except OSError:
        return None


def _size(path: Path) -> int:
    """Return the bytes that a file or a tree takes on disk; names of one file count once."""
    seen: set[tuple[int, int]] = set()
    total = 0
    for state in _states(path):
        if state.st_nlink > 1 and not stat.S_ISDIR(state.st_mode):
            if (state.st_dev, state.st_ino) in seen:
                continue
            seen.add((state.st_dev, state.st_ino))
        total += state.st_blocks * 512
    return total


def _states(path: Path) -> Iterator[os.stat_result]:
    state = _state(path)
    if state is None:
        return
    yield state
    if not stat.S_ISDIR(state.st_mode):
        return
    for folder, folders, names in os.walk(path):
        for name in (*folders, *names):
            with contextlib.suppress(OSError):
                yield os.lstat(os.path.join(folder, name))


def is_used(build: Path) -> bool:
    """Return whether a build is running in its folder, or a shell in its sandbox."""
    with _hold(build) as held:
        return not held


@contextlib.contextmanager
def _hold(build: Path) -> Iterator[bool]:
    """Hold the locks of a build folder, and say whether that could be done at once."""
    with contextlib.ExitStack() as stack:
        for name in workspace.LOCKS:
            try:
                descriptor = os.open(build / name, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            except OSError:
                continue  # nobody ever held it
            stack.callback(os.close, descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
                return
        yield True


def remove(entry: DeletableEntry) -> bool:
    """Delete an entry; return False where somebody began to use it.

    Whoever looks meanwhile sees all of it or nothing. Raises `StackproofError` (NOT_PERMITTED).
    For kinds that are held together the caller is in `cachekinds.nobody_uses`.
    """
    if entry.kind == "builds":
        return _remove_build(entry.path)
    if entry.kind == IMAGES:
        return _remove_image(entry)
    if entry.kind == MEMORY:
        build = workspace.build_of(entry.path)
        if build is None:
            _away(entry.path)
            return True
        with _hold(build) as held:
            if held:
                _away(entry.path)
            return held
    _away(entry.path)
    return True


def _remove_image(entry: DeletableEntry) -> bool:
    repository = places.own()
    if entry.left:
        return bool(checking.cleared(repository, [str(entry.path)]))
    known = repository.candidates(Label(name=entry.path.name))
    labels = tuple(one.label for one in known if one.digest == entry.path.name)
    return entry.path.name in storing.remove(repository, labels)


def _remove_build(build: Path) -> bool:
    with _hold(build) as held:
        if held:
            tree = workspace.find(build).tree
            if tree != build:
                _away(tree)
            _away(build)
        return held


def _away(path: Path) -> None:
    """Delete a tree under another name, so that half of it is never taken for the whole."""
    if path.is_dir() and not path.is_symlink() and not path.name.startswith("."):
        gone = path.with_name(f"{_GONE}{path.name}.{os.getpid()}")
        try:
            path.rename(gone)
        except FileNotFoundError:
            return
        except OSError as error:
            raise files.translate(error, path) from error
        path = gone
    files.remove(path)


def give_up_superseded(build: Path) -> list[DeletableEntry]:
    """Delete the builds of a recipe that newer ones took the place of; return what went.

    The newest two that have an image stay, and what was used since the older of these. What an
    interrupted one had finished is kept with the components and packages.
    """
    origin = workspace.origin_of(build)
    if not origin:
        return []
    same = [
        entry
        for path in _children(build.parent)
        if path.is_dir() and workspace.origin_of(path) == origin and (entry := _build(path))
    ]
    same.sort(key=lambda entry: entry.used, reverse=True)
    images = 0
    gone = []
    for entry in same:
        if images >= _KEPT_BUILDS and entry.path != build:
            with contextlib.suppress(StackproofError):  # it can wait: the build itself went well
                if _remove_build(entry.path):
                    gone.append(entry)
        images += not entry.interrupted
    return gone
