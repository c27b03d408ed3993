"""Error rates and power of the verdicts, by simulating whole experiments with known truth.

    python benchmarks/statistics_power.py [--experiments N] [--launches N ...]

Every line is one kind of machine. An experiment has a baseline, a null arm and a challenger, two
placements and two benchmarks of 23 sizes; the challenger is slower by a factor at up to 1 KiB of
inter-node latency and nowhere else. Printed are:

* null FAIL: the share of experiments in which the baseline FAILs against itself anywhere;
* wrong FAIL: the share of experiments in which the challenger FAILs where it is not slower;
* found: the share of slowed points that are FAIL; missed: the share of them that PASS;
* settled: the share of unslowed points that PASS; covered: how often the interval holds the truth.

The figures in docs/explanation/statistics.md come from here.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from stackproof.compare import compare
from stackproof.comparison import CompareOptions, Comparison, Verdict
from synthetic import SIZES, Noise, Plan, simulate

SLOWED = ("inter-node", "latency")
SLOWED_SIZES = tuple(size for size in SIZES if size <= 1024)


@dataclass
class Tally:
    """Counts over experiments."""

    experiments: int = 0
    null_fail: int = 0
    wrong_fail: int = 0
    found: int = 0
    missed: int = 0
    slowed: int = 0
    settled: int = 0
    equal: int = 0
    covered: int = 0

    def add(self, comparison: Comparison, factor: float) -> None:
        """Count one experiment whose challenger was slower by `factor`."""
        self.experiments += 1
        null_arm = comparison.spec.null or ""
        self.null_fail += comparison.verdict_of(null_arm).verdict is Verdict.FAIL
        wrong = False
        for panel in comparison.panels:
            judgement = panel.judgement("mpich")
            for cell in judgement.cells if judgement else ():
                slowed = (
                    factor != 1
                    and (panel.curve.placement, panel.curve.benchmark) == SLOWED
                    and cell.size in SLOWED_SIZES
                )
                truth = 1 / factor if slowed else 1.0
                self.covered += (cell.low or 0) <= truth <= (cell.high or 0)
                self.slowed += slowed
                self.equal += not slowed
                self.found += slowed and cell.verdict is Verdict.FAIL
                self.missed += slowed and cell.verdict is Verdict.PASS
                self.settled += not slowed and cell.verdict is Verdict.PASS
                wrong |= not slowed and cell.verdict is Verdict.FAIL
        self.wrong_fail += wrong

    def line(self) -> str:
        """Return the rates as text."""
        slowed = (
            f"{self.found / self.slowed:6.2f} {self.missed / self.slowed:7.3f}"
            if (self.slowed)
            else f"{'-':>6} {'-':>7}"
        )
        return (
            f"{self.null_fail / self.experiments:9.4f} {self.wrong_fail / self.experiments:10.4f} "
            f"{slowed} {self.settled / self.equal:8.2f} "
            f"{self.covered / (self.slowed + self.equal):8.3f}"
        )


def experiment(noise: Noise, launches: int, factor: float, seed: int, resamples: int) -> Comparison:
    """Simulate and compare one experiment."""
    slower = {"mpich": {SLOWED: dict.fromkeys(SLOWED_SIZES, factor)}}
    plan = Plan(challengers=("mpich",), blocks=launches, noise=noise, slower=slower)
    return compare(simulate(plan, seed), CompareOptions(resamples=resamples))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--experiments", type=int, default=200, help="per line (default 200)")
    parser.add_argument("--launches", type=int, nargs="+", default=[10, 20])
    parser.add_argument("--factors", type=float, nargs="+", default=[1.0, 1.25, 1.5])
    parser.add_argument("--noise", type=float, nargs="+", default=[0.03, 0.05, 0.10])
    parser.add_argument("--resamples", type=int, default=2000)
    args = parser.parse_args()
    print("launches  noise         factor  null FAIL wrong FAIL  found  missed  settled  covered")
    for launches in args.launches:
        for level in args.noise:
            for heavy in (False, True):
                for factor in args.factors:
                    tally = Tally()
                    for seed in range(args.experiments):
                        noise = Noise(launch=level, size=level / 2, heavy=heavy)
                        tally.add(experiment(noise, launches, factor, seed, args.resamples), factor)
                    kind = f"{level:.0%} {'heavy' if heavy else 'normal'}"
                    print(f"{launches:8}  {kind:12}  {factor:6.2f}  {tally.line()}", flush=True)


if __name__ == "__main__":
    main()
