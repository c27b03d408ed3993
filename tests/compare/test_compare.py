"""Results to verdicts."""

import pytest

from experiments import (
    FAST,
    SLOW_SMALL,
    SMALL,
    cells,
    changed,
    experiment,
    keep,
    series,
    with_spec,
)  # fmt: skip
from stackproof.compare.compare import compare
from stackproof.compare.model import CompareOptions, Verdict, Why
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.value import replace
from synthetic import INTER, SIZES, Noise, Plan, simulate

COVERS = (
    "compare/collect.py",
    "compare/judge.py",
    "compare/verdicts.py",
)


def test_equal_arms_pass_on_a_quiet_machine():
    comparison = compare(experiment(), FAST)
    assert comparison.verdict is Verdict.PASS
    assert [v.verdict for v in comparison.verdicts] == [Verdict.PASS] * 2
    assert [v.is_null for v in comparison.verdicts] == [False, True]
    assert all(c.why is None for p in comparison.panels for j in p.judgements for c in j.cells)


def test_a_planted_slow_down_fails_where_it_is_and_only_there():
    comparison = compare(experiment(slower=SLOW_SMALL), FAST)
    assert comparison.verdict is Verdict.FAIL
    found = {
        (panel.curve.placement, panel.curve.benchmark, cell.size)
        for panel in comparison.panels
        for cell in panel.judgement("mpich").cells
        if cell.verdict is Verdict.FAIL
    }
    assert found == {("inter-node", "latency", size) for size in SMALL}
    verdict = comparison.verdict_of("mpich")
    assert (verdict.failed, verdict.inconclusive) == (len(SMALL), 0)
    assert f"slower at {len(SMALL)}" in verdict.sentence
    assert comparison.verdict_of("impi again").verdict is Verdict.PASS


@pytest.mark.parametrize("benchmark", ["latency", "bandwidth", "message_rate", "allreduce"])
def test_ratios_are_above_one_when_the_challenger_is_better(benchmark):
    faster = {"mpich": {("inter-node", benchmark): dict.fromkeys(SIZES, 0.8)}}
    comparison = compare(experiment(slower=faster, benchmarks=(benchmark,)), FAST)
    for cell in cells(comparison, "mpich", benchmark=benchmark):
        assert cell.ratio == pytest.approx(1.25, rel=0.03)
        assert cell.low <= cell.ratio <= cell.high
        assert cell.verdict is Verdict.PASS


def test_the_ratio_is_that_of_the_launches_of_a_block():
    """A machine that drifts by far more than arms differ does not get into it."""
    drifting = experiment(noise=Noise(launch=0.001, size=0.001, block=0.5))
    comparison = compare(drifting, FAST)
    panel = comparison.panels[0]
    for cell in panel.judgement("mpich").cells:
        ours, theirs = panel.points("mpich")[cell.size], panel.points("impi")[cell.size]
        ratios = [b / a for a, b in zip(ours.values, theirs.values, strict=True)]
        assert min(ratios) <= cell.low <= cell.ratio <= cell.high <= max(ratios)
        assert cell.verdict is Verdict.PASS


def test_a_slow_down_is_found_in_ordinary_noise_and_never_elsewhere():
    noise = Noise(launch=0.03, size=0.015)
    found = 0
    for seed in range(10):
        plan = Plan(challengers=("mpich",), noise=noise, placements=(INTER,), slower=SLOW_SMALL)
        comparison = compare(simulate(plan, seed), FAST)
        for panel in comparison.panels:
            for cell in panel.judgement("mpich").cells:
                slowed = panel.curve.benchmark == "latency" and cell.size in SMALL
                assert slowed or cell.verdict is not Verdict.FAIL
                assert not slowed or cell.verdict is not Verdict.PASS
                found += slowed and cell.verdict is Verdict.FAIL
    assert found >= 0.9 * 10 * len(SMALL)


@pytest.mark.parametrize(("blocks", "minimum"), [(9, None), (4, 3), (4, 1)])
def test_too_few_launches_are_not_judged(blocks, minimum):
    options = replace(FAST, minimum_launches=minimum)
    comparison = compare(experiment(blocks=blocks, slower=SLOW_SMALL), options)
    for cell in cells(comparison, "mpich"):
        assert cell.verdict is Verdict.INCONCLUSIVE
        assert cell.why is Why.TOO_FEW
        assert cell.blocks == blocks
        assert cell.ratio is not None
        assert cell.launches_needed == max(5, minimum or 10)
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert "too few launches" in comparison.verdict_of("mpich").sentence


def test_fewer_launches_can_be_allowed_and_it_is_said():
    results = experiment(blocks=6, slower=SLOW_SMALL)
    options = replace(FAST, minimum_launches=6)
    comparison = compare(results, options)
    assert comparison.verdict is Verdict.FAIL
    assert any("6 launches per arm were accepted" in note.text for note in comparison.notes)
    assert compare(with_spec(results, minimum_launches=6), FAST).verdict is Verdict.FAIL


def test_adding_a_cell_changes_no_other():
    wide = experiment(challengers=("mpich", "openmpi"), benchmarks=("latency", "bandwidth"))
    narrow = with_spec(keep(wide, lambda m: m.arm != "openmpi"), challengers=("mpich",))
    narrow = changed(narrow, series(lambda s: s if s.benchmark == "latency" else None))
    assert cells(compare(wide, FAST), "mpich") == cells(compare(narrow, FAST), "mpich")


@pytest.mark.battery
@pytest.mark.parametrize("blocks", [10, 20])
def test_same_input_same_output_and_no_seed_matters(blocks):
    results = experiment(noise=Noise(), blocks=blocks)
    first = compare(results, FAST)
    assert compare(results, FAST) == first
    assert compare(with_spec(results, seed=99), FAST).panels == first.panels


def test_margins_of_options_win_over_the_specification():
    results = with_spec(experiment(slower=SLOW_SMALL), margins={"latency": 0.5})
    assert compare(results, FAST).verdict is Verdict.PASS
    strict = replace(FAST, margins={"latency": 0.1})
    assert compare(results, strict).verdict is Verdict.FAIL
    assert compare(results, strict).margins["bandwidth"] == 0.05


@pytest.mark.parametrize(
    ("options", "faults"),
    [
        ({"margins": {"speed": 0.1, "latency": 2}}, 2), ({"margins": {"latency": 0.0}}, 1),
        ({"margins": {"latency": 1.0}}, 1), ({"margins": {"latency": float("nan")}}, 1),
        ({"confidence": 1.0}, 1), ({"family_error": 0.0}, 1),
    ],
)  # fmt: skip
def test_options_that_make_no_sense_are_named_at_once(options, faults):
    with pytest.raises(StackproofError) as caught:
        compare(experiment(blocks=1), CompareOptions(**options))
    assert caught.value.reason is Reason.INVALID_VALUE
    assert len(caught.value.problems) == faults
