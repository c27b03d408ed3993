"""Bench specification to launches: what is run, in which order, as data.

One launch is one observation. Launches come in blocks: each block has every arm once, in an order
shuffled from the recorded seed, so that a drift of the machine meets all arms alike (Hunold and
Carpen-Amarie, "Reproducible MPI Benchmarking Is Still Not As Easy As You Think", IEEE TPDS 27(12),
2016). Block 0 warms up, checks every byte that is received, and is not compared; the others check a
sample of theirs.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping

from stackproof.bench import programs as bench_programs
from stackproof.bench.amounts import DEFAULT_SIZES
from stackproof.bench.programs import solver
from stackproof.bench.programs.osu import OSU_TESTS
from stackproof.bench.spec import BenchSpec
from stackproof.core.errors import Problem, Reason, StackproofError, fail
from stackproof.core.value import Value, replace
from stackproof.launch import layout as layouts
from stackproof.results.case import Case, Locality, Placement, Rank
from stackproof.results.metrics import CORE, METRICS, SOLVER
from stackproof.site.topology import Core, Topology

CHECKING = "stackproof-bench"
"""The program that looks at the bytes that it receives; so does our solver."""

_CHECK = frozenset({CHECKING, solver.NAME})

ALL_RANKS = tuple(
    name
    for name, metric in METRICS.items()
    if metric.kind in {"collective", "rate"} or name == "multi_lat"
)
"""Benchmarks in which every rank takes part; in the others it is the first two."""

_SHORTEST_S = 1e-4

# What each program measures with the same meaning; what IMB-MPI1 reads them from is in
# `bench/programs/imb.py`.
PROGRAM_BENCHMARKS = {
    "stackproof-bench": tuple(CORE),
    solver.NAME: tuple(SOLVER),
    "IMB-MPI1": tuple(CORE),
    **{test.program: (test.benchmark,) for test in OSU_TESTS.values()},
}


class Launch(Value):
    """One launch of the schedule; `placement` and `arm` are names, `allocation` counts from 0.

    `benchmarks` are the only ones of the specification's that are run, empty for all.
    """

    order: int
    block: int
    arm: str
    placement: str
    program: str
    allocation: int = 0
    benchmarks: tuple[str, ...] = ()

    @property
    def file_name(self) -> str:
        """Return the name of the file that keeps its measurement."""
        return f"{self.order:05d}-{self.arm}-{self.placement}-{self.program}.json"


def schedule(
    spec: BenchSpec,
    arms: Mapping[str, frozenset[str]],
    where: Mapping[str, tuple[str, ...]] | None = None,
) -> tuple[Launch, ...]:
    """Return every launch in order.

    `arms` maps each arm to the programs that it can run, `where` to the placements that it runs at
    (`bench.Arm.placements`). Allocations get whole blocks in turn, and each warms up by a block 0
    of its own. What is only validated is in these blocks alone.
    """
    generator = random.Random(spec.seed)  # noqa: S311 - an order to repeat, not a secret
    blocks = [(0, allocation) for allocation in range(spec.allocations)]
    blocks += [(block, (block - 1) % spec.allocations) for block in range(1, spec.launches + 1)]
    launches: list[Launch] = []
    for block, allocation in blocks:
        for program, entry in _work(spec, block):
            names = [
                name
                for name, programs in arms.items()
                if program in programs and runs_at((where or {}).get(name, ()), entry)
            ]
            generator.shuffle(names)
            launches += [
                Launch(
                    order=len(launches) + position,
                    block=block,
                    arm=name,
                    placement=name_of(entry),
                    program=program,
                    allocation=allocation,
                )
                for position, name in enumerate(names)
            ]
    return tuple(launches)


def _work(spec: BenchSpec, block: int) -> list[tuple[str, str | Placement]]:
    """Return the programs and placements of a block; only our own program checks what it gets."""
    names = [wanted.name for wanted in spec.programs]
    work = [
        (name, entry)
        for name in names
        for entry in spec.placements
        if name == CHECKING or _benchmarks(spec, name, name_of(entry), _rank_count(entry))
    ]
    checked = spec.validated if block == 0 else ()
    return work + [(name, entry) for name in names if name in _CHECK for entry in checked]


def name_of(entry: str | Placement) -> str:
    """Return the name of a placement as a specification has it."""
    return entry if isinstance(entry, str) else entry.name


def shape(name: str) -> tuple[int, int]:
    """Return nodes and ranks per node of a ready placement: `2x4` is 2 nodes with 4 ranks each."""
    if name in {*Locality}:
        return (1, 2) if name == Locality.INTRA else (2, 1)
    wanted = layouts.parse_layout(name)
    return wanted.nodes, wanted.each


def _rank_count(entry: str | Placement) -> int:
    if isinstance(entry, Placement):
        return len(entry.ranks)
    nodes, ranks = shape(entry)
    return nodes * ranks


def _locality(entry: str | Placement) -> Locality:
    if isinstance(entry, Placement):
        return entry.locality
    return Locality.INTRA if shape(entry)[0] == 1 else Locality.INTER


def runs_at(wanted: Collection[str], entry: str | Placement) -> bool:
    """Return whether an arm that runs at `wanted` (all when empty) runs at a placement."""
    return not wanted or name_of(entry) in wanted or _locality(entry).value in wanted


def placements_for(
    spec: BenchSpec,
    nodes: Mapping[str, tuple[int, ...]],
    interface: str | None,
    *,
    topologies: Mapping[str, Topology] | None = None,
    one_machine: bool = False,
) -> tuple[Placement, ...]:
    """Return every placement of a specification, those that are only validated last.

    `nodes` maps their names to the CPUs that ranks may have, `topologies` to what is known of their
    inside; with `one_machine` the nodes are namespaces of one machine, so that equal numbers are
    one CPU. Raises `StackproofError` with the problems of all placements at once.
    """
    known = topologies or {}
    found: list[Placement] = []
    problems: list[Problem] = []
    wanted = [(entry, True) for entry in spec.placements]
    wanted += [(entry, False) for entry in spec.validated]
    for entry, timed in wanted:
        try:
            placement = placement_for(
                entry, nodes, interface, timed=timed, topologies=known, one_machine=one_machine
            )
        except StackproofError as error:
            problems += error.problems
            continue
        if timed:
            problems += _crowded(placement, nodes, one_machine=one_machine)
            problems += _sharing(placement, known)
        problems += _pointless(spec, placement)
        found.append(placement)
    if problems:
        raise StackproofError(*problems)
    return tuple(found)


def _crowded(
    placement: Placement, nodes: Mapping[str, tuple[int, ...]], *, one_machine: bool
) -> list[Problem]:
    """Return the problem of a placement with more ranks than CPUs: its times mean nothing."""
    counts = Counter(rank.node for rank in placement.ranks)
    if one_machine:
        room = len({cpu for name in counts for cpu in nodes[name]})
        what = "their nodes, which are one machine, have"
        crowd = len(placement.ranks) > room
    else:
        name = max(counts, key=lambda node: counts[node] - len(nodes[node]))
        room, what, crowd = len(nodes[name]), f"`{name}` has", counts[name] > len(nodes[name])
    if not crowd:
        return []
    return [
        Problem(
            reason=Reason.UNSUPPORTED,
            message=f"the placement `{placement.name}` puts {len(placement.ranks)} ranks on "
            f"{len(counts)} nodes; {what} {room} CPUs, and ranks that share one cannot be timed",
            hint="name it under `validated` in the place of `placements` to have its results "
            "checked, or take fewer ranks",
        )
    ]


def _sharing(placement: Placement, topologies: Mapping[str, Topology]) -> list[Problem]:
    """Return the ranks that have CPUs of their own and share a core all the same."""
    cores: dict[tuple[str, Core], list[int]] = {}
    for rank in placement.ranks:
        topology = topologies.get(rank.node)
        core = topology.core_of(rank.cpu) if topology and rank.cpu is not None else None
        if core is not None and rank.cpu is not None:
            cores.setdefault((rank.node, core), []).append(rank.cpu)
    return [
        Problem(
            reason=Reason.UNSUPPORTED,
            message=f"the placement `{placement.name}` pins ranks to the CPUs "
            f"{', '.join(map(str, cpus))} of `{node}`, which are threads of one core",
            hint="give each rank a core of its own, as `by: core` does; what is only `validated` "
            "may share one",
        )
        for (node, _), cpus in cores.items()
        if len({*cpus}) > 1
    ]


def _pointless(spec: BenchSpec, placement: Placement) -> list[Problem]:
    """Return why nothing could be run at a placement."""
    message = hint = ""
    programs = [one for one in spec.programs if placement.timed or one.name in _CHECK]
    if not placement.timed and not (spec.validate and programs):
        message = f"`{placement.name}` is to be validated, and nothing checks bytes"
        hint = f"leave `validate: false` out, and have `{CHECKING}` among the programs"
    elif not any(
        _benchmarks(spec, one.name, placement.name, len(placement.ranks)) for one in programs
    ):
        message = f"no benchmark asked for is one of the {len(placement.ranks)} ranks of "
        message += f"`{placement.name}`"
        hint = f"ask for one of: {', '.join(ALL_RANKS)}"
    return [Problem(reason=Reason.UNSUPPORTED, message=message, hint=hint)] if message else []


def placement_for(
    wanted: str | Placement,
    nodes: Mapping[str, tuple[int, ...]],
    interface: str | None,
    *,
    timed: bool = True,
    topologies: Mapping[str, Topology] | None = None,
    one_machine: bool = False,
) -> Placement:
    """Return the placement that a specification asks for, on the nodes that there are.

    `nodes` maps their names to the CPUs that ranks may have, `topologies` to their inside. Ranks
    that are not `timed` have no CPU of their own. Raises `StackproofError`: UNSUPPORTED when there
    are not enough nodes or CPUs, NODE_UNREACHABLE for a node that is not among them.
    """
    if isinstance(wanted, str) and timed and "-by-" in wanted:
        return laid_out(
            wanted, nodes, interface, topologies=topologies or {}, one_machine=one_machine
        )
    if isinstance(wanted, str):
        return ready_placement(wanted, nodes, interface, timed=timed)
    known = {f"@{number}": name for number, name in enumerate(nodes, start=1)}
    ranks = tuple(replace(rank, node=known.get(rank.node, rank.node)) for rank in wanted.ranks)
    strangers = [rank.node for rank in ranks if rank.node not in nodes]
    if strangers:
        raise fail(
            Reason.NODE_UNREACHABLE,
            f"the placement `{wanted.name}` names the node `{strangers[0]}`, which is not there",
            hint=f"the nodes are: {', '.join(nodes)}",
        )
    if not timed:
        ranks = tuple(replace(rank, cpu=None) for rank in ranks)
    return replace(wanted, ranks=ranks, timed=timed)


def ready_placement(
    name: str,
    nodes: Mapping[str, tuple[int, ...]],
    interface: str | None,
    *,
    timed: bool = True,
) -> Placement:
    """Return the placement that `intra-node`, `inter-node` or `2x4` means, in blocks of ranks.

    Each rank gets a CPU of its own, so that two ranks which poll never share one; also by number
    where that can be, since nodes may be namespaces of one machine. Raises `StackproofError`
    (UNSUPPORTED) when there are not enough nodes or CPUs.
    """
    needed, each = shape(name)
    ranks: list[Rank] = []
    for host in [*nodes][:needed]:
        taken = {rank.cpu for rank in ranks}
        free = [cpu for cpu in nodes[host] if cpu not in taken]
        free += [cpu for cpu in nodes[host] if cpu in taken]
        ranks += [Rank(node=host, cpu=cpu) for cpu in free[:each]] if timed else []
        ranks += [] if timed else [Rank(node=host)] * each
    if len(nodes) < needed or len(ranks) < needed * each:
        counts = ", ".join(f"`{node}` with {len(cpus)} CPUs" for node, cpus in nodes.items())
        what = "" if not timed else f" and a CPU for each of {needed * each} ranks"
        raise fail(
            Reason.UNSUPPORTED,
            f"the placement `{name}` needs {needed} nodes{what}; there is {counts or 'no node'}",
            hint="start a cluster with `stackproof cluster up --nodes 2` (with `--no-pin` if it "
            "has Slurm), ask for more CPUs, or name another placement; what is named under "
            "`validated` is not timed and needs no CPUs of its own",
        )
    return Placement(
        name=name,
        ranks=tuple(ranks),
        interface=None if needed == 1 else interface,
        timed=timed,
    )


def laid_out(
    name: str,
    nodes: Mapping[str, tuple[int, ...]],
    interface: str | None,
    *,
    topologies: Mapping[str, Topology],
    one_machine: bool = False,
) -> Placement:
    """Return the placement that a layout such as `2x8-by-gpu` means on the nodes that there are.

    Raises `StackproofError` (UNSUPPORTED) when there are not enough nodes, cores or parts.
    """
    wanted = layouts.parse_layout(name)
    if len(nodes) < wanted.nodes:
        raise fail(
            Reason.UNSUPPORTED,
            f"the placement `{name}` needs {wanted.nodes} nodes; there are {len(nodes)}",
            hint="ask for more nodes, or start a cluster with `stackproof cluster up --nodes N`",
        )
    chosen = {node: nodes[node] for node in [*nodes][: wanted.nodes]}
    ranks = layouts.ranks_by(name, wanted, chosen, topologies, one_machine=one_machine)
    kinds = [gpu.kind for node in chosen for gpu in topologies[node].gpus]
    return Placement(
        name=name,
        ranks=ranks,
        interface=None if wanted.nodes == 1 else interface,
        gpus=kinds[0] if kinds else "",
        membind=wanted.membind,
    )


def transport_for(placement: Placement, wanted: Mapping[str, str]) -> str:
    """Return the transport of a placement.

    What the arm says of it, or of all placements of its locality, else `shm` or `tcp`.
    """
    locality = placement.locality
    default = "shm" if locality is Locality.INTRA else "tcp"
    return wanted.get(placement.name) or wanted.get(locality.value) or default


def case_for(spec: BenchSpec, launch: Launch, placement: Placement, transport: str) -> Case:
    """Return the case of one launch; raises `StackproofError` when the program cannot do it.

    Where nothing is timed, each exchange is made as seldom as the program can.
    """
    timed = placement.timed
    # A GPU's bytes are always looked at: an MPI that takes their address for a host's may go on.
    checked = (spec.validate or bool(spec.memory)) and launch.program in _CHECK
    case = Case(
        program=launch.program,
        benchmarks=tuple(
            name
            for name in _benchmarks(spec, launch.program, placement.name, len(placement.ranks))
            if not launch.benchmarks or name in launch.benchmarks
        ),
        sizes=spec.sizes or DEFAULT_SIZES,
        placement=placement,
        transport=transport,
        samples=spec.samples if timed else 1,
        seconds_per_size=spec.seconds_per_size if timed else _SHORTEST_S,
        validate=checked and launch.block == 0,
        spot_check=checked and launch.block != 0,
        timing=spec.timing,
        window=spec.window,
        memory=spec.memory,
        options=next((one.options for one in spec.programs if one.name == launch.program), ()),
        timeout_s=spec.timeout_s,
    )
    faults = bench_programs.REGISTRY[launch.program].problems(case)
    if faults:
        raise StackproofError(
            *(Problem(reason=Reason.UNSUPPORTED, message=fault) for fault in faults)
        )
    return case


def _benchmarks(spec: BenchSpec, program: str, place: str, ranks: int) -> tuple[str, ...]:
    """Return what a program runs at a placement with so many ranks.

    Of more than two ranks in blocks, the first two are on one node, and the others would wait: so
    only what all ranks take part in. Whoever orders ranks by hand knows which two come first.
    """
    can = PROGRAM_BENCHMARKS[program]
    own = next((p.benchmarks for p in spec.programs if p.name == program), ())
    ready = {entry for entry in (*spec.placements, *spec.validated) if isinstance(entry, str)}
    few = ranks <= 2 or place not in ready
    mixed = len(set(spec.memory)) > 1  # the ranks of a collective have one kind
    return tuple(
        name
        for name in own or spec.benchmarks or can
        if name in can
        and (few or name in ALL_RANKS)
        and not (mixed and METRICS[name].kind == "collective")
    )
