"""Verdicts on waits are held against what the waits do, and not against what was planted."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from stackproof.core.value import replace

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from planted_waits import Effect, Line, effects
from stackproof.compare.model import Cell, Verdict
from synthetic import INTER, Noise, Plan, simulate


def line(verdict: Verdict, low: float, high: float) -> Line:
    cell = Cell(size=8, blocks=10, verdict=verdict, margin=0.10)
    effect = Effect((low + high) / 2, low, high)
    return Line(("quiet", "inter-node", 8), "10", 0.10, "plus8", effect, cell)


@pytest.mark.parametrize(
    ("verdict", "low", "high", "wrong"),
    [
        (Verdict.FAIL, 0.72, 0.78, False),  # 8 % were planted, and the message takes a third more
        (Verdict.FAIL, 0.91, 0.94, True),
        (Verdict.FAIL, 0.88, 0.94, False),  # the margin is within what is known of the effect
        (Verdict.PASS, 0.91, 0.94, False),
        (Verdict.PASS, 0.72, 0.78, True),
        (Verdict.INCONCLUSIVE, 0.72, 0.78, False),
    ],
)
def test_a_verdict_is_wrong_where_the_whole_effect_contradicts_it(
    verdict: Verdict, low: float, high: float, wrong: bool
) -> None:
    assert line(verdict, low, high).wrong is wrong


def test_the_effect_is_that_of_the_launches_which_no_verdict_sees() -> None:
    """The first blocks have a slow challenger, the later ones have it slower by half."""
    quiet = Noise(launch=0.002, size=0.001, block=0.05)
    plan = Plan(challengers=("mpich",), sizes=(8,), blocks=16, placements=(INTER,), noise=quiet)
    slow = {"mpich": {("inter-node", "latency"): {8: 1.5}}}
    first = simulate(replace(plan, slower={}))
    later = simulate(replace(plan, slower=slow))
    both = replace(
        first,
        measurements=tuple(
            replace(one, output=replace(one.output, series=tuple(
                series for series in one.output.series if series.benchmark == "latency"
            )))
            for results, wanted in ((first, range(9)), (later, range(9, 17)))
            for one in results.measurements
            if one.block in wanted
        ),
    )  # fmt: skip
    found = effects(both, 8)[("mpich", 8)]
    assert found.low < 1 / 1.5 < found.high
    assert found.high - found.low < 0.05
    assert effects(both, 0)[("mpich", 8)].high > 0.9
