"""What ranks are told of their NIC and GPU, and how each launcher and each task tells it."""

import os
import subprocess
import sys

import pytest

from refusals import refusal
from stackproof.core.errors import Reason
from stackproof.launch import devices, launchers
from stackproof.launch.effects import allocation, task
from stackproof.launch.launchers import LaunchRequest
from stackproof.results.case import Placement, Rank

CUDA = Placement(
    name="gpus",
    gpus="cuda",
    ranks=tuple(
        Rank(node=node, cpu=72 * gpu, numa=gpu, nic=f"cxi{gpu}", gpu=gpu)
        for node in ("n1", "n2")
        for gpu in (1, 0)
    ),
)


def test_each_rank_has_its_gpu_and_its_nic():
    found = devices.rank_variables(CUDA, "openmpi", {})
    assert found[0] == {
        "CUDA_VISIBLE_DEVICES": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "FI_CXI_DEVICE_NAME": "cxi1",
    }
    assert [one["FI_CXI_DEVICE_NAME"] for one in found] == ["cxi1", "cxi0", "cxi1", "cxi0"]


def test_amds_gpus_are_numbered_by_hip():
    ranks = (Rank(node="n", cpu=49, gpu=7),)
    placement = Placement(name="p", ranks=ranks, gpus="rocm")
    assert devices.rank_variables(placement, "mpich", {}) == ({"HIP_VISIBLE_DEVICES": "7"},)


def test_cray_mpich_gets_a_map_of_the_ranks_of_a_node():
    found = devices.rank_variables(CUDA, "cray-mpich", {})
    assert {one["MPICH_OFI_NIC_POLICY"] for one in found} == {"USER"}
    assert {one["MPICH_OFI_NIC_MAPPING"] for one in found} == {"0:1;1:0"}
    assert not any("FI_CXI_DEVICE_NAME" in one for one in found)


def test_of_what_lnx_joins_a_rank_has_its_own_nic():
    links = {devices.LINKS: "shm+cxi:cxi0|shm+cxi:cxi1"}
    found = devices.rank_variables(CUDA, "openmpi", links)
    assert [one[devices.LINKS] for one in found[:2]] == ["shm+cxi:cxi1", "shm+cxi:cxi0"]


def test_what_an_arm_sets_stays_and_nobody_is_told_what_nobody_chose():
    found = devices.rank_variables(CUDA, "openmpi", {"CUDA_VISIBLE_DEVICES": "3"})
    assert "CUDA_VISIBLE_DEVICES" not in found[0]
    plain = Placement(name="p", ranks=(Rank(node="n", cpu=0), Rank(node="n", nic="mlx5_0")))
    assert devices.rank_variables(plain, "openmpi", {}) == ({}, {})


@pytest.mark.parametrize("name", ["hydra", "intel-hydra", "prte"])
def test_launchers_set_them_for_each_rank(name):
    own = devices.rank_variables(CUDA, "mpich", {})
    request = LaunchRequest(
        prefix="/mnt/s", program=("prog",), placement=CUDA, agent="/run/agent", own=own
    )
    line = " ".join(launchers.get(name).argv(request))
    for rank, variables in zip(CUDA.ranks, own, strict=True):
        words = " ".join(f"{key}={value}" for key, value in variables.items())
        assert f"env {words} taskset -c {rank.cpu} prog" in line
    assert line.count(" env ") == 4


@pytest.mark.parametrize("name", ["srun", "flux", "pals"])
def test_launchers_of_schedulers_leave_them_to_their_tasks(name):
    request = LaunchRequest(prefix="/", program=("p",), placement=CUDA, own=({"A": "1"},) * 4)
    assert refusal(launchers.get(name).argv, request).reason is Reason.UNSUPPORTED


def test_a_task_of_slurm_sets_its_own():
    own = ({"GPU": "3", "NIC": "cxi3"}, {"NIC": "cxi2"})
    both = Placement(name="x", ranks=(Rank(node="n", cpu=0), Rank(node="n", cpu=0)))
    words = allocation.task_words(both, "", {}, {"ALL": "x"}, own)
    for rank, expected in enumerate(own):
        done = subprocess.run([*words, "env"], env={"PATH": os.environ["PATH"],
                              "SLURM_PROCID": str(rank)}, capture_output=True, text=True, check=True)  # fmt: skip
        seen = dict(line.split("=", 1) for line in done.stdout.splitlines())
        assert {key: seen.get(key) for key in ("GPU", "NIC", "ALL")} == {
            "GPU": expected.get("GPU"), "NIC": expected["NIC"], "ALL": "x"
        }  # fmt: skip
    done = subprocess.run(
        [*words, "env"], env={"SLURM_PROCID": "2"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "task `2`" in done.stderr


def test_a_look_tells_the_inside_of_the_node():
    argv = [sys.executable, "-I", "-S", task.__file__, "look"]
    done = subprocess.run(argv, env={"CUDA_VISIBLE_DEVICES": "1"}, capture_output=True, check=True)
    assert b'"gpus": {"CUDA_VISIBLE_DEVICES": "1"}' in done.stdout
    assert b'"threads": ["' in done.stdout
