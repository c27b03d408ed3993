"""Results that were imported, and more of them: other arms, paths, placements and launches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from stackproof.bench import likeness
from stackproof.bench.import_outputs import FILE, ordered
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
    problems = [*_strangers(before), *_clashes(before, more), *likeness.unlike(both)]
    if chosen not in arms:
        problems.append(
            Problem(
                reason=Reason.USAGE,
                message=f"the baseline `{chosen}` is no arm of the results",
                hint=f"arms are: {', '.join(arms)}",
            )
        )
    if problems:
        raise StackproofError(*problems)
    shifted = _further_blocks(before.measurements, more.measurements)
    known = sorted(before.measurements, key=lambda one: one.order)
    measurements = ordered((*known, *shifted))
    spec = replace(
        before.spec,
        baseline=chosen,
        challengers=tuple(arm for arm in arms if arm != chosen),
        arms={arm: _joined(before.spec.arms.get(arm), more.spec.arms.get(arm)) for arm in arms},
        limits={**before.spec.limits, **more.spec.limits},
        host={**more.spec.host, **before.spec.host},
        launches=max(one.block for one in measurements),
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


def _strangers(before: Results) -> list[Problem]:
    if all(FILE in one.host_facts for one in before.measurements) and not before.problems:
        return []
    return [
        Problem(
            reason=Reason.USAGE,
            message="these results were not imported, or cannot be read whole",
            hint="import into a folder of its own",
        )
    ]


def _clashes(before: Results, more: Results) -> list[Problem]:
    """Return the problems of files that cannot be put beside those that are there."""
    paths = {(m.arm, m.case.placement.name, m.case.program): m for m in before.measurements}
    seen = {(m.arm, m.case.placement.name, m.output.series) for m in before.measurements}
    found: dict[Problem, None] = {}
    for one in more.measurements:
        where = Location(file=one.host_facts[FILE])
        name = one.case.placement.name
        other = paths.get((one.arm, name, one.case.program))
        message = hint = ""
        if other is not None and other.case.transport != one.case.transport:
            message = f"`{one.arm}` has the transport `{other.case.transport}` at `{name}`"
            message += f", not `{one.case.transport}`"
            hint = "give each path an arm of its own with --arm"
        elif (one.arm, name, one.output.series) in seen:
            message = f"the same table is among the launches of `{one.arm}` at `{name}` already"
            hint = "give each output once"
        if message:
            problem = Problem(reason=Reason.INVALID_VALUE, message=message, hint=hint, where=where)
            found[problem] = None
    fabrics = {results.spec.host.get("fabric") for results in (before, more)} - {None}
    if len(fabrics) > 1:
        names = " and ".join(f"`{name}`" for name in sorted(map(str, fabrics)))
        problem = Problem(
            reason=Reason.INVALID_VALUE,
            message=f"the sites have different fabrics: {names}",
            hint="import results of another machine into a folder of their own",
        )
        found[problem] = None
    return list(found)


def _further_blocks(
    before: Sequence[Measurement], more: Sequence[Measurement]
) -> list[Measurement]:
    """Return launches whose blocks follow those that their arm has at their placement."""
    last: Counter[tuple[str, str, str]] = Counter()
    for one in before:
        key = _place_of(one)
        last[key] = max(last[key], one.block)
    return [replace(one, block=one.block + last[_place_of(one)]) for one in more]


def _place_of(one: Measurement) -> tuple[str, str, str]:
    return one.arm, one.case.placement.name, one.case.benchmarks[0]
