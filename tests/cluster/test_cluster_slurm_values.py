"""Slurm on a cluster as values: what may be wished, and the files that it becomes."""

from __future__ import annotations

import pytest

from refusals import refused
from stackproof.cluster import model
from stackproof.cluster import slurm as cluster_slurm
from stackproof.cluster.effects import cgroups
from stackproof.cluster.effects import exec as cluster_exec
from stackproof.cluster.effects import slurm as effects_slurm
from stackproof.cluster.model import ClusterNode, ClusterSpec, ClusterState, enter_argv
from stackproof.cluster.slurm import SlurmFacts, SlurmSpec, SpankPlugin, User, parse_user
from stackproof.core import noun
from stackproof.core.errors import Reason

ALICE = parse_user("alice:2001")


def node(name: str, pid: int, **more: object) -> ClusterNode:
    return ClusterNode(
        name=name, address="10.77.0.1", interface="eth0", pid=pid, head_pid=1, started=1, **more  # type: ignore[arg-type]
    )  # fmt: skip


def state(
    *, rootless: bool = False, slurm: SlurmFacts | None = None, **more: object
) -> ClusterState:
    return ClusterState(
        spec=ClusterSpec(nodes=1),
        folder="/run/stackproof/default",
        agent="/run/stackproof/default/agent",
        rootless=rootless,
        head=node("head", 100),
        nodes=(node("node1", 101, **more),),
        slurm=slurm,
    )


# ------------------------------------------------------------------------------ what may be wished


def test_a_user_has_a_group_and_a_home():
    assert parse_user("alice:2001") == User(
        name="alice", uid=2001, gid=2001, home="/var/spool/users/alice"
    )


def test_a_plugin_has_arguments():
    parse = cluster_slurm.parse_spank
    assert parse("/a/b.so") == SpankPlugin(path="/a/b.so")
    assert parse("/a/b.so=x y=1  z") == SpankPlugin(path="/a/b.so", arguments=("x", "y=1", "z"))


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        (SlurmSpec(), 0),
        (SlurmSpec(users=(ALICE, parse_user("bob:2002"))), 0),
        (SlurmSpec(users=(ALICE, parse_user("alice:2002"))), 1),
        (SlurmSpec(users=(ALICE, parse_user("bob:2001"))), 1),
        (SlurmSpec(cpus=0), 1),
        (SlurmSpec(cpus=1000, settings=("a line", "=x", "A=b\nC=d", "A=b # c")), 5),
        (SlurmSpec(settings=("KillWait=5", "SchedulerParameters=a=1,b", "MailProg=")), 0),
    ],
)
def test_everything_wrong_is_said_at_once(spec, count):
    found = model.problems(ClusterSpec(slurm=spec))
    assert [problem.reason for problem in found] == [Reason.INVALID_VALUE] * count


def test_the_command_of_a_hint_brings_the_same_up():
    spec = SlurmSpec(
        users=(ALICE,),
        spank=(SpankPlugin(path="/a.so", arguments=("x", "y")),),
        plugstack="/p.conf",
        cpus=2,
        pin=False,
        settings=("A=b",),
    )
    assert model.up_command(ClusterSpec(slurm=SlurmSpec())) == "stackproof cluster up --slurm"
    assert model.up_command(ClusterSpec(slurm=spec)) == (
        "stackproof cluster up --slurm --user alice:2001 --plugstack /p.conf "
        "--spank '/a.so=x y' --cpus 2 --no-pin --set 'A=b'"
    )


# ------------------------------------------------------------------------------ its files


def conf(name: str, spec: SlurmSpec, *, count: int = 1, version: str = "22.05.8") -> str:
    return effects_slurm.conf_files(count, spec, version=version, logs="/logs")[
        f"slurm/{name}.conf"
    ]


def keys(text: str) -> list[str]:
    return [line.partition("=")[0].lower() for line in text.splitlines() if "=" in line]


def test_every_node_has_a_line():
    text = conf("slurm", SlurmSpec(cpus=3), count=8)
    nodes = [line for line in text.splitlines() if line.startswith("NodeName=")]
    assert len(nodes) == 8
    assert "NodeName=node8 NodeAddr=10.77.0.8 CPUs=3 " in nodes[-1]


def test_a_setting_replaces_the_own_one_whatever_its_case():
    spec = SlurmSpec(settings=("killWAIT=9", "GresTypes=gpu", "GresTypes=tpu"))
    text = conf("slurm", spec)
    assert [line for line in text.splitlines() if line.lower().startswith("killwait")] == [
        "killWAIT=9"
    ]
    # Slurm complains of a key that stands twice.
    single = [key for key in keys(text) if key not in {"nodename", "partitionname"}]
    assert len(single) == len(set(single))
    assert "GresTypes=tpu" in text


@pytest.mark.parametrize(
    ("version", "disabled"),
    [
        ("22.05.8", False), ("23.02.7", False), ("23.11.10", False), ("24.05.0", True),
        ("25.11.0-0rc1", True), ("unknown", True),
    ],
)  # fmt: skip
def test_control_groups_are_left_out_where_a_release_can(version, disabled):
    text = conf("cgroup", SlurmSpec(), version=version)
    assert ("CgroupPlugin=disabled" in text) is disabled


def test_a_plugin_is_required():
    spec = SlurmSpec(spank=(SpankPlugin(path="/a.so"), SpankPlugin(path="/b.so", arguments=("c",))))
    assert conf("plugstack", spec).splitlines()[1:] == ["required /a.so", "required /b.so c"]
    assert "include" in conf("plugstack", SlurmSpec(plugstack="/x"))


@pytest.mark.parametrize("host", ["", "root:x:0:0::/root:/bin/sh", "root:x:0:0::/root:/bin/sh\n"])
def test_users_come_after_those_of_the_machine(host):
    lines = effects_slurm.with_users("passwd", host, (ALICE,)).splitlines()
    assert lines[:-1] == host.splitlines()
    assert lines[-1] == "alice:x:2001:2001::/var/spool/users/alice:/bin/sh"
    assert effects_slurm.with_users("group", "", (ALICE,)) == "alice:x:2001:\n"


# ------------------------------------------------------------------------------ going in


def test_commands_find_slurm():
    argv = enter_argv(state(slurm=SlurmFacts(version="22.05.8")), None, ("sinfo",))
    assert argv[-4:] == ("env", "--chdir=/", "SLURM_CONF=/etc/slurm/slurm.conf", "sinfo")


def test_a_user_namespace_has_no_other_users(monkeypatch):
    monkeypatch.setattr(cluster_exec, "started", lambda _: 1)
    with refused(Reason.NOT_PERMITTED):
        cluster_exec.execute(state(rootless=True), None, ["id"], who=ALICE, cwd="/")


def test_whoever_enters_a_node_stays_on_its_core():
    made = state(core=1, group="/sys/fs/cgroup/cpuset/x")
    argv = enter_argv(made, "node1", ("true",))
    assert argv[:2] == ("sh", "-c")
    assert argv[3:5] == ("/sys/fs/cgroup/cpuset/x", "nsenter")
    assert enter_argv(state(core=1), "node1", ("true",))[:4] == (
        "taskset", "--cpu-list", "1", "nsenter",
    )  # fmt: skip
    assert enter_argv(made, None, ("true",))[0] == "nsenter"


def test_daemons_that_died_are_faults():
    made = state(slurm=SlurmFacts(version="22.05.8", dead=("`slurmd` on `node1`",)))
    assert made.faults == ("`slurmd` on `node1` has died",)
    assert noun.from_json(ClusterState, noun.to_json(made)) == made


# ------------------------------------------------------------------------------ control groups

V1 = "34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset"
OTHER = "34 31 0:31 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory"


def test_the_place_of_groups_is_found(tmp_path):
    unified = f"35 31 0:32 / {tmp_path} rw,relatime - cgroup2 cgroup2 rw"
    assert cgroups.find_parent([OTHER, V1, unified]) == "/sys/fs/cgroup/cpuset"
    assert cgroups.find_parent([OTHER]) is None
    assert cgroups.find_parent([unified]) is None


@pytest.mark.parametrize(
    ("text", "usable"), [("cpu cpuset memory\n", True), ("cpu memory\n", False)]
)
def test_version_two_counts_where_it_hands_cpusets_on(text, usable, tmp_path):
    (tmp_path / "cgroup.subtree_control").write_text(text)
    found = cgroups.find_parent([f"35 31 0:32 / {tmp_path} rw - cgroup2 cgroup2 rw"])
    assert found == (str(tmp_path) if usable else None)
