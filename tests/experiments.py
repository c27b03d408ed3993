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


def keep(results, wanted):
    return replace(results, measurements=tuple(m for m in results.measurements if wanted(m)))


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

    def samples(one, series):
        share, times = (tails or {}).get(one.arm, (0.0, 1.0))
        logs = random.normal(0, jitter, count) + math.log(times) * (random.random(count) < share)
        signed = logs if series.unit == "us" else -logs
        return tuple(map(float, series.values[0] * np.exp(signed)))

    def changed(one):
        series = tuple(replace(s, values=samples(one, s)) for s in one.output.series)
        return replace(one, output=replace(one.output, series=series))

    return replace(results, measurements=tuple(map(changed, results.measurements)))
