"""MPIs installed from the wheels of their developers, for tests that start real ranks.

def test_it(trees: Trees) -> None:
    assert trees["mpich"].prefix.is_dir()
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

from stackproof.bench import programs
from stackproof.core.command import Command
from stackproof.core.effects.run import run
from stackproof.core.value import Value
from stackproof.mpi import families

CSRC = Path(programs.__file__).parent / "csrc"
PROGRAM = "stackproof-bench"
FAMILIES = ("openmpi", "mpich", "intel-mpi")


class Tree(Value, kw_only=False):
    """An MPI installed at its final prefix, and the benchmark compiled with its own wrapper."""

    family: families.MpiFamily
    version: str
    prefix: Path
    program: Path


def unpacked(
    family: families.MpiFamily, folder: Path, prefix: Path, version: str | None = None
) -> Path:
    """Install the wheels of an MPI and return the first of them."""
    wheels = folder / "wheels"
    names = [str(requirement) for requirement in family.wheels(version)]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
    subprocess.run(
        [*pip, "--no-deps", "--only-binary=:all:", "--dest", wheels, *names],
        check=True,
        timeout=500,
    )
    found = sorted(wheels.iterdir())
    # Runtime and headers of Intel MPI both bring the licence.
    installer = [sys.executable, "-m", "installer", "--no-compile-bytecode"]
    subprocess.run(
        [*installer, "--overwrite-existing", "--prefix", prefix, *found], check=True, timeout=600
    )
    return found[0]


def install(family: families.MpiFamily, folder: Path) -> Tree:
    prefix = folder / "mpi"
    wheel = unpacked(family, folder, prefix)
    program = folder / PROGRAM
    done = run(
        Command(
            argv=(f"{prefix}/bin/{family.compiler}", "-O2", "-o", str(program),
                  *map(str, sorted(CSRC.glob("*.c"))), "-lm", "-ldl"),
            env=family.environment(str(prefix)),
            timeout_s=100,
        )
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    return Tree(family=family, version=wheel.name.split("-")[1], prefix=prefix, program=program)


class Trees:
    """The families below one folder, each installed when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made: dict[str, Tree] = {}

    def __getitem__(self, name: str) -> Tree:
        """Return the tree of a family."""
        if name not in self._made:
            self._made[name] = install(families.get(name), self.folder / name)
        return self._made[name]


def described(cells: ModuleType, table: ModuleType, trees: Trees, name: str, work: Path) -> object:
    """Return an MPI of the test run as `tools/predictions.py` describes one."""
    prefix = trees[name].prefix
    library = prefix / "lib" / ("libmpi.so.40" if name == "openmpi" else "libmpi.so.12")
    standard, headers = prefix / "lib" / "libmpi_abi.so.1", prefix / "include"
    return cells.Mpi(
        name=name, kind=name.removesuffix("-mpi"), prefix=str(prefix), library=str(library),
        headers=str(headers),
        mpiexec=str(prefix / "bin" / ("mpiexec.hydra" if name == "intel-mpi" else "mpiexec")),
        standard=str(standard) if standard.exists() else "",
        standard_headers=table.standard_headers(headers / "mpi_abi.h", work / f"abi-{name}"),
    )  # fmt: skip
