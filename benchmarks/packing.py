"""What each level of zstd costs when trees are packed, and how large the images become.

    python benchmarks/packing.py TREE… [--levels 3 6 9 12 15 19] [--rounds N]

Levels take turns, N rounds (default 3) on two threads. Printed are the medians of the processor
time of mksquashfs and of unsquashfs (one thread) in s, and the size of the image, also against that
of the level that is used where none is named.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path

from stackproof.image import superblock


def cpu_s(*argv: str) -> float:
    """Run a program that must end well; return the processor time that it took, in s."""
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{argv} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("trees", nargs="+", type=Path, metavar="TREE")
    parser.add_argument("--levels", nargs="+", type=int, default=[3, 6, 9, 12, 15, 19])
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    for tree in args.trees:
        times: dict[int, list[tuple[float, float]]] = defaultdict(list)
        sizes: dict[int, int] = {}
        with tempfile.TemporaryDirectory() as name:
            image, out = f"{name}/image.squashfs", f"{name}/out"
            for _ in range(args.rounds):
                for level in args.levels:
                    argv = superblock.pack_argv(os.fspath(tree), image, level=level)
                    packing = cpu_s(*argv, "-processors", "2")
                    reading = cpu_s("unsquashfs", "-f", "-p", "1", "-d", out, image)
                    times[level].append((packing, reading))
                    sizes[level] = os.path.getsize(image)
        base = sizes.get(superblock.LEVEL, min(sizes.values()))
        for level in args.levels:
            pack, read = (statistics.median(one) for one in zip(*times[level], strict=True))
            print(
                f"{tree.name:12} level {level:2}   pack {pack:7.2f} s   unpack {read:5.2f} s   "
                f"{sizes[level] / 1e6:8.2f} MB   {sizes[level] / base:5.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
