"""What the headings of imported tables say of a run, against what the user says and other tables.

Where a heading says nothing, nothing contradicts; nothing is guessed from numbers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from enum import StrEnum

from stackproof.bench.programs import imb_tables, osu
from stackproof.bench.programs.osu_test import OSU_TESTS, OsuKind
from stackproof.bench.programs.tables import PrintedTable
from stackproof.core.errors import Location, Problem, Reason
from stackproof.core.value import Value, replace
from stackproof.knowledge.reference_curves import BufferPlace
from stackproof.results.case import Locality, Placement, Rank
from stackproof.results.measurement import Measurement

_PAIRS = frozenset(
    name for name, test in OSU_TESTS.items() if test.kind in {OsuKind.PAIR, OsuKind.ONE_SIDED}
)
"""Metrics that OSU measures with two processes and no other number."""

_PAIR = 2

_ALIKE = {
    "send-buffer": "the buffers that are sent from",
    "receive-buffer": "the buffers that are received into",
    "window": "the window",
    "datatype": "the datatype",
    "pairs": "the number of pairs",
    "mode": "the mode",
    "groups": "the number of groups",
}
"""What headings say of a run, and what must be the same where two are compared."""

_IMPORTED = "imported from"


class Distribution(StrEnum):
    """How a launcher deals ranks to nodes."""

    BLOCK = "block"
    """A node is filled before the next."""
    CYCLIC = "cyclic"
    """Each node in turn gets a rank."""


class Whereabouts(Value):
    """What the user says: how ranks were placed, where buffers lay.

    `ranks` is the number of all ranks, which a table may have less of; None is what headings say.
    `nodes` is the number that all ranks were on; None is one node or two, by locality.
    """

    locality: Locality
    memory: BufferPlace
    ranks: int | None = None
    nodes: int | None = None
    distribution: Distribution | None = None


def metric_of(table: PrintedTable) -> str:
    """Return the first metric of a table, empty when nothing here measures it."""
    if table.program == imb_tables.PROGRAM:
        return next((name for name, _ in imb_tables.metrics_of(table)), "")
    found = osu.metric_of(table)
    return "" if found is None else found[0]


def ranks_of(table: PrintedTable, said: int | None) -> int | None:
    """Return how many processes took part in a table; None where nobody says it."""
    if "processes" in table.facts:
        return int(table.facts["processes"])
    if "pairs" in table.facts:
        return _PAIR * int(table.facts["pairs"])
    return _PAIR if metric_of(table) in _PAIRS else said


def _world_of(table: PrintedTable, said: int | None) -> int:
    """Return the number of processes of a table's run, with those that waited."""
    return (ranks_of(table, said) or _PAIR) + int(table.facts.get("waiting", "0"))


def _nodes_of(world: int, where: Whereabouts) -> int | None:
    """Return the number of nodes of a world, None where that cannot be told.

    A world of fewer ranks than the user says was a run of its own, of two nodes at least.
    """
    if where.locality is Locality.INTRA:
        return 1
    if world == _PAIR:
        return _PAIR
    whole = where.ranks in {None, world}
    return where.nodes if whole or where.nodes == _PAIR else None


def placement_of(table: PrintedTable, where: Whereabouts) -> Placement | str:
    """Return where the ranks of a table were, on nodes that have no names of their own.

    More than 2 ranks are another placement, by nodes and ranks on each, so that numbers of ranks
    are never put together. A text says why it cannot be told.
    """
    ranks, world = ranks_of(table, where.ranks) or _PAIR, _world_of(table, where.ranks)
    nodes = _nodes_of(world, where)
    if nodes is None:
        return "its processes are fewer than --ranks, and on how many of the nodes is not printed"
    if world % nodes:
        return f"{world} ranks cannot be divided among {nodes} nodes"
    each = world // nodes
    if 1 < nodes < world and ranks < world:
        if "map" in table.facts:
            return "only a part of its processes took part, and `-map` dealt them in another way"
        if where.distribution is None:
            return (
                "only a part of its processes took part; on which nodes they were "
                "`--distribution` says: `block` (a node is filled before the next) or `cyclic`"
            )
    cyclic = where.distribution is Distribution.CYCLIC
    numbers = sorted(i % nodes if cyclic else i // each for i in range(ranks))
    placement = Placement(name="", ranks=tuple(Rank(node=f"node{1 + i}") for i in numbers))
    return replace(placement, name=_name(numbers, where.memory))


def _name(numbers: Sequence[int], memory: BufferPlace) -> str:
    """Return the name of a placement by the number of the node of each rank."""
    counts = Counter(numbers)
    name = f"{len(counts)}x{max(counts.values())}"
    if len(numbers) == _PAIR:
        name = Locality.INTRA.value if len(counts) == 1 else Locality.INTER.value
    elif len(set(counts.values())) > 1:
        name = f"{len(numbers)}-on-{len(counts)}"
    return f"{name}-device" if memory is BufferPlace.DEVICE else name


def contradictions(name: str, table: PrintedTable, where: Whereabouts) -> Iterator[Problem]:
    """Yield where the heading of a table in the file `name` contradicts what the user says."""
    found = (*_of_memory(table, where), *_of_ranks(table, where), *_of_nodes(table, where))
    for message, hint in found:
        yield Problem(
            reason=Reason.INVALID_VALUE,
            message=f"{table.title}: {message}",
            hint=hint,
            where=Location(file=name, line=table.line, column=1),
        )


def _of_memory(table: PrintedTable, where: Whereabouts) -> Iterator[tuple[str, str]]:
    hint = "give --memory as in the run, and files of other runs apart"
    device = where.memory is BufferPlace.DEVICE
    buffers = {table.facts.get("send-buffer"), table.facts.get("receive-buffer")} - {None}
    if "managed" in buffers or "MANAGED" in table.accelerator:
        yield (
            "its buffers are managed memory, which is neither the host's nor the device's",
            "only runs from host to host and from device to device can be imported",
        )
    elif len(buffers) > 1:
        yield (
            "one buffer is on the host and the other on the device",
            "only runs from host to host and from device to device can be imported",
        )
    elif table.program == osu.PROGRAM and device and not table.accelerator:
        yield "the title names no accelerator, so these are not device buffers", hint
    elif not device and buffers - {"host"}:
        yield "the heading says that buffers are on the device", hint
    elif device and buffers == {"host"}:
        yield "the heading says that buffers are on the host", hint


def _of_ranks(table: PrintedTable, where: Whereabouts) -> Iterator[tuple[str, str]]:
    if not metric_of(table):
        return
    said = where.ranks
    if ranks_of(table, said) is None:
        yield (
            "it does not say how many ranks took part",
            "say it with --ranks; tests of two ranks, pairs, and IMB tell it themselves",
        )
    elif said is not None and (world := _world_of(table, said)) > said:
        yield (
            f"its heading says {world} processes, more than --ranks {said}",
            "give as --ranks how many ranks the largest of these runs had",
        )


def _of_nodes(table: PrintedTable, where: Whereabouts) -> Iterator[tuple[str, str]]:
    """Yield why the ranks of a table cannot have been on so many nodes."""
    if not metric_of(table) or ranks_of(table, where.ranks) is None:
        return
    world = _world_of(table, where.ranks)
    nodes = _nodes_of(world, where)
    if where.nodes is None and where.locality is Locality.INTER and world > _PAIR:
        yield (
            f"{world} ranks between nodes may have been on 2 to {world} nodes",
            "say on how many with --nodes",
        )
    elif nodes is not None and world % nodes:
        yield (
            f"{world} ranks cannot be divided among {nodes} nodes",
            "import runs with as many ranks on each node; each number of ranks apart",
        )


def unlike(measurements: Sequence[Measurement]) -> Iterator[Problem]:
    """Yield what differs between tables that would be one arm, or be compared with each other.

    Only what both say can differ: releases of a benchmark do not print the same.
    """
    seen: dict[tuple[str, str, str], dict[str, dict[str, Measurement]]] = defaultdict(
        lambda: {fact: {} for fact in _ALIKE}
    )
    for one in measurements:
        for benchmark in one.case.benchmarks:
            by_fact = seen[one.case.placement.name, one.case.program, benchmark]
            for fact in _ALIKE:
                if one.host_facts.get(fact):
                    by_fact[fact].setdefault(one.host_facts[fact], one)
    for (placement, _, benchmark), by_fact in seen.items():
        for fact, values in by_fact.items():
            if len(values) > 1:
                (first, one), (second, other), *_ = values.items()
                arms = f"`{one.arm}`" if one.arm == other.arm else f"`{one.arm}`, `{other.arm}`"
                yield Problem(
                    reason=Reason.INVALID_VALUE,
                    message=f"{benchmark} at {placement}: {_ALIKE[fact]} is {first} in "
                    f"{one.host_facts[_IMPORTED]} and {second} in {other.host_facts[_IMPORTED]} "
                    f"({arms}), so these are not to be compared",
                    hint="import runs that were made alike; each kind into a folder of its own",
                    where=Location(file=other.host_facts[_IMPORTED]),
                )


def validation_note(measurements: Sequence[Measurement]) -> str:
    """Return that some arms looked at the bytes and others did not, which costs time."""
    with_it = sorted({one.arm for one in measurements if one.case.validate})
    without = sorted({one.arm for one in measurements if not one.case.validate})
    if not with_it or not without:
        return ""
    return (
        f"{', '.join(with_it)}: with validation; {', '.join(without)}: without. OSU fills buffers "
        "and waits before each message when it validates, so that rates differ for that reason"
    )
