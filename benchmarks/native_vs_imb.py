"""Our benchmark program against IMB-MPI1 on the same MPI: they must agree within 10 %.

    python benchmarks/native_vs_imb.py INTEL_MPI_IMAGE [LAUNCHES]

Both run in turns within one node, LAUNCHES times each (default 10). IMB prints one mean per size,
stalls of the machine included, so ours is taken as the mean of its samples as well, and programs
are compared by the best launch of each: what the program does when nothing disturbs it. Beside
it stands the ratio of the medians over launches with the range that the launches span, which shows
how much was disturbed. Windowed bandwidth is compared with Uniband, latency with PingPong, and
collectives by IMB's own definition of them (`timing: imb`).
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

SIZES = (8, 1024, 8192, 65536, 1 << 20, 1 << 22)
PROGRAMS = ("stackproof-bench", "IMB-MPI1")
BENCHMARKS = ("latency", "bandwidth", "allreduce", "alltoall", "allgather", "bcast")


def main() -> None:
    """Measure and print the ratios."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    launches = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spec = {
            "baseline": {"image": str(Path(sys.argv[1]).resolve())},
            "null-arm": False,
            "programs": list(PROGRAMS),
            "benchmarks": list(BENCHMARKS),
            "timing": "imb",
            "sizes": list(SIZES),
            "placements": ["intra-node"],
            "launches": launches,
            "samples": 50,
            "seconds-per-size": 0.05,
        }
        (folder / "spec.yaml").write_text(json.dumps(spec))
        argv = [sys.executable, "-m", "stackproof", "bench", "spec.yaml", "-o", "results"]
        subprocess.run([*argv, "--no-verdict"], check=True, cwd=folder)
        values = _values(folder / "results" / "launches")
    result = {}
    for benchmark in BENCHMARKS:
        for size in SIZES:
            ours, theirs = (sorted(values[program, benchmark, size]) for program in PROGRAMS)
            best = -1 if benchmark == "bandwidth" else 0
            ratio = ours[best] / theirs[best]
            typical = statistics.median(ours) / statistics.median(theirs)
            span = (ours[0] / theirs[-1], ours[-1] / theirs[0])
            result[f"{benchmark} {size}"] = {
                "best": ratio, "median": typical, "low": span[0], "high": span[1],
            }  # fmt: skip
            mark = "" if abs(ratio - 1) <= 0.10 else "  differs by more than 10 %"
            print(
                f"{benchmark:10} {size:8} B  best: ours {ours[best]:10.2f}  "
                f"IMB {theirs[best]:10.2f}  ratio {ratio:5.2f}{mark}  (medians {typical:.2f}, "
                f"launches {span[0]:.2f} to {span[1]:.2f})"
            )
    print(json.dumps(result))


def _values(folder: Path) -> dict[tuple[str, str, int], list[float]]:
    found: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for path in sorted(folder.iterdir()):
        launch = json.loads(path.read_text())
        if launch["block"] == 0:
            continue
        for series in launch["output"]["series"]:
            key = (launch["case"]["program"], series["benchmark"], series["size"])
            found[key].append(statistics.fmean(series["values"]))
    return found


if __name__ == "__main__":
    main()
