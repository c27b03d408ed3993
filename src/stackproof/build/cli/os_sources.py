"""`stackproof mirror add-os-sources`: sources of the operating system, accepted for a recipe."""

from __future__ import annotations

import sys

from stackproof.build.engines.spack.effects.source_search import Accepted, accept
from stackproof.build.engines.spack.stack import OsSources
from stackproof.build.options import SourceOptions
from stackproof.core import noun
from stackproof.core.cli import progress


def run(asked: SourceOptions) -> int:
    """Accept sources; nothing is written when a package that was named cannot be had."""
    done = accept(asked, progress.monitor())
    if asked.json:
        print(noun.to_json(_data(done)), end="")
    else:
        _print(done)
    return 0


def _print(done: Accepted) -> None:
    for one in done.found:
        what = f"{one.name} {one.package.upstream}"
        origin = f"{one.package.suite}: {one.package.name} {one.package.version}"
        megabytes = one.path.stat().st_size / 1e6
        how = "accepted" if one.accepted else "the file that Spack knows"
        print(f"{what:<28} {megabytes:6.1f} MB  sha256 {one.package.sha256[:16]}…  {how}; {origin}")
    for problem in done.left_out:
        print(problem.worded("note"), file=sys.stderr)
    if done.changed:
        print(f"written to {done.loaded.os_sources_path}: keep it with the recipe", file=sys.stderr)
        if done.loaded.lock_path.exists():
            print("the lock is stale now: the next build makes a new one", file=sys.stderr)
    if not done.found and not done.left_out:
        print("every source is there already", file=sys.stderr)


def _data(done: Accepted) -> dict[str, object]:
    return {
        "file": str(done.loaded.os_sources_path),
        "accepted": noun.to_data(
            OsSources(sources=tuple(one.accepted for one in done.found if one.accepted))
        ),
        "files": [
            {
                "package": one.name,
                "version": one.package.upstream,
                "path": str(one.path),
                "sha256": one.package.sha256,
                "accepted": one.accepted is not None,
                "source": f"{one.package.name} {one.package.version}",
                "suite": one.package.suite,
                "url": one.package.url,
            }
            for one in done.found
        ],
        "left_out": [problem.message for problem in done.left_out],
    }
