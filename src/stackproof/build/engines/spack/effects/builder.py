"""The builder of Spack stacks: recipe and what belongs to it, lock, and where a build works."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof.build.effects import builders, stacks
from stackproof.build.effects.builders import Reading, Solving
from stackproof.build.effects.loaded import Loaded
from stackproof.build.engine import Findings
from stackproof.build.engines.spack import locks
from stackproof.build.engines.spack.engine import ENGINE
from stackproof.build.engines.spack.stack import Caches, SpackLock, SpackStack
from stackproof.build.options import BuildOptions
from stackproof.build.plan import Plan
from stackproof.build.swap import Swapper
from stackproof.core.errors import Problem, Reason, StackproofError, fail
from stackproof.core.monitor import Event, Monitor
from stackproof.core.value import replace

if TYPE_CHECKING:  # `check` and `plan` build nothing
    from stackproof.build.effects.workspace import BuildSetup
    from stackproof.build.engines.spack.effects.build import Request
    from stackproof.build.engines.spack.workers import Workers
    from stackproof.recipe.composition import Composed


class SpackBuilder:
    """See `Builder`."""

    engine = ENGINE
    lock_kind = SpackLock
    solving = Solving.STEPS
    refused: Mapping[str, Problem] = {"from": builders.NO_RPMS}

    @property
    def swap(self) -> Swapper:
        """See `Builder`."""
        from stackproof.build.engines.spack.swap import swap  # noqa: PLC0415 - for words alone

        return swap

    def load(self, reading: Reading) -> Loaded:
        """See `Builder`."""
        composed = reading.composed
        return _folder(reading) if composed is None else _file(reading, composed)

    def check(self, loaded: Loaded, lock: SpackLock | None, *, whole: bool) -> Findings:
        """See `Builder`: versions known not to work together are refused before hours of work."""
        from stackproof.build.engines.spack.effects import known  # noqa: PLC0415 - slow

        del whole
        problems, notes = known.conflict_problems(loaded, lock)
        return Findings(problems=problems, notes=(*notes, *known.shadow_notes(loaded, lock)))

    def solve(self, loaded: Loaded, options: BuildOptions, monitor: Monitor) -> SpackLock:
        """See `Builder`."""
        from stackproof.build.engines.spack.effects import build as spack_build  # noqa: PLC0415 - slow, and only for builds

        return spack_build.make_lock(request(loaded, options), monitor)

    def setup(
        self, loaded: Loaded, lock: SpackLock, plan: Plan, options: BuildOptions, monitor: Monitor
    ) -> BuildSetup:
        """See `Builder`."""
        from stackproof.build.engines.spack.effects import build as spack_build  # noqa: PLC0415 - slow, and only for builds
        from stackproof.build.engines.spack.effects import machine  # noqa: PLC0415 - as above

        del plan
        for note in system_notes(lock, machine.operating_system()):
            monitor(Event(what="note", name="system", text=f"{note.message}: {note.hint}"))
        return spack_build.setup(request(loaded, options), lock, monitor)

    def fill_mirror(
        self, loaded: Loaded, lock: SpackLock, options: BuildOptions, folder: Path, monitor: Monitor
    ) -> frozenset[Path]:
        """See `Builder`."""
        from stackproof.build.engines.spack.effects import build as spack_build  # noqa: PLC0415 - slow, and only for builds

        clones = _export(lock, folder, monitor)
        spack_build.fill_mirror(request(loaded, options), lock, folder, monitor)
        return frozenset(clones)


BUILDER = SpackBuilder()


def request(loaded: Loaded, options: BuildOptions) -> Request:
    """Return what is to be built, with this machine's own caches."""
    from stackproof.build.engines.spack.effects import build as spack_build  # noqa: PLC0415 - slow, and only for builds

    folder = options.build_dir and Path(options.build_dir).resolve()
    if folder and options.in_memory == "yes":
        raise fail(Reason.USAGE, "`--build-dir` and `--in-memory=yes` exclude each other")
    shared = workers_of(options)
    if shared and options.in_memory == "yes":
        raise fail(
            Reason.USAGE,
            "`--on slurm` and `--in-memory=yes` exclude each other: nodes share no memory",
            hint="leave it out, or name a folder that all nodes share with --build-dir",
        )
    stack: SpackStack = loaded.stack
    return spack_build.Request(
        stack=stack,
        blobs=loaded.blobs,
        caches=spack_build.own_caches(stack, loaded.given_caches or Caches()),
        origin=loaded.origin,
        place=spack_build.BuildPlace(
            in_memory=options.in_memory,
            folder=folder or None,
            jobs=options.jobs,
            passed=options.pass_env,
            workers=shared,
        ),
    )


def workers_of(options: BuildOptions) -> Workers | None:
    """Return where packages are installed if it is not here.

    Raises `StackproofError` (USAGE) for options of a job without one, and for wrong ones.
    """
    if options.on == "local":
        given = {
            "nodes": options.nodes,
            "cluster": options.cluster,
            "srun-option": options.srun_option,
        }
        lost = [f"--{name}" for name, value in given.items() if value]
        if lost:
            raise fail(
                Reason.USAGE, f"no job is asked for with {', '.join(lost)}", hint="say `--on slurm`"
            )
        return None
    from stackproof.build.engines.spack import workers  # noqa: PLC0415 - as they are asked for

    named = dict(text.partition("=")[::2] for text in options.srun_option)
    found = workers.Workers(
        nodes=options.nodes or 1, options=named, cluster=options.cluster, jobs=options.jobs
    )
    wrong = workers.problems(found)
    if wrong:
        raise StackproofError(*wrong)
    return found


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


def _export(lock: SpackLock, folder: Path, monitor: Monitor) -> set[Path]:
    """Put Spack and the package repositories of a lock into a mirror."""
    from stackproof.build.effects import git, source_mirror  # noqa: PLC0415 - for mirrors alone

    found = set()
    for clone in lock.clones:
        target = git.export(clone.url, clone.commit, clone.ref, folder / source_mirror.GIT, monitor)
        if target is None:
            text = f"{clone.url} is a path of this machine: take it along yourself"
            monitor(Event(what="note", name="clone", text=text))
        else:
            found.add(target)
    return found


def _folder(reading: Reading) -> Loaded:
    """Return the stack of a Stackinator recipe's folder."""
    from stackproof.build.engines.spack.effects import recipe_files, stackinator  # noqa: PLC0415

    options, facts = reading.options, reading.facts
    load = partial(stackinator.load, str(reading.path), mirrors=options.mirror)
    if options.site is None:
        return load(architecture=facts.get("architecture"))
    place = recipe_files.load_place(options.site, 1)
    found = load(
        site=place.folder or place.cluster,  # a folder is read as the recipe's version has it
        architecture=facts.get("architecture") or place.facts.get("architecture"),
    )
    return replace(found, site=place.facts["site"])


def _file(reading: Reading, composed: Composed) -> Loaded:
    """Return the stack of one combination of a recipe file."""
    from stackproof.build.engines.spack import recipe as spack_recipe  # noqa: PLC0415 - slow
    from stackproof.build.engines.spack.effects import recipe_files, stackinator  # noqa: PLC0415
    from stackproof.site.effects import toolchain  # noqa: PLC0415
    from stackproof.site.effects.probe import LOCAL  # noqa: PLC0415

    chain, options = reading.chain, reading.options
    found = spack_recipe.problems(composed, chain)
    if found:
        raise StackproofError(*found)
    generation = spack_recipe.generation_of(composed.document.data)
    place = recipe_files.load_place(options.site, generation)
    facts = {"architecture": toolchain.architecture(), **place.facts, **reading.facts}
    if spack_recipe.asks_for_microarchitecture(composed.document) and options.site in {None, LOCAL}:
        facts = {**toolchain.processor_facts(facts["architecture"]), **facts}
    folder, blobs = recipe_files.load_files(composed, chain)
    of_nodes = dict(facts)
    if options.site in {None, LOCAL} and "fabric" not in reading.facts:
        of_nodes.pop("fabric", None)  # where it is built need not be where its messages travel
    stack, findings = spack_recipe.read(composed, folder, place.cluster, of_nodes)
    findings.raise_problems()
    caches, more = (
        stackinator.load_caches(options.mirror, stack.mount) if options.mirror else (None, ())
    )
    return Loaded(
        path=reading.path,
        document=composed.document,
        composed=composed,
        stack=stack,
        blobs={**place.blobs, **blobs},
        given_caches=caches,
        notes=(*stacks.undecided(composed), *findings.notes, *more),
        variant=stacks.variant(composed, facts),
        with_site=True,
        site=place.facts["site"] if options.site and "site" not in composed.tested else "",
    )
