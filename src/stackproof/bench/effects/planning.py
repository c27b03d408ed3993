"""The launches of a specification for arms that are ready, and no bench that makes none of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from stackproof.bench import schedule as schedules
from stackproof.bench.effects import compiled_programs
from stackproof.bench.effects.arms import Arms
from stackproof.bench.schedule import Launch
from stackproof.bench.spec import BenchSpec
from stackproof.core.errors import Problem, Reason, StackproofError, fail
from stackproof.results.model import LAUNCHES


def with_work(spec: BenchSpec, arms: Arms) -> Arms:
    """Return arms with every program of a specification, compiled where they do not bring it.

    Raises what `compiled_programs.with_programs` and `schedule` raise.
    """
    arms = compiled_programs.with_programs(arms, spec.programs)
    schedule(spec, arms)
    return arms


def schedule(spec: BenchSpec, arms: Arms) -> tuple[Launch, ...]:
    """Return every launch of a specification in order.

    Raises `StackproofError` (NOTHING_RAN) for an arm, a program or a placement that has none:
    programs with sources must be compiled already.
    """
    where = {name: ready.arm.placements for name, ready in arms.by_name.items()}
    launches = schedules.schedule(spec, arms.programs, where)
    if problems := tuple(_idle(spec, arms, launches)):
        raise StackproofError(*problems)
    return launches


def _idle(spec: BenchSpec, arms: Arms, launches: Sequence[Launch]) -> Iterator[Problem]:
    timed = [launch for launch in launches if launch.block]
    names = {launch.arm for launch in timed}
    programs = {launch.program for launch in timed}
    placements = {launch.placement for launch in timed}
    for program in dict.fromkeys(one.name for one in spec.programs if one.name not in programs):
        yield _problem(
            f"no arm would run `{program}`",
            f"the arms have: {', '.join(sorted(set().union(*arms.programs.values()))) or 'none'}; "
            "`source` names what a program is compiled from",
        )
    for entry in spec.placements if programs else ():
        if schedules.name_of(entry) not in placements:
            yield _problem(
                f"no arm would run at `{schedules.name_of(entry)}`",
                "leave it out of `placements`, or name it for an arm",
            )
    for name in (arms.baseline, *arms.challengers) if programs else ():
        if name not in names:
            yield _problem(
                f"`{name}` would run nothing",
                f"it has: {', '.join(sorted(arms.programs[name])) or 'no program'}; and it runs "
                f"at: {', '.join(arms.by_name[name].arm.placements) or 'all placements'}",
            )


def _problem(message: str, hint: str) -> Problem:
    return Problem(reason=Reason.NOTHING_RAN, message=message, hint=hint)


def require_launches(launches: Sequence[Launch], folder: Path) -> None:
    """Raise `StackproofError` (NOTHING_RAN) where no launch that is compared has a result."""
    if not any((folder / LAUNCHES / one.file_name).exists() for one in launches if one.block):
        raise fail(
            Reason.NOTHING_RAN,
            f"no launch was timed in `{folder}`",
            hint=f"give it more time with `stackproof bench --resume {folder} --budget DURATION`",
        )
