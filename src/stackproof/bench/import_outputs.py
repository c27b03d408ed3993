"""Output files of OSU and IMB to results, as if they had been measured here.

Where ranks ran and in which memory the messages lay is what the user says: it cannot be read off
an output, and is never guessed from the numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import field

from stackproof.bench import import_notes, likeness
from stackproof.bench.import_notes import Remark
from stackproof.bench.likeness import Distribution, Whereabouts
from stackproof.bench.programs import imb_tables, osu
from stackproof.bench.programs.tables import PrintedTable, TableRow
from stackproof.core import kinds, limits
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.value import Value, replace
from stackproof.knowledge.reference_curves import BufferPlace
from stackproof.launch.launchers import messages
from stackproof.results.case import Case, Locality, Placement
from stackproof.results.measurement import Check, Measurement, Output, Series, State
from stackproof.results.metrics import METRICS
from stackproof.results.model import ComparedArm, Results, ResultsSpec

_FAR = 2.0
"""So many times another value is hardly another launch of the same."""

FILE = "imported from"


class OutputFile(Value):
    """A file of an arm; `name` is its path as the user wrote it."""

    arm: str
    name: str
    text: str


class ImportSetup(Value):
    """What files do not say: where ranks were, where buffers lay, what the link can carry.

    `limit` is in MB/s in one direction, None when it is not known; `fabric` is a value of
    `site.FabricType`, empty when not known; `created` is UTC ISO 8601. `ranks`, `nodes` and
    `distribution` are those of `Whereabouts`. `transport` is the path that the runs were forced on.
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

    @property
    def where(self) -> Whereabouts:
        """Return what the user says of ranks and buffers."""
        return Whereabouts(
            locality=self.locality,
            memory=self.memory,
            ranks=self.ranks,
            nodes=self.nodes,
            distribution=self.distribution,
        )


class Imported(Value):
    """The results, and a line for each kind of thing that was read and does not count."""

    results: Results
    tables: int
    notes: tuple[str, ...]


def import_outputs(files: Sequence[OutputFile], setup: ImportSetup) -> Imported:
    """Return the measurements that files hold: each table is one launch.

    The n-th table of a benchmark in an arm belongs to block n. Raises `StackproofError`
    (NO_RESULTS) when no table can be used, with a problem for each file, and INVALID_VALUE when a
    file contradicts the setup.
    """
    remarks: list[Remark] = []
    measurements: list[Measurement] = []
    problems, contradictions = _impossible(setup), list[Problem]()
    blocks: Counter[tuple[str, str, str]] = Counter()
    count = 0
    for file in files:
        tables = _tables(file)
        count += len(tables)
        if not tables:
            problems.append(_nothing(file))
        remarks += _unlike_tables(file, tables)
        for table, crash in tables:
            contradictions += likeness.contradictions(file.name, table, setup.where)
            remarks += _heard(file, table, setup)
            metrics, placement = _metrics(table), likeness.placement_of(table, setup.where)
            if not metrics or isinstance(placement, str):
                continue
            key = (file.arm, metrics[0][0], placement.name)
            blocks[key] += 1
            made = _measurement(file, table, setup, (blocks[key], placement), crash)
            measurements.append(made)
            remarks += [_remark(file, table, text) for text in _check_notes(made)]
    problems += import_notes.summarise_problems(contradictions)
    problems += [] if problems else [*likeness.unlike(measurements)]
    notes = [*import_notes.summarise(remarks)]
    _require(measurements, problems, notes)
    if text := likeness.validation_note(measurements):
        notes.append(text)
    return Imported(
        results=Results(
            spec=replace(
                _spec(files, setup, [one.case.placement for one in measurements]),
                launches=max(blocks.values(), default=1),
            ),
            measurements=ordered(measurements),
        ),
        tables=count,
        notes=tuple(notes),
    )


def _heard(file: OutputFile, table: PrintedTable, setup: ImportSetup) -> Iterator[Remark]:
    """Yield what of a table does not count, or may be meant otherwise."""
    for fault in table.faults:
        text = f"left out, {fault.why}: `{fault.text}`"
        yield Remark(file=file.name, line=fault.line, text=text)
    if not _metrics(table):
        yield _remark(file, table, import_notes.why_no_metric(table))
        return
    if table.accelerator and setup.memory is BufferPlace.HOST:
        text = f"the title says {table.accelerator}; if its buffers were on the device, "
        yield _remark(file, table, f"{text}import it apart with `--memory device`")
    placement = likeness.placement_of(table, setup.where)
    if isinstance(placement, str):
        yield _remark(file, table, placement)


def _remark(file: OutputFile, table: PrintedTable, text: str) -> Remark:
    return Remark(file=file.name, line=table.line, text=text, subject=table.title)


def _check_notes(made: Measurement) -> list[str]:
    """Return what the checks of a table say that the user must know."""
    return [
        f"{check.name}: {check.evidence}"
        for check in made.checks
        if check.state is State.BAD or (check.name == "output" and check.state is not State.OK)
    ]


def _impossible(setup: ImportSetup) -> list[Problem]:
    """Return why ranks cannot have been placed as the user says."""
    nodes, message, hint = setup.nodes, "", ""
    inside = setup.locality is Locality.INTRA
    if nodes is None:
        if not inside and (setup.ranks or 2) > 2:
            message = f"{setup.ranks} ranks between nodes may have been on 2 to {setup.ranks} nodes"
            hint = "say on how many with --nodes"
    elif (nodes == 1) != inside or nodes < 1:
        message = f"{nodes} nodes are not `{setup.locality}`"
        hint = "intra-node is one node, inter-node two or more"
    elif setup.ranks and setup.ranks % nodes:
        message = f"{setup.ranks} ranks cannot be divided among {nodes} nodes"
        hint = "give runs with the same number of ranks on each node"
    return [Problem(reason=Reason.USAGE, message=message, hint=hint)] if message else []


def _require(
    measurements: Sequence[Measurement], problems: Sequence[Problem], notes: Sequence[str]
) -> None:
    if problems:
        raise StackproofError(*problems)
    if not any(one.usable for one in measurements):
        wrong = any(
            check.reason == Reason.VALIDATION_FAILED for one in measurements for check in one.checks
        )
        raise fail(
            Reason.VALIDATION_FAILED if wrong else Reason.NO_RESULTS,
            "no table of these files can be used",
            detail="\n".join(notes[:20]) or None,
            hint="messages arrived changed: this MPI cannot be used on this path"
            if wrong
            else "give the complete output of the benchmark, as it was printed",
        )


def _tables(file: OutputFile) -> list[tuple[PrintedTable, str]]:
    """Return the tables of a file in their order, each with the words of a crash behind it."""
    found = (*osu.read(file.text).tables, *imb_tables.read(file.text).tables)
    ordered = sorted(found, key=lambda table: table.line)
    lines = file.text.split("\n")
    ends = [table.line - 1 for table in ordered[1:]] + [len(lines)]
    return [
        (table, messages.crashed("\n".join(lines[table.line : end])))
        for table, end in zip(ordered, ends, strict=False)
    ]


def _unlike_tables(
    file: OutputFile, tables: Sequence[tuple[PrintedTable, str]]
) -> Iterator[Remark]:
    """Yield that two tables of a file can hardly be launches of the same setup."""
    seen: dict[tuple[str, int, str], tuple[float, int]] = {}
    for table, _ in tables:
        for metric, column in _metrics(table):
            for row in table.rows:
                value = row.values.get(column) or 0.0
                key = (metric, row.size, table.facts.get("processes", ""))
                first, line = seen.setdefault(key, (value, row.line))
                if min(first, value) > 0 and max(first, value) > _FAR * min(first, value):
                    text = (
                        f"{metric} of {row.size} bytes is {value:g} here and {first:g} in line "
                        f"{line}: both count as launches of one arm; if their settings differ, "
                        "import each from a file of its own with --arm"
                    )
                    yield Remark(file=file.name, line=row.line, text=text, subject=table.title)
                    return


def _metrics(table: PrintedTable) -> tuple[tuple[str, str], ...]:
    if table.program == imb_tables.PROGRAM:
        return imb_tables.metrics_of(table)
    found = osu.metric_of(table)
    return () if found is None else (found,)


def _nothing(file: OutputFile) -> Problem:
    kind = kinds.kind_of_text(file.text[: limits.KIND.bytes])
    return kinds.problem(kind, "output", file.name, Reason.NO_RESULTS) or Problem(
        reason=Reason.NO_RESULTS,
        message="no table of OSU or IMB-MPI1 is in this file",
        hint="a table begins with `# OSU MPI … Test` or `# Benchmarking …`; keep these lines",
        where=Location(file=file.name),
    )


def _measurement(
    file: OutputFile,
    table: PrintedTable,
    setup: ImportSetup,
    place: tuple[int, Placement],
    crash: str,
) -> Measurement:
    block, placement = place
    series = tuple(
        Series(
            benchmark=metric,
            size=row.size,
            unit=METRICS[metric].unit,
            values=(value,),
            iterations=int(row.values.get("#repetitions") or row.values.get("Iterations") or 0),
            validated=row.size if row.printed.get("Validation") == "Pass" else None,
        )
        for metric, column in _metrics(table)
        for row in table.rows
        if (value := row.values.get(column)) is not None and value > 0
    )
    checks = (*_checks(table, placement, crash), *_empty(series))
    sizes = tuple(dict.fromkeys(one.size for one in series if METRICS[one.benchmark].sized))
    return Measurement(
        arm=file.arm,
        block=block,
        order=0,
        case=Case(
            program=table.program,
            benchmarks=tuple(dict.fromkeys(metric for metric, _ in _metrics(table))),
            sizes=sizes,
            placement=placement,
            transport=setup.transport,
            samples=1,
            validate=any("Validation" in row.printed for row in table.rows),
        ),
        output=Output(
            program=table.program,
            program_version=table.version,
            world_size=len(placement.ranks),
            worlds=1,
            series=series,
            complete=table.ended,
        ),
        checks=checks,
        argv=(),
        env=setup.env,
        started="",
        seconds=0.0,
        host_facts={
            FILE: f"{file.name}, line {table.line}",
            "memory": setup.memory.value,
            **({"accelerator": table.accelerator} if table.accelerator else {}),
            **table.facts,
        },
    )


def _checks(table: PrintedTable, placement: Placement, crash: str) -> tuple[Check, ...]:
    said = f"as the user says: {placement.locality}, {len(placement.ranks)} ranks"
    return (
        _output_check(table, crash),
        _validation_check(table.rows),
        Check(name="placement", state=State.UNKNOWN, evidence=said),
        Check(
            name="transport",
            state=State.UNKNOWN,
            evidence="an output does not show which way messages took",
        ),
    )


def _output_check(table: PrintedTable, crash: str) -> Check:
    if table.reason:
        return Check(name="output", state=State.BAD, reason=table.reason, evidence=table.evidence)
    if crash:
        reason, evidence = (
            Reason.RANK_CRASHED.value,
            f"it does not count: behind it stands `{crash}`",
        )
        return Check(name="output", state=State.BAD, reason=reason, evidence=evidence)
    if table.faults:
        evidence = f"{len(table.faults)} of its lines do not count; {len(table.rows)} rows do"
        return Check(name="output", state=State.UNKNOWN, evidence=evidence)
    cut = (osu if table.program == osu.PROGRAM else imb_tables).may_be_cut(table)
    if cut:
        return Check(name="output", state=State.UNKNOWN, evidence=f"it may have been cut: {cut}")
    return Check(name="output", state=State.OK, evidence=f"{len(table.rows)} rows")


def _validation_check(rows: Sequence[TableRow]) -> Check:
    answers = {row.printed.get("Validation") for row in rows}
    if answers == {"Pass"}:
        return Check(name="validation", state=State.OK, evidence="every row says Pass")
    if "Fail" in answers:
        return Check(
            name="validation",
            state=State.BAD,
            reason=Reason.VALIDATION_FAILED.value,
            evidence="a row says Fail",
        )
    return Check(
        name="validation", state=State.UNKNOWN, evidence="the benchmark did not look at the bytes"
    )


def _empty(series: Sequence[Series]) -> tuple[Check, ...]:
    if series:
        return ()
    return (
        Check(
            name="results",
            state=State.BAD,
            reason=Reason.NO_RESULTS.value,
            evidence="no row has a value above zero",
        ),
    )


def ordered(measurements: Sequence[Measurement]) -> tuple[Measurement, ...]:
    """Return measurements, numbered in their order from 1."""
    return tuple(replace(one, order=order) for order, one in enumerate(measurements, 1))


def _spec(
    files: Sequence[OutputFile], setup: ImportSetup, placements: Sequence[Placement]
) -> ResultsSpec:
    arms = tuple(dict.fromkeys(file.arm for file in files))
    baseline = setup.baseline or arms[0]
    if baseline not in arms:
        raise fail(
            Reason.USAGE,
            f"the baseline `{baseline}` is no arm of the files",
            hint=f"arms are: {', '.join(arms)}",
        )
    limit = {"MB/s": setup.limit, "source": setup.limit_source}
    names = {placement.name: placement.locality for placement in placements}
    paths = ", ".join(f"{name}: {setup.transport}" for name in names)
    return ResultsSpec(
        name=setup.name,
        baseline=baseline,
        challengers=tuple(arm for arm in arms if arm != baseline),
        arms={arm: ComparedArm(transport=paths, env=setup.env) for arm in arms},
        limits={
            name: limit
            for name, locality in names.items()
            if setup.limit is not None and locality is Locality.INTER
        },
        host={"fabric": setup.fabric} if setup.fabric else {},
        created=setup.created,
        stackproof=setup.stackproof,
        command=setup.command,
    )
