"""The speeds of a proof are those of `compare` and of the report, or none at all."""

from __future__ import annotations

import csv
import io
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stackproof.bench import schedule
from stackproof.bench.spec import Arm, BenchSpec
from stackproof.compare.compare import compare
from stackproof.compare.effects.results import load_results
from stackproof.compare.model import Comparison, Verdict, Why
from stackproof.core import noun
from stackproof.core.command import Completed, EnvPatch
from stackproof.core.effects import quiet
from stackproof.core.effects.quiet import MachineLoad
from stackproof.core.monitor import Event
from stackproof.core.numbers import size_text
from stackproof.core.value import replace
from stackproof.launch.effects import neighbours
from stackproof.launch.effects.neighbours import CpuTimes
from stackproof.prove import model as prove_model
from stackproof.prove.effects import arms as prove_arms
from stackproof.prove.effects import speed as prove_speed
from stackproof.prove.effects.arms import ProofArm, ProofRun, Ready
from stackproof.prove.effects.mpi import Provided
from stackproof.prove.model import (
    AGAIN,
    INJECTED,
    OWN,
    ArmProof,
    Prediction,
    Proof,
    ProofOutcome,
    Speed,
)
from stackproof.prove.options import ProveRequest
from stackproof.report.tables import render_csv
from stackproof.report.words import cell_words
from stackproof.results.case import Placement, Rank
from stackproof.results.measurement import Disturbance
from synthetic import INTRA, Noise, Plan, simulate

SIZES = (8, 65536, 1 << 20)
PRINTED = tuple(1 << power for power in range(3, 21))
PLACE = Placement(name="intra-node", ranks=(Rank(node="n0", cpu=0), Rank(node="n0", cpu=1)))
QUIET = Noise(launch=0.004, size=0.004, block=0.05)
WORDS_OF_SPEED = re.compile(r"faster|slower|fast within|by the tail", re.IGNORECASE)

Factor = Callable[[str, int], float]
"""By how much longer messages of an arm take in a block."""

Measured = tuple[Proof, list[dict[str, str]], list[Event]]
Proven = Callable[..., Measured]


class Machine:
    """Launches with times that are planted, and CPUs that others are at in some blocks.

    After block `last` every launch fails, as does the launch with the number `once`; that with the
    number `wrong` receives wrong bytes.
    """

    def __init__(self, factor: Factor, **planted: Any) -> None:
        self.factor = factor
        self.others: frozenset[int] = planted.get("others", frozenset())
        self.noise: float = planted.get("noise", 0.01)
        self.last: int = planted.get("last", 99)
        self.once: int = planted.get("once", -1)
        self.wrong: int = planted.get("wrong", -1)
        self.random = random.Random(3)
        self.calls = 0

    @property
    def block(self) -> int:
        return self.calls // 3

    def launch(self, _stage: object, arm: ProofArm, words: tuple[str, ...]) -> Completed:
        times = self.factor(arm.name, self.block) * 2 ** self.random.gauss(0, self.noise)
        answer = "Fail" if self.calls == self.wrong else "Pass"
        rows = "".join(
            f"{size:<10}{times * (100 + size / 10):>18.2f}{answer:>18}\n" for size in PRINTED
        )
        code = 1 if self.block > self.last or self.calls == self.once else 0
        self.calls += 1
        head = f"{'# Size':<10}{'Latency (us)':>18}{'Validation':>18}"
        text = f"# OSU MPI Latency Test v7.3\n{head}\n{rows}"
        return Completed(argv=words, returncode=code, stdout=text.encode(), stderr=b"", seconds=1.0)

    def watch(self, _cpus: object) -> Callable[[], Disturbance]:
        taken = 0.4 if self.block in self.others else 0.01
        return lambda: Disturbance(wall_s=1.0, other_load=taken)


@pytest.fixture
def proven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Proven:
    """Return a function that measures a planted machine; it also gives what `compare` says."""

    def measured(
        factor: Factor, *, launches: int = 10, words: tuple[str, ...] = ("-c",), **planted: Any,
    ) -> Measured:  # fmt: skip
        machine = Machine(factor, **planted)
        monkeypatch.setattr(prove_arms, "launch", machine.launch)
        monkeypatch.setattr(neighbours, "watch", machine.watch)
        options = ProveRequest(
            command=("osu_latency", *words), replacement="new", launches=launches
        )
        stage = ProofRun(wanted=options, program="osu_latency", placement=PLACE, folder=tmp_path)
        arms = {
            name: ProofArm(
                name=name, provided=Provided(title=name, prefix="/"), mounts=(), env=EnvPatch(),
                rank_env={}, prediction=Prediction(),
            )
            for name in (OWN, INJECTED)
        }  # fmt: skip
        first = machine.launch(stage, arms[OWN], ())
        machine.calls = 0
        events: list[Event] = []
        found = prove_speed.measure(Ready(stage=stage, arms=arms), {OWN: first}, events.append)
        proof = Proof(
            program="osu_latency", replacement="new", answer=ProofOutcome.PROVEN, reasons=(),
            arms=tuple(
                ArmProof(name=name, mpi="", prediction=Prediction(), wanted_ranks=2, wrong_bytes=text)
                for name, text in found.wrong_bytes.items()
            ),
            speed=found.speed, launches=found.launches, speed_notes=found.notes,
        )  # fmt: skip
        rows: list[dict[str, str]] = []
        if found.speed:
            text = render_csv(compare(load_results(tmp_path)))
            rows = [one for one in csv.DictReader(io.StringIO(text))
                    if one["challenger"] == INJECTED]  # fmt: skip
        return proof, rows, events

    return measured


def same(speed: Speed, row: dict[str, str]) -> bool:
    """Return true where a speed is a row of `compare --csv`, every number and the verdict."""
    numbers = [speed.ratio, speed.low, speed.high]
    theirs = [float(row[name]) if row[name] else None
              for name in ("ratio", "ratio_low", "ratio_high")]  # fmt: skip
    decided = row["verdict"] != Verdict.INCONCLUSIVE.value
    return (
        speed.verdict == row["verdict"]
        and speed.size == int(row["size_bytes"])
        and numbers == theirs
        and bool(speed.why) is not decided
    )


@pytest.mark.parametrize(
    ("planted", "changes", "verdict", "why"),
    [
        ({INJECTED: 2.0}, {}, "FAIL", None),
        ({INJECTED: 6.3}, {}, "FAIL", None),
        ({INJECTED: 0.5}, {}, "PASS", None),
        ({}, {}, "PASS", None),
        ({INJECTED: 1.1}, {"noise": 0.02}, "INCONCLUSIVE", None),
        ({}, {"noise": 1.0}, "INCONCLUSIVE", "interval-crosses-margin"),
        ({INJECTED: 0.8}, {"noise": 2.0}, "INCONCLUSIVE", "interval-crosses-margin"),
        ({INJECTED: 2.0}, {"others": frozenset(range(99))}, "INCONCLUSIVE", "too-few-launches"),
        ({INJECTED: 2.0}, {"last": 6}, "INCONCLUSIVE", "too-few-launches"),
    ],
)
def test_a_proof_and_compare_say_the_same_of_the_same_launches(
    proven: Proven,
    planted: dict[str, float], changes: dict[str, object], verdict: str, why: str | None,
) -> None:  # fmt: skip
    proof, rows, _ = proven(lambda arm, _: planted.get(arm, 1.0), **changes)
    assert {row["verdict"] for row in rows} == {verdict}
    assert all(same(*pair) for pair in zip(proof.speed, rows, strict=True))
    assert why is None or {row["why"] for row in rows} == {why}
    text = prove_model.render(proof)
    for one in proof.speed:
        (line,) = (
            line for line in text.splitlines() if f"latency, {size_text(one.size or 0)}:" in line
        )
        assert f": {one.reads}  " in line
        assert one.reads.startswith(verdict)
        assert bool(WORDS_OF_SPEED.search(line)) is (verdict != "INCONCLUSIVE")
        assert ("an estimate that decides nothing" in line) is (verdict == "INCONCLUSIVE")
        assert f"{one.ratio:.3f}  [{one.low:.3f}, {one.high:.3f}]" in line
    assert noun.from_json(Proof, noun.to_json(proof)) == proof


def test_what_others_made_slow_is_no_verdict_on_the_injected_one(
    proven: Proven,
) -> None:
    """It is slower in the blocks alone in which others were at its CPU."""
    busy = frozenset(range(1, 16))
    proof, rows, _ = proven(
        lambda arm, block: 2.0 if arm == INJECTED and block in busy else 1.0,
        others=busy, launches=20,
    )  # fmt: skip
    assert {row["why"] for row in rows} == {Why.DISTURBED.value}
    assert all(same(*pair) for pair in zip(proof.speed, rows, strict=True))
    assert any("something else was at a rank's CPU" in note for note in proof.speed_notes)


def test_a_busy_machine_ends_it_early(proven: Proven, tmp_path: Path) -> None:
    """More than a minute of launches would follow; two blocks show an estimate all the same."""
    proof, _, events = proven(lambda *_: 1.0, others=frozenset(range(99)), launches=40)
    assert proof.launches == 2
    assert {one.verdict for one in proof.speed} == {"INCONCLUSIVE"}
    for one in proof.speed:
        assert one.low is not None
        assert one.high is not None
        assert one.low <= 1.0 <= one.high
    assert proof.speed_notes[0].startswith("ended after 2 of 40 launches")
    assert "40% of its time to other programs" in proof.speed_notes[0]
    assert len(list((tmp_path / "launches").iterdir())) == 9
    assert all(event.left_s is None for event in events[4:])


def test_how_long_it_takes_is_told_first(
    proven: Proven,
) -> None:
    _, _, events = proven(lambda *_: 1.0)
    assert events[0].what == "note"
    assert events[0].left_s == 33.0


def test_the_own_mpi_is_measured_twice_after_a_warm_up(proven: Proven, tmp_path: Path) -> None:
    proof, _, _ = proven(lambda *_: 1.0)
    made = load_results(tmp_path).measurements
    assert {(one.block, one.arm) for one in made} == {
        (block, arm) for block in range(11) for arm in (OWN, INJECTED, AGAIN)
    }
    assert proof.launches == 10


def test_a_block_with_a_failure_is_made_again(proven: Proven, tmp_path: Path) -> None:
    proof, _, events = proven(lambda *_: 1.0, once=10, words=())
    assert proof.launches == 10
    assert [one.text.partition(":")[0] for one in events if one.name == "again"] == ["block 3"]
    assert len(list((tmp_path / "launches").iterdir())) == 33
    assert len(list((tmp_path / "set-aside").iterdir())) == 2
    comparison = compare(load_results(tmp_path))
    assert comparison.integrity is not None
    assert comparison.integrity.trusted


@pytest.mark.parametrize("words", [(), ("-c",)])
def test_what_fails_again_ends_it(proven: Proven, words: tuple[str, ...]) -> None:
    proof, rows, _ = proven(lambda *_: 1.0, last=6, words=words)
    assert proof.launches == 6
    assert any(note.startswith("ended in block 7 of 10: ") for note in proof.speed_notes)
    assert {row["why"] for row in rows} == {Why.TOO_FEW.value}


@pytest.mark.parametrize("words", [(), ("-c",)])
def test_wrong_bytes_are_not_tried_away(
    tmp_path: Path,
    proven: Proven,
    words: tuple[str, ...],
) -> None:
    proof, _, events = proven(lambda *_: 1.0, wrong=10, words=words)
    assert any("ended in block 3 of 10" in note for note in proof.speed_notes)
    (wrong,) = proof.arms
    assert wrong.name in {OWN, INJECTED}
    assert wrong.wrong_bytes
    assert {one.verdict for one in proof.speed} == {"INCONCLUSIVE"}
    assert not [one for one in events if one.name == "again"]


def compared(slower: dict[str, dict[int, float]]) -> Comparison:
    """Return the comparison of quiet launches in which the latency of some arms is slower."""
    plan = Plan(
        challengers=(INJECTED,), sizes=SIZES, placements=(INTRA,), noise=QUIET, blocks=12,
        slower={arm: {("intra-node", "latency"): sizes} for arm, sizes in slower.items()},
    )  # fmt: skip
    return compare(simulate(plan))


@pytest.mark.parametrize("factor", [0.7, 1.5])
def test_where_the_own_mpi_differs_from_itself_there_is_no_factor(factor: float) -> None:
    planted = dict.fromkeys(SIZES, factor)
    comparison = compared({"impi again": planted})
    assert comparison.verdict_of("impi again").verdict is Verdict.FAIL
    found = prove_speed.speeds_of(comparison)
    assert {(one.verdict, one.why) for one in found} == {
        ("INCONCLUSIVE", "not judged: the baseline differs from itself")
    }
    assert any("the null arm FAILS" in note for note in prove_speed.notes_of(comparison))


def test_a_difference_within_the_noise_is_no_factor() -> None:
    """The own MPI differs from itself by more than the injected one does from it."""
    planted = dict.fromkeys(SIZES, 1.25)
    comparison = compared({"impi again": planted, INJECTED: planted})
    undecided = [one for one in prove_speed.speeds_of(comparison) if one.benchmark == "latency"]
    assert {(one.verdict, bool(one.remedy)) for one in undecided} == {("INCONCLUSIVE", True)}


def test_the_words_are_those_of_the_report() -> None:
    comparison = compared({INJECTED: {8: 1.8, 65536: 1.0, 1 << 20: 0.4}})
    cells = [cell for panel in comparison.panels for cell in panel.judgements[0].cells]
    found = prove_speed.speeds_of(comparison)
    assert [one.reads for one in found] == [cell_words(cell) for cell in cells]
    assert [one.ratio for one in found] == [cell.ratio for cell in cells]
    assert {one.verdict for one in found} == {"PASS", "FAIL"}


@pytest.mark.parametrize(
    ("launches", "timed", "wait_s", "told"),
    [
        (10, True, None, ["load 14"]),
        (10, True, 60.0, ["load 14", "still busy after"]),
        (0, True, None, []),  # nothing is timed
        (10, False, 60.0, []),
    ],
)
def test_a_busy_machine_is_told_of_before_anything_is_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    launches: int, timed: bool, wait_s: float | None, told: list[str],
) -> None:  # fmt: skip
    busy = MachineLoad(average=14.0, running=14.0, cpus=2)
    waited: list[float] = []
    monkeypatch.setattr(quiet, "look", lambda: busy)
    monkeypatch.setattr(quiet, "wait_for_quiet", lambda seconds: waited.append(seconds) or busy)
    place = replace(PLACE, timed=timed)
    wait = None if wait_s is None else f"{wait_s:.0f}s"
    options = ProveRequest(
        command=("x",), replacement="new", launches=launches, wait_for_quiet=wait
    )
    stage = ProofRun(wanted=options, program="x", placement=place, folder=tmp_path)
    events: list[Event] = []
    follow = prove_speed.look_around(stage, events.append)
    assert [event.text[: len(start)] for event, start in zip(events, told, strict=True)] == told
    assert all("INCONCLUSIVE" in event.text for event in events[:1])
    assert waited == [wait_s for _ in told[1:]]
    follow(Event(what="progress", name="speed", left_s=24.0))
    assert events[-1].left_s == (None if told else 24.0)


def test_a_known_program_does_what_a_bench_tells_it(tmp_path: Path) -> None:
    options = ProveRequest(command=("/x/IMB-MPI1",), replacement="new")
    stage = ProofRun(wanted=options, program="/x/IMB-MPI1", placement=PLACE, folder=tmp_path)
    spec = prove_arms.spec_of(stage)
    assert spec is not None
    bench = BenchSpec(
        baseline=Arm(name=OWN), programs=spec.programs, placements=(PLACE,),
        benchmarks=spec.benchmarks, sizes=spec.sizes, timeout_s=options.timeout_s,
    )  # fmt: skip
    launch = schedule.Launch(order=5, block=1, arm=OWN, placement=PLACE.name, program="IMB-MPI1")
    wanted = schedule.case_for(bench, launch, PLACE, "auto")
    case = prove_arms.case_of(stage, spec, launch)
    assert replace(case, fabric="") == wanted
    words = prove_arms.words_of(stage, case)
    assert words[words.index("-iter") + 1] == "1000,20"


@pytest.mark.parametrize(
    ("worked", "children", "wall", "share"),
    [
        (4.0, 4.0, 2.0, 0.0),
        (4.0, 3.0, 2.0, 0.25),
        (2.0, 2.5, 2.0, 0.0),  # launchers on other CPUs
        (0.0, 0.0, 2.0, None),
        (0.1, 0.0, 0.05, None),  # shorter than the kernel's accounting can tell
    ],
)
def test_what_others_took_is_what_our_children_did_not(
    worked: float, children: float, wall: float, share: float | None
) -> None:
    before = CpuTimes(clock=10.0, worked=100.0, children=50.0)
    after = CpuTimes(clock=10.0 + wall, worked=100.0 + worked, children=50.0 + children)
    assert neighbours.taken(before, after, 2).other_load == share


def test_this_machine_can_be_watched() -> None:
    share = neighbours.watch([0])().other_load
    assert share is None or 0 <= share <= 1
