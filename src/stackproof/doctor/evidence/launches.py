"""Launches of results, in words: which took another path than asked for, and how fast arms are."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence

from stackproof.bench import path_verdict
from stackproof.compare import integrity, launch_checks
from stackproof.core import harmless
from stackproof.core.errors import Problem, Reason
from stackproof.core.numbers import ratio_text, size_text
from stackproof.core.value import Value, replace
from stackproof.doctor.evidence.results import MeasuredCurve, curves_of
from stackproof.knowledge.evidence import Evidence
from stackproof.mpi.transports import Profile
from stackproof.results.measurement import State
from stackproof.results.metrics import METRICS
from stackproof.results.model import Results

_FLAT = 1.15
"""Largest ratio over smallest, up to which a curve is the same share of another one everywhere."""
_FEWEST = 2
"""Sizes that have to be on either side of a step."""


_LONGEST_MESSAGE = 200


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
    if not reasons:
        return Evidence()
    return Evidence(
        facts={"discarded": tuple(reasons)}, origins={"fact discarded": "; ".join(reasons.values())}
    )


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


def ratios(results: Results, arm: str | None = None) -> tuple[str, ...]:
    """Return the ratios of each arm to the baseline on each curve, with their sizes."""
    base = results.spec.baseline
    curves = curves_of(results)
    own = {(one.benchmark, one.placement, one.program): one for one in curves if one.arm == base}
    return tuple(
        f"{one.arm}, {one.benchmark}, {one.placement}: {text}"
        for one in curves
        if one.arm not in {base, results.spec.null} and arm in {one.arm, None}
        for text in _compared(one, own.get((one.benchmark, one.placement, one.program)), base)
    )


def _compared(one: MeasuredCurve, other: MeasuredCurve | None, base: str) -> Iterator[str]:
    if other is None:
        return
    higher = METRICS[one.benchmark].higher_is_better
    shares = {
        size: one.values[size] / other.values[size]
        if higher
        else other.values[size] / one.values[size]
        for size in one.sizes
        if other.values.get(size) and one.values[size]
    }
    if shares:
        yield f"against {base} {_shape(shares)}"


def _shape(shares: dict[int, float]) -> str:
    """Return shares by size in words: one number, or two with the size at which they change."""
    sizes = sorted(shares)
    values = [shares[size] for size in sizes]
    if len(sizes) == 1:
        return f"{ratio_text(values[0])} at {size_text(sizes[0])}"
    if max(values) <= _FLAT * min(values):
        return f"{ratio_text(statistics.median(values))} at every size"
    lowest = min(sizes, key=lambda size: shares[size])
    least = f"least {ratio_text(shares[lowest])} at {size_text(lowest)}"
    if len(sizes) < 2 * _FEWEST:
        return f"{ratio_text(min(values))} to {ratio_text(max(values))}, {least}"
    steps = range(_FEWEST, len(sizes) - _FEWEST + 1)
    step = max(steps, key=lambda index: _contrast(values[:index], values[index:]))
    before, after = (statistics.median(part) for part in (values[:step], values[step:]))
    begin = f"{ratio_text(before)} below {size_text(sizes[step])}"
    return f"{begin} and {ratio_text(after)} from there on, {least}"


def _contrast(left: Sequence[float], right: Sequence[float]) -> float:
    first, second = statistics.fmean(left), statistics.fmean(right)
    return max(first, second) / min(first, second)
