"""How long launches take: by their case, and corrected by those that were made."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackproof.bench.amounts import DEFAULT_SIZES
from stackproof.bench.effects import run
from stackproof.bench.pace import Pace, pace_of, seconds_of, shape_text
from stackproof.bench.schedule import Launch
from stackproof.bench.spec import Arm, BenchSpec
from stackproof.core.monitor import Event
from stackproof.core.numbers import duration_text
from stackproof.results.case import Case, Placement, Rank
from stackproof.results.metrics import CORE

INTRA = Placement(name="intra-node", ranks=(Rank(node="a"), Rank(node="a")))
INTER = Placement(name="inter-node", ranks=(Rank(node="a"), Rank(node="b")))


def case(**more: object) -> Case:
    given = {
        "program": "stackproof-bench",
        "benchmarks": tuple(CORE),
        "sizes": DEFAULT_SIZES,
        "placement": INTER,
        **more,
    }
    return Case(**given)  # type: ignore[arg-type]


def launches(count: int = 2) -> tuple[Launch, ...]:
    found = []
    for block in range(count + 1):
        for placement in ("intra-node", "inter-node"):
            for arm in ("base", "ours"):
                found.append(
                    Launch(
                        order=len(found),
                        block=block,
                        arm=arm,
                        placement=placement,
                        program="stackproof-bench",
                    )
                )
    return tuple(found)


def test_what_the_default_bench_took_on_a_quiet_machine_is_foretold() -> None:
    """5.5 s within a node and 40.7 s over a link of 1 Gbit/s were measured; a third is near."""
    assert seconds_of(case(placement=INTRA), None) == pytest.approx(5.5, rel=0.33)
    assert seconds_of(case(), 125.0) == pytest.approx(40.7, rel=0.33)


def test_the_link_decides_only_between_nodes() -> None:
    assert seconds_of(case(), 125.0) > 2 * seconds_of(case(), 1250.0)
    assert seconds_of(case(placement=INTRA), 125.0) == seconds_of(case(placement=INTRA), 1250.0)


@given(st.integers(1, 24), st.booleans(), st.floats(10.0, 5000.0))
def test_less_to_do_takes_less(sizes: int, validate: bool, rate: float) -> None:
    less = case(sizes=DEFAULT_SIZES[:sizes], benchmarks=("latency",))
    assert 0 < seconds_of(less, rate) <= seconds_of(case(), rate)
    assert seconds_of(case(validate=validate), rate) >= seconds_of(case(), rate)


def test_nothing_measured_leaves_the_sum_of_all() -> None:
    pace = pace_of(launches(), lambda one: 2.0 if one.block else 3.0)
    assert pace.left_s == pytest.approx(4 * 3.0 + 8 * 2.0)


def test_what_launches_took_corrects_the_rest_arm_by_arm() -> None:
    pace = pace_of(launches(), lambda _: 1.0)
    slow = {"ours": 5.0, "base": 2.0}
    for one in launches()[:4]:  # the block that checks
        pace = pace.with_taken(one, slow[one.arm])
    assert pace.left_s == pytest.approx(4 * 5.0 + 4 * 2.0)
    pace = pace.with_taken(launches()[4], 7.0)  # base within a node, now timed
    assert launches()[4].arm == "base"
    assert pace.left_s == pytest.approx(1 * 7.0 + 2 * 2.0 + 4 * 5.0)


def test_at_the_end_nothing_is_left() -> None:
    taken = {one.order: 1.5 for one in launches()}
    pace = pace_of(launches(), lambda _: 1.0, {**taken, 999: 4.0})
    assert pace.left_s == 0
    assert isinstance(pace, Pace)


@pytest.mark.parametrize(
    ("budget_s", "left_s"),
    [
        (None, 4 * 3.0 + 40 * 2.0),
        (1000.0, 4 * 3.0 + 40 * 2.0),
        (30.0, 4 * 3.0 + 30.0),  # what only checks bytes comes beside the budget
        (1.0, 4 * 3.0 + 4 * 2.0),  # the first timed block is made all the same
    ],
)
def test_a_budget_is_of_timed_launches(budget_s: float | None, left_s: float) -> None:
    pace = pace_of(launches(10), lambda one: 2.0 if one.block else 3.0)
    assert pace.left_within(budget_s) == pytest.approx(left_s)
    for one in launches(10)[:8]:  # what checks bytes, and the first timed block
        pace = pace.with_taken(one, 3.0 if one.block == 0 else 2.0)
    left = 0.0 if budget_s == 1.0 else left_s - 4 * 3.0 - 4 * 2.0
    assert pace.left_within(budget_s) == pytest.approx(min(left, 36 * 2.0))


def test_a_schedule_in_words() -> None:
    assert shape_text(launches(10)) == (
        "44 launches: 2 arms, 2 placements, a warm-up and 10 blocks"
    )
    assert shape_text(launches()[:1]) == "1 launch: 1 arm, 1 placement, a warm-up and 0 blocks"


def test_launches_that_are_not_made_take_no_time() -> None:
    pace = pace_of(launches(), lambda _: 1.0).with_taken(launches()[0], 3.0)
    assert pace.without(launches()[2:]).left_s == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "1 s"), (0.4, "1 s"), (59.4, "59 s"), (59.6, "1 min"), (61, "2 min"), (2040, "34 min"),
     (3600, "1 h"), (4801, "1 h 21 min")],
)  # fmt: skip
def test_durations(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("until_decided", "said"), [(False, ""), (True, "at most")], ids=["all", "most"]
)
def test_what_is_left_is_the_most_where_launches_end_when_enough_is_decided(
    until_decided: bool, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is of all launches: with looks between the blocks some of them may not be made."""
    monkeypatch.setattr(run, "_measure", lambda *_: (None, None))
    planned = launches()
    spec = BenchSpec(baseline=Arm(image="a"), until_decided=until_decided)
    told: list[Event] = []
    one = SimpleNamespace(
        bench=SimpleNamespace(spec=spec), monitor=told.append, total=len(planned),
        pace=pace_of(planned, lambda _: 1.0), patience=None, is_ending=False,
    )  # fmt: skip
    *_, piece = run._made(one, planned[1])  # type: ignore[arg-type]
    assert piece.left_s is not None
    one.is_ending = True
    assert run._left_s(one) is None  # type: ignore[arg-type]
    assert [event.left_of for event in (*told, piece)] == [said, said]
