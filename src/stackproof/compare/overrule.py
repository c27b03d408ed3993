"""Launches to what no statistics may overrule: wrong bytes, discards that select, a noisy machine.

An arm that received wrong bytes once is no candidate, however fast it is. Where launches of one arm
are discarded more often than those of another, what is left may be a selection of them, so that it
says nothing of either. And where the baseline differs from itself, nothing that differs from it is
slow for that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import comb

from stackproof.compare.model import ArmVerdict, Cell, Panel, Verdict, Why, change_cells
from stackproof.core.errors import Reason
from stackproof.core.value import Value, replace
from stackproof.results.measurement import Measurement, State
from stackproof.results.model import ResultsSpec

CHANCE = 0.05
"""How likely rates may differ as much by chance, over all challengers, before nothing is judged."""

WRONG_BYTES = "received wrong bytes"


class Discards(Value):
    """How many of an arm's timed launches were discarded."""

    discarded: int
    made: int


def corrupted(measurements: Iterable[Measurement]) -> dict[str, str]:
    """Return what each arm that ever received wrong bytes received, in words."""
    launches: dict[str, list[tuple[Measurement, str]]] = {}
    counts: dict[str, int] = {}
    for one in sorted(measurements, key=lambda one: (one.order, one.started)):
        counts[one.arm] = counts.get(one.arm, 0) + 1
        said = [check.evidence for check in one.checks if _is_wrong(check.state, check.reason)]
        if said:
            launches.setdefault(one.arm, []).append((one, said[0]))
    return {
        arm: f"{arm} received wrong bytes in {len(found)} of {counts[arm]} launches; in the first "
        f"of these (block {first.block}, {first.case.placement.name}): {said}"
        for arm, found in launches.items()
        for first, said in found[:1]
    }


def is_corrupt(measurement: Measurement) -> bool:
    """Return true where a launch ran to its end and received wrong bytes."""
    return measurement.output.complete and any(
        _is_wrong(check.state, check.reason) for check in measurement.checks
    )


def _is_wrong(state: State, reason: str) -> bool:
    return state is State.BAD and reason == Reason.VALIDATION_FAILED.value


def discards(measurements: Iterable[Measurement]) -> dict[str, Discards]:
    """Return for each arm how many of its timed launches were discarded, tries included."""
    found: dict[str, Discards] = {}
    for one in measurements:
        if one.block > 0 and one.case.placement.timed:
            so_far = found.get(one.arm, Discards(discarded=0, made=0))
            found[one.arm] = Discards(
                discarded=so_far.discarded + (not one.usable), made=so_far.made + 1
            )
    return found


def chance(first: Discards, second: Discards) -> float:
    """Return the chance that two rates differ so much or more where both arms are alike.

    Fisher's exact test, two-sided: the sum over all tables with these margins that are at most as
    likely as this one.
    """
    total, bad = first.made + second.made, first.discarded + second.discarded
    ways = [
        comb(first.made, k) * comb(second.made, bad - k) if 0 <= bad - k <= second.made else 0
        for k in range(min(first.made, bad) + 1)
    ]
    here = ways[first.discarded]
    return sum(way for way in ways if way <= here) / comb(total, bad)


def selected(
    rates: Mapping[str, Discards], baseline: str, challengers: Collection[str]
) -> dict[str, str]:
    """Return the challengers whose discards differ from the baseline's beyond chance, with why."""
    found: dict[str, str] = {}
    base = rates.get(baseline)
    for arm in challengers:
        own = rates.get(arm)
        if base is None or own is None:
            continue
        p = chance(base, own)
        if p < CHANCE / max(1, len(challengers)):
            found[arm] = (
                f"{own.discarded} of {own.made} launches of {arm} were discarded and "
                f"{base.discarded} of {base.made} of {baseline}, which chance does not explain "
                f"(p = {p:.2g}): what is left may be a selection, so nothing is judged"
            )
    return found


def overruled(
    verdicts: Sequence[ArmVerdict], spec: ResultsSpec, measurements: Sequence[Measurement]
) -> tuple[ArmVerdict, ...]:
    """Return the verdicts with what overrules them: FAIL for wrong bytes, else none at all.

    Where it was the baseline, also as the null arm, there is nothing to compare with. Nor is there
    where the null arm FAILs.
    """
    wrong = corrupted(measurements)
    arms = [one.arm for one in verdicts]
    withheld = selected(discards(measurements), spec.baseline, arms)
    cause = "more launches were discarded than chance explains"
    for arm in rotten(spec, measurements)[:1]:
        withheld = dict.fromkeys(arms, f"{wrong.pop(arm)}; nothing can be compared with that")
        cause = "the baseline received wrong bytes"
    wrong.pop(spec.null or "", None)
    if not withheld and any(one.is_null and one.verdict is Verdict.FAIL for one in verdicts):
        cause = "the baseline differs from itself"
        withheld = {
            arm: f"{arm} is not judged: {spec.baseline} differs from itself, see {spec.null}"
            for arm in spec.challengers
        }
    return tuple(
        # Another sentence beside that, "as fast within the margins", would be read as the verdict.
        replace(one, verdict=Verdict.FAIL, words="FAIL", sentence=wrong[one.arm],
                overruled=WRONG_BYTES)
        if one.arm in wrong
        else without_verdict(one, f"not judged: {cause}", withheld[one.arm])
        if one.arm in withheld
        else one
        for one in verdicts
    )  # fmt: skip


def without_verdict(verdict: ArmVerdict, cause: str, sentence: str) -> ArmVerdict:
    """Return a verdict that says nothing but why it is withheld."""
    return replace(
        verdict,
        verdict=Verdict.INCONCLUSIVE,
        words=Verdict.INCONCLUSIVE.value,
        passed=0,
        failed=0,
        inconclusive=verdict.passed + verdict.failed + verdict.inconclusive,
        unproven=0,
        sentence=sentence,
        overruled=cause,
    )


def without_answers(panels: Sequence[Panel], arms: Collection[str], why: Why) -> tuple[Panel, ...]:
    """Return panels with the estimates of some arms and without any answer at their points."""

    def blank(arm: str, cell: Cell) -> Cell:
        no = Verdict.INCONCLUSIVE
        without = replace(cell, verdict=no, why=why, launches_needed=None, tails=(), words=no.value)
        return without if arm in arms else cell

    return change_cells(panels, blank)


def rotten(spec: ResultsSpec, measurements: Sequence[Measurement]) -> list[str]:
    """Return the arms of the baseline, itself and the null arm, that received wrong bytes."""
    wrong = corrupted(measurements)
    return [arm for arm in (spec.baseline, spec.null) if arm is not None and arm in wrong]


def warnings(spec: ResultsSpec, measurements: Sequence[Measurement]) -> list[str]:
    """Return what a reader must see above everything else."""
    arms = [*spec.challengers, *(() if spec.null is None else (spec.null,))]
    wrong = corrupted(measurements)
    return [*wrong.values(), *selected(discards(measurements), spec.baseline, arms).values()]
