"""How much the verdicts decide, by simulating experiments with known truth.

    python benchmarks/statistics_power.py [--experiments N] [--launches N ...]

Every line is one kind of machine (`tests/noises.py`), level of noise and number of launches. An
experiment has a baseline, a null arm and a challenger on one curve of 23 sizes, with a margin of
5 %. The challenger is as fast, or slower by 8 % or by 25 %. Each way to estimate has the same rules
on top of it (noise floor, step-down p-value). Printed are, for every way and in percent, the cells
decided rightly: PASS when equal, and FAIL when slower by 8 % and by 25 %. How often verdicts are
wrong is what `statistics_errors.py` tells.

The figures in docs/explanation/statistics.md come from here.
"""

from __future__ import annotations

import argparse
import functools
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from stackproof.core.value import Value

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from noises import KINDS, launch_noise
from stackproof.compare import resampling
from stackproof.compare.resampling import Floats

MARGIN, SIZES = 0.05, 23
LIMIT = math.log1p(-MARGIN)
SLOWER = (math.log(1 / 1.08), math.log(1 / 1.25))
_T = {4: 2.7764, 5: 2.5706, 6: 2.4469, 7: 2.3646, 9: 2.2622, 14: 2.1448, 19: 2.0930, 29: 2.0452}

Estimate = tuple[Floats, Floats, Floats]
"""Log ratio and ends of its interval: arrays of cells."""


def ours(baseline: Floats, challenger: Floats) -> Estimate:
    """Return what stackproof computes."""
    rows = baseline - challenger
    return (resampling.centers(rows), *resampling.intervals(rows, 0.025))


@functools.lru_cache
def _draws(blocks: int) -> Any:
    return np.random.default_rng(blocks).integers(0, blocks, (800, blocks))


def _bootstrap(center: Floats, resampled: Callable[[slice], Floats]) -> Estimate:
    parts = [
        np.quantile(resampled(slice(at, at + 200)), [0.025, 0.975], axis=1)
        for at in range(0, len(center), 200)
    ]
    low, high = np.concatenate(parts, axis=1)
    return center, low, high


def median_ratio(baseline: Floats, challenger: Floats) -> Estimate:
    """Return the ratio of medians with a bootstrap of blocks."""
    draws = _draws(baseline.shape[1])
    return _bootstrap(
        np.median(baseline, axis=1) - np.median(challenger, axis=1),
        lambda rows: (
            np.median(baseline[rows][:, draws], axis=2)
            - np.median(challenger[rows][:, draws], axis=2)
        ),
    )


def paired_median(baseline: Floats, challenger: Floats) -> Estimate:
    """Return the median of ratios with a bootstrap of blocks."""
    ratios, draws = baseline - challenger, _draws(baseline.shape[1])
    return _bootstrap(
        np.median(ratios, axis=1), lambda rows: np.median(ratios[rows][:, draws], axis=2)
    )


def paired_t(baseline: Floats, challenger: Floats) -> Estimate:
    """Return the mean log ratio with Student's interval."""
    ratios = baseline - challenger
    blocks = ratios.shape[1]
    center = ratios.mean(axis=1)
    half = _T[blocks - 1] * ratios.std(axis=1, ddof=1) / math.sqrt(blocks)
    return center, center - half, center + half


def signed_rank(baseline: Floats, challenger: Floats) -> Estimate:
    """Return Hodges and Lehmann's location with Wilcoxon's exact interval."""
    ratios = baseline - challenger
    blocks = ratios.shape[1]
    counts = np.array([1.0])
    for rank in range(1, blocks + 1):
        counts = np.concatenate([counts, np.zeros(rank)]) + np.concatenate([np.zeros(rank), counts])
    chances = np.cumsum(counts) / 2.0**blocks
    out = max(int((chances <= 0.025).sum()), 1) - 1
    left, right = np.triu_indices(blocks)
    walsh = np.sort((ratios[:, left] + ratios[:, right]) / 2, axis=1)
    return np.median(walsh, axis=1), walsh[:, out], walsh[:, -1 - out]


def rank_sum(baseline: Floats, challenger: Floats) -> Estimate:
    """Return the unpaired comparison of launches that Hunold and Carpen-Amarie use."""
    blocks = baseline.shape[1]
    between = np.sort((baseline[:, :, None] - challenger[:, None, :]).reshape(len(baseline), -1))
    sigma = blocks * math.sqrt((2 * blocks + 1) / 12)
    out = max(int(blocks**2 / 2 - 1.95996 * sigma - 0.5), 0)
    return np.median(between, axis=1), between[:, out], between[:, -1 - out]


WAYS: dict[str, Callable[[Floats, Floats], Estimate]] = {
    "ours": ours,
    "ratio of medians": median_ratio,
    "paired median": paired_median,
    "paired t": paired_t,
    "signed rank": signed_rank,
    "rank sum": rank_sum,
}


class Simulated(Value, kw_only=False):
    """One machine: log times of baseline, null arm and challenger, cells flattened."""

    arms: tuple[Floats, Floats, Floats]
    experiments: int

    @property
    def ratios(self) -> Floats:
        """Return log ratios as `experiments x sizes x blocks`."""
        return (self.arms[0] - self.arms[2]).reshape(self.experiments, SIZES, -1)


def simulated(kind: str, level: float, launches: int, experiments: int) -> Simulated:
    """Return a machine; the same arguments, the same machine."""
    random = np.random.default_rng([KINDS.index(kind), round(level * 1000), launches])
    noise = launch_noise(kind, level, (experiments, 3, SIZES, launches), random)
    flat = noise.transpose(1, 0, 2, 3).reshape(3, -1, launches)
    return Simulated((flat[0], flat[1], flat[2]), experiments)


def floors(null: Floats, experiments: int) -> Any:
    """Return the noise floor of every cell as a log ratio, from the null arm's log ratios."""
    seen = np.abs(null).reshape(experiments, SIZES)
    wide = np.pad(seen, ((0, 0), (1, 1)), mode="edge")
    return np.maximum(np.maximum(wide[:, :-2], wide[:, 1:-1]), wide[:, 2:]).reshape(-1)


def adjusted(ratios: Floats, limits: Floats) -> Floats:
    """Return the step-down p-values of every curve (`experiments x sizes`), flattened."""
    pairs = zip(ratios, limits.reshape(len(ratios), -1), strict=True)
    return np.concatenate([resampling.stepdown_p_values(*one) for one in pairs])


def failed(estimate: Estimate, ratios: Floats, truth: float, floor: Floats) -> Any:
    """Return which cells FAIL when the challenger's log ratio is `truth`."""
    limits = np.minimum(LIMIT, -floor)
    below = estimate[2] + truth < limits
    return below & (adjusted(ratios + truth, limits) <= 0.05) if below.any() else below


def rates(one: Simulated) -> Iterator[tuple[str, float]]:
    """Yield what every way decides."""
    for name, way in WAYS.items():
        floor = floors(way(one.arms[0], one.arms[1])[0], one.experiments)
        estimate = way(one.arms[0], one.arms[2])
        yield f"{name}: equal", float((estimate[1] >= LIMIT).mean())
        for truth, words in zip(SLOWER, ("8 %", "25 %"), strict=True):
            yield f"{name}: {words}", float(failed(estimate, one.ratios, truth, floor).mean())


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--experiments", type=int, default=100, help="per line (default 100)")
    parser.add_argument("--launches", type=int, nargs="+", default=[5, 10, 20])
    parser.add_argument("--level", type=float, nargs="+", default=[0.03, 0.10, 0.30])
    parser.add_argument("--kind", nargs="+", default=list(KINDS), choices=KINDS)
    args = parser.parse_args()
    print("decided when equal/8 %/25 % slower, by: " + ", ".join(WAYS))
    for kind in args.kind:
        for level in args.level:
            for launches in args.launches:
                found = dict(rates(simulated(kind, level, launches, args.experiments)))
                numbers = [f"{100 * value:.3g}" for value in found.values()]
                groups = ["/".join(numbers[at : at + 3]) for at in range(0, len(numbers), 3)]
                print(
                    f"{kind:15}{level:5.0%}{launches:4}  "
                    + "  ".join(f"{text:>11}" for text in groups),
                    flush=True,
                )


if __name__ == "__main__":
    main()
