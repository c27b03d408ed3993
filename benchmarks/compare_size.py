"""What `compare` of a large experiment costs: processor time, wall time and memory.

    python benchmarks/compare_size.py [--arms N] [--launches N] [--sizes N] [--samples N]

Results are made up (`tests/synthetic.py`): arms, a baseline and a null arm among them, each with
its launches within a node, of latency at some sizes. They are written as `bench` writes them, and
judged by `stackproof compare`. Printed are seconds of processor time (user and system), seconds by
the clock, and the largest memory in MB. 100 arms with 1,000 launches each should take less than 10
minutes and 1 GB; 20 arms with 500 took 18 s and 180 MB in November 2026, of which 12 kB are for
each launch: its 120 samples, and what is looked up of them.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from stackproof.core.value import replace

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from experiments import sampled  # noqa: E402 - only now on the path
from stackproof.core import noun  # noqa: E402 - as above
from stackproof.results.model import Results  # noqa: E402 - as above
from synthetic import INTRA, Noise, Plan, simulate  # noqa: E402 - as above


def experiment(arms: int, launches: int, sizes: int, samples: int) -> Results:
    """Return the results of one block, of which every block is a copy with other numbers."""
    plan = Plan(
        challengers=tuple(f"arm-{number:03}" for number in range(arms - 2)),
        benchmarks=("latency",), sizes=tuple(8 << 2 * at for at in range(sizes)),
        placements=(INTRA,), blocks=1, samples=1, noise=Noise(launch=0.02, size=0.01),
    )  # fmt: skip
    results = sampled(simulate(plan), count=samples)
    return replace(results, spec=replace(results.spec, launches=launches, minimum_launches=10))


def write(results: Results, folder: Path, launches: int) -> None:
    """Write the results with as many blocks as there are launches of each arm."""
    (folder / "launches").mkdir(parents=True)
    (folder / "bench.json").write_text(noun.to_json(results.spec))
    each = [noun.to_data(one) for one in results.measurements if one.block == 1]
    usual = {
        (one["arm"], series["size"]): series["values"]
        for one in each
        for series in one["output"]["series"]
    }
    for block in range(1, launches + 1):
        for at, data in enumerate(each):
            number = (block - 1) * len(each) + at
            data |= {"block": block, "order": number}
            for series in data["output"]["series"]:
                # Another thousandth for each: no two launches are alike, and none is far off.
                shift = 1 + ((number * 7919 + series["size"]) % 1009 - 504) / 50_000
                plain = usual[data["arm"], series["size"]]
                series["values"] = [round(value * shift, 9) for value in plain]
            (folder / "launches" / f"{number:06}.json").write_bytes(msgspec.json.encode(data))


def main() -> None:
    """Make the results, compare them, and print what that cost."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--arms", type=int, default=100)
    parser.add_argument("--launches", type=int, default=1000, help="of each arm (default 1000)")
    parser.add_argument("--sizes", type=int, default=6)
    parser.add_argument("--samples", type=int, default=20)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="stackproof-compare-") as place:
        folder = Path(place) / "results"
        results = experiment(args.arms, args.launches, args.sizes, args.samples)
        write(results, folder, args.launches)
        begun = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "stackproof", "compare", str(folder)],
            stdout=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        wall = time.perf_counter() - begun
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{args.arms} arms x {args.launches} launches: {used.ru_utime + used.ru_stime:.1f} s of "
        f"processor time, {wall:.1f} s, {used.ru_maxrss / 1000:.0f} MB"
    )


if __name__ == "__main__":
    main()
