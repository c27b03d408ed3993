"""What `inject apply` is asked for: programs as they are now, options, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import field

from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value
from stackproof.inject.effects import named
from stackproof.inject.effects.check import machine_of
from stackproof.inject.job import reasons_against
from stackproof.inject.model import Judgement
from stackproof.inject.options import ApplyOptions
from stackproof.inject.program import Demand, demand_of
from stackproof.linking.effects.view import RootView
from stackproof.linking.loader import Closure, load_program


class ProgramNow(Value):
    """A program as it is now: what it loads, and what it asks of MPI."""

    path: str
    closure: Closure
    demand: Demand


class Done(Value):
    """What is said at the end: the place, the files in it, and what is left to be done."""

    place: str
    files: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def load_programs(options: ApplyOptions) -> list[ProgramNow]:
    """Return the programs as they are now; raises `StackproofError` like reading them does."""
    found = []
    for text in options.programs:
        place = named.load_place(text)
        if place.binds:
            raise fail(
                Reason.UNSUPPORTED,
                f"`{text}` is not a program of this machine",
                where=Location(file=text),
                hint="name programs by their files; `inject check` takes images",
            )
        view = RootView()
        for path in named.programs_of(place, view):
            closure = load_program(view, path, machine=machine_of(options.isa))
            found.append(ProgramNow(path=path, closure=closure, demand=demand_of(view, closure)))
    return found


def refuse(judgements: Sequence[Judgement], *, accept_unknown: bool) -> None:
    """Raise `StackproofError` with every reason, when one speaks against the injection."""
    problems = sorted(
        reasons_against(judgements),
        key=lambda problem: problem.reason is not Reason.INJECTION_FAILS,
    )
    if accept_unknown:
        problems = [one for one in problems if one.reason is Reason.INJECTION_FAILS]
    if problems:
        raise StackproofError(*problems)
