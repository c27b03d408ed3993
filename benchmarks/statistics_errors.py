"""How often verdicts are wrong, by simulation: with all launches made, and with looks between.

    python benchmarks/statistics_errors.py [--experiments N] [--kind NAME ...] [--way NAME ...]

An experiment is that of `statistics_power.py`: baseline, null arm and challenger on one curve of 23
sizes, margin 5 %, on a machine of one kind (`tests/noises.py`) and level of noise. It is judged
after 5, 10 and 20 launches, and as `--until-decided` does up to 20 and up to 40, where a verdict
counts as soon as one look says it. Printed are, in percent, each with a bound that holds in 95 of
100 cases (the upper one; for coverage the lower one):

* null FAIL: of experiments in which the null arm, which is equal, FAILs at any size;
* wrong FAIL: of experiments in which an equal challenger does;
* PASS at 8 %, PASS at margin: of points of a challenger that is slower by so much;
* covered: of points whose interval holds the truth, at all looks together.

One line each for a kind and a way, the worst of the levels, and at the end the worst of all. The
figures in docs/explanation/statistics.md come from here.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stackproof.core.value import Value, replace

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from noises import KINDS
from stackproof.compare import looks, resampling, sequential
from stackproof.compare.model import NULL_FAMILY_ERROR
from stackproof.compare.resampling import Floats
from statistics_power import LIMIT, SIZES, SLOWER, Simulated, adjusted, floors, simulated

TAIL, FAMILY, SURE = 0.025, 0.05, 0.05
# Sizes of a launch share its luck, so that some of them tell as much of intervals as all do.
_SOME = slice(0, SIZES, 4)
_AT_ONCE = 100

WAYS: dict[str, tuple[int, ...]] = {
    "5": (5,),
    "10": (10,),
    "20": (20,),
    "looks to 20": looks.planned(20),
    "looks to 40": looks.planned(40),
}


class Found(Value, kw_only=False):
    """For each experiment which errors were made; of points the share of them that have one."""

    null_fail: Floats
    wrong_fail: Floats
    pass_slower: Floats
    pass_margin: Floats
    covered: Floats


def judged(one: Simulated, plan: tuple[int, ...]) -> Found:
    """Return what all looks of a plan say of experiments, an error at any of them counting."""
    tail = sequential.level_of_looks(plan, TAIL) if len(plan) > 1 else TAIL
    null_error = (
        sequential.level_of_looks(plan, NULL_FAMILY_ERROR) if len(plan) > 1 else NULL_FAMILY_ERROR
    )
    family = sequential.level_of_looks(plan, FAMILY) if len(plan) > 1 else FAMILY
    count = one.experiments
    null_fail, wrong_fail = np.zeros(count, bool), np.zeros(count, bool)
    slower = margin = np.zeros((count, len(range(*_SOME.indices(SIZES)))), bool)
    covered = ~slower
    for look in plan:
        base, null, ours = (part[:, :look] for part in one.arms)
        null_fail |= _null_fails(base - null, count, null_error)
        wrong_fail |= _wrong_fails(base - ours, base - null, count, (tail, family))
        rows = (base - ours).reshape(count, SIZES, look)[:, _SOME].reshape(-1, look)
        low, high = (end.reshape(count, -1) for end in resampling.intervals(rows, tail))
        slower = slower | (low + SLOWER[0] >= LIMIT)
        margin = margin | (low >= 0)
        covered = covered & (low <= 0) & (high >= 0)
    shares = (part.mean(axis=1) for part in (slower, margin, covered))
    return Found(null_fail.astype(float), wrong_fail.astype(float), *shares)


def _null_fails(ratios: Floats, count: int, error: float) -> Any:
    """Return in which experiments a null arm FAILs, either way; beyond the margin none is equal."""
    centers = resampling.centers(ratios).reshape(count, SIZES)
    found = np.zeros(count, bool)
    for at in np.flatnonzero((np.abs(centers) > -LIMIT).any(axis=1)):
        rows = ratios.reshape(count, SIZES, -1)[at]
        both = np.vstack([rows, -rows])
        p_values = resampling.stepdown_p_values(both, np.full(2 * SIZES, LIMIT))
        beyond = np.concatenate([centers[at], -centers[at]]) < LIMIT
        found[at] = bool((beyond & (p_values <= error)).any())
    return found


def _wrong_fails(ratios: Floats, null: Floats, count: int, levels: tuple[float, float]) -> Any:
    """Return in which experiments an equal challenger FAILs."""
    tail, family = levels
    limits = np.minimum(LIMIT, -floors(resampling.centers(null), count)).reshape(count, SIZES)
    centers = resampling.centers(ratios).reshape(count, SIZES)
    found = np.zeros(count, bool)
    for at in np.flatnonzero((centers < limits).any(axis=1)):
        rows = ratios.reshape(count, SIZES, -1)[at]
        _, high = resampling.intervals(rows, tail)
        below = high < limits[at]
        if below.any():
            p_values = adjusted(rows[None], limits[at])
            found[at] = bool((below & (p_values <= family)).any())
    return found


def all_ways(kind: str, level: float, experiments: int, ways: Sequence[str]) -> dict[str, Found]:
    """Return what these ways say of the same experiments, some of them at a time."""
    parts: dict[str, list[Found]] = {name: [] for name in ways}
    most = max(WAYS[name][-1] for name in ways)
    whole = simulated(kind, level, most, experiments)
    for at in range(0, experiments, _AT_ONCE):
        count = min(_AT_ONCE, experiments - at)
        arms = tuple(part[at * SIZES : (at + count) * SIZES] for part in whole.arms)
        some = replace(whole, arms=(arms[0], arms[1], arms[2]), experiments=count)
        for name in ways:
            parts[name].append(judged(some, WAYS[name]))
    fields = Found.__struct_fields__
    return {
        name: Found(*(np.concatenate([getattr(one, field) for one in found]) for field in fields))
        for name, found in parts.items()
    }


def upper(shares: Floats) -> tuple[float, float]:
    """Return a rate and what it is at most: of experiments exactly, of points by their spread."""
    count, rate = len(shares), float(shares.mean())
    if set(np.unique(shares)) <= {0.0, 1.0}:
        return rate, _clopper_pearson(round(float(shares.sum())), count)
    spread = float(shares.std(ddof=1)) / math.sqrt(count)
    return rate, rate + resampling.normal_quantile(SURE) * spread


def _clopper_pearson(errors: int, count: int) -> float:
    """Return the largest rate with which so few errors are not yet too unlikely."""
    low, high = errors / count, 1.0
    for _ in range(50):
        rate = (low + high) / 2
        chance = math.fsum(
            math.comb(count, k) * rate**k * (1 - rate) ** (count - k) for k in range(errors + 1)
        )
        low, high = (rate, high) if chance > SURE else (low, rate)
    return high


def told(found: Found) -> Iterator[tuple[float, float]]:
    """Yield the rates with their bounds, the coverage with its lower one."""
    for shares in (found.null_fail, found.wrong_fail, found.pass_slower, found.pass_margin):
        yield upper(shares)
    missed, most = upper(1 - found.covered)
    yield 1 - missed, 1 - most


def text_of(numbers: list[tuple[float, float]]) -> str:
    """Return rates and bounds as cells of a table, percent."""
    return " | ".join(f"{100 * rate:.2g} ({100 * bound:.2g})" for rate, bound in numbers[:4]) + (
        f" | {100 * numbers[4][0]:.1f} ({100 * numbers[4][1]:.1f})"
    )


def worst(several: list[list[tuple[float, float]]]) -> list[tuple[float, float]]:
    """Return the worst of each rate with its bound: the largest, of coverage the smallest."""
    columns = list(zip(*several, strict=True))
    return [max(one, key=lambda pair: pair[1]) for one in columns[:4]] + [
        min(columns[4], key=lambda pair: pair[1])
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--experiments", type=int, default=1000, help="per line (default 1000)")
    parser.add_argument("--level", type=float, nargs="+", default=[0.03, 0.10, 0.30])
    parser.add_argument("--kind", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--way", nargs="+", default=list(WAYS), choices=WAYS)
    args = parser.parse_args()
    print("| noise | launches | null FAIL | wrong FAIL | PASS at 8 % | PASS at margin | covered |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    every: dict[str, list[list[tuple[float, float]]]] = {name: [] for name in args.way}
    for kind in args.kind:
        levels: dict[str, list[list[tuple[float, float]]]] = {name: [] for name in args.way}
        for level in args.level:
            for name, found in all_ways(kind, level, args.experiments, args.way).items():
                numbers = list(told(found))
                levels[name].append(numbers)
                print(f"# {kind} {level:.0%} {name}: {text_of(numbers)}", file=sys.stderr)
        for name, several in levels.items():
            every[name] += several
            print(f"| {kind} | {name} | {text_of(worst(several))} |", flush=True)
    for name, several in every.items():
        print(f"| all | {name} | {text_of(worst(several))} |", flush=True)


if __name__ == "__main__":
    main()
