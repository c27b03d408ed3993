"""Something else at a rank's CPU: which launches, and which verdicts are withheld for it."""

import pytest

from experiments import all_cells, changed, experiment, of_program, output, times
from stackproof.compare.compare import compare
from stackproof.compare.disturbance import disturbed, lost, untold
from stackproof.compare.model import Verdict, Why
from stackproof.core.value import replace
from stackproof.results.measurement import Disturbance
from synthetic import INTER, SIZES

CALM = Disturbance(
    wall_s=2.0, run_queue_wait_s=0.01, involuntary_switches=9, other_load=0.01, frequency_mhz=2600.0
)
BUSY = replace(CALM, run_queue_wait_s=0.9, involuntary_switches=400, other_load=0.45)


def hurt(hit, seen=BUSY, **changes):
    """Return results in which the launches that `hit` names had `seen` at their first rank."""

    def with_load(one):
        first, *others = (replace(rank, disturbance=CALM) for rank in one.output.ranks)
        return output(ranks=(replace(first, disturbance=seen if hit(one) else CALM), *others))(one)

    return changed(experiment(**{"placements": (INTER,), "blocks": 12, **changes}), with_load)


ALL_SIZES = {("inter-node", "latency"): dict.fromkeys((1 << n for n in range(23)), 2.0)}


@pytest.mark.parametrize(
    ("seen", "share"),
    [
        (Disturbance(), None),
        (Disturbance(wall_s=2.0, run_queue_wait_s=1.0), 0.5),
        (Disturbance(other_load=0.3), 0.3),
        # Its own threads made it wait; what ran while it slept took nothing from it.
        (Disturbance(wall_s=2.0, run_queue_wait_s=1.0, other_load=0.0), 0.0),
        (Disturbance(wall_s=2.0, run_queue_wait_s=0.0, other_load=0.9), 0.0),
        (Disturbance(wall_s=0.0, run_queue_wait_s=0.0), None),
    ],
)
def test_what_a_rank_lost_to_others(seen, share):
    assert lost(seen) == share


@pytest.mark.battery
@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (BUSY, "rank 0 on n0, CPU 0, lost 45% of its time to other programs"),
        (Disturbance(wall_s=2.0, involuntary_switches=400), "200 times a second"),
        (replace(CALM, frequency_mhz=1200.0), "1200 MHz"),
    ],
)
def test_a_disturbed_launch_is_named_with_the_rank_and_what_was_seen(seen, words):
    results = hurt(lambda one: (one.arm, one.block) == ("mpich", 3), seen)
    (found,) = disturbed(results.measurements)
    assert (found.arm, found.block, found.placement) == ("mpich", 3, "inter-node")
    assert words in found.text
    assert any(words in note.text for note in compare(results).notes)


@pytest.mark.parametrize(
    "seen", [CALM, Disturbance(), Disturbance(wall_s=2.0, involuntary_switches=30)]
)
def test_a_quiet_core_and_one_that_nobody_watched_are_not_disturbed(seen):
    assert disturbed(hurt(lambda one: True, seen).measurements) == ()


@pytest.mark.battery
def test_a_busy_core_that_slows_one_arm_makes_no_fail():
    """The core was busy for every launch, one MPI suffers from it, and the null arm is silent."""
    slow = {"mpich": ALL_SIZES}
    before = compare(experiment(placements=(INTER,), blocks=12, slower=slow))
    assert before.verdict is Verdict.FAIL
    assert before.verdict_of("impi again").verdict is Verdict.PASS
    comparison = compare(hurt(lambda one: True, slower=slow))
    assert comparison.verdict is Verdict.INCONCLUSIVE
    assert {cell.why for cell in all_cells(comparison)} == {Why.DISTURBED}
    assert any(note.level == "warning" and "are withheld" in note.text for note in comparison.notes)


@pytest.mark.battery
def test_a_busy_core_makes_no_pass_either():
    comparison = compare(hurt(lambda one: True))
    assert {cell.verdict for cell in all_cells(comparison)} == {Verdict.INCONCLUSIVE}


def test_disturbance_of_one_arm_alone_takes_the_verdict_away():
    slow = {"mpich": ALL_SIZES}
    comparison = compare(hurt(lambda one: one.arm == "mpich", slower=slow))
    (latency,) = (p for p in comparison.panels if p.curve.benchmark == "latency")
    assert {cell.why for cell in latency.judgement("mpich").cells} == {Why.DISTURBED}
    assert {cell.verdict for cell in all_cells(comparison, "impi again")} == {Verdict.PASS}


def test_what_slows_the_baseline_alone_makes_no_pass_and_takes_no_fail_away():
    """It can only have made the baseline slower: an arm that is slower than that still is."""
    comparison = compare(hurt(lambda one: one.arm == "impi", slower={"mpich": ALL_SIZES}))
    for panel in comparison.panels:
        expected = Verdict.FAIL if panel.curve.benchmark == "latency" else Verdict.INCONCLUSIVE
        assert {cell.verdict for cell in panel.judgement("mpich").cells} == {expected}


def test_what_slows_a_challenger_takes_no_pass_away():
    comparison = compare(hurt(lambda one: one.arm == "mpich"))
    assert {cell.verdict for cell in all_cells(comparison)} == {Verdict.PASS}


def test_a_null_arm_that_is_faster_is_explained_by_the_baseline_s_disturbance():
    off = {"impi again": {("inter-node", "latency"): dict.fromkeys(SIZES, 0.5)}}
    calm = compare(hurt(lambda one: one.arm == "impi again", slower=off))
    busy = compare(hurt(lambda one: one.arm == "impi", slower=off))
    found = [
        {c.verdict for p in one.panels if p.curve.benchmark == "latency"
         for c in p.judgement("impi again").cells}
        for one in (calm, busy)
    ]  # fmt: skip
    assert found == [{Verdict.FAIL}, {Verdict.INCONCLUSIVE}]


@pytest.mark.parametrize(("slow", "verdict"), [({}, "PASS"), ({"mpich": ALL_SIZES}, "FAIL")])
def test_a_verdict_that_undisturbed_launches_bear_out_stays(slow, verdict):
    comparison = compare(hurt(lambda one: one.block in {2, 5, 9}, slower=slow))
    (panel,) = (p for p in comparison.panels if p.curve.benchmark == "latency")
    assert {cell.verdict for cell in panel.judgement("mpich").cells} == {verdict}
    assert any("in 9 of" in note.text and note.level == "note" for note in comparison.notes)


def test_a_difference_that_only_disturbed_launches_have_is_withheld():
    """Most of the launches were disturbed, and slow; those that were not are equal."""
    results = hurt(lambda one: one.block > 4)
    slowed = times(2, lambda s: s.unit == "us")
    comparison = compare(changed(results, slowed, lambda one: one.arm == "mpich" and one.block > 4))
    (panel,) = (p for p in comparison.panels if p.curve.benchmark == "latency")
    assert not any(c.verdict is Verdict.FAIL for c in panel.judgement("mpich").cells)


def test_a_program_that_does_not_look_at_its_cpu_is_judged_as_before():
    assert compare(experiment(placements=(INTER,))).verdict is Verdict.PASS


@pytest.mark.battery
def test_a_program_that_tells_nothing_of_its_ranks_is_named():
    """IMB-MPI1 prints its tables only: its launches may have been disturbed, or not."""
    results = hurt(lambda one: False)
    silent = [output(ranks=())(of_program(one, "IMB-MPI1")) for one in results.measurements]
    assert untold(results.measurements) == ()
    both = replace(results, measurements=(*results.measurements, *silent))
    assert untold(both.measurements) == ("IMB-MPI1",)
    texts = [note.text for note in compare(both).notes]
    assert any("IMB-MPI1 does not tell what else ran on its CPUs" in text for text in texts)
