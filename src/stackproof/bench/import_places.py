"""Where the ranks of printed tables were: what the user says, held against what headings say.

Where a heading says nothing, nothing contradicts; nothing is guessed from numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec import field

from stackproof.bench.programs import imb, osu, tables
from stackproof.bench.programs.osu import OSU_TESTS, OsuKind
from stackproof.bench.programs.tables import PrintedTable
from stackproof.core.value import Value
from stackproof.knowledge.reference_curves import BufferPlace
from stackproof.results.case import Locality, Placement, Rank

_PAIR = 2


class Distribution(StrEnum):
    """How a launcher deals ranks to nodes."""

    BLOCK = "block"
    """A node is filled before the next."""
    CYCLIC = "cyclic"
    """Each node in turn gets a rank."""


class ImportSetup(Value):
    """What files do not say: where ranks were, where buffers lay, what the link can carry.

    `limit` is in MB/s in one direction, None when it is not known; `fabric` is a value of
    `site.FabricType`, empty when not known; `created` is UTC ISO 8601. `ranks` is the number of
    all ranks, which a table may have less of; None is what headings say. `nodes` is the number
    that all ranks were on; None is one node or two, by locality. `transport` is the path that the
    runs were forced on.
    """

    name: str
    locality: Locality
    memory: BufferPlace
    baseline: str = ""
    transport: str = "auto"
    ranks: int | None = None
    nodes: int | None = None
    distribution: Distribution | None = None
    limit: float | None = None
    limit_source: str = ""
    fabric: str = ""
    created: str = ""
    stackproof: str = ""
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


def metrics_of(table: PrintedTable) -> tuple[tuple[str, str], ...]:
    """Return the metrics of a table with their columns; empty when nothing here measures it."""
    return imb.metrics_of(table) if table.program == tables.IMB else osu.metrics_of(table)


def ranks_of(table: PrintedTable, all_ranks: int | None) -> int | None:
    """Return how many processes took part in a table; None where nobody says it."""
    if "processes" in table.facts:
        return int(table.facts["processes"])
    if "pairs" in table.facts:
        return _PAIR * int(table.facts["pairs"])
    test = OSU_TESTS.get(osu.benchmark_of(table.title))
    pair = test is not None and test.kind in {OsuKind.PAIR, OsuKind.ONE_SIDED}
    return _PAIR if pair else all_ranks


def _world_of(table: PrintedTable, all_ranks: int | None) -> int:
    """Return the number of processes of a table's run, with those that waited."""
    return (ranks_of(table, all_ranks) or _PAIR) + int(table.facts.get("waiting") or 0)


def _nodes_of(world: int, setup: ImportSetup) -> int | None:
    """Return the number of nodes of a world, None where that cannot be told.

    A world of fewer ranks than the user says was a run of its own, of two nodes at least.
    """
    if setup.locality is Locality.INTRA:
        return 1
    if world == _PAIR:
        return _PAIR
    whole = setup.ranks in {None, world}
    return setup.nodes if whole or setup.nodes == _PAIR else None


def placement_of(table: PrintedTable, setup: ImportSetup) -> Placement | str:
    """Return where the ranks of a table were, on nodes that have no names of their own.

    More than 2 ranks are another placement, by nodes and ranks on each, so that numbers of ranks
    are never put together. A text says why it cannot be told.
    """
    ranks, world = ranks_of(table, setup.ranks) or _PAIR, _world_of(table, setup.ranks)
    nodes = _nodes_of(world, setup)
    if nodes is None:
        return "its processes are fewer than --ranks, and on how many of the nodes is not printed"
    if 1 < nodes < world and ranks < world:
        if "map" in table.facts:
            return "only a part of its processes took part, and `-map` dealt them in another way"
        if setup.distribution is None:
            return (
                "only a part of its processes took part; on which nodes they were "
                "`--distribution` says: `block` (a node is filled before the next) or `cyclic`"
            )
    cyclic = setup.distribution is Distribution.CYCLIC
    numbers = sorted(i % nodes if cyclic else i * nodes // world for i in range(ranks))
    ranks_on = tuple(Rank(node=f"node{1 + number}") for number in numbers)
    return Placement(name=_name(numbers, setup.memory), ranks=ranks_on)


def _name(numbers: Sequence[int], memory: BufferPlace) -> str:
    """Return the name of a placement by the number of the node of each rank."""
    counts = Counter(numbers)
    name = f"{len(counts)}x{max(counts.values())}"
    if len(numbers) == _PAIR:
        name = Locality.INTRA.value if len(counts) == 1 else Locality.INTER.value
    elif len(set(counts.values())) > 1:
        name = f"{len(numbers)}-on-{len(counts)}"
    return f"{name}-device" if memory is BufferPlace.DEVICE else name


def contradictions(table: PrintedTable, setup: ImportSetup) -> Iterator[tuple[str, str]]:
    """Yield where a heading contradicts what the user says, each with what to do."""
    yield from _of_memory(table, setup.memory)
    if metrics_of(table):
        yield from _of_ranks(table, setup)


def _of_memory(table: PrintedTable, memory: BufferPlace) -> Iterator[tuple[str, str]]:
    hint = "give --memory as in the run, and files of other runs apart; only runs from host to "
    hint += "host and from device to device can be imported"
    places = {table.facts.get("send"), table.facts.get("receive")} - {None}
    if "MANAGED" in table.accelerator:
        places.add("MANAGED")
    if places - {memory.upper()}:
        names = " and ".join(sorted(f"`{place}`" for place in places))
        yield f"the heading says that buffers are on {names}, and --memory says `{memory}`", hint
    elif table.program == tables.OSU and memory is BufferPlace.DEVICE and not table.accelerator:
        yield "the title names no accelerator, so these are not device buffers", hint


def _of_ranks(table: PrintedTable, setup: ImportSetup) -> Iterator[tuple[str, str]]:
    """Yield why the ranks of a table cannot have been as many, or on so many nodes."""
    if ranks_of(table, setup.ranks) is None:
        yield (
            "it does not say how many ranks took part",
            "say it with --ranks; tests of two ranks, pairs, and IMB tell it themselves",
        )
        return
    world = _world_of(table, setup.ranks)
    nodes = _nodes_of(world, setup)
    if setup.ranks is not None and world > setup.ranks:
        yield (
            f"its heading says {world} processes, more than --ranks {setup.ranks}",
            "give as --ranks how many ranks the largest of these runs had",
        )
    if setup.nodes is None and setup.locality is Locality.INTER and world > _PAIR:
        yield (
            f"{world} ranks between nodes may have been on 2 to {world} nodes",
            "say on how many with --nodes",
        )
    elif nodes is not None and world % nodes:
        yield (
            f"{world} ranks cannot be divided among {nodes} nodes",
            "import runs with as many ranks on each node; each number of ranks apart",
        )
