"""Our own MPI benchmark program, `stackproof-bench`: how it is called, how its lines are read.

The program's source is in `csrc/`; what it measures is in docs/explanation/benchmark-program.md.
Each of its lines is a JSON object that carries a number and a checksum, so whether a line is whole,
and whether one is missing, is proved here and not guessed.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct, field

from stackproof.bench.programs import stray_output
from stackproof.bench.programs.native_lines import (
    AnyLine,
    EndLine,
    ErrorLine,
    RankLine,
    SeriesLine,
    SkipLine,
    StartLine,
    WrongLine,
    decode,
    facts_of,
    series_of,
    wrong_of,
)
from stackproof.core.value import Value
from stackproof.results.case import Case
from stackproof.results.measurement import Output
from stackproof.results.metrics import CORE, METRICS

EXIT_USAGE = 2
"""Exit code of the program for a bad option."""
EXIT_WORLD = 3
"""Exit code when the number of ranks is not the expected one: singletons, mostly."""
EXIT_VALIDATION = 4
"""Exit code when everything ran and some received bytes were wrong."""
EXIT_MEMORY = 5
"""Exit code when message buffers cannot be had where they were asked for."""

MEMORY_LIMIT = 512 << 20
"""Bytes of message buffers per rank, the program's own default (that of the OSU benchmarks)."""

_MAX_SIZE = 2**31 - 1
_SIDES = 2
_MAX_SIZES = 1024
_MAX_WINDOW = 1 << 16
MAX_SAMPLES = 100_000
"""Samples that our programs take at most: SAMPLES_MAX of their sources."""
_BEGIN = re.compile(rb'\{"kind":"')
_END = re.compile(rb',"crc":"([0-9a-f]{8})"\}')
_MAX_TRIES = 64
_MOST_PIECES = 64
_LONGEST = 1 << 20
_END_BYTES = 24
"""Bytes of what ends a record, of which a part may be in the piece before."""


class StackproofBench(Value, kw_only=False):
    """The member of the family; see `stackproof.bench.programs.Benchmark`."""

    name: str = "stackproof-bench"

    def problems(self, case: Case) -> tuple[str, ...]:
        """Return the parts of a case that this program cannot do, in words."""
        return (*_problems(case), *_memory_problems(case), *_limits(case))

    def argv(self, program: str, case: Case) -> tuple[str, ...]:
        """Return the command line of one rank."""
        sizes = ",".join(str(size) for size in dict.fromkeys(case.sizes))
        return (
            program,
            "--benchmarks", ",".join(dict.fromkeys(case.benchmarks)),
            *(("--sizes", sizes) if sizes else ()),
            "--samples", str(case.samples),
            "--seconds-per-size", repr(float(case.seconds_per_size)),
            "--window", str(case.window),
            "--expect-ranks", str(len(case.placement.ranks)),
            "--check", _check_level(case),
            *(("--timing", case.timing) if case.timing else ()),
            *(("--memory", ",".join(dict.fromkeys(case.memory))) if case.memory else ()),
        )  # fmt: skip

    def parse(self, stdout: bytes, case: Case) -> Output:
        """Return the results that the program printed; never raises."""
        return read_lines(self.name, stdout, case)


BENCHMARK = StackproofBench()


def read_lines(program: str, stdout: bytes, case: Case) -> Output:
    """Return the results that a program printed in such lines; never raises.

    A record counts only when its checksum is right and it belongs to the case. When more than
    one world spoke (singletons), no series is returned: it could not be said whose it is.
    """
    found = _read(stdout)
    records = _one_of_each(found)
    series = [r for r in records if isinstance(r, SeriesLine) and _fits(r, case)]
    strangers = [r for r in records if isinstance(r, SeriesLine) and not _fits(r, case)]
    for stranger in strangers:
        found.garbage.add(f"a series that was not asked for: {stranger}")
    for error in (r for r in records if isinstance(r, ErrorLine)):
        found.garbage.add(f"{program}: {error.message}")
    ranks = [r for r in records if isinstance(r, RankLine)]
    start = next((r for r in records if isinstance(r, StartLine)), None)
    end = next((r for r in records if isinstance(r, EndLine)), None)
    one_world = len(found.worlds) == 1
    wrong = sum(r.errors for r in series)
    complete = one_world and not strangers and _is_complete(records, case)
    return Output(
        program=program,
        program_version=start.version if start else "",
        mpi_library=start.mpi_library if start else "",
        world_size=start.world_size if start else 0,
        worlds=len(found.worlds),
        clock=start.clock if start else {},
        ranks=tuple(facts_of(r) for r in ranks) if one_world else (),
        series=tuple(series_of(r) for r in series) if one_world else (),
        complete=complete,
        validation_errors=max(wrong, end.errors if end else 0),
        wrong=tuple(wrong_of(r) for r in records if isinstance(r, WrongLine)) if one_world else (),
        garbage=found.garbage.lines,
        skipped={f"{r.benchmark} {r.size}": r.reason for r in records if isinstance(r, SkipLine)},
        refused={r.reason: r.message for r in records if isinstance(r, ErrorLine)},
    )


def _check_level(case: Case) -> str:
    return "all" if case.validate else "sample" if case.spot_check else "none"


def basic_problems(case: Case, known: Iterable[str], unknown: str) -> Iterator[str]:
    """Yield what no program can do; `unknown` says that it has not the benchmark `{name}`."""
    ranks, names = len(case.placement.ranks), {*known}
    yield from (unknown.format(name=name) for name in case.benchmarks if name not in names)
    if not case.benchmarks:
        yield "no benchmark is asked for"
    if ranks < 2:
        yield f"the placement has {ranks} ranks; at least two are needed"
    if not case.sizes and any(n in CORE and CORE[n].sized for n in case.benchmarks):
        yield "no message size is asked for"


def _problems(case: Case) -> Iterator[str]:
    ranks = len(case.placement.ranks)
    unknown = f"there is no benchmark `{{name}}`; known are: {', '.join(CORE)}"
    yield from basic_problems(case, CORE, unknown)
    largest = max(case.sizes, default=0)
    for name, copies in (("alltoall", 2 * ranks), ("allgather", ranks + 1)):
        if name in case.benchmarks and largest * copies > MEMORY_LIMIT:
            yield (
                f"{name} of {largest} bytes over {ranks} ranks needs {largest * copies} bytes of "
                f"buffers per rank; the limit is {MEMORY_LIMIT}"
            )


def _memory_problems(case: Case) -> Iterator[str]:
    if len(set(case.memory)) <= 1:
        return
    if len(case.placement.ranks) > _SIDES:
        yield "two kinds of memory are for two ranks, one with each"
    kinds = {name: CORE[name].kind for name in case.benchmarks if name in CORE}
    if shared := [name for name, kind in kinds.items() if kind == "collective"]:
        yield f"the ranks of a collective have one kind of memory: {', '.join(shared)}"


def _limits(case: Case) -> Iterator[str]:
    """Yield what the program's options would refuse."""
    if len(set(case.sizes)) > _MAX_SIZES:
        yield f"there are more than {_MAX_SIZES} sizes"
    if any(not 0 <= size <= _MAX_SIZE for size in case.sizes):
        yield f"a message size must be between 0 and {_MAX_SIZE} bytes"
    if not 1 <= case.window <= _MAX_WINDOW:
        yield f"the window must be between 1 and {_MAX_WINDOW} messages"
    if not 1 <= case.samples <= MAX_SAMPLES:
        yield f"the number of samples must be between 1 and {MAX_SAMPLES}"
    if not 0 < case.seconds_per_size <= 86400:
        yield "the seconds per size must be more than 0 and at most 86400"


class _Found(Struct):
    """Whole records as they came, with the bytes they were made of, and the rest."""

    records: list[tuple[bytes, AnyLine]] = field(default_factory=list)
    garbage: stray_output.Garbage = field(default_factory=stray_output.Garbage)

    @property
    def worlds(self) -> frozenset[str]:
        return frozenset(record.run for _, record in self.records)


def _read(stdout: bytes) -> _Found:
    found = _Found()
    for line in _mended(stdout.split(b"\n")):
        rest = b""
        position = 0
        for begin, end, record in _records(line):
            rest += line[position:begin]
            position = end
            found.records.append((line[begin:end], record))
        rest += line[position:]
        found.garbage.add(stray_output.split_label(rest.decode(errors="replace"))[1])
    return found


def _mended(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines, those that a launcher cut in pieces as one: their checksum proves it.

    srun with labels ends a line after 1024 bytes (SLURM_IO_MAX_MSG_LEN) and begins another.
    """
    held: list[bytes] = []
    for line in lines:
        if held and (whole := _whole(held, line)):
            yield whole
            held = []
            continue
        begins = _BEGIN.match(line) is not None and _END.search(line) is None
        if held and (begins or len(held) == _MOST_PIECES or sum(map(len, held)) > _LONGEST):
            yield from held
            held = []
        if held or begins:
            held.append(line)
        else:
            yield line
    yield from held


def _whole(held: list[bytes], line: bytes) -> bytes:
    """Return the pieces and what ends them as one line if that is a record, else nothing."""
    end = _END.search(line)
    if end is None and _END.search(held[-1][-_END_BYTES:] + line) is None:
        return b""
    joined = b"".join((*held, line))
    found = next(_records(joined), None)
    return joined if found is not None and found[0] == 0 else b""


def _records(line: bytes) -> Iterator[tuple[int, int, AnyLine]]:
    """Yield where each whole record of a line stands, and the record.

    A record that was cut may stand before a whole one on the same line, so every beginning is
    tried; the number of tries is bounded, so that a hostile line costs no more than a long one.
    """
    position = 0
    for _ in range(_MAX_TRIES):
        begin = _BEGIN.search(line, position)
        end = _END.search(line, begin.end()) if begin else None
        if begin is None or end is None:
            return
        record = _decode(line[begin.start() : end.end()], end.start() - begin.start(), end[1])
        if record is None:
            position = begin.end()
        else:
            yield begin.start(), end.end(), record
            position = end.end()


def _decode(text: bytes, checked: int, checksum: bytes) -> AnyLine | None:
    if zlib.crc32(text[:checked]) != int(checksum, 16):
        return None
    try:
        record: AnyLine = decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return record


def _one_of_each(found: _Found) -> list[AnyLine]:
    """Return the records by number, a repeated line once; two that disagree are both dropped."""
    by_key: dict[tuple[str, int], set[bytes]] = {}
    for text, record in found.records:
        by_key.setdefault((record.run, record.n), set()).add(text)
    kept: dict[tuple[str, int], AnyLine] = {}
    for text, record in found.records:
        key = (record.run, record.n)
        if len(by_key[key]) > 1 or key in kept:
            found.garbage.add(f"said twice: {text.decode(errors='replace')}")
        else:
            kept[key] = record
    return sorted(kept.values(), key=lambda record: record.n)


def _fits(record: SeriesLine, case: Case) -> bool:
    metric = METRICS.get(record.benchmark)
    return (
        metric is not None
        and record.benchmark in case.benchmarks
        and record.unit == metric.unit
        and (record.size in case.sizes if metric.sized else record.size == 0)
        and record.iterations > 0
        and bool(record.values)
        and all(math.isfinite(value) and value > 0 for value in record.values)
    )


def _is_complete(records: list[AnyLine], case: Case) -> bool:
    """Return whether one world spoke from its start to its end, of all that the case asks."""
    numbers = [record.n for record in records]
    start = next((r for r in records if isinstance(r, StartLine)), None)
    end = records[-1] if records and isinstance(records[-1], EndLine) else None
    if start is None or end is None or end.records != len(records):
        return False
    ranks = [r.rank for r in records if isinstance(r, RankLine)]
    told = [(r.benchmark, r.size) for r in records if isinstance(r, SeriesLine | SkipLine)]
    wanted = {
        (name, size)
        for name in case.benchmarks
        for size in (case.sizes if name not in METRICS or METRICS[name].sized else (0,))
    }
    return (
        numbers == list(range(len(records)))
        and len(ranks) == start.world_size
        and ranks == list(range(len(ranks)))
        and len(told) == len(set(told))
        and set(told) == wanted
        and not any(isinstance(r, ErrorLine) for r in records)
    )
