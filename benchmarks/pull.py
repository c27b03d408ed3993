"""How fast `image pull` is beside curl, from docker-registry here, and what memory it takes.

    python benchmarks/pull.py [MEGABYTES [COUNT]]

An image of MEGABYTES (default 1000) that nothing can be packed in is pushed once. Then, in turns,
COUNT times (default 5): curl writes its blob to a file, alone, until that is on the disk (`sync`),
and with `sha256sum` of it afterwards; and `image pull` brings it into an empty repository, with its
SHA-256 made, and on the disk when it ends, by modules that are compiled, as pip leaves them. The
pull should reach 80 % of the rate of curl with `sync`, and its memory should not grow with the
image. TMPDIR says on which disk: one of memory (/dev/shm) takes the disk out of the comparison.
Where there is no docker-registry it says so.
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
            "PYTHONPYCACHEPREFIX": str(folder / "compiled"), "PYTHONDONTWRITEBYTECODE": "",
        }  # fmt: skip
        verb = [sys.executable, "-m", "stackproof", "image"]
        pushed, _ = _timed([*verb, "push", str(image), f"build::{_LABEL}"], env)
        size = image.stat().st_size
        digest = subprocess.check_output(["sha256sum", image], text=True).split()[0]
        image.unlink()
        blob = f"http://{address}/v2/build/here/any/bench/1/blobs/sha256:{digest}"
        curled = str(folder / "curled")
        ways = {
            "curl": [["curl", "-s", "-o", curled, blob]],
            "curl, sync": [["curl", "-s", "-o", curled, blob], ["sync", curled]],
            "curl, sha256sum": [["curl", "-s", "-o", curled, blob], ["sha256sum", curled]],
            "image pull": [[*verb, "pull", f"build::{_LABEL}"]],
        }
        rates: dict[str, list[float]] = {name: [] for name in ways}
        memory = 0
        for _ in range(count):
            for name, commands in ways.items():
                done = [_timed(argv, env) for argv in commands]
                rates[name].append(size / sum(seconds for seconds, _ in done) / 1e6)
                memory = max(memory, done[0][1]) if name == "image pull" else memory
                shutil.rmtree(repository, ignore_errors=True)
                (folder / "curled").unlink(missing_ok=True)
    for name, found in rates.items():
        print(f"{name:<16} {_spread(found, 'MB/s')}")
    own = rates.pop("image pull")
    for name, found in rates.items():
        ratios = [100 * mine / other for mine, other in zip(own, found, strict=True)]
        print(f"pull : {name:<15} {_spread(ratios, '%')}")
    print(f"memory {memory / 1e6:.0f} MB; push {size / pushed / 1e6:.0f} MB/s")


def _spread(found: list[float], unit: str) -> str:
    return f"{statistics.median(found):6.0f} {unit}  ({min(found):.0f}-{max(found):.0f})"


if __name__ == "__main__":
    main()
