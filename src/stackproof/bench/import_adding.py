"""Results that were imported, and more of them: other arms, paths, placements and launches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from stackproof.bench.import_outputs import FILE, ordered, unlike
from stackproof.core.errors import Location, Problem, Reason, StackproofError
from stackproof.core.value import replace
from stackproof.results.measurement import Measurement
from stackproof.results.model import ComparedArm, Results


def add(before: Results, more: Results, *, baseline: str = "") -> Results:
    """Return results with what a second import found: other arms, paths, placements, launches.

    Launches of an arm that is there already become further blocks. `baseline` names another
    baseline than the one before. Raises `StackproofError`: USAGE for results that were measured
    here and for a baseline that is no arm, INVALID_VALUE for what is there already, or was made on
    another path or another fabric, with all problems at once.
    """
    arms = tuple(dict.fromkeys([*_arms_of(before), *_arms_of(more)]))
    chosen = baseline or before.spec.baseline
    both = (*before.measurements, *more.measurements)
    problems = [*_strangers(before), *_clashes(before, more), *unlike(both)]
    if chosen not in arms:
        message = f"the baseline `{chosen}` is no arm of the results"
        hint = f"arms are: {', '.join(arms)}"
        problems.append(Problem(reason=Reason.USAGE, message=message, hint=hint))
    if problems:
        raise StackproofError(*problems)
    known = sorted(before.measurements, key=lambda launch: launch.order)
    measurements = ordered((*known, *_further_blocks(before.measurements, more.measurements)))
    spec = replace(
        before.spec,
        baseline=chosen,
        challengers=tuple(arm for arm in arms if arm != chosen),
        arms={arm: _joined(before.spec.arms.get(arm), more.spec.arms.get(arm)) for arm in arms},
        limits={**before.spec.limits, **more.spec.limits},
        host={**more.spec.host, **before.spec.host},
        launches=max(launch.block for launch in measurements),
        created=more.spec.created,
    )
    return Results(spec=spec, measurements=measurements)


def _arms_of(results: Results) -> tuple[str, ...]:
    return (results.spec.baseline, *results.spec.challengers)


def _joined(before: ComparedArm | None, more: ComparedArm | None) -> ComparedArm:
    """Return an arm with the paths of both imports."""
    known = [arm for arm in (before, more) if arm is not None]
    paths = dict.fromkeys(
        text for arm in known for text in str(arm.transport or "").split(", ") if text
    )
    return replace(known[0], transport=", ".join(paths))


def _strangers(before: Results) -> Iterator[Problem]:
    if before.problems or any(FILE not in one.host_facts for one in before.measurements):
        yield Problem(
            reason=Reason.USAGE,
            message="these results were not imported, or cannot be read whole",
            hint="import into a folder of its own",
        )


def _clashes(before: Results, more: Results) -> list[Problem]:
    """Return the problems of files that cannot be put beside those that are there, each once."""
    paths = {(m.arm, m.case.placement.name, m.case.program): m for m in before.measurements}
    seen = {(m.arm, m.case.placement.name, m.output.series) for m in before.measurements}
    clashes: dict[Problem, None] = {}
    for launch in more.measurements:
        name, path = launch.case.placement.name, launch.case.transport
        other = paths.get((launch.arm, name, launch.case.program))
        message = hint = ""
        if other is not None and other.case.transport != path:
            message = f"`{launch.arm}` has the transport `{other.case.transport}` at `{name}`, "
            message += f"not `{path}`"
            hint = "give each path an arm of its own with --arm"
        elif (launch.arm, name, launch.output.series) in seen:
            message = f"the same table is among the launches of `{launch.arm}` at `{name}` already"
            hint = "give each output once"
        if message:
            where = Location(file=launch.host_facts[FILE])
            clashes[_wrong(message, hint, where)] = None
    fabrics = {results.spec.host.get("fabric") for results in (before, more)} - {None}
    if len(fabrics) > 1:
        names = " and ".join(f"`{name}`" for name in sorted(map(str, fabrics)))
        message = f"the sites have different fabrics: {names}"
        clashes[_wrong(message, "import results of another machine into a folder of their own")] = (
            None
        )
    return list(clashes)


def _wrong(message: str, hint: str, where: Location | None = None) -> Problem:
    return Problem(reason=Reason.INVALID_VALUE, message=message, hint=hint, where=where)


def _further_blocks(
    before: Sequence[Measurement], more: Sequence[Measurement]
) -> list[Measurement]:
    """Return launches whose blocks follow those that their arm has at their placement."""
    last: Counter[tuple[str, str, str]] = Counter()
    for launch in before:
        key = _place_of(launch)
        last[key] = max(last[key], launch.block)
    return [replace(launch, block=launch.block + last[_place_of(launch)]) for launch in more]


def _place_of(launch: Measurement) -> tuple[str, str, str]:
    return launch.arm, launch.case.placement.name, launch.case.benchmarks[0]
