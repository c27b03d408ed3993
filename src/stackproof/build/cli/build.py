"""`stackproof build RECIPE`: from a recipe to a SquashFS image."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from stackproof.build.effects import builders, images, stacks
from stackproof.build.effects.images import LockUse
from stackproof.build.effects.loaded import Loaded
from stackproof.build.options import BuildRequest
from stackproof.core import noun
from stackproof.core.cli import progress
from stackproof.core.effects import outputs
from stackproof.core.errors import ExitCode, Problem, Reason, StackproofError, fail, problems_data
from stackproof.core.monitor import Monitor


def run(asked: BuildRequest) -> int:
    """Build the image; a second build with nothing changed does no work and says so.

    With `--matrix` every combination is built, those after a failed one too.
    """
    every = stacks.load_recipes(asked.recipe)
    if asked.output and len(every) > 1:
        raise fail(Reason.USAGE, "`--output` names one image, and `--matrix` makes several")
    monitor = progress.monitor()
    problems: list[Problem] = []
    results: list[dict[str, object]] = []
    for loaded in every:
        progress.print_notes(*loaded.notes)
        images.tell_swaps(loaded, monitor)
        try:
            results.append(_one(loaded, asked, monitor))
        except StackproofError as error:
            if len(every) == 1:
                raise
            print(f"{_target(loaded, asked)}: failed", file=sys.stderr)
            problems += error.problems
            results.append(problems_data(error.reason.exit_code, error.problems))
    if asked.json:
        print(noun.to_json(results[0] if len(every) == 1 else results), end="")
    for problem in problems:
        print(problem, file=sys.stderr)
    return int(problems[0].reason.exit_code if problems else ExitCode.DONE)


def _one(loaded: Loaded, asked: BuildRequest, monitor: Monitor) -> dict[str, object]:
    """Build one stack; return what that gave, for those who read it as JSON."""
    target = _target(loaded, asked)
    if not asked.stop_after:
        _check_target(target)
        images.check_machine(loaded)
    given = {"build-dir": asked.build.build_dir, "on": asked.build.on != "local"}
    builders.refuse(builders.of(loaded), *(name for name, value in given.items() if value))
    built, lock = images.made(
        loaded,
        asked.build,
        monitor,
        use=LockUse(update=asked.update, locked=asked.locked, only=bool(asked.stop_after)),
        site=asked.recipe.site,
        tell=progress.print_notes,
    )
    if built is None:
        if not asked.json:
            print(loaded.lock_path)
        return {"lock_file": str(loaded.lock_path), "lock": lock}
    _, written = images.put(built, loaded, target, monitor)
    if not asked.json:
        if not built.ran and not written:
            print(f"{target}: nothing to do, the image is up to date", file=sys.stderr)
        print(f"{target}  {built.size / 1e6:.1f} MB  sha256 {built.sha256}")
    return {
        "image": str(target),
        "sha256": built.sha256,
        "size": built.size,
        "plan": built.plan_id,
        "lock": lock,
        "steps_run": built.ran,
        "written": written,
    }


def _target(loaded: Loaded, asked: BuildRequest) -> Path:
    if asked.output:
        return Path(asked.output)
    middle = f".{loaded.variant}" if loaded.variant and asked.recipe.matrix else ""
    return Path(f"{loaded.stack.name}{middle}.squashfs")


def _check_target(target: Path) -> None:
    """Refuse at once what would fail after minutes of work."""
    if target.is_dir():
        raise fail(Reason.USAGE, f"`{target}` is a folder", hint="name a file with -o")
    outputs.claim(images.record_of(Path(outputs.claim(target, "image"))), "digest")
    parent = target.parent
    if not os.access(parent, os.W_OK):
        raise fail(
            Reason.NOT_PERMITTED,
            f"no right to write into `{parent}`",
            hint="choose another place with -o",
        )
