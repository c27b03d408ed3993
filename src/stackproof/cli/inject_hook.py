"""`stackproof inject container --with ARTEFACT`: binds, devices and hooks for an artefact."""

from __future__ import annotations

import argparse
import os
import posixpath
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stackproof.cli import inject_apply, inject_artefact
from stackproof.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.host import artefacting, files, injectplace
from stackproof.host.artefacting import Held
from stackproof.inject import Cause, Judgement, Question, find_replacement, judge
from stackproof.inject.artefact import folders_of, soname_of
from stackproof.inject.compact import Compact
from stackproof.inject.containing import (
    ANNOTATION,
    FORMS,
    HOOKS,
    Hook,
    plan_containing,
)
from stackproof.loader import Closure, FileView, load_program


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The variant that is to be injected: its folder on this machine, and at which level."""

    folder: str
    compact: Compact
    level: str

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names that are replaced."""
        return tuple(one.name for one in self.compact.replaces if one.level == self.level)


def run_hook(args: argparse.Namespace, question: Question) -> int:
    """Write the definition that puts an artefact into containers."""
    if not injectplace.is_artefact(args.replacement):
        raise fail(
            Reason.USAGE,
            f"`{args.replacement}` is no artefact, which is what a hook decides by",
            hint=f"make one: stackproof inject artefact {args.replacement} -o DIR",
        )
    held = artefacting.load(args.replacement)
    if held.place.binds:
        raise fail(
            Reason.UNSUPPORTED,
            f"`{args.replacement}` is not mounted",
            where=Location(file=args.replacement),
            hint="mount it where containers are started, and name that folder",
        )
    variant = inject_artefact.chosen(held, args.shs)
    compact = held.compacts[variant.folder]
    level = inject_artefact.level_of(compact, args.level)
    asked = _Asked(folder=held.folder(variant), compact=compact, level=level)
    text = (
        _hook(args, held, asked, question) if args.form in HOOKS else _bind(args, asked, question)
    )
    if args.output:
        files.write(args.output, text)
    else:
        print(text, end="")
    return 0


def _programs(args: argparse.Namespace) -> list[str]:
    found: list[str] = []
    for text in args.programs:
        place = injectplace.load_place(text, args.root)
        found += injectplace.programs_of(place, place.view(args.root))
    return found


def _view(args: argparse.Namespace, more: Mapping[str, str]) -> FileView:
    return injectplace.load_place(args.programs[0], args.root).view(args.root, more)


def _bind(args: argparse.Namespace, asked: _Asked, question: Question) -> str:
    """Return the definition with a bind of the artefact, and variables."""
    place = asked.compact.place
    view = _view(args, {place: asked.folder})
    found = find_replacement(view, posixpath.join(place, asked.level))
    judgements = []
    told = asked.compact.environment.get(asked.level, {})
    for path in _programs(args):
        one = judge(view, path, replace(found, prefix=place), question)
        judgements.append(replace(one, environment={**one.environment, **told}))
    inject_apply.refuse(args, judgements)
    return FORMS[args.form](plan_containing(judgements, {place: asked.folder}))


def _hook(args: argparse.Namespace, held: Held, asked: _Asked, question: Question) -> str:
    """Return the hook's definition, and say what containers must be started with."""
    own = _view(args, {})
    closures = [
        load_program(own, path, machine=question.machine, setting=question.setting)
        for path in _programs(args)
    ]
    covered = _covered(closures, asked)
    view = _view(args, {asked.compact.place: asked.folder, **covered})
    judgements = []
    for closure in closures:
        program = closure.program.path
        paths = {one.path for one in closure.objects} & covered.keys()
        if not paths:
            raise _nothing(program, asked)
        judgements.append(_judged(view, own, program, asked, question))
    inject_apply.refuse(args, judgements)
    hook = Hook(
        program=args.hook,
        name=held.artefact.name,
        artefact=os.path.abspath(asked.folder),
        level=asked.level,
        on_mismatch=args.on_mismatch,
        log=args.log,
        folders=folders_of(closures, asked.names),
        askers=_askers(closures, asked.names),
        unused=_unused(closures, asked.compact.parts),
    )
    told = asked.compact.environment.get(asked.level, {})
    words = [f"--annotation={ANNOTATION}={hook.name}", *(f"--env={k}={v}" for k, v in told.items())]
    print(f"for containers that are started with: {' '.join(words)}", file=sys.stderr)
    return HOOKS[args.form](hook)


def _covered(closures: Sequence[Closure], asked: _Asked) -> dict[str, str]:
    """Return the files of the container that are covered, and by which ones."""
    by_name = {one.name: one.file for one in asked.compact.replaces if one.level == asked.level}
    return {
        loaded.path: os.path.join(asked.folder, by_name[name])
        for closure in closures
        for loaded in closure.objects[1:]
        for name in {posixpath.basename(loaded.path), soname_of(loaded), *loaded.names}
        if name in by_name
    }


def _judged(
    view: FileView, own: FileView, program: str, asked: _Asked, question: Question
) -> Judgement:
    """Return whether a program works when the files are covered.

    Everything lies in one root then, in which the names tell what is injected.
    """
    place = posixpath.join(asked.compact.place, asked.level)
    found = find_replacement(view, place)
    private = view.listing(posixpath.join(asked.compact.place, "private"))
    injected = replace(
        found, prefix="/", folders=("/usr/lib",), named=(*asked.names, *private), names=found.names
    )
    judgement = judge(view, program, injected, replace(question, before=own))
    told = tuple(one for one in judgement.findings if one.cause is not Cause.RELOCATED)
    return replace(judgement, findings=told)


def _askers(closures: Sequence[Closure], names: Sequence[str]) -> tuple[str, ...]:
    """Return the files that need what is replaced, and are not replaced themselves."""
    found = {
        closure.objects[edge.by].path: None
        for closure in closures
        for edge in closure.edges
        if edge.name in names and soname_of(closure.objects[edge.by]) not in names
    }
    return tuple(found)


def _unused(closures: Sequence[Closure], parts: Sequence[str]) -> tuple[str, ...]:
    loaded = {soname_of(one) for closure in closures for one in closure.objects}
    return tuple(name for name in parts if name not in loaded)


def _nothing(program: str, asked: _Asked) -> StackproofError:
    return StackproofError(
        Problem(
            reason=Reason.INJECTION_FAILS,
            message=f"it loads none of {', '.join(asked.names)}",
            where=Location(file=program),
            hint="another level, or --library-path as the container sets it",
        )
    )
