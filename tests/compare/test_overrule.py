"""What no statistics may overrule."""

import collections
import itertools
import math

import pytest

from experiments import changed, output
from stackproof.compare import overrule
from stackproof.compare.compare import compare
from stackproof.compare.model import CompareOptions, Verdict
from stackproof.compare.overrule import Discards
from stackproof.core.value import replace
from synthetic import Noise, Plan, fault, simulate

FAST = CompareOptions()
WRONG = "3 received bytes were wrong: latency of 8 B, in sample 1: rank 1 received …"


def experiment(**plan):
    noise = Noise(launch=0.004, size=0.004, block=0.05)
    return simulate(Plan(**{"noise": noise, "challengers": ("mpich", "openmpi"), **plan}), 1)


@pytest.mark.parametrize("blocks", [(0,), (4,), tuple(range(1, 11))])
def test_wrong_bytes_once_fail_the_arm_and_nobody_else(blocks):
    results = fault(experiment(), "mpich", blocks, "validation-failed", WRONG)
    comparison = compare(results, FAST)
    verdict = comparison.verdict_of("mpich")
    assert verdict.verdict is Verdict.FAIL
    assert comparison.verdict is Verdict.FAIL
    assert f"wrong bytes in {2 * len(blocks)} of 22 launches" in verdict.sentence
    assert "within the margins" not in verdict.sentence
    assert WRONG in verdict.sentence
    assert comparison.verdict_of("openmpi").verdict is not Verdict.FAIL
    assert any(note.level == "warning" and WRONG in note.text for note in comparison.notes)


def test_wrong_bytes_are_not_made_good_by_a_second_launch():
    """A clean repetition in the same block changes nothing."""
    results = experiment()
    other = simulate(Plan(challengers=("mpich",), null=None, blocks=1), 7)
    first = next(one for one in other.measurements if (one.arm, one.block) == ("mpich", 0))
    alone = replace(results, measurements=(first,))
    bad = fault(alone, "mpich", [0], "validation-failed", WRONG)
    both = replace(results, measurements=(*bad.measurements, *results.measurements))
    assert compare(results, FAST).verdict is not Verdict.FAIL
    assert compare(both, FAST).verdict_of("mpich").verdict is Verdict.FAIL


def answers(comparison, arm):
    judged = [panel.judgement(arm) for panel in comparison.panels]
    return comparison.verdict_of(arm), [one.cells for one in judged]


@pytest.mark.parametrize("blocks", [(2, 5, 9), tuple(range(1, 11))])
def test_one_corrupt_arm_of_four_takes_nothing_from_the_others(blocks):
    results = experiment(challengers=("mpich", "openmpi", "other"))
    bad = fault(results, "mpich", blocks, "validation-failed", WRONG)
    whole, comparison = compare(results, FAST), compare(bad, FAST)
    assert comparison.verdict_of("mpich").verdict is Verdict.FAIL
    for arm in ("openmpi", "other", "impi again"):
        assert answers(comparison, arm) == answers(whole, arm)
    assert not any(one.what == "block" for one in comparison.discarded)


@pytest.mark.parametrize("reason", ["", "job-timeout"])
def test_what_may_have_taken_time_still_takes_its_block_along(reason):
    """A launch that did not end, and one that took too long, with wrong bytes or without."""
    results = fault(experiment(blocks=5), "mpich", [2], reason or "validation-failed", WRONG)
    if not reason:
        cut = output(complete=False)
        results = changed(results, cut, lambda one: (one.arm, one.block) == ("mpich", 2))
    assert not any(map(overrule.is_corrupt, results.measurements))
    assert {one.what for one in compare(results, FAST).discarded} == {"launch", "block"}


@pytest.mark.parametrize("arm", ["impi", "impi again"])
def test_with_a_corrupt_baseline_nothing_is_judged(arm):
    comparison = compare(fault(experiment(), arm, [2], "validation-failed", WRONG), FAST)
    assert comparison.verdict is Verdict.FAIL
    assert {one.verdict for one in comparison.verdicts} == {Verdict.INCONCLUSIVE}
    assert all("nothing can be compared" in one.sentence for one in comparison.verdicts)


@pytest.mark.battery
def test_discards_beyond_chance_withhold_the_verdict():
    """One arm loses 8 of 20 blocks and the others none."""
    results = fault(experiment(blocks=20), "mpich", range(1, 9), "job-timeout", "too slow")
    comparison = compare(results, FAST)
    verdict = comparison.verdict_of("mpich")
    assert verdict.verdict is Verdict.INCONCLUSIVE
    assert "16 of 40 launches of mpich were discarded and 0 of 40 of impi" in verdict.sentence
    assert "within the margins" not in verdict.sentence
    assert "discarded" not in comparison.verdict_of("openmpi").sentence
    few = fault(experiment(blocks=20), "mpich", [3], "job-timeout", "too slow")
    assert "discarded" not in compare(few, FAST).verdict_of("mpich").sentence


def test_a_block_goes_as_a_whole_but_not_for_an_arm_that_never_works():
    broken = fault(experiment(), "mpich", range(11), "rank-crashed", "always")
    comparison = compare(broken, FAST)
    assert not any(one.what == "block" for one in comparison.discarded)
    assert {
        cell.blocks for panel in comparison.panels for cell in panel.judgement("openmpi").cells
    } == {10}


@pytest.mark.parametrize(("m", "n"), [(5, 5), (5, 8), (7, 6)])
def test_the_chance_is_the_share_of_all_ways_to_discard_as_many(m, n):
    """Found by discarding every subset of the launches: as likely as what was seen, or less."""
    for a, b in itertools.product(range(6), range(6)):
        drawn = itertools.combinations(range(m + n), a + b)
        counts = collections.Counter(sum(one < m for one in subset) for subset in drawn)
        rare = sum(count for count in counts.values() if count <= counts[a])
        found = overrule.chance(Discards(discarded=a, made=m), Discards(discarded=b, made=n))
        assert found == pytest.approx(rare / counts.total())


@pytest.mark.parametrize(
    ("first", "second", "published"),
    [
        ((3, 4), (1, 4), 0.4857),  # the lady who tastes tea
        ((2, 17), (10, 13), 0.0005367),  # twins of convicts: Fisher, JRSS 98 (1935)
    ],
)
def test_the_chance_is_that_of_published_tables(first, second, published):
    """The examples of R's `fisher.test`, two-sided."""
    one, other = (Discards(discarded=bad, made=made) for bad, made in (first, second))
    assert overrule.chance(one, other) == pytest.approx(published, rel=1e-4)


def test_rates_that_chance_explains_are_let_through():
    """Seen over all outcomes of two alike arms, no more than 5 % are called different."""
    for rate, made in itertools.product((0.02, 0.1, 0.3), (10, 20)):
        outcomes = [
            math.comb(made, k) * rate**k * (1 - rate) ** (made - k) for k in range(made + 1)
        ]
        wrongly = sum(
            outcomes[i] * outcomes[j]
            for i in range(made + 1)
            for j in range(made + 1)
            if overrule.chance(Discards(discarded=i, made=made), Discards(discarded=j, made=made))
            < overrule.CHANCE
        )
        assert wrongly <= overrule.CHANCE
