"""`stackproof check RECIPE`: every problem at once, or that there is none."""

from __future__ import annotations

import json
import sys

from stackproof.build.effects import builders, locking, stacks
from stackproof.build.effects.builders import Solving
from stackproof.build.effects.loaded import Loaded
from stackproof.build.engine import Findings
from stackproof.build.options import BuildOptions, RecipeCheckOptions
from stackproof.core.cli import progress
from stackproof.core.errors import ExitCode, Problem, Reason, StackproofError, problems_data
from stackproof.core.value import Value

_NOT_LOOKED_UP = "versions were not looked up"
_UNSOLVED = "names and versions of packages were not looked up: making the lock does that"


def run(asked: RecipeCheckOptions) -> int:
    """Check a recipe, every combination of its matrix; the exit code is the first problem's."""
    recipe = asked.recipe.changed(matrix=not asked.recipe.choose)
    found = Findings()
    remark, locked = "", True
    try:
        for loaded in stacks.load_recipes(recipe):
            checked = _findings(loaded, asked)
            found = found.also(checked.findings.problems, checked.findings.notes)
            remark, locked = checked.remark or remark, checked.locked and locked
    except StackproofError as error:
        from stackproof.build.effects import other_files  # noqa: PLC0415 - for those alone
        from stackproof.build.engines.spack.effects import known  # noqa: PLC0415 - slow

        of_others = other_files.problems(asked.recipe.recipe, asked.recipe.site)
        of_spack = known.environment_problems(asked.recipe.recipe)
        found = found.also((*error.problems, *of_others, *of_spack))
    problems = list(dict.fromkeys(found.problems))
    notes = list(dict.fromkeys(found.notes))
    if problems and all(problem.reason is Reason.SITE_INCOMPLETE for problem in problems):
        notes, remark = [], ""  # of a stack that nobody can decide before the machine was asked
    code = problems[0].reason.exit_code if problems else ExitCode.DONE
    _print(problems, notes)
    if asked.json:
        data = {**problems_data(code, problems, notes), "locked": locked}
        print(json.dumps(data, indent=1))
    elif not (problems or locked) and (asked.recipe.site is not None or remark == _UNSOLVED):
        print(f"{asked.recipe.recipe}: valid, {locking.NO_LOCK}")
        print(f"note: this makes it: {locking.command(asked.recipe)}", file=sys.stderr)
    elif not problems:
        print(f"{asked.recipe.recipe}: valid")
    if remark:
        print(f"note: {remark}", file=sys.stderr)
    return int(code)


class _Checked(Value):
    """The findings on one stack; `locked` is true where a lock beside the recipe answers it.

    `remark` names what was not looked up.
    """

    findings: Findings
    locked: bool
    remark: str = ""


def _findings(loaded: Loaded, asked: RecipeCheckOptions) -> _Checked:
    """Check one stack."""
    builder = builders.of(loaded)
    found = Findings(notes=loaded.notes)
    lock, stale = locking.find(builder, loaded)
    locked = lock is not None
    remark = _UNSOLVED if builder.solving is Solving.STEPS and not locked else ""
    if lock is None and builder.solving is Solving.QUESTION:
        if asked.offline:
            remark = f"{_NOT_LOOKED_UP} (--offline)"
        else:
            try:
                lock = builder.solve(loaded, BuildOptions(), progress.monitor(quiet=True))
            except StackproofError as error:
                if error.reason is not Reason.NO_NETWORK:
                    return _Checked(findings=found.also(error.problems, stale), locked=locked)
                remark = f"{_NOT_LOOKED_UP}: the package index cannot be reached"
    for more in (
        builder.engine.problems(loaded.stack, lock, loaded.where),
        Findings(notes=stale),
        builder.check(loaded, lock, whole=True),
    ):
        found = found.also(more.problems, more.notes)
    return _Checked(findings=found, locked=locked, remark=remark)


def _print(problems: list[Problem], notes: list[Problem]) -> None:
    for note in notes:
        print(note.worded("note"), file=sys.stderr)
    for problem in problems:
        print(problem, file=sys.stderr)
