"""Simulated experiments as tests of comparisons ask for them, and what is looked at in one."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from stackproof.compare.model import CompareOptions
from stackproof.core.value import replace
from stackproof.results.model import Results
from synthetic import SIZES, Noise, Plan, simulate

QUIET = Noise(launch=0.004, size=0.004, block=0.05)
FAST = CompareOptions()
SMALL = tuple(size for size in SIZES if size <= 1024)
SLOW_SMALL = {"mpich": {("inter-node", "latency"): dict.fromkeys(SMALL, 1.25)}}


def experiment(seed=1, **plan):
    return simulate(Plan(**{"noise": QUIET, "challengers": ("mpich",), **plan}), seed)


def cells(comparison, arm, placement="inter-node", benchmark="latency"):
    (panel,) = (
        p for p in comparison.panels if p.curve.key == (placement, "stackproof-bench", benchmark)
    )
    return panel.judgement(arm).cells


def all_cells(comparison, arm="mpich"):
    """Return the cells of an arm on all curves."""
    return [cell for panel in comparison.panels for cell in panel.judgement(arm).cells]


def until(results, block):
    """Return the results of the blocks up to one."""
    return keep(results, lambda one: one.block <= block)


def keep(results, wanted):
    return replace(results, measurements=tuple(m for m in results.measurements if wanted(m)))


def changed(results, change, wanted=lambda _: True):
    """Return the results with every launch changed that is wanted."""
    found = tuple(change(one) if wanted(one) else one for one in results.measurements)
    return replace(results, measurements=found)


def output(**changes):
    """Return a change of a launch: fields of its output."""
    return lambda one: replace(one, output=replace(one.output, **changes))


def series(change):
    """Return a change of a launch: of each series, which None leaves out."""
    return lambda one: output(series=tuple(filter(None, map(change, one.output.series))))(one)


def of_program(one, program):
    """Return a launch as another program's, after all others."""
    case = replace(one.case, program=program)
    return output(program=program)(replace(one, order=one.order + 10_000, case=case))


def times(factor, wanted=lambda _: True):
    """Return a change of a launch: its values, or those of some series, so many times as large."""

    def change(one):
        values = tuple(factor * value for value in one.values)
        return replace(one, values=values) if wanted(one) else one

    return series(change)


def with_spec(results, **changes):
    return replace(results, spec=replace(results.spec, **changes))


def sampled(
    results: Results, tails: Mapping[str, tuple[float, float]] | None = None, *, count: int = 20,
    jitter: float = 0.02, seed: int = 5,
) -> Results:  # fmt: skip
    """Return the results with `count` samples in each launch around what it measured.

    `tails` says by arm which share of its samples takes how many times as long.
    """
    random = np.random.default_rng(seed)

    def samples(one, measured):
        share, factor = (tails or {}).get(one.arm, (0.0, 1.0))
        logs = random.normal(0, jitter, count) + math.log(factor) * (random.random(count) < share)
        signed = logs if measured.unit == "us" else -logs
        return tuple(map(float, measured.values[0] * np.exp(signed)))

    return changed(
        results, lambda one: series(lambda found: replace(found, values=samples(one, found)))(one)
    )
