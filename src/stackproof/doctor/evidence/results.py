"""Launches of results, as the evidence that rules ask for, and in words."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from stackproof.bench import path_verdict
from stackproof.compare import integrity, launch_checks
from stackproof.compare.model import Comparison
from stackproof.core import harmless
from stackproof.core.errors import Problem, Reason
from stackproof.core.numbers import ratio_text, size_text
from stackproof.core.value import Value, replace
from stackproof.doctor.evidence import log
from stackproof.doctor.evidence.variables import of_interfaces
from stackproof.knowledge.evidence import Evidence, Pieces, merged, relevant
from stackproof.knowledge.reference_curves import BufferPlace, memory_of
from stackproof.mpi import families
from stackproof.mpi.transports import Profile
from stackproof.report.headline import headline
from stackproof.results.case import Locality
from stackproof.results.measurement import Measurement, State
from stackproof.results.metrics import METRICS
from stackproof.results.model import Results

_LAUNCHERS = {"srun": "srun", "mpirun": "mpirun", "prterun": "mpirun", "mpiexec": "mpiexec"}
_SMALL = 1024
_DIRECTIONS = {"bandwidth": 1, "bibandwidth": 2}
"""Bandwidths by benchmark: how many directions of a link they add up."""
_PLATEAU = 1 << 18
"""A size at which the link, not the cost of a message, decides."""
_LARGE = 4 << 20

_LONGEST_MESSAGE = 200

_SHARED_CORE = 0.2
"""Share of a core's time, taken by others, from which on a rank that polls is held up."""
_SHARED_OFTEN = 10
"""One rank of so many is enough for a core that is shared, and not only looked at by a daemon."""


# --- launches that count in no comparison ---------------------------------------------------


class Failure(Value):
    """The reason for which launches or a probe count in no comparison, and names of their logs."""

    problem: Problem
    where: str
    files: tuple[str, ...] = ()


def find_failures(results: Results, arm: str) -> tuple[Failure, ...]:
    """Return a failure for each reason for which `bench` discarded launches of an arm.

    Where there is no launch at all, they are those of the arm's probes.
    """
    if not results.measurements:
        return tuple(_failed_probes(results, arm))
    groups: dict[Reason, list[tuple[Problem, str]]] = defaultdict(list)
    names = results.files or ("",) * len(results.measurements)
    own = [
        (launch_checks.first_failure(launch.checks), file)
        for launch, file in zip(results.measurements, names, strict=True)
        if launch.arm == arm
    ]
    for problem, file in own:
        if problem is not None:
            groups[problem.reason].append((problem, file))
    return tuple(
        Failure(
            problem=same[0][0],
            where=f"{len(same)} of {len(own)} launches",
            files=tuple(file for _, file in same),
        )
        for same in groups.values()
    )


def _failed_probes(results: Results, arm: str) -> Iterator[Failure]:
    """Yield the failures of an arm's probes, with the variables that choose a path."""
    for path in results.paths:
        problem = launch_checks.first_failure((*path.checks, path_verdict.check_of(path)))
        if problem is None or path.arm != arm:
            continue
        chosen = path_verdict.steering(Profile(), path.env)
        words = ", ".join(f"{name}={value}" for name, value in chosen.items())
        if words:
            problem = replace(problem, message=f"{problem.message}; set is {words}")
        log = f"probe-{arm}-{path.placement.name}.log"
        yield Failure(problem=problem, where=f"probe, {path.placement.name}", files=(log,))


def of_discarded(results: Results, arm: str) -> Evidence:
    """Return the reasons for which launches count in no comparison, and what `bench` saw."""
    reasons = {
        failure.problem.reason: f"{failure.where}: "
        f"{harmless.shorten(failure.problem.message, _LONGEST_MESSAGE)}"
        for failure in find_failures(results, arm)
    }
    doubts = [f"{problem.where}: {problem.message}" for problem in results.problems]
    doubts += [doubt.text for doubt in integrity.look(results).doubts]
    if doubts:
        reasons[Reason.NOT_TRUSTED] = harmless.shorten("; ".join(doubts), _LONGEST_MESSAGE)
    pieces = Pieces("; ".join(reasons.values()))
    pieces.fact("discarded", tuple(reasons))
    return pieces.evidence()


def fallbacks(results: Results, arm: str | None = None) -> tuple[str, ...]:
    """Return a line for each arm and placement with launches on another path than asked for."""
    seen: dict[tuple[str, str], list[str]] = defaultdict(list)
    count: dict[tuple[str, str], int] = defaultdict(int)
    for one in results.measurements:
        key = (one.arm, one.case.placement.name)
        count[key] += 1
        wrong = (
            check.evidence
            for check in one.checks
            if check.state is State.BAD and check.reason == Reason.WRONG_TRANSPORT
        )
        seen[key] += list(wrong)[:1]
    return tuple(
        f"{name}, {placement}: {len(texts)} of {count[name, placement]} launches took another path "
        f"than they were told to, and do not count: {texts[0]}"
        for (name, placement), texts in seen.items()
        if texts and arm in {name, None}
    )


def slower_arms(comparison: Comparison, arm: str | None) -> tuple[str, ...]:
    """Return a line for each challenger, or the arm, with a point below its margin.

    The ratio is that of `compare`: the typical one of the two launches of a block.
    """
    lowest: dict[str, tuple[float, str]] = {}
    for panel in comparison.panels:
        for judgement in panel.judgements:
            name = judgement.arm
            for cell in judgement.cells if arm in {None, name} else ():
                if cell.ratio is not None and cell.ratio < 1 - cell.margin:
                    size = f" at {size_text(cell.size)}" * panel.curve.sized
                    place = f"{panel.curve.title}{size}, {panel.curve.placement}"
                    lowest[name] = min((cell.ratio, place), lowest.get(name, (1.0, "")))
    return tuple(
        f"{name}: lowest ratio to {comparison.spec.baseline} {ratio_text(ratio)} ({place}); "
        f"{headline(comparison, name).partition(': ')[2]}"
        for name, (ratio, place) in lowest.items()
        if name != comparison.spec.null or arm
    )


# --- what an arm's launches show ------------------------------------------------------------


def of_results(results: Results, arm: str) -> Evidence:
    """Return what the launches of one arm show.

    Their variables are those that the deployment set, not the whole environment.
    """
    launches = [one for one in results.measurements if one.arm == arm]
    pieces = Pieces(f"results, arm {arm}")
    for one in launches:
        found = families.identify(one.output.mpi_library) if one.output.mpi_library else None
        if found is not None:
            pieces.fact("mpi", found[0])
            pieces.version(found[0], found[1])
    _cases(launches, pieces)
    curves = curves_of(results)
    between = _plateaus(curves, arm)
    pieces.fact("share-of-link", _share_of_link(between))
    pieces.fact("both-ways-over-one-way", _both_over_one(between))
    pieces.fact("small-message-rate-lnx-over-cxi", _lnx_over_cxi(results, curves))
    pieces.fact("device-over-host-bandwidth", _device_over_host(curves, arm))
    fabric = results.spec.host.get("fabric")
    pieces.fact("fabric", fabric if isinstance(fabric, str) else None)
    variables = relevant({name: value for one in launches for name, value in one.env.items()})
    evidence = pieces.evidence(variables, f"results, arm {arm}", partial=("logs", "variables"))
    logs = {f"launches of {arm}": text} if (text := _said(launches)) else {}
    return replace(evidence, logs=logs, taken=results.spec.created)


def _cases(launches: Sequence[Measurement], pieces: Pieces) -> None:
    """Note how the launches of an arm were made, and how they ended."""
    for fact, values in (
        ("placement", [one.case.placement.locality.value for one in launches]),
        ("memory", [memory_of(one.host_facts).value for one in launches]),
        ("transport", [t for one in launches if (t := one.case.transport) != "auto"]),
        ("uses", [name for one in launches for name in one.case.benchmarks]),
        ("launcher", [_LAUNCHERS[n] for one in launches if (n := _program(one)) in _LAUNCHERS]),
        ("pmi", [w[6:] for one in launches for w in one.argv if w.startswith("--mpi=")]),
    ):
        pieces.fact(fact, tuple(dict.fromkeys(values)))
    if launches:
        pieces.fact("worlds", float(max(one.output.worlds for one in launches)))
        pieces.fact("nodes", float(max(len(one.case.placement.nodes) for one in launches)))
        pieces.fact("ended", _ended(launches))
        pieces.fact("cut-short", _cut_short(launches))
        validated = [
            one.output.validation_errors
            for one in launches
            if one.output.validation_errors or any(series.validated for series in one.output.series)
        ]
        pieces.fact("wrong-bytes", float(sum(validated)) if validated else None)


def _program(one: Measurement) -> str:
    return one.argv[0].rpartition("/")[2] if one.argv else ""


def _ended(launches: Sequence[Measurement]) -> str:
    bad = {
        check.reason: check.evidence
        for launch in launches
        for check in launch.checks
        if check.state is State.BAD
    }
    ends = {"hang": Reason.JOB_TIMEOUT, "crash": Reason.RANK_CRASHED,
            "node-lost": Reason.NODE_UNREACHABLE}  # fmt: skip
    # The check quotes the launcher's own words.
    if log.KILLED.search(bad.get(Reason.RANK_CRASHED, "")) and Reason.JOB_TIMEOUT not in bad:
        return "killed"
    last = "crash" if Reason.JOB_FAILED in bad else "ok"
    return next((name for name, reason in ends.items() if reason in bad), last)


def _cut_short(launches: Sequence[Measurement]) -> bool:
    """Return true where an output stopped before its end and the program said nothing of it."""
    return any(
        check.reason == Reason.TRUNCATED_OUTPUT and check.state is State.BAD
        for one in launches
        for check in one.checks
        if one.output.worlds == 1
    )


def _said(launches: Sequence[Measurement]) -> str:
    """Return what launches left of words that are not results."""
    lines = [line for one in launches for line in one.output.garbage]
    lines += [
        check.evidence for one in launches for check in one.checks if check.state is State.BAD
    ]
    return "\n".join(dict.fromkeys(lines))


def of_nodes(results: Results, arm: str) -> Evidence:
    """Return evidence of the nodes of results: their interfaces, and others on the cores.

    Variables are held against the interfaces of the nodes that the ranks ran on, and not against
    those of the machine that asks.
    """
    launches = [one for one in results.measurements if one.arm == arm]
    ranks = [rank for one in launches for rank in one.output.ranks]
    there = sorted({name for rank in ranks for name in (*rank.tx_bytes, *rank.interfaces)})
    hosts = sorted({rank.host for rank in ranks})
    variables = {name: value for one in launches for name, value in one.env.items()}
    found = of_interfaces(variables, there, f"the nodes ({', '.join(hosts)})")
    return merged(found, of_cores(results, arm))


def of_cores(results: Results, arm: str) -> Evidence:
    """Return the share of others on an arm's cores, and on the baseline's where they were there.

    Then the disturbance alone does not tell why one of the two is slower.
    """
    base = results.spec.baseline
    evidence, other = (
        _of_launches([launch for launch in results.measurements if launch.arm == name])
        for name in (arm, base)
    )
    if arm == base or not (evidence.facts.get("core-shared") and other.facts.get("core-shared")):
        return evidence
    text = (
        f"{evidence.origin('fact', 'core-shared')}; so they did of {base}: the slower of the two "
        "loses more by it, as MPIs wait in different ways"
    )
    return replace(evidence, origins={"fact core-shared": text})


def _of_launches(launches: Sequence[Measurement]) -> Evidence:
    loads = [
        (launch, rank, rank.disturbance.other_load)
        for launch in launches
        for rank in launch.output.ranks
        if rank.disturbance is not None and rank.disturbance.other_load is not None
    ]
    if not loads:
        return Evidence()
    shared = [entry for entry in loads if entry[2] > _SHARED_CORE]
    text = f"{len(loads)} ranks of all launches"
    if shared:
        worst, rank, load = max(shared, key=lambda entry: entry[2])
        blocks = len({(launch.block, launch.case.placement.name) for launch, _, _ in shared})
        text = (
            f"others took {load:.0%} of CPU {rank.cpu} of {rank.host} in block {worst.block}, "
            f"{worst.case.placement.name}, and a core in {blocks} blocks"
        )
    pieces = Pieces(text)
    pieces.fact("core-shared", len(shared) >= max(1, len(loads) // _SHARED_OFTEN))
    return pieces.evidence()


# --- curves ---------------------------------------------------------------------------------


class MeasuredCurve(Value):
    """A curve of one arm: `values` by size in bytes, in µs or MB/s (10^6 B).

    `link` is what one NIC carries in one direction (MB/s), None where that is not known.
    """

    arm: str
    benchmark: str
    placement: str
    program: str
    locality: Locality
    memory: BufferPlace
    values: Mapping[int, float]
    link: float | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the sizes above zero, rising."""
        return tuple(size for size in sorted(self.values) if size > 0)

    @property
    def best(self) -> float:
        """Return the largest value."""
        return max(self.values[size] for size in self.sizes)


def _lnx_over_cxi(results: Results, curves: Sequence[MeasuredCurve]) -> float | None:
    """Return how the rate of small messages over lnx compares with that over cxi alone."""
    transports = {one.arm: one.case.transport for one in results.measurements}
    ratios = [
        lnx.values[size] / cxi.values[size]
        for lnx in curves
        for cxi in curves
        if (transports[lnx.arm], transports[cxi.arm]) == ("lnx", "cxi")
        and (lnx.benchmark, lnx.placement) == ("bandwidth", cxi.placement)
        and cxi.benchmark == "bandwidth"
        for size in lnx.sizes
        if size <= _SMALL and size in cxi.values
    ]
    return statistics.median(ratios) if ratios else None


def _plateaus(curves: Sequence[MeasuredCurve], arm: str) -> list[MeasuredCurve]:
    """Return an arm's bandwidths between nodes that have large messages."""
    return [
        curve
        for curve in curves
        if curve.arm == arm
        and curve.benchmark in _DIRECTIONS
        and curve.locality is Locality.INTER
        and max(curve.sizes, default=0) >= _PLATEAU
    ]


def _share_of_link(between: Sequence[MeasuredCurve]) -> float | None:
    """Return the best bandwidth as a part of what the link carries, the least of all curves."""
    return min(
        (
            curve.best / (_DIRECTIONS[curve.benchmark] * curve.link)
            for curve in between
            if curve.link is not None
        ),
        default=None,
    )


def _both_over_one(between: Sequence[MeasuredCurve]) -> float | None:
    """Return how both directions together compare with one alone, the least of all curves."""
    one_way = {
        (curve.placement, curve.program): curve.best
        for curve in between
        if curve.benchmark == "bandwidth"
    }
    return min(
        (
            curve.best / one_way[curve.placement, curve.program]
            for curve in between
            if curve.benchmark == "bibandwidth" and (curve.placement, curve.program) in one_way
        ),
        default=None,
    )


def _device_over_host(curves: Sequence[MeasuredCurve], arm: str) -> float | None:
    values: dict[BufferPlace, float] = {
        curve.memory: curve.values[_LARGE]
        for curve in curves
        if (curve.arm, curve.benchmark, curve.locality) == (arm, "bandwidth", Locality.INTER)
        and _LARGE in curve.values
    }
    if len(values) < len(BufferPlace):
        return None
    return values[BufferPlace.DEVICE] / values[BufferPlace.HOST]


def curves_of(results: Results) -> tuple[MeasuredCurve, ...]:
    """Return the curves of all arms: of each size the median over launches of their medians.

    Launches that are not usable, and the warm-up, do not count.
    """
    observed: dict[tuple[str, str, str], dict[int, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    first: dict[tuple[str, str, str], Measurement] = {}
    for one in results.measurements:
        if not one.usable or one.block <= 0:
            continue
        for benchmark, size, value in _medians(one):
            key = (one.arm, one.case.placement.name, benchmark)
            first.setdefault(key, one)
            observed[key][size].append(value)
    return tuple(_curve(key, sizes, first[key], results) for key, sizes in observed.items())


def _medians(one: Measurement) -> Iterator[tuple[str, int, float]]:
    for series in one.output.series:
        if series.benchmark in METRICS and series.values:
            yield series.benchmark, series.size, statistics.median(series.values)


def _curve(
    key: tuple[str, str, str],
    sizes: Mapping[int, Sequence[float]],
    one: Measurement,
    results: Results,
) -> MeasuredCurve:
    arm, placement, benchmark = key
    link = results.spec.limits.get(placement, {}).get("MB/s")
    return MeasuredCurve(
        arm=arm,
        benchmark=benchmark,
        placement=placement,
        program=one.case.program,
        locality=one.case.placement.locality,
        memory=memory_of(one.host_facts),
        values={size: statistics.median(values) for size, values in sorted(sizes.items())},
        link=float(link) if isinstance(link, int | float) else None,
    )
