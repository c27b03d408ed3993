"""Tails: what a launch tells of them, how they are judged, and how often wrongly."""

import math
import re

import numpy as np
import pytest

import experiments
from experiments import FAST, QUIET, cells, experiment, sampled, with_spec
from stackproof.compare import resampling, tails
from stackproof.compare.collect import arm_launches, percentile, samples_of, shown_tails
from stackproof.compare.compare import compare, panels_of
from stackproof.compare.margins import margins_of_tails, named_tails, planned_words
from stackproof.compare.model import DEFAULT_MARGINS, Cell, Tail, Verdict, Why
from stackproof.compare.notes import machine_changes
from stackproof.core.value import replace
from stackproof.report.headline import list_numbers
from stackproof.report.terminal import terminal_verdicts
from stackproof.results.measurement import Series
from stackproof.results.metrics import METRICS
from synthetic import INTER, Noise

SLOW = {"mpich": (0.1, 4)}


def measured(tail=None, *, blocks=12, seed=1, sizes=(8, 1024), noise=QUIET, count=20, **plan):
    plan = {"benchmarks": ("latency",), "placements": (INTER,), **plan}
    results = experiment(seed, blocks=blocks, sizes=sizes, noise=noise, **plan)
    return sampled(results, tail, count=count, seed=seed)


def series(values, unit="us", **more):
    return Series(
        benchmark="latency", size=8, unit=unit, values=tuple(values), iterations=1, **more
    )


# --- a launch -------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "rank"), [(10, 10), (19, 19), (20, 19), (40, 38), (100, 95)])
def test_the_percentile_is_the_nearest_rank(count, rank):
    assert percentile(range(1, count + 1), 95) == rank


def test_a_launch_has_what_its_samples_are_enough_for():
    values = [*range(1, 101)]
    assert samples_of(series(values), METRICS["latency"]).tail == (50.5, 95, 99)
    mean, p95, p99 = samples_of(series(values[:20]), METRICS["latency"]).tail
    assert (mean, p95, math.isnan(p99)) == (10.5, 19, True)
    mean, p95, _ = samples_of(series(values[:9]), METRICS["latency"]).tail
    assert (mean, math.isnan(p95)) == (5, True)
    assert all(map(math.isnan, samples_of(series([3.0]), METRICS["latency"]).tail))
    # Of a bandwidth the low values are the tail.
    assert samples_of(series(values, "MB/s"), METRICS["bandwidth"]).tail == (50.5, 6, 2)


def test_what_osu_prints_of_the_tail_is_read():
    printed = {"P50 Tail Lat(us)": 1.0, "P95 Tail Lat(us)": 4.0, "P99 Tail Lat(us)": 9.0}
    _, p95, p99 = samples_of(series([1.0], printed=printed), METRICS["latency"]).tail
    assert (p95, p99) == (4.0, 9.0)
    bandwidth = series([1.0], "MB/s", printed={"P95 Tail BW(MB/s)": 9, "P5 Tail BW(MB/s)": 2})
    assert samples_of(bandwidth, METRICS["bandwidth"]).tail[1] == 2
    without = samples_of(series([1.0], printed={"Avg Latency(us)": 1.0}), METRICS["latency"])
    assert math.isnan(without.tail[1])


def test_what_is_shown_of_all_launches():
    launches = [samples_of(series(range(at, at + 20)), METRICS["latency"]) for at in range(1, 6)]
    assert shown_tails(launches, higher_is_better=False) == {"mean": 12.5, "p95": 21, "p99": 23}
    assert "p99" not in shown_tails(launches[:4], higher_is_better=False)


def test_margins_of_tails():
    assert margins_of_tails(DEFAULT_MARGINS, "latency") == {"mean": 0.25, "p95": 0.25}
    wide = {**DEFAULT_MARGINS, "latency": 0.5}
    assert margins_of_tails(wide, "latency")["p95"] == 0.5
    stated = {**wide, "tail": 0.1, "p99": 0.3}
    assert margins_of_tails(stated, "latency") == {"mean": 0.1, "p95": 0.1, "p99": 0.3}
    assert named_tails(stated) == {"mean", "p95", "p99"}
    assert named_tails(DEFAULT_MARGINS) == frozenset()
    assert "25 % was planned" in planned_words({"tail": 0.9}, {"tail": 0.25})[0]
    assert planned_words({"tail": 0.25}, {}) == []


# --- a verdict ------------------------------------------------------------------------------


def test_one_message_of_ten_that_is_four_times_slower_fails():
    comparison = compare(measured(SLOW, blocks=20), FAST)
    assert comparison.verdict is Verdict.FAIL
    for cell in cells(comparison, "mpich"):
        assert (cell.verdict, cell.why, cell.words) == (
            Verdict.FAIL, Why.TAIL, "FAIL, by the tail"
        )  # fmt: skip
        assert cell.ratio == pytest.approx(1, abs=0.05)
        found = {tail.statistic: tail for tail in cell.tails}
        assert found["p95"].ratio == pytest.approx(0.25, rel=0.2)
        assert found["p95"].p <= 0.05
        assert found["mean"].ratio == pytest.approx(0.77, abs=0.1)
    assert "slower at 2" in comparison.verdict_of("mpich").sentence
    (number,) = list_numbers(comparison, "mpich")
    words = r"latency .* between nodes: .* times slower in the tail \(p95 .* against .* µs\)"
    assert re.fullmatch(words, number)


def test_what_is_faster_in_the_tail_fails_where_arms_must_be_equal():
    both = dict.fromkeys(("impi", "impi again"), (0.15, 4))
    assert compare(measured(both), FAST).verdict_of("mpich").verdict is Verdict.PASS
    comparison = compare(with_spec(measured(both), equal=True), FAST)
    assert "Not equal, faster at" in comparison.verdict_of("mpich").sentence


@pytest.mark.parametrize("named", [False, True])
def test_an_undecided_tail_within_its_margin_is_a_pass_unless_it_was_named(named):
    noisy = dict.fromkeys(("impi", "impi again", "mpich"), (0.02, 4))
    results = measured(noisy, seed=2)
    if named:
        results = with_spec(results, margins={"tail": 0.25})
    comparison = compare(results, FAST)
    open_cells = [one for one in cells(comparison, "mpich") if one.tails[1].verdict == OPEN]
    assert open_cells
    for cell in open_cells:
        assert cell.words == ("INCONCLUSIVE" if named else "PASS, tail undecided")
        assert cell.why is (Why.TAIL if named else None)
        assert not named or cell.launches_needed is None or cell.launches_needed > 12
    assert comparison.words == ("INCONCLUSIVE" if named else "PASS, tail undecided")
    assert comparison.verdict is (Verdict.INCONCLUSIVE if named else Verdict.PASS)


OPEN = Verdict.INCONCLUSIVE


@pytest.mark.parametrize("named", [False, True])
def test_where_no_tail_is_measured_it_is_said(named):
    results = measured(count=2)
    if named:
        results = with_spec(results, margins={"tail": 0.25})
    comparison = compare(results, FAST)
    for cell in cells(comparison, "mpich"):
        assert [tail.statistic for tail in cell.tails] == ["mean"]
        assert cell.words == ("INCONCLUSIVE" if named else "PASS, no tail measured")
        assert cell.why is (Why.NO_TAIL if named else None)
    assert ("no tail measured at all 2" in comparison.verdict_of("mpich").sentence) is not named


def test_p99_is_shown_and_judged_only_where_it_is_named():
    # 3 of 100 messages: the 95th percentile does not see them.
    results = measured({"mpich": (0.03, 6)}, count=60, blocks=15)
    comparison = compare(results, FAST)
    panel = comparison.panels[0]
    assert panel.points("mpich")[8].tails["p99"] > 3 * panel.points("impi")[8].tails["p99"]
    assert comparison.verdict is Verdict.PASS
    named = compare(with_spec(results, margins={"p99": 0.5}), FAST)
    assert named.verdict is Verdict.FAIL
    assert {one.by_tail.statistic for one in cells(named, "mpich") if one.by_tail} == {"p99"}


def test_a_launch_without_a_tail_leaves_no_launch_out():
    """Who gets fewer samples where it is slow must not lose these launches alone."""
    results = measured(SLOW)
    first = next(one for one in results.measurements if (one.arm, one.block) == ("mpich", 3))
    short = experiments.series(lambda s: replace(s, values=s.values[:2]))
    comparison = compare(experiments.changed(results, short, lambda one: one is first), FAST)
    for cell in cells(comparison, "mpich"):
        assert [tail.statistic for tail in cell.tails] == ["mean"]
        assert cell.blocks == 12


def test_a_look_that_decided_a_tail_stays_and_a_later_one_may_decide_what_was_open():
    cell = Cell(size=8, blocks=8, verdict=Verdict.PASS, margin=0.1)
    tail = Tail(statistic="p95", blocks=8, verdict=Verdict.INCONCLUSIVE, margin=0.25)
    results = with_spec(measured(SLOW, blocks=20), looks=(8, 11, 15, 20), launches=20)
    comparison = compare(results, FAST)
    assert {one.verdict for one in cells(comparison, "mpich")} == {Verdict.FAIL}
    assert {one.blocks for one in cells(comparison, "mpich")} == {8}  # the median was decided
    assert {one.tails[1].blocks for one in cells(comparison, "mpich")} <= {11, 15, 20}
    assert panels_of(results)[0].judgement("mpich").cells == cells(comparison, "mpich")
    open_tail = replace(cell, tails=(tail,))
    assert tails.answered(open_tail, ("p95",), ()).words == "PASS, tail undecided"


TENTH = {"mpich": (0.1, 4)}
RARE = {"mpich": (0.04, 20)}
WORSE = {Verdict.FAIL, Verdict.INCONCLUSIVE}


@pytest.mark.parametrize(
    ("tail", "plan", "verdicts"),
    [
        (None, {}, {Verdict.PASS}),
        (None, {"count": 9}, {Verdict.PASS}),
        (None, {"count": 5, "blocks": 20}, {Verdict.PASS}),
        ({"mpich": (0.1, 1.3)}, {}, {Verdict.PASS}),
        (TENTH, {}, {Verdict.FAIL}),
        (TENTH, {"benchmarks": ("bandwidth",)}, {Verdict.FAIL}),
        (TENTH, {"count": 9}, WORSE),
        (TENTH, {"count": 5, "blocks": 20}, WORSE),
        (TENTH, {"count": 3, "blocks": 20}, WORSE),
        (RARE, {"count": 40, "blocks": 15}, WORSE),
        (RARE, {"count": 9}, WORSE),
        ({"mpich": (0.02, 40)}, {"count": 30}, WORSE),
        ({"impi again": (0.04, 20)}, {"count": 40, "blocks": 15}, {Verdict.PASS}),
    ],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_no_cell_passes_whose_tail_seems_worse_than_its_margin(tail, plan, verdicts, seed):
    comparison = compare(measured(tail, seed=seed, sizes=(8, 1024, 65536), **plan), FAST)
    assert comparison.verdict in verdicts
    benchmark = plan.get("benchmarks", ("latency",))[0]
    for arm in ("mpich", "impi again"):
        for cell in cells(comparison, arm, benchmark=benchmark):
            beyond = [one for one in cell.tails if one.ratio < 1 - one.margin]
            assert not beyond or cell.why in {Why.TAIL, Why.TAIL_BEYOND}
            assert not beyond or cell.verdict is not Verdict.PASS
    if tail is RARE and comparison.verdict is Verdict.INCONCLUSIVE:
        text = " ".join(terminal_verdicts(comparison).split())
        assert re.search(r"not proven; the worst is (mean|p95), 0\.", text)


# --- how often ------------------------------------------------------------------------------

COMPARISONS = 60


def fails(seeds, tail, **plan):
    """Return the number of comparisons that FAIL by a tail, and of cells that PASS in full."""
    failed = passed = 0
    for seed in seeds:
        results = measured(tail, seed=seed, blocks=10, null=None, **plan)
        found = cells(compare(results, FAST), "mpich")
        failed += any(t.verdict is Verdict.FAIL for cell in found for t in cell.tails)
        passed += sum(cell.words == "PASS" for cell in found)
    return failed, passed


@pytest.mark.parametrize(
    ("tail", "noise", "least"),
    [
        ({}, QUIET, 110),
        ({}, Noise(launch=0.05, size=0.02), 0),
        (dict.fromkeys(("impi", "mpich"), (0.1, 4)), QUIET, 0),
        (dict.fromkeys(("impi", "mpich"), (0.05, 4)), QUIET, 0),
    ],
    ids=["quiet", "noisy", "tail", "at the percentile"],
)
def test_equal_arms_do_not_fail_by_their_tails(tail, noise, least):
    failed, passed = fails(range(COMPARISONS), tail, noise=noise)
    assert failed <= 1
    assert passed >= least


@pytest.mark.parametrize("share", [0.1, 0.2])
def test_at_the_margin_the_rates_are_those_that_are_stated(share):
    """Tails of 3 and of 4 times: the percentile is worse by just the margin of a quarter."""
    failed, passed = fails(range(100), {"impi": (share, 3), "mpich": (share, 4)})
    # More would come with a chance below 1 in 1000 at rates of 5 % of 100, and 2.5 % of 200.
    assert failed <= 13
    assert passed <= 13


def test_swapping_the_arms_of_a_block_turns_its_score():
    random = np.random.default_rng(1)
    samples = random.normal(0, 0.2, (2, 3, 10, 20))
    scores = resampling.slow_scores(samples, np.zeros(3), 95)
    swapped = samples.copy()
    swapped[:, :, 4] = samples[::-1, :, 4]
    other = resampling.slow_scores(swapped, np.zeros(3), 95)
    assert np.allclose(other[:, 4], -scores[:, 4])
    assert np.allclose(np.delete(other, 4, 1), np.delete(scores, 4, 1))
    assert np.allclose(
        resampling.percentile_ratios(samples, 95), -resampling.percentile_ratios(samples[::-1], 95)
    )


def test_how_arms_were_launched_and_what_changed_can_be_asked_for():
    results = measured()
    assert {one.arm for one in arm_launches(results.measurements)} == {
        "impi", "impi again", "mpich"
    }  # fmt: skip
    assert list(machine_changes({}, {})) == []
