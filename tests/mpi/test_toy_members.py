"""An MPI, a transport and a launcher that nobody has: rooms that list or ask know them.

They are registered in a process of their own, before any room is imported, as a folder of the
family would be; no file of the package names them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REGISTERED = r"""
import re
import sys
from stackproof.mpi import families
from stackproof.mpi.families.record import (
    Forced, GpuSwitch, InfoProgram, LibraryMarks, LogForms, MpiFamily,
)

families.REGISTRY["toy-mpi"] = MpiFamily(
    name="toy-mpi", title="Toy MPI", abi="mpich", launcher="horse",
    banner=re.compile(r"Toy MPI (\d[\w.]*)"), distributions=("toy-mpi-wheel",),
    pmi={"srun": "toypmi"}, nic_variables={"TOY_NICS": "{map}"}, made_of="mpich",
    interface_variables=("TOY_IF",), provider_variables=("TOY_PROVIDER",),
    paths={"tcp": Forced(since=(2,), set={"TOY_PATH": "tcp"}),
           "lnx": Forced(since=(2,), set={"TOY_PROVIDER": "{provider}"})},
    gpu_switches=(GpuSwitch(name="TOY_GPU", since=(2,)),),
    marks=LibraryMarks(word=b"TOY WORD", maker="TOY WORD"),
    log=LogForms(component="Toy MPI", speaks="toy:", words="toy: ", version=r"Toy MPI (\d\.\d)"),
    info=InfoProgram(argv=("toyinfo",), version=re.compile(r"^toy (\S+)")),
    spack={"toympi": "1.0"}, programs=("toybench",), vendor=True,
)
from stackproof.mpi import transports
from stackproof.core.value import replace
from stackproof.mpi.transports.kernel import AUTO

transports.REGISTRY["pigeon"] = replace(AUTO, name="pigeon", title="pigeons")
from stackproof.launch import launchers

launchers.REGISTRY["horse"] = replace(launchers.get("hydra"), name="horse")
"""


def python(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program after the registrations; its last words are `sys.argv`."""
    return subprocess.run(
        [sys.executable, "-c", REGISTERED + program, *words],
        capture_output=True,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
        check=False,
    )


def verb(*words: str) -> subprocess.CompletedProcess[str]:
    return python("from stackproof.cli import main\nmain(sys.argv[1:])\n", *words)


ROOMS = r"""
import json
from stackproof.build.engines.easybuild.selection import Selection
from stackproof.build.engines.spack import conflicts, mpis
from stackproof.build.engines.spack.stackinator import network
from stackproof.build.engines.wheel import recipe as wheels
from stackproof.doctor.evidence import log, places, programs, variables
from stackproof.launch import devices
from stackproof.launch.launchers import LaunchRequest
from stackproof.mpi.transports import Libfabric, Memory, Setup
from stackproof.recipe import conditions
from stackproof.results.case import Placement, Rank

ranks = (Rank(node="a", nic="cxi1"), Rank(node="b", nic="cxi0"))
placement = Placement(name="inter-node", ranks=ranks, interface="eth0")
setup = Setup(family="toy-mpi", version="2.1", placement=placement)
srun = launchers.get("srun").argv(
    LaunchRequest(prefix="/p", program=("x",), placement=placement, family="toy-mpi"))
told = log.of_log("toy: is no good\nToy MPI 2.1\n", "job.log")
asked = programs.read_answers({"toyinfo": programs.Reply(text="toy 2.1", returncode=0)})
gpu = Setup(family="toy-mpi", version="2.1", placement=placement, memory=Memory.CUDA)
found = {
    "library": families.identify("Toy MPI 2.1 of nobody"),
    "marks": families.of_library([], "/x", lambda: b"..TOY WORD.."),
    "maker": families.maker_of("mpich", "2.1", ["TOY WORD"]),
    "abi": families.abi_of("toy-mpi", "2.1"),
    "pmi": [word for word in srun if word.startswith("--mpi=")],
    "nics": devices.rank_variables(placement, "toy-mpi", {})[0],
    "tcp": dict(transports.profile_of("tcp", setup).env.set),
    "auto": dict(transports.profile_of("pigeon", setup).env.set),
    "gpu": dict(transports.profile_of("auto", gpu).env.set).get("TOY_GPU"),
    "log": [told.facts["mpi"], told.versions["toy-mpi"]],
    "program": [asked.facts["mpi"], asked.versions["toy-mpi"]],
    "lists": variables._LISTS["TOY_PROVIDER"],
    "bill": "toy-mpi" in places._PACKAGES,
    "spack": [mpis.PACKAGES["toy-mpi"], mpis.abi_of("toympi", "0.9"), mpis.abi_of("toympi", "1.1")],
    "conflicts": "toympi" in conflicts.MPIS,
    "vendor": "toympi" in network.VENDOR_MPIS,
    "wheel": wheels._COMES_WITH["toybench"],
    "sites": "toy-mpi" in conditions.FACTS["vendor-mpi"],
    "launcher": launchers.get("horse").name,
}
print(json.dumps(found))
"""


def test_rooms_know_what_a_record_says() -> None:
    done = python(ROOMS)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "library": ["toy-mpi", "2.1"],
        "marks": "toy-mpi",
        "maker": ["toy-mpi", True],
        "abi": "mpich",
        "pmi": ["--mpi=toypmi"],
        "nics": {"TOY_NICS": "1:0"},
        "tcp": {"TOY_PATH": "tcp", "FI_TCP_IFACE": "eth0"},
        "auto": {"FI_TCP_IFACE": "eth0", "UCX_NET_DEVICES": "eth0", "TOY_IF": "eth0"},
        "gpu": "1",
        "log": ["toy-mpi", "2.1"],
        "program": ["toy-mpi", "2.1"],
        "lists": "toy-mpi",
        "bill": True,
        "spack": ["toympi", "", "mpich"],
        "conflicts": True,
        "vendor": True,
        "wheel": "toy-mpi",
        "sites": True,
        "launcher": "horse",
    }


def test_doctor_finds_it_in_a_log(tmp_path: Path) -> None:
    job = tmp_path / "job.log"
    job.write_text("toy: error: cannot go on\nToy MPI 2.1\n")
    done = verb("doctor", "--log", str(job), "--all", "--json")
    assert "mpi: toy-mpi" in done.stdout, done.stderr


def test_a_mistyped_mpi_is_told_of_it() -> None:
    done = verb("check", "mpich", "--with", "mpi=toi-mpi")
    assert "did you mean `toy-mpi`?" in done.stderr
    assert "intel-mpi, toy-mpi" in done.stderr


@pytest.mark.parametrize(
    ("program", "hint"),
    [
        ("transports.get('crow')", "lnx, pigeon"),
        ("launchers.get('cow')", "pals, horse"),
        ("families.get('lam')", "mvapich, toy-mpi"),
    ],
)
def test_registries_list_toys(program: str, hint: str) -> None:
    done = python(f"{program}\n")
    assert hint in done.stderr
