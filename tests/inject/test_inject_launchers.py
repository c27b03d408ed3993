"""The launcher as a program of its own: whose release it is, and which variables reach it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from elflab import Lab, run
from need import need
from stackproof.core.errors import Reason, StackproofError
from stackproof.inject.attempt import Question
from stackproof.inject.effects import named
from stackproof.inject.findings import launcher as findings_launcher
from stackproof.inject.judge import judge
from stackproof.inject.model import Cause, Effect, InjectionVerdict
from stackproof.inject.replacement import find_replacement
from stackproof.linking.effects.view import RootView, this_machine

USES_OPENMPI = "extern int ompi_mpi_comm_world[]; int *use(void) { return ompi_mpi_comm_world; }\n"


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """Two Open MPI 4, each with its launcher, and a program of the old one."""
    need("gcc")
    lab = Lab(tmp_path)
    for name in ("old", "new"):
        own = [f"-Wl,--enable-new-dtags,-rpath,{lab.path(f'{name}/lib')}"]
        lab.library(f"{name}/lib/libopen-rte.so.40", defines=["orte_init"])
        lab.library(
            f"{name}/lib/libmpi.so.40", defines=["MPI_Init"], data=[("ompi_mpi_comm_world", 8)],
            needs=[f"{name}/lib/libopen-rte.so.40"], flags=own,
        )  # fmt: skip
        lab.program(
            f"{name}/bin/mpiexec", needs=[f"{name}/lib/libopen-rte.so.40"], calls=["orte_init"],
            flags=own,
        )  # fmt: skip
    lab.program(
        needs=["old/lib/libmpi.so.40"], calls=["MPI_Init"], declarations=USES_OPENMPI,
        flags=[f"-Wl,--enable-new-dtags,-rpath,{lab.path('old/lib')}"],
    )  # fmt: skip
    return lab


def judged(lab, launcher):
    view = RootView()
    file = lab.path(launcher)
    kind = named.launcher_kind(file, findings_launcher.OFFERS)
    question = Question(machine=this_machine(), launcher=kind, launcher_file=file)
    return judge(view, lab.path("bin/program"), find_replacement(view, lab.path("new")), question)


def test_its_own_launcher(lab):
    assert judged(lab, "new/bin/mpiexec").verdict is InjectionVerdict.WORKS


def test_the_launcher_of_another_release(lab):
    """Two Open MPI 4 may not fit, and with the ranks' variables it would not be itself."""
    found = judged(lab, "old/bin/mpiexec")
    assert found.verdict is InjectionVerdict.UNKNOWN
    launchers = [one for one in found.findings if one.cause is Cause.LAUNCHER]
    assert [one.effect for one in launchers] == [Effect.CANNOT_TELL, Effect.STEP]
    real = run(lab.path("old/bin/mpiexec"), env=dict(found.environment))
    assert real.answers == {"orte_init": "new/lib/libopen-rte.so.40"}
    assert launchers[1].provider == lab.path("new/lib/libopen-rte.so.40")
    assert f"env LD_LIBRARY_PATH={lab.path('new/lib')} {found.program}" in launchers[1].remedy


def test_a_launcher_that_takes_nothing_of_it(lab):
    """Hydra needs no library of an MPI: the variables do it no harm."""
    lab.library("hydra/lib/libother.so", defines=["other"], texts=["hydra_pmi_proxy"])
    text = 'const char text[] = "hydra_pmi_proxy"; int main(void) { return !text[0]; }\n'
    lab._gcc(lab._source(text, "c"), lab.path("hydra/bin-mpiexec"))
    found = judged(lab, "hydra/bin-mpiexec")
    assert [one.effect for one in found.findings if one.cause is Cause.LAUNCHER] == [Effect.FAILS]


def test_a_launcher_that_is_not_there(lab):
    with pytest.raises(StackproofError) as raised:
        named.launcher_kind(lab.path("nowhere/mpiexec"), findings_launcher.OFFERS)
    assert raised.value.reason is Reason.FILE_MISSING


@pytest.mark.parametrize("how", ["plain name", "opened later"])
def test_whatever_name_the_mpi_has(tmp_path: Path, how: str) -> None:
    """Wheels have copies where links were, and a program may ask for one or open another."""
    need("gcc")
    lab = Lab(tmp_path)
    every = ["MPI_Init", "MPI_Recv", "MPII_Win_get_attr"]
    for name in ("libmpi.so", "libmpi.so.12"):
        lab.library(f"mpi/lib/{name}", defines=every, soname="libmpi.so.12", texts=["PMI_FD"])
    lab.library("stub/libmpi.so", defines=every)
    linked = {"needs": ["stub/libmpi.so"], "calls": ["MPI_Init"]} if how == "plain name" else {}
    declared = (
        "void MPI_Recv(int); void use(void) { MPI_Recv(0x4c000405); MPI_Recv(0x4c00080b); }\n"
    )
    program = lab.program(**linked, declarations=declared if linked else "", opens=not linked)
    view = RootView()
    for launcher, fails in (("intel-hydra", False), ("hydra", False), ("prte", True)):
        question = Question(machine=this_machine(), launcher=launcher)
        found = judge(view, program, find_replacement(view, lab.path("mpi")), question)
        told = [one.effect for one in found.findings if one.cause is Cause.LAUNCHER]
        assert told == ([Effect.FAILS] if fails else [])


def test_the_launcher_of_the_system(lab):
    """It lies beside others: what it loads as run-time library says whose it is."""
    beside = lab.path("new/bin/mpiexec")
    copy = lab.folder / "elsewhere" / "mpiexec"
    copy.parent.mkdir()
    copy.write_bytes(Path(beside).read_bytes())
    copy.chmod(0o755)
    found = judged(lab, "elsewhere/mpiexec")
    assert not [one for one in found.findings if one.cause is Cause.LAUNCHER]


def _installed(library: str) -> bool:
    """Return true where this machine has an MPI of its own by that name."""
    script = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
    argv = [sys.executable, "-c", script, library]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    ("opened", "verdict"),
    [
        ("libmpi.so.12", InjectionVerdict.WORKS),
        ("/opt/mpi/lib/libmpi.so.12", InjectionVerdict.UNKNOWN),
        ("libmpi.so.40", InjectionVerdict.UNKNOWN),
        ("libother.so.12", InjectionVerdict.UNKNOWN),
    ],
)
def test_an_mpi_that_is_opened(tmp_path: Path, opened: str, verdict: InjectionVerdict) -> None:
    """By its name the loader finds the injected one; by its path the one that lies there."""
    need("gcc")
    lab = Lab(tmp_path)
    every = ["MPI_Init", "MPI_Recv", "MPII_Win_get_attr"]
    lab.library("mpi/lib/libmpi.so.12", defines=every, texts=["PMI_FD"])
    program = lab.program(declarations=f'const char name[] = "{opened}";\n', opens=True)
    view = RootView()
    question = Question(machine=this_machine(), launcher="hydra")
    found = judge(view, program, find_replacement(view, lab.path("mpi")), question)
    assert found.verdict is verdict
    assert not [one for one in found.findings if one.cause is Cause.LAUNCHER]
    if verdict is InjectionVerdict.WORKS:
        assert run(program, opened, env=dict(found.environment)).opened == (True,)
        assert run(program, opened).opened == (_installed(opened),)


def test_a_launcher_that_is_called_by_a_link_elsewhere(lab):
    """Hydra starts its proxy from the folder of its own name; as mpiexec of MPICH and Intel do."""
    lab.library("mpich/lib/libmpi.so.12", defines=["MPI_Init", "MPII_Win_get_attr"],
                texts=["PMI_FD"])  # fmt: skip
    text = 'const char text[] = "hydra_pmi_proxy"; int main(void) { return !text[0]; }\n'
    Path(lab.path("mpich/bin")).mkdir()
    lab._gcc(lab._source(text, "c"), lab.path("mpich/bin/mpiexec.hydra"))
    Path(lab.path("mpich/bin/hydra_pmi_proxy")).touch()
    Path(lab.path("mpich/bin/mpiexec")).symlink_to("mpiexec.hydra")
    Path(lab.path("links")).mkdir()
    link = Path(lab.path("links/mpiexec"))
    link.symlink_to("../mpich/bin/mpiexec")
    program = lab.program(
        "bin/other", needs=["mpich/lib/libmpi.so.12"], calls=["MPI_Init"],
        flags=[f"-Wl,--enable-new-dtags,-rpath,{lab.path('mpich/lib')}"],
    )  # fmt: skip

    def refused(file):
        view = RootView()
        mpich = find_replacement(view, lab.path("mpich"))
        kind = named.launcher_kind(str(file), findings_launcher.OFFERS)
        question = Question(machine=this_machine(), launcher=kind, launcher_file=str(file))
        found = judge(view, program, mpich, question).findings
        return [one.message for one in found if one.effect is Effect.FAILS]

    assert refused(lab.path("mpich/bin/mpiexec")) == []
    (message,) = refused(link)
    assert "looks for its `hydra_pmi_proxy` in the folder that it is called by" in message
    Path(lab.path("links/hydra_pmi_proxy")).symlink_to("../mpich/bin/hydra_pmi_proxy")
    assert refused(link) == []
