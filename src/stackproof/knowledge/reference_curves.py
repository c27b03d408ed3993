"""Reference curves: published benchmark results of real machines, as data with their sources.

They are overlaid on measured curves and serve as sanity bands; they never judge another machine.
`knowledge/reference-curves/index.yaml` says what each curve is, CSV files beside it hold the
values as they were printed.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar

from stackproof.core import document as documents
from stackproof.core import noun
from stackproof.core.document import Document
from stackproof.core.errors import Location, Problem, Reason, StackproofError
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


def parse_curves(index: Document, files: Mapping[str, str]) -> tuple[ReferenceCurve, ...]:
    """Return the curves that an index describes; `files` maps CSV names to their text.

    Raises `StackproofError` with every problem of the index and the files at once.
    """
    check_index(index)
    found: list[Problem] = []
    columns = {"curve": str, "size": int, "value": float, "repetitions": int}
    rows = _rows(index, files, columns, found)
    curves = []
    for place, entry in enumerate(index.data.get("curves", [])):
        given = rows.get((entry["file"], entry["id"]), [])
        points = tuple(
            CurvePoint(
                size=int(row["size"]),
                value=float(row["value"]),
                printed=row["value"],
                repetitions=int(row["repetitions"]) if row.get("repetitions") else None,
            )
            for row in given
        )
        sizes = [point.size for point in points]
        if sizes != sorted(set(sizes)) or not sizes:
            fault = "has no values" if not sizes else "has sizes that do not rise"
            found.append(_fault(index, ("curves", place, "id"), f"`{entry['id']}` {fault}"))
        else:
            curves.append(_curve(index, entry, points))
    if found:
        raise StackproofError(*found)
    return tuple(curves)


def check_index(index: Document) -> None:
    """Raise `StackproofError` with everything that is wrong with an index by itself."""
    found = [*documents.problems(index, "reference-curves")]
    if not found:
        seen: set[str] = set()
        for place, entry in enumerate(index.data.get("curves", [])):
            if entry["id"] in seen:
                message = f"the id `{entry['id']}` stands here twice"
                found.append(_fault(index, ("curves", place, "id"), message))
            seen.add(entry["id"])
            if entry["source"] not in index.data["sources"]:
                message = f"`{entry['source']}` is not one of the `sources`"
                found.append(_fault(index, ("curves", place, "source"), message))
    if found:
        raise StackproofError(*found)


def file_names(index: Document) -> tuple[str, ...]:
    """Return the names of the CSV files that a checked index refers to."""
    return tuple(dict.fromkeys(entry["file"] for entry in index.data.get("curves", [])))


def _curve(
    index: Document, entry: Mapping[str, Any], points: tuple[CurvePoint, ...]
) -> ReferenceCurve:
    kept = {key.replace("-", "_"): value for key, value in entry.items() if key != "file"}
    kept["locality"] = Locality(entry["locality"])
    kept["memory"] = BufferPlace(entry["memory"])
    kept["role"] = Role(entry.get("role", Role.REFERENCE))
    kept["source"] = _source(index, entry["source"])
    return ReferenceCurve(points=points, **kept)


def _source(index: Document, name: str) -> Source:
    return noun.from_data(Source, index.data["sources"][name], file=index.file)


def _rows(
    index: Document, files: Mapping[str, str], columns: Mapping[str, Any], found: list[Problem]
) -> dict[tuple[str, str], list[dict[str, str]]]:
    """Return the rows of all files by file and id; add what is wrong to `found`."""
    entries: Sequence[Mapping[str, Any]] = index.data.get("curves", [])
    known = {(entry["file"], entry["id"]) for entry in entries}
    rows: dict[tuple[str, str], list[dict[str, str]]] = {}
    for name in dict.fromkeys(entry["file"] for entry in entries):
        if name not in files:
            place = next(i for i, entry in enumerate(entries) if entry["file"] == name)
            found.append(_fault(index, ("curves", place, "file"), f"`{name}` is not there"))
            continue
        for line, row in _read(name, files[name], columns, found):
            identifier = (name, row[next(iter(columns))])
            if identifier in known:
                rows.setdefault(identifier, []).append(row)
            else:
                found.append(_bad_line(name, line, f"`{identifier[1]}` is not in the index"))
    return rows


def _read(
    name: str, text: str, columns: Mapping[str, Any], found: list[Problem]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield line number and cells of each good row of a CSV text."""
    reader = csv.DictReader(io.StringIO(text), strict=True)
    heads = reader.fieldnames or []
    if not set(heads) <= set(columns) or not set(columns) - {"repetitions"} <= set(heads):
        found.append(_bad_line(name, 1, f"the columns must be: {', '.join(columns)}"))
        return
    try:
        for row in reader:
            bad = [head for head in heads if not _fits(columns[head], row[head])]
            if bad or None in row:
                what = f"`{row[bad[0]]}` is not a {bad[0]}" if bad else "too many cells"
                found.append(_bad_line(name, reader.line_num, what))
            else:
                yield reader.line_num, row
    except csv.Error as error:
        found.append(_bad_line(name, reader.line_num + 1, f"not CSV: {error}"))


def _fits(kind: Any, text: str | None) -> bool:
    """Return True for a cell of its kind: text, or a number above or at zero."""
    if kind is str or not text:
        return bool(text)
    try:
        return bool(0 <= kind(text) < float("inf"))
    except ValueError:
        return False


def _fault(index: Document, path: tuple[str | int, ...], message: str) -> Problem:
    return index.problem(path, message)


def _bad_line(name: str, line: int, message: str) -> Problem:
    where = Location(file=name, line=line, column=1)
    return Problem(reason=Reason.INVALID_VALUE, message=message, where=where)
