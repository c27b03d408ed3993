"""The launcher as a program of its own: whose release it is, and which variables reach it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from elflab import Lab, run
from injectlab import MPICH, judged, mpich, openmpi, uses_mpich, uses_openmpi
from stackproof.core.errors import Reason, StackproofError
from stackproof.inject.effects import named
from stackproof.inject.findings import launcher as findings_launcher
from stackproof.inject.model import Cause, Effect, InjectionVerdict


@pytest.fixture
def lab(lab: Lab) -> Lab:
    """Two Open MPI 4, each with its launcher, and a program of the old one."""
    for name in ("old", "new"):
        own = [f"-Wl,--enable-new-dtags,-rpath,{lab.path(f'{name}/lib')}"]
        lab.library(f"{name}/lib/libopen-rte.so.40", defines=["orte_init"])
        openmpi(lab, name, needs=[f"{name}/lib/libopen-rte.so.40"], flags=own)
        lab.program(
            f"{name}/bin/mpiexec", needs=[f"{name}/lib/libopen-rte.so.40"], calls=["orte_init"],
            flags=own,
        )  # fmt: skip
    uses_openmpi(lab, flags=[f"-Wl,--enable-new-dtags,-rpath,{lab.path('old/lib')}"])
    return lab


def with_launcher(lab, launcher, program="bin/program", prefix="new"):
    file = lab.path(launcher)
    kind = named.launcher_kind(file, findings_launcher.OFFERS)
    return judged(lab, lab.path(program), prefix, launcher=kind, launcher_file=file)


def test_its_own_launcher(lab):
    assert with_launcher(lab, "new/bin/mpiexec").verdict is InjectionVerdict.WORKS


def test_the_launcher_of_another_release(lab):
    """Two Open MPI 4 may not fit, and with the ranks' variables it would not be itself."""
    found = with_launcher(lab, "old/bin/mpiexec")
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
    found = with_launcher(lab, "hydra/bin-mpiexec")
    assert [one.effect for one in found.findings if one.cause is Cause.LAUNCHER] == [Effect.FAILS]


def test_a_launcher_that_is_not_there(lab):
    with pytest.raises(StackproofError) as raised:
        named.launcher_kind(lab.path("nowhere/mpiexec"), findings_launcher.OFFERS)
    assert raised.value.reason is Reason.FILE_MISSING


@pytest.mark.parametrize("how", ["plain name", "opened later"])
def test_whatever_name_the_mpi_has(lab: Lab, how: str) -> None:
    """Wheels have copies where links were, and a program may ask for one or open another."""
    for name in ("libmpi.so", "libmpi.so.12"):
        mpich(lab, "mpi", name, soname="libmpi.so.12", texts=["PMI_FD"])
    lab.library("stub/libmpi.so", defines=MPICH)
    if how == "plain name":
        program = uses_mpich(lab, needs=["stub/libmpi.so"], flags=())
    else:
        program = lab.program(opens=True)
    for launcher, fails in (("intel-hydra", False), ("hydra", False), ("prte", True)):
        found = judged(lab, program, "mpi", launcher=launcher)
        told = [one.effect for one in found.findings if one.cause is Cause.LAUNCHER]
        assert told == ([Effect.FAILS] if fails else [])


def test_the_launcher_of_the_system(lab):
    """It lies beside others: what it loads as run-time library says whose it is."""
    beside = lab.path("new/bin/mpiexec")
    copy = lab.folder / "elsewhere" / "mpiexec"
    copy.parent.mkdir()
    copy.write_bytes(Path(beside).read_bytes())
    copy.chmod(0o755)
    found = with_launcher(lab, "elsewhere/mpiexec")
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
def test_an_mpi_that_is_opened(lab: Lab, opened: str, verdict: InjectionVerdict) -> None:
    """By its name the loader finds the injected one; by its path the one that lies there."""
    mpich(lab, "mpi", texts=["PMI_FD"])
    program = lab.program(declarations=f'const char name[] = "{opened}";\n', opens=True)
    found = judged(lab, program, "mpi", launcher="hydra")
    assert found.verdict is verdict
    assert not [one for one in found.findings if one.cause is Cause.LAUNCHER]
    if verdict is InjectionVerdict.WORKS:
        assert run(program, opened, env=dict(found.environment)).opened == (True,)
        assert run(program, opened).opened == (_installed(opened),)


def test_a_launcher_that_is_called_by_a_link_elsewhere(lab):
    """Hydra starts its proxy from the folder of its own name; as mpiexec of MPICH and Intel do."""
    mpich(lab, "mpich", texts=["PMI_FD"])
    text = 'const char text[] = "hydra_pmi_proxy"; int main(void) { return !text[0]; }\n'
    Path(lab.path("mpich/bin")).mkdir()
    lab._gcc(lab._source(text, "c"), lab.path("mpich/bin/mpiexec.hydra"))
    Path(lab.path("mpich/bin/hydra_pmi_proxy")).touch()
    Path(lab.path("mpich/bin/mpiexec")).symlink_to("mpiexec.hydra")
    Path(lab.path("links")).mkdir()
    link = Path(lab.path("links/mpiexec"))
    link.symlink_to("../mpich/bin/mpiexec")
    program = uses_mpich(lab, name="bin/other", own="mpich/lib")

    def refused(file):
        found = with_launcher(lab, file, program, "mpich").findings
        return [one.message for one in found if one.effect is Effect.FAILS]

    assert refused(lab.path("mpich/bin/mpiexec")) == []
    (message,) = refused(link)
    assert "looks for its `hydra_pmi_proxy` in the folder that it is called by" in message
    Path(lab.path("links/hydra_pmi_proxy")).symlink_to("../mpich/bin/hydra_pmi_proxy")
    assert refused(link) == []
