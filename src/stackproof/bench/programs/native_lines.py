"""The lines of `stackproof-bench` as they are written, and the nouns that they mean.

Members that came later have a default: images keep the program that was compiled into them.
"""

from __future__ import annotations

import re

import msgspec

from stackproof.results.measurement import (
    Disturbance,
    NodeInterface,
    RankClock,
    RankFacts,
    RankHalo,
    RankMemory,
    Series,
    WrongBytes,
)

_MAX_CPU = 1 << 16


class BenchLine(msgspec.Struct, tag_field="kind", frozen=True):
    """What every line has: the world it is of, and its number."""

    run: str
    n: int


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
    disturbance: Disturbance | None = None
    residuals: tuple[float, ...] = ()


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
    preloads: dict[str, int] | None = None
    folders: dict[str, int] | None = None
    shared: tuple[str, ...] = ()
    numa: int = -1
    membind: int | None = None
    devices: dict[str, str] | None = None
    disturbance: Disturbance | None = None
    interfaces: dict[str, NodeInterface] = {}
    parts: dict[str, dict[str, int]] = {}
    memory: RankMemory | None = None
    clock: RankClock | None = None
    halo: dict[str, RankHalo] = {}


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
    return msgspec.convert(record, Series, from_attributes=True)


def wrong_of(record: WrongLine) -> WrongBytes:
    """Return the wrong bytes that a line tells of."""
    return msgspec.convert(record, WrongBytes, from_attributes=True)


def facts_of(record: RankLine) -> RankFacts:
    """Return a rank's facts; `cpu` is None when it began and ended on different processors."""
    stayed = record.cpu_start == record.cpu_end and record.cpu_start >= 0
    alike = {*RankLine.__struct_fields__} & {*RankFacts.__struct_fields__}
    return RankFacts(**{
        **{name: getattr(record, name) for name in alike},
        "cpus": _cpus(record.cpus),
        "cpu": record.cpu_start if stayed else None,
        "numa": record.numa if stayed and record.numa >= 0 else None,
        "tx_bytes": {name: counts["tx"] for name, counts in record.net.items() if "tx" in counts},
    })  # fmt: skip


def _cpus(text: str) -> tuple[int, ...]:
    """Return the processors of a kernel CPU list (`0-3,8`); empty when it is not one."""
    result: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part)
        if match is None or int(match[2] or match[1]) > _MAX_CPU or len(result) > _MAX_CPU:
            return ()
        result += range(int(match[1]), int(match[2] or match[1]) + 1)
    return tuple(result)
