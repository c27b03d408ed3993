"""`stackproof mirror`: what stacks are built from, for machines without internet."""

from __future__ import annotations

import sys
from pathlib import Path

from stackproof.build.effects import builders, git, locking, source_mirror, stacks
from stackproof.build.effects.source_mirror import Contents
from stackproof.build.options import BuildOptions, MirrorOptions
from stackproof.core import noun
from stackproof.core.cli import progress


def run_create(asked: MirrorOptions) -> int:
    """Fill a mirror; what is in it already is not fetched again, so that it can be continued."""
    every = stacks.load_recipes(asked.recipe)
    for loaded in every:
        builder = builders.of(loaded)
        builders.refuse(builder, "mirror create")
        builders.refuse_wrong(builder.engine.problems(loaded.stack, None, loaded.where))
    folder = source_mirror.prepare(Path(asked.folder))
    monitor = progress.monitor()
    build = BuildOptions(mirror=asked.recipe.mirror)
    with source_mirror.exclusive(folder, monitor):
        before = source_mirror.contents(folder)
        clones: set[Path] = set()
        for loaded in every:
            builder = builders.of(loaded)
            lock = locking.ensure(builder, loaded, build, monitor)
            clones |= builder.fill_mirror(loaded, lock, build, folder, monitor)
        after = source_mirror.contents(folder)
    if asked.json:
        print(noun.to_json(_data(folder, before, after)), end="")
    else:
        _print(folder, before, after, clones=len(clones))
    return 0


def _print(folder: Path, before: Contents, after: Contents, *, clones: int) -> None:
    new = sorted(set(after.sources) - set(before.sources))
    for path in new:
        print(f"{after.sources[path] / 1e6:9.1f} MB  {path}")
    added = sum(after.sources[path] for path in new)
    print(
        f"{folder}: {len(after.sources)} files, {after.source_bytes / 1e6:.1f} MB of "
        f"sources ({len(new)} new, {added / 1e6:.1f} MB); "
        f"{clones} clones, {after.git_bytes / 1e6:.1f} MB"
    )
    git_folder = folder / source_mirror.GIT
    variable = f"{git.MIRROR_VARIABLE}={git_folder} " if git_folder.is_dir() else ""
    print(
        f"to build from it: {variable}stackproof build --locked --mirror {folder} RECIPE",
        file=sys.stderr,
    )


def _data(folder: Path, before: Contents, after: Contents) -> dict[str, object]:
    return {
        "mirror": str(folder),
        "sources": [
            {"path": path, "size": size, "new": path not in before.sources}
            for path, size in after.sources.items()
        ],
        "source_bytes": after.source_bytes,
        "git_bytes": after.git_bytes,
    }
