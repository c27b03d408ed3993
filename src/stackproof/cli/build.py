"""`stackproof build RECIPE`: from a recipe to a SquashFS image."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stackproof import noun
from stackproof.cli import progress, stacks
from stackproof.cli.loaded import Loaded
from stackproof.errors import (
    ExitCode,
    Problem,
    Reason,
    StackproofError,
    fail,
    problems_data,
)
from stackproof.executor import Built, deliver, execute
from stackproof.host import cacheentries, files, outputs, toolchain
from stackproof.host.workspace import BuildSetup
from stackproof.monitor import Event, Monitor

Builder = Callable[[Loaded, argparse.Namespace, Monitor], tuple[Built | None, str]]
"""What builds a recipe of one engine: the image, if one is to be made, and the lock's digest."""


def run(args: argparse.Namespace) -> int:
    """Build the image; a second build with nothing changed does no work and says so.

    With `--matrix` every combination is built, those after a failed one too.
    """
    every = stacks.load_recipes(args)
    if args.output and len(every) > 1:
        raise fail(Reason.USAGE, "`--output` names one image, and `--matrix` makes several")
    monitor = progress.monitor()
    problems: list[Problem] = []
    results = []
    for loaded in every:
        progress.print_notes(*loaded.notes)
        try:
            results.append(_one(loaded, args, monitor))
        except StackproofError as error:
            if len(every) == 1:
                raise
            print(f"{_target(loaded, args)}: failed", file=sys.stderr)
            problems += error.problems
            results.append(_Result(data=problems_data(error.reason.exit_code, error.problems)))
    if args.json:
        data = [result.data for result in results]
        print(noun.to_json(data[0] if len(every) == 1 else data), end="")
    for problem in problems:
        print(problem, file=sys.stderr)
    return int(problems[0].reason.exit_code if problems else ExitCode.DONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """What one build gave, for those who read it as JSON."""

    data: dict[str, object]


def _one(loaded: Loaded, args: argparse.Namespace, monitor: Monitor) -> _Result:
    target = _target(loaded, args)
    if not args.stop_after:
        _check_target(target)
        _check_machine(loaded.stack.architecture)
    if args.build_dir and loaded.stack.engine == "wheel":
        raise fail(
            Reason.USAGE,
            "`--build-dir` is for builds from source, and this recipe is of wheels",
            hint="they are put together in the cache: set STACKPROOF_CACHE to move it",
        )
    if not loaded.for_spack and args.on != "local":
        raise fail(Reason.USAGE, f"`--on {args.on}` is for recipes with `engine: spack`")
    built, lock = _builder(loaded)(loaded, args, monitor)
    if built is None:
        if not args.json:
            print(loaded.lock_path)
        return _Result(data={"lock_file": str(loaded.lock_path), "lock": lock})
    place = Path(outputs.claim(target, "image", inputs=[loaded.lock_path]))
    written = deliver(built, place)
    outputs.write(_record_of(place), f"{built.sha256}  {place.name}\n", "digest")
    for entry in cacheentries.give_up_superseded(built.home):
        text = f"{entry.name}, which newer builds of this recipe took the place of"
        monitor(Event(what="note", name="removed", text=text))
    if not args.json:
        if not built.ran and not written:
            print(f"{target}: nothing to do, the image is up to date", file=sys.stderr)
        print(f"{target}  {built.size / 1e6:.1f} MB  sha256 {built.sha256}")
    return _Result(
        data={
            "image": str(target),
            "sha256": built.sha256,
            "size": built.size,
            "plan": built.plan_id,
            "lock": lock,
            "steps_run": built.ran,
            "written": written,
        }
    )


def _builder(loaded: Loaded) -> Builder:
    if loaded.for_spack:
        from stackproof.cli import spack  # noqa: PLC0415 - only for Spack stacks

        return spack.build
    if loaded.for_easybuild:
        from stackproof.cli import easybuild  # noqa: PLC0415 - only for such stacks

        return easybuild.build
    return _build_wheel


def _build_wheel(
    loaded: Loaded, args: argparse.Namespace, monitor: Monitor
) -> tuple[Built | None, str]:
    from stackproof.cli import wheel  # noqa: PLC0415 - only for wheels
    from stackproof.planner import lock_digest, plan  # noqa: PLC0415 - as above

    lock = wheel.ensure_lock(loaded, monitor, update=args.update, locked=args.locked)
    if args.stop_after:
        return None, lock_digest(lock)
    made = plan(loaded.wheel, lock, loaded.sources)
    setup = BuildSetup(origin=loaded.origin)
    return execute(made, loaded.stack.engine, monitor, setup=setup), lock_digest(lock)


def _target(loaded: Loaded, args: argparse.Namespace) -> Path:
    if args.output:
        return Path(args.output)
    middle = f".{loaded.variant}" if loaded.variant and args.matrix else ""
    return Path(f"{loaded.stack.name}{middle}.squashfs")


def _record_of(image: Path) -> Path:
    """Return the file beside an image that holds its digest, for `inspect --verify`."""
    return image.with_name(image.name + files.DIGEST_SUFFIX)


def _check_target(target: Path) -> None:
    """Refuse at once what would fail after minutes of work."""
    if target.is_dir():
        raise fail(Reason.USAGE, f"`{target}` is a folder", hint="name a file with -o")
    outputs.claim(_record_of(Path(outputs.claim(target, "image"))), "digest")
    parent = target.parent
    if not parent.is_dir():
        raise fail(
            Reason.FILE_MISSING, f"the folder `{parent}` does not exist", hint="make it first"
        )
    if not os.access(parent, os.W_OK):
        raise fail(
            Reason.NOT_PERMITTED,
            f"no right to write into `{parent}`",
            hint="choose another place with -o",
        )


def _check_machine(architecture: str) -> None:
    here = toolchain.architecture()
    if architecture != here:
        raise fail(
            Reason.UNSUPPORTED,
            f"this machine is {here}; an image for {architecture} is built on such a machine",
            hint="`stackproof plan --site` works anywhere; run `build` at the site",
        )
