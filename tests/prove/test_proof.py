"""What was predicted against what happened: every way in which a proof can come out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from stackproof.core import noun
from stackproof.inject.model import InjectionVerdict
from stackproof.prove import model as prove_model
from stackproof.prove.model import (
    INJECTED,
    OWN,
    WRONG,
    ArmProof,
    Mapped,
    Prediction,
    Proof,
    ProofOutcome,
    Speed,
    Witnessed,
)

FILES = ("/bin/app", "/opt/lib/libmpi.so.12")


def rank(*paths: str, exit_code: int | None = 0, signal: int = 0) -> Witnessed:
    files = tuple(Mapped(path=path, build_id="ab12") for path in paths)
    return Witnessed(host="node1", pid=7, exit=exit_code, signal=signal, files=files)


def arm(
    name: str,
    verdict: InjectionVerdict | None,
    *ranks: Witnessed,
    code: int | None = 0,
    **more: object,
) -> ArmProof:
    more = {"world": 2, "worlds": 1, **more}
    prediction = Prediction(verdict=verdict, files=FILES, marks=more.pop("marks", ()))  # type: ignore[arg-type]
    files, missing, doubled = prove_model.compared(prediction, ranks)
    return ArmProof(
        name=name, mpi="MPICH", prediction=prediction, wanted_ranks=2, exit=code, ranks=ranks,
        files=files, missing=missing, doubled=doubled, **more,  # type: ignore[arg-type]
    )  # fmt: skip


SILENT = {"world": 0, "worlds": 0}
GOOD = rank(*FILES), rank(*FILES)
BAD = rank(*FILES, exit_code=None, signal=11), rank(*FILES)
OLD = rank("/bin/app", "/own/lib/libmpi.so.12"), rank(*FILES)
LATER = ("/net/lib/libfabric.so.1", "/net/lib/libefa-fi.so")
USED = rank(*FILES, LATER[0]), rank(*FILES, LATER[1])
ONE = rank(*FILES, LATER[0]), rank(*FILES)
RIGHT = {
    OWN: arm(OWN, None, *GOOD),
    INJECTED: arm(INJECTED, InjectionVerdict.WORKS, *GOOD),
    WRONG: arm(WRONG, InjectionVerdict.FAILS, *BAD, code=139),
}


def test_proven() -> None:
    answer, reasons = prove_model.conclude(RIGHT)
    assert answer is ProofOutcome.PROVEN
    assert len(reasons) == 3


WORKS, STEPS, FAILS, UNKNOWN = (
    InjectionVerdict.WORKS, InjectionVerdict.STEPS, InjectionVerdict.FAILS,
    InjectionVerdict.UNKNOWN,
)  # fmt: skip
DEFECT = "a wrong prediction"


def new(*args: Any, **more: Any) -> dict[str, ArmProof]:
    return {INJECTED: arm(INJECTED, *args, **more)}


def own(*args: Any, **more: Any) -> dict[str, ArmProof]:
    return {OWN: arm(OWN, None, *args, **more)}


def control(*args: Any, **more: Any) -> dict[str, ArmProof]:
    return {WRONG: arm(WRONG, *args, **more)}


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        (new(STEPS, *GOOD), ProofOutcome.PROVEN),
        (new(WORKS, *BAD, code=1), DEFECT),
        (new(WORKS, *OLD), DEFECT),
        (new(WORKS, code=None), ProofOutcome.UNKNOWN),
        (new(WORKS), DEFECT),
        (new(WORKS, *GOOD, wrong_bytes="byte 3 is wrong"), DEFECT),
        (own(*GOOD, wrong_bytes="byte 3 is wrong"), ProofOutcome.UNKNOWN),
        (new(FAILS, *GOOD), DEFECT),
        (new(FAILS, *BAD, code=1), ProofOutcome.WRONG),
        (new(UNKNOWN, *GOOD), ProofOutcome.UNKNOWN),
        (new(UNKNOWN, *BAD, code=1), ProofOutcome.UNKNOWN),
        (own(*BAD, code=1), ProofOutcome.UNKNOWN),
        (own(*OLD), DEFECT),
        ({**own(*BAD, code=1), **new(WORKS, *BAD, code=1)}, ProofOutcome.UNKNOWN),
        (control(FAILS, *GOOD), DEFECT),
        (control(WORKS, *BAD, code=1), DEFECT),
        (control(WORKS, *GOOD), ProofOutcome.UNKNOWN),
        ({WRONG: None}, ProofOutcome.UNKNOWN),
        # Ranks that run, from all files that were predicted, without what was injected.
        (new(WORKS, *GOOD, marks=FILES[1:]), ProofOutcome.PROVEN),
        (new(WORKS, *GOOD, marks=LATER), ProofOutcome.UNKNOWN),
        (new(WORKS, *USED, marks=LATER), ProofOutcome.PROVEN),
        (new(STEPS, *ONE, marks=LATER), ProofOutcome.UNKNOWN),
        # Ranks that run and whose output does not say whether they are one job.
        (new(WORKS, *GOOD, **SILENT), ProofOutcome.UNKNOWN),
        (own(*GOOD, **SILENT), ProofOutcome.UNKNOWN),
        (new(WORKS, *GOOD, expected=True, **SILENT), ProofOutcome.PROVEN),
    ],
)
def test_every_outcome(changes: Mapping[str, ArmProof | None], answer: ProofOutcome | str) -> None:
    arms = {name: one for name, one in {**RIGHT, **changes}.items() if one}
    found, reasons = prove_model.conclude(arms)
    assert found is (ProofOutcome.WRONG if answer is DEFECT else answer)
    assert any("WRONG PREDICTION" in reason for reason in reasons) is (answer is DEFECT)


@pytest.mark.parametrize(
    ("one", "word"),
    [
        (arm(OWN, None, *GOOD), ""),
        (arm(OWN, None, *GOOD, code=None), "time"),
        (arm(OWN, None, *GOOD, code=3), "exited with 3"),
        (arm(OWN, None, *BAD), "signal 11"),
        (arm(OWN, None, GOOD[0]), "1 of 2 ranks"),
        (arm(OWN, None, *GOOD, world=1, worlds=2), "2 worlds of 1"),
        (arm(OWN, None, *GOOD, world=2, worlds=1), ""),
        (arm(OWN, None, *GOOD, expected=False), "text"),
        (arm(OWN, None, *GOOD, expected=True), ""),
    ],
)
def test_faults(one: ArmProof, word: str) -> None:
    assert word in one.fault
    assert bool(one.fault) is bool(word)


def test_files_by_rank() -> None:
    ranks = rank(*FILES, "/opt/lib/plugin.so"), rank(*FILES, "/dev/shm/x", "/SYSV0000")
    files, missing, doubled = prove_model.compared(Prediction(files=FILES), ranks)
    assert [(one.path, one.ranks, one.predicted) for one in files] == [
        ("/bin/app", 2, True),
        ("/opt/lib/libmpi.so.12", 2, True),
        ("/opt/lib/plugin.so", 1, False),
    ]
    assert (missing, doubled) == ((), ())
    _, missing, doubled = prove_model.compared(Prediction(files=FILES), OLD)
    assert missing == ("/opt/lib/libmpi.so.12",)
    assert doubled == ("/own/lib/libmpi.so.12",)


def test_worlds_in_outputs() -> None:
    ours = '{"kind":"start","run":"1","n":0,"world_size":2,"x":1}\n'
    assert prove_model.worlds_of(ours) == (2, 1)
    assert prove_model.worlds_of(ours.replace("2", "1") * 2) == (1, 2)
    imb = "# MPI Version           : 5.0\n# Benchmarking PingPong\n# #processes = 2 \n"
    assert prove_model.worlds_of(imb) == (2, 1)
    assert prove_model.worlds_of("# OSU MPI Bi-Directional Bandwidth Test v7.3\n# Size\n") == (2, 1)
    assert prove_model.worlds_of("# OSU MPI Latency Test v7.3\n# Size\n") == (2, 1)
    assert prove_model.worlds_of("# OSU MPI Allreduce Latency Test v7.3\n") == (0, 0)
    assert prove_model.worlds_of("hello\n") == (0, 0)


def test_text_and_json() -> None:
    answer, reasons = prove_model.conclude(
        {**RIGHT, INJECTED: arm(INJECTED, InjectionVerdict.WORKS, *OLD)}
    )
    speed = (
        Speed(benchmark="latency", size=1024, verdict="PASS", reads="PASS", margin=0.1, ratio=1.02, low=0.95,
              high=1.1),
        Speed(benchmark="latency", size=8, verdict="FAIL", reads="FAIL", margin=0.1, ratio=0.16, low=0.15,
              high=0.17),
        Speed(benchmark="barrier", size=None, verdict="INCONCLUSIVE", reads="INCONCLUSIVE", margin=0.1,
              why="too few launches", remedy="10 are needed"),
    )  # fmt: skip
    whole = Proof(
        program="/bin/app\x1b[31m", replacement="x.squashfs", answer=answer, reasons=reasons,
        arms=tuple(RIGHT.values()), speed=speed, launches=10, speed_notes=("what \x1b others did",),
    )  # fmt: skip
    text = prove_model.render(whole)
    assert text.startswith("/bin/app?[31m with x.squashfs: NOT PROVEN\n")
    assert "latency, 1 KiB: PASS  1.020  [0.950, 1.100]  at least as fast within the margin" in text
    assert (
        "latency, 8 B: FAIL  0.160  [0.150, 0.170]  slower by more than the margin of 10 %" in text
    )
    assert (
        "barrier: INCONCLUSIVE  no number  an estimate that decides nothing: too few launches; 10 are needed\n"
        in text
    )
    assert "note: what ? others did" in text
    assert noun.from_json(Proof, noun.to_json(whole)) == whole


def test_a_proof_without_speed_says_why() -> None:
    answer, reasons = prove_model.conclude(RIGHT)
    whole = Proof(
        program="/bin/app", replacement="x", answer=answer, reasons=reasons,
        arms=tuple(RIGHT.values()), speed_notes=("as was asked for",),
    )  # fmt: skip
    assert prove_model.render(whole).endswith("\nspeed: not compared\n  note: as was asked for\n")
