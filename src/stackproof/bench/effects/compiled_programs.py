"""Programs that arms do not bring, compiled for each of them with its own wrappers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from itertools import groupby

from stackproof.bench.effects.arms import Arms
from stackproof.bench.effects.compile_program import compile_program, solver_source
from stackproof.bench.program_spec import SHIPPED, Program
from stackproof.bench.ready import MpiWrappers, ReadyArm, mount_list
from stackproof.build.programs import place_of, source_of
from stackproof.core.effects import cache_kinds
from stackproof.core.errors import Problem, StackproofError
from stackproof.core.value import replace
from stackproof.mount.effects import mount_exec
from stackproof.mpi import families

_CXX = ("mpicxx", "mpic++", "mpiicpx", "mpiicpc", "CC")


def with_programs(arms: Arms, programs: Iterable[Program]) -> Arms:
    """Return arms that have every program with sources, compiled where they do not bring it.

    Raises `StackproofError` with what keeps any arm from having one.
    """
    wanted = [program for program in programs if program.source]
    if not wanted:
        return arms
    from stackproof.build.effects import program_files  # noqa: PLC0415 - for sources alone

    sources = {
        one.source: {} if one.source == SHIPPED else program_files.load_sources(one.sources)
        for one in {(one.source, one.sha256): one for one in wanted}.values()
    }
    problems: dict[Problem, None] = {}
    made: dict[str, ReadyArm] = {}
    for name, ready in arms.by_name.items():
        made[name] = ready
        missing = [one for one in wanted if one.name not in ready.deployment.programs]
        for kind, group in groupby(missing, key=lambda one: (one.source, one.configure)):
            try:
                made[name] = _with(made[name], tuple(group), sources[kind[0]])
            except StackproofError as error:
                problems |= {
                    replace(one, message=f"{name}: {one.message}"): None
                    for one in error.problems
                    if name != arms.null
                }
    if problems:
        raise StackproofError(*problems)
    return replace(arms, by_name=made)


def _with(
    ready: ReadyArm, programs: tuple[Program, ...], files_of: Mapping[str, bytes]
) -> ReadyArm:
    """Return an arm with programs of the same sources, which are compiled together."""
    compilers = _compilers(ready)
    first = programs[0]
    plus = "c++" in compilers.wrappers
    ours = first.source == SHIPPED
    source = solver_source() if ours else source_of(first.sources, files_of, plus=plus)
    places = {one.name: place_of(one.name, source, first.source) for one in programs}
    folder = compile_program(compilers, replace(source, outputs=tuple(sorted(places.values()))))
    paths = {name: str(folder / place) for name, place in places.items()}
    return ready.carrying(str(folder), paths)


def _compilers(ready: ReadyArm) -> MpiWrappers:
    """Return the wrappers of an arm's MPI; an image's need the image, and so it is mounted.

    Raises `StackproofError` where it has none that work.
    """
    if ready.compilers is not None:
        return ready.compilers
    if ready.uncompiled:
        raise StackproofError(*ready.uncompiled)
    deployment = ready.deployment
    facts = deployment.mpi
    family = families.get(facts.family)
    bin_folder = f"{facts.prefix}/bin"
    wrappers = {"c": f"{bin_folder}/{family.compiler}"}
    mounts = mount_list(deployment)
    named = [f"{bin_folder}/{name}" for name in _CXX]
    plus = named[:1] if mounts else [path for path in named if os.access(path, os.X_OK)]
    wrappers |= {"c++": plus[0]} if plus else {}
    start = (sys.executable, "-I", "-S", mount_exec.__file__, mounts, "--") if mounts else ()
    return MpiWrappers(
        wrappers=wrappers,
        identity=f"{ready.image.sha256} {facts.family} {facts.version} {facts.prefix}",
        env=family.environment(facts.prefix).then(deployment.env),
        start=start,
    )


def identity(arms: Arms, programs: Iterable[Program]) -> dict[str, dict[str, list[str]]]:
    """Return the folders of programs that were compiled for the arms, named by digests.

    Those of the cache are named from there, since a job's nodes may have it elsewhere.
    """
    cache = f"{cache_kinds.cache()}/"
    asked = {program.name for program in programs if program.source}
    found = {
        name: sorted(
            path.removeprefix(cache)
            for key, path in ready.deployment.programs.items()
            if key in asked
        )
        for name, ready in arms.by_name.items()
    }
    return {"compiled": found} if asked else {}
