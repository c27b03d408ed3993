"""How long a Spack stack takes to plan, to build, and to build again.

    python benchmarks/spack_build.py --spack REPO@TAG --packages REPO@TAG [--folder DIR]
        [--weight N] [--peer CHECKOUT [--peer-python PYTHON]] [--json FILE]

REPO is the address or the folder of a clone. The stack is made here and needs no sources: twelve
packages, each compiles C of its own (`--weight` functions), four of them depend on the one that is
changed later. Times are wall seconds of whole commands:

    indices    the first lock: clones, Spack's indices of packages
    lock       Spack chooses the packages, which none of the builds below do again
    disk       everything is built, the tree on disk, caches empty
    memory     the same with the tree in memory
    cached     the build folder is gone, all packages come from the cache
    unchanged  nothing to do
    relock     another version of one package: a new lock
    changed    it and its dependents are built, the rest comes from the cache

Beside their ratios stand those of a paper on Stackinator (45, 26, 10 and 3 minutes for a stack of a
climate model: on disk, in memory, with another Python, from a cache). With `--peer`, a checkout of
Stackinator's branch for version 2 of the recipe language, `plan` is timed beside its `stack-config`
for one recipe (medians; its clones are there already). The peer is run from its checkout, nothing
of it is part of this project.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PAPER = {"disk": 45, "memory": 26, "changed": 10, "cached": 3}
NAMES = [f"part-{letter}" for letter in "abcdefghijkl"]
CHANGED, DEPENDENTS = "part-c", ("part-d", "part-e", "part-f", "part-g")
REPEATS = 5
STACK_CONFIG = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from stackinator.main import main; "
    "sys.exit(main())"
)
PACKAGE = '''from spack.package import *


class {name}(Package):
    """Functions for a benchmark."""

    homepage = "https://example.org"
    has_code = False
    version("2.0")
    version("1.0")
    depends_on("c", type="build")
{depends}
    def install(self, spec, prefix):
        mkdirp(prefix.lib)
        with open("part.c", "w") as stream:
            for number in range({weight}):
                stream.write("double f%d(double *a, int n) {{ double s = %d; for (int i = 0; i < n;"
                             " i++) {{ a[i] = a[i] * s + i; s += a[i] > 0 ? a[i] : -a[i]; }}"
                             " return s; }}\\n" % (number, number))
        which("cc")("-O3", "-shared", "-fPIC", "-o", prefix.lib + "/lib{name}.so", "part.c")
'''
SITE = {
    "packages.yaml": """packages:
  gcc:
    buildable: false
    externals:
    - spec: gcc@{version} languages:='c,c++,fortran'
      prefix: /usr
      extra_attributes:
        compilers: {{c: /usr/bin/gcc, cxx: /usr/bin/g++, fortran: /usr/bin/gfortran}}
""",
    "network.yaml": "packages: {}\nmpi: {}\n",
}


def write(folder: Path, args: argparse.Namespace) -> None:
    """Write the recipe for both versions of the language, and the site."""
    version = subprocess.run(
        ["gcc", "-dumpfullversion"], capture_output=True, text=True, check=True
    ).stdout.strip()
    for name, text in SITE.items():
        put(folder / "site" / name, text.format(version=version) if "{version}" in text else text)
    (spack, spack_tag), (packages, packages_tag) = (
        text.rpartition("@")[::2] for text in (args.spack, args.packages)
    )
    clones = (
        f"spack:\n  repo: {spack}\n  commit: {spack_tag}\n"
        f"  packages: {{repo: {packages}, commit: {packages_tag}}}\n"
    )
    for recipe, number, compiler in (("stack", 3, "system"), ("other", 2, '"14"')):
        here = folder / recipe
        head = f"name: {recipe}\nversion: {number}\n" if number > 1 else ""
        store = "store: /user-environment\n" if number == 2 else ""
        put(here / "config.yaml", head + store + clones)
        put(here / "compilers.yaml", f"gcc: {{version: {compiler}}}\n")
        put(here / "environments.yaml", environments("1.0"))
        for name in NAMES:
            path = here / "repo" / "packages" / name.replace("-", "_") / "package.py"
            put(path, package(name, args.weight))


def environments(changed: str) -> str:
    """Return environments.yaml with a version of the package that is changed."""
    specs = [f"{name}@{changed if name == CHANGED else '1.0'}" for name in NAMES]
    return (
        "default:\n  compiler: [gcc]\n  network: {mpi: null}\n"
        f"  specs: [{', '.join(specs)}]\n  views: {{default: {{}}}}\n"
    )


def package(name: str, weight: int) -> str:
    """Return the package.py of one part."""
    depends = f'    depends_on("{CHANGED}")\n' if name in DEPENDENTS else ""
    words = "".join(word.capitalize() for word in name.split("-"))
    return PACKAGE.format(name=words, depends=depends, weight=weight)


def put(path: Path, text: str) -> None:
    """Write a file and its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def seconds(argv: list[str], env: dict[str, str], cwd: Path) -> float:
    """Return the wall time of one program in seconds; ends everything when it fails."""
    started = time.perf_counter()
    done = subprocess.run(argv, env=env, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(argv)}\nexited with {done.returncode}\n{done.stdout}{done.stderr}")
    return time.perf_counter() - started


def build_times(folder: Path, env: dict[str, str]) -> dict[str, float]:
    """Return the times of all builds, in the order in which they are made."""
    stackproof = [sys.executable, "-m", "stackproof"]
    argv = [*stackproof, "build", "stack", "--site", "site", "-o", "stack.squashfs"]
    cache = Path(env["STACKPROOF_CACHE"])
    times: dict[str, float] = {}

    def say(name: str, *words: str) -> None:
        times[name] = seconds([*argv, *words], env, folder)
        print(f"{name:10} {times[name]:8.1f} s", flush=True)

    def forget(*names: str) -> None:
        for name in names:
            shutil.rmtree(cache / name, ignore_errors=True)

    say("indices", "--stop-after", "lock")  # clones, and Spack's indices of packages: once
    say("lock", "--stop-after", "lock", "--update")
    say("disk", "--in-memory=no")
    forget("builds", "spack/packages")
    say("memory", "--in-memory=yes")
    forget("builds")
    say("cached", "--in-memory=yes")
    say("unchanged", "--in-memory=yes")
    put(folder / "stack" / "environments.yaml", environments("2.0"))
    say("relock", "--stop-after", "lock")
    say("changed", "--in-memory=yes")
    return times


def plan_times(folder: Path, env: dict[str, str], args: argparse.Namespace) -> dict[str, float]:
    """Return the medians of `plan` and of the peer's `stack-config` for one recipe."""
    ours = [sys.executable, "-m", "stackproof", "plan", "other", "--site", "site"]
    seconds(ours, env, folder)
    times = {"plan": statistics.median(seconds(ours, env, folder) for _ in range(REPEATS))}
    if args.peer:
        # It refuses to work below /tmp.
        with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
            words = ["-r", "other", "-s", "site", "-b", f"{name}/build"]
            theirs = [args.peer_python, "-c", STACK_CONFIG, args.peer, *words]
            times["stack-config, first"] = seconds(theirs, env, folder)
            times["stack-config"] = statistics.median(
                seconds(theirs, env, folder) for _ in range(REPEATS)
            )
    for name, value in times.items():
        print(f"{name:20} {value:8.2f} s", flush=True)
    return times


def main() -> None:
    """Time everything and print it beside the paper's."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--spack", required=True, metavar="REPO@TAG")
    parser.add_argument("--packages", required=True, metavar="REPO@TAG")
    parser.add_argument("--folder", type=Path, help="where to work; default: a temporary folder")
    parser.add_argument("--weight", type=int, default=400, help="functions in each package")
    parser.add_argument("--peer", metavar="CHECKOUT")
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = args.folder or Path(name)
        write(folder, args)
        env = {**os.environ, "STACKPROOF_CACHE": str(folder / "cache")}
        result = {"plan": plan_times(folder, env, args), "build": build_times(folder, env)}
    times = result["build"]
    print("\n            ours   paper   (disk = 1)")
    for key, minutes in PAPER.items():
        print(f"{key:10} {times[key] / times['disk']:6.2f}  {minutes / PAPER['disk']:6.2f}")
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
