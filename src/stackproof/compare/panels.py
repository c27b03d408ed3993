"""Observations to panels: every curve with the judgements that looks and calm launches bear out.

A part of a curve that a look decided is not judged again, and without disturbed launches only
those are judged that these may have caused.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from stackproof.compare import sequential, tails
from stackproof.compare.collect import CollectedResults, curve_of
from stackproof.compare.disturbance import Disturbed, doubtful, withheld
from stackproof.compare.judge import (
    FEWEST_BLOCKS,
    Contest,
    Open,
    Rules,
    family_p_values,
    floors_of,
    judge,
    points_of,
    regimes_of,
)
from stackproof.compare.model import ArmJudgement, Curve, Panel
from stackproof.compare.sequential import Judgements, Key, Look, Table, Wanted
from stackproof.core.value import Value, replace
from stackproof.results.metrics import METRICS
from stackproof.results.model import Results, ResultsSpec


class _Measured(Value, kw_only=False):
    """What is judged: the curves on which the baseline was run, with the samples behind them."""

    spec: ResultsSpec
    curves: Mapping[Key, Curve]
    collected: CollectedResults

    def contest(self, table: Table, key: Key, arm: str) -> Contest | None:
        """Return the observations of an arm beside the baseline's, None where it was not run."""
        seen = table[key]
        return (self.curves[key], seen[self.spec.baseline], seen[arm]) if arm in seen else None

    def samples(self, key: Key, arm: str) -> tuple[tails.Samples, tails.Samples]:
        """Return the samples of the baseline and of an arm."""
        found = self.collected.tails[key]
        return found[self.spec.baseline], found[arm]


def judged_panels(
    collected: CollectedResults, results: Results, rules: Rules, hurt: Sequence[Disturbed]
) -> tuple[Panel, ...]:
    """Return every curve on which the baseline was run, the null arm's judgement last.

    Medians and tails are judged, kept and borne out each for itself, and make one answer here.
    """
    spec, table = results.spec, collected.table
    keys = sorted(table, key=lambda key: _panel_order(key, collected))
    curves = {key: curve_of(key, collected) for key in keys if spec.baseline in table[key]}
    measured = _Measured(spec, curves, collected)
    judgements = _calm(measured, rules, hurt)
    seen: Table = table
    if spec.looks:
        rules = sequential.rules_of_looks(rules, spec.looks)
        seen = sequential.until(table, sequential.looks_taken(table, spec.looks)[-1])
    return tuple(_panel(measured, results, judgements, (seen, rules), key) for key in curves)


def _panel_order(key: Key, collected: CollectedResults) -> tuple[int, str, str, int]:
    placement, program, benchmark = key
    ranks = len(collected.placements[placement].ranks)
    return (ranks, placement, program, list(METRICS).index(benchmark))


def _panel(
    measured: _Measured,
    results: Results,
    judgements: Judgements,
    last: tuple[Table, Rules],
    key: Key,
) -> Panel:
    spec, curve, collected = measured.spec, measured.curves[key], measured.collected
    by_arm, (seen, rules) = collected.table[key], last
    limit, source = _limit(results, curve.placement, curve.benchmark)
    null = () if spec.null is None else (spec.null,)
    names = rules.tail_margins(curve)

    def answered(arm: str) -> ArmJudgement:
        is_null = arm == spec.null
        named = frozenset[str]() if is_null else rules.named_tails
        contest, both_ways = measured.contest(seen, key, arm), is_null or rules.both_ways
        return ArmJudgement(
            arm=arm,
            cells=tuple(
                tails.answered(one, names, named, both_ways=both_ways)
                for one in judgements[key, arm].cells
            ),
            regimes=regimes_of(contest, rules) if contest else (),
        )

    return Panel(
        curve=curve,
        limit=limit,
        limit_source=source,
        arms=tuple(
            replace(
                points_of(arm, curve, by_arm[arm], collected.tails[key][arm], limit),
                transport=collected.paths.get((arm, curve.placement, curve.program), ""),
            )
            for arm in (spec.baseline, *spec.challengers, *null)
            if arm in by_arm
        ),
        judgements=tuple(
            answered(arm) for arm in (*spec.challengers, *null) if (key, arm) in judgements
        ),
    )


def _limit(results: Results, placement: str, benchmark: str) -> tuple[float | None, str]:
    """Return the limit of a benchmark in its own accounting (MB/s) and who states it."""
    stated = results.spec.limits.get(placement, {})
    value = stated.get("MB/s")
    metric = METRICS[benchmark]
    if metric.unit != "MB/s" or not isinstance(value, int | float) or value <= 0:
        return None, ""
    return float(value) * metric.traffic, str(stated.get("source", ""))


# --- judgements -----------------------------------------------------------------------------


def _calm(measured: _Measured, rules: Rules, hurt: Sequence[Disturbed]) -> Judgements:
    """Return the verdicts of all launches that launches without disturbance bear out."""
    spec, table = measured.spec, measured.collected.table
    judgements = _judged(measured, table, rules)
    if not hurt:
        return judgements
    fewer = replace(rules, minimum_launches=FEWEST_BLOCKS)

    def without(out: Sequence[Disturbed], *, slower: bool) -> Judgements:
        wanted = {
            (key, arm): parts
            for (key, arm), parts in doubtful(judgements, slower=slower).items()
            if _concerned(key, arm, out, spec)
        }
        return _judged(measured, _without(table, out), fewer, wanted) if wanted else {}

    return withheld(
        judgements,
        without([one for one in hurt if one.arm != spec.baseline], slower=True),
        without([one for one in hurt if one.arm == spec.baseline], slower=False),
    )


def _concerned(key: Key, arm: str, out: Sequence[Disturbed], spec: ResultsSpec) -> bool:
    """Return true where an arm is judged otherwise without some launches.

    The null arm is one family over all curves, and the noise floor of the others on its own curve.
    """
    both = (spec.baseline, spec.null)
    if arm == spec.null:
        return any(one.arm in both for one in out)
    return any((one.placement, one.program) == key[:2] and one.arm in (arm, *both) for one in out)


def _without(table: Table, hurt: Sequence[Disturbed]) -> Table:
    """Return the observations of launches in which nothing else was at work."""
    out = {(one.placement, one.program, one.arm, one.block) for one in hurt}
    return sequential.kept(table, lambda key, arm, block: (*key[:2], arm, block) not in out)


def _judged(
    measured: _Measured, table: Table, rules: Rules, wanted: Wanted | None = None
) -> Judgements:
    """Return the decisions of the looks, or those of all launches."""
    plan = measured.spec.looks
    if not plan:
        return _look(measured, Look(table, wanted=wanted), rules)
    strict = sequential.rules_of_looks(rules, plan)
    return sequential.replayed(table, plan, wanted, lambda look: _look(measured, look, strict))


def _look(measured: _Measured, look: Look, rules: Rules) -> Judgements:
    """Return the judgements of what is open.

    The null arm is judged as one family over all curves: it asks one question of the whole
    experiment, and the many places where chance could answer it must not add up. It must be neither
    slower nor faster than the baseline: it is the baseline.
    """
    null = measured.spec.null or ""
    strict = replace(rules, family_error=rules.null_family_error, both_ways=True)
    contests = {
        key: contest
        for key in measured.curves
        if null and (contest := measured.contest(look.table, key, null)) is not None
    }

    @functools.cache
    def family() -> Mapping[Key, Mapping[int, float]]:
        each = family_p_values(list(contests.values()), strict)
        return dict(zip(contests, each, strict=True))

    def p_values(key: Key) -> Mapping[int, float]:
        return family()[key]

    found: dict[tuple[Key, str], ArmJudgement] = {}
    for key in measured.curves:
        contest, parts = contests.get(key), look.parts(key, null)
        arms = {
            arm: there
            for arm in measured.spec.challengers
            if arm in look.table[key] and (there := look.parts(key, arm))
        }
        if contest is None:
            found |= _challengers(measured, look, key, (rules, {}), arms)
        elif arms or parts:
            mine = parts or Open(wanted=frozenset(), last=False)
            judgement = tails.judged(
                judge(null, contest, strict, functools.partial(p_values, key), mine),
                contest, measured.samples(key, null), strict, None, mine,
            )  # fmt: skip
            floor = floors_of((cell.size, cell) for cell in judgement.cells)
            floored = replace(rules, floor=floor)
            found |= _challengers(measured, look, key, (floored, tails.floors(judgement)), arms)
            if parts:
                found[key, null] = judgement
    return found


def _challengers(
    measured: _Measured,
    look: Look,
    key: Key,
    floored: tuple[Rules, Mapping[str, Mapping[int, float]]],
    arms: Mapping[str, Open],
) -> Judgements:
    """Return the judgements of challengers on one curve, with the noise floors of tails there."""
    rules, floors = floored
    return {
        (key, arm): tails.judged(
            judge(arm, contest, rules, None, parts),
            contest, measured.samples(key, arm), rules, floors, parts,
        )
        for arm, parts in arms.items()
        if (contest := measured.contest(look.table, key, arm)) is not None
    }  # fmt: skip
