"""Bench specification to launches: what is run, in which order, as data.

One launch is one observation. Launches come in blocks: each block has every arm once, in an order
shuffled from the recorded seed, so that a drift of the machine meets all arms alike (Hunold and
Carpen-Amarie, "Reproducible MPI Benchmarking Is Still Not As Easy As You Think", IEEE TPDS 27(12),
2016). Block 0 warms up, checks every byte that is received, and is not compared.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

from stackproof.bench import DEFAULT_SIZES, BenchSpec
from stackproof.benchmarks import METRICS
from stackproof.benchmarks import REGISTRY as PROGRAMS
from stackproof.case import Case, Locality, Placement, Rank
from stackproof.errors import Problem, Reason, StackproofError, fail

# What each program measures with the same meaning; what IMB-MPI1 reads them from is in
# `benchmarks/imb.py`.
_PROGRAM_BENCHMARKS = {
    "stackproof-bench": tuple(METRICS),
    "IMB-MPI1": tuple(METRICS),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One launch of the schedule; `placement` and `arm` are names, `allocation` counts from 0."""

    order: int
    block: int
    arm: str
    placement: str
    program: str
    allocation: int = 0

    @property
    def file_name(self) -> str:
        """Return the name of the file that keeps its measurement."""
        return f"{self.order:05d}-{self.arm}-{self.placement}-{self.program}.json"


def schedule(
    spec: BenchSpec, arms: Mapping[str, frozenset[str]], placements: tuple[str, ...]
) -> tuple[Launch, ...]:
    """Return every launch in order; `arms` maps each arm to the programs that it can run.

    Allocations get whole blocks in turn, and each warms up by a block 0 of its own.
    """
    generator = random.Random(spec.seed)  # noqa: S311 - an order to repeat, not a secret
    blocks = [(0, allocation) for allocation in range(spec.allocations)]
    blocks += [(block, (block - 1) % spec.allocations) for block in range(1, spec.launches + 1)]
    launches: list[Launch] = []
    for block, allocation in blocks:
        for program in (wanted.name for wanted in spec.programs):
            for placement in placements:
                names = [name for name, programs in arms.items() if program in programs]
                generator.shuffle(names)
                launches += [
                    Launch(
                        order=len(launches) + position,
                        block=block,
                        arm=name,
                        placement=placement,
                        program=program,
                        allocation=allocation,
                    )
                    for position, name in enumerate(names)
                ]
    return tuple(launches)


def placement_for(
    wanted: str | Placement, nodes: Mapping[str, tuple[int, ...]], interface: str | None
) -> Placement:
    """Return the placement that a specification asks for, on the nodes that there are.

    `nodes` maps their names to the CPUs that ranks may have. Raises `StackproofError`: UNSUPPORTED
    when there are not enough nodes or CPUs, NODE_UNREACHABLE for a node that is not among them.
    """
    if isinstance(wanted, str):
        return ready_placement(wanted, nodes, interface)
    known = {f"@{number}": name for number, name in enumerate(nodes, start=1)}
    ranks = tuple(replace(rank, node=known.get(rank.node, rank.node)) for rank in wanted.ranks)
    strangers = [rank.node for rank in ranks if rank.node not in nodes]
    if strangers:
        raise fail(
            Reason.NODE_UNREACHABLE,
            f"the placement `{wanted.name}` names the node `{strangers[0]}`, which is not there",
            hint=f"the nodes are: {', '.join(nodes)}",
        )
    return replace(wanted, ranks=ranks)


def ready_placement(
    name: str, nodes: Mapping[str, tuple[int, ...]], interface: str | None
) -> Placement:
    """Return the placement of two ranks that `intra-node` or `inter-node` means.

    Each rank gets a CPU of its own, so that two ranks which poll never share one; also by number
    where that can be, since nodes may be namespaces of one machine. Raises `StackproofError`
    (UNSUPPORTED) when there are not enough nodes or CPUs.
    """
    needed = 1 if name == Locality.INTRA else 2
    hosts = [*nodes][:1] * 2 if needed == 1 else [*nodes][:2]
    ranks: list[Rank] = []
    for host in hosts:
        taken = {rank.cpu for rank in ranks}
        here = {rank.cpu for rank in ranks if rank.node == host}
        free = [cpu for cpu in nodes[host] if cpu not in taken]
        free += [cpu for cpu in nodes[host] if cpu not in here]
        ranks += [Rank(node=host, cpu=free[0])] if free else []
    if len(nodes) < needed or len(ranks) < 2:
        counts = ", ".join(f"`{node}` with {len(cpus)} CPUs" for node, cpus in nodes.items())
        raise fail(
            Reason.UNSUPPORTED,
            f"the placement `{name}` needs {needed} nodes and a CPU for each of 2 ranks; there is "
            f"{counts or 'no node'}",
            hint="start a cluster with `stackproof cluster up --nodes 2` (with `--no-pin` if it "
            "has Slurm), ask for more CPUs, or name another placement",
        )
    return Placement(
        name=name, ranks=tuple(ranks), interface=None if name == Locality.INTRA else interface
    )


def transport_for(placement: Placement, wanted: Mapping[str, str]) -> str:
    """Return the transport of a placement: what the arm says, else `shm` or `tcp` by locality."""
    default = "shm" if placement.locality is Locality.INTRA else "tcp"
    return wanted.get(placement.name, default)


def case_for(spec: BenchSpec, launch: Launch, placement: Placement, transport: str) -> Case:
    """Return the case of one launch; raises `StackproofError` when the program cannot do it."""
    can = _PROGRAM_BENCHMARKS[launch.program]
    own = next((p.benchmarks for p in spec.programs if p.name == launch.program), ())
    case = Case(
        program=launch.program,
        benchmarks=tuple(name for name in own or spec.benchmarks or can if name in can),
        sizes=spec.sizes or DEFAULT_SIZES,
        placement=placement,
        transport=transport,
        samples=spec.samples,
        seconds_per_size=spec.seconds_per_size,
        validate=spec.validate and launch.block == 0 and launch.program == "stackproof-bench",
        window=spec.window,
        timeout_s=spec.timeout_s,
    )
    faults = PROGRAMS[launch.program].problems(case)
    if faults:
        raise StackproofError(
            *(Problem(reason=Reason.UNSUPPORTED, message=fault) for fault in faults)
        )
    return case
