"""How long everyday commands take, by the clock and of the processor, with the code of two trees.

    python benchmarks/cpu_time.py OLD/src NEW/src [--pairs N] [--size MIB]

Each pair runs a command once with either code, in an order that changes, in a folder and with a
cache of its own; what it leaves is taken away before the next, and not counted. CPU time is user
and system of the command and of all that it waited for. Printed are medians in ms, of the time by
the clock in brackets, and the median of the ratios of CPU times of the pairs, with where 10 to 90 %
of them lie. It needs gcc, patchelf and mksquashfs, as `pack` does.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from stackproof.core.value import Value

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from elflab import Lab  # noqa: E402 - tests are found from here on
from images import env_json, make_image  # noqa: E402 - as above
from injectlab import mpich  # noqa: E402 - as above
from packs import CALLS_ANSWER, Stack  # noqa: E402 - as above
from registries import OwnRegistry  # noqa: E402 - as above

LABEL = "tiny/1:v1@here%zen2"
REMOTE = f"deploy::{LABEL}"
COPIES = 500
"""So many programs are checked, which differ in their last bytes alone."""
_LOG = """\
srun: job 4711 queued and waiting for resources
srun: job 4711 has been allocated resources
Loading openmpi/5.0.8
rank 0 of 128 on nid001234
reading input.nml
step 1 of 100
[nid001235:2112] mca_btl_tcp_proc: Unable to find reachable pairing
[nid001235:2112] *** An error occurred in MPI_Barrier
[nid001235:2112] *** MPI_ERR_INTERN: internal error
srun: error: nid001235: task 64: Exited with exit code 17
"""
_RECIPES = ROOT / "recipes" / "stackinator"
FOLDER = (f"{_RECIPES}/arbor-dev", "--site", f"{_RECIPES}/sites/hohgant.yaml")

Cost = tuple[float, float]


class Place(Value, kw_only=False):
    """Where the commands of one tree run: its code, a folder, and a registry with the image."""

    source: Path
    folder: Path
    registry: str

    def run(self, *words: str) -> Cost:
        """Run a command that must end well; return its CPU time and the time by the clock, ms."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        env |= {
            "PYTHONPATH": str(self.source), "STACKPROOF_CACHE": str(self.folder / "cache"),
            "STACKPROOF_REPOSITORY": str(self.folder / "repository"), "HOME": str(self.folder),
            "STACKPROOF_REGISTRY": self.registry,
        }  # fmt: skip
        begun = time.perf_counter()
        with (self.folder / "said").open("wb") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", "stackproof", *words], cwd=self.folder, env=env,
                stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            )  # fmt: skip
            _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            text = (self.folder / "said").read_text()
            raise SystemExit(f"{self.source}: {words} ended with {process.returncode}\n{text}")
        wall = time.perf_counter() - begun
        return (used.ru_utime + used.ru_stime) * 1e3, wall * 1e3

    def without(self, *names: str) -> None:
        """Take away what a command left."""
        for name in names:
            path = self.folder / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def _unlabelled(place: Place) -> None:
    place.without("repository")


def _nothing(_: Place) -> None:
    pass


def _added(place: Place) -> None:
    if not (place.folder / "repository").exists():
        place.run("image", "add", LABEL, "stack.squashfs")


def _with_recipe(place: Place) -> None:
    for name in ("mpich.yaml", "mpich.lock.json"):
        shutil.copy(ROOT / "recipes" / name, place.folder)


def _with_spec(place: Place) -> None:
    """Make a specification with four images, once."""
    names = [f"arm{number}" for number in range(4)]
    if not (place.folder / "spec.yaml").exists():
        for name in names:
            make_image(place.folder / f"{name}.squashfs", meta=env_json(name=name))
        first, *others = [{"image": f"{name}.squashfs"} for name in names]
        spec = {"baseline": first, "challengers": others, "placements": ["intra-node"]}
        (place.folder / "spec.yaml").write_text(json.dumps(spec))


def _with_programs(place: Place) -> None:
    """Make copies of a program, an MPI for it, and another one, once."""
    lab = Lab(place.folder)
    if not (place.folder / "bin").exists():
        for name in ("own", "new"):
            mpich(lab, name)
        first = lab.program("bin/0", needs=["own/lib/libmpi.so.12"], calls=["MPI_Init"])
        for number in range(1, COPIES):
            shutil.copy(first, place.folder / "bin" / str(number))
            with (place.folder / "bin" / str(number)).open("ab") as program:
                program.write(b"%d" % number)


def _with_log(place: Place) -> None:
    (place.folder / "job.log").write_text(_LOG)


COMMANDS: dict[str, tuple[Callable[[Place], None], tuple[str, ...]]] = {
    "--version": (_nothing, ("--version",)),
    "--help": (_nothing, ("--help",)),
    "bench --help": (_nothing, ("bench", "--help")),
    "site ls": (_nothing, ("site", "ls")),
    "check": (_with_recipe, ("check", "--offline", "mpich.yaml")),
    "plan": (_with_recipe, ("plan", "mpich.yaml")),
    "run": (_nothing, ("run", "stack.squashfs", "--", "true")),
    "activate": (_nothing, ("activate", "stack.squashfs", "--view", "default")),
    "image ls": (_added, ("image", "ls")),
    "inspect": (_nothing, ("inspect", "stack.squashfs")),
    "image add": (_unlabelled, ("image", "add", LABEL, "stack.squashfs")),
    "image pull": (_unlabelled, ("image", "pull", REMOTE)),
    "pack": (
        lambda place: place.without("out", "out.provenance.json"),
        ("pack", "stack.squashfs", "-o", "out"),
    ),
    "install": (
        lambda place: place.without("apps"),
        ("install", "stack.squashfs", "--to", "apps/stack"),
    ),
    "bench": (_with_spec, ("bench", "spec.yaml", "--dry-run")),
    "inject check": (
        _with_programs,
        ("inject", "check", "bin", "--with", "new", "--library-path", "own/lib", "--json"),
    ),
    "doctor": (_with_log, ("doctor", "--log", "job.log")),
    "check folder": (_nothing, ("check", *FOLDER)),
    "plan folder": (_nothing, ("plan", *FOLDER)),
}  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sources", nargs=2, type=Path, metavar="SRC", help="earlier code, and new")
    parser.add_argument("--pairs", type=int, default=20, help="pairs of each command")
    parser.add_argument("--size", type=int, default=20, help="MiB of data in the image")
    parser.add_argument("--only", nargs="*", default=list(COMMANDS), help="only these commands")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, OwnRegistry() as server:
        image = _image(Path(name), args.size)
        places = []
        for number, source in enumerate(args.sources):
            folder = Path(name, str(number))
            folder.mkdir()
            os.link(image, folder / "stack.squashfs")
            places.append(Place(source.resolve(), folder, server.address))
        places[1].run("image", "push", "stack.squashfs", REMOTE)
        for title in args.only:
            _show(title, _measured(places, *COMMANDS[title], pairs=args.pairs))
    print(f"load {os.getloadavg()[0]:.1f}, {args.pairs} pairs, {args.size} MiB in the image")


def _image(folder: Path, size: int) -> Path:
    """Return an image with a program, a library, a thousand small files and some large ones."""
    stack = Stack(folder / "of")
    stack.library("libanswer", "int answer(void) { return 42; }")
    stack.program("hello", CALLS_ANSWER, needs=("answer",))
    choose = random.Random(1)  # noqa: S311 - the same content each time, no secret
    for number in range(1000):
        stack.script(f"share/{number % 40}/{number}.txt", f"{number}\n" * 40)
    for number in range(4):
        (stack.tree / f"lib/large{number}.bin").write_bytes(choose.randbytes(size << 18))
    return stack.image()


def _measured(
    places: list[Place], prepare: Callable[[Place], None], words: tuple[str, ...], *, pairs: int
) -> list[tuple[Cost, Cost]]:
    """Return the times of both; the first pair fills caches and is not counted."""
    found = []
    for number in range(pairs + 1):
        times = {}
        for which in (0, 1) if number % 2 else (1, 0):
            prepare(places[which])
            times[which] = places[which].run(*words)
        if number:
            found.append((times[0], times[1]))
    return found


def _show(title: str, found: list[tuple[Cost, Cost]]) -> None:
    ratios = sorted(new / old for (old, _), (new, _) in found)
    low, high = ratios[len(ratios) // 10], ratios[-1 - len(ratios) // 10]
    cells = []
    for costs in zip(*found, strict=True):
        cpu, wall = (statistics.median(times) for times in zip(*costs, strict=True))
        cells.append(f"{cpu:7.0f} ms ({wall:.0f})")
    print(
        f"{title:12} before {cells[0]}   now {cells[1]}   "
        f"ratio {statistics.median(ratios):5.2f} (10-90 %: {low:.2f} to {high:.2f})",
        flush=True,
    )


if __name__ == "__main__":
    main()
