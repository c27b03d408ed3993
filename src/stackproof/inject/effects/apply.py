"""A replacement put under programs on disk, judged before and read again after, and taken back."""

from __future__ import annotations

import os
from collections.abc import Sequence

from stackproof.core.errors import Location, Reason, fail
from stackproof.inject.attempt import Question
from stackproof.inject.delivery import InjectionDelivery, plan_wrapping
from stackproof.inject.effects import known_releases, named, override, staging, versions
from stackproof.inject.effects.check import machine_of
from stackproof.inject.effects.staging import Injection
from stackproof.inject.effects.wanted import Done, load_programs, refuse
from stackproof.inject.judge import judge
from stackproof.inject.model import Judgement
from stackproof.inject.options import ApplyOptions
from stackproof.inject.replacement import Replacement, find_replacement, require_use
from stackproof.linking.effects.view import RootView
from stackproof.linking.loader import Machine


def apply(options: ApplyOptions) -> Done:
    """Make the replacement, or say what would be made.

    Raises `StackproofError`: USAGE, INJECTION_FAILS, INJECTION_UNKNOWN, and what reading programs
    and writing files raise.
    """
    words = (options.family, options.compiler, options.accelerator, options.level, options.shs)
    if options.wrapper and any(words):
        raise fail(
            Reason.USAGE,
            "`--family`, `--compiler`, `--accelerator`, `--level` and `--shs` are for EESSI only",
            hint="leave them out, or say `--eessi` or `--eessi-here`",
        )
    if options.settings and not options.site:
        raise fail(
            Reason.USAGE,
            "`--set` is what the site's hook sets, which only `--eessi-here` writes",
            hint="say `--eessi-here`, or set it where the programs are started",
        )
    if not options.wrapper:
        return override.fill_override(options)
    return _wrapped(options, options.wrapper or "")


def undo(name: str) -> tuple[str, Injection]:
    """Put back what was at a place before; return the place and what was recorded of it."""
    place = versions.real_place(name)
    if not os.path.islink(place):
        raise fail(
            Reason.FILE_MISSING,
            f"`{name}` is no injection",
            where=Location(file=name),
            hint="name the folder that `inject apply` printed",
        )
    with versions.locked(place) as keep:
        record = staging.undo(keep)
        if record.hook:
            now = staging.recorded(keep)
            override.write_part(record.hook, record.name, now.part if now else "")
    return place, record


def _wrapped(options: ApplyOptions, scripts: str) -> Done:
    """Make a folder of scripts that start programs with the replacement."""
    place = versions.real_place(scripts)
    if os.path.lexists(place) and staging.current(place) is None:
        raise fail(
            Reason.USAGE,
            f"`{scripts}` exists, and `stackproof inject apply` did not make it",
            hint="name a folder that is not there yet",
        )
    programs, view = load_programs(options), RootView()
    prefix = named.load_prefix(options.replacement).path
    replacement = require_use(find_replacement(view, prefix))
    question = Question(machine=machine_of(options.isa), releases=known_releases.load_releases)
    judgements = [judge(view, one.path, replacement, question) for one in programs]
    refuse(judgements, accept_unknown=options.accept_unknown)
    wrapped: list[tuple[str, InjectionDelivery]] = []
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
        wrapped.append(plan_wrapping(judgement, place, old))
    names = [name for _, delivery in wrapped for name in delivery.scripts]
    if len(set(names)) != len(names):
        raise fail(
            Reason.USAGE, "two programs have one name", hint="make a folder for each of them"
        )
    starts = zip(names, programs, strict=True)
    done = Done(place=place, files=tuple(f"{name} starts {one.path}" for name, one in starts))
    if options.dry_run:
        return done
    with versions.locked(place) as keep:
        with versions.staging(keep) as folder:
            for _, delivery in wrapped:
                staging.fill(delivery, folder, view)
            record = Injection(place=place, prefix=replacement.prefix)
            staged = staging.commit(keep, folder, record)
        wanted = [_injected(one, replacement) for one in judgements]
        staging.with_rollback(
            keep, staged, lambda: _verify_wrapped(wrapped, wanted, question.machine)
        )
    return done


def _injected(judgement: Judgement, replacement: Replacement) -> frozenset[str]:
    """Return the real paths of the replacement's files that a program was said to load."""
    links = judgement.way.links
    paths = (links.get(line.path, line.path) for line in judgement.tree)
    return frozenset(os.path.realpath(path) for path in paths if replacement.owns(path))


def _verify_wrapped(
    wrapped: Sequence[tuple[str, InjectionDelivery]],
    wanted: Sequence[frozenset[str]],
    machine: Machine,
) -> None:
    """Raise `StackproofError` unless the loader takes what was said to be taken."""
    for (program, delivery), files_wanted in zip(wrapped, wanted, strict=True):
        closure = staging.load_again(program, machine, delivery.environment)
        taken = {os.path.realpath(path) for path in closure.taken.values()}
        lost = sorted(files_wanted - taken)
        if lost:
            raise fail(
                Reason.INJECTION_FAILS,
                f"the loader does not take `{lost[0]}`, but {', '.join(sorted(taken))}",
                where=Location(file=program),
                hint="an environment variable or a file of the loader is in the way; nothing "
                "was made",
            )
