"""Runs calls of Spack at the same time, with one server of jobs for all of them; in the sandbox.

    python -I -S spack_together.py BUILD FILE

FILE is JSON: by name what it `needs` (names) and its `calls`, one after the other (`argv`, `env`).
A name begins when what it needs has ended well; one that fails ends no other. Every line of
output gets its name in front. The exit code is that of the first that failed.

Never more than `build_jobs` of BUILD/local/config.yaml run in all. Spack's newer installer takes
each job from a server as GNU make's, a named pipe, of which one job belongs to each name (GNU
make's manual, "Sharing Job Slots with GNU make"). The older one knows such a server as open files
alone, and closes them with its first package (lib/spack/spack/build_environment.py, v1.1): so there
each name gets its part of the jobs.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_PYTHON = "@python@"


class Jobs:
    """The server: `count` jobs in all, of which one belongs to whoever begins first."""

    def __init__(self, count: int) -> None:
        path = os.path.join(tempfile.mkdtemp(), "jobs")
        os.mkfifo(path, 0o600)
        self.pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        os.write(self.pipe, b"+" * (count - 1))
        self.flags = f" -j{count} --jobserver-auth=fifo:{path}"
        self._taken = 0
        self._running = 0

    def take(self) -> bool:
        """Take a job for one more name; return whether there was one."""
        if self._running:
            try:
                self._taken += len(os.read(self.pipe, 1))
            except BlockingIOError:
                return False
        self._running += 1
        return True

    def give(self) -> None:
        """Give back the job of a name that has ended."""
        self._running -= 1
        if self._taken:
            self._taken -= 1
            os.write(self.pipe, b"+")


class CallQueue:
    """One name: what it needs and calls, and, of the call that runs, what it has said of a line."""

    def __init__(self, name: str, data: dict[str, Any]) -> None:
        self.name = name
        self.needs: list[str] = data["needs"]
        self.calls: list[dict[str, Any]] = data["calls"]
        self._begun = b""

    def start(
        self, env: dict[str, str], options: list[str], output: int
    ) -> subprocess.Popen[bytes]:
        """Start the next call, which writes to the open file `output`."""
        call = self.calls.pop(0)
        words = [sys.executable if word == _PYTHON else word for word in call["argv"]]
        if "install" in words:
            words[1:1] = options
        return subprocess.Popen(  # noqa: S603 - argv that stackproof wrote for this step
            words,
            stdout=output,
            stderr=output,
            env={**os.environ, **call["env"], **env},
        )

    def say(self, text: bytes) -> None:
        """Print the whole lines of what has been said so far; nothing is the end of it."""
        *lines, self._begun = (self._begun + (text or b"\n" * bool(self._begun))).split(b"\n")
        for line in lines:
            sys.stdout.buffer.write(self.name.encode() + b": " + line + b"\n")
        sys.stdout.buffer.flush()


class Together:
    """The names that wait, those that run by the file of their output, and those that ended."""

    def __init__(
        self, parts: list[CallQueue], jobs: Jobs, options: list[str], env: dict[str, str]
    ) -> None:
        self.parts = parts
        self.codes: dict[str, int] = {}
        self._jobs = jobs
        self._env = env
        self._options = options
        self._running: dict[int, tuple[CallQueue, subprocess.Popen[bytes]]] = {}
        self._watched = selectors.DefaultSelector()

    def run(self) -> int:
        """Run all names and return the exit code of the first that failed, 0 for none."""
        while self.parts or self._running:
            self._drop()
            waiting = self._begin()
            if not self._running:  # what was left out last: nobody is there to wait for
                continue
            if waiting:
                self._watched.register(self._jobs.pipe, selectors.EVENT_READ)
            events = self._watched.select()
            if waiting:
                self._watched.unregister(self._jobs.pipe)
            for key, _ in events:
                if key.fd != self._jobs.pipe:
                    self._read(key.fd)
        return next((code for code in self.codes.values() if code), 0)

    def _drop(self) -> None:
        """Leave out what needs something that failed, and say so."""
        for part in list(self.parts):
            failed = next((need for need in part.needs if self.codes.get(need)), None)
            if failed:
                self.parts.remove(part)
                self.codes[part.name] = self.codes[failed]
                part.say(f"did not begin, since {failed} failed\n".encode())

    def _begin(self) -> bool:
        """Start what may begin while there are jobs; return whether something waits for one."""
        ready = [p for p in self.parts if all(self.codes.get(need) == 0 for need in p.needs)]
        while ready and self._jobs.take():
            self.parts.remove(ready[0])
            self._start(ready.pop(0))
        return bool(ready)

    def _start(self, part: CallQueue) -> None:
        output, given = os.pipe()
        self._running[output] = (part, part.start(self._env, self._options, given))
        os.close(given)
        self._watched.register(output, selectors.EVENT_READ)

    def _read(self, output: int) -> None:
        part, process = self._running[output]
        chunk = os.read(output, 65536)
        part.say(chunk)
        if chunk:
            return
        self._watched.unregister(output)
        os.close(output)
        del self._running[output]
        code = process.wait()
        if code == 0 and part.calls:
            self._start(part)
        else:
            self.codes[part.name] = code if code >= 0 else 128 - code
            self._jobs.give()


def read_setting(build: Path, name: str, default: int) -> int:
    """Return a number of the machine's own configuration."""
    path = build / "local" / "config.yaml"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    match = re.search(rf"^\s*{name}: (\d+)$", text, re.MULTILINE)
    return int(match[1]) if match else default


def is_newer(build: Path) -> bool:
    """Return true for a Spack that installs with its newer installer."""
    return any(
        re.search(r"^\s*installer: new$", path.read_text(encoding="utf-8"), re.MULTILINE)
        for path in (build / "spack" / "etc" / "spack" / "defaults").glob("**/config.yaml")
    )


def divide_jobs(build: Path, names: int) -> list[str]:
    """Return the options by which each of so many calls of the older installer has its part.

    Each package that it builds at the same time has `build_jobs` jobs of its own.
    """
    count = read_setting(build, "build_jobs", len(os.sched_getaffinity(0)))
    packages = read_setting(build, "concurrent_packages", 0)
    at_once = min(names, count)
    share = max(1, packages // at_once)
    options = ["-c", f"config:build_jobs:{max(1, count // (at_once * share))}"]
    return [*options, "-c", f"config:concurrent_packages:{share}"] if packages else options


def main(build: str, file: str) -> int:
    """Run the calls of a file."""
    text = Path(file).read_text(encoding="utf-8")
    parts = [CallQueue(name, data) for name, data in json.loads(text).items()]
    folder = Path(build)
    jobs = Jobs(read_setting(folder, "build_jobs", len(os.sched_getaffinity(0))))
    if is_newer(folder):
        return Together(parts, jobs, [], {"MAKEFLAGS": jobs.flags}).run()
    return Together(parts, jobs, divide_jobs(folder, len(parts)), {}).run()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
