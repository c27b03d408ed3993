"""Where the launches of a bench are made: this machine, a cluster on it, or a Slurm job's nodes."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path

from msgspec import field

from stackproof.bench import schedule
from stackproof.bench.effects.arms import Arms
from stackproof.bench.spec import BenchSpec
from stackproof.cluster.effects import up
from stackproof.cluster.model import ClusterSpec, ClusterState
from stackproof.core import limits
from stackproof.core.effects import files
from stackproof.core.errors import Problem, StackproofError
from stackproof.core.value import Value, replace
from stackproof.launch.effects import allocation as allocations
from stackproof.launch.effects import scheduler_job
from stackproof.launch.effects.allocation import Allocation
from stackproof.launch.effects.scheduler_job import SchedulerJob
from stackproof.launch.slurm import Job
from stackproof.mount import methods
from stackproof.mount.effects import helper
from stackproof.mount.effects.facts import load_mount_facts
from stackproof.site import hwloc, topology
from stackproof.site.effects import node_files
from stackproof.site.topology import Topology

_PACKS = "name packs as arms to measure them: `--challenger pack:DIR`"


class LaunchNodes(Value):
    """Nodes to make launches on.

    `nodes` maps names to the CPUs that ranks may have, `topologies` to their inside. `interface` is
    the one to use between nodes, `rate_mb_s` the rate of a node's link where it is known. `state`
    is the cluster whose head starts the ranks, `allocation` the Slurm job whose steps they are,
    `job` that of Flux or PBS; all None: they are started here, and have `scratch` for temporary
    files. `facts` are what a report says of the nodes.
    """

    nodes: Mapping[str, tuple[int, ...]]
    topologies: Mapping[str, Topology] = field(default_factory=dict)
    interface: str | None = None
    rate_mb_s: float | None = None
    state: ClusterState | None = None
    allocation: Allocation | None = None
    job: SchedulerJob | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    scratch: str = ""

    @property
    def one_machine(self) -> bool:
        """Return whether the nodes are namespaces of one machine and share its CPUs."""
        if self.allocation is not None:
            return self.allocation.one_machine
        return self.state is not None


def here(spec: BenchSpec) -> LaunchNodes:
    """Return this machine, or the cluster on it as soon as a placement names more.

    With `on: allocation` these are the nodes of the job that this process runs in. Raises
    `StackproofError`: CLUSTER_DOWN when the cluster is not up and whole, and what
    `allocation.enter` and `scheduler_job.enter` raise.
    """
    job = scheduler_job.enter() if spec.on == "allocation" else None
    if spec.on == "allocation" and job is None:
        return _of_allocation(spec, allocations.enter())
    inside = topology.seen(topology.parse_topology(node_files.gather()), os.environ)
    cpus = _one_of_each_core(inside, os.sched_getaffinity(0))
    if job is not None:  # its nodes are taken for equal: ranks tell where they really are
        return LaunchNodes(
            nodes=dict.fromkeys(job.nodes, cpus),
            topologies=dict.fromkeys(job.nodes, inside),
            interface=spec.interface,
            job=job,
            facts={"scheduler": f"{job.scheduler}, job {job.job}", "nodes": ", ".join(job.nodes)},
        )
    state = _state(spec)
    if state is None:
        name = os.uname().nodename
        return LaunchNodes(nodes={name: cpus}, topologies={name: inside}, interface=spec.interface)
    return LaunchNodes(
        nodes={node.name: cpus for node in state.nodes},
        topologies={node.name: inside for node in state.nodes},
        interface=spec.interface or state.nodes[0].interface,
        rate_mb_s=state.rate_mb_s,
        state=state,
        facts=cluster_facts(state),
    )


def free_cpus() -> tuple[int, ...]:
    """Return the CPUs of this machine that ranks may have, one of each core."""
    inside = topology.seen(topology.parse_topology(node_files.gather()), os.environ)
    return _one_of_each_core(inside, os.sched_getaffinity(0))


def problems(spec: BenchSpec) -> tuple[Problem, ...]:
    """Return why there are no nodes to make launches on, if so."""
    try:
        here(spec)
    except StackproofError as error:
        return error.problems
    return ()


def of_topology(spec: BenchSpec, path: Path) -> LaunchNodes:
    """Return as many nodes as a specification needs, each as an XML of hwloc says.

    For a look at where ranks would be on a machine that this is not. Raises what reading the file
    and `hwloc.parse_hwloc` raise.
    """
    text = files.read_bounded(path, limits.HWLOC)
    inside = hwloc.parse_hwloc(text, file=os.fspath(path))
    cpus = _one_of_each_core(inside, [cpu for core in inside.cores for cpu in core.cpus])
    counts = [
        schedule.shape(entry)[0] if isinstance(entry, str) else len(entry.nodes)
        for entry in (*spec.placements, *spec.validated)
    ]
    names = [f"node{number}" for number in range(1, max(counts, default=1) + 1)]
    return LaunchNodes(
        nodes=dict.fromkeys(names, cpus),
        topologies=dict.fromkeys(names, inside),
        interface=spec.interface,
    )


def _one_of_each_core(inside: Topology, allowed: Collection[int]) -> tuple[int, ...]:
    """Return the CPUs that ranks may have: of two threads of a core the first one."""
    cores = {cpu: core.cpus for core in inside.cores for cpu in core.cpus}
    first: dict[tuple[int, ...], int] = {}
    for cpu in sorted(allowed):
        first.setdefault(cores.get(cpu, (cpu,)), cpu)
    return tuple(first.values())


def of_job(spec: BenchSpec, job: Job, allocation: Allocation) -> LaunchNodes:
    """Return the nodes of the Slurm job that was submitted for this bench."""
    place = _of_allocation(spec, allocation)
    return replace(
        place,
        interface=place.interface or job.interface,
        rate_mb_s=job.rate_mb_s,
        facts={**place.facts, **job.facts},
    )


def _of_allocation(spec: BenchSpec, allocation: Allocation) -> LaunchNodes:
    facts = {
        "scheduler": f"Slurm {allocation.version}, job {allocation.job}",
        "nodes": ", ".join(allocation.nodes),
    }
    if spec.allocations == 1:  # the number in an array of somebody else's says nothing here
        allocation = replace(allocation, element=0)
    return LaunchNodes(
        nodes=allocation.nodes,
        topologies=allocation.topologies,
        interface=spec.interface,
        allocation=allocation,
        facts=facts,
    )


def cluster_facts(state: ClusterState) -> dict[str, str]:
    """Return what a report says of a cluster on one machine."""
    return {
        "cluster": f"{len(state.nodes)} nodes in network namespaces of one machine",
        "link rate": state.spec.rate or "not limited",
        "link delay": state.spec.delay or "none added",
    }


def _state(spec: BenchSpec) -> ClusterState | None:
    """Return the cluster; needed as soon as a placement names more than this machine."""
    name = spec.cluster or ClusterSpec().name
    this = {os.uname().nodename, "@1"}
    only_here = all(
        schedule.shape(place)[0] == 1 if isinstance(place, str) else {*place.nodes} <= this
        for place in (*spec.placements, *spec.validated)
    )
    found = up.status(name)
    if found is None and only_here:
        return None
    instead = "; or measure within this machine alone: --placement intra-node"
    return up.require(name, instead=instead, named=spec.cluster is not None)


def find_mount_problems(arms: Arms, place: LaunchNodes) -> list[Problem]:
    """Find the reason that images of arms cannot be mounted here; nodes of a job are not asked."""
    if place.allocation is not None or place.job is not None:
        return []
    mounts = {
        name: [mount.mount_point for mount in ready.deployment.mounts]
        for name, ready in arms.by_name.items()
        if ready.deployment.mounts and name != arms.null
    }
    points = [point for listed in mounts.values() for point in listed]
    if not mounts:
        return []
    facts = load_mount_facts()
    if (place.state is not None and place.state.rootless) or not helper.can_reach(points):
        facts = replace(facts, helper_mounts=False)  # the helper has no right there to lend
    if methods.first(facts) is not None:
        return []
    cause = methods.find_problems("fuse", facts)[0]
    names = ", ".join(f"`{name}`" for name in mounts)
    message = f"cannot mount the images of {names} here: {cause.message}"
    return [replace(cause, message=message, hint=f"{cause.hint}; {_PACKS}")]
