"""An injected MPI keeps the libraries that it was made with, whatever the program's own path has."""

from __future__ import annotations

from pathlib import Path

from elflab import Lab, run
from need import need
from stackproof.inject.attempt import Question
from stackproof.inject.judge import judge
from stackproof.inject.model import InjectionVerdict
from stackproof.inject.replacement import find_replacement
from stackproof.linking.effects.view import RootView, this_machine
from stackproof.linking.loader import LoaderSettings

COVERS = ("inject/findings/libraries.py",)

EVERY = ["MPI_Init", "MPI_Recv", "MPII_Win_get_attr"]
USES_MPICH = "void MPI_Recv(int); void use(void) { MPI_Recv(0x4c000405); MPI_Recv(0x4c00080b); }\n"


def test_its_own_libfabric_comes_first(tmp_path: Path) -> None:
    need("gcc")
    lab = Lab(tmp_path)
    for folder in ("own/lib", "new/lib/inner"):
        lab.library(f"{folder}/libfabric.so.1", defines=["fi_getinfo"])
    old = lab.library("own/lib/libmpi.so.12", defines=EVERY, needs=["own/lib/libfabric.so.1"])
    lab.library(
        "new/lib/libmpi.so.12",
        defines=EVERY,
        needs=["new/lib/inner/libfabric.so.1"],
        flags=("-Wl,--enable-new-dtags", "-Wl,-rpath,$ORIGIN/inner"),
    )
    program = lab.program(needs=[old], calls=["MPI_Init"], declarations=USES_MPICH)
    own = str(tmp_path / "own/lib")
    view, new = RootView(), str(tmp_path / "new")
    replacement = find_replacement(view, new)
    for path, count in (((own,), 2), ((), 1)):
        question = Question(machine=this_machine(), setting=LoaderSettings(library_path=path))
        found = judge(view, program, replacement, question)
        assert found.verdict is InjectionVerdict.WORKS
        assert len(found.way.library_path) == count
        loaded = run(program, env=dict(found.environment)).loaded
        assert f"{new}/lib/inner/libfabric.so.1" in loaded
        assert f"{own}/libfabric.so.1" not in loaded
