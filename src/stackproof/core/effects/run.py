"""The one door for programs.

A `Command` goes in, a `Completed` comes out. argv only, standard input closed, a clean
environment, output always kept. A failure shows the last lines, the log's path and a script that
repeats it.
"""

from __future__ import annotations

import contextlib
import io
import os
import select
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Protocol

from stackproof.core import limits
from stackproof.core.command import Command, Completed
from stackproof.core.effects import files, sandbox
from stackproof.core.errors import Reason, StackproofError, fail

_TAIL_LINES = 20
_STOP_WAIT_S = 2.0
_CHUNK = 65536


Watcher = Callable[[str], None]
"""Whoever wants to see the lines of a running command."""


class Runner(Protocol):
    """Whatever can run a command: the host, a dry run, or a script of answers in tests."""

    def __call__(self, command: Command, *, log: Path | None = None) -> Completed:
        """Run a command to its end; `log` is where its output is kept as well."""


def base_environment() -> dict[str, str]:
    """Return the small environment that every program starts from."""
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR", "TERM") if key in os.environ}
    return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **kept, "LANG": "C.UTF-8"}


def run(command: Command, *, log: Path | None = None, watch: Watcher | None = None) -> Completed:
    """Run a command on this machine and return how it ended, whatever the exit code.

    `watch` gets every line of output as it comes, standard error's too; `log` grows meanwhile. Of
    an output that is longer than `limits.PRINTED` the middle is left out. Raises `StackproofError`
    (TOOL_MISSING) when the program is not there, and what `sandbox.argv` raises. On a timeout or an
    interrupt the whole process group is ended: politely, then firmly.
    """
    argv = sandbox.argv(command) if command.sandbox else command.argv
    started = time.monotonic()
    later = _Interrupts()
    try:
        process = _start(command, argv, waits=watch is not None)
    except BaseException:
        later.let_go()
        raise
    timed_out = False
    try:
        later.let_go()
        watched = _Watched(process, watch, log if watch else None)
        watched.read(command.timeout_s)
        stdout, stderr = watched.outputs()
    except subprocess.TimeoutExpired:
        timed_out = True
        _stop(process, watched.drain)
        stdout, stderr = watched.outputs()
    except BaseException:
        _stop(process)
        raise
    done = Completed(
        argv=argv,
        returncode=process.returncode,
        stdout=stdout,
        stderr=stderr,
        seconds=time.monotonic() - started,
        timed_out=timed_out,
    )
    if log:
        files.write(log, transcript(done))
        script = replay_script(command, argv).encode(errors="surrogateescape")
        files.write(log.with_suffix(".replay.sh"), script, mode=0o755)
    return done


class _Interrupts:
    """Interrupts that wait until a program is known that has to be ended for them.

    It runs before the call that starts it returns, for long on a busy machine; an interrupt that
    was raised in there would leave it behind.
    """

    def __init__(self) -> None:
        self._handlers: dict[int, Callable[[int, FrameType | None], object]] = {}
        self._came: list[int] = []
        if threading.current_thread() is not threading.main_thread():
            return  # only the main one is interrupted
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            handler = signal.getsignal(number)
            if callable(handler):
                self._handlers[number] = handler
                signal.signal(number, lambda come, _: self._came.append(come))

    def let_go(self) -> None:
        """Take interrupts again, first the one that came meanwhile."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        for number in self._came[:1]:
            self._handlers[number](number, None)


def _start(command: Command, argv: tuple[str, ...], *, waits: bool) -> subprocess.Popen[bytes]:
    """Start a program; with `waits` its standard input is a pipe on which nothing ever comes.

    A program that waits for keys (Spack's installer since 1.1) cannot do so on /dev/null.
    """
    try:
        return subprocess.Popen(  # noqa: S603 - the door itself: argv, never a shell
            argv,
            cwd=None if command.sandbox else command.cwd,
            env=_environment(command),
            stdin=subprocess.PIPE if waits else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        if command.cwd and not command.sandbox and error.filename == command.cwd:
            raise files.translate(error, command.cwd) from error
        raise fail(
            Reason.TOOL_MISSING,
            f"cannot run `{argv[0]}`: {error.strerror}",
            hint=sandbox.package_hint(argv[0]),
        ) from error
    except OSError as error:
        raise files.translate(error, argv[0]) from error
    except ValueError as error:  # a NUL in a word, `=` in a variable's name
        raise fail(Reason.INVALID_VALUE, f"cannot run `{argv[0]}`: {error}") from error


class _Kept:
    """An output of any length, of which begin and end are kept: an error stands at one of them."""

    def __init__(self, most: int) -> None:
        self._half = most // 2
        self._begin = bytearray()
        self._end = bytearray()
        self._left_out = 0

    def add(self, chunk: bytes) -> None:
        """Take what comes next."""
        room = self._half - len(self._begin)
        self._begin += chunk[:room]
        self._end += chunk[room:]
        if len(self._end) > 2 * self._half:  # not for each piece
            self._shorten()

    def text(self) -> bytes:
        """Return all of it, or begin and end with a line between that says what is missing."""
        self._shorten()
        if not self._left_out:
            return bytes(self._begin + self._end)
        gap = f"\n[{self._left_out} bytes are left out here]\n".encode()
        return bytes(self._begin + gap + self._end)

    def _shorten(self) -> None:
        more = max(0, len(self._end) - self._half)
        self._left_out += more
        del self._end[:more]


class _Watched:
    """The outputs of a process, read while it runs; a log is written on the way."""

    def __init__(
        self, process: subprocess.Popen[bytes], watch: Watcher | None, log: Path | None
    ) -> None:
        self._process = process
        self._watch = watch
        self._log = log
        self._begun: dict[int, bytes] = {}
        streams = (process.stdout, process.stderr)
        most = limits.PRINTED.bytes
        self._kept = {stream.fileno(): _Kept(most) for stream in streams if stream}
        self._copied = 0

    def read(self, timeout_s: float | None) -> None:
        """Read to the end of both outputs and of the process; raises `TimeoutExpired`."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with contextlib.ExitStack() as stack:
            copy = stack.enter_context(_opened(self._log)) if self._log else None
            for descriptor, chunk in self._chunks(deadline):
                self._kept[descriptor].add(chunk)
                if copy and self._copied < limits.PRINTED.bytes:
                    copy.write(chunk)
                    self._copied += len(chunk)
                self._tell(descriptor, chunk, deadline)
        _close(self._process)
        self._process.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))

    def drain(self) -> None:
        """Read the pipes of a process that was ended, for a moment at most.

        A daemon that left its group may still hold them, and write for ever.
        """
        with contextlib.suppress(subprocess.TimeoutExpired, ValueError):  # they were closed
            for descriptor, chunk in self._chunks(time.monotonic() + _STOP_WAIT_S):
                self._kept[descriptor].add(chunk)

    def outputs(self) -> tuple[bytes, bytes]:
        """Return standard output and standard error as they were kept."""
        stdout, stderr = self._kept.values()
        return stdout.text(), stderr.text()

    def _chunks(self, deadline: float | None) -> Iterator[tuple[int, bytes]]:
        """Yield each descriptor with the bytes that come from it; no bytes are its end.

        Raises `TimeoutExpired` at the deadline, also where more comes all the time.
        """
        poller = select.poll()
        for stream in (self._process.stdout, self._process.stderr):
            if stream:
                poller.register(stream.fileno(), select.POLLIN)
        waiting = len(self._kept)
        while waiting:
            left = None if deadline is None else deadline - time.monotonic()
            # poll(2) takes no more milliseconds than 2**31: three weeks are looked at by minutes.
            ready = poller.poll(None if left is None else max(0.0, min(1000 * left, 60_000)))
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired(self._process.args, 0.0)
            for descriptor, _ in ready:
                chunk = os.read(descriptor, _CHUNK)
                if not chunk:
                    poller.unregister(descriptor)
                    waiting -= 1
                yield descriptor, chunk

    def _tell(self, descriptor: int, chunk: bytes, deadline: float | None) -> None:
        """Hand on the lines that are whole; who looks on slowly does not lengthen the time."""
        if self._watch is None:
            return
        text = self._begun.pop(descriptor, b"") + chunk
        *lines, last = text.split(b"\n")
        if chunk and len(last) < limits.PRINTED_LINE.bytes:
            self._begun[descriptor] = last
        elif last:
            lines.append(last)
        for line in lines:
            if deadline is not None and time.monotonic() >= deadline:
                return
            self._watch(line.decode(errors="replace"))


def _opened(log: Path) -> io.FileIO:
    with files.translate_errors(log):
        log.parent.mkdir(parents=True, exist_ok=True)
        return io.FileIO(log, "w")


def _environment(command: Command) -> dict[str, str]:
    """Return the environment of the started program; in a sandbox that is bubblewrap."""
    base = base_environment()
    return base if command.sandbox else command.env.apply(base)


def check(command: Command, *, log: Path | None = None, runner: Runner = run) -> Completed:
    """Run a command and raise `StackproofError` (BUILD_FAILED) unless its exit code is in `ok`."""
    done = runner(command, log=log)
    if done.returncode not in command.ok or done.timed_out:
        raise failure(command, done, log=log)
    return done


def failure(
    command: Command, done: Completed, *, log: Path | None, reason: Reason = Reason.BUILD_FAILED
) -> StackproofError:
    """Return the error for a command that ended badly: how, its last lines, how to repeat it."""
    program = os.path.basename(command.argv[0])
    text = (done.stderr or done.stdout).decode(errors="replace").rstrip("\n")
    tail = "\n".join(text.split("\n")[-_TAIL_LINES:])
    if "No space left on device" in text:
        reason = Reason.DISK_FULL
    hint = (
        f"the whole output is in `{log}`; repeat it with `{log.with_suffix('.replay.sh')}`"
        if log
        else f"repeat it with: {shlex.join(command.argv)}"
    )
    return fail(reason, f"`{program}` {how_it_ended(done)}", detail=tail or None, hint=hint)


def how_it_ended(done: Completed) -> str:
    """Return `exited with 3`, `was killed by SIGSEGV` or `did not end within its time limit`."""
    if done.timed_out:
        return "did not end within its time limit"
    if done.returncode < 0:
        number = -done.returncode
        known = number in set(signal.Signals)
        return f"was killed by {signal.Signals(number).name if known else f'signal {number}'}"
    return f"exited with {done.returncode}"


def transcript(done: Completed) -> bytes:
    """Return the log text of a finished command."""
    head = f"$ {shlex.join(done.argv)}\n# {how_it_ended(done)} after {done.seconds:.2f} s\n"
    return (
        head.encode(errors="surrogateescape")
        + b"# stdout\n"
        + done.stdout
        + b"\n# stderr\n"
        + done.stderr
    )


def replay_script(command: Command, argv: tuple[str, ...]) -> str:
    """Return a shell script that runs the same program with the same environment again."""
    env = _environment(command)
    lines = ["#!/bin/sh", "# Repeats one command of stackproof."]
    if command.cwd and not command.sandbox:
        lines.append(f"cd {shlex.quote(command.cwd)} || exit 1")
    assignments = " ".join(f"{key}={shlex.quote(value)}" for key, value in sorted(env.items()))
    lines.append(f"exec env -i {assignments} {shlex.join(argv)}")
    return "\n".join(lines) + "\n"


def _stop(process: subprocess.Popen[bytes], drain: Callable[[], None] = lambda: None) -> None:
    """End a process group, politely, then firmly; `drain` then takes what it had written.

    The leader is left unreaped until the end, so that the group's number stays ours and the last
    signal cannot hit a stranger. A second interrupt while waiting ends the group at once.
    """
    try:
        _signal_group(process, signal.SIGTERM)
        _wait_unreaped(process.pid, _STOP_WAIT_S)
    finally:
        _signal_group(process, signal.SIGKILL)
    drain()
    process.wait()
    _close(process)


def _close(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream:
            stream.close()


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)


def _wait_unreaped(pid: int, timeout_s: float) -> None:
    """Wait until a child has ended, without taking its exit status; see pidfd_open(2)."""
    with (
        contextlib.suppress(ProcessLookupError),
        files.close_at_end(os.pidfd_open(pid)) as descriptor,
    ):
        select.select([descriptor], [], [], timeout_s)
