"""How long `stackproof --version` takes, beside a Python that does nothing.

    python benchmarks/version.py [COUNT]

Prints the median and the fastest of COUNT runs (default 30) in ms, run in turns, and as JSON on the
last line. The command should answer in under 100 ms.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path


def milliseconds(argv: Sequence[str]) -> float:
    """Return the wall time of one run of a program in ms; raises when it fails."""
    started = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - started) * 1e3


def main() -> None:
    """Time the three programs in turns, so that a drift of the machine meets all alike."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    programs: dict[str, list[str]] = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "python -m stackproof --version": [sys.executable, "-m", "stackproof", "--version"],
    }
    script = Path(sys.executable).parent / "stackproof"
    if script.exists():
        programs["stackproof --version"] = [str(script), "--version"]
    times: dict[str, list[float]] = {name: [] for name in programs}
    for argv in programs.values():  # file caches are warm for a person, too
        milliseconds(argv)
    for _ in range(count):
        for name, argv in programs.items():
            times[name].append(milliseconds(argv))
    result = {}
    for name, values in times.items():
        result[name] = {"median_ms": statistics.median(values), "fastest_ms": min(values)}
        print(
            f"{name:32} median {statistics.median(values):6.1f} ms, fastest {min(values):6.1f} ms"
        )
    print(json.dumps(result))


if __name__ == "__main__":
    main()
