"""How fast `image pull` is beside curl, from docker-registry here, and what memory it takes.

    python benchmarks/pull.py [MEGABYTES [COUNT]]

An image of MEGABYTES (default 1000) that nothing can be packed in is pushed once. Then, in turns,
COUNT times (default 5): curl writes its blob to a file, and `image pull` brings it into an empty
repository, with its SHA-256 made. The pull should reach 80 % of curl's rate, and its memory should
not grow with the image. Where there is no docker-registry it says so.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from registries import docker_registry

_LABEL = "bench/1:v1@here%any"


def _timed(argv: list[str], env: dict[str, str]) -> tuple[float, int]:
    """Return the seconds that a program took, and the most memory that it had, in bytes."""
    begun = time.perf_counter()
    child = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{argv}: exit code {child.returncode}")
    return time.perf_counter() - begun, used.ru_maxrss * 1024


def main() -> None:
    """Push once, pull in turns, print the rates."""
    size = int(sys.argv[1]) * 1_000_000 if len(sys.argv) > 1 else 1_000_000_000
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    if not shutil.which("docker-registry"):
        sys.exit("there is no docker-registry here: apt-get install docker-registry")
    with tempfile.TemporaryDirectory(prefix="stackproof-pull-") as folder:
        _run(Path(folder), size, count)


def _run(folder: Path, size: int, count: int) -> None:
    (folder / "tree").mkdir()
    with (folder / "tree/data").open("wb") as stream:
        for _ in range(size // 1_000_000):
            stream.write(os.urandom(1_000_000))
    image, repository = folder / "a.squashfs", folder / "repo"
    argv: list[str | Path] = [
        "mksquashfs",
        folder / "tree",
        image,
        "-noD",
        "-noF",
        "-no-progress",
        "-quiet",
    ]
    subprocess.run(argv, check=True, capture_output=True)
    shutil.rmtree(folder / "tree")
    with docker_registry(folder / "server") as address:
        env = {
            **os.environ, "STACKPROOF_REGISTRY": address, "HOME": str(folder),
            "STACKPROOF_REPOSITORY": str(repository), "STACKPROOF_CACHE": str(folder / "cache"),
        }  # fmt: skip
        verb = [sys.executable, "-m", "stackproof", "image"]
        pushed, _ = _timed([*verb, "push", str(image), f"build::{_LABEL}"], env)
        size = image.stat().st_size
        digest = subprocess.check_output(["sha256sum", image], text=True).split()[0]
        image.unlink()
        blob = f"http://{address}/v2/build/here/any/bench/1/blobs/sha256:{digest}"
        rates: dict[str, list[float]] = {"curl": [], "image pull": []}
        memory = 0
        for _ in range(count):
            seconds, _ = _timed(["curl", "-s", "-o", str(folder / "curled"), blob], env)
            rates["curl"].append(size / seconds / 1e6)
            (folder / "curled").unlink()
            seconds, used = _timed([*verb, "pull", f"build::{_LABEL}"], env)
            rates["image pull"].append(size / seconds / 1e6)
            memory = max(memory, used)
            shutil.rmtree(repository)
    for name, found in rates.items():
        print(
            f"{name:<12} {statistics.median(found):8.0f} MB/s  ({min(found):.0f}-{max(found):.0f})"
        )
    ratios = [b / a for a, b in zip(*rates.values(), strict=True)]
    print(f"pull : curl  {100 * statistics.median(ratios):8.0f} %")
    print(f"memory       {memory / 1e6:8.0f} MB; push {size / pushed / 1e6:.0f} MB/s")


if __name__ == "__main__":
    main()
