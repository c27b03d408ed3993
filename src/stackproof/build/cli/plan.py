"""`stackproof plan RECIPE`: the resolved stack and every step, before anything is done.

With `--explain KEY`: which file set a value, and what it took the place of. With `--graph`: a chart
of what is built on what.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from stackproof.build import graph, tail
from stackproof.build.effects import builders, locking, stacks
from stackproof.build.effects.builders import Solving
from stackproof.build.effects.loaded import Loaded
from stackproof.build.options import BuildOptions, PlanOptions, RecipeOptions
from stackproof.build.plan import Plan, Step
from stackproof.build.stack import AnyLock
from stackproof.core import noun
from stackproof.core.cli import progress
from stackproof.core.effects import files
from stackproof.core.errors import Reason, fail
from stackproof.core.ids import short

if TYPE_CHECKING:  # imported where a site is named
    from stackproof.build.effects.glibc import SiteNeeds

_FULL_COMMIT = re.compile(r"[0-9a-f]{40}")
_SOLVE_FIRST = (
    "the steps of the build follow from the lock: `stackproof build --stop-after lock` makes it"
)
_LOOK_UP_FIRST = "the ids of steps appear when there is a lock, which resolves branches and tags"


def run(asked: PlanOptions) -> int:
    """Print the plan, or where a value is from; nothing is written.

    A lock that is a question away is asked for. One that takes minutes is not made here: there
    are the steps that make it.
    """
    _check(asked)
    loaded = stacks.load_recipe(asked.recipe)
    if asked.explain is not None:
        _show(loaded, asked.recipe, asked.explain, as_json=asked.json)
        return 0
    builder = builders.of(loaded)
    engine, stack = builder.engine, loaded.stack
    if builder.solving is Solving.STEPS:  # what makes a lock is refused as a build is
        builders.refuse_wrong(engine.problems(stack, None, loaded.where))
    lock, stale = locking.find(builder, loaded)
    place = _lock_place(loaded, asked.recipe, there=lock is not None)
    progress.print_notes(*loaded.notes, *stale)
    if lock is None and builder.solving is not Solving.STEPS:
        lock = builder.solve(loaded, BuildOptions(mirror=asked.recipe.mirror), progress.monitor())
    made = engine.plan(stack, lock, loaded.sources)
    if asked.graph is not None:
        _draw(made, asked.output)
        return 0
    if lock is not None:
        findings = engine.problems(stack, lock, loaded.where)
        changed = (each for each in findings.problems if each.reason is Reason.DIGEST_MISMATCH)
        progress.print_notes(*findings.notes, *changed)
    clones = (clone for step in made.steps for clone in step.clones)
    told = _site_needs(loaded, made, asked.recipe.site, locked=lock is not None)
    known = lock is not None or all(_FULL_COMMIT.fullmatch(clone.commit) for clone in clones)
    if asked.json:
        _print_json(loaded, lock, made, told, known=known)
        return 0
    _print_rows(engine.rows(stack, lock))
    _print_rows(tuple(("swap", str(swap)) for swap in loaded.swaps))
    if builder.solving is Solving.STEPS or place.startswith(locking.NO_LOCK):
        _print_rows((("lock", place),))
    _print_rows(_needs_rows(told))
    _print_rows((("plan", short(made.id) if known else "to make the lock"),))
    _print_steps(made.steps, known=known)
    if lock is None:
        print(f"note: {_SOLVE_FIRST}", file=sys.stderr)
    if not known:
        print(f"note: {_LOOK_UP_FIRST}", file=sys.stderr)
    return 0


def _check(asked: PlanOptions) -> None:
    """Refuse options that do not go together."""
    if asked.graph is not None and asked.json:
        raise fail(Reason.USAGE, "a chart is no JSON", hint="leave out --graph, or --json")
    if asked.output is not None and asked.graph is None:
        raise fail(Reason.USAGE, "`-o` names the file of a chart", hint="say `--graph dot`")


def _site_needs(loaded: Loaded, made: Plan, site: str | None, *, locked: bool) -> SiteNeeds | None:
    if site is None:
        return None
    from stackproof.build.effects import glibc  # noqa: PLC0415 - for a site alone

    return glibc.ask(loaded, made, site, locked=locked)


def _draw(made: Plan, output: str | None) -> None:
    bills = (step.files.get(tail.BILL) for step in made.steps)
    bill = next((text for text in bills if text is not None), None)
    if bill is None:
        raise fail(Reason.UNSUPPORTED, "without a lock nothing is known to draw", hint=_SOLVE_FIRST)
    text = graph.render_dot(bill)
    if output is None:
        print(text, end="")
    else:
        files.write(output, text)


def _lock_place(loaded: Loaded, recipe: RecipeOptions, *, there: bool) -> str:
    """Return the place of the lock, or the command that makes it for the named site."""
    if there:
        return str(loaded.lock_path)
    if recipe.site is None:
        return "none that answers the recipe"
    return f"{locking.NO_LOCK}; this makes it: {locking.command(recipe)}"


def _print_rows(rows: Iterable[tuple[str, str]]) -> None:
    for word, text in rows:
        print(f"{word:<12} {text}".rstrip())


def _needs_rows(told: SiteNeeds | None) -> Iterator[tuple[str, str]]:
    if told is None:
        return
    yield from (("site lacks", text) for text in told.lacking.lacks)
    yield from (("not known", text) for text in told.lacking.unknown)


def _print_steps(steps: tuple[Step, ...], *, known: bool) -> None:
    width = max((len(step.name) for step in steps), default=0)
    for number, step in enumerate(steps, 1):
        name = short(step.id) if known else "-" * len(short(step.id))
        print(f"{number:>3}. {name}  {step.name:<{width}}  {step.description}".rstrip())


def _print_json(
    loaded: Loaded, lock: AnyLock | None, made: Plan, told: SiteNeeds | None, *, known: bool
) -> None:
    """Print everything; an id that depends on what has not been looked up yet is null."""
    data = {
        "schema": made.SCHEMA,
        "id": made.id if known else None,
        "stack": noun.to_data(loaded.stack),
        "lock": noun.to_data(lock) if lock else None,
        "swaps": [noun.to_data(swap) for swap in loaded.swaps],
        "site": noun.to_data(told) if told else None,
        "steps": [{**noun.to_data(step), "id": step.id if known else None} for step in made.steps],
    }
    print(noun.to_json(data), end="")


def _show(loaded: Loaded, options: RecipeOptions, key: str, *, as_json: bool) -> None:
    """Print every value under a key, with its place and history."""
    from stackproof.build.engines.spack.effects import recipe_files  # noqa: PLC0415 - not for plans

    settings = recipe_files.origins_of(loaded, options, key)
    if as_json:
        print(noun.to_json([noun.to_data(setting) for setting in settings]), end="")
    else:
        print("\n".join(line for setting in settings for line in setting.lines()))
