"""Looks while launches come in: when, how strictly, and what `compare` makes of them later."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from experiments import all_cells, changed, experiment, keep, times, until, with_spec
from noises import KINDS, launch_noise
from stackproof.compare import integrity, looks, resampling, sequential
from stackproof.compare.compare import compare
from stackproof.compare.model import Verdict, Why
from synthetic import INTER, Noise


def looked(plan=(8, 11, 15), blocks=15, **changes):
    return with_spec(experiment(placements=(INTER,), blocks=blocks, **changes), looks=plan)


@pytest.mark.parametrize("most", [1, 8, 9, 20, 40, 60, 200])
def test_looks_begin_when_something_can_be_decided_and_end_with_the_last_launch(most):
    found = looks.planned(most)
    assert found[-1] == most
    assert list(found) == sorted(set(found))
    assert found[0] >= looks.FIRST_LOOK or found == (most,)


@pytest.mark.parametrize("plan", [(10,), (8, 11, 15, 20), looks.planned(40)])
@pytest.mark.parametrize("error", [0.025, 0.05, 0.01])
def test_all_looks_together_err_as_often_as_one_would(plan, error):
    level = sequential.level_of_looks(plan, error)
    assert level <= error * 1.001
    sums = np.random.default_rng(1).normal(size=(100_000, plan[-1])).cumsum(axis=1)
    boundary = NormalDist().inv_cdf(1 - level)
    crossed = np.any([sums[:, n - 1] / math.sqrt(n) > boundary for n in plan], axis=0)
    assert crossed.mean() == pytest.approx(error, abs=0.002)


def test_the_levels_are_those_of_pocock():
    """Table 1 of Pocock's article: 2.178, 2.289, 2.361 and 2.413 for 2 to 5 equal steps, 5 %."""
    for steps, boundary in {2: 2.178, 3: 2.289, 4: 2.361, 5: 2.413}.items():
        level = sequential.level_of_looks(tuple(range(1, steps + 1)), 0.025)
        assert -NormalDist().inv_cdf(level) == pytest.approx(boundary, abs=0.01)


@pytest.mark.battery
def test_what_a_look_decided_stays_decided():
    """Launches made after a look, for other points, spoil nothing that it decided."""
    results = looked()
    early = compare(until(results, 8))
    assert {cell.verdict for cell in all_cells(early)} == {Verdict.PASS}

    spoiled = times(3, lambda s: s.unit == "us")
    later = changed(results, spoiled, lambda one: one.arm == "mpich" and one.block > 8)
    assert all_cells(compare(later)) == all_cells(early)
    naive = with_spec(later, looks=())
    assert all_cells(compare(naive)) != all_cells(early)


def test_before_the_first_look_and_between_looks_nothing_more_is_decided():
    results = looked(noise=Noise(launch=0.06, size=0.03))
    assert {cell.why for cell in all_cells(compare(until(results, 6)))} == {Why.TOO_FEW}
    assert all_cells(compare(until(results, 10))) == all_cells(compare(until(results, 8)))
    assert all_cells(compare(until(results, 11))) != all_cells(compare(until(results, 8)))


@pytest.mark.battery
def test_looks_are_stricter_than_one_test_of_the_same_launches():
    results = looked(noise=Noise(launch=0.05, size=0.02))
    once = with_spec(results, looks=())
    pairs = list(zip(all_cells(compare(results)), all_cells(compare(once)), strict=True))
    undecided = [(looked, one) for looked, one in pairs if looked.blocks == 15]
    assert undecided
    assert all(looked.low <= one.low and looked.high >= one.high for looked, one in undecided)
    assert any("looks after 8, 11 and 15" in note.text for note in compare(results).notes)
    assert not any("were accepted as enough" in note.text for note in compare(results).notes)


def test_a_lost_launch_at_the_first_look_decides_nothing_that_it_may_not():
    """Of 7 pairs no pattern of signs is as rare as the level of six looks."""
    results = looked(plan=looks.planned(40), blocks=8)
    lost = keep(results, lambda m: (m.arm, m.block) != ("mpich", 3))
    assert {cell.why for cell in all_cells(compare(lost))} == {Why.TOO_FEW}
    assert {cell.verdict for cell in all_cells(compare(results))} == {Verdict.PASS}


@pytest.mark.battery
@pytest.mark.parametrize("kind", KINDS)
def test_error_rates_hold_over_all_looks(kind):
    """Per cell: wrong at any look, exactly at the margin, and intervals that missed at any look."""
    plan = looks.planned(20)
    random = np.random.default_rng(KINDS.index(kind))
    noise = launch_noise(kind, 0.10, (500, 2, 1, 20), random)
    ratios = (noise[:, 0] - noise[:, 1]).reshape(-1, 20)
    tail = sequential.level_of_looks(plan, 0.025)
    above = np.zeros(len(ratios), dtype=bool)
    below = above.copy()
    for look in plan:
        low, high = resampling.intervals(ratios[:, :look], tail)
        above |= low > 0  # a PASS when the truth is the margin
        below |= high < 0
    assert above.mean() <= 0.05
    assert (above | below).mean() <= 0.085


def test_cells_of_a_curve_are_taken_from_the_look_that_decided_them():
    slow = {"mpich": {("inter-node", "latency"): {8: 3.0}}}
    results = looked(plan=(8, 11, 15), noise=Noise(launch=0.08, size=0.04), slower=slow)
    comparison = compare(results)
    (panel,) = (p for p in comparison.panels if p.curve.benchmark == "latency")
    found = {cell.size: cell for cell in panel.judgement("mpich").cells}
    assert (found[8].verdict, found[8].blocks) == (Verdict.FAIL, 8)
    assert {cell.blocks for cell in found.values()} > {8}
    assert len(panel.points("mpich")[8].values) == 15  # figures show every launch


def test_an_arm_may_end_early_and_have_no_gaps():
    results = looked()
    decided = keep(results, lambda m: m.arm != "mpich" or m.block <= 8)
    assert integrity.find_gaps(decided) == ([], False)
    gap = keep(results, lambda m: m.arm != "mpich" or m.block not in {3, 4})
    ((text,), _) = integrity.find_gaps(gap)
    assert text.endswith("have gaps: there are 13 of mpich, and later ones")
    assert any(text == note.text for note in compare(gap).notes)
    early = compare(with_spec(decided, looks=(), launches=15))
    assert early.unfinished
    assert early.notes[0].text == "the measuring ended early: not all planned launches were made"
    assert not compare(results).unfinished


def test_no_results_are_cut_where_nobody_looked():
    table = {("a", "b", "c"): {"x": {8: {1: 1.0, 2: 2.0, 3: 3.0}}}}
    assert sequential.until(table, 2) == {("a", "b", "c"): {"x": {8: {1: 1.0, 2: 2.0}}}}
