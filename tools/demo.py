"""The demo: from recipes to a verdict and a report, with the commands that a user types.

    python tools/demo.py [--output FOLDER] [--launches N]

Everything it makes lies in FOLDER (default `demo-out`); running it again continues there: builds
that are done are not repeated, and neither are launches whose results are there.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECIPES = ("libfabric", "openmpi-5.0.8", "openmpi", "mpich", "intel-mpi")
CLUSTER = "demo"
RATE = "10gbit"
WORSE = 8
REFUSED = 8
IMB = ("mpiexec", "-n", "2", "IMB-MPI1", "PingPong", "-msglog", "3:4", "-iter", "100")


def main() -> int:
    """Run the demo and return its exit code: 0 also when a verdict is FAIL, which is a result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="demo-out", help="folder for everything that is made")
    parser.add_argument("--launches", type=int, help="launches per arm and placement")
    args = parser.parse_args()
    output = Path(args.output).absolute()
    output.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / "demo" / "demo.yaml", output / "demo.yaml")
    begun = time.monotonic()
    try:
        for name in RECIPES:
            recipe = ROOT / "recipes" / f"{name}.yaml"
            _stackproof("build", recipe, "-o", output / f"{name}.squashfs")
        _stackproof("cluster", "up", "--nodes", "2", "--rate", RATE, "--name", CLUSTER)
        launches = ("--launches", str(args.launches)) if args.launches else ()
        code = _stackproof(
            "bench", output / "demo.yaml", "-o", output / "results", "--cluster", CLUSTER,
            *launches, ok=(0, WORSE),
        )  # fmt: skip
        _stackproof("report", output / "results", "-o", output / "report.html")
        _inject(output)
    except subprocess.CalledProcessError as error:
        return error.returncode
    except KeyboardInterrupt:
        return 130
    finally:
        _stackproof("cluster", "down", "--name", CLUSTER, ok=None)
    print(f"\nThe report is {output / 'report.html'} ({time.monotonic() - begun:.0f} s in all).")
    if code == WORSE:
        print(
            "A verdict is FAIL: `stackproof bench` ended with exit code 8, as it does in scripts."
        )
    return 0


def _inject(output: Path) -> None:
    """Move the vendor's program to MPICH without building it anew; a wrong MPI is refused."""
    vendor, mpich, openmpi = (
        output / f"{name}.squashfs" for name in ("intel-mpi", "mpich", "openmpi")
    )
    _stackproof("run", vendor, "--inject", mpich, "--", *IMB)
    _stackproof("run", vendor, "--inject", openmpi, "--", *IMB, ok=(REFUSED,))
    _stackproof(
        "inject", "prove", "IMB-MPI1", "--own", vendor, "--with", mpich, "--wrong", openmpi,
        "-o", output / "injection",
    )  # fmt: skip


def _stackproof(*words: object, ok: tuple[int, ...] | None = (0,)) -> int:
    """Show and run one command; `ok` None accepts every exit code."""
    argv = [str(word) for word in words]
    print(f"\n$ stackproof {shlex.join(argv)}", flush=True)
    code = subprocess.run([sys.executable, "-m", "stackproof", *argv], check=False).returncode
    if ok is not None and code not in ok:
        raise subprocess.CalledProcessError(code, argv)
    return code


if __name__ == "__main__":
    sys.exit(main())
