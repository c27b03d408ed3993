"""Start one rank and write down every file that it maps, seen from outside of it.

    python -I rank_maps.py FOLDER [NAME=VALUE…] -- PROGRAM [ARGUMENT…]

The rank is a child of this process, which reads /proc/PID/maps until it ends: often while it
starts, then rarely. Nothing is put into the rank, so that its loader does what it does otherwise.
NAME=VALUE is set for the rank alone: what the loader reads must not change this program. The end of
the rank, exit code or signal, becomes the end of this process.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import time

if __name__ == "__main__":  # run by its path, with `-I`: the package is around this file
    _here = os.path.abspath(__file__)
    for _ in range(4):  # effects, the room, the package
        _here = os.path.dirname(_here)
    sys.path.insert(0, _here)

from stackproof.core.effects import libc

SCHEMA = "stackproof/rank-witness/1"
_FIRST_S, _OFTEN_S, _RARELY_S = 0.5, 0.005, 0.1
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_NOT_FOUND = 127
_PR_SET_PDEATHSIG = 1  # prctl(2)


def main(words: list[str]) -> int:
    """Do what the module's docstring says."""
    at = words.index("--")
    folder, settings, argv = words[0], words[1:at], words[at + 1 :]
    environment = {**os.environ, **dict(word.split("=", 1) for word in settings)}
    # Both ends close when the rank is executed: from then on its files are its own.
    started, end = os.pipe()
    # A signal that comes before it can be forwarded waits.
    signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
    child = os.fork()
    if child == 0:
        _become(argv, environment)
    for number in _FORWARDED:
        signal.signal(number, lambda got, _: _forward(child, got))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
    os.close(end)
    os.read(started, 1)
    paths, status = _watch(child)
    code = os.waitstatus_to_exitcode(status)
    record = {
        "schema": SCHEMA,
        "host": os.uname().nodename,
        "pid": child,
        "exit": code if code >= 0 else None,
        "signal": max(-code, 0),
        "library_path": environment.get("LD_LIBRARY_PATH", ""),
        "files": [{"path": path, "build_id": _build_id(path)} for path in sorted(paths)],
    }
    target = f"{folder}/{os.uname().nodename}-{child}.json"
    with open(f"{target}.part", "w", encoding="utf-8") as stream:
        json.dump(record, stream)
    os.rename(f"{target}.part", target)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def _forward(child: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it has just ended
        os.kill(child, number)


def _become(argv: list[str], environment: dict[str, str]) -> None:
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        # Python ignores these two; a program expects the default.
        libc.default_signal(signal.SIGPIPE)
        libc.default_signal(signal.SIGXFSZ)
        os.execvpe(argv[0], argv, environment)  # noqa: S606 - what the user asked for, no shell
    except OSError as error:
        sys.stderr.write(f"cannot run `{argv[0]}`: {error.strerror}\n")
    finally:
        os._exit(_NOT_FOUND)


def _watch(child: int) -> tuple[set[str], int]:
    """Return all files with code that a process mapped before it ended, and its wait status."""
    found: set[str] = set()
    started = time.monotonic()
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return found, status
        found |= _mapped(child)
        early = time.monotonic() - started < _FIRST_S
        time.sleep(_OFTEN_S if early else _RARELY_S)


def _mapped(child: int) -> set[str]:
    """Return the files that a process has mapped to execute them."""
    try:
        with open(f"/proc/{child}/maps", encoding="utf-8", errors="replace") as stream:
            rows = [line.rstrip("\n").split(None, 5) for line in stream]
    except OSError:
        return set()
    return {row[5] for row in rows if len(row) == 6 and "x" in row[1] and row[5].startswith("/")}


class _Source:
    """An open file that the ELF reader reads in pieces."""

    def __init__(self, name: str, descriptor: int) -> None:
        self.name = name
        self.size = os.fstat(descriptor).st_size
        self._descriptor = descriptor

    def read(self, offset: int, count: int) -> bytes:
        """Return `count` bytes from `offset`, fewer at the end of the file."""
        return os.pread(self._descriptor, count, offset)


def _build_id(path: str) -> str:
    """Return the build id of a file, empty where it has none or is gone."""
    from stackproof.core.errors import StackproofError  # noqa: PLC0415
    from stackproof.linking import elf  # noqa: PLC0415 - after the rank has ended

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return elf.read(_Source(path, descriptor)).build_id
    except (StackproofError, OSError):
        return ""
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
