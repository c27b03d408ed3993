"""`stackproof build RECIPE`: from a recipe to a SquashFS image."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stackproof import ids, noun, spack_build
from stackproof.cli import known, progress, spack, stacks, wheel
from stackproof.cli.stacks import Loaded
from stackproof.engines.easybuild.stack import EasyBuildStack
from stackproof.engines.spack import problems
from stackproof.errors import Problem, Reason, StackproofError, fail
from stackproof.executor import Built, deliver, execute
from stackproof.host import spackoffer, toolchain
from stackproof.monitor import Monitor
from stackproof.planner import lock_digest, plan
from stackproof.spackstack import SpackLock, SpackStack

Builder = Callable[[Loaded, argparse.Namespace, Monitor], tuple[Built | None, str]]
"""What builds a recipe of one engine: the image, if one is to be made, and the lock's digest."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    stacks.add_arguments(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="image to write; default: NAME.squashfs"
    )
    parser.add_argument(
        "--update", action="store_true", help="make a new lock even if the old one is valid"
    )
    parser.add_argument(
        "--locked", action="store_true", help="fail instead of making or changing a lock"
    )
    parser.add_argument(
        "--stop-after", choices=("lock",), help="end when the lock is there, build nothing"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    spack.add_arguments(parser)
    parser.set_defaults(run=run)


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
        _print_notes(*loaded.notes)
        try:
            results.append(_one(loaded, args, monitor))
        except StackproofError as error:
            if len(every) == 1:
                raise
            print(f"{_target(loaded, args)}: failed", file=sys.stderr)
            problems += error.problems
    if args.json:
        data = [result.data for result in results]
        print(noun.to_json(data[0] if len(every) == 1 else data), end="")
    if problems:
        raise StackproofError(*problems)
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """What one build gave, for those who read it as JSON."""

    data: dict[str, object]


def _one(loaded: Loaded, args: argparse.Namespace, monitor: Monitor) -> _Result:
    target = _target(loaded, args)
    if not args.stop_after:
        _check_target(target)
        _check_machine(loaded.stack.architecture)
    if not isinstance(loaded.stack, SpackStack) and args.on != "local":
        raise fail(Reason.USAGE, f"`--on {args.on}` is for recipes with `engine: spack`")
    built, lock = _builder(loaded)(loaded, args, monitor)
    if built is None:
        if not args.json:
            print(loaded.lock_path)
        return _Result(data={"lock_file": str(loaded.lock_path), "lock": lock})
    written = deliver(built, target)
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
    if isinstance(loaded.stack, SpackStack):
        return _build_spack
    if isinstance(loaded.stack, EasyBuildStack):
        from stackproof.cli import easybuild  # noqa: PLC0415 - only for such stacks

        return easybuild.build
    return _build_wheel


def _build_wheel(
    loaded: Loaded, args: argparse.Namespace, monitor: Monitor
) -> tuple[Built | None, str]:
    lock = wheel.ensure_lock(loaded, monitor, update=args.update, locked=args.locked)
    if args.stop_after:
        return None, lock_digest(lock)
    made = plan(loaded.wheel, lock, loaded.sources)
    return execute(made, loaded.stack.engine, monitor), lock_digest(lock)


def _build_spack(
    loaded: Loaded, args: argparse.Namespace, monitor: Monitor
) -> tuple[Built | None, str]:
    found = problems(loaded.spack)
    if found:
        raise StackproofError(*found)
    request = spack.request(loaded, args)
    _refuse_known(loaded, None if args.update else spack.valid_lock(loaded))
    lock = spack.ensure_lock(loaded, request, monitor, update=args.update, locked=args.locked)
    digest = ids.content_id(noun.to_data(lock))
    _print_notes(*_refuse_known(loaded, lock), *known.shadow_notes(loaded, lock))
    if args.stop_after:
        return None, digest
    _print_notes(*spack.system_notes(lock, spackoffer.operating_system()))
    return spack_build.build(request, lock, monitor), digest


def _refuse_known(loaded: Loaded, lock: SpackLock | None) -> tuple[Problem, ...]:
    """Refuse versions that are known not to work together, before hours go into building them.

    Returns what is only to be known. Raises `StackproofError` as `check` does.
    """
    conflicts, notes = known.conflict_problems(loaded, lock)
    if conflicts:
        raise StackproofError(*conflicts)
    return notes


def _print_notes(*notes: Problem) -> None:
    for note in notes:
        print(str(note).replace("error: ", "note: ", 1), file=sys.stderr)


def _target(loaded: Loaded, args: argparse.Namespace) -> Path:
    if args.output:
        return Path(args.output)
    middle = f".{loaded.variant}" if loaded.variant and args.matrix else ""
    return Path(f"{loaded.stack.name}{middle}.squashfs")


def _check_target(target: Path) -> None:
    """Refuse at once what would fail after minutes of work."""
    if target.is_dir():
        raise fail(Reason.USAGE, f"`{target}` is a folder", hint="name a file with -o")
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
