"""When a bench is given up: by what disturbed its launches and how long, and by nothing measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from stackproof.bench import pace, schedule
from stackproof.bench.effects import request
from stackproof.bench.effects import run as bench_run
from stackproof.bench.effects.nodes import LaunchNodes
from stackproof.bench.pace import Patience, SpentPatienceError, pace_of
from stackproof.bench.spec import Arm, BenchSpec
from stackproof.core.command import Completed
from stackproof.core.effects.quiet import MachineLoad
from stackproof.core.monitor import null_monitor
from stackproof.core.value import replace
from stackproof.results.case import Case, Placement, Rank
from stackproof.results.measurement import (
    Check,
    Disturbance,
    Measurement,
    Output,
    RankFacts,
    Series,
    State,
)

CASE = Case(
    program="stackproof-bench",
    benchmarks=("latency",),
    sizes=(8,),
    placement=Placement(name="intra-node", ranks=(Rank(node="a", cpu=0), Rank(node="a", cpu=1))),
)
UNTIMED = replace(CASE.placement, timed=False)
ARMS = {name: frozenset({"stackproof-bench"}) for name in ("base", "base-again", "mpich")}
PLAN = schedule.schedule(BenchSpec(baseline=Arm(image="a"), launches=10, until_decided=True), ARMS)


def made(
    lost: float | None, latency: float = 1.0, *, ok: bool = True, case: Case = CASE
) -> Measurement:
    """Return a launch whose rank 1 lost a share of its time; None is a rank that does not tell."""
    seen = None
    if lost is not None:
        seen = Disturbance(wall_s=1.0, run_queue_wait_s=lost, other_load=lost)
    series = (
        Series(benchmark="latency", size=8, unit="us", values=(latency,) * 5, iterations=100),
    )
    state = State.OK if ok else State.BAD
    return Measurement(
        arm="mpich", block=1, order=0, case=case, argv=(), env={}, seconds=9.0,
        started="2026-01-01T00:00:00+00:00",
        output=Output(
            program="stackproof-bench", series=series,
            ranks=(RankFacts(rank=0, host="a"), RankFacts(rank=1, host="a", disturbance=seen)),
        ),
        checks=(Check(name="end", state=state, reason="" if ok else "job-failed"),),
    )  # fmt: skip


def after(launches: Sequence[Measurement]) -> Patience:
    found = Patience(began=0.0)
    for one in launches:
        found = found.after(one)
    return found


@pytest.mark.parametrize(
    ("launches", "seconds", "busy", "spent"),
    [
        ([made(0.8)] * 3, 60.0, False, True),
        ([made(0.8)] * 3, 59.0, False, False),  # too early
        ([made(0.8)] * 2, 3600.0, False, False),  # too few
        ([made(0.8)] * 19 + [made(0.0)], 200.0, False, True),
        ([made(0.8)] * 8 + [made(0.0)] * 2, 200.0, False, False),  # some are quiet
        ([made(0.01)] * 50, 7200.0, False, False),  # a quiet machine
        ([made(None)] * 50, 7200.0, False, False),  # a program that does not tell
        ([made(0.8, ok=False)] * 50, 7200.0, False, False),  # what failed tells nothing
        ([made(0.8, case=replace(CASE, placement=UNTIMED))] * 50, 7200.0, False, False),
        # Fewer launches are enough where they are long and the machine is busy.
        ([made(0.8)], 60.0, True, True),
        ([made(0.8)], 59.0, True, False),
        ([made(0.8)], 3600.0, False, False),  # whoever disturbed it is gone
        ([made(0.8), made(0.0)], 3600.0, True, False),
        ([made(0.0)], 3600.0, True, False),  # others run, and not beside the ranks
        ([made(None)], 3600.0, True, False),
        ([], 3600.0, True, False),
    ],
)
def test_only_disturbance_and_time_end_a_bench(
    launches: list[Measurement], seconds: float, busy: bool, spent: bool
) -> None:
    assert after(launches).is_spent(seconds, lambda: busy) is spent


def test_a_look_is_taken_only_where_it_decides() -> None:
    def look() -> bool:
        raise AssertionError

    for launches in ([made(0.8)] * 3, [made(0.0)] * 9, [made(0.8), made(0.0)]):
        after(launches).is_spent(1e6, look)
    after([made(0.8)]).is_spent(1.0, look)


def test_a_slow_and_steady_mpi_on_a_quiet_machine_is_never_given_up() -> None:
    slow = [made(0.0, latency=1e6 * (1 + number % 3)) for number in range(100)]
    assert not after(slow).is_spent(1e6, lambda: True)


@pytest.mark.parametrize("latency", [0.001, 1.0, 1e6])
def test_what_was_measured_changes_nothing(latency: float) -> None:
    losses = [0.8, 0.0, 0.3, 0.06, 0.04]
    assert after([made(lost, latency) for lost in losses]) == after([made(x) for x in losses])


def test_it_says_why_and_what_helps() -> None:
    spent = after([made(0.8)] * 3)
    assert pace.describe_disturbance(spent, 3) == (
        "giving up: other programs disturbed 3 of 3 launches (rank 1 on a, lost 80% of its time to "
        "other programs), so nothing would be decided; 3 last launches for a number of each arm"
    )
    assert "last" not in pace.describe_disturbance(spent, 0)
    text = pace.describe_remedy(95.0, "6 of 33 launches", "load 14 on 2 CPUs, mostly of `cc1`")
    assert text.startswith("given up after 2 min with 6 of 33 launches; now load 14 on 2 CPUs")
    assert "What helps: end those programs, or `--wait-for-quiet 30m`" in text
    assert "--no-give-up" in text
    assert "same command" not in text  # `next:` says whether these results are worth going on
    nobody = pace.describe_remedy(95.0, "6 of 33 launches", "load 14 on 2 CPUs")
    assert "What helps: `--wait-for-quiet 30m`" in nobody


def test_a_batch_job_is_not_given_up() -> None:
    spec = BenchSpec(baseline=Arm(image="a"))
    assert pace.of_bench(spec, 5.0) == Patience(began=5.0)
    assert pace.of_bench(replace(spec, on="slurm"), 5.0) is None


def test_closing_launches_are_made_and_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, kept = Clock(), list[schedule.Launch]()

    def make(run: object, launch: schedule.Launch, *, last: bool) -> bool:
        del run
        clock.now += 20.0
        kept.append(launch)
        return last

    monkeypatch.setattr(bench_run, "_run_launch", make)
    monkeypatch.setattr(bench_run.quiet, "look", lambda: MachineLoad(average=9, running=9, cpus=2))
    texts: list[str] = []
    run = SimpleNamespace(
        patience=Patience(began=0.0, told=3, hurt=3, example="rank 1 lost 80 %"),
        clock=lambda: clock.now, monitor=lambda event: texts.append(event.text),
        folder=Path("/nowhere"), total=len(PLAN), is_ending=False,
    )  # fmt: skip
    block = [one for one in PLAN if one.block == 1]
    first = tuple(one for one in block if one.placement == block[0].placement)
    assert {one.arm for one in first} == set(ARMS)
    assert len(first) < len(block)
    bench_run._give_up(run, PLAN)  # type: ignore[arg-type]
    assert tuple(kept) == first
    begin, end = texts  # the first says what follows, the last that it is over
    assert begin.startswith("giving up: ")
    assert end.startswith(f"given up after 1 min with {len(first)} of {len(PLAN)} launches in ")
    assert run.is_ending  # so that no launch says what is left


def test_a_busy_machine_lengthens_what_is_expected_before_the_first_launch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    spec, node = BenchSpec(baseline=Arm(image="a")), SimpleNamespace(arm=Arm(image="a"))
    place = LaunchNodes(nodes=(), rate_mb_s=None)
    arms = SimpleNamespace(by_name=dict.fromkeys(ARMS, node))
    quiet = bench_run.Bench(spec=spec, arms=arms, place=place, placements={})  # type: ignore[arg-type]
    expected: list[float] = []

    def run_bench(bench: bench_run.Bench, folder: Path, *_: object, **__: object) -> None:
        expected.append(bench_run.pace_in(bench, PLAN, folder).left_within(None))

    monkeypatch.setattr(bench_run, "_case", lambda *_: CASE)
    monkeypatch.setattr(request, "prepare", lambda _: quiet)
    monkeypatch.setattr(request, "run_bench", run_bench)
    monkeypatch.setattr(request.planning, "require_launches", lambda *_: None)
    monkeypatch.setattr(bench_run.Bench, "launches", lambda _: PLAN)
    for factor in (1.0, 6.2):
        request.measure(spec, tmp_path, null_monitor, begin=lambda factor=factor: factor)
    assert expected[1] == pytest.approx(6.2 * expected[0])


class Clock:
    """Every launch takes 10 s, and what is read between them nothing."""

    def __init__(self) -> None:
        self.now = 0.0


def test_launches_end_when_patience_does_and_all_that_was_made_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, kept = Clock(), list[str]()

    def measure(bench: object, launch: schedule.Launch) -> tuple[Measurement, Completed]:
        del bench, launch
        clock.now += 10.0
        return made(0.8), Completed(argv=(), returncode=0, stdout=b"", stderr=b"", seconds=10.0)

    monkeypatch.setattr(bench_run, "_measure", measure)
    spec = SimpleNamespace(launches=10, until_decided=True, budget_s=None)
    run = bench_run.Run(
        bench=SimpleNamespace(spec=spec, arms=None),  # type: ignore[arg-type]
        record=SimpleNamespace(keep=lambda name, _: kept.append(name)),  # type: ignore[arg-type]
        monitor=null_monitor,
        total=len(PLAN),
        pace=pace_of(PLAN, lambda _: 10.0),
        patience=Patience(began=0.0),
        clock=lambda: clock.now,
    )
    timed = [one for one in PLAN if one.block == 1]
    with pytest.raises(SpentPatienceError):
        bench_run._run_block(run, timed * 5, again=True)
    assert clock.now == 60.0
    assert len(kept) == 6
