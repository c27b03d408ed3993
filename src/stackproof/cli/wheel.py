"""What the verbs on stacks of wheels share: the lock beside the recipe."""

from __future__ import annotations

from stackproof.cli import stacks
from stackproof.cli.loaded import Loaded
from stackproof.errors import Problem, Reason, StackproofError
from stackproof.host import documents
from stackproof.monitor import Event, Monitor
from stackproof.stack import Lock


def valid_lock(loaded: Loaded) -> Lock | None:
    """Return the lock beside the recipe when it answers what the recipe asks; None otherwise.

    Raises `StackproofError` when the lock file is there and is not a lock.
    """
    from stackproof.engines import wheel  # noqa: PLC0415 - not for Spack stacks

    lock = documents.load_noun(Lock, loaded.lock_path)
    return lock if lock is not None and lock.wants == wheel.wants(loaded.wheel) else None


def make_lock(loaded: Loaded, monitor: Monitor) -> Lock:
    """Resolve the recipe to exact files with the package index."""
    from stackproof.executor import lock_stack  # noqa: PLC0415 - not for Spack stacks

    monitor(Event(what="started", name="resolve", text="exact versions and digests"))
    try:
        lock = lock_stack(loaded.wheel)
    except StackproofError as error:
        raise (stacks.placed(error, loaded.document) if loaded.document else error) from None
    found = ", ".join(f"{a.name} {a.version}" for a in lock.artefacts)
    monitor(Event(what="done", name="resolve", text=found))
    return lock


def ensure_lock(loaded: Loaded, monitor: Monitor, *, update: bool, locked: bool) -> Lock:
    """Return a lock that answers the recipe, made and written beside it when there is none.

    Raises `StackproofError` (LOCK_MISMATCH) with `locked` when one would have to be made.
    """
    lock = None if update else valid_lock(loaded)
    if lock is not None:
        return lock
    if locked:
        raise StackproofError(
            Problem(
                reason=Reason.LOCK_MISMATCH,
                message=f"`{loaded.lock_path}` does not answer this recipe, and --locked forbids "
                "to make a new one",
                hint="run `stackproof build --update` and look at what changed",
            )
        )
    lock = make_lock(loaded, monitor)
    stacks.write_lock(loaded, lock, monitor)
    return lock
