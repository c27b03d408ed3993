"""What a look decided is not judged again, nor what no disturbed launch can have caused."""

import pytest

from experiments import experiment, sampled, until, with_spec
from stackproof.compare import sequential
from stackproof.compare.collect import collect
from stackproof.compare.disturbance import Disturbed, doubtful
from stackproof.compare.judge import MEDIAN, Open, Rules
from stackproof.compare.model import DEFAULT_MARGINS, ArmJudgement, Cell, Tail, Verdict, Why
from stackproof.compare.panels import judged_panels
from stackproof.compare.sequential import Look, parts_of, replayed
from synthetic import INTER, Noise

KEY = ("inter-node", "stackproof-bench", "latency")
PLAN = (8, 11, 15)
PASSED, OPEN = Verdict.PASS, Verdict.INCONCLUSIVE
RULES = Rules(margins=DEFAULT_MARGINS, confidence=0.95, family_error=0.05, minimum_launches=5)


def cell(size, verdict=OPEN, tails=(), ratio=1.0):
    found = tuple(
        Tail(statistic=name, blocks=8, verdict=answer, margin=0.25, ratio=ratio)
        for name, answer in tails
    )
    return Cell(size=size, blocks=8, verdict=verdict, margin=0.1, ratio=ratio, tails=found)


def judgement(*cells):
    return {(KEY, "x"): ArmJudgement(arm="x", cells=cells)}


def by_part(results):
    """Return the verdict, ratio and p-value of every part, of the challenger and the null arm."""
    return {
        (panel.curve.key, one.arm, *name): (part.verdict, part.ratio, part.p, part.blocks)
        for panel in judged_panels(collect(results), results, RULES, ())
        for one in panel.judgements
        for name, part in parts_of(one)
    }


def test_each_part_is_as_the_first_look_that_decided_it_left_it():
    results = experiment(
        placements=(INTER,), sizes=(8, 1024, 65536, 1 << 20), blocks=15, benchmarks=("latency",),
        noise=Noise(launch=0.06, size=0.05),
    )  # fmt: skip
    results = with_spec(sampled(results, {"mpich": (0.1, 1.4)}), looks=PLAN)
    expected = {}
    for look in PLAN:
        # Without the launches after it a look is the last one, where all is told of every part.
        alone = by_part(until(results, look))
        expected = {
            part: now if part not in expected or expected[part][0] is OPEN else expected[part]
            for part, now in alone.items()
        }
    found = by_part(results)
    assert found == expected
    decided = {one[3] for one in found.values() if one[0] is not OPEN}
    assert len(decided) > 1  # not all of them at the same look
    assert OPEN in {one[0] for one in found.values()}
    assert sequential.looks_taken(collect(until(results, 12)).table, PLAN) == (8, 11)


def test_a_look_asks_for_what_is_open_and_keeps_the_rest():
    table = {KEY: {"x": {8: dict.fromkeys(range(1, 16), 1.0)}}}
    asked = []
    answers = iter(
        (
            judgement(cell(8, PASSED, [("mean", OPEN), ("p95", PASSED)]), cell(64)),
            judgement(cell(8, OPEN, [("mean", PASSED), ("p95", OPEN)]), cell(64, PASSED)),
            judgement(cell(8), cell(64)),
        )
    )

    def judged(look):
        asked.append(look.parts(KEY, "x"))
        return next(answers) if asked[-1] else {}

    found = replayed(table, PLAN, None, judged)
    assert asked == [
        Open(last=False),
        Open(frozenset({(8, MEDIAN), (8, "p95")}), last=False),
        None,  # all is decided: nothing is left for the last look
    ]
    tails = [("mean", PASSED), ("p95", PASSED)]
    assert found == judgement(cell(8, PASSED, tails), cell(64, PASSED))


@pytest.mark.parametrize(
    ("decided", "wanted", "left"),
    [
        ((), {(8, MEDIAN)}, {(8, MEDIAN)}),
        (((8, PASSED),), {(8, MEDIAN)}, None),
        (((8, PASSED), (64, OPEN)), {(8, MEDIAN), (64, MEDIAN)}, {(64, MEDIAN)}),
        ((), set(), None),
    ],
)
def test_only_what_is_wanted_is_judged(decided, wanted, left):
    before = judgement(*(cell(size, verdict) for size, verdict in decided)) if decided else {}
    parts = Look({}, before, {(KEY, "x"): frozenset(wanted)}).parts(KEY, "x")
    every = [(size, name) for size in (8, 64) for name in (MEDIAN, "mean")]
    assert (parts and {part for part in every if part in parts}) == left


def test_calm_launches_are_asked_only_for_the_verdicts_that_others_may_have_caused():
    found = judgement(
        cell(8, Verdict.FAIL, [("mean", PASSED), ("p95", OPEN)], ratio=0.5),
        cell(64, PASSED, [("mean", Verdict.FAIL)], ratio=1.5),
    )
    assert doubtful(found, slower=True) == {(KEY, "x"): {(8, MEDIAN)}}
    faster = {(8, "mean"), (64, MEDIAN), (64, "mean")}
    assert doubtful(found, slower=False) == {(KEY, "x"): faster}


def test_a_launch_takes_verdicts_away_where_it_was_and_nowhere_else():
    results = experiment(sizes=(8, 1024), blocks=8, benchmarks=("latency",))
    hurt = [
        Disturbed(
            arm="impi", block=block, placement="inter-node", program="stackproof-bench", text=""
        )
        for block in range(1, 8)
    ]
    panels = judged_panels(collect(results), results, RULES, hurt)
    found = {
        (panel.curve.placement, one.why)
        for panel in panels
        for one in panel.judgement("mpich").cells
    }
    assert found == {("intra-node", None), ("inter-node", Why.DISTURBED)}
