"""Replacements for programs in containers: binds, devices and hooks, as definitions."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Collection, Mapping, Sequence

from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value, replace
from stackproof.image.container.effects import roots
from stackproof.inject.artefact import folders_of
from stackproof.inject.attempt import Question
from stackproof.inject.container import (
    ANNOTATION,
    HOOKS,
    Containing,
    Hook,
    plan_containing,
    render,
)
from stackproof.inject.effects import artefact
from stackproof.inject.effects import named as inject_named
from stackproof.inject.effects.artefact import Chosen
from stackproof.inject.effects.check import judge_named, question_of, setting_of
from stackproof.inject.effects.wanted import refuse
from stackproof.inject.judge import judge
from stackproof.inject.model import Cause, Judgement
from stackproof.inject.options import CheckOptions, ContainerOptions, ProgramOptions
from stackproof.inject.program import demand_of
from stackproof.inject.replacement import find_replacement
from stackproof.linking.loader import Closure, FileView, load_program
from stackproof.mpi import abi

HOOK = "/usr/libexec/stackproof/stackproof-oci-hook"


def definition(of: ProgramOptions, options: ContainerOptions, say: Callable[[str], None]) -> str:
    """Return the definition that puts a replacement under programs of a container.

    `say` hears lines: notes, and with what containers must be started. Raises `StackproofError`:
    INJECTION_FAILS, INJECTION_UNKNOWN, USAGE, UNSUPPORTED, and what reading programs raises.
    """
    if options.form in HOOKS:
        made = hook_of(of, options)
        words = [f"--annotation={ANNOTATION}={made.hook.name}"]
        words += [f"--env={name}={value}" for name, value in made.environment.items()]
        say(f"for containers that are started with: {' '.join(words)}")
        if not os.path.isfile(options.hook):
            say(
                f"note: there is no hook program `{options.hook}` on this machine: containers here "
                "do not start with the definition; --hook names it where it lies"
            )
        return HOOKS[options.form](made.hook)
    question, is_known = _question_of(of)
    if inject_named.is_artefact(options.replacement):
        containing = _bind(of, options, _asked(options), question)
    else:
        containing = _bind_prefix(of, options, question, say)
    if not is_known and "LD_LIBRARY_PATH" in containing.environment:
        say(
            "note: this LD_LIBRARY_PATH takes the place of the one that the container's image "
            "sets: if it sets one, say `--library-path DIRS`"
        )
    return render(options.form, containing)


def _question_of(of: ProgramOptions, binds: Collection[str] = ()) -> tuple[Question, bool]:
    """Return the question about a container's programs, and whether its own variables are known.

    An image says them, a folder does not. Programs in `binds` are in no image.
    """
    first = of.programs[0]
    is_carried = any(first.startswith(f"{place}/") for place in binds)
    image = "" if is_carried else inject_named.load_place(first, of.root).image
    variables = roots.load_root(image or of.root).config.environment
    question = replace(question_of(of, CheckOptions()), setting=setting_of(of, variables))
    return replace(question, beside=True), bool(variables or of.library_path)


def _bind_prefix(
    of: ProgramOptions, options: ContainerOptions, question: Question, say: Callable[[str], None]
) -> Containing:
    """Return the bind of a prefix at its own path, and the variables."""
    if options.level or options.shs:
        raise fail(
            Reason.USAGE,
            f"`--level` and `--shs` choose from an artefact, and `{options.replacement}` is none",
            hint=f"leave them out, or inject `stackproof inject artefact {options.replacement}`",
        )
    prefix = inject_named.load_prefix(options.replacement)
    named = judge_named(of, options.replacement, question, lambda text: say(f"note: {text}"))
    judgements = [judgement for _, judgement in named]
    refuse(judgements, accept_unknown=options.accept_unknown)
    return plan_containing(judgements, {prefix.path: prefix.path})


def _asked(options: ContainerOptions) -> Chosen:
    """Return which variant of an artefact is asked for; raises `StackproofError`."""
    if not inject_named.is_artefact(options.replacement):
        raise fail(
            Reason.USAGE,
            f"`{options.replacement}` is no artefact, which is what a hook decides by",
            hint=f"make one: stackproof inject artefact {options.replacement} -o DIR",
        )
    held = artefact.load(options.replacement)
    if held.place.binds:
        raise fail(
            Reason.UNSUPPORTED,
            f"`{options.replacement}` is not mounted",
            where=Location(file=options.replacement),
            hint="mount it where containers are started, and name that folder; or make a folder "
            f"of it, `unsquashfs -d DIR {options.replacement}`",
        )
    return artefact.choose(held, options.shs, options.level)


def _programs(of: ProgramOptions, binds: Mapping[str, str]) -> list[str]:
    found: list[str] = []
    for text in of.programs:
        if any(text.startswith(f"{place}/") for place in binds):
            found.append(text)
            continue
        place = inject_named.load_place(text, of.root)
        found += inject_named.programs_of(place, place.view(of.root))
    return found


def _view(of: ProgramOptions, more: Mapping[str, str]) -> FileView:
    if any(of.programs[0].startswith(f"{place}/") for place in more):  # carried in
        return roots.load_root(of.root).view(more)
    return inject_named.load_place(of.programs[0], of.root).view(of.root, more)


def _bind(
    of: ProgramOptions, options: ContainerOptions, asked: Chosen, question: Question
) -> Containing:
    """Return the bind of an artefact, and the variables."""
    place = asked.compact.place
    view = _view(of, {place: asked.folder})
    found = find_replacement(view, posixpath.join(place, asked.level))
    judgements = []
    for path in _programs(of, {}):
        one = judge(view, path, replace(found, prefix=place), question)
        judgements.append(replace(one, environment={**one.environment, **asked.environment}))
    refuse(judgements, accept_unknown=options.accept_unknown)
    return plan_containing(judgements, {place: asked.folder})


class MadeHook(Value):
    """A hook, what containers that get it are started with, and what was judged of programs."""

    hook: Hook
    environment: Mapping[str, str]
    judgements: tuple[Judgement, ...]


def hook_of(
    of: ProgramOptions, options: ContainerOptions, binds: Mapping[str, str] | None = None
) -> MadeHook:
    """Return the hook that puts an artefact under programs of a container.

    `binds` are folders of this machine, by their places, that programs are carried in by. Raises
    `StackproofError` as `definition` does.
    """
    binds = binds or {}
    asked, (question, _) = _asked(options), _question_of(of, binds)
    own = _view(of, binds)
    closures = [
        load_program(own, path, machine=question.machine, setting=question.setting)
        for path in _programs(of, binds)
    ]
    covered = _covered(closures, asked)
    view = _view(of, {**binds, asked.compact.place: asked.folder, **covered})
    judgements = []
    for closure in closures:
        program = closure.program.path
        paths = {one.path for one in closure.objects} & covered.keys()
        if not paths:
            raise _nothing(own, closure, asked)
        judgements.append(_judged(view, own, program, asked, question))
    refuse(judgements, accept_unknown=options.accept_unknown)
    hook = Hook(
        program=options.hook,
        name=asked.held.artefact.name,
        artefact=os.path.abspath(asked.folder),
        level=asked.level,
        on_mismatch=options.on_mismatch,
        log=options.log,
        folders=folders_of(closures, asked.replaces),
        askers=_askers(closures, asked.replaces),
        unused=_unused(closures, asked.compact.parts),
    )
    return MadeHook(hook=hook, environment=asked.environment, judgements=tuple(judgements))


def _covered(closures: Sequence[Closure], asked: Chosen) -> dict[str, str]:
    """Return the files of the container that are covered, and by which ones."""
    by_name = asked.replaces
    return {
        loaded.path: os.path.join(asked.folder, by_name[name])
        for closure in closures
        for loaded in closure.objects[1:]
        for name in {posixpath.basename(loaded.path), loaded.soname, *loaded.names}
        if name in by_name
    }


def _judged(
    view: FileView, own: FileView, program: str, asked: Chosen, question: Question
) -> Judgement:
    """Return whether a program works when the files are covered.

    Everything lies in one root then, in which the names tell what is injected.
    """
    place = posixpath.join(asked.compact.place, asked.level)
    found = find_replacement(view, place)
    private = view.listing(posixpath.join(asked.compact.place, "private"))
    injected = replace(
        found,
        prefix="/",
        folders=("/usr/lib",),
        named=(*asked.replaces, *private),
        names=found.names,
    )
    judgement = judge(view, program, injected, replace(question, before=own))
    told = tuple(one for one in judgement.findings if one.cause is not Cause.RELOCATED)
    return replace(judgement, findings=told)


def _askers(closures: Sequence[Closure], names: Collection[str]) -> tuple[str, ...]:
    """Return the files that need what is replaced, and are not replaced themselves."""
    found = {
        closure.objects[edge.by].path: None
        for closure in closures
        for edge in closure.edges
        if edge.name in names and closure.objects[edge.by].soname not in names
    }
    return tuple(found)


def _unused(closures: Sequence[Closure], parts: Sequence[str]) -> tuple[str, ...]:
    loaded = {one.soname for closure in closures for one in closure.objects}
    return tuple(name for name in parts if name not in loaded)


def _nothing(view: FileView, closure: Closure, asked: Chosen) -> StackproofError:
    """Return the error for a program of which a hook would cover no file."""
    demand, names = demand_of(view, closure), asked.replaces
    abis = {promise[0] for name in names if (promise := abi.abi_of_name(name))}
    lost = next((edge.name for edge in closure.missing if edge.name in names), "")
    if lost:
        message = f"the container has no `{lost}`, and a hook only covers files that are there"
        hint = "--library-path as the container sets it, or --form podman, which brings the library"
    elif abis and not demand.users:
        message = "neither the program nor its libraries call MPI"
        hint = "name the program that calls MPI"
    elif abis and demand.abi and demand.abi not in abis:
        message = f"the program is compiled for the {demand.abi} ABI, and the artefact's MPI is not"
        hint = f"take an artefact of an MPI of the {demand.abi} ABI"
    else:
        message = f"it loads none of {', '.join(names)}"
        hint = "another level, or --library-path as the container sets it"
    where = Location(file=closure.program.path)
    return fail(Reason.INJECTION_FAILS, message, hint=hint, where=where)
