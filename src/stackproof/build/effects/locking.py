"""The lock of a recipe, of any engine: found beside it, or made and written there."""

from __future__ import annotations

import shlex
from typing import Any

from stackproof.build.effects.builders import Builder
from stackproof.build.effects.loaded import Loaded
from stackproof.build.options import BuildOptions, RecipeOptions
from stackproof.core.effects import documents
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.monitor import Event, Monitor
from stackproof.core.value import replace

NO_LOCK = "no lock for this site"
"""What is said of a recipe that is valid on a site and has no lock there."""
_UPDATE = "run `stackproof build --update --stop-after lock` and look at what changed"


def find(builder: Builder, loaded: Loaded) -> tuple[Any | None, tuple[Problem, ...]]:
    """Return the lock beside the recipe when it answers it, and a note when one does not.

    Raises `StackproofError` when the file is there and is no lock of this engine.
    """
    lock = documents.load_noun(builder.lock_kind, loaded.lock_path)
    differs = "" if lock is None else builder.engine.stale(loaded.stack, lock)
    if not differs:
        return lock, ()
    # One without a site's name counts for all that have none of their own, and need not fit each.
    own = loaded.lock_path.name == loaded.new_lock_path.name
    note = Problem(
        reason=Reason.LOCK_MISMATCH,
        message=f"the lock does not answer the recipe{'' if own else ' at this site'}: {differs}",
        hint=_UPDATE if own else None,
        where=Location(file=str(loaded.lock_path)),
    )
    return None, (note,)


def command(recipe: RecipeOptions) -> str:
    """Return the command that makes the lock of a recipe for the site that was named."""
    given = (
        ("--site", filter(None, [recipe.site])),
        ("--fact", recipe.fact),
        ("--choose", recipe.choose),
        ("--with", recipe.swap),
        ("--with-source", recipe.with_source),
        ("--with-patch", recipe.with_patch),
        ("--from", filter(None, [recipe.rpms])),
        ("--mirror", filter(None, [recipe.mirror])),
    )
    words = [word for option, texts in given for text in texts for word in (option, text)]
    ending = ("--update", "--stop-after", "lock", recipe.recipe)
    return shlex.join(("stackproof", "build", *words, *ending))


def need(builder: Builder, loaded: Loaded, recipe: RecipeOptions) -> Any:
    """Return the lock beside the recipe; raises `StackproofError` (LOCK_MISMATCH) without one."""
    lock, stale = find(builder, loaded)
    if lock is None:
        none = Problem(
            reason=Reason.LOCK_MISMATCH,
            message="there is no lock that answers the recipe",
            where=Location(file=str(loaded.lock_path)),
        )
        (problem,) = stale or (none,)
        raise StackproofError(replace(problem, hint=f"this makes it: {command(recipe)}"))
    return lock


def ensure(
    builder: Builder, loaded: Loaded, options: BuildOptions, monitor: Monitor,
    *, update: bool = False, locked: bool = False,
) -> Any:  # fmt: skip
    """Return a lock that answers the recipe, made and written beside it when there is none.

    Raises `StackproofError` (LOCK_MISMATCH) with `locked` when one would have to be made.
    """
    lock, stale = (None, ()) if update else find(builder, loaded)
    if lock is not None:
        return lock
    if locked:
        differs = stale[0].message.partition(": ")[2] if stale else "it does not exist"
        raise fail(
            Reason.LOCK_MISMATCH,
            f"`{loaded.lock_path}` does not answer the recipe: {differs}, and --locked forbids to "
            "make a new one",
            hint=_UPDATE,
        )
    lock = builder.solve(loaded, options, monitor)
    write(loaded, lock, monitor)
    return lock


def write(loaded: Loaded, lock: object, monitor: Monitor) -> None:
    """Write a new lock where it belongs, and say where.

    Raises `StackproofError` as `outputs.write` does, with what to do where nobody may write beside
    the recipe.
    """
    from stackproof.core.effects import outputs  # noqa: PLC0415 - for new locks alone
    from stackproof.core.noun import to_json  # noqa: PLC0415 - as above

    path = loaded.new_lock_path
    try:
        outputs.write(path, to_json(lock), "lock")
    except StackproofError as error:
        if error.reason is not Reason.NOT_PERMITTED:
            raise
        where = "this folder" if loaded.by_name else "the recipe's folder"
        remedy = (
            "go to a folder that you may write to"
            if loaded.by_name
            else f"copy the recipe to a folder of yours: cp {loaded.path} ."
        )
        hint = f"the lock is written to {where}, for the next build; {remedy}"
        raise StackproofError(replace(error.problems[0], hint=hint)) from None
    monitor(Event(what="note", name="lock", text=f"written to {path}"))
