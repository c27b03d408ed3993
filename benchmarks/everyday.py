"""How long everyday commands take, now and at an earlier commit, in turn in one run.

    python benchmarks/everyday.py [--before COMMIT] [--runs N]

The earlier code runs from a worktree of its own with the same Python and the same libraries; each
of the two has a folder and a cache of its own with its own recipe for MPICH, its lock and the image
that it built of it. Each round runs every command of both once, so that load on the machine falls
on both. Medians of wall time and of CPU time (user and system, with what the command started) are
printed, and Python that does nothing beside them. It needs what `build` needs, the package index
for the first round among it.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IMAGE = "m.squashfs"
PROGRAM = "files/benchmarks/stackproof-bench"
LINES = (
    "--version", "--help", "build --help", "bench --help", "report --help", "doctor --help",
    "inject check --help", "check --offline mpich.yaml", "check mpich.yaml", "plan mpich.yaml",
    f"build mpich.yaml -o {IMAGE}", f"inspect {IMAGE}", f"run {IMAGE} -- true",
    f"inject check {PROGRAM} --with {IMAGE}", "site ls",
)  # fmt: skip
COMMANDS = {
    "python -c pass": ["-c", "pass"],
    **{f"stackproof {line}": ["-m", "stackproof", *line.split()] for line in LINES},
}
Found = dict[tuple[str, str], list[tuple[float, float]]]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--before", default="31ff932", help="commit to compare with")
    parser.add_argument("--runs", type=int, default=7, help="rounds")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        old = Path(folder, "tree")
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(old), args.before], check=True)
        try:
            trees = {"before": old, "now": ROOT}
            for name, tree in trees.items():
                prepare(Path(folder, name), tree)
            found = measure(Path(folder), trees, args.runs)
        finally:
            subprocess.run([*git, "remove", "--force", str(old)], check=True)
    print(f"medians of {args.runs}, load {os.getloadavg()[0]:.1f}; ms: wall (CPU)")
    for title in COMMANDS:
        cells = []
        for name in trees:
            walls, cpus = zip(*found[name, title], strict=True)
            wall, cpu = statistics.median(walls) * 1e3, statistics.median(cpus) * 1e3
            cells.append(f"{name} {wall:5.0f} ({cpu:4.0f})")
        print(f"{title:<72} {'   '.join(cells)}")


def prepare(folder: Path, tree: Path) -> None:
    """Fill the folder in which the commands of one tree run: recipe, lock, image and a program."""
    folder.mkdir()
    for name in ("mpich.yaml", "mpich.lock.json"):
        shutil.copy(tree / "recipes" / name, folder)
    where = call(["-c", "import stackproof; print(stackproof.__file__)"], tree, folder)
    if not Path(where.strip()).is_relative_to(tree):
        raise SystemExit(f"{where.strip()} was imported, which is not of {tree}")
    call(["-m", "stackproof", "build", "mpich.yaml", "-o", IMAGE], tree, folder)
    names = PROGRAM.partition("/")
    argv = ["unsquashfs", "-quiet", "-no-progress", "-dest", names[0], IMAGE, names[2]]
    subprocess.run(argv, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def measure(folder: Path, trees: dict[str, Path], runs: int) -> Found:
    """Return wall and CPU seconds of every command of every tree, each run as often."""
    found: Found = {}
    for number in range(runs + 1):
        for title, words in COMMANDS.items():
            for name, tree in trees.items():
                seconds = once(words, tree, folder / name)
                if number:  # the first round fills the caches
                    found.setdefault((name, title), []).append(seconds)
    return found


def once(words: list[str], tree: Path, folder: Path) -> tuple[float, float]:
    """Return wall and CPU seconds of one command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.perf_counter()
    call(words, tree, folder)
    wall = time.perf_counter() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def call(words: list[str], tree: Path, folder: Path) -> str:
    """Run Python with the code of a tree; return what it prints. It must end well.

    Python keeps what it compiled, as it does for users.
    """
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    env |= {"PYTHONPATH": str(tree / "src"), "STACKPROOF_CACHE": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{tree}: {' '.join(words)} ended with {done.returncode}\n{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
