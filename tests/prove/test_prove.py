"""`inject prove` with real MPIs: each arm is run, watched and compared with what was predicted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mpitrees import Trees
from need import need
from stackproof import cli
from stackproof.core.errors import ExitCode

COVERS = (
    "prove/cli/prove.py",
    "prove/cli/prove_arguments.py",
    "prove/effects/mpi.py",
    "prove/effects/prove.py",
    "prove/effects/speed.py",
)

pytestmark = pytest.mark.in_turn

WORDS = ["--benchmarks", "latency", "--sizes", "8", "--samples", "3", "--expect-ranks", "2"]


def prove(trees: Trees, folder: Path, own: str, injected: str, *options: str) -> tuple[int, dict]:
    """Return the exit code and the proof; the output is our own program's, short."""
    with pytest.raises(SystemExit) as stop:
        cli.main([
            "inject", "prove", "--own", str(trees[own].prefix),
            "--with", str(trees[injected].prefix), "--timeout", "100", "-o", str(folder),
            "--set", "FI_PROVIDER=tcp", "--set", "FI_TCP_IFACE=lo", "--set", "I_MPI_FABRICS=shm",
            "--set", "OMPI_MCA_pml=ob1", "--set", "MPIR_CVAR_CH4_NETMOD=ofi", *options,
            "--", str(trees[own].program), *WORDS,
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
    assert proof["speed_note"]


def test_what_fails_is_not_proven(trees: Trees, tmp_path: Path) -> None:
    need("network")
    code, proof = prove(trees, tmp_path / "proof", "mpich", "openmpi", "--launches", "0")
    assert code == ExitCode.WORSE
    assert proof["answer"] == "not proven"
    assert not any("WRONG PREDICTION" in reason for reason in proof["reasons"])
