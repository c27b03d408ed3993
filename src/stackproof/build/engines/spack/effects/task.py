"""What each worker of an installation on several nodes starts as: looks around, then installs.

    python -I -S task.py FILE TOKEN

FILE is JSON in the folder of the build: `token`, `argv` (the command, its sandbox included) and
`needs` (paths that must be there). The token tells that it is the same file here as there: a
folder of the same name on another machine is not shared. What the worker says of itself is a line
of `stackproof.build.engines.spack.workers.MARK` and JSON: `node`, `lacks` (a path) when something
is not to be seen here, `code` when the command has ended.

Imports nothing of the package: it is started with `-I`, from where the package lies.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

_MARK = "stackproof-worker:"  # tested to be that of workers.py
_CORES = "@cores@"
_LACKING = 3


def say(**facts: object) -> None:
    """Print one line about this worker."""
    node = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
    sys.stdout.write(f"{_MARK} {json.dumps({'node': node, **facts})}\n")
    sys.stdout.flush()


def main(path: str, token: str) -> int:
    """Run the command of the file and return its exit code."""
    try:
        with open(path, encoding="utf-8") as stream:
            work = json.load(stream)
    except (OSError, ValueError):
        work = {}
    if work.get("token") != token:
        say(lacks=path)
        return _LACKING
    lacking = next((need for need in work["needs"] if not os.path.exists(need)), None)
    if lacking is not None:
        say(lacks=lacking)
        return _LACKING
    say()
    os.umask(0o022)
    cores = str(len(os.sched_getaffinity(0)))
    argv = [word.replace(_CORES, cores) for word in work["argv"]]
    with subprocess.Popen(argv) as process:  # noqa: S603 - argv that stackproof wrote for this task
        # Slurm signals every process of a step by itself; this one has to tell of the end.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: process.terminate())
        code = process.wait()
    say(code=code if code >= 0 else 128 - code)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
