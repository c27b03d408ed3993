"""The measurement noun: all samples of one launch, with the evidence that they mean something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from stackproof.case import Case


class State(StrEnum):
    """The three answers of a check."""

    OK = "ok"
    BAD = "bad"
    UNKNOWN = "cannot tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """An assertion with evidence: `reason` is a value of `errors.Reason`."""

    name: str
    state: State
    reason: str = ""
    evidence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """All samples of one benchmark at one message size in one launch.

    `values` are in `unit` (`us`, `MB/s` with 1 MB = 10^6 B, or `msg/s`); `iterations` is how many
    operations each sample averages over; `validated` is the number of bytes checked, None when
    validation was off.
    """

    benchmark: str
    size: int
    unit: str
    values: tuple[float, ...]
    iterations: int
    validated: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFacts:
    """What one rank saw of itself.

    `cpus` is its affinity mask, `cpu` the processor it ran on, `libraries` the communication
    libraries mapped by the process (paths from /proc/self/maps), `build_ids` their GNU build-ids
    where they have one, `shared` the shared memory that it has mapped (files of /dev/shm and
    devices such as /dev/xpmem), `tx_bytes` what each network interface of its node sent during the
    launch.
    """

    rank: int
    host: str
    cpus: tuple[int, ...] = ()
    cpu: int | None = None
    libraries: tuple[str, ...] = ()
    build_ids: Mapping[str, str] = field(default_factory=dict)
    shared: tuple[str, ...] = ()
    tx_bytes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What a benchmark program printed, parsed: nothing in it is judged yet.

    `complete` says that the program reached its end; `validation_errors` counts wrong bytes;
    `worlds` counts how many times a program introduced itself as rank 0 (more than one means
    singletons); `garbage` are lines that are not the program's (noise of the MPI or worse);
    `skipped` says why a benchmark left a size out, keyed `allreduce 2`.
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
    garbage: tuple[str, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
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
