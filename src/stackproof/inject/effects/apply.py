"""A replacement put under programs on disk, judged before and traced after, and taken back."""

from __future__ import annotations

import os
import posixpath
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from stackproof.core.effects import files
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.inject.eessi import Filling, family_folder, plan_filling, variant_name
from stackproof.inject.effects import named, staging
from stackproof.inject.effects.check import machine_of
from stackproof.inject.effects.staging import Injection
from stackproof.inject.judge import Question, judge
from stackproof.inject.model import Cause, Effect, InjectionVerdict, Judgement
from stackproof.inject.program import Demand, demand_of
from stackproof.inject.replacement import Replacement, find_replacement
from stackproof.inject.wrapper import Wrapping, plan_wrapping
from stackproof.linking.effects.view import RootView
from stackproof.linking.loader import Closure, LoaderSettings, load_program
from stackproof.linking.loader.closure import usual_interpreter

_REASONS = {
    InjectionVerdict.FAILS: Reason.INJECTION_FAILS,
    InjectionVerdict.UNKNOWN: Reason.INJECTION_UNKNOWN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Program:
    """A program as it is now: what it loads, and what it asks of MPI."""

    path: str
    closure: Closure
    demand: Demand

    @property
    def interpreter(self) -> str:
        """Return the path of its loader."""
        elf = self.closure.program.elf
        return elf.interpreter or usual_interpreter(elf)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    """Programs, what is put under them, and where: EESSI's folder, or a folder of start scripts.

    `family`, `compiler` and `accelerator` are EasyBuild's names, for EESSI alone.
    """

    programs: tuple[str, ...]
    replacement: str
    eessi: str | None = None
    wrapper: str | None = None
    family: str = ""
    compiler: str = ""
    accelerator: str = ""
    isa: str | None = None
    accept_unknown: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What is said at the end: the place, the files in it, and what is left to be done."""

    place: str
    files: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def apply(options: ApplyOptions) -> Done:
    """Make the replacement, or say what would be made.

    Raises `StackproofError`: USAGE, INJECTION_FAILS, INJECTION_UNKNOWN, and what reading programs
    and writing files raise.
    """
    if options.wrapper and (options.family or options.compiler or options.accelerator):
        raise fail(
            Reason.USAGE, "`--family`, `--compiler` and `--accelerator` are for `--eessi` only"
        )
    if options.eessi:
        return _eessi(options, options.eessi)
    return _wrapped(options, options.wrapper or "")


def undo(name: str) -> tuple[str, Injection]:
    """Put back what was at a place before; return the place and what was recorded of it."""
    place = staging.real_place(name)
    if not os.path.islink(place):
        raise fail(
            Reason.FILE_MISSING,
            f"`{name}` is no injection",
            where=Location(file=name),
            hint="name the folder that `inject apply` printed",
        )
    with staging.locked(place):
        record = staging.undo(place)
    return place, record


def _programs(options: ApplyOptions) -> list[_Program]:
    """Return the programs as they are now; raises `StackproofError` like reading them does."""
    found = []
    for text in options.programs:
        place = named.load_place(text)
        if place.manifest is not None or place.binds:
            raise fail(
                Reason.UNSUPPORTED,
                f"`{text}` is not a program of this machine",
                where=Location(file=text),
                hint="name programs by their files; `inject check` takes images and manifests",
            )
        view = RootView()
        for path in named.programs_of(place, view):
            closure = load_program(
                view, path, machine=machine_of(options.isa), setting=LoaderSettings()
            )
            found.append(_Program(path=path, closure=closure, demand=demand_of(view, closure)))
    return found


def _eessi(options: ApplyOptions, software: str) -> Done:
    """Fill an override folder."""
    variant = variant_name(options.compiler, options.accelerator)
    if not os.path.isdir(software):
        raise fail(
            Reason.FILE_MISSING,
            f"there is no folder `{software}`",
            where=Location(file=software),
            hint="make it: …/host_injections/VERSION/software/linux/CPU, as $EESSI_SOFTWARE_PATH",
        )
    programs, view = _programs(options), RootView()
    replacement = find_replacement(view, named.load_prefix(options.replacement).path)
    names = tuple(dict.fromkeys(name for one in programs for name in one.demand.names))
    filling = plan_filling(view, replacement, names, machine_of(options.isa))
    main = replacement.main_for(programs[0].demand.abi)
    family = options.family or (family_folder(main) if main else "")
    parent = os.path.realpath(os.path.join(software, "rpath_overrides", family))
    place = os.path.join(parent, variant)
    seen = {one.path: _seen(one, place) for one in programs}
    done = Done(
        place=place,
        files=tuple(f"{one.target} <- {one.source}" for one in filling.libraries),
        environment=filling.environment,
        notes=_notes(filling),
    )
    if options.dry_run:
        with tempfile.TemporaryDirectory(prefix="stackproof-inject-") as folder:
            staging.fill(filling, folder, view)
            _judge_staged(options, programs, seen, place, folder)
        return done
    with staging.locked(place):
        folder = staging.staging_folder(place)
        try:
            sources = staging.fill(filling, folder, view)
            _judge_staged(options, programs, seen, place, folder)
            now = staging.current(place)
            if now is not None and now.sources == sources and now.prefix == filling.prefix:
                return replace(done, notes=(*done.notes, "it was so already: nothing was changed"))
            record = Injection(place=place, prefix=filling.prefix, sources=sources)
            staged = staging.commit(folder, record)
        finally:
            files.remove(folder)
        has = {posixpath.basename(one.target) for one in filling.libraries}
        has |= {posixpath.basename(path) for path in filling.links}
        taken = tuple(name for name in names if name in has)  # others stay, and were accepted
        staging.with_rollback(staged, lambda: _verify(programs, taken, place))
    return done


def _notes(filling: Filling) -> tuple[str, ...]:
    notes = [f"keep {filling.prefix}: its launcher is used, and what it opens by that name"]
    notes += [f"plug-in left behind: {text}" for text in filling.without]
    if filling.left:
        notes.append(f"not copied, as they are the machine's: {', '.join(filling.left)}")
    return tuple(notes)


def _seen(program: _Program, place: str) -> str:
    """Return the place by the name that the program's DT_RPATH has for it."""
    view = RootView("/", {place: "/"})  # only for links above it: the place need not be there yet
    main = program.closure.program
    text = main.elf.rpath or main.elf.runpath or ""
    folders = program.closure.searcher.folders_of(text, main)
    for folder in folders:
        above, name = posixpath.split(folder)
        found = view.resolve(above)
        if found is not None and found[0] == place and name in {"lib", "lib64"}:
            return above
    known = [folder for folder in folders if "/rpath_overrides/" in folder]
    raise fail(
        Reason.INVALID_VALUE,
        f"it does not look into `{place}/lib`",
        where=Location(file=program.path),
        hint=f"it looks into {', '.join(known)}" if known else "its DT_RPATH has no override",
    )


def _judge_staged(
    options: ApplyOptions,
    programs: Sequence[_Program],
    seen: Mapping[str, str],
    place: str,
    folder: str,
) -> None:
    """Raise `StackproofError` unless programs would work with a folder at its place."""
    view = RootView("/", {place: folder})
    found = []
    with tempfile.TemporaryDirectory(prefix="stackproof-empty-") as empty:
        question = Question(
            machine=machine_of(options.isa),
            releases=named.load_releases,
            with_plugins=False,
            before=RootView("/", {place: empty}),  # without any injection, an earlier one too
        )
        for one in programs:
            replacement = find_replacement(view, seen[one.path])
            found.append(judge(view, one.path, replacement, question))
    refuse(found, accept_unknown=options.accept_unknown)


def refuse(judgements: Sequence[Judgement], *, accept_unknown: bool) -> None:
    """Raise `StackproofError` with every reason, when one speaks against the injection."""
    wanted = {Effect.FAILS} if accept_unknown else {Effect.FAILS, Effect.CANNOT_TELL}
    problems = []
    for judgement in judgements:
        for finding in judgement.findings:
            if finding.effect in wanted and finding.cause is not Cause.RELOCATED:
                fails = finding.effect is Effect.FAILS
                problems.append(
                    Problem(
                        reason=_REASONS[
                            InjectionVerdict.FAILS if fails else InjectionVerdict.UNKNOWN
                        ],
                        message=f"{finding.message} (for `{judgement.program}`)",
                        hint=finding.remedy or None,
                        where=Location(file=finding.file) if finding.file else None,
                    )
                )
    if problems:
        problems.sort(key=lambda problem: problem.reason is not Reason.INJECTION_FAILS)
        raise StackproofError(*problems)


def _verify(programs: Sequence[_Program], names: tuple[str, ...], place: str) -> None:
    """Raise `StackproofError` unless the programs' own loaders take the new files."""
    for one in programs:
        found = staging.trace(one.interpreter, one.path)
        asked = tuple(name for name in names if name in one.demand.names)
        staging.verify_trace(found, asked, place, one.path)


def _wrapped(options: ApplyOptions, scripts: str) -> Done:
    """Make a folder of scripts that start programs with the replacement."""
    place = staging.real_place(scripts)
    if os.path.lexists(place) and staging.current(place) is None:
        raise fail(
            Reason.USAGE,
            f"`{scripts}` exists, and `stackproof inject apply` did not make it",
            hint="name a folder that is not there yet",
        )
    programs, view = _programs(options), RootView()
    replacement = find_replacement(view, named.load_prefix(options.replacement).path)
    question = Question(machine=machine_of(options.isa), releases=named.load_releases)
    judgements = [judge(view, one.path, replacement, question) for one in programs]
    refuse(judgements, accept_unknown=options.accept_unknown)
    wrappings = []
    for one, judgement in zip(programs, judgements, strict=True):
        main = one.closure.program
        if judgement.way.rpath and main.file.set_id:
            raise fail(
                Reason.UNSUPPORTED,
                "it runs with more rights than its user, which a copy would lose",
                where=Location(file=one.path),
                hint="let its owner change its DT_RPATH",
            )
        old = main.elf.rpath or main.elf.runpath or ""
        wrappings.append(plan_wrapping(judgement, place, old))
    names = [one.script for one in wrappings]
    if len(set(names)) != len(names):
        raise fail(
            Reason.USAGE,
            "two programs have one name",
            hint="make a folder for each of them",
        )
    done = Done(place=place, files=tuple(f"{one.script} starts {one.program}" for one in wrappings))
    if options.dry_run:
        return done
    with staging.locked(place):
        folder = staging.staging_folder(place)
        try:
            for wrapping in wrappings:
                staging.wrap(wrapping, folder)
            record = Injection(place=place, prefix=replacement.prefix)
            staged = staging.commit(folder, record)
        finally:
            files.remove(folder)
        wanted = [_injected(one, replacement) for one in judgements]
        staging.with_rollback(staged, lambda: _verify_wrapped(programs, wrappings, wanted, place))
    return done


def _injected(judgement: Judgement, replacement: Replacement) -> frozenset[str]:
    """Return the real paths of the replacement's files that a program was said to load."""
    links = judgement.way.links
    paths = (links.get(line.path, line.path) for line in judgement.tree)
    return frozenset(os.path.realpath(path) for path in paths if replacement.owns(path))


def _verify_wrapped(
    programs: Sequence[_Program],
    wrappings: Sequence[Wrapping],
    wanted: Sequence[frozenset[str]],
    place: str,
) -> None:
    """Raise `StackproofError` unless the loader takes what was said to be taken."""
    for one, wrapping, files_wanted in zip(programs, wrappings, wanted, strict=True):
        program = os.path.join(place, wrapping.copy) if wrapping.copy else one.path
        found = staging.trace(one.interpreter, program, wrapping.environment)
        taken = {os.path.realpath(path) for path in found.values()}
        lost = sorted(files_wanted - taken)
        if lost:
            raise fail(
                Reason.INJECTION_FAILS,
                f"the loader does not take `{lost[0]}`, but {', '.join(sorted(taken))}",
                where=Location(file=program),
                hint="an environment variable or a file of the loader is in the way; nothing "
                "was made",
            )
