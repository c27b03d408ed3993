"""What the verbs on Spack stacks share: the lock beside the recipe, and where a build works."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof import ids
from stackproof.cli import progress, stacks
from stackproof.cli.loaded import Loaded
from stackproof.engines import spack
from stackproof.engines.spack import locks, workers
from stackproof.engines.spack.workers import Workers
from stackproof.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.host import documents, shipped
from stackproof.monitor import Monitor
from stackproof.noun import to_data
from stackproof.spackstack import SpackLock

if TYPE_CHECKING:  # `check` and `plan` build nothing
    from stackproof.executor import Built
    from stackproof.spack_build import Request


def request(loaded: Loaded, args: argparse.Namespace) -> Request:
    """Return what is to be built, with this machine's own caches."""
    from stackproof import spack_build  # noqa: PLC0415 - slow, and only for builds

    folder = args.build_dir and Path(args.build_dir).resolve()
    if folder and args.in_memory == "yes":
        raise fail(Reason.USAGE, "`--build-dir` and `--in-memory=yes` exclude each other")
    shared = workers_of(args)
    if shared and args.in_memory == "yes":
        raise fail(
            Reason.USAGE,
            "`--on slurm` and `--in-memory=yes` exclude each other: nodes share no memory",
            hint="leave it out, or name a folder that all nodes share with --build-dir",
        )
    stack = loaded.spack
    return spack_build.Request(
        stack=stack,
        blobs=loaded.blobs,
        caches=spack_build.own_caches(stack, loaded.caches),
        csrc=shipped.benchmark_sources(),
        origin=loaded.origin,
        place=spack_build.Place(
            in_memory=args.in_memory,
            folder=folder or None,
            jobs=args.jobs,
            passed=tuple(args.pass_env),
            workers=shared,
        ),
    )


def workers_of(args: argparse.Namespace) -> Workers | None:
    """Return where packages are installed if it is not here.

    Raises `StackproofError` (USAGE) for options of a job without one, and for wrong ones.
    """
    if args.on == "local":
        given = {"nodes": args.nodes, "cluster": args.cluster, "srun-option": args.srun_option}
        lost = [f"--{name}" for name, value in given.items() if value]
        if lost:
            raise fail(
                Reason.USAGE, f"no job is asked for with {', '.join(lost)}", hint="say `--on slurm`"
            )
        return None
    options = dict(text.partition("=")[::2] for text in args.srun_option)
    found = Workers(nodes=args.nodes or 1, options=options, cluster=args.cluster, jobs=args.jobs)
    wrong = workers.problems(found)
    if wrong:
        raise StackproofError(*wrong)
    return found


def valid_lock(loaded: Loaded) -> SpackLock | None:
    """Return the lock beside the recipe when it answers what the recipe asks; None otherwise.

    Raises `StackproofError` when the lock file is there and is not a lock of Spack's.
    """
    lock = documents.load_noun(SpackLock, loaded.lock_path)
    return lock if lock is not None and lock.wants == spack.wants(loaded.spack) else None


def find_lock(loaded: Loaded) -> tuple[SpackLock | None, tuple[Problem, ...]]:
    """Return the lock as `valid_lock` does, and a note of what differs in one that is stale."""
    lock = documents.load_noun(SpackLock, loaded.lock_path)
    if lock is None or lock.wants == spack.wants(loaded.spack):
        return lock, ()
    note = Problem(
        reason=Reason.LOCK_MISMATCH,
        message=f"the lock does not answer the recipe: {_differences(loaded, lock)}",
        hint="run `stackproof build --update --stop-after lock` and look at what changed",
        where=Location(file=str(loaded.lock_path)),
    )
    return None, (note,)


def system_notes(lock: SpackLock, here: str) -> tuple[Problem, ...]:
    """Return a note when a lock was made on another operating system than `here`.

    Spack builds it all the same: folders, records and the C library that it counts on are then
    those of the other one. `here` is as Spack names it (debian12), empty when it is not known.
    """
    others = [name for name in locks.systems(lock) if name != here]
    if not here or not others:
        return ()
    note = Problem(
        reason=Reason.LOCK_MISMATCH,
        message=f"the lock was made on {', '.join(others)}, and this machine is {here}",
        hint="make one here: `stackproof build --update --stop-after lock`",
    )
    return (note,)


def _differences(loaded: Loaded, lock: SpackLock) -> str:
    from stackproof.lock_differences import lock_differences  # noqa: PLC0415 - only for stale ones

    return "; ".join(lock_differences(loaded.spack, lock))


def ensure_lock(
    loaded: Loaded, wanted: Request, monitor: Monitor, *, update: bool, locked: bool
) -> SpackLock:
    """Return a lock that answers the recipe, made and written beside it when there is none.

    Raises `StackproofError` (LOCK_MISMATCH) with `locked` when one would have to be made.
    """
    lock = None if update else valid_lock(loaded)
    if lock is not None:
        return lock
    if locked:
        _, stale = find_lock(loaded)
        raise fail(
            Reason.LOCK_MISMATCH,
            f"`{loaded.lock_path}`: "
            + (stale[0].message if stale else "it does not exist")
            + ", and --locked forbids to make a new one",
            hint="run `stackproof build --update --stop-after lock` and look at what changed",
        )
    from stackproof import spack_build  # noqa: PLC0415 - slow, and only for builds

    lock = spack_build.make_lock(wanted, monitor)
    stacks.write_lock(loaded, lock, monitor)
    return lock


def build(loaded: Loaded, args: argparse.Namespace, monitor: Monitor) -> tuple[Built | None, str]:
    """Build the image of a Spack stack; returns None for it where only the lock is asked for.

    With the lock's digest. Raises `StackproofError` for what is known not to work.
    """
    from stackproof import spack_build  # noqa: PLC0415 - slow, and only for builds
    from stackproof.cli import known  # noqa: PLC0415 - as above
    from stackproof.host import spackoffer  # noqa: PLC0415 - as above

    found = spack.problems(loaded.spack)
    if found:
        raise StackproofError(*found)
    wanted = request(loaded, args)
    _refuse_known(loaded, None if args.update else valid_lock(loaded))
    lock = ensure_lock(loaded, wanted, monitor, update=args.update, locked=args.locked)
    digest = ids.content_id(to_data(lock))
    progress.print_notes(*_refuse_known(loaded, lock), *known.shadow_notes(loaded, lock))
    if args.stop_after:
        return None, digest
    progress.print_notes(*system_notes(lock, spackoffer.operating_system()))
    return spack_build.build(wanted, lock, monitor), digest


def _refuse_known(loaded: Loaded, lock: SpackLock | None) -> tuple[Problem, ...]:
    """Refuse versions that are known not to work together, before hours go into building them.

    Returns what is only to be known. Raises `StackproofError` as `check` does.
    """
    from stackproof.cli import known  # noqa: PLC0415 - slow, and only for builds

    conflicts, notes = known.conflict_problems(loaded, lock)
    if conflicts:
        raise StackproofError(*conflicts)
    return notes
