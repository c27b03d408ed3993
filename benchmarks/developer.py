"""Does a stack in an image cost a developer time, against the same stack in a folder or in memory?

    python benchmarks/developer.py IMAGE [--folder DIR…] [--source DIR --build 'WORDS'…]
        [--rounds N] [--json FILE]

The image's tree is unpacked into memory (/dev/shm) and into each DIR, as on the file system of a
site, and put at the image's mount point by bubblewrap; the image is mounted by `stackproof run`. In
every round each way, in turns, runs these with the stack's compilers, its sources in memory:

    hello.c, hello.cpp   compiled by mpicc and mpicxx, the first time and again
    build                `--build`, each in a copy of `--source`, such as './configure' and 'make';
                         left out: mpicc of the sources of stackproof's own program

"cold" is after the way's files were dropped from the page cache (posix_fadvise(2), no root needed;
the kernel may keep names); "warm" right after that. The start of the mount is not in the times.

Printed are medians and the ratio of each way to the image with its 95 % interval over the rounds
(`stackproof.compare.resampling`): more than 1 is slower than the image.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from stackproof.compare import resampling
from stackproof.image.effects.image_file import load_image

CSRC = Path(__file__).parents[1] / "src" / "stackproof" / "bench" / "programs" / "csrc"
HELLO = {
    "hello.c": '#include <stdio.h>\nint main(void) { printf("hello world\\n"); return 0; }\n',
    "hello.cpp": '#include <iostream>\nint main() { std::cout << "hello world\\n"; return 0; }\n',
}
# Runs inside of the session: [[name, words, folder], …] on the command line, seconds on its output.
TIMER = """
import json, shutil, subprocess, sys, time
found = {}
for name, words, folder in json.loads(sys.argv[1]):
    if shutil.which(words[0], path=None) is None and "/" not in words[0]:
        continue
    start = time.perf_counter()
    done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    found[name] = time.perf_counter() - start
    if done.returncode:
        sys.exit(" ".join(words) + ": " + done.stdout.decode(errors="replace")[-2000:])
print(json.dumps(found))
"""


def dropped(path: Path) -> None:
    """Drop a file, or the files of a tree, from the page cache."""
    files = [path] if path.is_file() else [one for one in path.rglob("*") if one.is_file()]
    for one in files:
        if one.is_symlink():
            continue
        descriptor = os.open(one, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def tasks(folder: Path, source: Path, build: list[str]) -> list[tuple[str, list[str], str]]:
    """Return what is timed, in a new folder: names, words, and where these run."""
    for name, text in HELLO.items():
        (folder / name).write_text(text)
    tree = folder / "source"
    shutil.copytree(source, tree, symlinks=True)
    hello = [
        (f"{name} {state}", [compiler, "-o", "hello", name], str(folder))
        for state in ("cold", "warm")
        for name, compiler in zip(HELLO, ("mpicc", "mpicxx"), strict=True)
    ]
    words = build or ["mpicc -O2 -o bench " + " ".join(sorted(p.name for p in tree.glob("*.c")))]
    return [*hello, *((f"build: {line[:40]}", shlex.split(line), str(tree)) for line in words)]


def bound(tree: Path, mount: str) -> list[str]:
    """Return the words before a program that see a tree at a mount point, as nobody else does."""
    top = Path("/", Path(mount).parts[1])
    if top.exists() and not Path(mount).is_dir():
        sys.exit(f"there is no folder {mount}: make it, and run this again")
    words = ["bwrap"]
    for one in sorted(Path("/").iterdir()):
        if one.is_symlink():
            words += ["--symlink", str(one.readlink()), str(one)]
        elif one.is_dir():
            words += ["--dev-bind", str(one), str(one)]
    return [*words, "--ro-bind", str(tree), mount, "--"]


def timed(words: list[str], env: dict[str, str], todo: list[Any]) -> dict[str, float]:
    """Return the seconds of each task in a session that `words` begin."""
    argv = [*words, sys.executable, "-c", TIMER, json.dumps(todo)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr or done.stdout)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def rounds(args: argparse.Namespace, scratch: Path) -> Iterator[dict[str, dict[str, float]]]:
    """Yield, for each round, the seconds of each task by way."""
    image = load_image(str(args.image))
    run = [sys.executable, "-m", "stackproof", "run", str(args.image), "--"]
    seen = subprocess.run([*run, "env", "-0"], capture_output=True, text=True, check=True).stdout
    inside = dict(line.split("=", 1) for line in seen.split("\0") if "=" in line)
    ways: dict[str, tuple[Path, list[str], dict[str, str]]] = {
        "image": (args.image, run, dict(os.environ))
    }
    for place in (scratch, *args.folder):
        tree = Path(tempfile.mkdtemp(dir=place, prefix="developer-")) / "tree"
        args.made.append(tree.parent)
        unpack = ["unsquashfs", "-no-progress", "-quiet", "-d", str(tree), str(args.image)]
        subprocess.run(unpack, check=True, stdout=subprocess.DEVNULL)
        ways["memory" if place == scratch else str(place)] = (
            tree,
            bound(tree, image.mount),
            inside,
        )
    for number in range(args.rounds):
        found = {}
        turned = [*ways][number % len(ways) :] + [*ways][: number % len(ways)]
        for way in turned:
            stack, words, env = ways[way]
            with tempfile.TemporaryDirectory(dir=scratch) as folder:
                todo = tasks(Path(folder), args.source, args.build)
                dropped(stack)
                found[way] = timed(words, env, todo)
        yield found


def main() -> None:
    """Measure every way in turns, and print what it costs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("image", type=Path, metavar="IMAGE")
    parser.add_argument("--folder", type=Path, action="append", default=[], metavar="DIR")
    parser.add_argument("--source", type=Path, default=CSRC, metavar="DIR")
    parser.add_argument("--build", action="append", default=[], metavar="WORDS")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    args.image, args.made = args.image.resolve(), []
    args.folder = [folder.resolve() for folder in args.folder]
    try:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as scratch:
            found = list(rounds(args, Path(scratch)))
    finally:
        for folder in args.made:
            shutil.rmtree(folder, ignore_errors=True)
    rows: list[dict[str, Any]] = []
    for way in found[0]:
        for task in found[0][way]:
            times = [one[way][task] for one in found]
            ratios = np.array([[math.log(one[way][task] / one["image"][task]) for one in found]])
            low, high = resampling.intervals(ratios, 0.025)
            ends = [math.exp(float(end[0])) for end in (resampling.centers(ratios), low, high)]
            rows.append({"task": task, "way": way, "seconds": times, "ratio": ends})
    for row in sorted(rows, key=lambda row: row["task"]):
        ratio = "" if row["way"] == "image" else "{:.3f} [{:.3f}, {:.3f}]".format(*row["ratio"])
        middle = statistics.median(row["seconds"]) * 1e3
        print(f"{row['task']:32} {row['way']:24} {middle:9.1f} ms  {ratio}")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
