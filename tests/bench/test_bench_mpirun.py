"""mpirun inside an allocation, for real: Hydra and PRRTE on Slurm's nodes, and what spoils that."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurmroom import Room, built_in

pytestmark = pytest.mark.machine

CLUSTER = "bench-mpirun"
NODES = 4
MPICH = {"name": "mpich", "image": "mpich.squashfs", "launcher": "mpirun"}
OPENMPI = {"name": "openmpi", "image": "openmpi.squashfs"}
# Starts all ranks on the first node of the list, whatever was asked for.
IGNORES = """#!/bin/bash
words=()
for word; do
    case $word in *:1,*:1) word=${word%%:*}:2 ;; esac
    words+=("$word")
done
exec "${0%/*}/real-mpiexec" "${words[@]}"
"""


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """Four nodes with a Slurm that has no PMIx, and no plug-in for images."""
    room = built_in(tmp_path_factory.mktemp("room"), CLUSTER, "mpich", "openmpi")
    plugins = room.folder / "plugins"
    plugins.mkdir()
    installed = next(Path("/usr/lib").glob("*/slurm*/mpi_pmi2.so")).parent
    for path in installed.glob("*.so"):
        if "pmix" not in path.name:
            (plugins / path.name).symlink_to(path)
    up = ("cluster", "up", "--nodes", NODES, "--slurm", "--no-pin", "--no-images")
    setting = ("--set", f"PluginDir={plugins}")
    room.run(*up, "--name", CLUSTER, "--share", room.folder, *setting)
    yield room
    for process in room.running:
        process.kill()
        process.communicate()
    room.run("cluster", "down", "--name", CLUSTER)


def salloc(room: Room, nodes: int, *words: object) -> tuple[object, ...]:
    """Return the words that run a bench in an allocation of its own."""
    inside = ("salloc", "--quiet", f"--nodes={nodes}", "--job-name=inside", *room.argv("bench"))
    return ("cluster", "exec", "--name", CLUSTER, "--", *inside, *words)


def spec_of(room: Room, name: str, **changes: object) -> Path:
    wanted = {"on": "allocation", "baseline": MPICH, "launches": 1, **changes}
    return room.folder / room.spec(name, **wanted)


@pytest.mark.parametrize("nodes", [2, 4])
def test_mpirun_in_an_allocation(room: Room, nodes: int) -> None:
    """Hydra where it is asked for; PRRTE by itself, since this Slurm does not speak PMIx."""
    others = [OPENMPI, {"name": "by-srun", "image": "mpich.squashfs"}][: 3 - nodes // 2]
    name, all_ranks = f"alloc{nodes}", f"{nodes}x2"
    spec = spec_of(room, name, challengers=others, validated=[all_ranks],
                   benchmarks=["latency", "alltoall"])  # fmt: skip
    room.run(*salloc(room, nodes, spec, "-o", room.folder / name, "--no-verdict"))
    launches = room.launches(name).values()
    assert len(launches) == 3 * (1 + len(others))
    starters = {one["arm"]: one["host_facts"]["launcher"] for one in launches}
    wanted = {"mpich": "hydra", "openmpi": "prte", "by-srun": "srun"}
    assert starters == {arm: wanted[arm] for arm in ("mpich", *(one["name"] for one in others))}
    for one in launches:
        checks = {check["name"]: check["state"] for check in one["checks"]}
        assert "bad" not in checks.values(), one["checks"]
        assert checks["world"] == checks["placement"] == checks["mpi"] == "ok"
        asked = [rank["node"] for rank in one["case"]["placement"]["ranks"]]
        assert [facts["host"] for facts in one["output"]["ranks"]] == asked
        assert one["output"]["world_size"] == len(asked)
        assert one["host_facts"]["image"] == (
            "mounted by the tasks" if one["arm"] == "by-srun"
            else "mounted by the launcher's helpers"
        )  # fmt: skip
    assert {len(one["output"]["ranks"]) for one in launches} == {2, 2 * nodes}


def test_every_launcher_tells_each_rank_its_own_gpu(room: Room) -> None:
    """Nodes that show two GPUs: those of amdkfd are files alone, so that files can stand for them."""
    kfd = "/sys/class/kfd/kfd/topology/nodes"
    script = "at=$(mktemp -d); mount --rbind /sys/class/net $at; "
    script += "mount -t tmpfs none /sys/class; mkdir /sys/class/net; "
    script += "mount --rbind $at /sys/class/net; "
    for number in (0, 1):
        script += f"mkdir -p {kfd}/{number}; echo {number + 7} >{kfd}/{number}/gpu_id; "
        script += f"echo 'location_id {number}' >{kfd}/{number}/properties; "
    for node in ("node1", "node2"):
        room.run("cluster", "exec", "--name", CLUSTER, "--on", node, "--", "sh", "-ec", script)
    srun = {"name": "by-srun", "image": "mpich.squashfs"}
    spec = spec_of(room, "gpus", challengers=[OPENMPI, srun], benchmarks=["alltoall"],
                   placements=[{"shape": "1x2", "by": "gpu"}])  # fmt: skip
    inside = salloc(room, 1, spec, "-o", room.folder / "gpus", "--no-verdict")
    words = [*inside[:8], "--ntasks-per-node=2", "--nodelist=node1", *inside[8:]]
    assert "1x2-by-gpu: ranks 2 on node1" in room.run(*words, "--dry-run").stdout
    room.run(*words)
    launches = room.launches("gpus").values()
    assert {one["host_facts"]["launcher"] for one in launches} == {"hydra", "prte", "srun"}
    for one in launches:
        assert "bad" not in {check["state"] for check in one["checks"]}, one["checks"]
        told = [facts["devices"] for facts in one["output"]["ranks"]]
        assert [devices["HIP_VISIBLE_DEVICES"] for devices in told] == ["0", "1"]


def test_an_allocation_that_ends_goes_on_in_the_next(room: Room) -> None:
    spec = spec_of(room, "ends", challengers=[OPENMPI], launches=3)
    words = salloc(room, 2, spec, "-o", room.folder / "ends", "--no-verdict")
    process = room.begin(*words)
    before = room.wait_for("ends", 3)
    room.slurm("scancel", "--name=inside")
    process.communicate(timeout=60)
    room.running.remove(process)
    assert process.returncode != 0
    assert len(room.launches("ends")) < 8
    room.run(*words)
    assert room.untouched("ends", before)
    launches = room.launches("ends")
    assert len({one["host_facts"]["job"] for one in launches.values()}) == 2
    assert not [c for one in launches.values() for c in one["checks"] if c["state"] == "bad"]
    assert len([name for name in launches if "failed" not in name]) == 8


def test_a_launcher_that_ignores_the_placement_gives_no_number(room: Room) -> None:
    room.tree("mpich")
    shutil.move(room.folder / "mpich-tree", room.folder / "ignores")
    (programs,) = (room.folder / "ignores").glob("*/bin")
    (programs / "mpiexec").rename(programs / "real-mpiexec")
    (programs / "mpiexec").write_text(IGNORES)
    (programs / "mpiexec").chmod(0o755)
    spec = spec_of(room, "ignored", baseline={**MPICH, "image": "ignores"})
    done = room.run(*salloc(room, 2, spec, "-o", room.folder / "ignored"), ok=(7,))
    assert "[wrong-placement]" in done.stderr
    assert "ran on node1, not node2" in done.stderr
    assert not room.launches("ignored")


def test_ranks_that_hang_are_ended_on_every_node(room: Room) -> None:
    room.tree("openmpi")
    program = room.folder / "openmpi-tree" / "benchmarks" / "stackproof-bench"
    program.write_text("#!/bin/sh\nexec sleep 4321\n")
    arm = {"name": "hangs", "image": "openmpi-tree"}
    spec = spec_of(room, "hang", baseline=arm, timeout=1.5)
    done = room.run(*salloc(room, 2, spec, "-o", room.folder / "hang"), ok=(7,))
    assert "[job-timeout]" in done.stderr
    time.sleep(0.2)
    for node in (None, "node1", "node2"):
        on = ("--on", node) if node else ()
        listed = ("cluster", "exec", "--name", CLUSTER, *on, "--", "ps", "-eo", "args")
        assert "sleep 4321" not in room.run(*listed).stdout


def test_what_cannot_be_started_is_told_before(room: Room) -> None:
    spec = spec_of(room, "srun", baseline={**OPENMPI, "launcher": "srun"})
    done = room.run(*salloc(room, 2, spec, "-o", room.folder / "srun"), ok=(3,))
    assert "`srun --mpi=pmix`, which this Slurm does not have" in done.stderr
    assert "`launcher: mpirun`" in done.stderr
    spec = spec_of(room, "few", placements=["1x3"])
    done = room.run(*salloc(room, 2, spec, "-o", room.folder / "few"), ok=(3,))
    assert "`node1` with 1 CPUs" in done.stderr
    outside = subprocess.run(room.argv("bench", spec, "-o", room.folder / "few"),
                             env={k: v for k, v in room.env.items() if k != "SLURM_JOB_ID"},
                             capture_output=True, text=True, check=False)  # fmt: skip
    assert outside.returncode == 2
    assert "not inside a job of Slurm" in outside.stderr
    assert not os.path.exists(room.folder / "few")
