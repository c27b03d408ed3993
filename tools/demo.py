"""The demo: from recipes to a verdict and a report, with the commands that a user types.

    python tools/demo.py [--output FOLDER] [--launches N | --short] [--wait-for-quiet TIME]

Everything it makes lies in FOLDER (default `demo-out`); running it again continues there, however
the run before it ended: builds that are done are not repeated, and neither are launches whose
results are there. Results of another specification or of other images are moved aside.
Launches are made until enough is decided, within the budget that demo.yaml gives them.
`--short` shows that everything works, in two launches: too few for a verdict.
On a busy machine it says first what to expect, and `--wait-for-quiet` waits; `--look` only does
that, before anything is installed.
"""

from __future__ import annotations

import argparse
import hashlib
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # also before there is an environment with the package

from stackproof.bench.amounts import parse_duration  # noqa: E402 - by the path above
from stackproof.core.effects import quiet  # noqa: E402 - by the path above

RECIPES = ("libfabric", "openmpi-5.0.8", "openmpi", "mpich", "intel-mpi")
RATE = "10gbit"
SHORT = 2
WORSE = 8
UNDECIDED = 9
REFUSED = 8
# An interrupted command ends by itself, having put away what is half done.
PATIENCE_S = 20.0
WAIT = "`make demo DEMO='--wait-for-quiet 30m'`"
_NULL = (
    "Intel MPI was measured against itself as well, which shows how much of a difference is noise."
)
MEANING = {
    0: "The verdict is PASS: each stack is as fast as Intel MPI within the margins, everywhere. "
    f"{_NULL} `stackproof bench` ended with 0.",
    WORSE: "The verdict is FAIL: at some points a stack is slower than Intel MPI, which is a "
    f"finding of the comparison and no failed demo. {_NULL} `stackproof bench` ended with 8, by "
    "which a script can tell.",
    UNDECIDED: "The verdict is INCONCLUSIVE: at some points these launches do not tell whether a "
    "stack is as fast as Intel MPI, which is no failed demo. A quieter machine, or more launches, "
    "decides more. `stackproof bench` ended with 9, by which a script can tell.",
}
IMB = ("mpiexec", "-n", "2", "IMB-MPI1", "PingPong", "-msglog", "3:4", "-iter", "100")


def main() -> int:
    """Run the demo and return its exit code: 0 also when a verdict is FAIL, which is a result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="demo-out", help="folder for everything that is made")
    how_many = parser.add_mutually_exclusive_group()
    how_many.add_argument("--launches", type=int, help="most launches per arm and placement")
    how_many.add_argument(
        "--short", action="store_const", dest="launches", const=SHORT,
        help=f"{SHORT} launches: everything is done once, and nothing decided",
    )  # fmt: skip
    parser.add_argument(
        "--wait-for-quiet", metavar="TIME", help="on a busy machine wait at most so long, as 30m"
    )
    parser.add_argument("--look", action="store_true", help="only look whether it is busy")
    args = parser.parse_args()
    try:
        wait_s = None if args.wait_for_quiet is None else parse_duration(args.wait_for_quiet)
    except ValueError as error:
        parser.error(f"--wait-for-quiet: {error}; for example 90s, 30m or 1h")
    quiet.watch(_say, "INCONCLUSIVE", wait_s, WAIT)
    if args.look:
        return 0
    output = Path(args.output).absolute()
    output.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / "demo" / "demo.yaml", output / "demo.yaml")
    # Of another checkout's demo, or another user's, this one knows nothing.
    cluster = f"demo-{hashlib.sha256(bytes(output)).hexdigest()[:6]}"
    begun = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        for name in RECIPES:
            recipe = ROOT / "recipes" / f"{name}.yaml"
            _stackproof("build", recipe, "-o", output / f"{name}.squashfs")
        _stackproof("cluster", "up", "--nodes", "2", "--rate", RATE, "--name", cluster)
        code = _bench(output, cluster, args.launches, args.wait_for_quiet)
        _stackproof("report", output / "results", "-o", output / "report.html")
        _inject(output)
    except subprocess.CalledProcessError as error:
        return error.returncode
    except KeyboardInterrupt:
        print("\ninterrupted: the same command continues here", file=sys.stderr)
        return 128 + signal.SIGINT
    finally:
        _stackproof("cluster", "down", "--name", cluster, ok=None)
    print(f"\nEverything ran, in {time.monotonic() - begun:.0f} s. {MEANING[code]}")
    print(_next_steps(output))
    return 0


def _say(text: str) -> None:
    print(f"note: {text}", flush=True)


def _next_steps(output: Path) -> str:
    """Return the path of the report, and the commands to try now."""
    near = output.relative_to(Path.cwd()) if output.is_relative_to(Path.cwd()) else output
    return f"""
The report:  {output / "report.html"}
To go on:    source {Path(sys.prefix) / "bin" / "activate"}
             stackproof compare {near}/results
             stackproof doctor --results {near}/results
             stackproof run {near}/mpich.squashfs -- mpichversion"""


def _bench(output: Path, cluster: str, launches: int | None, wait: str | None) -> int:
    """Measure and judge; results that these images cannot continue are moved aside first."""
    results, mark = output / "results", output / ".results-of"
    wanted = hashlib.sha256(f"{launches}\n".encode())
    for path in (output / "demo.yaml", *(output / f"{name}.squashfs" for name in RECIPES)):
        wanted.update(hashlib.sha256(path.read_bytes()).digest())
    if results.exists() and (not mark.exists() or mark.read_text() != wanted.hexdigest()):
        number = next(n for n in range(1, 1 << 20) if not Path(f"{results}-{n}").exists())
        results.rename(f"{results}-{number}")
        print(f"\n{results} is of other images or launches: it is {results}-{number} now")
    mark.write_text(wanted.hexdigest())
    more: tuple[str, ...] = () if launches is None else ("--launches", str(launches))
    more += () if wait is None else ("--wait-for-quiet", wait)
    return _stackproof(
        "bench", output / "demo.yaml", "-o", results, "--cluster", cluster, *more,
        ok=(0, WORSE, UNDECIDED),
    )  # fmt: skip


def _inject(output: Path) -> None:
    """Move the vendor's program to MPICH without building it anew; a wrong MPI is refused."""
    vendor, mpich, openmpi = (
        output / f"{name}.squashfs" for name in ("intel-mpi", "mpich", "openmpi")
    )
    _stackproof("run", vendor, "--inject", mpich, "--", *IMB)
    _stackproof("run", vendor, "--inject", openmpi, "--", *IMB, ok=(REFUSED,))
    proof = output / "injection"
    if proof.exists():  # of the run before this one, half a proof perhaps
        shutil.rmtree(proof)
    _stackproof(
        "inject", "prove", "IMB-MPI1", "--own", vendor, "--with", mpich, "--wrong", openmpi,
        "-o", proof,
    )  # fmt: skip


def _stackproof(*words: object, ok: tuple[int, ...] | None = (0,)) -> int:
    """Show and run one command; `ok` None accepts every exit code."""
    argv = [str(word) for word in words]
    print(f"\n$ stackproof {shlex.join(argv)}", flush=True)
    # Told to end while a command starts: only then is there a process that can be told as well.
    told: list[int] = []
    handlers = {
        number: signal.signal(number, lambda which, _: told.append(which))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    with subprocess.Popen([sys.executable, "-m", "stackproof", *argv]) as process:  # noqa: S603 - this Python and our own package
        try:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            for which in told:
                signal.raise_signal(which)
            code = process.wait()
        except BaseException as error:
            _let_end(process, told=isinstance(error, KeyboardInterrupt))
            raise
    if ok is not None and code not in ok:
        raise subprocess.CalledProcessError(code, argv)
    return code


def _let_end(process: subprocess.Popen[bytes], *, told: bool) -> None:
    """Wait for a command to put its things away; a terminal has told it already to end."""
    if not told:
        process.terminate()
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
