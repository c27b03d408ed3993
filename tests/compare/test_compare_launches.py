"""Which launches, sizes and arms enter a comparison, and which do not."""

import pytest

from experiments import FAST, cells, changed, experiment, keep, series, times, with_spec
from stackproof.compare.compare import compare
from stackproof.compare.model import Verdict, Why
from stackproof.core.errors import Problem, Reason, StackproofError
from stackproof.core.value import replace
from synthetic import INTER, fault


def test_an_unusable_launch_never_enters_and_takes_its_block_along():
    results = fault(experiment(blocks=12), "mpich", [3], "rank-crashed", "SIGBUS")
    comparison = compare(results, FAST)
    assert {cell.blocks for cell in cells(comparison, "mpich")} == {11}
    assert {cell.blocks for cell in cells(comparison, "impi again")} == {11}
    assert {(d.arm, d.block, d.reason) for d in comparison.discarded} == {
        ("mpich", 3, "rank-crashed"), ("", 3, "no-results")
    }  # fmt: skip
    assert "SIGBUS" in comparison.discarded[0].evidence
    assert "impi, impi again go with it" in comparison.discarded[-1].evidence
    point = comparison.panels[0].points("mpich")[8]
    assert 3 not in point.blocks
    assert len(point.blocks) == 11


def test_a_bad_baseline_launch_costs_every_challenger_the_block():
    comparison = compare(fault(experiment(blocks=12), "impi", [1, 2], "rank-crashed", ""), FAST)
    assert {cell.blocks for cell in cells(comparison, "mpich")} == {10}


@pytest.mark.battery
def test_sizes_with_different_blocks_are_judged_each_by_its_own():
    results = experiment(blocks=12)
    shortened = series(lambda s: s if s.size < 65536 else None)
    cut = changed(results, shortened, lambda m: (m.arm, m.block) == ("mpich", 5))
    comparison = compare(cut, FAST)
    for cell in cells(comparison, "mpich"):
        assert cell.blocks == (12 if cell.size < 65536 else 11)
        assert cell.verdict is Verdict.PASS
    whole = compare(results, FAST)
    assert cells(comparison, "mpich")[0].low == cells(whole, "mpich")[0].low
    (panel,) = (p for p in comparison.panels if p.curve.key[::2] == ("inter-node", "latency"))
    names = [regime.name for regime in panel.judgement("mpich").regimes]
    assert len(names) == 3  # the ranges that lost a block are summarised over the shared blocks


def test_neither_the_warm_up_nor_the_order_of_files_counts():
    results = experiment()
    expected = compare(results, FAST)
    assert compare(changed(results, times(1e9), lambda m: m.block == 0), FAST) == expected
    turned = replace(results, measurements=results.measurements[::-1])
    assert compare(turned, FAST) == expected


@pytest.mark.parametrize(
    "spoil",
    [
        lambda r: fault(r, "impi", range(20), "wrong-transport", "tcp"),
        lambda r: keep(r, lambda m: m.arm != "impi"),
        lambda r: keep(r, lambda m: m.arm == "impi"),
        lambda r: keep(r, lambda m: m.block == 0),
        lambda r: keep(r, lambda m: False),
    ],
    ids=["baseline unusable", "no baseline", "only baseline", "only warm-up", "nothing"],
)
def test_nothing_to_compare(spoil):
    with pytest.raises(StackproofError) as caught:
        compare(spoil(experiment(blocks=2)), FAST)
    assert caught.value.reason is Reason.NO_RESULTS


def test_a_challenger_without_launches_keeps_the_whole_from_passing():
    results = keep(experiment(challengers=("mpich", "openmpi")), lambda m: m.arm != "openmpi")
    comparison = compare(results, FAST)
    assert comparison.verdict_of("mpich").verdict is Verdict.PASS
    assert comparison.verdict_of("openmpi").verdict is Verdict.INCONCLUSIVE
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert any("openmpi was not measured" in note.text for note in comparison.notes)


def test_a_challenger_whose_launches_all_failed_is_told_from_one_that_never_ran():
    whole = experiment(challengers=("mpich", "openmpi"))
    comparison = compare(fault(whole, "openmpi", range(20), "wrong-transport", "tcp"), FAST)
    texts = [note.text for note in comparison.notes]
    assert any("openmpi has no usable launch of" in text for text in texts)
    assert not any("was not measured" in text for text in texts)


def test_a_size_that_only_one_arm_has_is_inconclusive():
    without = series(lambda s: s if s.size != 8 else None)
    cut = changed(experiment(), without, lambda m: m.arm == "mpich")
    (cell,) = (c for c in cells(compare(cut, FAST), "mpich") if c.size == 8)
    assert (cell.verdict, cell.why, cell.blocks) == (Verdict.INCONCLUSIVE, Why.NO_PAIRS, 0)
    assert cell.ratio is cell.low is cell.high is cell.p is None


def test_a_later_launch_of_a_block_replaces_the_earlier_and_it_is_said():
    results = experiment()
    first = next(m for m in results.measurements if m.arm == "mpich" and m.block == 1)
    later = replace(times(1.001)(first), order=10_000)
    doubled = replace(results, measurements=(*results.measurements, later))
    comparison = compare(doubled, FAST)
    assert [entry.what for entry in comparison.discarded] == ["superseded launch"]
    expected = compare(keep(doubled, lambda one: one is not first), FAST)
    assert cells(comparison, "mpich") == cells(expected, "mpich")


@pytest.mark.parametrize(
    "change",
    [
        {"values": ()},
        {"values": (0.0,)},
        {"values": (-1.0, 2.0)},
        {"unit": "furlongs"},
        {"benchmark": "teleport"},
    ],
)
def test_series_that_are_no_measurement_are_discarded(change):
    spoil = series(lambda s: replace(s, **change) if (s.benchmark, s.size) == ("latency", 8) else s)
    comparison = compare(
        changed(
            experiment(blocks=11),
            spoil,
            lambda m: (m.arm, m.block, m.case.placement) == ("mpich", 4, INTER),
        ),
        FAST,
    )
    assert [(d.arm, d.block, d.reason) for d in comparison.discarded] == [
        ("mpich", 4, "garbage-output")
    ]
    assert {c.size: c.blocks for c in cells(comparison, "mpich")}[8] == 10


def test_no_bytes_have_no_bandwidth():
    comparison = compare(experiment(sizes=(0, 1, 8), benchmarks=("latency", "bandwidth")), FAST)
    assert comparison.discarded == ()
    assert [c.size for c in cells(comparison, "mpich")] == [0, 1, 8]
    assert [c.size for c in cells(comparison, "mpich", benchmark="bandwidth")] == [1, 8]


def test_an_arm_nobody_asked_for_is_discarded():
    results = with_spec(experiment(challengers=("mpich", "openmpi")), challengers=("mpich",))
    comparison = compare(results, FAST)
    assert {d.arm for d in comparison.discarded} == {"openmpi"}


def test_unreadable_files_are_listed():
    problem = Problem(reason=Reason.WRONG_TYPE, message="not a valid document")
    comparison = compare(replace(experiment(), problems=(problem,)), FAST)
    assert comparison.discarded[0].reason == "wrong-type"
    assert comparison.verdict is Verdict.PASS
