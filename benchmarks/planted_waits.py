"""Verdicts on waits that were planted for real: 3 %, 8 % and 20 %, on a quiet and a loaded machine.

    python benchmarks/planted_waits.py [--launches 10 20] [--effect 20] [--condition quiet loaded]

Builds MPICH, brings up two nodes made of namespaces, and measures latency within a node and across
two. All arms run one image with a preload that waits before each send (`tests/csrc/slowsend.c`).
How long 3, 8 and 20 % are is worked out from some launches before, beside the same load: none, or
two loops that compute without end, on both CPUs and with the niceness given. Each point is judged
with margins of 5 and of 10 %, after fewer launches too, and as `--until-decided` would.

A wait need not cost what it lasts: a rank that waits does not serve its socket. So what each wait
does is measured, by more launches of the same run (`--effect`), in the same shuffled blocks and
seen by no verdict. A verdict is wrong when it is FAIL and the whole interval of the measured effect
lies within the margin, or PASS and the whole of it lies beyond. Printed are the waits with their
effects, all verdicts with their intervals, and how many are wrong; the exit code is 1 if any is.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from stackproof.compare import looks, resampling
from stackproof.compare.compare import compare
from stackproof.compare.disturbance import disturbed
from stackproof.compare.effects.results import load_results
from stackproof.compare.model import Cell, CompareOptions, Verdict
from stackproof.core.value import Value, replace
from stackproof.results.model import Results

ROOT = Path(__file__).resolve().parents[1]
CLUSTER = "planted-waits"
WAITS = {"equal": 0.0, "plus3": 0.03, "plus8": 0.08, "plus20": 0.20}
SIZES = {"intra-node": (16384, 262144), "inter-node": (8, 65536)}
MARGINS = (0.05, 0.10)
CONDITIONS = ("quiet", "loaded")
CALIBRATION = 5
LOOP = "while True: pass"


class Effect(Value, kw_only=False):
    """What a wait does to a message, measured: time without it over time with it, and interval."""

    ratio: float
    low: float
    high: float

    @property
    def text(self) -> str:
        """Return by how much longer a message takes, percent."""
        more = (100 * (1 / ratio - 1) for ratio in (self.ratio, self.high, self.low))
        return "{:+.1f} % [{:+.1f}, {:+.1f}]".format(*more)


class Line(Value, kw_only=False):
    """One point: where, after how many launches, what was planted, and what was said of it."""

    where: tuple[str, str, int]
    after: str
    margin: float
    wait: str
    effect: Effect
    cell: Cell

    @property
    def wrong(self) -> bool:
        """Return whether the verdict contradicts what the wait does, as sure as that is known."""
        if self.cell.verdict is Verdict.FAIL:
            return self.effect.low >= 1 - self.margin
        return self.cell.verdict is Verdict.PASS and self.effect.high < 1 - self.margin


def stackproof(folder: Path, *words: object, codes: tuple[int, ...] = (0,)) -> None:
    """Run one command in a folder; raises when it fails."""
    argv = [sys.executable, "-m", "stackproof", *map(str, words)]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode not in codes:
        sys.exit(f"{' '.join(argv)}: exit code {done.returncode}\n{done.stderr}")


@contextlib.contextmanager
def load(*, loaded: bool, niceness: int) -> Iterator[None]:
    """Keep every CPU busy, or none."""
    cpus = sorted(os.sched_getaffinity(0)) if loaded else []
    loops = [
        subprocess.Popen(
            ["nice", "-n", str(niceness), "taskset", "-c", str(cpu), sys.executable, "-c", LOOP]
        )
        for cpu in cpus
    ]
    try:
        yield
    finally:
        for process in loops:
            process.kill()
            process.wait()


def arm(folder: Path, name: str, waits: tuple[float, float]) -> dict[str, Any]:
    """Return an arm that waits, in ns before a send and ns more for each KiB of it.

    Also who waits for nothing asks the clock: what that costs is no difference.
    """
    return {
        "name": name,
        "image": "mpich.squashfs",
        "env": {
            "LD_PRELOAD": str(folder / "slowsend.so"),
            "STACKPROOF_SLOWSEND_NS": str(1 + round(waits[0])),
            "STACKPROOF_SLOWSEND_NS_PER_KIB": str(round(waits[1])),
        },
    }


def measure(folder: Path, name: str, placement: str, waits: Mapping[str, Any], **more: Any) -> Path:
    """Make the launches of a baseline and of arms that wait; return the results folder."""
    spec = {
        "baseline": arm(folder, "base", (0.0, 0.0)),
        "challengers": [arm(folder, one, wait) for one, wait in waits.items()],
        "null-arm": bool(waits),
        "benchmarks": ["latency"],
        "sizes": list(SIZES[placement]),
        "placements": [placement],
        "samples": 20,
        "seconds-per-size": 0.05,
        "cluster": CLUSTER,
        **more,
    }
    (folder / f"{name}.yaml").write_text(json.dumps(spec))
    stackproof(folder, "bench", f"{name}.yaml", "-o", name, "--no-verdict")
    return folder / name


def per_size(folder: Path, name: str, placement: str) -> tuple[float, float]:
    """Return what a message takes at both sizes, ns, by some launches that wait for nothing."""
    results = load_results(measure(folder, name, placement, {}, launches=CALIBRATION))
    values: dict[int, list[float]] = defaultdict(list)
    for one in results.measurements:
        if one.block > 0 and one.usable:
            for series in one.output.series:
                values[series.size].append(1e3 * statistics.median(series.values))
    small, large = (statistics.median(values[size]) for size in SIZES[placement])
    return small, large


def line_of(part: float, times: tuple[float, float], sizes: tuple[int, int]) -> tuple[float, float]:
    """Return the wait before a send, and for each KiB, that is this part of the time at both."""
    slope = part * (times[1] - times[0]) / (sizes[1] - sizes[0])
    return part * times[0] - slope * sizes[0], 1024 * slope


def effects(results: Results, after: int) -> dict[tuple[str, int], Effect]:
    """Return what each arm's wait does at each size, by the launches after so many blocks."""
    logs: dict[tuple[str, int], dict[int, float]] = defaultdict(dict)
    for one in results.measurements:
        if one.block > after and one.usable:
            for series in one.output.series:
                logs[one.arm, series.size][one.block] = math.log(statistics.median(series.values))
    found = {}
    for (arm, size), seen in logs.items():
        base = logs[results.spec.baseline, size]
        if arm != results.spec.baseline:
            rows = np.array([[base[block] - seen[block] for block in seen if block in base]])
            ends = (resampling.centers(rows), *resampling.intervals(rows, 0.025))
            found[arm, size] = Effect(*(math.exp(float(end[0])) for end in ends))
    return found


def judged(results: Results, condition: str, placement: str, counts: list[int]) -> Iterator[Line]:
    """Yield every point with every margin, after each number of launches and with looks."""
    most = max(counts)
    measured = effects(results, most)
    ways: dict[str, tuple[int, tuple[int, ...]]] = {str(count): (count, ()) for count in counts}
    ways[f"looks to {most}"] = (most, looks.planned(most))
    for after, (count, plan) in ways.items():
        seen = replace(
            results,
            spec=replace(results.spec, launches=count, looks=plan),
            measurements=tuple(one for one in results.measurements if one.block <= count),
            chain=None,
            files=(),
        )
        for margin in MARGINS:
            found = compare(seen, CompareOptions(margins={"latency": margin}))
            (panel,) = found.panels
            for judgement in panel.judgements:
                wait = "equal" if judgement.arm == seen.spec.null else judgement.arm
                for cell in judgement.cells:
                    where = (condition, placement, cell.size)
                    effect = measured[judgement.arm, cell.size]
                    yield Line(where, after, margin, wait, effect, cell)


def shown(lines: list[Line]) -> None:
    """Print a row for each place, number of launches and margin; the null arm is in `equal`."""
    for where, wait, text in dict.fromkeys((one.where, one.wait, one.effect.text) for one in lines):
        print(f"{' '.join(map(str, where))}  {wait}, {WAITS[wait]:.0%} planted: takes {text}")
    rows: dict[tuple[tuple[str, str, int], str, float], dict[str, list[str]]] = {}
    for one in lines:
        cell = one.cell
        low, high = cell.low or 0.0, cell.high or 0.0
        text = f"{cell.verdict.value[:5]} {cell.ratio or 0:.2f} [{low:.2f}, {high:.2f}]"
        row = rows.setdefault((one.where, one.after, one.margin), defaultdict(list))
        row[one.wait].append(text + (" WRONG" if one.wrong else ""))
    for (where, after, margin), row in rows.items():
        print(f"{' '.join(map(str, where))}  launches: {after}  margin {margin:.0%}")
        for wait, texts in row.items():
            print(f"    {wait:8} {'   '.join(texts)}")


def main() -> int:
    """Measure, and print every verdict and how many are wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--launches", type=int, nargs="+", default=[10, 20])
    parser.add_argument(
        "--effect", type=int, default=20, help="launches that measure what waits do (default 20)"
    )
    parser.add_argument("--condition", nargs="+", default=list(CONDITIONS), choices=CONDITIONS)
    parser.add_argument("--nice", type=int, default=10, help="of the loops (default 10)")
    args = parser.parse_args()
    lines: list[Line] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stackproof(folder, "build", ROOT / "recipes" / "mpich.yaml", "-o", "mpich.squashfs")
        compiler = ("mpicc", "-shared", "-fPIC", "-O1", "-o", "slowsend.so")
        source = ROOT / "tests" / "csrc" / "slowsend.c"
        stackproof(folder, "run", "mpich.squashfs", "--", *compiler, source)
        stackproof(folder, "cluster", "up", "--nodes", 2, "--name", CLUSTER)
        try:
            for condition in args.condition:
                for placement, sizes in SIZES.items():
                    print(f"{condition} {placement}: load {os.getloadavg()[0]:.1f}", flush=True)
                    with load(loaded=condition == "loaded", niceness=args.nice):
                        times = per_size(folder, f"{condition}-{placement}-before", placement)
                        waits = {one: line_of(part, times, sizes) for one, part in WAITS.items()}
                        made = measure(
                            folder, f"{condition}-{placement}", placement, waits,
                            launches=max(args.launches) + args.effect,
                        )  # fmt: skip
                    results = load_results(made)
                    hurt = len(disturbed(results.measurements))
                    print(f"  {hurt} of {len(results.measurements)} launches disturbed", flush=True)
                    found = list(judged(results, condition, placement, args.launches))
                    shown(found)
                    lines += found
        finally:
            stackproof(folder, "cluster", "down", "--name", CLUSTER)
    return counted(lines)


def counted(lines: list[Line]) -> int:
    """Print for each wait and margin how many verdicts there are of each kind."""
    groups: dict[tuple[str, str, float, str], Counter[str]] = defaultdict(Counter)
    for one in lines:
        groups[one.where[0], one.after, one.margin, one.wait][one.cell.verdict.value] += 1
    for (condition, after, margin, wait), count in groups.items():
        told = ", ".join(f"{number} {verdict}" for verdict, number in sorted(count.items()))
        print(f"{condition:7} launches: {after:12} margin {margin:4.0%}  {wait:8} {told}")
    wrong = sum(one.wrong for one in lines)
    print(f"{wrong} of {len(lines)} verdicts are wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
