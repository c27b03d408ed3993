"""A place where a verb works, and beside it what is none of its business, with a guard.

    guarded = Guarded(tmp_path)
    done = guarded.run("pack", image, "-o", guarded.work / "out")
    assert guarded.faults(done) == []

The guard has what links of a hostile tree lead to: a key, credentials, programs, a project. All of it
must be afterwards as it was (`snapshot`), and its texts nowhere else. In the place itself nothing may be
set-uid, for everybody to write to, a device, a FIFO, a socket, or owned by anybody but the caller. `watching` has rules for each
moment between.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from need import as_unprivileged
from stackproof import cli
from stackproof.core.value import Value

NOBODY = 65534
TIMEOUT_S = 600
SECRET = "only-the-victim-knows-this"
"""A text that is in files of the guard, and that no verb has to tell."""
_LONG_AGO = 1_500_000_000
_FILES = {
    ".ssh/id_ed25519": 0o600, ".docker/config.json": 0o600, "thesis.tex": 0o644,
    "bin/deploy": 0o755, "bin/backup": 0o700, "venv/bin/python": 0o755, "private/notes": 0o600,
    "proj/app/env.json": 0o644, "proj/app/activate.sh": 0o755, "proj/app/lock.json": 0o644,
}  # fmt: skip
_KINDS = {
    stat.S_IFBLK: "a device", stat.S_IFCHR: "a device", stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
}  # fmt: skip
_MOST = 4 << 20  # of a file that is searched for the secret


class Entry(Value, kw_only=False):
    """What can be told of a path: its kind and mode, owner, size, times, content, attributes."""

    mode: int
    owner: tuple[int, int]
    size: int
    changed: int
    content: str
    attributes: tuple[str, ...]


class Ended(Value, kw_only=False):
    """How a verb ended: its exit code, None after too long, and all that it said."""

    code: int | None
    said: str


def paths(folder: Path) -> Iterator[Path]:
    """Give a folder and all below it, no link followed, however deep."""
    waiting = [folder]
    while waiting:
        path = waiting.pop()
        yield path
        with contextlib.suppress(NotADirectoryError, FileNotFoundError, PermissionError):
            if not path.is_symlink():
                waiting += map(path.joinpath, os.listdir(path))


def remove(folder: Path) -> None:
    """Delete a folder however deep it is, and whatever the modes in it are."""
    subprocess.run(["chmod", "-R", "u+rwX", folder], check=False, capture_output=True)
    subprocess.run(["rm", "-rf", "--", folder], check=True)


def snapshot(folder: Path) -> Mapping[str, Entry]:
    """Return all that is in a folder, by path."""
    return {os.fspath(path): _entry(path) for path in paths(folder)}


def _entry(path: Path) -> Entry:
    seen = path.lstat()
    content = ""
    if stat.S_ISLNK(seen.st_mode):
        content = os.readlink(path)
    elif stat.S_ISREG(seen.st_mode):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
    return Entry(
        mode=seen.st_mode,
        owner=(seen.st_uid, seen.st_gid),
        size=seen.st_size if stat.S_ISREG(seen.st_mode) else 0,
        changed=seen.st_mtime_ns,
        content=content,
        attributes=tuple(os.listxattr(path, follow_symlinks=False)),
    )


def changes(before: Mapping[str, Entry], after: Mapping[str, Entry]) -> list[str]:
    """Return the differences, a sentence for each path."""
    told = [f"{path} is gone" for path in before.keys() - after.keys()]
    told += [f"{path} is new" for path in after.keys() - before.keys()]
    both = before.keys() & after.keys()
    told += [f"{path} was {before[path]}, is {after[path]}" for path in both
             if before[path] != after[path]]  # fmt: skip
    return sorted(told)


class Guarded:
    """A folder with a place to work in (`work`) and a victim's files (`victim`).

    `user` is whose both are, and who runs the verbs: the test's own user where None. Another one
    needs a Python that everybody may start (`everybody.python`).
    """

    def __init__(self, folder: Path, *, user: int | None = None, python: str = "") -> None:
        self.folder, self.work, self.victim = folder, folder / "work", folder / "victim"
        self.user = os.geteuid() if user is None else user
        self.python = python or sys.executable
        self.inputs = folder / "inputs"
        for part in (self.work, self.inputs, self.work / "home", self.work / "tmp"):
            part.mkdir(parents=True)
        for name, mode in _FILES.items():
            path = self.victim / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"#!/bin/sh\necho {SECRET}\n")
            path.chmod(mode)
        (self.victim / "private").chmod(0o700)
        for path in paths(folder):
            os.chown(path, self.user, self.user if user is not None else os.getegid())
        for number, path in enumerate(sorted(paths(self.victim), reverse=True)):
            os.utime(path, (_LONG_AGO, _LONG_AGO + number))
        self._before = snapshot(self.victim)

    @property
    def env(self) -> dict[str, str]:
        """Return the variables of a verb: its home, caches and temporary folder are in the place."""
        return {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"), "HOME": f"{self.work}/home",
            "TMPDIR": f"{self.work}/tmp", "STACKPROOF_CACHE": f"{self.work}/cache", "NO_COLOR": "1",
            "STACKPROOF_REPOSITORY": f"{self.work}/repository", "LC_ALL": "C.UTF-8",
            **{name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
        }  # fmt: skip

    def run(self, *words: object, **more: str) -> Ended:
        """Run a verb in the place, as whose it is: in a child of this process where that may be."""
        argv = [str(word) for word in words]
        if self.user == os.geteuid():
            return Ended(_waited(self._started(argv, more)), _text(self.folder / "said"))
        return self._ended(self.argv(*argv), {**self.env, **more})

    def kill(self, after_s: float, *words: object, **more: str) -> bool:
        """Start a verb as whoever runs this, and kill it and all of its group; tell if it still ran."""
        child = self._started([str(word) for word in words], more)
        time.sleep(after_s)
        os.killpg(child, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL

    def kill_python(self, after_s: float, source: str) -> bool:
        """Kill a program of Python, as `kill` does a verb."""
        with subprocess.Popen(
            self._argv("-c", source), cwd=self.work, env=self.env, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        ) as process:  # fmt: skip
            time.sleep(after_s)
            os.killpg(process.pid, signal.SIGKILL)
            return process.wait() == -signal.SIGKILL

    def _started(self, argv: list[str], more: Mapping[str, str]) -> int:
        """Return a child of this process that becomes a verb, once it is a group of its own."""
        ready, child_ready = os.pipe()
        child = os.fork()
        if child == 0:
            self._become(argv, {**self.env, **more}, child_ready)
        os.close(child_ready)
        os.read(ready, 1)
        os.close(ready)
        return child

    def python_ends(self, source: str, *words: str) -> Ended:
        """Run a program of Python in the place, with stackproof to import."""
        return self._ended(self._argv("-c", source, *words), self.env)

    def argv(self, *words: str) -> list[str]:
        """Return an argv for a verb in a process of its own, as whose the place is."""
        return self._argv("-m", "stackproof", *words)

    def _argv(self, *words: str) -> list[str]:
        # By env(1): the first program after setpriv(1) may still be found with root's rights.
        argv = ["env", self.python, "-B", *words]
        return argv if self.user == os.geteuid() else as_unprivileged(argv)

    def _ended(self, argv: list[str], env: Mapping[str, str]) -> Ended:
        output = self.folder / "said"
        with output.open("wb") as said:
            process = subprocess.Popen(
                argv, cwd=self.work, env=dict(env), stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                start_new_session=True,
            )  # fmt: skip
        try:
            code: int | None = process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            code = process.wait() and None
        return Ended(code, _text(output))

    def _become(self, argv: list[str], env: dict[str, str], ready: int) -> None:
        """End this process, a child, as a verb does."""
        code = 70
        try:
            os.setsid()
            os.write(ready, b"!")
            os.close(ready)
            said = os.open(self.folder / "said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            for number, source in ((0, os.open(os.devnull, os.O_RDONLY)), (1, said), (2, said)):
                os.dup2(source, number)
            sys.stdin = open(0, closefd=False)  # noqa: SIM115 - as long as this process
            sys.stdout = open(1, "w", closefd=False, errors="surrogateescape")  # noqa: SIM115 - as above
            sys.stderr = open(2, "w", closefd=False, errors="surrogateescape")  # noqa: SIM115 - as above
            os.environ.clear()
            os.environ.update(env)
            os.chdir(self.work)
            cli.main(argv)
        except SystemExit as ended:
            code = int(ended.code or 0)
        except BaseException as error:  # noqa: BLE001 - a child must never go on with the tests
            os.write(2, f"Traceback: {error!r}\n".encode())
        finally:
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(code)

    def faults(
        self, ended: Ended, *, owners: Sequence[int] = (), answers: Sequence[int] = ()
    ) -> list[str]:
        """Return the faults of a verb; nothing where all is well.

        `answers` are exit codes that answer the question of a verb and are no errors.
        """
        told = changes(self._before, snapshot(self.victim))
        if ended.code is None:
            told.append(f"it took longer than {TIMEOUT_S} s")
        elif ended.code not in {0, *answers} and "error: " not in ended.said:
            told.append(f"it ended with {ended.code} and no reason: {ended.said[-500:]}")
        told += [f"it said `{word}`: {ended.said[-2000:]}"
                 for word in ("Traceback", "a bug in stackproof", SECRET) if word in ended.said]  # fmt: skip
        for path in paths(self.work):
            told += _wrong(path, {self.user, *owners}, open_to_all=self._is_open(path))
        return told

    def _is_open(self, path: Path) -> bool:
        """Return true where everybody can enter all folders down to a path."""
        above = path.parents[: len(path.relative_to(self.work).parts)]
        return all(folder.stat().st_mode & 0o001 for folder in above)


def _waited(pid: int) -> int | None:
    """Return the exit code of a child; one that takes too long is ended with all that it started."""
    end = time.monotonic() + TIMEOUT_S
    pause = 0.001
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return None
        time.sleep(pause)
        pause = min(2 * pause, 0.02)


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace") if path.exists() else ""


def _wrong(path: Path, owners: set[int], *, open_to_all: bool) -> list[str]:
    """Return the faults of an entry of the place."""
    try:
        seen = path.lstat()
    except FileNotFoundError:
        return []
    kind = _KINDS.get(stat.S_IFMT(seen.st_mode), "")
    told = [f"{path} is {kind}"] if kind else []
    bad = 0o6002 if open_to_all else 0o6000
    if seen.st_mode & bad and not stat.S_ISLNK(seen.st_mode):
        told.append(f"{path} has the mode {stat.S_IMODE(seen.st_mode):o}")
    if seen.st_uid not in owners:
        told.append(f"{path} belongs to {seen.st_uid}")
    if stat.S_ISREG(seen.st_mode) and seen.st_size < _MOST and SECRET.encode() in path.read_bytes():
        told.append(f"{path} has the secret")
    return told
