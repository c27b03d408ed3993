"""The Intel MPI Benchmarks started for real, by the MPI they come with and by another of its ABI."""

from __future__ import annotations

import subprocess

import pytest

from nativempis import LIMIT_S, WHEELS, case, environment_of, install
from need import need
from stackproof.bench.programs import imb
from stackproof.results.metrics import CORE

pytestmark = pytest.mark.machine


@pytest.mark.parametrize("family", ["intel-mpi", "mpich"])
def test_imb_runs_on_two_mpis_of_its_abi_and_is_read(family: str) -> None:
    need("network")
    intel = install("intel-mpi", *WHEELS["intel-mpi"])
    prefix = intel if family == "intel-mpi" else install(family)
    asked = case(
        program="IMB-MPI1",
        benchmarks=tuple(CORE),
        sizes=(0, 3, 8, 4096),
        validate=False,
        timeout_s=60.0,
    )
    assert imb.BENCHMARK.problems(asked) == ()
    argv = imb.BENCHMARK.argv(str(intel / "bin" / "IMB-MPI1"), asked)
    done = subprocess.run(
        [str(prefix / "bin" / "mpiexec"), "-n", "2", *argv],
        env=environment_of(family, prefix),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    output = imb.BENCHMARK.parse(done.stdout, asked)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    assert output.complete, output.garbage
    assert output.world_size == 2
    found = {(s.benchmark, s.size) for s in output.series}
    assert {("latency", 0), ("bandwidth", 3), ("allreduce", 8), ("barrier", 0)} <= found
    assert output.skipped["allreduce 3"] == "granularity"
