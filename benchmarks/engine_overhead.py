"""What the EasyBuild engine costs over `configure && make && make install` by hand.

    python benchmarks/engine_overhead.py [RECIPE [COUNT [JOBS]]]

RECIPE is one for EasyBuild with a lock beside it (default: recipes/libfabric.yaml), COUNT how many
rounds (default 3), JOBS how many processes at once (default: all cores). Its sources are downloaded
first, which is not timed. Then, in turns: `stackproof build`, with nothing kept of other builds, up
to the finished image; and what a person types for each component, in order, in the same memory:
unpack, configure, make, make install. These commands, options and all, are read from the log of the
first build, so that both compile the same. Printed are wall seconds, so the machine has to be idle,
and their ratio; the engine should cost at most a tenth more.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_SHELL = re.compile(r">> running shell command:\n\t(.*)\n")


def _timed(argv: list[str], env: dict[str, str], folder: Path) -> float:
    """Return the wall seconds of a program."""
    begun = time.perf_counter()
    with (folder / "output").open("wb") as output:
        done = subprocess.run(
            argv, cwd=folder, env=env, check=False,
            stdin=subprocess.DEVNULL, stdout=output, stderr=output,
        )  # fmt: skip
    if done.returncode:
        sys.stderr.write((folder / "output").read_text(errors="replace")[-3000:])
        sys.exit(f"{argv}: exit code {done.returncode}")
    return time.perf_counter() - begun


def _by_hand(
    lock: dict[str, Any], commands: dict[str, list[str]], sources: Path, prefix: Path
) -> str:
    """Return the script of a person: for each component, unpack it and do what the log says."""
    lines = ["set -eu", f"export PATH=/usr/local/bin:/usr/bin:/bin HOME={prefix}"]
    for one in lock["components"]:
        name, version = one["name"], one["version"]
        archive = sources / one["sources"][0]["filename"]
        work = prefix / "work" / name
        lines += [f"mkdir -p {work}", f"cd {work}", f"tar xf {archive} --strip-components=1"]
        target = f"{prefix}/software/{name}/{version}"
        lines += [
            command.replace("/user-environment", str(prefix)).replace("/user-tools", str(prefix))
            for command in commands[one["component"]]
        ]
        lines += [f"export EBROOT{re.sub('[^A-Z0-9]', '', name.upper())}={target}"]
    return "\n".join(lines) + "\n"


def _ran(logs: Path, component: dict[str, Any]) -> list[str]:
    """Return the commands that configured, compiled and installed, of a component's log."""
    (log,) = logs.glob(f"{component['name']}-{component['version']}-*.log")
    found = _SHELL.findall(log.read_text())
    return [line for line in found if "./configure" in line or re.search(r"\bmake\b", line)]


def main() -> None:
    """Build in turns, print the ratios."""
    recipe = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "recipes/libfabric.yaml").resolve()
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    jobs = sys.argv[3] if len(sys.argv) > 3 else str(len(os.sched_getaffinity(0)))
    lock = json.loads(recipe.with_suffix(".lock.json").read_text())
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - of the machine
    with tempfile.TemporaryDirectory(dir=memory) as name:
        _run(Path(name), recipe, lock, count, jobs)


def _run(folder: Path, recipe: Path, lock: dict[str, Any], count: int, jobs: str) -> None:
    mirror, cache = folder / "mirror", folder / "cache"
    stackproof = [sys.executable, "-m", "stackproof"]
    env = {**os.environ, "STACKPROOF_CACHE": str(cache)}
    build = [*stackproof, "build", str(recipe), "--locked", "--jobs", jobs, "--in-memory", "yes"]
    build += ["-o", str(folder / "image.squashfs")]
    fetch = [*stackproof, "mirror", "create", str(mirror), str(recipe)]
    subprocess.run(fetch, env=env, check=True, capture_output=True)
    build += ["--mirror", str(mirror)]
    sources = {path.name: path for path in mirror.rglob("*") if path.is_file()}
    for one in lock["components"]:
        shutil.copy(sources[one["sources"][0]["filename"]], folder)
    times: dict[str, list[float]] = {"build": [], "by hand": []}
    for number in range(count):
        shutil.rmtree(cache, ignore_errors=True)
        times["build"].append(_timed(build, env, folder))
        if number == 0:
            (logs,) = cache.glob("builds/*/logs")
            commands = {one["component"]: _ran(logs, one) for one in lock["components"]}
        prefix = folder / "by-hand"
        (folder / "script").write_text(_by_hand(lock, commands, folder, prefix))
        times["by hand"].append(_timed(["sh", str(folder / "script")], dict(os.environ), folder))
        shutil.rmtree(prefix)
        print("  ".join(f"{way} {kept[-1]:.1f} s" for way, kept in times.items()), flush=True)
    ratios = [one / other for one, other in zip(*times.values(), strict=True)]
    print(
        f"{recipe.stem}: build : by hand {statistics.median(ratios):.3f}"
        f" ({min(ratios):.3f}-{max(ratios):.3f}, {count} rounds)"
    )


if __name__ == "__main__":
    main()
