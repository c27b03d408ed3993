"""`stackproof site place`: what a rank of a user's own job gets of its node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import documented
from mpitrees import Trees
from need import need
from refusals import refusal
from stackproof import cli
from stackproof.core.cli.examples import OUTPUTS
from stackproof.core.errors import Reason, StackproofError
from stackproof.launch import layout, places
from stackproof.site.topology import Core, Topology
from topologies import NAMES, node

COVERS = ("launch/cli/place.py", "launch/options.py", "launch/places.py")
# What a process may use: its CPUs, and mode and nodes of its memory by get_mempolicy(2).
LOOK = """
import ctypes, os
mode, mask = ctypes.c_int(-1), (ctypes.c_ulong * 16)()
number = {"x86_64": 239, "aarch64": 236, "riscv64": 236, "ppc64le": 260}[os.uname().machine]
bits = ctypes.c_ulong(1025)
assert ctypes.CDLL(None).syscall(number, ctypes.byref(mode), mask, bits, None, 0) == 0
print(sorted(os.sched_getaffinity(0)), mode.value, mask[0], flush=True)
"""
SEEN = [sys.executable, "-c", LOOK]
PLACE = (sys.executable, "-m", "stackproof", "site", "place")
CPUS = sorted(os.sched_getaffinity(0))


def of(machine: str, name: str, **more: str) -> tuple[places.NodeShare, ...]:
    mpi = more.pop("mpi", None)
    return places.share_node(name, node(machine).topology(), granted(machine), mpi, more)


def granted(machine: str) -> list[int]:
    """Return the CPUs that a job has on a node: all threads of its cores."""
    there = node(machine)
    cores = [core.cpus for core in there.topology().cores if {*core.cpus} & {*there.allowed}]
    return [cpu for cpus in cores for cpu in cpus]


def test_the_wrapper_of_a_paper_on_clariden() -> None:
    """`--cpunodebind` and `--membind` of the local rank, and GPUS=(3 2 1 0)."""
    found = of("clariden-a100", "1x4-by-numa-membind")
    assert [place.numa for place in found] == [0, 1, 2, 3]
    assert [place.memory for place in found] == [0, 1, 2, 3]
    assert [place.variables["CUDA_VISIBLE_DEVICES"] for place in found] == ["3", "2", "1", "0"]
    assert [place.cpus[0] for place in found] == [0, 16, 32, 48]
    lines = places.render_script("1x4-by-numa-membind", found).splitlines()
    assert lines[4] == (
        "  0) export CUDA_VISIBLE_DEVICES=3; export CUDA_DEVICE_ORDER=PCI_BUS_ID;"
        ' exec taskset -c 0-15,64-79 numactl --membind=0 "$@" ;;'
    )
    turned = of("clariden-a100", "1x4-by-gpu")
    assert [(place.numa, place.variables["CUDA_VISIBLE_DEVICES"]) for place in turned] == [
        (3, "0"), (2, "1"), (1, "2"), (0, "3"),
    ]  # fmt: skip
    assert {place.memory for place in turned} == {None}


def test_cores_that_a_job_does_not_have_go_to_no_rank() -> None:
    first, *rest = of("frontier", "1x8-by-gpu", mpi="cray-mpich")
    assert first.cpus == (*range(49, 56), *range(113, 120))
    assert first.memory is None
    assert first.variables["HIP_VISIBLE_DEVICES"] == "0"
    assert first.variables["MPICH_OFI_NIC_POLICY"] == "USER"
    assert all(len(place.cpus) == 14 for place in rest)
    assert of("lumi-g", "1x8-by-gpu", mpi="mpich")[0].variables["FI_CXI_DEVICE_NAME"] == "cxi0"


@pytest.mark.battery
@given(
    machine=st.sampled_from(NAMES),
    by=st.sampled_from([by.value for by in layout.By]),
    packed=st.booleans(),
    each=st.integers(1, 40),
)
@settings(max_examples=30)
def test_no_two_ranks_share_a_core(machine, by, packed, each) -> None:
    name = layout.layout_name(f"1x{each}", by, packed=packed, membind=True)
    inside = node(machine).topology()
    devices = {"gpu": inside.gpus, "nic": inside.nics}
    if len(node(machine).allowed) < each or not devices.get(by, True):
        with pytest.raises(StackproofError):
            of(machine, name)
        return
    found = of(machine, name)
    cores = [{inside.core_of(cpu).cpus for cpu in place.cpus} for place in found]
    assert all(cores)
    assert len(set().union(*cores)) == sum(map(len, cores))
    assert {cpu for place in found for cpu in place.cpus} <= {*granted(machine)}
    assert all(place.memory == place.numa for place in found)


@pytest.mark.parametrize("name", places.LOCAL_RANKS)
def test_launchers_tell_a_rank_its_number(name: str) -> None:
    assert places.local_rank({"SLURM_LOCALID": "9", name: "3"}) == 3
    assert refusal(places.local_rank, {name: "x"}).reason is Reason.USAGE


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("1x2-by-core", "does not tell its cores"),
        ("intra-node", "no placement by the parts"),
    ],
)
def test_a_node_that_says_nothing_and_what_is_no_layout(name: str, said: str) -> None:
    with pytest.raises(StackproofError, match=said):
        places.share_node(name, Topology(cores=()), (0, 1), None, {})


def test_memory_of_a_core_of_no_known_numa_node() -> None:
    inside = Topology(cores=(Core(cpus=(0,)),))
    with pytest.raises(StackproofError, match="does not tell the NUMA node of CPU 0"):
        places.share_node("1x1-by-core-membind", inside, (0,), None, {})


def placed(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {key: text for key, text in os.environ.items() if key not in places.LOCAL_RANKS}
    return subprocess.run(
        [*PLACE, *words],
        env={**kept, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_rank_is_where_its_number_says(tmp_path: Path) -> None:
    """Also where its launcher bound it elsewhere; the script that is printed does the same."""
    last = len(CPUS) - 1
    name = f"1x{len(CPUS)}-by-core-membind"
    words = ["taskset", "-c", str(CPUS[0]), *PLACE, name, "--"]
    done = subprocess.run([*words, *SEEN], env={**os.environ, "PALS_LOCAL_RANKID": str(last)},
                          capture_output=True, text=True, check=True)  # fmt: skip
    cpus, mode, nodes = done.stdout.rsplit(maxsplit=2)
    assert json.loads(cpus) == [CPUS[-1]]
    assert mode == "2"  # MPOL_BIND
    assert int(nodes) == 1 << json.loads(placed(name, "--json").stdout)[last]["memory"]
    path = tmp_path / "script"
    path.write_text(placed(f"1x{len(CPUS)}-by-core", "--script").stdout)
    words = ["bash", str(path)]
    done = subprocess.run([*words, *SEEN], env={**os.environ, "SLURM_LOCALID": str(last)},
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert json.loads(done.stdout.rsplit(maxsplit=2)[0]) == [CPUS[-1]]
    done = subprocess.run([*words, "true"], env={"PATH": os.environ["PATH"]}, check=False)
    assert done.returncode == 2


@pytest.mark.battery
def test_ranks_of_an_mpi_have_a_core_each(trees: Trees) -> None:
    need("network")
    mpiexec = f"{trees['mpich'].prefix}/bin/mpiexec"
    words = [mpiexec, "-n", "2", *PLACE, "1x2-by-core", "--"]
    done = subprocess.run([*words, *SEEN], capture_output=True, text=True, check=True)
    seen = sorted(line.rsplit(maxsplit=2)[0] for line in done.stdout.splitlines())
    assert len({*seen}) == 2, done.stdout


def test_what_is_refused(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    def said(*words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as stop:
            cli.main(["site", "place", *words])
        return int(stop.value.code or 0), capsys.readouterr().err

    for name in places.LOCAL_RANKS:
        monkeypatch.delenv(name, raising=False)
    assert said("1x1-by-core", "--", "true") == (2, said("1x1-by-core", "--", "true")[1])
    assert "no launcher tells" in said("1x1-by-core", "--", "true")[1]
    monkeypatch.setenv("SLURM_LOCALID", "1")
    code, text = said("1x1-by-core", "--", "true")
    assert (code, "1 ranks on each node, and this is number 2" in text) == (3, True)
    assert "there is no MPI `lam`" in said("1x1-by-core", "--mpi", "lam")[1]
    assert said("1x1-by-core", "--json", "--", "true")[0] == 2
    monkeypatch.setenv("SLURM_LOCALID", "0")
    done = placed("1x1-by-core", "--", "/nothing/here", SLURM_LOCALID="0")
    assert (done.returncode, "/nothing/here" in done.stderr) == (127, True)


def test_another_node_by_its_xml(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its help shows this."""
    (tmp_path / "node.xml").write_text(node("lumi-g").xml())
    monkeypatch.chdir(tmp_path)
    line, *shown = OUTPUTS["site place"]
    with pytest.raises(SystemExit):
        cli.main(line.split()[2:])
    text = capsys.readouterr().out
    assert documented.is_like(shown, text)
    rows = text.splitlines()
    assert rows[0].split() == ["rank", "CPUs", "NUMA", "memory", "variables"]
    assert rows[1].split() == ["0", "48-55,112-119", "3", "3", "HIP_VISIBLE_DEVICES=0"]
