"""Builds, images without label and what else the cache holds: what may go, and its deletion."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from stackproof.build.effects import workspace
from stackproof.core.effects import cache_kinds, files
from stackproof.core.effects.foreign.folder import private_folder
from stackproof.core.errors import StackproofError
from stackproof.core.value import Value
from stackproof.share.effects import checking, places

_KEPT_BUILDS = 2
_ABANDONED_S = 6 * 3600.0
"""What a command has under a name of its own is left behind when it is as old as this."""
_OWN_LOCKS = ("builds", "injections")
"""Kinds that the lock of the whole cache says nothing of: jobs on any node use `injections`."""

_GONE = ".gone."


class Prunable(Value):
    """One thing that can be deleted, and the bytes that it takes on disk.

    `build` is the folder whose locks say that it is used; `image` is an image without a label.
    """

    path: Path
    size: int
    in_use: bool = False
    build: Path | None = None
    image: bool = False


class Pruned(Value):
    """What was deleted, or would be, and what stays because it is in use."""

    gone: tuple[Prunable, ...]
    left: tuple[Prunable, ...]


def prune(*, every: bool = False, dry_run: bool = False) -> Pruned:
    """Delete what nobody needs and nobody uses, or only say what that is.

    That are images without a label, trees in memory of builds that were interrupted, and what
    commands left that were ended; with `every` also builds and the rest of the cache.
    """
    with cache_kinds.nobody_uses() as free:
        meant = [*_images(), *_memory(), *_cached(every=every, free=free)]
        gone = [one for one in meant if not one.in_use and (dry_run or _remove(one))]
    return Pruned(gone=tuple(gone), left=tuple(one for one in meant if one not in gone))


def builds() -> list[Path]:
    """Return the folders of all builds, those that were used last at the end."""
    folders = [path for path in _children(cache_kinds.home("builds")) if path.is_dir()]
    return sorted(folders, key=lambda path: (_used(path), path.name))


def _images() -> Iterator[Prunable]:
    """Yield what lies in the repository without a label."""
    repository = places.own()
    unlabelled = repository.unlabelled()
    for fault in checking.unnamed(repository, repository.records()):
        path = Path(fault.path)
        busy = checking.is_busy(path, unlabelled) or f"{path}/" in _loop_files()
        yield Prunable(path=path, size=_size(path), in_use=busy, image=True)


def _memory() -> Iterator[Prunable]:
    """Yield the trees of builds in memory; those of another cache are left to its commands."""
    for path in trees_in_memory():
        build = workspace.build_of(path)
        if build is not None and build.parent == workspace.builds_home():
            yield Prunable(path=path, size=_size(path), in_use=is_used(build), build=build)
        elif build is None and _is_abandoned(path):
            yield Prunable(path=path, size=_size(path))


def trees_in_memory() -> list[Path]:
    """Return the trees in memory, none where somebody else has taken the name of their folder."""
    try:
        return _children(private_folder(workspace.memory_name(), hint="remove it", make=False))
    except StackproofError:
        return []


def _cached(*, every: bool, free: bool) -> Iterator[Prunable]:
    """Yield what commands left, or `every` entry; `free` says that no process uses the cache."""
    for path in _children(cache_kinds.home("builds")):
        if path.name.startswith(_GONE):
            yield Prunable(path=path, size=_size(path))
        elif every and path.is_dir():
            yield Prunable(path=path, size=_size(path), in_use=is_used(path), build=path)
    for kind in cache_kinds.FOLDERS:
        for path in () if kind in _OWN_LOCKS else _children(cache_kinds.home(kind)):
            left = path.name.startswith(".")
            if _is_abandoned(path) if left else every:
                yield Prunable(path=path, size=_size(path), in_use=not free)


def _is_abandoned(path: Path) -> bool:
    return _used(path) < time.time() - _ABANDONED_S


def _remove(entry: Prunable) -> bool:
    """Delete an entry; return False where somebody began to use it.

    Whoever looks meanwhile sees all of it or nothing. Raises `StackproofError` (NOT_PERMITTED).
    """
    if entry.image:
        return bool(checking.cleared(places.own(), [str(entry.path)]))
    if entry.build is None:
        _away(entry.path)
        return True
    if entry.build == entry.path:
        return _remove_build(entry.path)
    with _hold(entry.build) as held:
        if held:
            _away(entry.path)
        return held


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _loop_files() -> set[str]:
    """Return the folders of files that are mounted here, each with a slash at its end."""
    found = set()
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            found.add(f"{os.path.dirname(os.fsdecode(path.read_bytes()).strip())}/")
    return found


def _used(path: Path) -> float:
    try:
        return path.lstat().st_mtime
    except OSError:
        return 0.0


def _has_image(build: Path) -> bool:
    return (build / "out").is_dir() and any((build / "out").iterdir())


def _size(path: Path) -> int:
    """Return the bytes that a file or a tree takes on disk; names of one file count once."""
    states = {}
    paths = [str(path)]
    for folder, folders, names in os.walk(path):
        paths += [os.path.join(folder, name) for name in (*folders, *names)]
    for name in paths:
        with contextlib.suppress(OSError):
            state = os.lstat(name)
            states[state.st_dev, state.st_ino] = state.st_blocks * 512
    return sum(states.values())


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


def _remove_build(build: Path) -> bool:
    with _hold(build) as held:
        if held:
            tree = workspace.find(build).tree
            if tree != build and workspace.build_of(tree) == build:  # else it is somebody's
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


def give_up_superseded(build: Path) -> list[str]:
    """Delete the builds of a recipe that newer ones took the place of; return their names.

    The newest two that have an image stay, and what was used since the older of these. What an
    interrupted one had finished is kept with the components and packages.
    """
    origin = workspace.origin_of(build)
    if not origin:
        return []
    images = 0
    gone = []
    for path in reversed(builds()):
        if workspace.origin_of(path) != origin:
            continue
        if images >= _KEPT_BUILDS and path != build:
            with contextlib.suppress(StackproofError):  # it can wait: the build itself went well
                if _remove_build(path):
                    gone.append(path.name)
        images += _has_image(path)
    return gone
