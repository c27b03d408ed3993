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

"""Bytes of one file; outputs of benchmarks are a thousand times smaller."""

_FILE = "imported from"


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
        tables, crash = _tables(file)
        count += len(tables)
        if not tables:
            problems.append(_nothing(file))
        for table in tables:
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
            measurements=_ordered(measurements),
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


def _tables(file: OutputFile) -> tuple[tuple[PrintedTable, ...], str]:
    """Return the tables of a file in their order, and what a crash left of words."""
    found = (*osu.read(file.text).tables, *imb_tables.read(file.text).tables)
    return tuple(sorted(found, key=lambda table: table.line)), messages.crashed(file.text) or ""


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
            _FILE: f"{file.name}, line {table.line}",
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
    if table.faults:
        evidence = f"{len(table.faults)} of its lines do not count; {len(table.rows)} rows do"
        return Check(name="output", state=State.UNKNOWN, evidence=evidence)
    cut = osu.may_be_cut(table) if table.program == osu.PROGRAM else ""
    if crash and cut:
        return Check(name="output", state=State.UNKNOWN, evidence=f"cut: {crash}; {cut}")
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


def _ordered(measurements: Sequence[Measurement]) -> tuple[Measurement, ...]:
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


# --- adding to what was imported before -----------------------------------------------------


def add(before: Results, more: Results, *, baseline: str = "") -> Results:
    """Return results with what a second import found: other arms, paths, placements, launches.

    Launches of an arm that is there already become further blocks. `baseline` names another
    baseline than the one before. Raises `StackproofError`: USAGE for results that were measured
    here and for a baseline that is no arm, INVALID_VALUE for what is there already, or was made on
    another path or another fabric, with all problems at once.
    """
    arms = tuple(dict.fromkeys([*_arms_of(before), *_arms_of(more)]))
    chosen = baseline or before.spec.baseline
    both = (*before.measurements, *more.measurements)
    problems = [*_strangers(before), *_clashes(before, more), *likeness.unlike(both)]
    if chosen not in arms:
        problems.append(
            Problem(
                reason=Reason.USAGE,
                message=f"the baseline `{chosen}` is no arm of the results",
                hint=f"arms are: {', '.join(arms)}",
            )
        )
    if problems:
        raise StackproofError(*problems)
    shifted = _further_blocks(before.measurements, more.measurements)
    known = sorted(before.measurements, key=lambda one: one.order)
    measurements = _ordered((*known, *shifted))
    spec = replace(
        before.spec,
        baseline=chosen,
        challengers=tuple(arm for arm in arms if arm != chosen),
        arms={arm: _joined(before.spec.arms.get(arm), more.spec.arms.get(arm)) for arm in arms},
        limits={**before.spec.limits, **more.spec.limits},
        host={**more.spec.host, **before.spec.host},
        launches=max(one.block for one in measurements),
        created=more.spec.created,
    )
    return Results(spec=spec, measurements=measurements)


def _arms_of(results: Results) -> tuple[str, ...]:
    return (results.spec.baseline, *results.spec.challengers)


def _joined(before: ComparedArm | None, more: ComparedArm | None) -> ComparedArm:
    """Return an arm with the paths of both imports."""
    known = [arm for arm in (before, more) if arm is not None]
    paths = dict.fromkeys(
        text for arm in known for text in str(arm.transport or "").split(", ") if text
    )
    return replace(known[0], transport=", ".join(paths))


def _strangers(before: Results) -> list[Problem]:
    if all(_FILE in one.host_facts for one in before.measurements) and not before.problems:
        return []
    return [
        Problem(
            reason=Reason.USAGE,
            message="these results were not imported, or cannot be read whole",
            hint="import into a folder of its own",
        )
    ]


def _clashes(before: Results, more: Results) -> list[Problem]:
    """Return what cannot be put beside what is there."""
    paths = {(m.arm, m.case.placement.name, m.case.program): m for m in before.measurements}
    seen = {(m.arm, m.case.placement.name, m.output.series) for m in before.measurements}
    found: dict[Problem, None] = {}
    for one in more.measurements:
        where = Location(file=one.host_facts[_FILE])
        name = one.case.placement.name
        other = paths.get((one.arm, name, one.case.program))
        message = hint = ""
        if other is not None and other.case.transport != one.case.transport:
            message = f"`{one.arm}` has the transport `{other.case.transport}` at `{name}`"
            message += f", not `{one.case.transport}`"
            hint = "give each path an arm of its own with --arm"
        elif (one.arm, name, one.output.series) in seen:
            message = f"the same table is among the launches of `{one.arm}` at `{name}` already"
            hint = "give each output once"
        if message:
            problem = Problem(reason=Reason.INVALID_VALUE, message=message, hint=hint, where=where)
            found[problem] = None
    fabrics = {results.spec.host.get("fabric") for results in (before, more)} - {None}
    if len(fabrics) > 1:
        names = " and ".join(f"`{name}`" for name in sorted(map(str, fabrics)))
        problem = Problem(
            reason=Reason.INVALID_VALUE,
            message=f"the sites have different fabrics: {names}",
            hint="import results of another machine into a folder of their own",
        )
        found[problem] = None
    return list(found)


def _further_blocks(
    before: Sequence[Measurement], more: Sequence[Measurement]
) -> list[Measurement]:
    """Return launches whose blocks follow those that their arm has at their placement."""
    last: Counter[tuple[str, str, str]] = Counter()
    for one in before:
        key = _place_of(one)
        last[key] = max(last[key], one.block)
    return [replace(one, block=one.block + last[_place_of(one)]) for one in more]


def _place_of(one: Measurement) -> tuple[str, str, str]:
    return one.arm, one.case.placement.name, one.case.benchmarks[0]
