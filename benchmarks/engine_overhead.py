"""What an engine costs over `configure && make && make install` by hand.

    python benchmarks/engine_overhead.py [RECIPE [COUNT [JOBS]]] [-- OPTION...]

RECIPE is one for EasyBuild or Spack with a lock (default: recipes/libfabric.yaml), COUNT how many
rounds (default 3), JOBS how many processes at once (default: all cores), OPTION what `build` and
`mirror create` are given besides, such as `--site FILE` or `--mirror FOLDER`. The sources are
downloaded first, which is not timed, and Spack's index of its packages, which the first build with
a clone of them makes and keeps, is taken from your cache if it is there. Then, in turns:
`stackproof build`, with nothing else kept of other builds, up to the finished image; and what a
person types for each component, in order, in the same memory: unpack, patch, configure, make, make
install. These commands, options and all, are read from the logs of the first build, so that both
compile the same. Printed are wall seconds and the machine's CPU seconds, so it has to be idle, and
their ratios; the engine should cost at most a tenth more.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from stackproof.core.effects import files

ROOT = Path(__file__).resolve().parent.parent
_EASYBUILD = re.compile(r">> running shell command:\n\t(.*)\n")
_SPACK = re.compile(
    r"^==> \[[\d.:-]+\] ('.*(?:configure|autoreconf|autogen\S*|make)'.*)$", re.MULTILINE
)
_ASSIGNED = re.compile(r"^(?:export )?(\w+)=(.*?);", re.MULTILINE)
_ARCHIVE = re.compile(r"^==> Using cached archive: \S+/_source-cache/archive/(\S+)$", re.MULTILINE)


def _timed(argv: list[str], env: dict[str, str], folder: Path) -> tuple[float, float]:
    """Return the wall seconds of a program, and the CPU seconds used meanwhile."""
    begun, used = time.perf_counter(), _cpu()
    with (folder / "output").open("wb") as output:
        done = subprocess.run(
            argv, env=env, check=False,
            stdin=subprocess.DEVNULL, stdout=output, stderr=output,
        )  # fmt: skip
    if done.returncode:
        sys.stderr.write((folder / "output").read_text(errors="replace")[-3000:])
        sys.exit(f"{argv}: exit code {done.returncode}")
    return time.perf_counter() - begun, _cpu() - used


def _cpu() -> float:
    """Return the CPU seconds of the whole machine: a sandbox keeps those of what ran in it."""
    # user, nice, system, idle, iowait, irq, softirq: proc_stat(5)
    fields = Path("/proc/stat").read_text().split(maxsplit=8)[1:8]
    idle = {3, 4}
    ticks = sum(int(one) for index, one in enumerate(fields) if index not in idle)
    return ticks / os.sysconf("SC_CLK_TCK")


def _begin(prefix: Path) -> list[str]:
    """Return how the script of a person begins."""
    path = "/usr/local/bin:/usr/bin:/bin"
    return [
        "set -eu",
        f"mkdir -p {prefix}/temporary",
        f"export PATH={path} HOME={prefix} TMPDIR={prefix}/temporary LC_ALL=C.UTF-8",
    ]


def _unpack(archive: Path, work: Path) -> list[str]:
    return [f"mkdir -p {work}", f"cd {work}", f"tar xf {archive} --strip-components=1"]


def _easybuild(lock: Path, cache: Path, sources: dict[str, Path], prefix: Path) -> list[str]:
    """Return what a person would type for each component, by EasyBuild's own logs."""
    (logs,) = cache.glob("builds/*/logs")
    lines = _begin(prefix)
    for one in json.loads(lock.read_text())["components"]:
        name, version = one["name"], one["version"]
        lines += _unpack(sources[one["sources"][0]["filename"]], prefix / "work" / name)
        (log,) = logs.glob(f"{name}-{version}-*.log")
        lines += [
            command.replace("/user-environment", str(prefix)).replace("/user-tools", str(prefix))
            for command in _EASYBUILD.findall(log.read_text())
            if "./configure" in command or re.search(r"\bmake\b", command)
        ]
        target = f"{prefix}/software/{name}/{version}"
        lines += [f"export EBROOT{re.sub('[^A-Z0-9]', '', name.upper())}={target}"]
    return lines


def _spack(lock: Path, cache: Path, sources: dict[str, Path], prefix: Path) -> list[str]:
    """Return what a person would type for each package, by the logs that Spack keeps with them."""
    del lock
    kept = dict(_spack_records(cache))
    (log,) = cache.glob("builds/*/logs/install-*-1.log")
    lines = _begin(prefix)
    _, *parts = re.split(r"^==> Installing ", log.read_text(), flags=re.MULTILINE)
    for part in parts:
        name = part.split()[0]
        commands = _SPACK.findall(kept[name, "spack-build-out.txt.gz"])
        if not commands:
            continue  # the compiler's wrapper, and its own libraries: not of a person's build
        archive, *patches = (sources[Path(one).name] for one in _ARCHIVE.findall(part))
        if part.count("==> Applied patch ") != len(patches):
            sys.exit(f"{name}: a patch of the package's own folder, which is not read here")
        work = prefix / "work" / name
        lines += _unpack(archive, work)
        lines += [f"patch -s -p1 -i {patch}" for patch in patches]
        own = dict(_ASSIGNED.findall(kept[name, "spack-build-env.txt"]))
        flags = own["SPACK_TARGET_ARGS_CC"].strip("'")
        lines += [f"export CC='gcc {flags}' CXX='g++ {flags}' FC='gfortran {flags}'"]
        variables = {
            "LIBRARY_PATH": own["SPACK_STORE_LINK_DIRS"],
            "LD_LIBRARY_PATH": own["SPACK_STORE_LINK_DIRS"],
            "CPATH": own["SPACK_STORE_INCLUDE_DIRS"],
            "PKG_CONFIG_PATH": own.get("PKG_CONFIG_PATH", "''"),
        }
        lines += [f"export {key}={text}" for key, text in variables.items() if text != "''"]
        lines += [re.sub(r"/build/stage/\S*?/spack-src", str(work), line) for line in commands]
    return [line.replace("/user-environment", str(prefix)) for line in lines]


def _spack_records(cache: Path) -> Iterator[tuple[tuple[str, str], str]]:
    """Yield what Spack keeps of its builds in binary packages, by package and name of the file."""
    for path in cache.glob("spack/packages/*/blobs/*/*/*"):
        if not tarfile.is_tarfile(path):
            continue
        with tarfile.open(path) as package:
            for member in package.getmembers():
                *_, name, folder, file = ["", "", *member.name.split("/")]
                if folder == ".spack" and file.startswith("spack-build"):
                    stream = package.extractfile(member)
                    data = stream.read() if stream else b""
                    text = gzip.decompress(data) if file.endswith(".gz") else data
                    yield (name, file), text.decode(errors="replace")


def _lock_of(recipe: Path) -> Path:
    """Return the lock beside a recipe: the one named after it alone, or the only one."""
    own = recipe.with_suffix(".lock.json")
    found = [own] if own.exists() else sorted(recipe.parent.glob(f"{recipe.stem}.*.lock.json"))
    if len(found) != 1:
        sys.exit(f"{recipe}: {len(found)} locks beside it; measured is a recipe that has one")
    return found[0]


def main() -> None:
    """Build in turns, print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipe", nargs="?", type=Path, default=ROOT / "recipes/libfabric.yaml")
    parser.add_argument("count", nargs="?", type=int, default=3)
    parser.add_argument("jobs", nargs="?", type=int, default=len(os.sched_getaffinity(0)))
    words = [*sys.argv[1:], "--"]
    split = words.index("--")
    asked, options = parser.parse_args(words[:split]), words[split + 1 : -1]
    if asked.count < 1 or asked.jobs < 1:
        parser.error("COUNT and JOBS are at least 1")
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - of the machine
    with tempfile.TemporaryDirectory(dir=memory) as name:
        _run(Path(name), asked.recipe.resolve(), asked.count, asked.jobs, options)


def _run(folder: Path, recipe: Path, count: int, jobs: int, options: list[str]) -> None:
    lock = _lock_of(recipe)
    by_hand = _easybuild if "components" in json.loads(lock.read_text()) else _spack
    mirror, cache = folder / "mirror", folder / "cache"
    stackproof = [sys.executable, "-m", "stackproof"]
    env = {**os.environ, "STACKPROOF_CACHE": str(cache)}
    fetch = [*stackproof, "mirror", "create", str(mirror), str(recipe), *options]
    if subprocess.run(fetch, env=env, check=False, stdout=subprocess.DEVNULL).returncode:
        sys.exit("the sources could not be downloaded")
    indices = Path(files.cache_home(), "spack/indices")
    if indices.is_dir():
        shutil.copytree(indices, cache / "spack/indices", dirs_exist_ok=True)
    sources = {path.name: path for path in mirror.rglob("*") if path.is_file()}
    build = [*stackproof, "build", str(recipe), *options, "--locked", "--jobs", str(jobs)]
    build += ["--mirror", str(mirror), "--in-memory", "yes", "-o", str(folder / "image.squashfs")]
    times: dict[str, list[tuple[float, float]]] = {"build": [], "by hand": []}
    prefix = folder / "by-hand"
    ways: dict[str, tuple[list[str], dict[str, str]]] = {
        "build": (build, env),
        "by hand": (["sh", str(folder / "script")], dict(os.environ)),
    }
    for number in range(count):
        # Each goes first in half of the rounds: a machine that grows warm or busy favours neither.
        for way in list(ways)[:: -1 if number % 2 else 1]:
            for kept in ("builds", "easybuild", "spack/packages"):
                shutil.rmtree(cache / kept, ignore_errors=True)
            times[way].append(_timed(*ways[way], folder))
            if number == 0 and way == "build":
                script = "\n".join(by_hand(lock, cache, sources, prefix)) + "\n"
                (folder / "script").write_text(script)
            shutil.rmtree(prefix, ignore_errors=True)
        print(
            "  ".join(
                f"{way} {kept[-1][0]:.1f} s, {kept[-1][1]:.1f} s of CPU"
                for way, kept in times.items()
            ),
            flush=True,
        )
    for index, clock in enumerate(("wall", "CPU")):
        ratios = [one[index] / other[index] for one, other in zip(*times.values(), strict=True)]
        print(
            f"{recipe.stem}, {clock} time: build : by hand {statistics.median(ratios):.3f}"
            f" ({min(ratios):.3f}-{max(ratios):.3f}, {count} rounds)"
        )


if __name__ == "__main__":
    main()
