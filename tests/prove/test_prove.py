"""`inject prove` with real MPIs: each arm is run, watched and compared with what was predicted."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from mpitrees import Trees
from need import need
from stackproof import cli
from stackproof.bench import programs, schedule
from stackproof.bench.effects import nodes
from stackproof.bench.schedule import Launch
from stackproof.bench.spec import Arm, BenchSpec
from stackproof.compare.compare import compare
from stackproof.compare.disturbance import disturbed
from stackproof.compare.effects.results import load_results
from stackproof.compare.model import Cell, Comparison, Verdict
from stackproof.core.errors import ExitCode, StackproofError
from stackproof.prove.model import AGAIN, INJECTED, OWN

COVERS = (
    "prove/cli/prove.py",
    "prove/options.py",
    "prove/effects/mpi.py",
    "prove/effects/prove.py",
    "prove/effects/speed.py",
)

pytestmark = pytest.mark.machine

WORDS = ["--benchmarks", "latency", "--sizes", "8", "--samples", "3", "--expect-ranks", "2"]


def prove(
    trees: Trees, folder: Path, own: str, injected: str, *options: str, words: list[str] = WORDS
) -> tuple[int, dict]:
    """Return the exit code and the proof; the output is our own program's, short with `WORDS`."""
    with pytest.raises(SystemExit) as stop:
        cli.main([
            "inject", "prove", "--own", str(trees[own].prefix),
            "--with", str(trees[injected].prefix), "--timeout", "100", "-o", str(folder),
            "--set", "FI_PROVIDER=tcp", "--set", "FI_TCP_IFACE=lo", "--set", "I_MPI_FABRICS=shm",
            "--set", "OMPI_MCA_pml=ob1", "--set", "MPIR_CVAR_CH4_NETMOD=ofi", *options,
            "--", str(trees[own].program), *words,
        ])  # fmt: skip
    return int(str(stop.value.code)), json.loads((folder / "proof.json").read_text())


def test_a_right_one_and_a_wrong_one(trees: Trees, tmp_path: Path) -> None:
    need("network")
    wrong = ("--wrong", str(trees["openmpi"].prefix), "--launches", "0")
    code, proof = prove(trees, tmp_path / "proof", "intel-mpi", "mpich", *wrong)
    assert code == ExitCode.DONE, proof["reasons"]
    own, injected, control = proof["arms"]
    for arm in (own, injected):
        assert (arm["world"], arm["worlds"], len(arm["ranks"])) == (2, 1, 2)
        assert arm["missing"] == []
        assert ":" not in arm["argv"]  # one program, not one for each rank
    library = str(trees["mpich"].prefix / "lib" / "libmpi.so.12")
    assert {one["path"]: one["ranks"] for one in injected["files"]}[library] == 2
    assert injected["prediction"]["marks"] == [library]
    assert control["environment"]["OPAL_PREFIX"] == str(trees["openmpi"].prefix)
    assert control["prediction"]["verdict"] == "fails"
    assert control["exit"] != 0
    assert proof["speed_notes"] == ["as was asked for"]


def test_what_fails_is_not_proven(trees: Trees, tmp_path: Path) -> None:
    need("network")
    code, proof = prove(trees, tmp_path / "proof", "mpich", "openmpi", "--launches", "0")
    assert code == ExitCode.WORSE
    assert proof["answer"] == "not proven"
    assert not any("WRONG PREDICTION" in reason for reason in proof["reasons"])


@contextmanager
def others_at_work() -> Iterator[None]:
    """Keep the CPUs of two ranks busy with two programs of somebody else each."""
    spin = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"
    with ExitStack() as stack:
        for cpu in nodes.free_cpus()[:2] * 2:
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", spin, str(cpu)]))
            stack.callback(process.kill)
        yield


def judged(folder: Path) -> Comparison | None:
    """Return the judgement of `compare` on a proof's folder, None where it has nothing to compare."""
    try:
        return compare(load_results(folder))
    except StackproofError:
        return None


def cells_of(comparison: Comparison | None) -> list[Cell]:
    """Return the points of the injected MPI."""
    found = [] if comparison is None else [p.judgement(INJECTED) for p in comparison.panels]
    return [cell for one in found if one for cell in one.cells]


def require_a_bench(folder: Path, program: Path) -> None:
    """Check that each launch is one of a bench: as long, as often, warmed up, with a null arm."""
    made = load_results(folder).measurements
    blocks = {one.block for one in made}
    assert blocks == set(range(len(blocks)))  # block 0 warms up
    assert {(one.block, one.arm) for one in made} == {
        (block, arm) for block in blocks for arm in (OWN, INJECTED, AGAIN)
    }
    for one in made:
        place = one.case.placement
        assert [rank.cpu for rank in place.ranks] == list(nodes.free_cpus()[:2])
        spec = BenchSpec(
            baseline=Arm(name=OWN), placements=(place,), sizes=one.case.sizes,
            benchmarks=one.case.benchmarks,
        )  # fmt: skip
        launch = Launch(
            order=one.order, block=one.block, arm=one.arm, placement=place.name,
            program="stackproof-bench",
        )  # fmt: skip
        case = schedule.case_for(spec, launch, place, one.case.transport)
        words = programs.REGISTRY["stackproof-bench"].argv(str(program), case)
        argv = list(one.argv)
        begin = argv.index(str(program))
        assert tuple(argv[begin : begin + len(words)]) == words
        assert all(series.iterations > 0 for series in one.output.series)


def require_no_word_of_speed(text: str) -> None:
    """Check that nothing printed says faster or slower: ratios are estimates."""
    part = text[text.index("\nspeed") :]
    assert not re.search(r"faster|slower|: (?:PASS|FAIL)", part)


def test_its_speed_is_what_compare_says(
    trees: Trees, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a quiet machine there are factors, on a busy one there may be none."""
    need("network")
    if len(nodes.free_cpus()) < 2:
        pytest.skip("two ranks have one core")
    folder = tmp_path / "proof"
    _, proof = prove(trees, folder, "intel-mpi", "mpich", words=[])
    require_a_bench(folder, trees["intel-mpi"].program)
    comparison = judged(folder)
    cells = cells_of(comparison)
    open_ = [cell.verdict is Verdict.INCONCLUSIVE for cell in cells]
    assert [(one["verdict"], one["ratio"], one["low"], one["high"]) for one in proof["speed"]] == [
        (cell.verdict.value, cell.ratio, cell.low, cell.high) for cell in cells
    ]
    text = capsys.readouterr().out
    if all(open_):
        require_no_word_of_speed(text)
    assert text.count(": FAIL  ") == sum(one["verdict"] == "FAIL" for one in proof["speed"])


def test_no_factor_where_others_are_at_work(
    trees: Trees, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need("network")
    if len(nodes.free_cpus()) < 2:
        pytest.skip("two ranks have one core")
    folder = tmp_path / "proof"
    with others_at_work():
        _, proof = prove(trees, folder, "intel-mpi", "mpich", words=[])
    assert disturbed(load_results(folder).measurements)
    require_a_bench(folder, trees["intel-mpi"].program)
    assert {one["verdict"] for one in proof["speed"]} == {"INCONCLUSIVE"}
    assert all(one["low"] <= one["ratio"] <= one["high"] for one in proof["speed"])
    assert any("at the CPUs of its ranks" in note for note in proof["speed_notes"])
    require_no_word_of_speed(capsys.readouterr().out)


def test_others_are_seen_beside_a_program_that_does_not_look(
    trees: Trees, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """IMB-MPI1 says nothing of its CPUs."""
    need("network")
    imb = trees["intel-mpi"].prefix / "bin" / "IMB-MPI1"
    if len(nodes.free_cpus()) < 2 or not os.access(imb, os.X_OK):
        pytest.skip("two ranks have one core, or there is no IMB-MPI1")
    folder = tmp_path / "proof"
    words = ["-npmin", "2", "-iter", "5000", "-msgsize", "8", "PingPong"]
    with others_at_work(), pytest.raises(SystemExit):
        cli.main([
            "inject", "prove", "--own", str(trees["mpich"].prefix),
            "--with", str(trees["intel-mpi"].prefix), "--timeout", "100", "-o", str(folder),
            "--set", "FI_PROVIDER=tcp", "--set", "FI_TCP_IFACE=lo", "--set", "I_MPI_FABRICS=shm",
            "--set", "MPIR_CVAR_CH4_NETMOD=ofi", "--", str(imb), *words,
        ])  # fmt: skip
    made = load_results(folder).measurements
    assert {one.block for one in disturbed(made)} == {one.block for one in made}
    proof = json.loads((folder / "proof.json").read_text())
    assert {one["verdict"] for one in proof["speed"]} == {"INCONCLUSIVE"}
    assert all(one["low"] <= one["ratio"] <= one["high"] for one in proof["speed"])
    require_no_word_of_speed(capsys.readouterr().out)
