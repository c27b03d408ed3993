"""Bench specification to launches: what is run, in which order, as data.

One launch is one observation. Launches come in blocks: each block has every arm once, in an order
shuffled from the recorded seed, so that a drift of the machine meets all arms alike (Hunold and
Carpen-Amarie, "Reproducible MPI Benchmarking Is Still Not As Easy As You Think", IEEE TPDS 27(12),
2016). Block 0 warms up, checks every byte that is received, and is not compared.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from stackproof.bench import DEFAULT_SIZES, BenchSpec
from stackproof.benchmarks import METRICS
from stackproof.benchmarks import REGISTRY as PROGRAMS
from stackproof.case import Case, Locality, Placement, Rank
from stackproof.errors import Problem, Reason, StackproofError

# What each program measures with the same meaning; what IMB-MPI1 reads them from is in
# `benchmarks/imb.py`.
_PROGRAM_BENCHMARKS = {
    "stackproof-bench": tuple(METRICS),
    "IMB-MPI1": tuple(METRICS),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One launch of the schedule; `placement` and `arm` are names."""

    order: int
    block: int
    arm: str
    placement: str
    program: str

    @property
    def file_name(self) -> str:
        """Return the name of the file that keeps its measurement."""
        return f"{self.order:05d}-{self.arm}-{self.placement}-{self.program}.json"


def schedule(
    spec: BenchSpec, arms: Mapping[str, frozenset[str]], placements: tuple[str, ...]
) -> tuple[Launch, ...]:
    """Return every launch in order; `arms` maps each arm to the programs that it can run."""
    generator = random.Random(spec.seed)  # noqa: S311 - an order to repeat, not a secret
    launches: list[Launch] = []
    for block in range(spec.launches + 1):
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
                    )
                    for position, name in enumerate(names)
                ]
    return tuple(launches)


def ready_placement(
    name: str, nodes: tuple[str, ...], cpus: tuple[int, ...], interface: str | None
) -> Placement:
    """Return the placement of two ranks that `intra-node` or `inter-node` means.

    Each rank gets a CPU of its own, so that two ranks which poll never share one. Raises
    `StackproofError` (UNSUPPORTED) when there are not enough nodes or CPUs.
    """
    needed = 1 if name == Locality.INTRA else 2
    if len(nodes) < needed or len(cpus) < 2:
        raise StackproofError(
            Problem(
                reason=Reason.UNSUPPORTED,
                message=f"the placement `{name}` needs {needed} nodes and 2 CPUs; there are "
                f"{len(nodes)} nodes and {len(cpus)} CPUs",
                hint="start a cluster with `stackproof cluster up --nodes 2`, or name another "
                "placement",
            )
        )
    hosts = (nodes[0], nodes[0]) if name == Locality.INTRA else (nodes[0], nodes[1])
    return Placement(
        name=name,
        ranks=tuple(Rank(node=node, cpu=cpu) for node, cpu in zip(hosts, cpus, strict=False)),
        interface=None if name == Locality.INTRA else interface,
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
