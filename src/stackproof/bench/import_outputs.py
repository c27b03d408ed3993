"""Output files of OSU and IMB to results, as if they had been measured here.

Where ranks ran and in which memory the messages lay is what the user says: it cannot be read off
an output, and is never guessed from the numbers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from stackproof.bench.import_places import ImportSetup, contradictions, metrics_of, placement_of
from stackproof.bench.programs import imb, osu, tables
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

FILE = "imported from"
"""The fact of a launch that says which output it is from."""
_SUBJECTS = 6
"""So many names of tables stand in one note."""
_ALIKE = {
    "window": "the window",
    "datatype": "the datatype",
    "pairs": "the number of pairs",
}
"""What headings say of a run, and what must be the same where two are compared."""


class OutputFile(Value):
    """A file of an arm; `name` is its path as the user wrote it."""

    arm: str
    name: str
    text: str


class Remark(Value):
    """A line of a file and what is to say of it; `subject` is the title of its table, or empty."""

    file: str
    line: int
    text: str
    subject: str = ""
    hint: str = ""


class Imported(Value):
    """The results, and a line for each kind of thing that was read and does not count.

    `tables` is how many the files hold, `usable` how many of them count.
    """

    results: Results
    tables: int
    usable: int
    notes: tuple[str, ...]


def import_outputs(
    files: Sequence[OutputFile], setup: ImportSetup, before: Results | None = None
) -> Imported:
    """Return the measurements that files hold: each table is one launch.

    The n-th table of a benchmark in an arm belongs to block n. `before` are imported results that
    they are added to: other arms, paths and placements, and launches of an arm that is there become
    further blocks. Raises `StackproofError`: NO_RESULTS when no table can be used, with a problem
    for each file; USAGE for results that were measured here and for a baseline that is no arm;
    INVALID_VALUE when a file contradicts the setup, or does not go with what is there.
    """
    known = sorted(before.measurements, key=lambda launch: launch.order) if before else []
    blocks = Counter({_place_of(launch): launch.block for launch in known})
    remarks: list[Remark] = []
    contrary: list[Remark] = []
    measurements: list[Measurement] = []
    printed = [(file, tables.read(file.text).tables) for file in files]
    for file, own in printed:
        for table, crash in zip(own, _crashes(file, own), strict=True):
            for text, hint in contradictions(table, setup):
                contrary.append(_remark(file, table, text, hint))
            remarks += _table_remarks(file, table, setup)
            placement = placement_of(table, setup)
            if metrics_of(table) and isinstance(placement, Placement):
                launch = _measurement(file, table, setup, placement, crash)
                blocks[_place_of(launch)] += 1
                measurements.append(replace(launch, block=blocks[_place_of(launch)]))
                remarks += [_remark(file, table, text) for text in _check_notes(launch)]
    problems = [*_impossible(setup), *(_nothing(file) for file, own in printed if not own)]
    problems += _summarise_problems(contrary)
    problems += [] if problems else unlike((*known, *measurements))
    problems += adding_problems(before, measurements, setup.fabric) if before else []
    notes = [*summarise(remarks)]
    _require(measurements, problems, notes)
    launches = (*known, *measurements)
    numbered = tuple(replace(launch, order=order) for order, launch in enumerate(launches, 1))
    return Imported(
        results=Results(spec=_spec(numbered, setup, before), measurements=numbered),
        tables=sum(len(own) for _, own in printed),
        usable=sum(launch.usable for launch in measurements),
        notes=(*notes, *_validation_note(measurements)),
    )


def _place_of(launch: Measurement) -> tuple[str, str, str]:
    return launch.arm, launch.case.placement.name, launch.case.benchmarks[0]


def unlike(measurements: Sequence[Measurement]) -> Iterator[Problem]:
    """Yield the differences of tables that would be one arm, or be compared with each other.

    Only what both say can differ: releases of a benchmark do not print the same.
    """
    seen: dict[tuple[str, ...], dict[str, Measurement]] = {}
    for launch in measurements:
        case = launch.case
        for benchmark in case.benchmarks:
            for fact in _ALIKE.keys() & launch.host_facts.keys():
                key = (case.placement.name, case.program, benchmark, fact)
                seen.setdefault(key, {}).setdefault(launch.host_facts[fact], launch)
    for (placement, _, benchmark, fact), values in seen.items():
        for (first, launch), (second, other) in pairwise(values.items()):
            arms = ", ".join(dict.fromkeys((f"`{launch.arm}`", f"`{other.arm}`")))
            yield Problem(
                reason=Reason.INVALID_VALUE,
                message=f"{benchmark} at {placement}: {_ALIKE[fact]} is {first} in "
                f"{launch.host_facts[FILE]} and {second} in {other.host_facts[FILE]} "
                f"({arms}), so these are not to be compared",
                hint="import runs that were made alike; each kind into a folder of its own",
                where=Location(file=other.host_facts[FILE]),
            )


def adding_problems(
    before: Results, launches: Iterable[Measurement], fabric: str
) -> Iterator[Problem]:
    """Yield the problems of adding launches to results, each once.

    `fabric` is that of the site that they were made on, empty when not known.
    """
    if before.problems or any(FILE not in one.host_facts for one in before.measurements):
        yield Problem(
            reason=Reason.USAGE,
            message="these results were not imported, or cannot be read whole",
            hint="import into a folder of its own",
        )
        return
    yield from dict.fromkeys(_clashes(before, launches))
    known = before.spec.host.get("fabric", fabric)
    if fabric and known != fabric:
        names = " and ".join(f"`{name}`" for name in sorted((fabric, known)))
        yield Problem(
            reason=Reason.INVALID_VALUE,
            message=f"the sites have different fabrics: {names}",
            hint="import results of another machine into a folder of their own",
        )


def _clashes(before: Results, launches: Iterable[Measurement]) -> Iterator[Problem]:
    """Yield the launches that are there already, or took another path than those of their arm."""
    paths = {(m.arm, m.case.placement.name, m.case.program): m for m in before.measurements}
    seen = {(m.arm, m.case.placement.name, m.output.series) for m in before.measurements}
    for launch in launches:
        arm, name, path = launch.arm, launch.case.placement.name, launch.case.transport
        other = paths.get((arm, name, launch.case.program))
        if other is not None and other.case.transport != path:
            message = (
                f"`{arm}` has the transport `{other.case.transport}` at `{name}`, not `{path}`"
            )
            hint = "give each path an arm of its own with --arm"
        elif (arm, name, launch.output.series) in seen:
            message = f"the same table is among the launches of `{arm}` at `{name}` already"
            hint = "give each output once"
        else:
            continue
        where = Location(file=launch.host_facts[FILE])
        yield Problem(reason=Reason.INVALID_VALUE, message=message, hint=hint, where=where)


# --- remarks --------------------------------------------------------------------------------


def summarise(remarks: Iterable[Remark]) -> Iterator[str]:
    """Yield a note for each kind of remark, numbers and rows apart, with the place of the first."""
    for first, *others in _by_kind(remarks):
        subject = f"{first.subject}: " if first.subject else ""
        yield f"{first.file}:{first.line}: {subject}{first.text}{_more(first, others)}"


def _summarise_problems(contrary: Iterable[Remark]) -> Iterator[Problem]:
    for first, *others in _by_kind(contrary):
        more = f"; so with {len(others)} more tables" if others else ""
        yield Problem(
            reason=Reason.INVALID_VALUE,
            message=f"{first.subject}: {first.text}{more}",
            hint=first.hint,
            where=Location(file=first.file, line=first.line, column=1),
        )


def _by_kind(remarks: Iterable[Remark]) -> Iterable[list[Remark]]:
    groups: dict[str, list[Remark]] = {}
    for remark in remarks:
        groups.setdefault(re.sub(r"\d+|`[^`]*`$", "", remark.text), []).append(remark)
    return groups.values()


def _more(first: Remark, others: list[Remark]) -> str:
    """Return the sentence on further places of the same remark."""
    if not others:
        return ""
    names = [*dict.fromkeys(other.subject for other in others if other.subject != first.subject)]
    few = ", ".join(names[:_SUBJECTS]) + (", …" if len(names) > _SUBJECTS else "")
    files = {first.file, *(other.file for other in others)}
    last = f"line {others[-1].line}" if len(files) == 1 else f"{others[-1].file}:{others[-1].line}"
    places = f"{len(others)} more place{'s' if len(others) > 1 else ''}"
    where = f" of {len(files)} files" if len(files) > 1 else ""
    return f"; the same at {places}{where}, to {last}" + (f": {few}" if few else "")


def _remark(file: OutputFile, table: PrintedTable, text: str, hint: str = "") -> Remark:
    return Remark(file=file.name, line=table.line, text=text, subject=table.title, hint=hint)


def _table_remarks(file: OutputFile, table: PrintedTable, setup: ImportSetup) -> Iterator[Remark]:
    """Yield the parts of a table that do not count, or that may be meant otherwise."""
    first = _rows(table)
    for row in table.rows:
        if row not in first:
            text = f"left out, its size stands here twice: `{' '.join(row.printed.values())}`"
            yield Remark(file=file.name, line=row.line, text=text)
    for fault in table.faults:
        text = f"left out, {fault.why}: `{fault.text}`"
        yield Remark(file=file.name, line=fault.line, text=text)
    placement = placement_of(table, setup)
    if not metrics_of(table):
        yield _remark(file, table, _why_no_metric(table))
    elif isinstance(placement, str):
        yield _remark(file, table, placement)
    elif table.accelerator and setup.memory is BufferPlace.HOST:
        text = f"the title says {table.accelerator}; if its buffers were on the device, "
        yield _remark(file, table, f"{text}import it apart with `--memory device`")


def _why_no_metric(table: PrintedTable) -> str:
    """Return the reason for leaving out a table without a metric."""
    section = imb.SECTIONS.get(table.title) if table.program == tables.IMB else None
    if not table.rows:
        return "no row stands below its title"
    if section is None and not osu.benchmark_of(table.title):
        return "no benchmark here measures this"
    if section is None:
        return f"its columns are not known: {', '.join(table.columns)}"
    if not imb.has_columns_of(section, table):
        return "its columns are not those of IMB-MPI1"
    if table.facts.get("processes") != "2":
        return "it adds up all pairs, which is no rate of one pair"
    return "its MB are not known to be 10^6 bytes: before release 2018 they were 2^20"


def _check_notes(launch: Measurement) -> list[str]:
    """Return the words of checks that the user must know."""
    return [
        f"{check.name}: {check.evidence}"
        for check in launch.checks
        if check.state is State.BAD or (check.name == "output" and check.state is not State.OK)
    ]


def _validation_note(measurements: Sequence[Measurement]) -> Iterator[str]:
    """Yield that some arms looked at the bytes and others did not, which costs time."""
    with_it = sorted({launch.arm for launch in measurements if launch.case.validate})
    without = sorted({launch.arm for launch in measurements if not launch.case.validate})
    if with_it and without:
        yield (
            f"{', '.join(with_it)}: with validation; {', '.join(without)}: without. OSU fills "
            "buffers and waits before each message when it validates, so that rates differ for "
            "that reason"
        )


# --- problems -------------------------------------------------------------------------------


def _impossible(setup: ImportSetup) -> list[Problem]:
    """Return the problems of a placement that ranks cannot have had."""
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


def _nothing(file: OutputFile) -> Problem:
    kind = kinds.kind_of_text(file.text[: limits.KIND.bytes])
    return kinds.problem(kind, "output", file.name, Reason.NO_RESULTS) or Problem(
        reason=Reason.NO_RESULTS,
        message="no table of OSU or IMB-MPI1 is in this file",
        hint="a table begins with `# OSU MPI … Test` or `# Benchmarking …`; keep these lines",
        where=Location(file=file.name),
    )


def _require(
    measurements: Sequence[Measurement], problems: Sequence[Problem], notes: Sequence[str]
) -> None:
    if problems:
        raise StackproofError(*problems)
    if not any(launch.usable for launch in measurements):
        reasons = {check.reason for launch in measurements for check in launch.checks}
        wrong = Reason.VALIDATION_FAILED in reasons
        raise fail(
            Reason.VALIDATION_FAILED if wrong else Reason.NO_RESULTS,
            "no table of these files can be used",
            detail="\n".join(notes[:20]) or None,
            hint="messages arrived changed: this MPI cannot be used on this path"
            if wrong
            else "give the complete output of the benchmark, as it was printed",
        )


# --- launches -------------------------------------------------------------------------------


def _crashes(file: OutputFile, own: Sequence[PrintedTable]) -> Iterator[str]:
    """Yield the words of a crash behind each table, empty where there are none."""
    lines = file.text.split("\n")
    starts = [table.line for table in own]
    for start, end in pairwise([*starts, len(lines) + 1]):
        yield messages.crashed("\n".join(lines[start : end - 1]))


def _rows(table: PrintedTable) -> tuple[TableRow, ...]:
    """Return the rows of a table, of each size the first."""
    rows: dict[int, TableRow] = {}
    for row in table.rows:
        rows.setdefault(row.size, row)
    return tuple(rows.values())


def _measurement(
    file: OutputFile, table: PrintedTable, setup: ImportSetup, placement: Placement, crash: str
) -> Measurement:
    metrics, rows = metrics_of(table), _rows(table)
    series = tuple(
        Series(
            benchmark=metric,
            size=row.size,
            unit=METRICS[metric].unit,
            values=(value,),
            iterations=int(row.values.get("#repetitions") or row.values.get("Iterations") or 0),
            validated=row.size if row.printed.get("Validation") == "Pass" else None,
        )
        for metric, column in metrics
        for row in rows
        if (value := row.values[column]) is not None and value > 0
    )
    return Measurement(
        arm=file.arm,
        block=0,
        order=0,
        case=Case(
            program=table.program,
            benchmarks=tuple(metric for metric, _ in metrics),
            sizes=tuple(dict.fromkeys(one.size for one in series if METRICS[one.benchmark].sized)),
            placement=placement,
            transport=setup.transport,
            samples=1,
            validate=any("Validation" in row.printed for row in rows),
        ),
        output=Output(
            program=table.program,
            program_version=table.version,
            world_size=len(placement.ranks),
            worlds=1,
            series=series,
            complete=table.ended,
        ),
        checks=tuple(_checks(table, series, placement, crash)),
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


def _checks(
    table: PrintedTable, series: Sequence[Series], placement: Placement, crash: str
) -> Iterator[Check]:
    by_user = f"as the user says: {placement.locality}, {len(placement.ranks)} ranks"
    yield _output_check(table, crash)
    yield _validation_check(table.rows)
    yield Check(name="placement", state=State.UNKNOWN, evidence=by_user)
    by_output = "an output does not show which way messages took"
    yield Check(name="transport", state=State.UNKNOWN, evidence=by_output)
    if not series:
        yield _bad("results", Reason.NO_RESULTS.value, "no row has a value above zero")


def _bad(name: str, reason: str, evidence: str) -> Check:
    return Check(name=name, state=State.BAD, reason=reason, evidence=evidence)


def _output_check(table: PrintedTable, crash: str) -> Check:
    if table.reason:
        return _bad("output", table.reason, table.evidence)
    if crash:
        evidence = f"it does not count: behind it stands `{crash}`"
        return _bad("output", Reason.RANK_CRASHED.value, evidence)
    cut = imb.may_be_cut(table) if table.program == tables.IMB else osu.may_be_cut(table)
    evidence = f"{len(table.rows)} rows"
    if table.faults:
        evidence = f"{len(table.faults)} of its lines do not count; {len(table.rows)} rows do"
    elif cut:
        evidence = f"it may have been cut: {cut}"
    state = State.UNKNOWN if table.faults or cut else State.OK
    return Check(name="output", state=state, evidence=evidence)


def _validation_check(rows: Sequence[TableRow]) -> Check:
    answers = {row.printed.get("Validation") for row in rows}
    if "Fail" in answers:
        return _bad("validation", Reason.VALIDATION_FAILED.value, "a row says Fail")
    if answers == {"Pass"}:
        return Check(name="validation", state=State.OK, evidence="every row says Pass")
    evidence = "the benchmark did not look at the bytes"
    return Check(name="validation", state=State.UNKNOWN, evidence=evidence)


def _spec(
    launches: Sequence[Measurement], setup: ImportSetup, before: Results | None
) -> ResultsSpec:
    spec = before.spec if before else ResultsSpec(
        name=setup.name, baseline="", challengers=(),
        stackproof=setup.stackproof, command=setup.command,
    )  # fmt: skip
    arms = dict.fromkeys((spec.baseline, *spec.challengers) if before else ())
    arms |= dict.fromkeys(launch.arm for launch in launches)
    baseline = setup.baseline or next(iter(arms))
    if baseline not in arms:
        raise fail(
            Reason.USAGE,
            f"the baseline `{baseline}` is no arm of the {'results' if before else 'files'}",
            hint=f"arms are: {', '.join(arms)}",
        )
    placements = (launch.case.placement for launch in launches)
    limits = {
        placement.name: {"MB/s": setup.limit, "source": setup.limit_source}
        for placement in placements
        if setup.limit is not None and placement.locality is Locality.INTER
    }
    paths = {
        arm: dict.fromkeys(
            f"{launch.case.placement.name}: {launch.case.transport}"
            for launch in launches
            if launch.arm == arm
        )
        for arm in arms
    }
    return replace(
        spec,
        baseline=baseline,
        challengers=tuple(arm for arm in arms if arm != baseline),
        arms={
            arm: ComparedArm(transport=", ".join(texts), env=setup.env)
            for arm, texts in paths.items()
        },
        limits={**spec.limits, **limits},
        host={**({"fabric": setup.fabric} if setup.fabric else {}), **spec.host},
        launches=max(launch.block for launch in launches),
        created=setup.created,
    )
