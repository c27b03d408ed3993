"""A small part of `tools/predictions.py`: what is said of programs and MPIs, and what ranks do."""

from __future__ import annotations

import importlib
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from mpitrees import Trees, described
from need import need
from stackproof.inject.model import InjectionVerdict

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = {
    "": {
        "mpich": ("wide", "guarded", "seek:standard"),
        "openmpi": ("tool", "module"),
        "intel-mpi": ("handler:standard", "wide:standard"),
    },
    "newer": {
        "mpich": ("brain", "brain_size", "resource"),
        "intel-mpi": ("brain", "abort:plain", "guided"),
    },
}
"""Programs by the MPI that they are built with, in two folders.

The newer ones hand over what came with some release, or what a vendor numbers in its own way.
"""


@pytest.fixture
def cells(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("prediction_cells")


@pytest.fixture
def table(cells: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("predictions")


@pytest.mark.battery
@pytest.mark.parametrize(
    ("kind", "built_with"), [(kind, name) for kind, every in PROGRAMS.items() for name in every]
)
def test_what_is_said_is_what_happens(
    cells: ModuleType, table: ModuleType, trees: Trees, tmp_path: Path, kind: str, built_with: str
) -> None:
    need("network")
    every = PROGRAMS[kind]
    mpis = {name: described(cells, table, trees, name, tmp_path) for name in every}
    folder = tmp_path / "programs"
    folder.mkdir()
    sources = cells.SOURCES / kind if kind else cells.SOURCES
    found = []
    for program in cells.programs(mpis[built_with], every[built_with], folder, "", sources):
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
