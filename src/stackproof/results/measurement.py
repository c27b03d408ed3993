"""The measurement noun: all samples of one launch, with the evidence that they mean something."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from msgspec import field

from stackproof.core.value import Value
from stackproof.results.case import Case


class State(StrEnum):
    """The three answers of a check."""

    OK = "ok"
    BAD = "bad"
    UNKNOWN = "cannot tell"


class Check(Value):
    """An assertion with evidence: `reason` is a value of `errors.Reason`."""

    name: str
    state: State
    reason: str = ""
    evidence: str = ""


class Disturbance(Value):
    """What else went on at one rank's CPU while it was timed; None is what nobody could tell.

    `wall_s` is how long the timed part took and `run_queue_wait_s` how much of it the rank was
    ready to run and its CPU ran something else (second number of /proc/self/schedstat);
    `involuntary_switches` counts how often it was made to give its CPU away
    (`ru_nivcsw`). `other_load` is the share of its CPU's time, 0 to 1, that other programs took:
    time of programs by /proc/stat, without interrupts, less the rank's own. `stolen` is the share
    that a hypervisor gave to other machines. `frequency_mhz` is the lowest that the CPU was seen
    to have.
    """

    wall_s: float | None = None
    run_queue_wait_s: float | None = None
    involuntary_switches: int | None = None
    other_load: float | None = None
    stolen: float | None = None
    frequency_mhz: float | None = None


class Series(Value):
    """All samples of one benchmark at one message size in one launch.

    `values` are in `unit` (`us`, `MB/s` with 1 MB = 10^6 B, or `msg/s`); `iterations` is how many
    operations each sample averages over; `validated` is the number of bytes checked, None when
    validation was off, and `check_s` the seconds that this took, outside of the timed part.

    Of a collective, `timing` says by which definition `values` are
    (`stackproof.results.case.Timing`), `mean` holds the mean over the ranks beside them; `late`
    counts operations whose ranks did not start together, `skew_us` is how far apart their starts
    were in the others, and `clock_error_us` by how much a rank's idea of the common time was wrong
    at most. `disturbance` has for each number the worst rank's. `printed` are further statistics by
    the names of their columns, of programs that print such. `residuals` are a solver's after each
    iteration, relative to the right-hand side.
    """

    benchmark: str
    size: int
    unit: str
    values: tuple[float, ...]
    iterations: int
    validated: int | None = None
    check_s: float | None = None
    timing: str = ""
    mean: tuple[float, ...] = ()
    late: int = 0
    skew_us: float | None = None
    clock_error_us: float | None = None
    disturbance: Disturbance | None = None
    printed: Mapping[str, float] = field(default_factory=dict)
    residuals: tuple[float, ...] = ()

    def __hash__(self) -> int:
        return hash((self.benchmark, self.size, self.values))


class WrongBytes(Value):
    """Received bytes that were not those sent: how many at a rank, and the first of them.

    `source` is the rank that sent them, -1 for a sum of all. `round` counts the samples of the
    timed part from 0; -1 is the exchange after it. `message` is which of a window, `offset` where
    in it.
    """

    benchmark: str
    size: int
    rank: int
    bytes: int
    source: int
    round: int
    message: int
    offset: int
    expected: int
    seen: int

    @property
    def text(self) -> str:
        """Return what was wrong in words."""
        when = "after the timed part" if self.round < 0 else f"in sample {self.round + 1}"
        whose = "of the sum" if self.source < 0 else f"from rank {self.source}"
        return (
            f"{self.benchmark} of {self.size} B, {when}: rank {self.rank} received {self.bytes} "
            f"wrong bytes {whose}, the first at offset {self.offset}: 0x{self.seen:02x} where "
            f"0x{self.expected:02x} was sent"
        )


class NodeInterface(Value):
    """A network interface of a node; `mbit` is the rate that its driver states, 0 for none."""

    up: bool
    mbit: int = 0
    addresses: tuple[str, ...] = ()


class RankMemory(Value):
    """Where a rank's message buffers lay: `kind` is a name in `stackproof.mpi.transports.Memory`.

    Of a GPU, `device` is its number of the `devices` that the rank saw, `driver` the number that
    its driver calls itself, and `gpu_aware` what the MPI said of such buffers: yes, no, unknown, or
    ucx where not the MPI but UCX below it takes them.
    """

    kind: str
    device: int = 0
    devices: int = 0
    name: str = ""
    driver: int = 0
    gpu_aware: str = ""

    @property
    def text(self) -> str:
        """Return it in words."""
        if not self.devices:
            return self.kind
        aware = {"yes": "the MPI says that it takes them", "ucx": "UCX takes them, not the MPI"}
        said = aware.get(self.gpu_aware, "the MPI does not say whether it takes them")
        return f"{self.kind} (`{self.name}`, GPU {self.device} of {self.devices}); {said}"


class RankClock(Value):
    """What a rank found of its clock, all numbers in microseconds.

    Before anything was timed it was `skew_us` before rank 0's, within `skew_bound_us`; at the end
    that had changed by `moved_us`, of which measurement and drift explain `moved_bound_us`: the
    true difference lies within half the shortest round trip of what was found (Cristian,
    Distributed Computing 3, 1989). `jump_us` is the largest change between two samples against a
    clock that nothing adjusts, 0 where drift explains all. Ranks of one boot have `shared` clocks.
    """

    shared: bool
    skew_us: float
    skew_bound_us: float
    moved_us: float
    moved_bound_us: float
    jump_us: float


class RankHalo(Value):
    """The exchanges of its halo that a rank of a solver made in one way.

    It sent `messages` of together `bytes` in each of the `exchanges`; `residuals` are the first of
    a solve of so many `iterations`. `histogram` counts exchanges of solves by how long they took,
    from so many nanoseconds up to twice as many.
    """

    iterations: int
    exchanges: int
    messages: int
    bytes: int
    residuals: tuple[float, ...] = ()
    histogram: Mapping[str, int] = field(default_factory=dict)


class RankFacts(Value):
    """What one rank saw of itself.

    `cpus` is its affinity mask, `cpu` the processor it ran on and `numa` that one's NUMA node;
    `membind` is the NUMA node that its memory is bound to, -1 where it is to none, None where the
    program does not tell; `devices` are the variables that told it which NIC and GPU to use, None
    where the program does not tell. `libraries` the communication
    libraries mapped by the process (paths from /proc/self/maps), `build_ids` their GNU build-ids
    where they have one, `preloads` and `folders` how many objects the process has of each name in
    LD_PRELOAD and LD_LIBRARY_PATH (None where the program does not tell), `shared` the shared
    memory that it has mapped (files of /dev/shm and devices such as /dev/xpmem), `tx_bytes` what
    each network interface of its node sent during the launch. `disturbance` is what else its CPU
    did, None for a program that does not look; `memory` None where the program does not tell, as
    `clock`.

    One rank of each node also has `interfaces`, the node's by name, and `parts`: what each of them
    sent during the timed part of a benchmark and size, keyed `latency 8`. `halo` is how a solver's
    rank exchanged its halo, by the names of the ways.
    """

    rank: int
    host: str
    cpus: tuple[int, ...] = ()
    cpu: int | None = None
    numa: int | None = None
    membind: int | None = None
    devices: Mapping[str, str] | None = None
    libraries: tuple[str, ...] = ()
    build_ids: Mapping[str, str] = field(default_factory=dict)
    preloads: Mapping[str, int] | None = None
    folders: Mapping[str, int] | None = None
    shared: tuple[str, ...] = ()
    tx_bytes: Mapping[str, int] = field(default_factory=dict)
    disturbance: Disturbance | None = None
    interfaces: Mapping[str, NodeInterface] = field(default_factory=dict)
    parts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    memory: RankMemory | None = None
    clock: RankClock | None = None
    halo: Mapping[str, RankHalo] = field(default_factory=dict)


class Output(Value):
    """What a benchmark program printed, parsed: nothing in it is judged yet.

    `complete` says that the program reached its end; `validation_errors` counts wrong bytes,
    `wrong` has the first of each rank and size; `worlds` counts how many times a program
    introduced itself as rank 0 (more than one means singletons); `garbage` are lines that are not
    the program's (noise of the MPI or worse); `skipped` says why a benchmark left a size out,
    keyed `allreduce 2`. `refused` is why it did not measure at all, in its own words, by the name
    that it gives the reason.
    """

    program: str
    program_version: str = ""
    mpi_library: str = ""
    world_size: int = 0
    worlds: int = 0
    clock: Mapping[str, float] = field(default_factory=dict)
    ranks: tuple[RankFacts, ...] = ()
    series: tuple[Series, ...] = ()
    complete: bool = False
    validation_errors: int = 0
    wrong: tuple[WrongBytes, ...] = ()
    garbage: tuple[str, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


class Measurement(Value):
    """One launch: an observation of one arm.

    `arm` is the deployment's name, `block` the randomised block it belongs to (0 is the discarded
    warm-up), `order` its position in the whole run. `checks` that are BAD keep it out of every
    comparison. `started` is UTC ISO 8601; `seconds` the wall time of the launch. `argv` and `env`
    (the variables that the deployment set) repeat it.
    """

    SCHEMA: ClassVar[str] = "stackproof/measurement/1"

    arm: str
    block: int
    order: int
    case: Case
    output: Output
    checks: tuple[Check, ...]
    argv: tuple[str, ...]
    env: Mapping[str, str]
    started: str
    seconds: float
    image_sha256: str = ""
    host_facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def usable(self) -> bool:
        """Return whether no check is BAD, so that it may enter a comparison."""
        return all(check.state is not State.BAD for check in self.checks)
