"""Real MPIs under programs of other ones: what is predicted, and what happens."""

from __future__ import annotations

import subprocess

import pytest

from mpitrees import FAMILIES, Trees
from need import need
from stackproof.inject.attempt import Question
from stackproof.inject.effects import named
from stackproof.inject.findings import launcher as findings_launcher
from stackproof.inject.judge import judge
from stackproof.inject.model import Cause, InjectionVerdict, Judgement
from stackproof.inject.replacement import find_replacement
from stackproof.linking.effects.view import RootView, this_machine

pytestmark = pytest.mark.battery

ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/",
    "FI_PROVIDER": "tcp",
    "FI_TCP_IFACE": "lo",
    "I_MPI_FABRICS": "shm",
    "OMPI_MCA_pml": "ob1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
WORDS = ["--benchmarks", "latency", "--sizes", "8", "--samples", "3", "--expect-ranks", "2"]


def judged(trees: Trees, program: str, target: str, launcher: str) -> Judgement:
    kind = named.launcher_kind(mpiexec(trees, launcher), findings_launcher.OFFERS)
    view = RootView()
    question = Question(machine=this_machine(), launcher=kind)
    replacement = find_replacement(view, str(trees[target].prefix))
    return judge(view, str(trees[program].program), replacement, question)


def mpiexec(trees: Trees, family: str) -> str:
    name = "mpiexec.hydra" if family == "intel-mpi" else "mpiexec"
    return str(trees[family].prefix / "bin" / name)


def runs(trees: Trees, found: Judgement, launcher: str) -> bool:
    """Start two ranks as the judgement says; the program itself ends badly if it is alone."""
    options = ["--oversubscribe", "--bind-to", "none"] if launcher == "openmpi" else []
    own = trees[launcher].family.environment(str(trees[launcher].prefix)).apply(ENVIRONMENT)
    done = subprocess.run(
        [mpiexec(trees, launcher), *options, "-n", "2", "env",
         *(f"{name}={value}" for name, value in found.environment.items()),
         found.program, *WORDS],
        env=own, capture_output=True, timeout=600, check=False,
    )  # fmt: skip
    return done.returncode == 0


@pytest.mark.parametrize("target", FAMILIES)
@pytest.mark.parametrize("program", FAMILIES)
def test_every_program_on_every_mpi(trees: Trees, program: str, target: str) -> None:
    need("network")
    found = judged(trees, program, target, target)
    assert (found.verdict in {InjectionVerdict.WORKS, InjectionVerdict.STEPS}) == runs(
        trees, found, target
    )
    same = (program == "openmpi") == (target == "openmpi")
    assert (found.verdict is InjectionVerdict.FAILS) != same
    if not same:
        assert Cause.OTHER_ABI in {finding.cause for finding in found.findings}


@pytest.mark.parametrize("launcher", FAMILIES)
@pytest.mark.parametrize("program", FAMILIES)
def test_every_mpi_by_every_launcher(trees: Trees, program: str, launcher: str) -> None:
    need("network")
    found = judged(trees, program, program, launcher)
    assert (found.verdict in {InjectionVerdict.WORKS, InjectionVerdict.STEPS}) == runs(
        trees, found, launcher
    )
    assert (found.verdict is InjectionVerdict.FAILS) == (
        (program == "openmpi") != (launcher == "openmpi")
    )
