"""An attacker who exchanges names in a folder that all may write to, while verbs work there.

    with swaplab.scene(python, victim=65534) as race:
        (race.shared / "repo").mkdir(); race.open_to_all()
        ran = race.run(["image", "add", ...], ["image", "rm", ...], STACKPROOF_REPOSITORY=...)
    assert race.guarded() == before

The attacker (uid 31001) takes every name that it sees below the shared folder, and some that it
expects, and puts in its place for a moment a link to the victim's secret, a link to the victim's
folder, an own folder or file, a FIFO, or nothing. The victim runs the verbs again and again, in one
process, for STACKPROOF_RACE_S seconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from machine import RACE_S
from stackproof.core.value import Value

MALLORY = 31001
_PATIENCE_S = 600

_ATTACK = r"""
import os, random, sys
shared, secret, home, journal = sys.argv[1:5]
expected = sys.argv[5:]
planted = open(journal, "rb").read() if journal else b""
choose = random.Random(os.getpid())
def below():
    for place, folders, names in os.walk(shared):
        yield from (os.path.join(place, name) for name in (*folders, *names))
    yield from (os.path.join(shared, name) for name in expected)
def put(path):
    kind = choose.randrange(6)
    if kind == 0: os.symlink(secret, path)
    elif kind == 1: os.symlink(home, path)
    elif kind == 2: os.mkdir(path, 0o777)
    elif kind == 3: os.mkfifo(path, 0o666)
    elif kind == 4:
        with open(path, "xb") as stream: stream.write(planted)
def away(path):
    try: os.unlink(path)
    except IsADirectoryError: os.rmdir(path)
count = 0
print("ready", flush=True)
while True:
    for path in below():
        aside = os.path.join(os.path.dirname(path), ".aside")
        moved = False
        try: os.rename(path, aside); moved = True
        except OSError: pass
        try: put(path)
        except OSError: pass
        for _ in range(choose.randrange(40)): os.stat(shared)
        if moved and choose.random() < 0.9:
            try: away(path)
            except OSError: pass
            try: os.rename(aside, path)
            except OSError: pass
        elif choose.random() < 0.5:
            try: away(path)
            except OSError: pass
        count += 1
"""

_VICTIM = r"""
import contextlib, io, json, os, signal, sys, time
from stackproof import cli
verbs, seconds = json.loads(sys.argv[1]), float(sys.argv[2])
def late(*_): raise TimeoutError("a verb hangs")
signal.signal(signal.SIGALRM, late)
os.umask(0)  # what a team's members have: the attacker may write to what they make
end, told = time.monotonic() + seconds, {}
while time.monotonic() < end:
    for argv in verbs:
        said = io.StringIO()
        signal.alarm(60)
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
                cli.main(argv)
        except SystemExit as error:
            code = str(error.code)
        except TimeoutError:
            code = "hangs"
        signal.alarm(0)
        if "bug" in said.getvalue() or code == "hangs": sys.stderr.write(f"{argv}: {said.getvalue()}")
        key = f"{' '.join(argv[:2])}: {code}"
        told[key] = told.get(key, 0) + 1
print(json.dumps(told))
"""


_MAGIC = bytes.fromhex("d9d505f920a163d7")


def journal_naming(name: str, pages: int) -> bytes:
    """Return a journal that changes nothing, and says that it is a part of another one."""
    header = _MAGIC + struct.pack(">IIIII", 0, 1, pages, 512, 4096)
    text = name.encode()
    other = struct.pack(">I", 0x40000000 // 4096 + 1) + text
    return header.ljust(512, b"\0") + other + struct.pack(">II", len(text), sum(text)) + _MAGIC


class Race(Value, kw_only=False):
    """A folder that all may write to, beside a home with a secret in it."""

    folder: Path
    python: str
    source: Path
    victim: int

    @property
    def shared(self) -> Path:
        return self.folder / "shared"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def secret(self) -> Path:
        return self.home / "secret"

    def open_to_all(self) -> None:
        """Let all users write to everything in the shared folder."""
        for path in (self.shared, *self.shared.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o777 if path.is_dir() else 0o666)

    def guarded(self) -> tuple[object, ...]:
        """Return everything that may not change: names, contents, modes, owners, times."""
        found = []
        for place, folders, names in os.walk(self.home):
            for name in (".", *folders, *names):
                path = Path(place, name)
                state = path.lstat()
                content = path.read_bytes() if path.is_file() else b""
                found.append(
                    (str(path), content, state.st_mode, state.st_uid, state.st_gid,
                     state.st_mtime_ns, state.st_nlink)
                )  # fmt: skip
        return tuple(sorted(found))

    def run(
        self,
        *verbs: Sequence[str],
        expected: Sequence[str] = (),
        journal: Path | None = None,
        **env: str,
    ) -> dict[str, int]:
        """Run verbs while names are exchanged; return how often each ended with which code."""
        attack = [sys.executable, "-c", _ATTACK, str(self.shared), str(self.secret),
                  str(self.home), str(journal or ""), *expected]  # fmt: skip
        variables = {
            "PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(self.folder / "own"),
            "PYTHONPATH": str(self.source), "STACKPROOF_CACHE": str(self.folder / "own" / "cache"),
            **env,
        }  # fmt: skip
        attack[0] = self.python
        with subprocess.Popen(_as(MALLORY, attack), stdout=subprocess.PIPE, cwd="/") as attacker:
            assert attacker.stdout is not None
            attacker.stdout.readline()
            try:
                argv = [self.python, "-B", "-c", _VICTIM, json.dumps(verbs), str(RACE_S)]
                done = subprocess.run(
                    _as(self.victim, argv), env=variables, cwd="/", capture_output=True, text=True,
                    timeout=RACE_S + _PATIENCE_S, check=False,
                )  # fmt: skip
                assert attacker.poll() is None
            finally:
                attacker.kill()
        assert done.returncode == 0, done.stderr
        assert "bug" not in done.stderr, done.stderr
        told: dict[str, int] = json.loads(done.stdout)
        assert not any(key.endswith("hangs") for key in told), told
        return told


def _as(uid: int, argv: Sequence[str]) -> list[str]:
    if uid == os.geteuid():
        return list(argv)
    ids = ["--reuid", str(uid), "--regid", str(uid), "--clear-groups"]
    return ["setpriv", *ids, "--inh-caps=-all", *argv]


@contextlib.contextmanager
def scene(python: str, source: Path, victim: int) -> Iterator[Race]:
    """Make the folders of a race; the victim is root, or a user without rights."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="stackproof-race-") as name:
        race = Race(folder=Path(name), python=python, source=source, victim=victim)
        race.folder.chmod(0o755)
        for path in (race.shared, race.home, race.folder / "own"):
            path.mkdir()
        (race.home / "inner").mkdir()
        (race.home / "inner" / "more").write_text("also the victim's")
        race.secret.write_text("years of work")
        race.secret.chmod(0o600)
        for path in (race.folder / "own", race.home, *race.home.rglob("*")):
            os.chown(path, victim, victim)
        race.home.chmod(0o755)  # links to what is in it can be followed: that is what is tried
        race.open_to_all()
        yield race
