"""What the verbs on EasyBuild stacks share: chain, lock beside the recipe, machine, build."""

from __future__ import annotations

import argparse
import os
import shutil
from dataclasses import replace
from pathlib import Path

from stackproof import executor, ids, spack_build
from stackproof.cli import stacks
from stackproof.cli.loaded import Loaded
from stackproof.command import Bind, EnvPatch
from stackproof.engines.easybuild.buildplan import build_plan
from stackproof.engines.easybuild.chain import Chain, chain
from stackproof.engines.easybuild.lock import make_lock, wants
from stackproof.engines.easybuild.metadata import transports_of
from stackproof.engines.easybuild.stack import EasyBuildLock, EasyBuildStack
from stackproof.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.executor import Built
from stackproof.host import (
    cachekinds,
    documents,
    easybuild_catalogue,
    files,
    lmod,
    shipped,
    source_mirror,
)
from stackproof.host.easybuild_sources import (
    Sources,
    choose_all,
    mirror_folders,
    obtain_all,
)
from stackproof.host.sandbox import package_hint
from stackproof.host.workspace import BuildSetup, available_cores
from stackproof.monitor import Event, Monitor
from stackproof.noun import to_data
from stackproof.plan import Plan

# How much memory a build tree may want, in bytes: generous, since a build that runs out of memory
# starts again on disk.
_BYTES_AT_LEAST = 500_000_000
_BYTES_PER_COMPONENT = 500_000_000
# Programs that every chain runs, besides those that the catalogue names.
_TOOLS = ("gcc", "make")


def chain_of(loaded: Loaded) -> Chain:
    """Return the easyconfigs that a recipe means; raises `StackproofError` with all problems."""
    where = loaded.document.where if loaded.document else None
    return chain(loaded.easybuild.request, easybuild_catalogue.load(), where)


def problems(loaded: Loaded) -> tuple[tuple[Problem, ...], tuple[Problem, ...]]:
    """Return why a stack cannot be built, and what should be known about it.

    What this machine lacks is a note: the recipe is valid, and may be built elsewhere.
    """
    stack = loaded.easybuild
    try:
        found = chain_of(loaded)
    except StackproofError as error:
        return error.problems, ()
    where = loaded.document.where("transports") if loaded.document else None
    views = transports_of(stack).placed(where)
    notes = [
        Problem(reason=p.reason, message=f"not here: {p.message}", hint=p.hint)
        for p in machine_problems(stack, found.tools, found.headers)
    ]
    _, stale = find_lock(loaded)
    notes += stale
    notes += [Problem(reason=Reason.UNSUPPORTED, message=text) for text in found.notes]
    return views.problems, (*notes, *views.notes)


def machine_problems(
    stack: EasyBuildStack, tools: tuple[str, ...], headers: tuple[str, ...]
) -> tuple[Problem, ...]:
    """Return what this machine lacks to build a stack: programs, header files, folders."""
    found = [
        Problem(
            reason=Reason.TOOL_MISSING,
            message=f"the build needs `{program}`, which is not installed",
            hint=package_hint(program),
        )
        for program in dict.fromkeys((*_TOOLS, *tools))
        if shutil.which(program) is None
    ]
    found += [
        Problem(
            reason=Reason.TOOL_MISSING,
            message=f"the build needs the header file `{header}` of the system",
            hint="install the package that has it, such as libcurl4-openssl-dev for curl/curl.h",
        )
        for header in headers
        if not any(Path(folder, header).is_file() for folder in _include_folders(stack))
    ]
    try:
        lmod.find()
    except StackproofError as error:
        found += error.problems
    places = {name: one.prefix for name, one in stack.request.externals.items()}
    if stack.request.gpu_at:
        places[stack.request.gpu] = stack.request.gpu_at.prefix
    if stack.below:
        places["on"] = stack.below.path
        places |= {f"modules {number}": path for number, path in enumerate(stack.below.modules)}
    found += [
        Problem(
            reason=Reason.FILE_MISSING,
            message=f"`{path}` ({name}) is not a folder of this machine",
            hint="name where it is on the machine that builds",
        )
        for name, path in places.items()
        if not os.path.isdir(path)
    ]
    return tuple(found)


def _include_folders(stack: EasyBuildStack) -> tuple[str, ...]:
    """Return where the system's compiler looks for header files (gcc of Debian, and others)."""
    return ("/usr/include", f"/usr/include/{stack.architecture}-linux-gnu")


def find_lock(loaded: Loaded) -> tuple[EasyBuildLock | None, tuple[Problem, ...]]:
    """Return the lock beside the recipe when it answers it, and a note when one does not."""
    lock = documents.load_noun(EasyBuildLock, loaded.lock_path)
    if lock is None or lock.wants == wants(loaded.easybuild):
        return lock, ()
    note = Problem(
        reason=Reason.LOCK_MISMATCH,
        message="the lock does not answer the recipe: versions, providers or sources have changed",
        hint="run `stackproof build --update --stop-after lock` and look at what changed",
        where=Location(file=str(loaded.lock_path)),
    )
    return None, (note,)


def solve(loaded: Loaded, mirror: str | None, monitor: Monitor) -> EasyBuildLock:
    """Return a new lock of a recipe; `mirror` is a folder that may hold source files.

    Raises `StackproofError` with all problems.
    """
    stack = loaded.easybuild
    monitor(Event(what="started", name="resolve", text="components, files and digests"))
    found = chain_of(loaded)
    places = Sources(mirror_folders(mirror), monitor)
    digests = choose_all(places, (file for one in found.easyconfigs for file in one.sources))
    lock = make_lock(stack, found, places.tool(stack.easybuild), digests)
    listed = ", ".join(one.module for one in lock.components)
    monitor(Event(what="done", name="resolve", text=listed))
    return lock


def ensure_lock(
    loaded: Loaded, mirror: str | None, monitor: Monitor, *, update: bool, locked: bool
) -> EasyBuildLock:
    """Return a lock that answers the recipe, made and written beside it when there is none.

    Raises `StackproofError` (LOCK_MISMATCH) with `locked` when one would have to be made.
    """
    lock = None if update else find_lock(loaded)[0]
    if lock is not None:
        return lock
    if locked:
        raise fail(
            Reason.LOCK_MISMATCH,
            f"`{loaded.lock_path}` does not answer this recipe, and --locked forbids to make a "
            "new one",
            hint="run `stackproof build --update --stop-after lock` and look at what changed",
        )
    lock = solve(loaded, mirror, monitor)
    stacks.write_lock(loaded, lock, monitor)
    return lock


def plan(loaded: Loaded, lock: EasyBuildLock) -> Plan:
    """Return the plan of a locked stack."""
    recipe = {loaded.path.name: loaded.path.read_text(encoding="utf-8")}
    return build_plan(loaded.easybuild, lock, recipe=recipe, csrc=shipped.benchmark_sources())


def build(loaded: Loaded, args: argparse.Namespace, monitor: Monitor) -> tuple[Built | None, str]:
    """Build the image of a recipe, and return it with the digest of its lock.

    With `--stop-after lock` no image is made.
    """
    lock = ensure_lock(loaded, args.mirror, monitor, update=args.update, locked=args.locked)
    digest = ids.content_id(to_data(lock))
    for text in lock.notes:
        monitor(Event(what="note", name="known", text=text))
    if args.stop_after:
        return None, digest
    made = plan(loaded, lock)
    if executor.is_finished(made):  # nothing has to be there for what is done already
        return executor.execute(made, "easybuild", monitor), digest
    stack = loaded.easybuild
    lacking = machine_problems(stack, lock.tools, lock.headers)
    if lacking:
        raise StackproofError(*lacking)
    _obtain(lock, Sources(mirror_folders(args.mirror), monitor))
    setup = replace(_setup(stack, lock, args, monitor), origin=loaded.origin)
    return executor.execute(made, "easybuild", monitor, setup=setup), digest


def _obtain(lock: EasyBuildLock, places: Sources) -> tuple[Path, ...]:
    """Return the source files of a lock in the cache; with EasyBuild's own where they are at hand.

    The executor asks the package index for what of EasyBuild is not in the cache then.
    """
    for file in lock.tool:
        places.bring(file)
    return obtain_all(places, (file for one in lock.components for file in one.sources))


def fill_mirror(loaded: Loaded, mirror: str | None, folder: Path, monitor: Monitor) -> None:
    """Bring everything that a recipe is built from into a folder, which `--mirror` then names.

    Raises `StackproofError`: NO_NETWORK for what cannot be had, with all problems.
    """
    lock = ensure_lock(loaded, mirror, monitor, update=False, locked=False)
    found = _obtain(lock, Sources((folder, *mirror_folders(mirror)), monitor))
    tool = tuple(executor.fetch(file, "easybuild", monitor) for file in lock.tool)
    for path in (*found, *tool):
        target = folder / source_mirror.EASYBUILD / path.name
        if not (target.is_file() and files.sha256(target) == files.sha256(path)):
            files.copy(path, target)


def outside(stack: EasyBuildStack) -> tuple[str, ...]:
    """Return the folders of the machine that a stack is built on, besides the system's compiler."""
    found = [one.prefix for one in stack.request.externals.values()]
    found += [stack.request.gpu_at.prefix] if stack.request.gpu_at else []
    found += [stack.below.path, *stack.below.modules] if stack.below else []
    return tuple(dict.fromkeys(found))


def _setup(
    stack: EasyBuildStack, lock: EasyBuildLock, args: argparse.Namespace, monitor: Monitor
) -> BuildSetup:
    program = lmod.find()
    folder = args.build_dir and Path(args.build_dir).resolve()
    place = spack_build.Place(in_memory=args.in_memory, folder=folder or None, jobs=args.jobs)
    needed = _BYTES_AT_LEAST + _BYTES_PER_COMPONENT * len(lock.components)
    return BuildSetup(
        binds=(
            *lmod.binds(program),
            *(
                Bind(source=path, target=path)
                for path in outside(stack)
                if not path.startswith("/usr/")
            ),
        ),
        environment=EnvPatch(
            set={
                "LMOD_CMD": str(program),
                "EASYBUILD_PARALLEL": str(args.jobs or available_cores()),
            }
        ),
        tree=spack_build.tree_folder(place, needed, monitor),
        kept=cachekinds.home("components"),
    )
