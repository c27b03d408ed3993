"""A small part of `tools/predictions.py`: what is said of programs and MPIs, and what ranks do."""

from __future__ import annotations

import importlib
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from mpitrees import Trees
from need import need
from stackproof.inject.model import InjectionVerdict

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = {
    "mpich": ("wide", "guarded", "seek:standard"),
    "openmpi": ("tool", "module"),
    "intel-mpi": ("handler:standard", "wide:standard"),
}
KINDS = {"mpich": "mpich", "openmpi": "openmpi", "intel-mpi": "intel"}


@pytest.fixture
def cells(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("prediction_cells")


@pytest.fixture
def table(cells: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("predictions")


def mpi_of(cells: ModuleType, table: ModuleType, trees: Trees, name: str, work: Path) -> object:
    """Return an MPI of the test run as the tool describes one."""
    prefix = trees[name].prefix
    library = prefix / "lib" / ("libmpi.so.40" if name == "openmpi" else "libmpi.so.12")
    standard = prefix / "lib" / "libmpi_abi.so.1"
    headers = prefix / "include"
    return cells.Mpi(
        name=name, kind=KINDS[name], prefix=str(prefix), library=str(library),
        headers=str(headers),
        mpiexec=str(prefix / "bin" / ("mpiexec.hydra" if name == "intel-mpi" else "mpiexec")),
        standard=str(standard) if standard.exists() else "",
        standard_headers=table.standard_headers(headers / "mpi_abi.h", work / f"abi-{name}"),
    )  # fmt: skip


@pytest.mark.battery
@pytest.mark.parametrize("built_with", PROGRAMS)
def test_what_is_said_is_what_happens(
    cells: ModuleType, table: ModuleType, trees: Trees, tmp_path: Path, built_with: str
) -> None:
    need("network")
    mpis = {name: mpi_of(cells, table, trees, name, tmp_path) for name in PROGRAMS}
    folder = tmp_path / "programs"
    folder.mkdir()
    found = []
    for program in cells.programs(mpis[built_with], PROGRAMS[built_with], folder):
        assert cells.runs_natively(program, tmp_path) == (True, "runs")
        found += [cells.cell(program, mpi, tmp_path) for mpi in mpis.values()]
    assert [one for one in found if one.is_wrong] == []
    assert [one for one in found if one.verdict is InjectionVerdict.UNKNOWN] == []
    assert {True, False} == {one.runs for one in found}


NEWER = {
    "mpich": ("brain", "brain_size", "resource"),
    "intel-mpi": ("brain", "abort:plain", "guided"),
}
"""Programs that hand over what came with some release, or what a vendor numbers in its own way."""


@pytest.mark.battery
@pytest.mark.parametrize("built_with", NEWER)
def test_values_that_releases_lack(
    cells: ModuleType, table: ModuleType, trees: Trees, tmp_path: Path, built_with: str
) -> None:
    need("network")
    mpis = {name: mpi_of(cells, table, trees, name, tmp_path) for name in NEWER}
    folder = tmp_path / "programs"
    folder.mkdir()
    sources = cells.SOURCES / "newer"
    found = []
    for program in cells.programs(mpis[built_with], NEWER[built_with], folder, "", sources):
        assert cells.runs_natively(program, tmp_path) == (True, "runs")
        found += [cells.cell(program, mpi, tmp_path) for mpi in mpis.values()]
    assert [one for one in found if one.is_wrong] == []
    assert [one for one in found if one.verdict is InjectionVerdict.UNKNOWN] == []
    assert {True, False} == {one.runs for one in found}


def test_pairs_of_ones_own(
    table: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MPIs are chosen by name; a program that lacks a constant with one is left out there."""
    need("gcc")
    header = tmp_path / "mpi.h"
    header.write_text("enum { MPI_OLD };\nint MPI_Init(void);\n")
    library = tmp_path / "libmpi.so.12"
    subprocess.run(["gcc", "-shared", "-o", library, "-x", "c", "/dev/null"], check=True)
    mpi = table.Mpi(
        name="mine-1", kind="mpich", prefix=str(tmp_path), library=str(library),
        headers=str(tmp_path), mpiexec="",
    )  # fmt: skip
    monkeypatch.setattr(table, "system_mpis", lambda: [mpi])
    assert table._chosen("mine-1", tmp_path) == [mpi]
    sources = tmp_path / "sources"
    sources.mkdir()
    for name in ("OLD", "NEW"):
        text = f'#include "mpi.h"\nint main(void) {{ return MPI_{name} + MPI_Init(); }}\n'
        (sources / f"{name.lower()}.c").write_text(text)
    names = [one.name for one in table._built_from(sources, mpi, tmp_path)]
    assert names == ["old.mine-1", "old-bare.mine-1"]


@pytest.mark.parametrize(
    ("verdict", "runs", "is_wrong"),
    [
        (InjectionVerdict.WORKS, True, False),
        (InjectionVerdict.WORKS, False, True),
        (InjectionVerdict.STEPS, False, True),
        (InjectionVerdict.FAILS, True, True),
        (InjectionVerdict.FAILS, False, False),
        (InjectionVerdict.UNKNOWN, True, False),
    ],
)
def test_what_counts_as_wrong(
    cells: ModuleType, table: ModuleType, verdict: InjectionVerdict, runs: bool, is_wrong: bool
) -> None:
    cell = cells.Cell(
        program="wide.a", mpi="b", verdict=verdict, runs=runs, causes=(), seen="exit code 1"
    )
    assert cell.is_wrong is is_wrong
    mpi = cells.Mpi(name="b", kind="mpich", prefix="", library="", headers="", mpiexec="")
    page = table.page([cell], [mpi], [])
    assert (
        f"1 pairs, {int(is_wrong)} predicted wrongly, {int(verdict is InjectionVerdict.UNKNOWN)} ("
        in page
    )
    assert ("`wide.a` with b" in page) is is_wrong
