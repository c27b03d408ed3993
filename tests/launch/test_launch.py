"""Real MPIs, started by their own launchers, forced to a path, and judged by their output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from mpitrees import FAMILIES, PROGRAM, Tree, Trees
from need import need
from stackproof.bench import programs
from stackproof.cluster import model as cluster_model
from stackproof.cluster.effects import up as cluster_up
from stackproof.cluster.model import ClusterSpec, ClusterState
from stackproof.compare import launch_checks
from stackproof.core.command import Command, Completed, EnvPatch
from stackproof.core.effects.run import run
from stackproof.core.errors import Problem, Reason
from stackproof.core.value import Value, replace
from stackproof.launch import launchers
from stackproof.launch.launchers import LaunchRequest
from stackproof.mpi import transports
from stackproof.results.case import Case, Placement, Rank
from stackproof.results.measurement import Check, Output, State

pytestmark = pytest.mark.machine

each_family = pytest.mark.parametrize("tree", FAMILIES, indirect=True)


@pytest.fixture
def tree(request: pytest.FixtureRequest, trees: Trees) -> Tree:
    return trees[request.param]


@pytest.fixture(scope="module")
def nodes(trees: Trees) -> Iterator[ClusterState]:
    need("netns")
    shared = str(trees[FAMILIES[0]].prefix.parents[1])
    name = f"launch-{os.getpid()}"
    yield cluster_up.up(ClusterSpec(name=name, nodes=3, shared=(shared,)))
    cluster_up.down(name)


def placement(*names: str, interface: str | None = None, pinned: bool = True) -> Placement:
    cpus = sorted(os.sched_getaffinity(0))
    if pinned and len(cpus) < len(names):
        pytest.skip(f"{len(names)} ranks that poll need as many CPUs")
    ranks = tuple(
        Rank(node=node, cpu=cpus[index] if pinned else None) for index, node in enumerate(names)
    )
    return Placement(name="test", ranks=ranks, interface=interface)


def case_for(where: Placement, transport: str, **changes) -> Case:
    case = Case(
        program=PROGRAM,
        benchmarks=("latency", "bandwidth", "allreduce"),
        sizes=(8, 65536, 1 << 20),
        placement=where,
        transport=transport,
        samples=5,
        seconds_per_size=0.01,
        validate=True,
        timeout_s=60,
    )
    return replace(case, **changes)


class Judged(Value, kw_only=False):
    done: Completed
    output: Output
    checks: tuple[Check, ...]

    @property
    def problem(self) -> Problem | None:
        return launch_checks.first_failure(self.checks, self.done.stderr)

    def state(self, name: str) -> State:
        return next(check.state for check in self.checks if check.name == name)

    def evidence(self) -> str:
        return "\n".join(f"{c.name} {c.state}: {c.evidence}" for c in self.checks)


def launch(
    tree: Tree,
    case: Case,
    state: ClusterState | None = None,
    *,
    env: EnvPatch | None = None,
    program: tuple[str, ...] | None = None,
    launcher: Tree | None = None,
) -> Judged:
    starter = launcher or tree
    member = launchers.get(starter.family.launcher)
    setup = transports.Setup(
        family=tree.family.name, version=tree.version, placement=case.placement
    )
    patch = (
        starter.family.environment(str(starter.prefix))
        .then(tree.family.environment(str(tree.prefix)))
        .then(transports.get(case.transport).profile(setup).env)
        .then(env or EnvPatch())
    )
    request = LaunchRequest(
        prefix=str(starter.prefix),
        program=program or programs.REGISTRY[PROGRAM].argv(str(tree.program), case),
        placement=case.placement,
        agent=state.agent if state else None,
        environment=patch.apply({"PATH": "/usr/bin:/bin"}),
        as_root=os.geteuid() == 0 or bool(state and state.rootless),
    )
    argv = member.argv(request)
    done = run(
        Command(
            argv=cluster_model.enter_argv(state, None, argv) if state else argv,
            env=member.environment(request),
            timeout_s=case.timeout_s,
        )
    )
    if done.timed_out and state:
        cluster_up.end_processes(state)
    output = programs.REGISTRY[PROGRAM].parse(done.stdout, case)
    judged = launch_checks.judge(
        output, case, mpi_family=tree.family.name, mpi_version=tree.version, completed=done
    )
    return Judged(done=done, output=output, checks=judged)


def all_ok(judged: Judged) -> bool:
    return all(check.state is State.OK for check in judged.checks)


@each_family
@pytest.mark.parametrize("transport", ["shm", "tcp"])
def test_two_ranks_on_this_machine(tree: Tree, transport: str):
    case = case_for(placement(*[os.uname().nodename] * 2), transport)
    judged = launch(tree, case)
    if judged.state("transport") is not State.OK:
        judged = launch(tree, case)  # the machine's interfaces also count what others send
    assert all_ok(judged), judged.evidence() + judged.done.stderr.decode()


@each_family
def test_two_nodes_by_the_interface_named(tree: Tree, nodes: ClusterState):
    case = case_for(placement("node1", "node2", interface="eth0"), "tcp")
    judged = launch(tree, case, nodes)
    assert all_ok(judged), judged.evidence() + judged.done.stderr.decode()
    sent = [rank.tx_bytes["eth0"] for rank in judged.output.ranks]
    assert all(count > 1 << 20 for count in sent)


@each_family
def test_ranks_follow_the_placement_in_any_order(tree: Tree, nodes: ClusterState):
    where = placement("node3", "node1", "node1", "node3", "node2", pinned=False)
    case = case_for(where, "auto", benchmarks=("barrier",), validate=False, samples=2)
    judged = launch(tree, case, nodes)
    assert judged.state("placement") is State.OK, judged.evidence()
    assert [rank.host for rank in judged.output.ranks] == [rank.node for rank in where.ranks]


_SHOW = (sys.executable, "-c", "import os; print(os.uname().nodename, ascii(os.environ['X']))")


@each_family
def test_variables_reach_ranks_on_other_nodes_whatever_they_hold(tree: Tree, nodes: ClusterState):
    value = 'a b,c;\'d "e" $HOME ü'
    where = placement("node1", "node2", pinned=False)
    judged = launch(
        tree, case_for(where, "auto"), nodes, env=EnvPatch(set={"X": value}), program=_SHOW
    )
    lines = sorted(judged.done.stdout.decode().split("\n"))
    assert [line for line in lines if line] == [
        f"node1 {value!a}", f"node2 {value!a}"
    ]  # fmt: skip


@each_family
def test_an_interface_that_is_not_there_never_passes(tree: Tree, nodes: ClusterState):
    """Open MPI and MPICH fail; Intel MPI takes another interface without a word."""
    case = case_for(placement("node1", "node2", interface="eth7"), "tcp")
    judged = launch(tree, case, nodes)
    assert judged.problem is not None
    expected = Reason.WRONG_TRANSPORT if tree.family.name == "intel-mpi" else Reason.JOB_FAILED
    assert judged.problem.reason is expected, judged.evidence()


# A line of Python in the place of a rank, so that it hangs at a moment that is known.
_HANG = "import time; time.sleep(1000)"


@each_family
def test_a_job_that_hangs_ends_and_leaves_no_rank(tree: Tree, nodes: ClusterState):
    where = placement("node1", "node2", pinned=False)
    judged = launch(
        tree, case_for(where, "auto", timeout_s=2), nodes, program=(sys.executable, "-c", _HANG)
    )
    assert judged.problem is not None
    assert judged.problem.reason is Reason.JOB_TIMEOUT
    assert judged.done.seconds < 10
    for node in ("node1", "node2"):
        left = run(Command(argv=cluster_model.enter_argv(nodes, node, ("ps", "-eo", "args"))))
        assert _HANG.encode() not in left.stdout


@pytest.mark.parametrize(("family", "starter"), [("intel-mpi", "openmpi"), ("openmpi", "mpich")])
def test_the_launcher_of_another_mpi_makes_singletons(trees: Trees, family: str, starter: str):
    case = case_for(placement(*[os.uname().nodename] * 2), "auto")
    program = (str(trees[family].program), "--benchmarks", "barrier", "--samples", "1")
    judged = launch(trees[family], case, program=program, launcher=trees[starter])
    assert judged.problem is not None
    assert judged.problem.reason is Reason.SINGLETONS, judged.evidence()


def test_a_library_of_another_family_of_the_same_abi_is_told(trees: Trees):
    """A program of Intel MPI runs on MPICH, as it may; what answers is seen, not assumed."""
    here = [os.uname().nodename] * 2
    intel, mpich = trees["intel-mpi"], trees["mpich"]
    case = case_for(placement(*here), "shm")
    judged = launch(replace(mpich, program=intel.program), case)
    assert all_ok(judged), judged.evidence()
    library = next(check for check in judged.checks if check.name == "mpi")
    assert "MPICH" in library.evidence
    blamed = launch_checks.judge(
        judged.output, case, mpi_family="intel-mpi", mpi_version=intel.version,
        completed=judged.done,
    )  # fmt: skip
    assert {check.reason for check in blamed if check.state is State.BAD} == {
        Reason.WRONG_MPI.value
    }
