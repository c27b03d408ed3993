"""The demo: from recipes to a verdict and a report, with the commands that a user types.

    python tools/demo.py [--output FOLDER] [--launches N | --short] [--wait-for-quiet TIME]

Everything it makes lies in FOLDER (default `demo-out`); running it again continues there, however
the run before it ended: builds that are done are not repeated, and neither are launches whose
results are there. Results of another specification or of other images are moved aside.
Launches are made until enough is decided, within the budget that demo.yaml gives them.
`--short` shows that everything works, in two launches: too few for a verdict.
On a busy machine it says first what to expect, and `--wait-for-quiet` waits.
Of the lines by which commands say how far they are some are shown; all are in FOLDER/progress.log.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))  # also before there is an environment with the package

from stackproof.bench.amounts import parse_duration  # noqa: E402 - by the path above
from stackproof.core.effects import quiet  # noqa: E402 - by the path above
from stackproof.core.effects.quiet import MachineLoad  # noqa: E402 - by the path above
from stackproof.core.numbers import duration_text  # noqa: E402 - by the path above

# What each build does, and about how many seconds it takes on two quiet cores, with downloads.
BUILDS = {
    "libfabric": ("build libfabric from source", 60),
    "openmpi-5.0.8": ("make an image of Open MPI 5.0.8, which gets that libfabric", 10),
    "openmpi": ("make an image of Open MPI 5.0.11", 10),
    "mpich": ("make an image of MPICH", 10),
    "intel-mpi": ("make an image of Intel MPI, which the others are compared with", 20),
}
RECIPES = tuple(BUILDS)
DONE_S = 3  # a build that is done already
MEASURE_S = 340  # what demo.yaml allows the launches, and the probes before them
SHORT_S = 60
GIVEN_UP_S = 120  # where others disturb nearly every launch
PROGRESS = ("ok ", "== ")  # how lines begin that only say how far a command is
RELAY_S = 2.0  # how long to read on: what a command leaves running may keep its standard error
EVERY_S = 15.0  # how long one of them stands for those that follow
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
    f"{_NULL} `stackproof bench` exited with 0, and so does the demo.",
    WORSE: "The verdict is FAIL: at some points a stack is slower than Intel MPI. That is a "
    f"result, and the demo did not fail. {_NULL} The demo exits with 0; `stackproof bench` exited "
    "with 8, for scripts.",
    UNDECIDED: "The verdict is INCONCLUSIVE: at some points these launches do not show whether a "
    "stack is as fast as Intel MPI. The demo did not fail. A quieter machine, or more launches, "
    "decides more. The demo exits with 0; `stackproof bench` exited with 9, for scripts.",
}
IMB = ("mpiexec", "-n", "2", "IMB-MPI1", "PingPong", "-msglog", "3:4", "-iter", "100")


class _Stage(NamedTuple):
    """What a stage does, about how many seconds it takes, and the function that does it."""

    what: str
    seconds: float
    work: Callable[[], int]


def main() -> int:
    """Run the demo and return its exit code: 0 also when a verdict is FAIL, which is a result."""
    args = _arguments()
    load = quiet.watch(_say, "INCONCLUSIVE", args.wait_s, WAIT)
    output = Path(args.output).absolute()
    output.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / "demo" / "demo.yaml", output / "demo.yaml")
    # Of another checkout's demo, or another user's, this one knows nothing.
    cluster = f"demo-{hashlib.sha256(bytes(output)).hexdigest()[:6]}"
    begun, code = time.monotonic(), 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    _say(f"lines on progress are shortened here; all of them: {_near(_log(output))}")
    stages = _stages(output, cluster, args, load)
    try:
        for number, stage in enumerate(stages, 1):
            print(f"\n{number}/{len(stages)} {_head(stages[number - 1 :])}", flush=True)
            code = max(code, stage.work())
    except subprocess.CalledProcessError as error:
        return error.returncode
    except KeyboardInterrupt:
        print("\ninterrupted: the same command continues here", file=sys.stderr)
        return 128 + signal.SIGINT
    finally:
        _stackproof(output, "cluster", "down", "--name", cluster, ok=None)
    print(f"\nEverything ran, in {duration_text(time.monotonic() - begun)}. {MEANING[code]}")
    print(_next_steps(output))
    return 0


def _arguments() -> argparse.Namespace:
    """Return the options; `wait_s` is how long to wait for a quiet machine, in seconds, or None."""
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
    args = parser.parse_args()
    try:
        wait = args.wait_for_quiet
        args.wait_s = None if wait is None else parse_duration(wait)
    except ValueError as error:
        parser.error(f"--wait-for-quiet: {error}; for example 90s, 30m or 1h")
    return args


def _stages(
    output: Path, cluster: str, args: argparse.Namespace, load: MachineLoad
) -> tuple[_Stage, ...]:
    """Return all there is to do, in order, with the times of a machine that is so busy."""
    slower = load.factor if load.is_busy else 1.0

    def build(name: str) -> _Stage:
        image = output / f"{name}.squashfs"
        what, seconds = BUILDS[name]
        return _Stage(
            what, DONE_S if image.exists() else seconds,
            lambda: _stackproof(output, "build", ROOT / "recipes" / f"{name}.yaml", "-o", image),
        )  # fmt: skip

    seconds: float = MEASURE_S
    if args.launches == SHORT:
        seconds = SHORT_S
    elif load.is_busy:
        seconds = GIVEN_UP_S / slower
    stages = (
        *map(build, RECIPES),
        _Stage(
            "make two nodes of this machine", 2,
            lambda: _stackproof(
                output, "cluster", "up", "--nodes", "2", "--rate", RATE, "--name", cluster
            ),
        ),
        _Stage(
            "measure the MPIs against Intel's and judge", seconds,
            lambda: _bench(output, cluster, args.launches, args.wait_for_quiet),
        ),
        _Stage(
            "write the report", 10,
            lambda: _stackproof(
                output, "report", output / "results", "-o", output / "report.html"
            ),
        ),
        _Stage(
            "move Intel's benchmark program to MPICH, and refuse it a wrong MPI", 40,
            lambda: _inject(output),
        ),
    )  # fmt: skip
    return tuple(stage._replace(seconds=stage.seconds * slower) for stage in stages)


def _head(stages: Sequence[_Stage]) -> str:
    """Return what the first of these stages does and takes, and how long they take together."""
    left = duration_text(sum(stage.seconds for stage in stages))
    return f"{stages[0].what}, about {duration_text(stages[0].seconds)}, {left} left"


def _say(text: str) -> None:
    print(f"note: {text}", flush=True)


def _next_steps(output: Path) -> str:
    """Return the path of the report, and the commands to try now."""
    near = _near(output)
    return f"""
The report:  {output / "report.html"}
To go on:    . {Path(sys.prefix) / "bin" / "activate"}
             stackproof compare {near}/results
             stackproof doctor --results {near}/results
             stackproof run {near}/mpich.squashfs -- mpichversion"""


def _near(word: object) -> str:
    """Return a word of a command, a path in the current folder as a person would type it."""
    if isinstance(word, Path) and word.is_relative_to(Path.cwd()):
        word = word.relative_to(Path.cwd())
    return str(word)


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
        output, "bench", output / "demo.yaml", "-o", results, "--cluster", cluster, *more,
        ok=(0, WORSE, UNDECIDED),
    )  # fmt: skip


def _inject(output: Path) -> int:
    """Move the vendor's program to MPICH without building it anew; a wrong MPI is refused."""
    vendor, mpich, openmpi = (
        output / f"{name}.squashfs" for name in ("intel-mpi", "mpich", "openmpi")
    )
    _stackproof(output, "run", vendor, "--inject", mpich, "--", *IMB)
    _say("the next command has to end with an error, before anything crashes")
    _stackproof(output, "run", vendor, "--inject", openmpi, "--", *IMB, ok=(REFUSED,))
    proof = output / "injection"
    if proof.exists():  # of the run before this one, half a proof perhaps
        shutil.rmtree(proof)
    return _stackproof(
        output, "inject", "prove", "IMB-MPI1", "--own", vendor, "--with", mpich, "--wrong", openmpi,
        "-o", proof,
    )  # fmt: skip


def _log(output: Path) -> Path:
    return output / "progress.log"


def _relay(written: int, log: Path) -> None:
    """Show what a command writes to standard error, of its progress some lines, and keep all."""
    shown = time.monotonic()
    with os.fdopen(written, errors="replace") as lines, log.open("a") as kept:
        for line in lines:
            kept.write(line)
            kept.flush()
            if line.startswith(PROGRESS):
                if time.monotonic() - shown < EVERY_S:
                    continue
                shown = time.monotonic()
            print(line, end="", file=sys.stderr, flush=True)


def _stackproof(output: Path, *words: object, ok: tuple[int, ...] | None = (0,)) -> int:
    """Show and run one command; `ok` None accepts every exit code."""
    argv = [str(word) for word in words]
    print(f"$ stackproof {shlex.join(map(_near, words))}", flush=True)
    # Told to end while a command starts: only then is there a process that can be told as well.
    told: list[int] = []
    handlers = {
        number: signal.signal(number, lambda which, _: told.append(which))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    written, writes = os.pipe()
    with subprocess.Popen(  # noqa: S603 - this Python and our own package
        [sys.executable, "-m", "stackproof", *argv], stderr=writes
    ) as process:
        os.close(writes)
        relay = threading.Thread(target=_relay, args=(written, _log(output)), daemon=True)
        relay.start()
        try:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            for which in told:
                signal.raise_signal(which)
            code = process.wait()
        except BaseException as error:
            _let_end(process, told=isinstance(error, KeyboardInterrupt))
            raise
        finally:
            relay.join(RELAY_S)
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
