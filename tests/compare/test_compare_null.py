"""The baseline against itself: the null arm, and the noise floor that it sets."""

import pytest

from experiments import FAST, cells, changed, experiment, times
from stackproof.compare.compare import compare, panels_of
from stackproof.compare.model import Verdict, Why
from stackproof.core.value import replace
from synthetic import INTER, SIZES, Noise, Plan, simulate

NOISES = [
    Noise(launch=level, size=level / 2, heavy=heavy)
    for level in (0.03, 0.05, 0.10)
    for heavy in (False, True)
]


@pytest.mark.battery
@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_the_null_arm_does_not_fail(noise):
    """Error rates over simulated experiments; benchmarks/statistics_power.py does many more."""
    for seed in range(12):
        plan = Plan(challengers=("mpich",), noise=noise, placements=(INTER,))
        comparison = compare(simulate(plan, seed), FAST)
        assert comparison.verdict is not Verdict.FAIL
        assert comparison.verdict_of("impi again").failed == 0


def test_a_difference_within_the_noise_floor_is_no_fail():
    """The null arm is as far off as the challenger: the machine, not the stack."""
    apart = {("inter-node", "latency"): dict.fromkeys(SIZES, 1.4)}
    results = experiment(slower={"mpich": apart, "impi again": apart})
    comparison = compare(results, FAST)
    judged = replace(comparison, panels=panels_of(results))
    for cell, silent in zip(cells(judged, "mpich"), cells(comparison, "mpich"), strict=True):
        assert cell.verdict is silent.verdict is Verdict.INCONCLUSIVE
        assert (cell.why, silent.why) == (Why.NOISE, Why.WITHHELD)
        assert (silent.ratio, silent.low, silent.high) == (cell.ratio, cell.low, cell.high)
        assert cell.floor == pytest.approx(1 - 1 / 1.4, abs=0.03)
    null = comparison.verdict_of("impi again")
    assert null.verdict is Verdict.FAIL
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert "null arm FAILS" in comparison.notes[0].text
    assert comparison.notes[0].level == "warning"


def test_noise_does_not_make_a_pass_easier():
    apart = {("inter-node", "latency"): dict.fromkeys(SIZES, 1.2)}
    comparison = compare(experiment(slower={"mpich": apart, "impi again": apart}), FAST)
    assert not any(c.verdict is Verdict.PASS for c in cells(comparison, "mpich"))


@pytest.mark.parametrize("factor", [1.4, 1 / 1.4], ids=["slower", "faster"])
def test_a_null_arm_that_differs_fails_either_way(factor):
    apart = {"impi again": {("inter-node", "latency"): {8: factor}}}
    comparison = compare(experiment(slower=apart), FAST)
    null = comparison.verdict_of("impi again")
    assert (null.verdict, null.failed) == (Verdict.FAIL, 1)
    assert "differs from itself at 1" in null.sentence
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert "null arm FAILS" in comparison.notes[0].text
    assert "not judged" in comparison.verdict_of("mpich").sentence
    assert not comparison.rankings


@pytest.mark.parametrize("factor", [1 / 0.9, 0.9], ids=["slower", "faster"])
def test_a_null_arm_at_the_margin_is_not_the_same_either_way(factor):
    apart = {"impi again": {("inter-node", "latency"): dict.fromkeys(SIZES, factor)}}
    comparison = compare(experiment(slower=apart, noise=Noise(launch=0.03)), FAST)
    assert {c.verdict for c in cells(comparison, "impi again")} == {Verdict.INCONCLUSIVE}


def test_without_a_null_arm_the_reader_is_warned():
    comparison = compare(experiment(null=None), FAST)
    assert comparison.arms == ("impi", "mpich")
    assert comparison.challengers == ("mpich",)
    assert all(c.floor is None for c in cells(comparison, "mpich"))
    assert any("no null arm" in note.text for note in comparison.notes)
    with pytest.raises(KeyError):
        comparison.verdict_of("impi again")


@pytest.mark.parametrize("factor", [0.4, 2.5])
def test_the_null_arm_is_the_same_only_where_it_is_neither_slower_nor_faster(factor):
    """A ratio of 2.5 of the baseline against itself is no sign of a quiet machine."""
    off = {"impi again": {("inter-node", "latency"): {8: factor}}}
    comparison = compare(experiment(slower=off), FAST)
    null = comparison.verdict_of("impi again")
    assert null.verdict is Verdict.FAIL
    (cell,) = (one for one in cells(comparison, "impi again") if one.size == 8)
    assert cell.verdict is Verdict.FAIL
    assert cell.ratio == pytest.approx(1 / factor, rel=0.1)
    assert "differs from itself at 1" in null.sentence
    assert comparison.verdict_of("mpich").unproven <= comparison.verdict_of("mpich").inconclusive


def test_a_null_arm_that_may_be_faster_is_not_the_same():
    """Faster in half of the launches: the interval reaches far above 1."""
    swayed = changed(
        experiment(slower={}),
        times(1 / 3, lambda s: (s.benchmark, s.size) == ("latency", 8)),
        lambda one: one.arm == "impi again" and one.case.placement == INTER and one.block % 2,
    )
    (cell,) = (one for one in cells(compare(swayed, FAST), "impi again") if one.size == 8)
    assert cell.high > 2
    assert cell.verdict is Verdict.INCONCLUSIVE
    assert cell.why is not None
