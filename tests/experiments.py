"""Simulated experiments as tests of comparisons ask for them, and what is looked at in one."""

import dataclasses

from stackproof.compare.model import CompareOptions
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
    return dataclasses.replace(
        results, measurements=tuple(m for m in results.measurements if wanted(m))
    )


def with_spec(results, **changes):
    return dataclasses.replace(results, spec=dataclasses.replace(results.spec, **changes))
