"""Results to verdicts."""

import dataclasses

import pytest

from stackproof import noun
from stackproof.compare import compare
from stackproof.comparison import (
    Arm,
    CompareOptions,
    Comparison,
    Results,
    ResultsSpec,
    Verdict,
    Why,
)
from stackproof.errors import Problem, Reason, StackproofError
from synthetic import INTER, INTRA, SIZES, Noise, Plan, fault, simulate

QUIET = Noise(launch=0.004, size=0.004, block=0.05)
FAST = CompareOptions()
SMALL = tuple(size for size in SIZES if size <= 1024)
SLOW_SMALL = {"mpich": {("inter-node", "latency"): dict.fromkeys(SMALL, 1.25)}}


def experiment(seed=1, **plan):
    return simulate(Plan(**{"noise": QUIET, "challengers": ("mpich",), **plan}), seed)


def cells(comparison, arm, placement="inter-node", benchmark="latency"):
    (panel,) = (
        p for p in comparison.panels if p.curve.key == (placement, "stackproof-bench", benchmark)
    )
    return panel.judgement(arm).cells


def keep(results, wanted):
    return dataclasses.replace(
        results, measurements=tuple(m for m in results.measurements if wanted(m))
    )


def with_spec(results, **changes):
    return dataclasses.replace(results, spec=dataclasses.replace(results.spec, **changes))


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
    assert "latency inter-node 1 B\u20131 KiB" in verdict.sentence
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


NOISES = [
    Noise(launch=level, size=level / 2, heavy=heavy)
    for level in (0.03, 0.05, 0.10)
    for heavy in (False, True)
]


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_the_null_arm_does_not_fail(noise):
    """Error rates over simulated experiments; benchmarks/statistics_power.py does many more."""
    for seed in range(12):
        plan = Plan(challengers=("mpich",), noise=noise, placements=(INTER,))
        comparison = compare(simulate(plan, seed), FAST)
        assert comparison.verdict is not Verdict.FAIL
        assert comparison.verdict_of("impi again").failed == 0


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


def test_a_difference_within_the_noise_floor_is_no_fail():
    """The null arm is as far off as the challenger: the machine, not the stack."""
    apart = {("inter-node", "latency"): dict.fromkeys(SIZES, 1.4)}
    results = experiment(slower={"mpich": apart, "impi again": apart})
    comparison = compare(results, FAST)
    for cell in cells(comparison, "mpich"):
        assert cell.verdict is Verdict.INCONCLUSIVE
        assert cell.why is Why.NOISE
        assert cell.floor == pytest.approx(1 - 1 / 1.4, abs=0.03)
    null = comparison.verdict_of("impi again")
    assert null.verdict is Verdict.FAIL
    assert comparison.verdict is Verdict.FAIL
    assert "null arm FAILS" in comparison.notes[0].text
    assert comparison.notes[0].level == "warning"


def test_noise_does_not_make_a_pass_easier():
    apart = {("inter-node", "latency"): dict.fromkeys(SIZES, 1.2)}
    comparison = compare(experiment(slower={"mpich": apart, "impi again": apart}), FAST)
    assert not any(c.verdict is Verdict.PASS for c in cells(comparison, "mpich"))


@pytest.mark.parametrize(("blocks", "minimum"), [(9, None), (4, 3), (4, 1)])
def test_too_few_launches_are_not_judged(blocks, minimum):
    options = dataclasses.replace(FAST, minimum_launches=minimum)
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
    options = dataclasses.replace(FAST, minimum_launches=6)
    comparison = compare(results, options)
    assert comparison.verdict is Verdict.FAIL
    assert any("6 launches per arm were accepted" in note.text for note in comparison.notes)
    assert compare(with_spec(results, minimum_launches=6), FAST).verdict is Verdict.FAIL


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


def test_sizes_with_different_blocks_are_judged_each_by_its_own():
    results = experiment(blocks=12)

    def shortened(m):
        if m.arm != "mpich" or m.block != 5:
            return m
        series = tuple(s for s in m.output.series if s.size < 65536)
        return dataclasses.replace(m, output=dataclasses.replace(m.output, series=series))

    cut = dataclasses.replace(results, measurements=tuple(map(shortened, results.measurements)))
    comparison = compare(cut, FAST)
    for cell in cells(comparison, "mpich"):
        assert cell.blocks == (12 if cell.size < 65536 else 11)
        assert cell.verdict is Verdict.PASS
    whole = compare(results, FAST)
    assert cells(comparison, "mpich")[0].low == cells(whole, "mpich")[0].low
    (panel,) = (p for p in comparison.panels if p.curve.key[::2] == ("inter-node", "latency"))
    names = [regime.name for regime in panel.judgement("mpich").regimes]
    assert len(names) == 3  # the ranges that lost a block are summarised over the shared blocks


def test_the_warm_up_does_not_count():
    results = experiment()
    spoiled = dataclasses.replace(
        results,
        measurements=tuple(
            dataclasses.replace(
                m,
                output=dataclasses.replace(
                    m.output,
                    series=tuple(dataclasses.replace(s, values=(1e9,)) for s in m.output.series),
                ),
            )
            if m.block == 0
            else m
            for m in results.measurements
        ),
    )
    assert compare(spoiled, FAST) == compare(results, FAST)


def test_adding_a_cell_changes_no_other():
    wide = experiment(challengers=("mpich", "openmpi"), benchmarks=("latency", "bandwidth"))
    narrow = with_spec(keep(wide, lambda m: m.arm != "openmpi"), challengers=("mpich",))
    narrow = dataclasses.replace(
        narrow,
        measurements=tuple(
            dataclasses.replace(
                m,
                output=dataclasses.replace(
                    m.output,
                    series=tuple(s for s in m.output.series if s.benchmark == "latency"),
                ),
            )
            for m in narrow.measurements
        ),
    )
    assert cells(compare(wide, FAST), "mpich") == cells(compare(narrow, FAST), "mpich")


@pytest.mark.parametrize("blocks", [10, 20])
def test_same_input_same_output_and_no_seed_matters(blocks):
    results = experiment(noise=Noise(), blocks=blocks)
    first = compare(results, FAST)
    assert compare(results, FAST) == first
    assert compare(with_spec(results, seed=99), FAST).panels == first.panels


@pytest.mark.parametrize("factor", [1.4, 1 / 1.4], ids=["slower", "faster"])
def test_a_null_arm_that_differs_fails_either_way(factor):
    apart = {"impi again": {("inter-node", "latency"): {8: factor}}}
    comparison = compare(experiment(slower=apart), FAST)
    null = comparison.verdict_of("impi again")
    assert (null.verdict, null.failed) == (Verdict.FAIL, 1)
    assert "differs from itself at 1: latency inter-node 8 B (ratio " in null.sentence
    assert comparison.verdict is Verdict.FAIL
    assert "null arm FAILS" in comparison.notes[0].text


@pytest.mark.parametrize("factor", [1 / 0.9, 0.9], ids=["slower", "faster"])
def test_a_null_arm_at_the_margin_is_not_the_same_either_way(factor):
    apart = {"impi again": {("inter-node", "latency"): dict.fromkeys(SIZES, factor)}}
    comparison = compare(experiment(slower=apart, noise=Noise(launch=0.03)), FAST)
    assert {c.verdict for c in cells(comparison, "impi again")} == {Verdict.INCONCLUSIVE}


def test_order_of_the_files_does_not_matter():
    results = experiment()
    turned = dataclasses.replace(results, measurements=results.measurements[::-1])
    assert compare(turned, FAST) == compare(results, FAST)


def test_comparison_round_trips():
    comparison = compare(experiment(benchmarks=("latency", "barrier")), FAST)
    assert noun.from_json(Comparison, noun.to_json(comparison)) == comparison
    assert noun.from_json(ResultsSpec, noun.to_json(comparison.spec)) == comparison.spec


def test_margins_of_options_win_over_the_specification():
    results = with_spec(experiment(slower=SLOW_SMALL), margins={"latency": 0.5})
    assert compare(results, FAST).verdict is Verdict.PASS
    strict = dataclasses.replace(FAST, margins={"latency": 0.1})
    assert compare(results, strict).verdict is Verdict.FAIL
    assert compare(results, strict).margins["bandwidth"] == 0.05


@pytest.mark.parametrize(
    "options",
    [
        CompareOptions(margins={"speed": 0.1}),
        CompareOptions(margins={"latency": 0.0}),
        CompareOptions(margins={"latency": 1.0}),
        CompareOptions(margins={"latency": float("nan")}),
        CompareOptions(confidence=1.0),
        CompareOptions(family_error=0.0),
    ],
)
def test_options_that_make_no_sense(options):
    with pytest.raises(StackproofError) as caught:
        compare(experiment(blocks=1), options)
    assert caught.value.reason is Reason.INVALID_VALUE


def test_all_bad_margins_are_named_at_once():
    with pytest.raises(StackproofError) as caught:
        compare(experiment(blocks=1), CompareOptions(margins={"speed": 0.1, "latency": 2}))
    assert len(caught.value.problems) == 2


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
    results = experiment()
    cut = dataclasses.replace(
        results,
        measurements=tuple(
            dataclasses.replace(
                m,
                output=dataclasses.replace(
                    m.output, series=tuple(s for s in m.output.series if s.size != 8)
                ),
            )
            if m.arm == "mpich"
            else m
            for m in results.measurements
        ),
    )
    (cell,) = (c for c in cells(compare(cut, FAST), "mpich") if c.size == 8)
    assert (cell.verdict, cell.why, cell.blocks) == (Verdict.INCONCLUSIVE, Why.NO_PAIRS, 0)
    assert cell.ratio is cell.low is cell.high is cell.p is None


def test_a_later_launch_of_a_block_replaces_the_earlier_and_it_is_said():
    results = experiment()
    first = next(m for m in results.measurements if m.arm == "mpich" and m.block == 1)
    series = tuple(
        dataclasses.replace(one, values=tuple(1.001 * value for value in one.values))
        for one in first.output.series
    )
    output = dataclasses.replace(first.output, series=series)
    later = dataclasses.replace(first, order=10_000, output=output)
    doubled = dataclasses.replace(
        results,
        measurements=(*results.measurements, later),
    )
    comparison = compare(doubled, FAST)
    assert [entry.what for entry in comparison.discarded] == ["superseded launch"]
    alone = [one for one in doubled.measurements if one is not first]
    expected = compare(dataclasses.replace(results, measurements=tuple(alone)), FAST)
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
    results = experiment(blocks=11)

    def spoiled(m):
        if m.arm != "mpich" or m.block != 4 or m.case.placement != INTER:
            return m
        series = tuple(
            dataclasses.replace(s, **change) if (s.benchmark, s.size) == ("latency", 8) else s
            for s in m.output.series
        )
        return dataclasses.replace(m, output=dataclasses.replace(m.output, series=series))

    comparison = compare(
        dataclasses.replace(results, measurements=tuple(map(spoiled, results.measurements))), FAST
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
    comparison = compare(dataclasses.replace(experiment(), problems=(problem,)), FAST)
    assert comparison.discarded[0].reason == "wrong-type"
    assert comparison.verdict is Verdict.PASS


def test_the_same_image_twice_is_called_out():
    results = experiment()
    arms = {**results.spec.arms, "mpich": results.spec.arms["impi"]}
    texts = [n.text for n in compare(with_spec(results, arms=arms), FAST).notes]
    assert any("same image" in text for text in texts)
    slower = {**arms, "mpich": dataclasses.replace(arms["impi"], rate="1gbit")}
    texts = [n.text for n in compare(with_spec(results, arms=slower), FAST).notes]
    assert not any("same image" in text for text in texts)
    unknown = {name: Arm() for name in arms}
    texts = [n.text for n in compare(with_spec(results, arms=unknown), FAST).notes]
    assert not any("same image" in text for text in texts)


def test_without_a_null_arm_the_reader_is_warned():
    comparison = compare(experiment(null=None), FAST)
    assert comparison.arms == ("impi", "mpich")
    assert comparison.challengers == ("mpich",)
    assert all(c.floor is None for c in cells(comparison, "mpich"))
    assert any("no null arm" in note.text for note in comparison.notes)
    with pytest.raises(KeyError):
        comparison.verdict_of("impi again")


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
    results = experiment()

    def slow(m):
        if m.arm != "mpich" or m.block != 6:
            return m
        series = tuple(
            dataclasses.replace(s, values=tuple(v * 3 for v in s.values)) for s in m.output.series
        )
        return dataclasses.replace(m, output=dataclasses.replace(m.output, series=series))

    spoiled = dataclasses.replace(results, measurements=tuple(map(slow, results.measurements)))
    comparison = compare(spoiled, FAST)
    point = comparison.panels[0].points("mpich")[1024]
    assert 6 in point.outliers
    assert 6 in point.blocks
    assert len(point.values) == 10
    assert comparison.discarded == ()


def test_programs_with_the_same_benchmark_are_judged_apart():
    results = experiment(placements=(INTRA,))
    other = tuple(
        dataclasses.replace(m, case=dataclasses.replace(m.case, program="imb"), order=m.order + 500)
        for m in results.measurements
        if m.arm != "impi again"
    )
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
    launch = next(
        entry
        for entry in comparison.launches
        if (entry.arm, entry.placement) == ("mpich", "inter-node")
    )
    assert launch.count == 11
    assert launch.argv[0] == "mpiexec"
    assert launch.env["FI_PROVIDER"] == "tcp"
    assert [rank.host for rank in launch.ranks] == ["n0", "n1"]
    assert {check.name for check in launch.checks} == {"validation", "transport"}


@pytest.mark.parametrize("factor", [0.4, 2.5])
def test_the_null_arm_is_the_same_only_where_it_is_neither_slower_nor_faster(factor):
    """A ratio of 2.5 of the baseline against itself is no sign of a quiet machine."""
    off = {"impi again": {("inter-node", "latency"): {8: factor}}}
    comparison = compare(experiment(slower=off), FAST)
    null = comparison.verdict_of("impi again")
    assert null.verdict is Verdict.FAIL
    (panel,) = [
        panel for panel in comparison.panels
        if (panel.curve.placement, panel.curve.benchmark) == ("inter-node", "latency")
    ]  # fmt: skip
    cells = {cell.size: cell for cell in panel.judgement("impi again").cells}
    assert cells[8].verdict is Verdict.FAIL
    assert cells[8].ratio == pytest.approx(1 / factor, rel=0.1)
    assert f"ratio {1 / factor:.1f}"[:-1] in null.sentence
    assert "differs from itself at 1" in null.sentence
    assert comparison.verdict_of("mpich").unproven <= comparison.verdict_of("mpich").inconclusive


def test_a_null_arm_that_may_be_faster_is_not_the_same():
    """Faster in half of the launches: the interval reaches far above 1."""
    results = experiment(slower={})
    swayed = []
    for one in results.measurements:
        output = one.output
        if one.arm == "impi again" and one.case.placement.name == "inter-node" and one.block % 2:
            series = tuple(
                dataclasses.replace(s, values=tuple(v / 3 for v in s.values))
                if (s.benchmark, s.size) == ("latency", 8) else s
                for s in one.output.series
            )  # fmt: skip
            output = dataclasses.replace(output, series=series)
        swayed.append(dataclasses.replace(one, output=output))
    comparison = compare(dataclasses.replace(results, measurements=tuple(swayed)), FAST)
    cells = {
        cell.size: cell
        for panel in comparison.panels
        if (panel.curve.placement, panel.curve.benchmark) == ("inter-node", "latency")
        for cell in panel.judgement("impi again").cells
    }
    assert cells[8].high > 2
    assert cells[8].verdict is Verdict.INCONCLUSIVE
    assert cells[8].why is not None


def test_two_programs_that_measure_the_same_are_both_named():
    slow = {"mpich": {("inter-node", "latency"): dict.fromkeys(SIZES, 2.0)}}
    results = experiment(slower=slow)
    other = [
        dataclasses.replace(
            one,
            order=one.order + 10_000,
            case=dataclasses.replace(one.case, program="IMB-MPI1"),
            output=dataclasses.replace(one.output, program="IMB-MPI1"),
        )
        for one in experiment(seed=2, slower=slow).measurements
    ]
    both = dataclasses.replace(results, measurements=(*results.measurements, *other))
    sentence = compare(both, FAST).verdict_of("mpich").sentence
    assert "latency inter-node with IMB-MPI1" in sentence
    assert "latency inter-node with stackproof-bench" in sentence
