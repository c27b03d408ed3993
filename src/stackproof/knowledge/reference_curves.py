"""Reference curves: published benchmark results of real machines, as data with their sources.

They are overlaid on measured curves and serve as sanity bands; they never judge another machine.
`knowledge/reference-curves/index.yaml` says what each curve is, CSV files beside it hold the
values as they were printed. They come with stackproof, and tests check them.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar

from stackproof.core import document as documents
from stackproof.core import noun
from stackproof.core.value import Value
from stackproof.results.case import Locality
from stackproof.site.model import Source


class BufferPlace(StrEnum):
    """Where the message buffers of a benchmark lie."""

    HOST = "host"
    DEVICE = "device"


def memory_of(facts: Mapping[str, str]) -> BufferPlace:
    """Return where buffers lay, by the facts of a launch; host where nobody says otherwise."""
    return BufferPlace.DEVICE if facts.get("memory") == BufferPlace.DEVICE else BufferPlace.HOST


class Role(StrEnum):
    """Whether a curve shows a healthy machine or a known fault."""

    REFERENCE = "reference"
    COUNTEREXAMPLE = "counterexample"


class CurvePoint(Value):
    """One value of a curve: `size` in bytes, `value` in the curve's unit, `printed` its text.

    `repetitions` is how many operations the value averages over, where the source says it.
    """

    size: int
    value: float
    printed: str
    repetitions: int | None = None


class ReferenceCurve(Value):
    """A published curve; `benchmark` and `unit` are those of `stackproof.bench.programs.METRICS`.

    `machine` is the name of a shipped site. `method` says how the value was made: `window` (many
    messages in flight), `ping-pong` or `collective`; curves of different methods do not compare.
    """

    SCHEMA: ClassVar[str] = "stackproof/reference-curve/1"

    id: str
    title: str
    machine: str
    nodes: int
    ranks: int
    locality: Locality
    mpi: str
    transport: str
    memory: BufferPlace
    benchmark: str
    method: str
    unit: str
    tool: str
    tool_version: str
    source: Source
    points: tuple[CurvePoint, ...]
    role: Role = Role.REFERENCE
    note: str | None = None


def parse_curves(index: Mapping[str, Any], files: Mapping[str, str]) -> tuple[ReferenceCurve, ...]:
    """Return the curves that an index describes; `files` maps CSV names to their text."""
    rows: dict[tuple[str, str], list[CurvePoint]] = defaultdict(list)
    for name, text in files.items():
        for row in csv.DictReader(io.StringIO(text)):
            point = CurvePoint(
                size=int(row["size"]), value=float(row["value"]), printed=row["value"],
                repetitions=int(row["repetitions"]) if row.get("repetitions") else None,
            )  # fmt: skip
            rows[name, row["curve"]].append(point)
    return tuple(
        documents.shaped(
            ReferenceCurve, entry, points=tuple(rows[entry["file"], entry["id"]]),
            locality=Locality(entry["locality"]), memory=BufferPlace(entry["memory"]),
            role=Role(entry.get("role", Role.REFERENCE)),
            source=noun.from_data(Source, index["sources"][entry["source"]]),
        )
        for entry in index["curves"]
    )  # fmt: skip


def file_names(index: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the CSV files that an index refers to."""
    return tuple(dict.fromkeys(entry["file"] for entry in index["curves"]))
