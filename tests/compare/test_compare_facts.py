"""What a comparison says beside its verdicts."""

import pytest

from experiments import FAST, SLOW_SMALL, cells, changed, experiment, of_program, times, with_spec
from stackproof.compare.compare import compare
from stackproof.compare.model import Comparison, Why
from stackproof.core import noun
from stackproof.core.value import replace
from stackproof.report.headline import list_numbers
from stackproof.results.model import ComparedArm, Results, ResultsSpec
from synthetic import INTRA, SIZES, Noise


def test_comparison_round_trips():
    comparison = compare(experiment(benchmarks=("latency", "barrier")), FAST)
    assert noun.from_json(Comparison, noun.to_json(comparison)) == comparison
    assert noun.from_json(ResultsSpec, noun.to_json(comparison.spec)) == comparison.spec


def test_the_same_image_twice_is_called_out():
    results = experiment()
    arms = {**results.spec.arms, "mpich": results.spec.arms["impi"]}
    slower = {**arms, "mpich": replace(arms["impi"], rate="1gbit")}
    for changes, is_same in (
        (arms, True),
        (slower, False),
        (dict.fromkeys(arms, ComparedArm()), False),
    ):
        notes = compare(with_spec(results, arms=changes), FAST).notes
        assert any("same image" in note.text for note in notes) is is_same


def test_percent_of_limit_counts_both_directions():
    comparison = compare(experiment(benchmarks=("bandwidth", "bibandwidth", "latency")), FAST)
    for panel in comparison.panels:
        point = panel.points("impi")[SIZES[-1]]
        if panel.curve.placement == "intra-node" or panel.curve.benchmark == "latency":
            assert panel.limit is None
            assert point.percent_of_limit is None
        else:
            both = 2 if panel.curve.benchmark == "bibandwidth" else 1
            assert panel.limit == 1250 * both
            assert point.percent_of_limit == pytest.approx(
                100 * point.median / (1250 * both), rel=1e-4
            )


def test_fit_recovers_the_simulated_machine():
    noise = Noise(launch=0.001, size=0.001, block=0.001)
    comparison = compare(experiment(noise=noise, benchmarks=("latency", "bandwidth")), FAST)
    fits = {
        panel.curve.key[::2]: {arm.arm: arm.fit for arm in panel.arms}["impi"]
        for panel in comparison.panels
    }
    latency = fits["inter-node", "latency"]
    assert latency.t0_us == pytest.approx(18.0, rel=0.01)
    assert latency.bandwidth == pytest.approx(1180, rel=0.03)
    assert latency.half_size == pytest.approx(18.0 * 1180, rel=0.04)
    bandwidth = fits["inter-node", "bandwidth"]
    assert bandwidth.t0_us is None
    assert bandwidth.bandwidth == pytest.approx(1180, rel=0.02)
    assert bandwidth.half_size == pytest.approx(1180 * 18.0 / 24, rel=0.1)


def test_no_fit_from_too_few_sizes():
    comparison = compare(experiment(sizes=(1024, 4096), benchmarks=("latency", "bcast")), FAST)
    assert all(arm.fit is None for panel in comparison.panels for arm in panel.arms)


def test_a_benchmark_without_sizes():
    comparison = compare(experiment(benchmarks=("barrier",)), FAST)
    for panel in comparison.panels:
        assert not panel.curve.sized
        judgement = panel.judgement("mpich")
        assert [cell.size for cell in judgement.cells] == [0]
        assert judgement.regimes == ()


def test_regimes_hold_the_geometric_mean():
    comparison = compare(experiment(slower=SLOW_SMALL), FAST)
    (panel,) = (p for p in comparison.panels if p.curve.key[::2] == ("inter-node", "latency"))
    judgement = panel.judgement("mpich")
    small, middle, large = judgement.regimes
    assert small.sizes == tuple(size for size in SIZES if size <= 8192)
    assert middle.sizes == (16384, 32768, 65536, 131072)
    assert large.sizes[0] == 262144
    product = 1.0
    by_size = {cell.size: cell.ratio for cell in judgement.cells}
    for size in small.sizes:
        product *= by_size[size]
    assert small.ratio == pytest.approx(product ** (1 / len(small.sizes)), rel=1e-3)
    assert small.low < small.ratio < small.high
    assert middle.low <= 1 <= middle.high


@pytest.mark.battery
def test_launches_needed_shrinks_with_the_distance():
    noisy = Noise(launch=0.08, size=0.05)
    needed = []
    for seed in range(6):
        comparison = compare(experiment(seed=seed, noise=noisy), FAST)
        for cell in cells(comparison, "mpich"):
            if cell.why is Why.INTERVAL and cell.ratio > 0.9:
                needed.append((cell.ratio, cell.launches_needed))
                assert cell.launches_needed is None or cell.launches_needed > cell.blocks
    near = [n for ratio, n in needed if ratio < 0.95 and n]
    far = [n for ratio, n in needed if ratio > 0.98 and n]
    assert near
    assert far
    assert sum(near) / len(near) > sum(far) / len(far)


def test_outliers_are_reported_and_stay():
    hit = changed(experiment(), times(3), lambda m: (m.arm, m.block) == ("mpich", 6))
    comparison = compare(hit, FAST)
    point = comparison.panels[0].points("mpich")[1024]
    assert 6 in point.outliers
    assert 6 in point.blocks
    assert len(point.values) == 10
    assert comparison.discarded == ()


def test_programs_with_the_same_benchmark_are_judged_apart():
    results = experiment(placements=(INTRA,))
    other = tuple(of_program(m, "imb") for m in results.measurements if m.arm != "impi again")
    comparison = compare(
        Results(spec=results.spec, measurements=(*results.measurements, *other)), FAST
    )
    assert {panel.curve.program for panel in comparison.panels} == {"stackproof-bench", "imb"}
    imb = next(p for p in comparison.panels if p.curve.program == "imb")
    assert imb.judgement("impi again") is None
    assert imb.judgement("mpich").cells[0].floor is None
    assert any("impi again was not measured with imb" in n.text for n in comparison.notes)


def test_launches_tell_how_to_repeat():
    comparison = compare(experiment(), FAST)
    by_place = {(entry.arm, entry.placement): entry for entry in comparison.launches}
    launch = by_place["mpich", "inter-node"]
    assert launch.count == 11
    assert launch.argv[0] == "mpiexec"
    assert launch.env["FI_PROVIDER"] == "tcp"
    assert [rank.host for rank in launch.ranks] == ["n0", "n1"]
    assert [rank.verified for rank in launch.ranks] == [("node", "core")] * 2
    assert {check.name for check in launch.checks} == {"validation", "transport"}


def test_two_programs_that_measure_the_same_are_both_named():
    slow = {"mpich": {("inter-node", "latency"): dict.fromkeys(SIZES, 2.0)}}
    results = experiment(slower=slow)
    other = experiment(seed=2, slower=slow).measurements
    both = replace(
        results,
        measurements=(*results.measurements, *(of_program(one, "IMB-MPI1") for one in other)),
    )
    text = " ".join(list_numbers(compare(both, FAST), "mpich"))
    assert "latency (IMB-MPI1)" in text
    assert "latency (stackproof-bench)" in text
