"""The builder of EasyBuild stacks: chain, source files, machine, and where a build works."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from stackproof.build.effects import builders, executor, rootfs, source_mirror, stacks
from stackproof.build.effects.builders import Reading, Solving
from stackproof.build.effects.loaded import Loaded
from stackproof.build.effects.workspace import BuildSetup, available_cores
from stackproof.build.engine import Findings
from stackproof.build.engines.easybuild import tool
from stackproof.build.engines.easybuild.chain import Chain, chain
from stackproof.build.engines.easybuild.effects import catalogue, lmod, own_files
from stackproof.build.engines.easybuild.effects import progress as easybuild_progress
from stackproof.build.engines.easybuild.effects.sources import (
    SourceFinder,
    choose_all,
    mirror_folders,
    obtain_all,
)
from stackproof.build.engines.easybuild.engine import ENGINE, HEADERS, outside
from stackproof.build.engines.easybuild.recipe import parse_easybuild_recipe
from stackproof.build.engines.easybuild.stack import EasyBuildLock, EasyBuildStack, make_lock
from stackproof.build.engines.spack.effects import build as spack_build
from stackproof.build.options import BuildOptions
from stackproof.build.plan import Plan
from stackproof.build.swap import Swapper
from stackproof.core.command import Bind, EnvPatch
from stackproof.core.effects import cache_kinds, files
from stackproof.core.effects.sandbox import package_hint
from stackproof.core.errors import Problem, Reason, StackproofError
from stackproof.core.monitor import Event, Monitor

# How much memory a build tree may want, in bytes: generous, since a build that runs out of memory
# starts again on disk.
_BYTES_AT_LEAST = 500_000_000
_BYTES_PER_COMPONENT = 500_000_000
# Programs that every chain runs, besides those that the catalogue names.
_TOOLS = ("gcc", "make")


class EasyBuildBuilder:
    """See `Builder`."""

    engine = ENGINE
    lock_kind = EasyBuildLock
    solving = Solving.FILES
    refused: Mapping[str, Problem] = {
        "from": builders.NO_RPMS,
        "on": Problem(
            reason=Reason.USAGE, message="`--on slurm` is for recipes with `engine: spack`"
        ),
    }

    @property
    def swap(self) -> Swapper:
        """See `Builder`; a file is looked at, and kept in the cache by its digest."""
        return own_files.swap

    def load(self, reading: Reading) -> Loaded:
        """See `Builder`."""
        composed = reading.composed
        if composed is None:
            raise TypeError(f"{reading.path} is a folder")
        mirror_folders(reading.options.mirror)  # says what is wrong with it, before all else
        facts = stacks.build_facts(reading.options, composed)
        return Loaded(
            path=reading.path,
            document=composed.document,
            composed=composed,
            stack=parse_easybuild_recipe(composed.document, facts),
            notes=stacks.undecided(composed),
            variant=stacks.variant(composed, facts),
        )

    def check(self, loaded: Loaded, lock: EasyBuildLock | None, *, whole: bool) -> Findings:
        """See `Builder`.

        What this machine lacks is a note: the recipe is valid, and may be built elsewhere.
        """
        if not whole:
            return Findings(notes=_known(lock.notes if lock else ()))
        try:
            found = _chain_of(loaded)
        except StackproofError as error:
            return Findings(problems=error.problems)
        lacking = (
            Problem(reason=p.reason, message=f"not here: {p.message}", hint=p.hint)
            for p in machine_problems(loaded.stack, found.tools, found.headers, loaded.root)
        )
        return Findings(notes=(*lacking, *_known(found.notes)))

    def solve(self, loaded: Loaded, options: BuildOptions, monitor: Monitor) -> EasyBuildLock:
        """See `Builder`: the mirror is a folder that may hold source files."""
        stack: EasyBuildStack = loaded.stack
        monitor(Event(what="started", name="resolve", text="components, files and digests"))
        found = _chain_of(loaded)
        places = SourceFinder(mirror_folders(options.mirror), monitor)
        digests = choose_all(places, (file for one in found.easyconfigs for file in one.sources))
        lock = make_lock(stack, found, places.tool(stack.easybuild), digests)
        listed = ", ".join(one.module for one in lock.components)
        monitor(Event(what="done", name="resolve", text=listed))
        return lock

    def setup(
        self,
        loaded: Loaded,
        lock: EasyBuildLock,
        plan: Plan,
        options: BuildOptions,
        monitor: Monitor,
    ) -> BuildSetup:
        """See `Builder`."""
        if executor.is_finished(plan):  # nothing has to be there for what is done already
            return BuildSetup()
        lacking = machine_problems(loaded.stack, lock.tools, lock.headers, loaded.root)
        if lacking:
            raise StackproofError(*lacking)
        _obtain(lock, SourceFinder(mirror_folders(options.mirror), monitor))
        return _setup(loaded, lock, options, monitor)

    def fill_mirror(
        self,
        loaded: Loaded,
        lock: EasyBuildLock,
        options: BuildOptions,
        folder: Path,
        monitor: Monitor,
    ) -> frozenset[Path]:
        """See `Builder`; raises `StackproofError`: NO_NETWORK for what cannot be had."""
        del loaded
        found = _obtain(lock, SourceFinder((folder, *mirror_folders(options.mirror)), monitor))
        own = tuple(executor.fetch(file, tool.fetch_command, monitor) for file in lock.tool)
        for path in (*found, *own):
            target = folder / source_mirror.EASYBUILD / path.name
            if not (target.is_file() and files.sha256(target) == files.sha256(path)):
                files.copy(path, target)
        return frozenset()


BUILDER = EasyBuildBuilder()


def _chain_of(loaded: Loaded) -> Chain:
    """Return the easyconfigs that a recipe means; raises `StackproofError` with all problems."""
    where = loaded.document.where if loaded.document else None
    return chain(loaded.stack.request, catalogue.load(), where)


def _known(texts: tuple[str, ...]) -> tuple[Problem, ...]:
    return tuple(Problem(reason=Reason.UNSUPPORTED, message=text) for text in texts)


def machine_problems(
    stack: EasyBuildStack,
    tools: tuple[str, ...],
    headers: tuple[str, ...],
    root: Path | None = None,
) -> tuple[Problem, ...]:
    """Return what this machine lacks to build a stack: programs, header files, folders.

    With the root of another system programs, header files and what is below `/usr` are its own.
    """
    found = [
        _missing(program, root)
        for program in dict.fromkeys((*_TOOLS, *(["python3"] if root else []), *tools))
        if not rootfs.has(program, root)
    ]
    base = os.fspath(root) if root else ""
    found += [
        Problem(
            reason=Reason.TOOL_MISSING,
            message=f"the build needs the header file `{header}` of the system",
            hint=f"install the package that has it{_package_of(header)}",
        )
        for header in headers
        if not any(Path(base + folder, header).is_file() for folder in _include_folders(stack))
    ]
    try:
        lmod.find(root)
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
        if not os.path.isdir(base + path if path.startswith("/usr/") else path)
    ]
    return tuple(found)


def _missing(program: str, root: Path | None) -> Problem:
    if root is not None:
        return rootfs.missing(program, root)
    return Problem(
        reason=Reason.TOOL_MISSING,
        message=f"the build needs `{program}`, which is not installed",
        hint=package_hint(program),
    )


def _package_of(header: str) -> str:
    package, _ = HEADERS.get(header, ("", ""))
    return f", on Debian and Ubuntu {package}" if package else ""


def _include_folders(stack: EasyBuildStack) -> tuple[str, ...]:
    """Return where the system's compiler looks for header files (gcc of Debian, and others)."""
    return ("/usr/include", f"/usr/include/{stack.architecture}-linux-gnu")


def _obtain(lock: EasyBuildLock, places: SourceFinder) -> tuple[Path, ...]:
    """Return the source files of a lock in the cache; with EasyBuild's own where they are at hand.

    The executor asks the package index for what of EasyBuild is not in the cache then.
    """
    for file in lock.tool:
        places.bring(file)
    return obtain_all(places, (file for one in lock.components for file in one.sources))


def _setup(
    loaded: Loaded, lock: EasyBuildLock, options: BuildOptions, monitor: Monitor
) -> BuildSetup:
    program = lmod.find(loaded.root)
    folder = options.build_dir and Path(options.build_dir).resolve()
    place = spack_build.BuildPlace(
        in_memory=options.in_memory, folder=folder or None, jobs=options.jobs
    )
    needed = _BYTES_AT_LEAST + _BYTES_PER_COMPONENT * len(lock.components)
    return BuildSetup(
        binds=(
            *lmod.binds(program),
            *(
                Bind(source=path, target=path)
                for path in outside(loaded.stack)
                if not path.startswith("/usr/")
            ),
        ),
        environment=EnvPatch(
            set={
                "LMOD_CMD": str(program),
                "EASYBUILD_PARALLEL": str(options.jobs or available_cores()),
            }
        ),
        tree=spack_build.tree_folder(place, needed, monitor),
        kept=cache_kinds.home("components"),
        fetch_command=tool.fetch_command,
        install=easybuild_progress.install,
    )
