"""`stackproof check RECIPE`: every problem at once, or that there is none."""

from __future__ import annotations

import argparse
import json
import sys

from stackproof.cli import progress, stacks
from stackproof.errors import ExitCode, Location, Problem, Reason, StackproofError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    stacks.add_arguments(parser)
    parser.add_argument(
        "--offline", action="store_true", help="do not ask the package index whether versions exist"
    )
    parser.add_argument("--json", action="store_true", help="print the problems as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Check a recipe; the exit code is the first problem's."""
    problems: tuple[Problem, ...] = ()
    note = ""
    try:
        loaded = stacks.load_recipe(args)
        if stacks.valid_lock(loaded) is None:
            if args.offline:
                note = "versions were not looked up (--offline)"
            else:
                stacks.make_lock(loaded, progress.monitor(quiet=True))
    except StackproofError as error:
        if error.reason is Reason.NO_NETWORK:
            note = "versions were not looked up: the package index cannot be reached"
        else:
            problems = error.problems
    if args.json:
        print(json.dumps([_data(problem) for problem in problems], indent=1))
    elif problems:
        print("\n".join(str(problem) for problem in problems), file=sys.stderr)
    else:
        print(f"{args.recipe}: valid")
    if note:
        print(f"note: {note}", file=sys.stderr)
    return int(problems[0].reason.exit_code if problems else ExitCode.DONE)


def _data(problem: Problem) -> dict[str, object]:
    where = problem.where or Location(file="")
    return {
        "reason": problem.reason,
        "message": problem.message,
        "hint": problem.hint,
        "file": where.file,
        "line": where.line,
        "column": where.column,
    }
