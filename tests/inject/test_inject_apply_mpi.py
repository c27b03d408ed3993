"""Real MPIs put into an override folder of EESSI's kind, and two ranks started on them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from mpitrees import Trees
from need import need
from stackproof import cli
from stackproof.core.errors import ExitCode

pytestmark = pytest.mark.battery

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "lo"}
WORDS = ["--benchmarks", "latency", "--sizes", "8", "--samples", "3", "--expect-ranks", "2"]


def apply(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as stop:
        cli.main(["inject", *map(str, words)])
    assert isinstance(stop.value.code, int)
    return stop.value.code


def loaded(program: Path) -> str:
    """Return what the machine's own loader lists."""
    argv = ["ldd", program]
    return subprocess.run(argv, capture_output=True, text=True, timeout=600, check=True).stdout


def test_a_program_of_intel_mpi_on_mpich(trees: Trees, tmp_path: Path) -> None:
    """It keeps its DT_RPATH, and Open MPI in the folder of MPICH is refused."""
    need("network", "patchelf")
    software = tmp_path / "host_injections" / "2025.06" / "software" / "linux" / "x86_64"
    software.mkdir(parents=True)
    place = software / "rpath_overrides" / "MPICH" / "system"
    program = tmp_path / "program"
    shutil.copy(trees["intel-mpi"].program, program)
    own = trees["intel-mpi"].prefix / "lib"
    rpath = f"{place}/lib:{place}/lib64:{own}"
    subprocess.run(
        ["patchelf", "--force-rpath", "--set-rpath", rpath, program], check=True, timeout=600
    )
    assert f"{own}/libmpi.so.12" in loaded(program)

    words = ("apply", program, "--eessi", software, "--with")
    assert apply(*words, trees["mpich"].prefix) == ExitCode.DONE
    assert f"{place}/lib/libmpi.so.12" in loaded(program)
    done = subprocess.run(
        [trees["mpich"].prefix / "bin" / "mpiexec", "-n", "2", program, *WORDS],
        env=ENVIRONMENT,
        capture_output=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr

    before = os.readlink(place)
    wrong = (*words, trees["openmpi"].prefix, "--family", "MPICH")
    assert apply(*wrong) == ExitCode.WORSE
    assert os.readlink(place) == before
    assert apply("undo", place) == ExitCode.DONE
    assert f"{own}/libmpi.so.12" in loaded(program)
