"""The case noun: one benchmark program with parameters and placement."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import field

from stackproof.core.value import Value


class Locality(StrEnum):
    """Whether ranks share a node; taken from the placement, never from the numbers."""

    INTRA = "intra-node"
    INTER = "inter-node"


class Timing(StrEnum):
    """How a collective is timed (docs/explanation/benchmark-program.md)."""

    SYNCHRONISED = "synchronised"
    """From the last rank's start to the last rank's end, after a start at one moment."""
    OSU = "osu"
    """Each rank by itself, a barrier after each operation; the mean over the ranks."""
    IMB = "imb"
    """The same with MPI_FLOAT for reductions; of IMB itself `t_avg` is read."""


class Rank(Value):
    """Where one rank runs: a node's name and the CPU (number on that node) it is pinned to.

    `numa` is the NUMA node of that CPU; `nic` and `gpu` are what the rank is to use of several: the
    name of a NIC (`cxi0`), the number of a GPU. Empty and None where nobody chose.
    """

    node: str
    cpu: int | None = None
    numa: int | None = None
    nic: str = ""
    gpu: int | None = None


class Placement(Value):
    """A named list of ranks, in rank order.

    `interface` is the network interface the MPI must use between the nodes, None for any. `timed`
    False is for ranks that may share a CPU: what they receive is checked, and no time they take
    means anything. `gpus` says by which runtime the ranks' GPUs are numbered: `cuda` or `rocm`.
    `membind` says that each rank may take memory of its own NUMA node only.
    """

    name: str
    ranks: tuple[Rank, ...]
    interface: str | None = None
    timed: bool = True
    gpus: str = ""
    membind: bool = False

    def bound(self, rank: Rank) -> bool:
        """Return True if the memory of a rank is bound to its NUMA node."""
        return self.membind and rank.numa is not None

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the nodes in order of their first rank."""
        return tuple(dict.fromkeys(rank.node for rank in self.ranks))

    @property
    def locality(self) -> Locality:
        """Return INTRA when all ranks are on one node."""
        return Locality.INTRA if len(self.nodes) == 1 else Locality.INTER


class Case(Value):
    """One launch's worth of work: which benchmarks, which sizes, how long, where, by which path.

    `benchmarks` are names of `stackproof.bench.programs.METRICS`; `sizes` are bytes per message;
    `samples` is how many timed samples each size gets in one launch, `seconds_per_size` a cap on
    the time that the timed part of one size takes (seconds). `transport` is a name in
    `stackproof.mpi.transports`; `fabric` is what joins the nodes (`site.FabricType`), empty where
    that is not known. `memory` is where the buffers of rank 0 and of the others lie, names of
    `stackproof.mpi.transports.Memory`; empty for the host's. `options` are words for the program
    that the specification has for it.
    """

    program: str
    benchmarks: tuple[str, ...]
    sizes: tuple[int, ...]
    placement: Placement
    transport: str = "auto"
    fabric: str = ""
    samples: int = 20
    seconds_per_size: float = 0.02
    validate: bool = False
    spot_check: bool = False
    timing: str = ""
    window: int = 64
    memory: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    timeout_s: float = 120.0
    env: Mapping[str, str] = field(default_factory=dict)
