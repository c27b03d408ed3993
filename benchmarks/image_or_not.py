"""Is an image as fast as the same software in a plain folder, under Slurm?

    python benchmarks/image_or_not.py IMAGE… [--launches N] [--keep FOLDER]

For each image: its tree is unpacked, and the benchmark program runs on both in turns, as steps of
one Slurm job on a Slurm cluster of this machine, on one node and across two, with every PMI that
the MPI speaks. Each rank has a core of its own and messages take one path (shared memory on a node,
TCP on the cluster's interface between nodes), which is checked by the bytes that went there.

Printed is the ratio of folder to image by the median over the launches, oriented so that more than
1 means that the image is better, with its 95 % interval. An interval that contains 1 is noise.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from stackproof.image.effects.image_file import load_image

CLUSTER = "image-or-not"
SPOKEN = {"openmpi": ("pmix",), "mpich": ("pmi2",), "intel-mpi": ("pmi2", "pmix")}
SIZES = {"latency": 8, "bandwidth": 4 << 20}


def stackproof(folder: Path, *words: object, ok: tuple[int, ...] = (0,)) -> str:
    """Run a command and return what it printed; its messages pass through when it fails."""
    argv = [sys.executable, "-m", "stackproof", *map(str, words)]
    env = {**os.environ, "XDG_RUNTIME_DIR": str(folder / "runtime")}
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if done.returncode not in ok:
        sys.exit(done.stderr)
    return done.stdout


def compare(folder: Path, image: Path, pmi: str, launches: int) -> dict[str, Any]:
    """Measure an image against its folder with one PMI and return the comparison."""
    name = f"{image.stem}-{pmi}"
    tree = folder / f"{image.stem}.tree"
    if not tree.exists():
        unpack = ["unsquashfs", "-no-progress", "-quiet", "-d", str(tree), str(image)]
        subprocess.run(unpack, check=True, stdout=subprocess.DEVNULL)
    spec = {
        "baseline": {"name": "folder", "image": str(tree), "pmi": pmi},
        "challengers": [{"name": "image", "image": str(image), "pmi": pmi}],
        "null-arm": True,
        "benchmarks": list(SIZES),
        "sizes": sorted(SIZES.values()),
        "launches": launches,
        "on": "slurm",
        "cluster": CLUSTER,
    }
    (folder / f"{name}.yaml").write_text(json.dumps(spec))
    printed = stackproof(folder, "bench", f"{name}.yaml", "-o", name, "--json", ok=(0, 8))
    found: dict[str, Any] = json.loads(printed)
    return found


def cells(comparison: dict[str, Any], arm: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Return placement, benchmark and the one cell that is asked for of each panel."""
    rows = []
    for panel in comparison["panels"]:
        curve = panel["curve"]
        for judgement in panel["judgements"]:
            if judgement["arm"] == arm:
                size = SIZES[curve["benchmark"]]
                rows += [
                    (curve["placement"], curve["benchmark"], cell)
                    for cell in judgement["cells"]
                    if cell["size"] == size
                ]
    return rows


def report(title: str, comparison: dict[str, Any]) -> bool:
    """Print the rows of one comparison; return whether every interval contains 1."""
    same = True
    for arm in ("image", "folder-again"):
        for placement, benchmark, cell in cells(comparison, arm):
            low, high = cell["low"], cell["high"]
            inside = low <= 1 <= high
            same = same and (inside or arm != "image")
            label = "latency 8 B" if benchmark == "latency" else "bandwidth 4 MiB"
            print(
                f"{title:20} {placement:11} {label:16} {arm:13} "
                f"{cell['ratio']:.3f} [{low:.3f}, {high:.3f}]  {'' if inside else 'NOT 1'}"
            )
    return same


def main() -> None:
    """Measure every image with every PMI that its MPI speaks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images", nargs="+", type=Path, metavar="IMAGE")
    parser.add_argument("--launches", type=int, default=10)
    parser.add_argument("--keep", type=Path, help="results folder; made and removed if left out")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = (args.keep or Path(scratch)).resolve()
        (folder / "runtime").mkdir(mode=0o700, parents=True, exist_ok=True)
        images = [image.resolve() for image in args.images]
        shared = [word for image in images for word in ("--share", image.parent)]
        up = ("cluster", "up", "--slurm", "--no-pin", "--nodes", "2", "--name", CLUSTER)
        stackproof(folder, *up, "--share", folder, *shared)
        try:
            same = True
            for image in images:
                mpi = load_image(str(image)).mpi
                for pmi in SPOKEN[mpi.family] if mpi else ():
                    found = compare(folder, image, pmi, args.launches)
                    same = report(f"{image.stem} {pmi}", found) and same
        finally:
            stackproof(folder, "cluster", "down", "--name", CLUSTER)
        print("every interval contains 1" if same else "not every interval contains 1")


if __name__ == "__main__":
    main()
