"""Slurm on a cluster for real: nodes, users, MPIs, plug-ins, and nothing that stays behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clusters import (
    SOURCE,
    assert_limited,
    groups,
    held,
    inside,
    machine,
    marked,
    namespaces,
    told,
    wait_until,
)
from need import need
from refusals import refused
from stackproof.cluster import model
from stackproof.cluster.effects import exec as cluster_exec
from stackproof.cluster.effects import slurm as cluster_slurm
from stackproof.cluster.effects import up as cluster_up
from stackproof.cluster.model import ClusterSpec, ClusterState
from stackproof.cluster.slurm import SlurmSpec, SpankPlugin, User, parse_user
from stackproof.core.errors import ExitCode, Reason
from stackproof.core.value import replace

COVERS = ("cluster/effects/plugin.py",)

pytestmark = [pytest.mark.machine, pytest.mark.usefixtures("runtime")]

STACKPROOF = (sys.executable, "-m", "stackproof")
ALICE, BOB = parse_user("alice:2001"), parse_user("bob:2002")
HELLO = r"""
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int size, sum = 0, one = 1;
    char host[64];
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    gethostname(host, sizeof host);
    printf("%s %d %d\n", host, size, sum);
    return MPI_Finalize();
}
"""
SPANK = r"""
#include <slurm/spank.h>
SPANK_PLUGIN(colour, 1)
int slurm_spank_task_init(spank_t step, int count, char **words) {
    return spank_setenv(step, "COLOUR", count > 1 ? words[1] : "none", 1);
}
"""


@pytest.fixture(autouse=True)
def needed():
    need("slurm")


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    folder.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def slurm(shared):
    """Give a cluster to tests that change nothing of it."""
    need("slurm", "netns")
    name = f"slurm-{os.getpid()}"
    spec = ClusterSpec(
        name=name, nodes=4, shared=(str(shared),), slurm=SlurmSpec(users=(ALICE, BOB))
    )
    yield cluster_up.up(spec)
    cluster_up.down(name)


def as_user(
    state: ClusterState, who: User, *argv: str, **env: str
) -> subprocess.CompletedProcess[str]:
    rights = ("setpriv", f"--reuid={who.uid}", f"--regid={who.gid}", "--init-groups", "--")
    start = ("env", f"--chdir={who.home}", f"HOME={who.home}")
    return subprocess.run(
        model.enter_argv(state, None, (*rights, *start, *argv)),
        env={**os.environ, **env}, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=600, check=False,
    )  # fmt: skip


def run_step(state: ClusterState, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a step; once more where Slurm took a part of a PMI request for the whole (rule K90)."""
    try:
        return as_user(state, ALICE, *argv, **env)
    except subprocess.TimeoutExpired as hung:
        if b"value not properly terminated in client request" not in (hung.stderr or b""):
            raise
    assert as_user(state, ALICE, "scancel", f"--user={ALICE.name}").returncode == 0
    return as_user(state, ALICE, *argv, **env)


def states(state: ClusterState) -> list[str]:
    return [node.state for node in cluster_slurm.node_states(state)]


# ------------------------------------------------------------------------------ up and down


@pytest.mark.parametrize("nodes", [1, 2, 4, 8])
def test_a_cluster_runs_a_job_on_every_node_and_leaves_nothing(nodes, runtime):
    before = machine()
    state = cluster_up.up(ClusterSpec(nodes=nodes, slurm=SlurmSpec()))
    names = namespaces(state)
    assert states(state) == ["idle"] * nodes
    assert len(groups(runtime)) == nodes
    said = told(state, None, "srun", f"--nodes={nodes}", "hostname")
    assert sorted(said.split()) == [f"node{number}" for number in range(1, nodes + 1)]
    assert cluster_up.require() == state
    assert cluster_up.down() is True
    assert wait_until(lambda: not held(names) and not marked(runtime))
    assert machine() == before
    assert groups(runtime) == []
    assert os.listdir(runtime / "stackproof") == [".default.lock"]


def test_the_rate_is_kept_with_slurm():
    state = cluster_up.up(ClusterSpec(rate="100mbit", slurm=SlurmSpec()))
    assert told(state, None, "srun", "--nodes=2", "hostname")
    assert_limited(state, 4_000_000)


def test_two_clusters_run_jobs_at_once():
    one = cluster_up.up(ClusterSpec(name="one", slurm=SlurmSpec(users=(ALICE,))))
    two = cluster_up.up(ClusterSpec(name="two", nodes=3, slurm=SlurmSpec()))
    told(one, None, "sbatch", "--output=/dev/null", "--wrap=sleep 60")
    assert told(two, None, "squeue", "--noheader") == ""
    assert len(told(two, None, "srun", "--nodes=3", "hostname").split()) == 3
    assert cluster_up.down("one") is True
    assert states(cluster_up.require("two")) == ["idle"] * 3


def test_another_slurm_is_another_cluster():
    state = cluster_up.up(ClusterSpec(nodes=1, slurm=SlurmSpec()))
    assert cluster_up.up(ClusterSpec(nodes=1, slurm=SlurmSpec())) == state
    for other in (None, SlurmSpec(cpus=2), SlurmSpec(users=(ALICE,)), SlurmSpec(pin=False)):
        with refused(Reason.BUSY):
            cluster_up.up(ClusterSpec(nodes=1, slurm=other))


# ------------------------------------------------------------------------------ what a node is


def test_each_node_has_files_and_one_core_of_its_own(slurm):
    script = "touch /tmp/$SLURMD_NODENAME /dev/shm/$SLURMD_NODENAME; ls /tmp /dev/shm; nproc"
    said = told(slurm, None, "srun", "--nodes=4", "--label", "sh", "-c", script)
    for number in range(4):
        lines = [line[3:] for line in said.splitlines() if line.startswith(f"{number}: ")]
        assert [line for line in lines if line.startswith("node")] == [f"node{number + 1}"] * 2
        assert lines[-1] == "1"
    cores = sorted(os.sched_getaffinity(0))
    assert [node.core for node in slurm.nodes] == [cores[i % len(cores)] for i in range(4)]
    pinned = "import os; print(*os.sched_getaffinity(0))"
    for node in slurm.nodes:
        assert told(slurm, node.name, "python3", "-c", pinned) == str(node.core)


def test_nodes_can_have_all_cores(runtime):
    state = cluster_up.up(ClusterSpec(nodes=1, slurm=SlurmSpec(pin=False)))
    assert told(state, None, "srun", "nproc") == str(len(os.sched_getaffinity(0)))
    assert groups(runtime) == []


def test_what_slurm_is_can_be_seen(slurm):
    assert slurm.slurm is not None
    said = told(slurm, None, "scontrol", "show", "config")
    assert f"SLURM_VERSION           = {slurm.slurm.version}" in said
    assert {"pmi2", "pmix", "none"} <= set(slurm.slurm.mpi)
    assert slurm.slurm.dead == ()


def test_a_setting_replaces_and_adds():
    settings = ("killwait=7", "PartitionName=small Nodes=node1 MaxTime=5")
    state = cluster_up.up(ClusterSpec(slurm=SlurmSpec(settings=settings, cpus=3)))
    said = inside(state, None, "scontrol", "show", "config")
    assert said.stderr == ""
    assert "KillWait                = 7 sec" in said.stdout
    assert "small node1" in told(state, None, "sinfo", "--noheader", "--format=%R %N")
    assert told(state, None, "sinfo", "--noheader", "--format=%c", "--partition=all") == "3"


# ------------------------------------------------------------------------------ users


def test_users_are_in_the_cluster_only(slurm):
    done = as_user(slurm, ALICE, "srun", "--nodes=4", "sh", "-c", "id -un; id -gn; pwd; echo $HOME")
    assert sorted(set(done.stdout.split())) == ["/var/spool/users/alice", "alice"]
    assert len(done.stdout.split()) == 16
    for table in ("/etc/passwd", "/etc/group"):
        assert "alice" not in Path(table).read_text()
    assert not Path("/var/spool/users/alice").exists()


def test_a_users_home_is_on_all_nodes_and_closed_to_others(slurm):
    script = (
        "echo '#!/bin/sh' > job; echo 'srun --nodes=4 tail -n1 job' >> job; sbatch -N4 -o out job"
    )
    assert as_user(slurm, ALICE, "sh", "-c", script).returncode == 0
    wanted = "srun --nodes=4 tail -n1 job\n" * 4
    assert wait_until(lambda: as_user(slurm, ALICE, "cat", "out").stdout == wanted, 20)
    assert as_user(slurm, BOB, "cat", f"{ALICE.home}/job").returncode != 0


def test_a_user_of_this_machine_is_there_as_well(slurm):
    nobody = cluster_exec.user(slurm, "nobody")
    assert as_user(slurm, replace(nobody, home="/"), "srun", "id", "-un").stdout == "nobody\n"
    with refused(Reason.INVALID_VALUE):
        cluster_exec.user(slurm, "carol")


# ------------------------------------------------------------------------------ MPI


@pytest.mark.parametrize(("family", "kind"), [("openmpi", "pmix"), ("mpich", "pmi2")])
def test_mpi_is_started_by_srun_and_by_its_own_launcher(family, kind, trees, slurm, shared):
    tree = trees[family]
    cluster_up.share(slurm, (str(tree.prefix),))
    source, program = shared / "hello.c", shared / f"hello-{family}"
    source.write_text(HELLO)
    settings = tree.family.environment(str(tree.prefix)).apply(dict(os.environ))
    subprocess.run(
        [f"{tree.prefix}/bin/{tree.family.compiler}", source, "-o", program],
        env=settings, timeout=600, check=True,
    )  # fmt: skip
    # Open MPI's own choice of a path takes a second to make.
    settings |= {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,sm,tcp", "OMPI_MCA_mtl": "^ofi"}
    for nodes in (2, 4):
        done = run_step(slurm, "srun", f"--mpi={kind}", f"-N{nodes}", str(program), **settings)
        assert sorted(done.stdout.splitlines()) == [
            f"node{number} {nodes} {nodes}" for number in range(1, nodes + 1)
        ]
        assert "component" not in done.stderr  # PMIx's of server and client fit together
    starter = f"{tree.prefix}/bin/{'mpirun' if family == 'openmpi' else 'mpiexec'}"
    words = ("salloc", "--quiet", "--nodes=2", "--ntasks-per-node=1", starter, str(program))
    done = as_user(slurm, ALICE, *words, **settings)
    assert sorted(done.stdout.splitlines()) == ["node1 2 2", "node2 2 2"], done.stderr


# ------------------------------------------------------------------------------ plug-ins


@pytest.mark.parametrize("way", ["spank", "plugstack"])
def test_a_spank_plugin_is_loaded_into_every_task(way, tmp_path):
    need("gcc")
    (tmp_path / "colour.c").write_text(SPANK)
    plugin = tmp_path / "colour.so"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-o", plugin, tmp_path / "colour.c"], timeout=600, check=True
    )
    arguments = ("paint", "green")
    spec = SlurmSpec(spank=(SpankPlugin(path=str(plugin), arguments=arguments),))
    shared: tuple[str, ...] = ()
    if way == "plugstack":
        stack = tmp_path / "plugstack.conf"
        stack.write_text(f"required {plugin} {' '.join(arguments)}\n")
        spec, shared = SlurmSpec(plugstack=str(stack)), (str(tmp_path),)
    state = cluster_up.up(ClusterSpec(shared=shared, slurm=spec))
    said = told(state, None, "srun", "--nodes=2", "sh", "-c", "echo $COLOUR")
    assert said.split() == ["green", "green"]


# ------------------------------------------------------------------------------ when it cannot be


def test_root_of_a_user_namespace_is_not_root_enough(runtime):
    """It can make the nodes, but nobody to run jobs as."""
    need("userns")
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", *STACKPROOF, "cluster", "up", "--slurm"],
        env={**os.environ, "PYTHONPATH": SOURCE}, capture_output=True, text=True,
        timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == ExitCode.NOT_POSSIBLE
    assert "needs root" in done.stderr
    assert list(runtime.iterdir()) == []


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (SlurmSpec(users=(parse_user("nobody:2001"),)), Reason.INVALID_VALUE),
        (SlurmSpec(spank=(SpankPlugin(path="/not/there.so"),)), Reason.FILE_MISSING),
        (SlurmSpec(plugstack="/not/there.conf"), Reason.FILE_MISSING),
        (SlurmSpec(users=(ALICE, ALICE)), Reason.INVALID_VALUE),
    ],
)
def test_a_wish_that_cannot_be_is_refused_before_anything_is_made(spec, reason, runtime):
    with refused(reason):
        cluster_up.up(ClusterSpec(slurm=spec))
    assert list(runtime.iterdir()) == []


def test_a_setting_that_slurm_refuses_is_shown_and_leaves_nothing(runtime):
    before = machine()
    begin = time.monotonic()
    with refused(Reason.CLUSTER_FAILED, "select/nonsense"):
        cluster_up.up(ClusterSpec(slurm=SlurmSpec(settings=("SelectType=select/nonsense",))))
    assert time.monotonic() - begin < 15  # it is told at once, not after the time for a start
    assert cluster_up.status() is None
    assert wait_until(lambda: not marked(runtime))
    assert machine() == before
    assert groups(runtime) == []


def test_it_starts_where_files_are_mounted_below_etc(tmp_path):
    """As in a container, whose /etc/hostname and others are mounts."""
    need("root")
    (tmp_path / "name").write_text("bound\n")
    script = (
        f"mount --bind {tmp_path}/name /etc/hostname && "
        f'"$@" cluster up --name etc --slurm --user alice:2001 >/dev/null && '
        f'"$@" cluster exec --name etc --as alice -- '
        "srun -N2 sh -c 'cat /etc/hostname; id -un'; "
        f'"$@" cluster down --name etc'
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", *STACKPROOF], cwd="/",
        env={**os.environ, "PYTHONPATH": SOURCE}, stdout=subprocess.PIPE, text=True,
        timeout=600, check=True,
    )  # fmt: skip
    assert sorted(done.stdout.split()) == ["alice", "alice", "bound", "bound"]
