"""Tools of MPI's profiling interface: told as such, and judged by the ABI of their own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import inprocess
from mpitrees import Trees
from need import need

pytestmark = pytest.mark.battery


PMPI = """#include <mpi.h>
#include <stdio.h>
int MPI_Init(int *argc, char ***argv) { return PMPI_Init(argc, argv); }
int MPI_Barrier(MPI_Comm comm) { return PMPI_Barrier(comm); }
int MPI_Finalize(void)
{
    int size = 0;
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    fprintf(stderr, "the tool saw %d ranks\\n", size);
    return PMPI_Finalize();
}
"""
PROGRAM = """#include <mpi.h>
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
"""
IS_A_TOOL = "it takes MPI_Barrier, MPI_Finalize, MPI_Init, and calls the MPI's own"


@pytest.fixture(scope="module")
def place(trees: Trees, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program of MPICH, and the tool as each MPI compiles it."""
    need("gcc")
    folder = tmp_path_factory.mktemp("tools")
    (folder / "tool.c").write_text(PMPI)
    (folder / "program.c").write_text(PROGRAM)
    for name in "mpich", "openmpi":
        compile_with(trees, name, folder, "-shared", "-fPIC", "tool.c", "-o", f"lib{name}tool.so")
    compile_with(trees, "mpich", folder, "program.c", "-o", "program")
    linked = ("-Wl,--no-as-needed", "-L.", "-lmpi", "-lmpichtool", f"-Wl,-rpath,{folder}")
    compile_with(trees, "mpich", folder, "program.c", *linked, "-o", "behind")
    return folder


def compile_with(trees: Trees, family: str, folder: Path, *words: str) -> None:
    tree = trees[family]
    env = {**os.environ, **dict(tree.family.environment(str(tree.prefix)).set)}
    wrapper = tree.prefix / "bin" / tree.family.compiler
    subprocess.run([wrapper, *words], cwd=folder, env=env, check=True)


def check(
    trees: Trees, folder: Path, program: str, *words: str
) -> subprocess.CompletedProcess[str]:
    return inprocess.stackproof(
        "inject", "check", folder / program, "--with", trees["mpich"].prefix, *words
    )


def test_a_tool_of_the_same_mpi_works_and_is_told(trees: Trees, place: Path) -> None:
    tool = place / "libmpichtool.so"
    done = check(trees, place, "program", "--env", f"LD_PRELOAD={tool}")
    assert done.returncode == 0, done.stdout
    assert IS_A_TOOL in done.stdout
    mpiexec = trees["mpich"].prefix / "bin" / "mpiexec"
    ran = subprocess.run(
        [mpiexec, "-n", "2", "env", f"LD_PRELOAD={tool}", place / "program"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stderr.splitlines() == ["the tool saw 2 ranks"] * 2


def test_a_tool_that_looks_for_the_mpi_at_run_time(trees: Trees, place: Path) -> None:
    """EZTrace names no `PMPI_` function: it finds the MPI's own by dlsym(3)."""
    code = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
int MPI_Init(int *argc, char ***argv)
{
    int (*own)(int *, char ***) = dlsym(RTLD_NEXT, "MPI_Init");
    double start = MPI_Wtime();
    return start < 0 ? 1 : own(argc, argv);
}
"""
    (place / "late.c").write_text(code)
    compile_with(trees, "mpich", place, "-shared", "-fPIC", "late.c", "-o", "liblate.so")
    done = check(trees, place, "program", "--env", f"LD_PRELOAD={place / 'liblate.so'}")
    assert done.returncode == 0, done.stdout
    assert "it takes MPI_Init, and calls the MPI's own" in done.stdout


def test_a_tool_of_another_mpi_is_the_one_that_does_not_fit(trees: Trees, place: Path) -> None:
    tool = place / "libopenmpitool.so"
    done = check(trees, place, "program", "--env", f"LD_PRELOAD={tool}")
    assert done.returncode == 8
    assert f"the tool `{tool}` is compiled for the openmpi ABI" in done.stdout
    assert "the program is of the mpich ABI" in done.stdout
    assert IS_A_TOOL in done.stdout


def test_a_tool_without_a_handle_is_judged_by_the_mpi_that_it_asks_for(
    trees: Trees, place: Path
) -> None:
    """MPICH's handles are numbers: only the name of its library shows which MPI compiled it."""
    tree = trees["openmpi"]
    compile_with(trees, "openmpi", place, "program.c", "-o", "other")
    done = inprocess.stackproof(
        "inject", "check", place / "other", "--with", tree.prefix,
        "--env", f"LD_PRELOAD={place / 'libmpichtool.so'}",
    )  # fmt: skip
    assert done.returncode == 8
    assert "is compiled for the mpich ABI (it asks for `libmpi.so.12`)" in done.stdout


def test_a_tool_behind_the_mpi_is_never_called(trees: Trees, place: Path) -> None:
    done = check(trees, place, "behind")
    assert "so that nothing calls it" in done.stdout
    assert f"LD_PRELOAD={place / 'libmpichtool.so'}" in done.stdout
    ran = subprocess.run([place / "behind"], capture_output=True, text=True, check=True)
    assert "the tool saw" not in ran.stderr


def test_a_tool_in_the_place_of_an_mpi_says_how_it_is_used(trees: Trees, place: Path) -> None:
    tool = place / "libmpichtool.so"
    done = inprocess.stackproof("inject", "check", place / "program", "--with", tool)
    assert done.returncode == 8
    assert f"`{tool}` is a tool of MPI's profiling interface, and no MPI" in done.stdout
    assert f"--env LD_PRELOAD={tool}" in done.stdout
