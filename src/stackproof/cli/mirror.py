"""`stackproof mirror`: what stacks are built from, for machines without internet."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from stackproof import noun, spack_build
from stackproof.cli import easybuild, progress, spack, stacks
from stackproof.cli.loaded import Loaded
from stackproof.engines.spack import problems
from stackproof.errors import Reason, StackproofError, fail
from stackproof.host import git, source_mirror
from stackproof.host.source_mirror import Contents
from stackproof.monitor import Event, Monitor
from stackproof.spack_build import Request
from stackproof.spackstack import SpackLock


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """A mirror before and after, and how many clones were put into it."""

    before: Contents
    after: Contents
    clones: int


def run_create(args: argparse.Namespace) -> int:
    """Fill a mirror; what is in it already is not fetched again, so that it can be continued."""
    every = [_with_sources(loaded) for loaded in stacks.load_recipes(args)]
    folder = source_mirror.prepare(Path(args.folder))
    monitor = progress.monitor()
    with source_mirror.exclusive(folder, monitor):
        before = source_mirror.contents(folder)
        clones = set()
        for loaded in every:
            if loaded.for_easybuild:
                easybuild.fill_mirror(loaded, args.mirror, folder, monitor)
                continue
            stack = loaded.spack
            caches = spack_build.own_caches(stack, loaded.caches)
            request = Request(stack=stack, blobs=loaded.blobs, caches=caches)
            lock = spack.ensure_lock(loaded, request, monitor, update=False, locked=False)
            clones |= _export(lock, folder, monitor)
            spack_build.fill_mirror(request, lock, folder, monitor)
        made = _Made(before=before, after=source_mirror.contents(folder), clones=len(clones))
    if args.json:
        print(noun.to_json(_data(folder, made)), end="")
    else:
        _print(folder, made)
    return 0


def _with_sources(loaded: Loaded) -> Loaded:
    """Return a loaded recipe that is built from source; raises `StackproofError` for others."""
    if loaded.for_easybuild:
        return loaded
    if not loaded.for_spack:
        raise fail(
            Reason.UNSUPPORTED,
            f"`{loaded.path}` is not for Spack or EasyBuild: a mirror holds sources",
            hint="for wheels, `pip download` fills a folder for PIP_FIND_LINKS",
        )
    found = problems(loaded.spack)
    if found:
        raise StackproofError(*found)
    return loaded


def _export(lock: SpackLock, folder: Path, monitor: Monitor) -> set[Path]:
    """Put Spack and the package repositories of a lock into a mirror."""
    found = set()
    for clone in lock.clones:
        target = git.export(clone.url, clone.commit, clone.ref, folder / source_mirror.GIT, monitor)
        if target is None:
            text = f"{clone.url} is a path of this machine: take it along yourself"
            monitor(Event(what="note", name="clone", text=text))
        else:
            found.add(target)
    return found


def _print(folder: Path, made: _Made) -> None:
    new = sorted(set(made.after.sources) - set(made.before.sources))
    for path in new:
        print(f"{made.after.sources[path] / 1e6:9.1f} MB  {path}")
    added = sum(made.after.sources[path] for path in new)
    print(
        f"{folder}: {len(made.after.sources)} files, {made.after.source_bytes / 1e6:.1f} MB of "
        f"sources ({len(new)} new, {added / 1e6:.1f} MB); "
        f"{made.clones} clones, {made.after.git_bytes / 1e6:.1f} MB"
    )
    git_folder = folder / source_mirror.GIT
    variable = f"{git.MIRROR_VARIABLE}={git_folder} " if git_folder.is_dir() else ""
    print(
        f"to build from it: {variable}stackproof build --locked --mirror {folder} RECIPE",
        file=sys.stderr,
    )


def _data(folder: Path, made: _Made) -> dict[str, object]:
    new = set(made.after.sources) - set(made.before.sources)
    return {
        "mirror": str(folder),
        "sources": [
            {"path": path, "size": size, "new": path in new}
            for path, size in made.after.sources.items()
        ],
        "source_bytes": made.after.source_bytes,
        "git_bytes": made.after.git_bytes,
    }
