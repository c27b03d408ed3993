"""What watches the attacks sees each thing that may not happen, and nothing where all is well."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path

import pytest

import guarded
import killing
import watching
from guarded import SECRET, Guarded
from need import need

pytestmark = [
    pytest.mark.guarantee(
        "Foreign trees",
        "The same holds for every verb that takes a tree:",
    ),
]

_FINE = """
import os
os.umask(0o022)
os.mkdir("staging", 0o700)
with open("staging/tool", "w") as file: file.write("x")
os.chmod("staging/tool", 0o755)
os.symlink("../victim", "staging/link")
os.mkdir("staging/inner"); open("staging/inner/x", "w").close()
os.chmod("staging", 0o755); os.rename(os.path.abspath("staging"), os.path.abspath("whole"))
"""
_WRONG = {
    "open('x', 'w').close(); os.chmod('x', 0o4755); os.chmod('x', 0o755)": "set-uid",
    "open('x', 'w').close(); os.chmod('x', 0o2755); os.unlink('x')": "set-gid",
    "os.close(os.open('x', os.O_CREAT | os.O_WRONLY, 0o6755)); os.chmod('x', 0o755)": "set-uid",
    "open('x', 'w').close(); os.fchmod(os.open('x', os.O_RDONLY), 0o4755)": "set-uid",
    "os.mkfifo('f'); os.unlink('f')": "a FIFO",
    "import socket; socket.socket(socket.AF_UNIX).bind(os.path.abspath('s')); os.unlink('s')": "a socket",
    "open('../victim/thesis.tex').close()": "of the victim",
    "os.symlink('../victim', 'l'); open('l/thesis.tex').close()": "of the victim",
    "os.symlink('../victim', 'l'); os.listdir('l')": "of the victim",
    "os.symlink('../victim/bin/deploy', 'l'); os.chmod('l', 0o755)": "of the victim",
    "os.symlink('../victim', 'l'); os.utime('l/bin/deploy')": "of the victim",
    "os.rename('../victim/thesis.tex', 'mine')": "of the victim",
    "open('x', 'w').close(); os.setxattr('x', 'user.a', b'b')": "an extended attribute",
}  # fmt: skip
_WRONG_OF_ROOT = {
    "open('x', 'w').close(); os.chown('x', 31001, -1); os.chown('x', 0, 0)": "to [31001]",
    "os.mknod('d', 0o600 | stat.S_IFCHR, os.makedev(1, 3)); os.unlink('d')": "a device",
    "os.mkdir('st'); open('st/x', 'w').close(); open('y', 'w').close(); os.rename('y', 'st/y'); "
    "os.rename(os.path.abspath('st'), os.path.abspath('x'))": "anybody could enter st",
    "os.mkdir('st'); open('st/x', 'w').close(); os.rename('st/x', 'y'); os.rmdir('st')": "enter st",
    "if os.fork(): os.wait()\nelse: os.mkfifo('f')": "a FIFO",
}  # fmt: skip


@pytest.fixture
def place():
    """A guarded place that other users can enter, as one of pytest's is not."""
    with tempfile.TemporaryDirectory(prefix="stackproof-guarded-") as name:
        folder = Path(os.path.realpath(name))
        folder.chmod(0o755)
        yield Guarded(folder)


def watched(place: Guarded, source: str) -> tuple[str, ...]:
    need("strace")
    argv = [sys.executable, "-S", "-c", f"import os, stat\n{source}"]
    seen = watching.watched(argv, place=place.work, victim=place.victim, env=place.env)
    assert seen.code == 0, seen.said
    return seen.told


def test_nothing_is_told_where_all_is_well(place):
    assert watched(place, _FINE) == ()
    assert place.faults(guarded.Ended(0, "")) == []


@pytest.mark.parametrize("source", _WRONG)
def test_what_may_not_happen_is_seen(source, place):
    assert any(_WRONG[source] in one for one in watched(place, source))


@pytest.mark.parametrize("source", _WRONG_OF_ROOT)
def test_what_only_root_could_do_is_seen(source, place):
    need("root")
    assert any(_WRONG_OF_ROOT[source] in one for one in watched(place, source))


@pytest.mark.parametrize(
    "source",
    [
        "os.chmod('../victim/.ssh/id_ed25519', 0o644)", "os.unlink('../victim/thesis.tex')",
        "open('../victim/bin/deploy', 'a').write('x')", "os.utime('../victim/thesis.tex')",
        "os.rename('../victim/bin', '../victim/was')", "os.mkdir('../victim/new')",
        "open('x', 'w').close(); os.chmod('x', 0o4755)", "os.mkfifo('f')",
        f"print({SECRET!r})", f"open('x', 'w').write({SECRET!r})", "print('Traceback')", "exit(3)",
    ],
)  # fmt: skip
def test_the_guard_sees_what_has_changed(source, place):
    ended = place.python_ends(f"import os\n{source}")
    assert place.faults(ended) != []


def test_a_verb_of_a_child_ends_as_one_of_its_own(place):
    assert place.run("--version").code == 0
    ended = place.run("inspect", place.work / "nothing")
    assert (ended.code, "error: " in ended.said) == (6, True)
    assert place.faults(ended) == []


@pytest.mark.battery
def test_who_is_left_after_a_kill_is_seen(place, monkeypatch):
    monkeypatch.setattr(killing, "_PATIENCE_S", 0.1)
    assert killing.left(place) == []
    assert place.kill_python(0.2, "import time; time.sleep(60)")
    assert killing.left(place) == []
    place.kill_python(0.5, "import os, time; os.fork() or os.setsid(); time.sleep(3)")
    assert killing.left(place) != []
    monkeypatch.setattr(killing, "_PATIENCE_S", 20)
    assert killing.left(place) == []


def test_moments_are_all_over_the_time():
    found = sorted(killing.moments("x", 10.0, 5))
    assert [int(one // 2) for one in found] == [0, 1, 2, 3, 4]
    assert list(killing.moments("x", 10.0, 5)) != found


def test_modes_and_owners_are_in_a_snapshot(tmp_path):
    (tmp_path / "x").write_text("x")
    before = guarded.snapshot(tmp_path)
    assert stat.S_ISREG(before[str(tmp_path / "x")].mode)
    (tmp_path / "x").chmod(0o600)
    assert len(guarded.changes(before, guarded.snapshot(tmp_path))) == 1
