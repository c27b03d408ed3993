"""Results to what may be compared, and to everything that may not, with the reason.

A launch that failed a check, that took another path than the others of its arm, or whose ranks
shared CPUs never gets among the observations.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite

from stackproof.compare import integrity, launch_checks, overrule, rank_places
from stackproof.compare.model import ArmLaunch, Curve, Discarded, Validated
from stackproof.compare.resampling import rounded
from stackproof.core.errors import Problem, Reason
from stackproof.core.numbers import size_text
from stackproof.core.value import Value, replace
from stackproof.results.case import Placement
from stackproof.results.measurement import Check, Measurement, Series, State
from stackproof.results.metrics import METRICS, Metric
from stackproof.results.model import Results

# ------------------------- Samples of one launch at one size to what they tell beside their median

STATISTICS = ("mean", "p95", "p99")

SHARES = {"p95": 95, "p99": 99}
_FEWEST = {"mean": 2, "p95": 10, "p99": 50}
"""Samples from which a launch has the statistic."""


class LaunchSamples(Value, kw_only=False):
    """The samples, and `STATISTICS` in `tail`: NaN for those that they are too few for."""

    values: tuple[float, ...]
    tail: tuple[float, ...]


def samples_of(series: Series, metric: Metric) -> LaunchSamples:
    """Return the samples of a launch with their statistics, or those that the program printed.

    Of OSU's `-z` these are the columns `P95 Tail Lat(us)` and, as it sorts bandwidths upwards too,
    `P5 Tail BW(MB/s)`.
    """
    values = series.values
    tail = [math.fsum(values) / len(values) if len(values) >= _FEWEST["mean"] else math.nan]
    ordered: list[float] = []
    for name in STATISTICS[1:]:
        if len(values) >= _FEWEST[name]:
            ordered = ordered or sorted(values, reverse=metric.higher_is_better)
            tail.append(percentile(ordered, SHARES[name]))
        else:
            tail.append(_printed(series, metric, name) if series.printed else math.nan)
    return LaunchSamples(values, tuple(tail))


def _printed(series: Series, metric: Metric, name: str) -> float:
    share = SHARES[name]
    column = f"P{share} Tail Lat(us)"
    if metric.higher_is_better:
        column = f"P{100 - share} Tail BW(MB/s)"
    value = series.printed.get(column, math.nan)
    return value if 0 < value < math.inf else math.nan


def percentile(ordered: Sequence[float], share: int) -> float:
    """Return the value that so many percent of the values, the best first, do not exceed.

    By nearest rank. Of 10 to 19 values the 95th percentile is the worst, of 20 the second: what
    lies beyond is expected to be 5 to 10 percent in each case, so that an arm which got a few
    samples fewer has no advantage.
    """
    return ordered[math.ceil(share * len(ordered) / 100) - 1]


def shown_tails(launches: Sequence[LaunchSamples], *, higher_is_better: bool) -> dict[str, float]:
    """Return the tail's statistics of an arm's launches at one size, without what nobody knows.

    Mean and 95th percentile are the medians over launches; the 99th percentile is that of all
    samples together, from 100 on, as a launch alone has seldom enough for one.
    """
    found = {
        name: statistics.median(each)
        for name, *each in zip(STATISTICS, *(launch.tail for launch in launches), strict=True)
        if not any(map(math.isnan, each))
    }
    values = [value for launch in launches for value in launch.values]
    if len(values) >= 100:
        found["p99"] = percentile(sorted(values, reverse=higher_is_better), SHARES["p99"])
    return {name: rounded(value) for name, value in found.items()}


_REASONS = frozenset(Reason)

Table = dict[tuple[str, str, str], dict[str, dict[int, dict[int, float]]]]
"""(placement, program, benchmark) -> arm -> size -> block -> median of the launch."""

TailTable = dict[tuple[str, str, str], dict[str, dict[int, dict[int, LaunchSamples]]]]
"""The same, with the samples of the launch and the statistics of its tail."""


class CollectedResults(Value, kw_only=False):
    """Usable observations and everything that is not among them.

    `paths` is the transport of each arm at each placement with each program. `tails` has what else
    is known of the launches of the table.
    """

    table: Table
    tails: TailTable
    placements: Mapping[str, Placement]
    paths: Mapping[tuple[str, str, str], str]
    discarded: tuple[Discarded, ...]
    validated: tuple[Validated, ...]
    warm_up: int


def collect(results: Results) -> CollectedResults:
    """Return what of the results may be compared; launches are taken in the order they ran in."""
    table: Table = defaultdict(lambda: defaultdict(lambda: defaultdict(dict)))
    tails: TailTable = defaultdict(lambda: defaultdict(lambda: defaultdict(dict)))
    placements: dict[str, Placement] = {}
    paths: dict[tuple[str, str, str], str] = {}
    discarded = [_unreadable(problem) for problem in results.problems]
    validated: list[Validated] = []
    warm_up = 0
    known = {results.spec.baseline, results.spec.null, *results.spec.challengers}
    for measurement in sorted(results.measurements, key=lambda m: (m.order, m.started)):
        placement = measurement.case.placement
        if not placement.timed:
            validated.append(_validated(measurement))
            continue
        placements[placement.name] = placement
        path = _path(measurement, results, paths)
        if measurement.usable and path != measurement.case.transport:
            discarded.append(_other_path(measurement, path))
        elif not measurement.usable:
            discarded.append(_unusable(measurement))
        elif (void := _void(measurement)) is not None:
            discarded.append(void)
        elif measurement.arm not in known:
            discarded.append(
                _discard(measurement, Reason.INVALID_VALUE, "the specification has no such arm")
            )
        elif measurement.block <= 0:
            warm_up += 1
        else:
            discarded += _enter(measurement, table, tails)
    discarded += _whole_blocks(results.measurements, table, paths)
    return CollectedResults(
        table, tails, placements, paths, tuple(discarded), _last_of_each(validated), warm_up
    )


def _path(
    measurement: Measurement, results: Results, paths: dict[tuple[str, str, str], str]
) -> str:
    """Return the transport that counts for an arm here: that of its first launch.

    The null arm is the baseline once more, so it must have taken the baseline's path.
    """
    case = measurement.case
    keys = [(measurement.arm, case.placement.name, case.program)]
    if measurement.arm in {results.spec.baseline, results.spec.null}:
        keys = [
            (arm, case.placement.name, case.program)
            for arm in (results.spec.baseline, results.spec.null)
            if arm is not None
        ]
    if keys[0] not in paths and measurement.usable:
        paths.update(dict.fromkeys(keys, case.transport))
    return paths.get(keys[0], case.transport)


def _void(measurement: Measurement) -> Discarded | None:
    """Return the reason why a launch that no check refused is not the one that was asked for."""
    output, ranks = measurement.output, len(measurement.case.placement.ranks)
    if not output.complete and not integrity.is_imported(measurement):
        text = "its output ends before the program did"
        return _discard(measurement, Reason.TRUNCATED_OUTPUT, text)
    if shared := rank_places.shared_cpus(output.ranks):
        return _discard(measurement, Reason.WRONG_PLACEMENT, "; ".join(shared))
    if output.worlds > 1 or 0 < output.world_size < ranks:
        text = (
            f"{ranks} ranks were asked for, and there were {max(output.worlds, 1)} worlds, the "
            f"first of {output.world_size}"
        )
        return _discard(measurement, Reason.SINGLETONS, text)
    if not output.series:
        return _discard(measurement, Reason.NO_RESULTS, "it measured nothing")
    return None


def _other_path(measurement: Measurement, path: str) -> Discarded:
    text = (
        f"it was made with the transport `{measurement.case.transport}`, the first of this arm "
        f"here with `{path}`; launches by different paths are never put together"
    )
    return _discard(measurement, Reason.WRONG_TRANSPORT, text)


def _validated(measurement: Measurement) -> Validated:
    """Return what a launch that was not timed says: that the bytes were right, or what is wrong."""
    case, placement = measurement.case, measurement.case.placement
    bad = [check for check in measurement.checks if check.state is State.BAD]
    said = [check for check in measurement.checks if check.name == "validation"]
    received = sum(series.validated or 0 for series in measurement.output.series)
    shown = bad or said
    state = State.BAD if bad else shown[0].state if shown else State.UNKNOWN
    return Validated(
        arm=measurement.arm,
        placement=placement.name,
        locality=placement.locality.value,
        nodes=len(placement.nodes),
        ranks=len(placement.ranks),
        program=case.program,
        transport=case.transport,
        benchmarks=case.benchmarks,
        sizes=case.sizes,
        received=received,
        state=state,
        evidence="; ".join(check.evidence for check in shown),
    )


def _last_of_each(found: Sequence[Validated]) -> tuple[Validated, ...]:
    """Return the last launch of each arm and placement: one that failed is made once more."""
    return tuple({(one.placement, one.program, one.arm): one for one in found}.values())


def _enter(measurement: Measurement, table: Table, tails: TailTable) -> list[Discarded]:
    """Enter a launch's medians into the table; return what of it cannot enter."""
    case = measurement.case
    faults: list[str] = []
    replaced = False
    for series in measurement.output.series:
        metric = METRICS.get(series.benchmark)
        if metric is None or series.unit != metric.unit:
            faults.append(f"`{series.benchmark}` in `{series.unit}` is not a known metric")
        elif series.unit == "MB/s" and series.size == 0:
            continue  # programs print it, but no bytes have no bandwidth
        elif not series.values or not all(isfinite(v) and v > 0 for v in series.values):
            faults.append(
                f"{series.benchmark} at {size_text(series.size)} holds values that are no "
                "measurement"
            )
        else:
            key = (case.placement.name, case.program, series.benchmark)
            cell = table[key][measurement.arm][series.size]
            replaced |= measurement.block in cell
            cell[measurement.block] = statistics.median(series.values)
            beside = tails[key][measurement.arm][series.size]
            beside[measurement.block] = samples_of(series, metric)
    out: list[Discarded] = []
    if faults:
        more = f" and {len(faults) - 3} more" if len(faults) > 3 else ""
        text = f"{'; '.join(faults[:3])}{more}"
        out.append(_discard(measurement, Reason.GARBAGE_OUTPUT, text, what="part of launch"))
    if replaced:
        text = "an earlier launch of this arm in the same block was replaced by a later one"
        out.append(_discard(measurement, Reason.INVALID_VALUE, text, what="superseded launch"))
    return out


def _whole_blocks(
    measurements: Sequence[Measurement], table: Table, paths: Mapping[tuple[str, str, str], str]
) -> list[Discarded]:
    """Take the blocks out of the table that lack a launch which was made and discarded.

    Else a block would stay with the arms that were lucky in it: what lets a launch crash or take
    too long may slow the others of its block. A launch that ended and received wrong bytes takes
    nothing with it. It was not discarded for anything that took time, its arm FAILs whatever is
    left of it, and each other arm keeps all its pairs with the baseline, the blocks with and those
    without such a launch alike: to drop some of these would be the selection. An arm that has no
    usable launch at a placement at all takes nothing with it either: it is compared with nobody.
    """
    made: dict[tuple[str, str], dict[int, dict[str, bool]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(bool))
    )
    for one in measurements:
        case = one.case
        if one.block > 0 and case.placement.timed and not overrule.is_corrupt(one):
            key = (case.placement.name, case.program)
            path = paths.get((one.arm, *key), case.transport)
            good = one.usable and path == case.transport and _void(one) is None
            made[key][one.block][one.arm] |= good
    found: list[Discarded] = []
    for (placement, program), blocks in made.items():
        able = {arm for arms in blocks.values() for arm, usable in arms.items() if usable}
        for block, arms in sorted(blocks.items()):
            lost = sorted(arm for arm in able & set(arms) if not arms[arm])
            others = sorted(arm for arm, usable in arms.items() if usable)
            if not (lost and others):
                continue
            _take_out(table, placement, program, block)
            text = f"{', '.join(others)} go with it: the block lacks {', '.join(lost)}"
            found.append(
                Discarded(
                    what="block", reason=Reason.NO_RESULTS.value, evidence=text, block=block,
                    placement=placement, program=program,
                )
            )  # fmt: skip
    return found


def _take_out(table: Table, placement: str, program: str, block: int) -> None:
    for key, by_arm in table.items():
        if key[:2] == (placement, program):
            for cells in by_arm.values():
                for cell in cells.values():
                    cell.pop(block, None)


def _discard(
    measurement: Measurement, reason: Reason, evidence: str, *, what: str = "launch"
) -> Discarded:
    return Discarded(
        what=what,
        reason=reason.value,
        evidence=evidence,
        arm=measurement.arm,
        block=measurement.block,
        placement=measurement.case.placement.name,
        program=measurement.case.program,
    )


def _unusable(measurement: Measurement) -> Discarded:
    bad = [check for check in measurement.checks if check.state is State.BAD]
    evidence = "; ".join(f"{check.name}: {check.evidence}".rstrip(": ") for check in bad)
    entry = _discard(measurement, Reason.JOB_FAILED, evidence)
    # A results file may have come from anywhere: a reason that is none of ours is not one.
    known = all(one.reason in _REASONS for one in bad)
    worst = launch_checks.first_failure(measurement.checks) if known else None
    return replace(entry, reason=worst.reason.value) if worst else entry


def _unreadable(problem: Problem) -> Discarded:
    place = f" ({problem.where})" if problem.where else ""
    return Discarded(
        what="launch file", reason=problem.reason.value, evidence=f"{problem.message}{place}"
    )


def curve_of(key: tuple[str, str, str], collected: CollectedResults) -> Curve:
    """Return what a curve is, by placement, program and benchmark."""
    name, program, benchmark = key
    metric, placement = METRICS[benchmark], collected.placements[name]
    return Curve(
        placement=name,
        locality=placement.locality.value,
        nodes=len(placement.nodes),
        ranks=len(placement.ranks),
        program=program,
        benchmark=benchmark,
        title=metric.title,
        unit=metric.unit,
        kind=metric.kind,
        higher_is_better=metric.higher_is_better,
        sized=metric.sized,
    )


def curves_of(collected: CollectedResults) -> dict[tuple[str, str, str], Curve]:
    """Return what each curve of the table is."""
    return {key: curve_of(key, collected) for key in collected.table}


def arm_launches(measurements: Iterable[Measurement]) -> tuple[ArmLaunch, ...]:
    """Return the launches of each arm at each placement with each program."""
    groups: dict[tuple[str, str, str], list[Measurement]] = defaultdict(list)
    for m in sorted(measurements, key=lambda m: (m.order, m.started)):
        groups[m.case.placement.name, m.case.program, m.arm].append(m)
    return tuple(_launch(group) for _, group in sorted(groups.items()))


def _launch(group: Sequence[Measurement]) -> ArmLaunch:
    first = next((m for m in group if m.usable), group[0])
    checks: dict[Check, None] = {}
    for measurement in group:
        checks.update(dict.fromkeys(measurement.checks))
    ranks = tuple(rank_places.place_of(rank, first.case) for rank in first.output.ranks)
    return ArmLaunch(
        arm=first.arm,
        placement=first.case.placement.name,
        program=first.case.program,
        count=len(group),
        argv=first.argv,
        env=dict(first.env),
        mpi_library=first.output.mpi_library,
        program_version=first.output.program_version,
        ranks=ranks,
        checks=tuple(checks),
        libraries=tuple(sorted({path for rank in first.output.ranks for path in rank.libraries})),
        host_facts=dict(first.host_facts),
        clock=dict(first.output.clock),
    )
