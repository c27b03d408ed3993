"""`stackproof inject apply` and `undo`: the replacement made, and taken back."""

from __future__ import annotations

import argparse
import json
import os
import posixpath
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from stackproof import noun
from stackproof.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.host import files, injecting, injectplace
from stackproof.host.elfview import HostView
from stackproof.host.injecting import Injection
from stackproof.inject import Cause, Effect, Judgement, Question, Verdict, find_replacement, judge
from stackproof.inject.overrides import Filling, family_folder, plan_filling, variant_name
from stackproof.inject.program import Demand, demand_of
from stackproof.inject.wrapping import Wrapping, plan_wrapping
from stackproof.loader import Closure, Machine, Setting, load_program
from stackproof.loader.closure import usual_interpreter

_REASONS = {Verdict.FAILS: Reason.INJECTION_FAILS, Verdict.UNKNOWN: Reason.INJECTION_UNKNOWN}


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
class _Done:
    """What is said at the end: the place, the files in it, and what is left to be done."""

    place: str
    files: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def run_apply(args: argparse.Namespace) -> int:
    """Make the replacement, and print where."""
    if args.wrapper and (args.family or args.compiler or args.accelerator):
        raise fail(
            Reason.USAGE, "`--family`, `--compiler` and `--accelerator` are for `--eessi` only"
        )
    done = _eessi(args) if args.eessi else _wrapped(args)
    if args.json:
        print(json.dumps({**noun.to_data(done), "dry-run": args.dry_run}, indent=1))
        return 0
    print(f"{'would make' if args.dry_run else 'made'} {done.place}")
    for line in done.files:
        print(f"  {line}")
    for name, value in done.environment.items():
        print(f"to be set when programs are started: {name}={shlex.quote(value)}")
    for line in done.notes:
        print(f"note: {line}")
    if not args.dry_run:
        print(f"to go back: stackproof inject undo {shlex.quote(done.place)}")
    return 0


def run_undo(args: argparse.Namespace) -> int:
    """Put back what was at a place before."""
    place = injecting.real_place(args.place)
    if not os.path.islink(place):
        raise fail(
            Reason.FILE_MISSING,
            f"`{args.place}` is no injection",
            where=Location(file=args.place),
            hint="name the folder that `inject apply` printed",
        )
    with injecting.locked(place):
        record = injecting.undo(place)
    now = f"is `{record.before}` again" if record.before else "is gone: nothing was there before"
    if record.before_folder:
        now = "is the folder again that it was before"
    print(f"{place} {now}")
    return 0


def machine_of(args: argparse.Namespace) -> Machine:
    """Return the processor that programs will run on: this one, or of the level in `--isa`."""
    here = injectplace.this_machine()
    return Machine(architecture=here.architecture, level=args.isa or here.level)


def _programs(args: argparse.Namespace) -> list[_Program]:
    """Return the programs as they are now; raises `StackproofError` like reading them does."""
    found = []
    for text in args.programs:
        place = injectplace.load_place(text)
        if place.manifest is not None or place.binds:
            raise fail(
                Reason.UNSUPPORTED,
                f"`{text}` is not a program of this machine",
                where=Location(file=text),
                hint="name programs by their files; `inject check` takes images and manifests",
            )
        view = HostView()
        for path in injectplace.programs_of(place, view):
            closure = load_program(view, path, machine=machine_of(args), setting=Setting())
            found.append(_Program(path=path, closure=closure, demand=demand_of(view, closure)))
    return found


def _eessi(args: argparse.Namespace) -> _Done:
    """Fill an override folder."""
    variant = variant_name(args.compiler, args.accelerator)
    if not os.path.isdir(args.eessi):
        raise fail(
            Reason.FILE_MISSING,
            f"there is no folder `{args.eessi}`",
            where=Location(file=args.eessi),
            hint="make it: …/host_injections/VERSION/software/linux/CPU, as $EESSI_SOFTWARE_PATH",
        )
    programs, view = _programs(args), HostView()
    replacement = find_replacement(view, injectplace.load_prefix(args.replacement).path)
    names = tuple(dict.fromkeys(name for one in programs for name in one.demand.names))
    filling = plan_filling(view, replacement, names, machine_of(args))
    main = replacement.main_for(programs[0].demand.abi)
    family = args.family or (family_folder(main) if main else "")
    parent = os.path.realpath(os.path.join(args.eessi, "rpath_overrides", family))
    place = os.path.join(parent, variant)
    seen = {one.path: _seen(one, place) for one in programs}
    done = _Done(
        place=place,
        files=tuple(f"{one.target} <- {one.source}" for one in filling.libraries),
        environment=filling.environment,
        notes=_notes(filling),
    )
    if args.dry_run:
        with tempfile.TemporaryDirectory(prefix="stackproof-inject-") as folder:
            injecting.fill(filling, folder, view)
            _judge_staged(args, programs, seen, place, folder)
        return done
    with injecting.locked(place):
        folder = injecting.staging_folder(place)
        try:
            sources = injecting.fill(filling, folder, view)
            _judge_staged(args, programs, seen, place, folder)
            now = injecting.current(place)
            if now is not None and now.sources == sources and now.prefix == filling.prefix:
                return replace(done, notes=(*done.notes, "it was so already: nothing was changed"))
            record = Injection(place=place, prefix=filling.prefix, sources=sources)
            staged = injecting.commit(folder, record)
        finally:
            files.remove(folder)
        has = {posixpath.basename(one.target) for one in filling.libraries}
        has |= {posixpath.basename(path) for path in filling.links}
        taken = tuple(name for name in names if name in has)  # others stay, and were accepted
        injecting.with_rollback(staged, lambda: _verify(programs, taken, place))
    return done


def _notes(filling: Filling) -> tuple[str, ...]:
    notes = [f"keep {filling.prefix}: its launcher is used, and what it opens by that name"]
    notes += [f"plug-in left behind: {text}" for text in filling.without]
    if filling.left:
        notes.append(f"not copied, as they are the machine's: {', '.join(filling.left)}")
    return tuple(notes)


def _seen(program: _Program, place: str) -> str:
    """Return the place by the name that the program's DT_RPATH has for it."""
    view = HostView("/", {place: "/"})  # only for links above it: the place need not be there yet
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
    args: argparse.Namespace,
    programs: Sequence[_Program],
    seen: Mapping[str, str],
    place: str,
    folder: str,
) -> None:
    """Raise `StackproofError` unless programs would work with a folder at its place."""
    view = HostView("/", {place: folder})
    found = []
    with tempfile.TemporaryDirectory(prefix="stackproof-empty-") as empty:
        question = Question(
            machine=machine_of(args),
            releases=injectplace.load_releases,
            with_plugins=False,
            before=HostView("/", {place: empty}),  # without any injection, an earlier one too
        )
        for one in programs:
            replacement = find_replacement(view, seen[one.path])
            found.append(judge(view, one.path, replacement, question))
    refuse(args, found)


def refuse(args: argparse.Namespace, judgements: Sequence[Judgement]) -> None:
    """Raise `StackproofError` with every reason, when one speaks against the injection."""
    wanted = {Effect.FAILS} if args.accept_unknown else {Effect.FAILS, Effect.CANNOT_TELL}
    problems = []
    for judgement in judgements:
        for finding in judgement.findings:
            if finding.effect in wanted and finding.cause is not Cause.RELOCATED:
                fails = finding.effect is Effect.FAILS
                problems.append(
                    Problem(
                        reason=_REASONS[Verdict.FAILS if fails else Verdict.UNKNOWN],
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
        found = injecting.trace(one.interpreter, one.path)
        asked = tuple(name for name in names if name in one.demand.names)
        injecting.verify_trace(found, asked, place, one.path)


def _wrapped(args: argparse.Namespace) -> _Done:
    """Make a folder of scripts that start programs with the replacement."""
    place = injecting.real_place(args.wrapper)
    if os.path.lexists(place) and injecting.current(place) is None:
        raise fail(
            Reason.USAGE,
            f"`{args.wrapper}` exists, and `stackproof inject apply` did not make it",
            hint="name a folder that is not there yet",
        )
    programs, view = _programs(args), HostView()
    replacement = find_replacement(view, injectplace.load_prefix(args.replacement).path)
    question = Question(machine=machine_of(args), releases=injectplace.load_releases)
    judgements = [judge(view, one.path, replacement, question) for one in programs]
    refuse(args, judgements)
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
    scripts = [one.script for one in wrappings]
    if len(set(scripts)) != len(scripts):
        raise fail(
            Reason.USAGE,
            "two programs have one name",
            hint="make a folder for each of them",
        )
    done = _Done(
        place=place, files=tuple(f"{one.script} starts {one.program}" for one in wrappings)
    )
    if args.dry_run:
        return done
    with injecting.locked(place):
        folder = injecting.staging_folder(place)
        try:
            for wrapping in wrappings:
                injecting.wrap(wrapping, folder)
            record = Injection(place=place, prefix=replacement.prefix)
            staged = injecting.commit(folder, record)
        finally:
            files.remove(folder)
        injecting.with_rollback(staged, lambda: _verify_wrapped(programs, wrappings, place))
    return done


def _verify_wrapped(
    programs: Sequence[_Program], wrappings: Sequence[Wrapping], place: str
) -> None:
    for one, wrapping in zip(programs, wrappings, strict=True):
        program = os.path.join(place, wrapping.copy) if wrapping.copy else one.path
        injecting.trace(one.interpreter, program, wrapping.environment)
