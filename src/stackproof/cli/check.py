"""`stackproof check RECIPE`: every problem at once, or that there is none."""

from __future__ import annotations

import argparse
import json
import sys

from stackproof.cli import progress, stacks
from stackproof.cli.loaded import Loaded
from stackproof.errors import (
    ExitCode,
    Location,
    Problem,
    Reason,
    StackproofError,
    problems_data,
)


def run(args: argparse.Namespace) -> int:
    """Check a recipe, every combination of its matrix; the exit code is the first problem's."""
    problems: list[Problem] = []
    notes: list[Problem] = []
    remark = ""
    args.matrix = args.matrix or not args.choose
    try:
        for loaded in stacks.load_recipes(args):
            notes += loaded.notes
            if loaded.for_spack:
                found, more = _spack_problems(loaded)
                problems += found
                notes += more
            elif loaded.for_easybuild:
                from stackproof.cli import easybuild  # noqa: PLC0415 - only for such stacks

                found, more = easybuild.problems(loaded)
                problems += found
                notes += more
            else:
                remark = _look_up(loaded, args, problems, notes) or remark
    except StackproofError as error:
        problems += error.problems
    problems = list(dict.fromkeys(problems))
    notes = list(dict.fromkeys(notes))
    code = problems[0].reason.exit_code if problems else ExitCode.DONE
    _print(problems, notes)
    if args.json:
        print(json.dumps(problems_data(code, problems, notes), indent=1))
    elif not problems:
        print(f"{args.recipe}: valid")
    if remark:
        print(f"note: {remark}", file=sys.stderr)
    return int(code)


def _spack_problems(loaded: Loaded) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """Return what is wrong with a Spack stack and what should be known; the lock tells more."""
    from stackproof.cli import known, os_sources, spack  # noqa: PLC0415 - only for Spack stacks
    from stackproof.engines import spack as engine  # noqa: PLC0415

    lock, stale = spack.find_lock(loaded)
    found, notes = known.conflict_problems(loaded, lock)
    changed, unused = os_sources.accepted_problems(loaded, lock)
    hidden = known.shadow_notes(loaded, lock)
    problems = (*engine.problems(loaded.spack), *found, *changed)
    if lock is not None and loaded.spack.transports:
        from stackproof.engines.spack.metadata import transports_of  # noqa: PLC0415 - slow

        views = transports_of(loaded.spack, lock).placed(_place(loaded))
        problems, notes = (*problems, *views.problems), (*notes, *views.notes)
    return problems, (*notes, *unused, *stale, *hidden)


def _look_up(
    loaded: Loaded, args: argparse.Namespace, problems: list[Problem], notes: list[Problem]
) -> str:
    """Ask the package index whether versions exist; return what could not be asked."""
    from stackproof.cli import wheel  # noqa: PLC0415 - only for wheels
    from stackproof.planner import transports_of  # noqa: PLC0415 - only for wheels

    lock = wheel.valid_lock(loaded)
    if lock is None and args.offline:
        return "versions were not looked up (--offline)"
    try:
        lock = lock or wheel.make_lock(loaded, progress.monitor(quiet=True))
        views = transports_of(loaded.wheel, lock).placed(_place(loaded))
        problems += views.problems
        notes += views.notes
    except StackproofError as error:
        if error.reason is Reason.NO_NETWORK:
            return "versions were not looked up: the package index cannot be reached"
        problems += error.problems
    return ""


def _place(loaded: Loaded) -> Location | None:
    return loaded.document.where("transports") if loaded.document else None


def _print(problems: list[Problem], notes: list[Problem]) -> None:
    for note in notes:
        print(note.worded("note"), file=sys.stderr)
    for problem in problems:
        print(problem, file=sys.stderr)
