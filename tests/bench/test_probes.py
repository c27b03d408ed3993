"""Real MPIs made to talk: what they say of their paths, and of paths that were not asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from mpitrees import FAMILIES, PROGRAM, Tree, Trees
from need import need
from stackproof.bench import path_verdict, programs
from stackproof.bench.path_verdict import Probed
from stackproof.cluster import model as cluster_model
from stackproof.cluster.effects import up as cluster_up
from stackproof.cluster.model import ClusterSpec, ClusterState
from stackproof.core.command import Command, EnvPatch
from stackproof.core.effects.run import run
from stackproof.launch import launchers
from stackproof.launch.launchers import LaunchRequest, labels
from stackproof.mpi import families, path_logs, transports
from stackproof.results.case import Case, Placement, Rank
from stackproof.results.measurement import State
from stackproof.results.path import Route

pytestmark = pytest.mark.machine

INTER, INTRA = ("node1", "node2"), ("node1", "node1")
TCP = {
    "openmpi": "`cm` with libfabric's `tcp`",
    "mpich": "`ch4:ofi` with libfabric's `tcp`",
    "intel-mpi": "`ofi` with libfabric's `tcp`",
}
SHM = {
    "openmpi": "`ob1` with `sm`",
    "mpich": "ch4's shared memory",
    "intel-mpi": "the fabric `shm`",
}
# What sends messages elsewhere than the transport says: family, nodes, transport, variables.
WRONG = {
    "openmpi-tcp": ("openmpi", INTER, "tcp", {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,tcp"}),
    "openmpi-shm": ("openmpi", INTRA, "shm", {"OMPI_MCA_btl": "self,tcp"}),
    "mpich-tcp": ("mpich", INTER, "tcp", {"FI_PROVIDER": "sockets"}),
    "mpich-ucx": ("mpich", INTER, "tcp", {"MPIR_CVAR_CH4_NETMOD": "ucx"}),
    "intel-fallback": ("intel-mpi", INTER, "auto", {"I_MPI_FABRICS": "shm"}),
    "intel-shm": ("intel-mpi", INTRA, "tcp", {"I_MPI_FABRICS": "shm:ofi"}),
}


@pytest.fixture(scope="module")
def nodes(trees: Trees) -> Iterator[ClusterState]:
    need("netns")
    shared = str(trees[FAMILIES[0]].prefix.parents[1])
    name = f"probes-{os.getpid()}"
    yield cluster_up.up(ClusterSpec(name=name, nodes=2, shared=(shared,)))
    cluster_up.down(name)


def probe(
    tree: Tree, state: ClusterState, names: tuple[str, ...], transport: str,
    variables: Mapping[str, str] | None = None,
) -> Route:  # fmt: skip
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("2 ranks that poll need as many CPUs")
    ranks = tuple(Rank(node=name, cpu=cpu) for name, cpu in zip(names, cpus, strict=False))
    where = Placement(name="p", ranks=ranks, interface="eth0" if names == INTER else None)
    case = Case(
        program=PROGRAM, benchmarks=("latency",), sizes=(8, 1 << 20), placement=where,
        transport=transport, samples=2, seconds_per_size=0.002, timeout_s=60,
    )  # fmt: skip
    name, own = tree.family.name, variables or {}
    setup = transports.Setup(family=name, version=tree.version, placement=where)
    profile = transports.get(transport).profile(setup)
    env = {**profile.env.set, **own}
    patch = tree.family.environment(str(tree.prefix)).then(EnvPatch(set=env))
    request = LaunchRequest(
        prefix=str(tree.prefix),
        program=programs.REGISTRY[PROGRAM].argv(str(tree.program), case),
        placement=where,
        agent=state.agent,
        environment={**patch.apply({"PATH": "/usr/bin:/bin"}), **families.probe_of(name).settings},
        as_root=os.geteuid() == 0 or state.rootless,
        labelled=True,
    )
    member = launchers.get(tree.family.launcher)
    argv = cluster_model.enter_argv(state, None, member.argv(request))
    done = run(Command(argv=argv, env=member.environment(request), timeout_s=case.timeout_s))
    said = (done.stdout + b"\n" + done.stderr).decode(errors="replace")
    assert done.returncode == 0, said
    plain = labels.joined(member.name, done.stdout.decode(errors="replace")).encode()
    statements = path_logs.read(families.probe_of(name).rules, labels.split(member.name, said))
    probed = Probed(
        family=name, case=case, profile=profile, env=env, statements=statements,
        output=programs.REGISTRY[PROGRAM].parse(plain, case),
    )  # fmt: skip
    assert probed.output.complete, said
    (route,) = path_verdict.routes(probed)
    return route


def told(*asked: Any) -> Route:
    """Return what a probe tells: a launcher now and then loses the last lines of a rank."""
    for _ in range(3):
        route = probe(*asked)
        if route.state is not State.UNKNOWN:
            break
    return route


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    ("names", "transport", "carriers"), [(INTER, "tcp", TCP), (INTRA, "shm", SHM)]
)
def test_the_path_that_was_asked_for(
    trees: Trees, nodes: ClusterState, family: str, names, transport: str, carriers
) -> None:
    route = told(trees[family], nodes, names, transport)
    assert (route.carrier, route.state) == (carriers[family], State.OK), route.evidence


@pytest.mark.parametrize("family", FAMILIES)
def test_what_an_mpi_chooses_is_told(trees: Trees, nodes: ClusterState, family: str) -> None:
    route = told(trees[family], nodes, INTER, "auto")
    assert route.state is State.OK
    assert "tcp" in route.carrier


@pytest.mark.parametrize("what", sorted(WRONG))
def test_another_path_is_told_with_the_variable(
    trees: Trees, nodes: ClusterState, what: str
) -> None:
    family, names, transport, variables = WRONG[what]
    route = told(trees[family], nodes, names, transport, variables)
    assert (route.state, route.reason) == (State.BAD, "wrong-transport")
    assert all(f"`{name}" in route.evidence for name in variables)
