"""What is opened while a program runs: a replacement below an MPI that no library asks for.

Intel MPI opens its libfabric by name, Open MPI has plug-ins that need one: nothing of it is loaded
when the program starts, and all the same it is what messages go through.
"""

from __future__ import annotations

import contextlib
import posixpath
import re
from collections.abc import Iterator
from typing import NamedTuple

from stackproof.core import limits
from stackproof.core.errors import StackproofError
from stackproof.inject.attempt import InjectionAttempt
from stackproof.inject.findings.libraries import fault_of, named_tool
from stackproof.inject.model import Cause, Effect, Finding
from stackproof.inject.program import calls_mpi, is_mpi, traces_of
from stackproof.inject.replacement import find_replacement
from stackproof.inject.startup import Startup
from stackproof.linking.loader import Closure, MappedObject
from stackproof.linking.loader.search import Hit
from stackproof.mpi import abi

_MOST = 500
_MOST_OPENED = 1000


class Calling(NamedTuple):
    """All that may call MPI in a program: with what it opens by names that stand in it.

    `own` are its objects that are neither of the system nor of an MPI. `looks_up` says that they
    look up functions by name, `unseen` are those which open what no name shows. `cut` are those
    with more names, or larger libraries behind them, than are followed.
    """

    closure: Closure
    own: tuple[MappedObject, ...]
    looks_up: bool
    unseen: tuple[MappedObject, ...]
    cut: tuple[MappedObject, ...] = ()


def find_calling(case: InjectionAttempt) -> Calling:
    """Return the objects that may call MPI, with those that are opened later."""
    closure, place = case.after, 0
    own, unseen, cut, names, left = [], [], [], set[str](), _MOST_OPENED
    while place < len(closure.objects):
        loaded = closure.objects[place]
        place += 1
        if not _is_own(case, closure, loaded):
            continue
        own.append(loaded)
        calls = {entry.name for entry in loaded.elf.imports}
        names |= calls
        if not any(map(OPENS.fullmatch, calls)):
            continue
        traces = traces_of(case.view, loaded)
        hides = {*filter(OPENS.fullmatch, calls)} - {*traces.followed}
        if hides or any("/" in name[1:] and name[0] not in "/$" for name in traces.opened):
            unseen.append(loaded)
        if len(traces.opened) > left or len(closure.objects) >= limits.OBJECTS.count:
            cut.append(loaded)
        for name in traces.opened[:left]:
            closure = _grown(closure, name, loaded)
        left = max(0, left - len(traces.opened))
    looks_up = any(map(_LOOKS_UP.search, names))
    return Calling(closure, tuple(own), looks_up, tuple(unseen), tuple(cut))


OPENS = re.compile(
    r"dlm?open|lt_dlopen\w*|\w*(?:module|plugin|dso|library|object)_(?:open|load)\w*|"
    r"Py_(?:\w*Main|Initialize\w*)|PyImport_\w+|luaL_openlibs|Tcl_CreateInterp|Rf_init\w+|jl_init\w*"
)
"""Functions that open libraries, of the loader and of interpreters."""
_LOOKS_UP = re.compile(r"^(?:dlv?sym|lt_dlsym|\w*(?:module|dso)_sym\w*|SDL_LoadFunction)$")
_OF_MPI = re.compile(r"P?MPIX?_|p?mpix?_", re.ASCII)
_SYSTEM = frozenset({"ld.so.cache", "a default folder", "the loader itself"})


def _is_own(case: InjectionAttempt, closure: Closure, loaded: MappedObject) -> bool:
    """Return True for an object that neither the system has nor an MPI loads."""
    if loaded.how in _SYSTEM and not calls_mpi(loaded.elf, posixpath.basename(loaded.path)):
        return False
    return not any(
        case.is_injected(above) or is_mpi(above.elf, posixpath.basename(above.path))
        for above in closure.chain(loaded)
    )


def _grown(closure: Closure, name: str, opener: MappedObject) -> Closure:
    """Return a closure with what an object opens by a name, itself where that is not found."""
    hit = closure.searcher.find(name, closure.chain(opener), closure.program)
    if not isinstance(hit, Hit) or closure.named(name) is not None:
        return closure
    with contextlib.suppress(StackproofError):
        if (more := closure.opened(hit.path, opener.number)) is not None:
            more.objects[len(closure.objects)].how = hit.how
            return more
    return closure


def missing_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield the functions of MPI that are reached only while a program runs, and nothing defines.

    Libraries which are opened later call them, or a name is looked up. A program may go on without
    them. What its own MPI lacks too says nothing of the injection.
    """
    if case.main is None:
        return
    calling = find_calling(case)
    for loaded in calling.cut[:1]:
        yield Finding(
            cause=Cause.OPENED_LATER,
            effect=Effect.CANNOT_TELL,
            message=f"it names more libraries to open than the {_MOST_OPENED} that are followed",
            file=loaded.path,
            remedy="try it: `inject prove`",
        )
    at_start = {loaded.path for loaded in case.after.objects}
    users = [user for user in calling.own if calling.looks_up or user.path not in at_start]
    if not users:
        return
    defined = {name for loaded in calling.closure.objects for name in loaded.elf.exports}
    before = {name for loaded in case.before.objects for name in loaded.elf.exports}
    by_text = {name.lower(): name for name in before if _OF_MPI.match(name)}
    for user in users:
        asked = set[str]()
        if user.path not in at_start:
            asked = {
                one.name for one in user.elf.imports if not one.weak and _OF_MPI.match(one.name)
            }
            # Where its own MPI is not there, nothing is known of what that one defined.
            asked &= asked if case.before.missing else before
        texts = traces_of(case.view, user).looked_up if calling.looks_up else ()
        named = {by_text[text] for text in texts if text in by_text}
        # A name of an extension is looked up since an MPI may be without it.
        optional = {name for name in named if name.startswith("MPIX_")} - asked
        for effect, names in (
            (Effect.CANNOT_TELL, sorted((asked | named) - optional - defined)),
            (Effect.NOTE, sorted(optional - defined)),
        ):
            if not names:
                continue
            shown = ", ".join(f"`{name}`" for name in names[:4]) + " and more" * bool(names[4:])
            yield Finding(
                cause=Cause.SYMBOL_MISSING,
                effect=effect,
                message=f"while the program runs it may ask for {shown}, which nothing defines",
                file=user.path,
                provider=case.main.path,
                symbols=tuple(names),
                remedy="inject a newer release, which has them; or try it: `inject prove`",
            )


def nothing_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield what follows where a program loads nothing of a replacement at its start."""
    later = [*_opened_later(case)] if case.main is None else []
    if not later:
        tool = named_tool(case)
        yield Finding(
            cause=Cause.NOT_INJECTED,
            effect=Effect.FAILS,
            message=f"the program loads nothing of `{case.replacement.prefix}`"
            + (f": `{tool}` is a tool of MPI's profiling interface, and no MPI" if tool else ""),
            remedy=f"preload it, and name the MPI: --with MPI --env LD_PRELOAD={tool}"
            if tool
            else "`inject check --tree` shows which names it asks for",
        )
        return
    for path, (opener, who) in dict(later).items():
        message = f"`{who}` opens it while the program runs, when it is told to use it"
        yield _later(case, message, path, opener, who)


def by_name(case: InjectionAttempt) -> Finding | None:
    """Return that a program opens the injected MPI while it runs, by a name that leads there."""
    family = case.main.family.abi if case.main else ""
    for path, (opener, who) in _opened_later(case):
        name = posixpath.basename(path)
        promise = abi.abi_of_name(name)
        asks = any(entry.name in {"dlopen", "dlmopen"} for entry in opener.elf.imports)
        by_path = name not in case.view.traces(opener.file).opened
        if promise is None or promise[0] != family or not asks or by_path:
            continue
        if case.replacement.owns(who) or (case.demand.opens and opener is case.after.program):
            continue
        return _by_name(case, name, path, opener)
    return _by_its_names(case) if case.demand.opens else None


def _by_its_names(case: InjectionAttempt) -> Finding | None:
    """Return the finding on the MPI that a program opens by names of its own; None for unknown.

    Of several names the first that leads to a file is taken: they stand in a program as its text
    has them.
    """
    program = case.after.program
    opened = [(n, case.after.searcher.find(n, [program], program)) for n in case.demand.opens]
    name, then = next((pair for pair in opened if pair[1] is not None), opened[0])
    owns = case.replacement.owns
    is_own = isinstance(then, Hit) and (case.owns(then.path) or owns(then.file.path))
    if len(opened) > 1 and not is_own:
        return None
    if not isinstance(then, Hit) or not is_own:
        where = f"that is `{then.path}`" if isinstance(then, Hit) else "that cannot be opened"
        return Finding(
            cause=Cause.NOT_INJECTED,
            effect=Effect.FAILS,
            message=f"it opens `{name}` while it runs, and {where}",
            provider=name,
            remedy="put a link of that name to the injected MPI into a folder that comes first"
            if "/" not in name
            else "no variable changes a path: let it open a name",
        )
    taken = abi.family_of(then.elf)
    if taken is None or case.demand.abi != taken[0].abi:
        return None
    return _by_name(case, name, then.path, program)


def _by_name(case: InjectionAttempt, name: str, path: str, opener: MappedObject) -> Finding:
    message = f"it opens `{name}` while it runs, and calls what it looks up in there"
    return _later(case, message, path, opener, opener.path)


def _later(
    case: InjectionAttempt, message: str, path: str, opener: MappedObject, who: str
) -> Finding:
    """Return that the injected MPI is opened while the program runs, and whether it can be."""
    fault = fault_of(case.after, path, opener.number, case.scope)
    return Finding(
        cause=Cause.OPENED_LATER,
        effect=Effect.CANNOT_TELL if fault else Effect.NOTE,
        message=message + (f"; it cannot: {fault}" if fault else ""),
        file=who,
        provider=path,
    )


def startup_findings(case: InjectionAttempt) -> Iterator[Finding]:
    """Yield what a script that runs before the program does to the folders of an injection."""
    startup = case.question.startup or Startup()
    script = startup.scripts[0] if startup.scripts else case.after.program.path

    def finding(effect: Effect, does: str, provider: str = "", remedy: str = "") -> Finding:
        return Finding(
            cause=Cause.HOST, effect=effect, message=f"`{script}` runs before it and {does}",
            file=script, provider=provider, remedy=remedy,
        )  # fmt: skip

    if startup.first:
        does = f"puts first in LD_LIBRARY_PATH: {':'.join(startup.first)}"
        yield finding(Effect.NOTE, does, provider=startup.first[0])
    if startup.preload_unknown:
        remedy = "start the program itself, or take LD_PRELOAD out of that script"
        does = "sets LD_PRELOAD, to what only shows then"
        yield finding(Effect.CANNOT_TELL, does, remedy=remedy)
    if startup.dropped:
        yield finding(Effect.NOTE, "takes away what LD_LIBRARY_PATH had")
    elif startup.anew and case.way.library_path:
        yield finding(
            Effect.CANNOT_TELL,
            "may set LD_LIBRARY_PATH to something else, without the folders of the injection",
            remedy="set it in that script, behind the line that does; or start the program itself",
        )


def _opened_later(case: InjectionAttempt) -> Iterator[tuple[str, tuple[MappedObject, str]]]:
    """Yield files of the replacement that would be opened, by which object, and for whom."""
    for loaded in case.after.objects:
        for name in traces_of(case.view, loaded).opened:
            path = _found(case, posixpath.basename(name), loaded)
            if path:
                yield path, (loaded, loaded.path)
    for loaded in case.after.objects:
        if abi.family_of(loaded.elf) is None:
            continue
        for plugin in _plugins_of(case, loaded.path):
            for name in _needs(case, plugin):
                path = _found(case, name, loaded)
                if path:
                    yield path, (loaded, plugin)


def _plugins_of(case: InjectionAttempt, main: str) -> list[str]:
    try:
        return [*find_replacement(case.view, main).plugins(case.view)][:_MOST]
    except StackproofError:  # what lies beside it is not known
        return []


def _needs(case: InjectionAttempt, path: str) -> tuple[str, ...]:
    file = case.view.look(path)
    try:
        return case.view.elf(file).needed if file else ()
    except StackproofError:
        return ()


def _found(case: InjectionAttempt, name: str, by: MappedObject) -> str:
    """Return the file of the replacement that a name leads to, empty for another or for none."""
    after = case.after
    if name not in case.replacement.names or after.named(name) is not None:
        return ""
    hit = after.searcher.find(name, after.chain(by), after.program)
    return hit.path if isinstance(hit, Hit) and case.replacement.owns(hit.path) else ""
