"""Time to the first result: from an empty cache to a measured comparison of two stacks.

    python benchmarks/first_result.py

Builds MPICH and Open MPI with an empty cache and makes one launch of each within one node. The
downloads are timed apart, since they depend on the network.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SPEC = """\
baseline: {image: mpich.squashfs}
challengers: [{image: openmpi.squashfs}]
null-arm: false
benchmarks: [latency]
sizes: [8]
placements: [intra-node]
launches: 1
"""


def main() -> None:
    """Time each command of the way."""
    times: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = {**os.environ, "STACKPROOF_CACHE": str(folder / "cache")}
        (folder / "spec.yaml").write_text(SPEC)

        def timed(label: str, *words: str) -> None:
            started = time.perf_counter()
            argv = [sys.executable, "-m", "stackproof", *words]
            subprocess.run(argv, check=True, env=env, cwd=folder, capture_output=True)
            times[label] = time.perf_counter() - started

        for recipe in ("mpich", "openmpi"):
            path = str(ROOT / f"recipes/{recipe}.yaml")
            timed(f"build {recipe}", "build", path, "--locked")
        timed("bench", "bench", "spec.yaml", "-o", "results", "--no-verdict")
    for label, value in times.items():
        print(f"{label:16} {value:6.2f} s")
    print(f"{'all':16} {sum(times.values()):6.2f} s")
    print(json.dumps(times))


if __name__ == "__main__":
    main()
