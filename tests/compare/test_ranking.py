"""Which path is best where: only what stands out of the intervals and the noise."""

from __future__ import annotations

import pytest

from experiments import changed, keep
from stackproof.compare.compare import compare
from stackproof.compare.model import (
    ArmCurve,
    ArmJudgement,
    Cell,
    CompareOptions,
    Comparison,
    Curve,
    Panel,
    Verdict,
)
from stackproof.compare.ranking import rank, several_paths
from stackproof.core import noun
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.value import replace
from stackproof.results.measurement import Check, Measurement, State
from stackproof.results.model import Results
from synthetic import INTER, INTRA, Noise, Plan, simulate

SIZES = (8, 1024, 65536)
QUIET = Noise(launch=0.004, size=0.004, block=0.01)
FASTER = {"lnx": {("inter-node", "latency"): {8: 0.7, 1024: 0.7}}}
OPTIONS = CompareOptions()


def by_paths(results: Results, paths: dict[str, str]) -> Results:
    """Return results whose arms took the paths named; all others took tcp."""
    return changed(results, lambda one: on_path(one, paths.get(one.arm, "tcp")))


def on_path(one: Measurement, transport: str) -> Measurement:
    return replace(one, case=replace(one.case, transport=transport))


def compared(
    *, paths: dict[str, str] | None = None, noise: Noise = QUIET, **plan: object
) -> Comparison:
    wish = Plan(challengers=("lnx", "ofi"), sizes=SIZES, noise=noise, **plan)  # type: ignore[arg-type]
    return compare(by_paths(simulate(wish), {"lnx": "lnx"} if paths is None else paths), OPTIONS)


def test_the_same_paths_everywhere_need_no_ranking() -> None:
    assert compared(paths={}).rankings == ()


def test_an_arm_is_best_where_it_stands_above_all_others() -> None:
    comparison = compared(slower=FASTER)
    (inter,) = [one for one in comparison.rankings if one.placement == "inter-node"]
    (best,) = inter.best
    assert (best.arm, best.transport, best.benchmark, best.sizes) == (
        "lnx", "lnx", "latency", (8, 1024),
    )  # fmt: skip
    assert (inter.points, inter.open_points) == (6, 4)
    assert "lnx (lnx) is best in latency at 8 B\u20131 KiB" in inter.sentence
    (intra,) = [one for one in comparison.rankings if one.placement == "intra-node"]
    assert (intra.best, intra.open_points) == ((), 6)


def test_the_baseline_can_be_best() -> None:
    slow = dict.fromkeys(SIZES, 1.5)
    slower = {
        arm: {(place, name): slow for place in ("intra-node", "inter-node")
              for name in ("latency", "bandwidth")}
        for arm in ("lnx", "ofi")
    }  # fmt: skip
    for ranking in compared(slower=slower).rankings:
        assert {one.arm for one in ranking.best} == {"impi"}
        assert ranking.open_points == 0


@pytest.mark.parametrize(
    ("slower", "noise"),
    [
        ({"lnx": FASTER["lnx"], "ofi": FASTER["lnx"]}, QUIET),
        (FASTER, Noise(launch=0.5, size=0.2, block=0.1)),
    ],
    ids=["two as good", "as much noise"],
)
def test_what_nobody_can_tell_is_left_open(slower: dict[str, object], noise: Noise) -> None:
    assert all(one.best == () for one in compared(slower=slower, noise=noise).rankings)


def judged(low: float, ratio: float, high: float, floor: float | None) -> Panel:
    """Return a curve of one size: the baseline by tcp, and an arm by lnx with this interval."""
    curve = Curve(
        placement="inter-node", locality="inter-node", program="p", benchmark="latency",
        title="latency", unit="us", kind="latency", higher_is_better=False,
    )  # fmt: skip
    cell = Cell(
        size=8, blocks=10, verdict=Verdict.PASS, margin=0.1, ratio=ratio, low=low, high=high,
        floor=floor,
    )  # fmt: skip
    return Panel(
        curve=curve,
        limit=None,
        limit_source="",
        arms=(
            ArmCurve(arm="base", points=(), transport="tcp"),
            ArmCurve(arm="ours", points=(), transport="lnx"),
        ),
        judgements=(ArmJudgement(arm="ours", cells=(cell,)),),
    )


@pytest.mark.parametrize(
    ("panel", "winner"),
    [
        pytest.param(judged(1.04, 1.05, 1.06, None), "ours", id="above"),
        pytest.param(judged(1.04, 1.05, 1.06, 0.02), "ours", id="above-and-beyond-the-noise"),
        pytest.param(judged(1.04, 1.05, 1.06, 0.10), None, id="within-the-noise"),
        pytest.param(judged(0.99, 1.05, 1.10, None), None, id="reaches-the-baseline"),
        pytest.param(judged(0.80, 0.85, 0.90, 0.02), "base", id="below"),
        pytest.param(judged(0.80, 0.85, 1.00, 0.02), None, id="up-to-the-baseline"),
    ],
)
def test_who_stands_out(panel: Panel, winner: str | None) -> None:
    (ranking,) = rank((panel,), "base", None)
    assert [one.arm for one in ranking.best] == ([] if winner is None else [winner])
    assert ranking.open_points == (winner is None)


def test_too_few_launches_are_said() -> None:
    for ranking in compared(slower=FASTER, blocks=3).rankings:
        assert ranking.best == ()
        assert "too few launches" in ranking.sentence


def test_one_arm_alone_at_a_placement_is_said() -> None:
    wish = Plan(challengers=("shm",), sizes=SIZES, noise=QUIET, null=None)
    results = by_paths(simulate(wish), {"shm": "shm"})
    kept = keep(results, lambda one: one.arm != "shm" or one.case.placement == INTRA)
    comparison = compare(kept, OPTIONS)
    inter = next(one for one in comparison.rankings if one.placement == "inter-node")
    assert inter.sentence == "At inter-node only one path was measured."
    assert any("shm was not measured at inter-node" in note.text for note in comparison.notes)


def test_a_placement_without_the_baseline_is_said() -> None:
    results = by_paths(simulate(Plan(challengers=("shm",), sizes=SIZES, null=None)), {"shm": "shm"})
    kept = keep(results, lambda one: one.arm == "shm" or one.case.placement == INTER)
    comparison = compare(kept, OPTIONS)
    assert {panel.curve.placement for panel in comparison.panels} == {"inter-node"}
    said = [note.text for note in comparison.notes if "no usable launch at intra-node" in note.text]
    assert len(said) == 1
    assert "shm" in said[0]


def test_launches_by_another_path_never_enter() -> None:
    results = by_paths(simulate(Plan(challengers=("ours",), sizes=SIZES, noise=QUIET)), {})
    others = {"ours", "impi again"}
    mixed = changed(
        results, lambda one: on_path(one, "shm"), lambda one: one.arm in others and one.block > 5
    )
    comparison = compare(mixed, OPTIONS)
    found = [one for one in comparison.discarded if one.reason == Reason.WRONG_TRANSPORT.value]
    assert {(one.arm, one.block) for one in found} == {
        (arm, block) for arm in ("ours", "impi again") for block in range(6, 11)
    }
    assert {c.blocks for p in comparison.panels for j in p.judgements for c in j.cells} == {5}
    assert not several_paths(comparison.panels, "impi again")


def untimed(one: Measurement, **changes: object) -> Measurement:
    placement = replace(one.case.placement, name="2x4", timed=False)
    return replace(one, case=replace(one.case, placement=placement), **changes)


def test_what_was_only_validated_is_shown_and_never_compared() -> None:
    results = simulate(Plan(challengers=("ours",), sizes=SIZES, noise=QUIET))
    right = Check(name="validation", state=State.OK, evidence="64 received bytes were right")
    wrong = Check(
        name="validation", state=State.BAD, reason=Reason.VALIDATION_FAILED.value, evidence="3"
    )
    one, two = results.measurements[:2]
    extra = (
        untimed(one, arm="impi", checks=(right,), block=1),
        untimed(two, arm="ours", checks=(wrong,), block=1),
        untimed(two, arm="ours", checks=(right,), block=1, order=10_000),
    )
    comparison = compare(replace(results, measurements=(*results.measurements, *extra)), OPTIONS)
    assert {panel.curve.placement for panel in comparison.panels} == {"intra-node", "inter-node"}
    assert [(v.arm, v.state) for v in comparison.validated] == [
        ("impi", State.OK), ("ours", State.OK),
    ]  # fmt: skip
    again = compare(replace(results, measurements=(*results.measurements, *extra[:2])), OPTIONS)
    assert [v.state for v in again.validated] == [State.OK, State.BAD]
    assert noun.from_json(Comparison, noun.to_json(again)) == again


def test_results_that_were_only_validated_compare_nothing() -> None:
    results = simulate(Plan(challengers=("ours",), sizes=SIZES, blocks=1))
    with pytest.raises(StackproofError) as caught:
        compare(changed(results, untimed), OPTIONS)
    assert caught.value.reason is Reason.NO_RESULTS


def test_curves_know_their_ranks_and_nodes() -> None:
    comparison = compared()
    shapes = {p.curve.placement: (p.curve.nodes, p.curve.ranks) for p in comparison.panels}
    assert shapes == {INTRA.name: (1, 2), INTER.name: (2, 2)}
    assert {p.transport("lnx") for p in comparison.panels} == {"lnx"}
