"""The lines of `stackproof-bench` as they are written, and the nouns that they mean.

Members that came later have a default: images keep the program that was compiled into them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from stackproof.results.measurement import (
    Disturbance,
    NodeInterface,
    RankFacts,
    RankMemory,
    Series,
    WrongBytes,
)

_MAX_CPU = 1 << 16


class BenchLine(msgspec.Struct, tag_field="kind", frozen=True):
    """What every line has: the world it is of, and its number."""

    run: str
    n: int


class DisturbanceMember(msgspec.Struct, frozen=True):
    """What else a rank's processor did."""

    wall_s: float
    involuntary_switches: int
    run_queue_wait_s: float | None = None
    other_load: float | None = None
    stolen: float | None = None
    frequency_mhz: float | None = None


class InterfaceMember(msgspec.Struct, frozen=True):
    """A network interface."""

    up: bool
    mbit: int
    addresses: tuple[str, ...]


class StartLine(BenchLine, tag="start", frozen=True):
    """The first line."""

    program: str
    version: str
    mpi_library: str
    world_size: int
    clock: dict[str, float]


class SeriesLine(BenchLine, tag="series", frozen=True):
    """The samples of one benchmark and size."""

    benchmark: str
    size: int
    unit: str
    iterations: int
    values: tuple[float, ...]
    validated: int | None = None
    errors: int = 0
    # Version 1 of the program told none of these.
    check_s: float | None = None
    timing: str = ""
    mean: tuple[float, ...] = ()
    late: int = 0
    skew_us: float | None = None
    clock_error_us: float | None = None
    disturbance: DisturbanceMember | None = None


class WrongLine(BenchLine, tag="wrong", frozen=True):
    """Wrong bytes at one rank."""

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


class SkipLine(BenchLine, tag="skip", frozen=True):
    """A size that was left out."""

    benchmark: str
    size: int
    reason: str


class MemoryMember(msgspec.Struct, frozen=True):
    """Where message buffers lay."""

    kind: str
    device: int = 0
    devices: int = 0
    name: str = ""
    driver: int = 0
    gpu_aware: str = ""


class RankLine(BenchLine, tag="rank", frozen=True):
    """What a rank tells of itself."""

    rank: int
    host: str
    cpus: str
    cpu_start: int
    cpu_end: int
    net: dict[str, dict[str, int]]
    libraries: tuple[str, ...]
    # Programs of images that were built before these were told have none; what is the node's is
    # told by one rank of it.
    build_ids: dict[str, str] = {}
    shared: tuple[str, ...] = ()
    numa: int = -1
    devices: dict[str, str] | None = None
    disturbance: DisturbanceMember | None = None
    interfaces: dict[str, InterfaceMember] = {}
    parts: dict[str, dict[str, int]] = {}
    memory: MemoryMember | None = None


class ErrorLine(BenchLine, tag="error", frozen=True):
    """Why the program does not measure."""

    reason: str
    message: str


class EndLine(BenchLine, tag="end", frozen=True):
    """The last line."""

    ok: bool
    errors: int
    records: int


AnyLine = StartLine | SeriesLine | WrongLine | SkipLine | RankLine | ErrorLine | EndLine
_LINES = msgspec.json.Decoder(AnyLine)


def decode(text: bytes) -> AnyLine:
    """Return the line that a text is; raises what msgspec does for any other text."""
    line: AnyLine = _LINES.decode(text)
    return line


def series_of(record: SeriesLine) -> Series:
    """Return the samples that a line holds."""
    return Series(
        benchmark=record.benchmark,
        size=record.size,
        unit=record.unit,
        values=record.values,
        iterations=record.iterations,
        validated=record.validated,
        check_s=record.check_s,
        timing=record.timing,
        mean=record.mean,
        late=record.late,
        skew_us=record.skew_us,
        clock_error_us=record.clock_error_us,
        disturbance=_disturbance(record.disturbance),
    )


def wrong_of(record: WrongLine) -> WrongBytes:
    """Return the wrong bytes that a line tells of."""
    return WrongBytes(
        benchmark=record.benchmark,
        size=record.size,
        rank=record.rank,
        bytes=record.bytes,
        source=record.source,
        round=record.round,
        message=record.message,
        offset=record.offset,
        expected=record.expected,
        seen=record.seen,
    )


def _disturbance(record: DisturbanceMember | None) -> Disturbance | None:
    if record is None:
        return None
    return Disturbance(
        wall_s=record.wall_s,
        run_queue_wait_s=record.run_queue_wait_s,
        involuntary_switches=record.involuntary_switches,
        other_load=record.other_load,
        stolen=record.stolen,
        frequency_mhz=record.frequency_mhz,
    )


def facts_of(record: RankLine) -> RankFacts:
    """Return a rank's facts; `cpu` is None when it began and ended on different processors."""
    stayed = record.cpu_start == record.cpu_end and record.cpu_start >= 0
    return RankFacts(
        rank=record.rank,
        host=record.host,
        cpus=_cpus(record.cpus),
        cpu=record.cpu_start if stayed else None,
        numa=record.numa if stayed and record.numa >= 0 else None,
        devices=record.devices,
        libraries=record.libraries,
        build_ids=record.build_ids,
        shared=record.shared,
        tx_bytes=_sent(record.net),
        disturbance=_disturbance(record.disturbance),
        interfaces={
            name: NodeInterface(up=one.up, mbit=one.mbit, addresses=one.addresses)
            for name, one in record.interfaces.items()
        },
        parts=record.parts,
        memory=_memory(record.memory),
    )


def _memory(record: MemoryMember | None) -> RankMemory | None:
    if record is None:
        return None
    return RankMemory(
        kind=record.kind,
        device=record.device,
        devices=record.devices,
        name=record.name,
        driver=record.driver,
        gpu_aware=record.gpu_aware,
    )


def _sent(net: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    return {name: counters["tx"] for name, counters in net.items() if "tx" in counters}


def _cpus(text: str) -> tuple[int, ...]:
    """Return the processors of a kernel CPU list (`0-3,8`); empty when it is not one."""
    result: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part)
        if match is None or int(match[2] or match[1]) > _MAX_CPU or len(result) > _MAX_CPU:
            return ()
        result += range(int(match[1]), int(match[2] or match[1]) + 1)
    return tuple(result)
