"""Packs where a machine denies something: places of programs, and /proc."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from need import as_unprivileged, need
from packs import CALLS_ANSWER, Stack, out, pack

pytestmark = pytest.mark.battery

EXPLAIN = {**os.environ, "STACKPROOF_PACK_EXPLAIN": "1"}
KINDS = {"tier 0": (), "tier 1": ("--tier", "1")}


class Place:
    """A folder for everybody with a pack of each kind; they also have sleep(1) of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        stack = Stack(folder)
        stack.library("libanswer", "int answer(void) { return 42; }")
        stack.program("hello", CALLS_ANSWER, needs=("answer",))
        image = stack.image()
        shutil.rmtree(stack.tree)
        for name, words in KINDS.items():
            done = pack(image, "hello", "sleep", *words, "-o", name, cwd=folder)
            assert done.returncode == 0, done.stderr
        for above in (folder, *folder.parents[:-2]):
            above.chmod(above.stat().st_mode | 0o055)

    def command(self, kind: str, *words: str, folder: str = "/mnt") -> list[str]:
        """Return a program of a pack, as a user without rights starts it."""
        return as_unprivileged([f"{folder}/{kind}/bin/{words[0]}", *words[1:]])

    def after(self, script: str, *argv: str, processes: bool = False) -> list[str]:
        """Return a command after a script of root, in mounts of its own; `/mnt` is the folder."""
        more = ["--pid", "--fork", "--kill-child", "--mount-proc"] if processes else []
        first = f'mount --bind "$0" /mnt; {script}; exec "$@"'
        return ["unshare", "--mount", *more, "sh", "-c", first, str(self.folder), *argv]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    need("gcc", "mksquashfs", "patchelf", "root", "unprivileged-user", "unprivileged-userns")
    return Place(tmp_path_factory.mktemp("places"))


def two_ranks(place: Place, kind: str, script: str) -> subprocess.CompletedProcess[str]:
    """Run a second rank while the first one sleeps, after a script of root.

    They are in a process namespace of their own.
    """
    first, second = place.command(kind, "sleep", "20"), place.command(kind, "hello")
    # The first one has started where it has become the program, with whatever it was started by.
    wait = '"$@" & until readlink /proc/$!/exe | grep -q "/[.]bin/sleep"; do sleep 0.05; done; '
    last = f"{' '.join(map(_quoted, second))}; kill $!"
    both = ["sh", "-c", f"{wait} {last}", "sh", *first]
    return out(*place.after(script, *both, processes=True), env=EXPLAIN)


@pytest.mark.parametrize("kind", KINDS)
def test_processes_of_others_may_be_hidden(place: Place, kind: str) -> None:
    """By hidepid of proc(5); a second rank joins the first one also then."""
    done = two_ranks(place, kind, "mount -o remount,hidepid=2 /proc")
    assert " 42 " in done.stdout, done.stderr
    if kind != "tier 0":
        assert "joined the mount namespace of process" in done.stderr


def _quoted(word: str) -> str:
    return f"'{word}'"


@pytest.mark.parametrize("kind", KINDS)
def test_no_program_may_lie_in_a_temporary_folder(place: Place, kind: str) -> None:
    folders = "for one in /tmp /var/tmp /dev/shm /run; do mount -t tmpfs -o noexec none $one; done"
    done = out(*place.after(folders, *place.command(kind, "hello")), env=EXPLAIN)
    assert " 42 " in done.stdout, done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_a_place_where_no_program_may_lie_starts_nothing(place: Place, kind: str) -> None:
    argv = place.command(kind, "hello")
    done = out(*place.after("mount -o remount,bind,noexec /mnt", *argv))
    assert (done.returncode, done.stdout) == (126, "")
    assert "Permission denied" in done.stderr


def test_without_proc_what_needs_a_mount_says_so(place: Place) -> None:
    done = out(*place.after("mount -t tmpfs none /proc", *place.command("tier 1", "hello")))
    assert (done.returncode, done.stdout) == (126, "")
    assert "hint: " in done.stderr
    assert "/proc" in done.stderr
