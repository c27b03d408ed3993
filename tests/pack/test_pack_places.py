"""Packs where a machine denies something: places of programs, /proc, and an end in the middle."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from need import as_unprivileged, need
from packs import CALLS_ANSWER, Stack, out, pack

pytestmark = pytest.mark.battery

EXPLAIN = {**os.environ, "STACKPROOF_PACK_EXPLAIN": "1"}
KINDS = {"tier 0": (), "tier 1": ("--tier", "1"), "self": ("--format", "self")}
_WAIT_S = 600
# So much that unpacking takes longer than to notice it.
_BULK_BYTES = 12 << 20
NO_MOUNTS = "mount --bind /dev/null /dev/fuse; mount --bind /dev/null /dev/loop-control"


class Place:
    """A folder for everybody with a pack of each kind; they also have sleep(1) of this machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        stack = Stack(folder)
        stack.library("libanswer", "int answer(void) { return 42; }")
        stack.program("hello", CALLS_ANSWER, needs=("answer",))
        (stack.tree / "bulk").write_bytes(os.urandom(_BULK_BYTES))
        image = stack.image()
        shutil.rmtree(stack.tree)
        for name, words in KINDS.items():
            done = pack(image, "hello", "sleep", *words, "-o", name, "--json", cwd=folder)
            assert done.returncode == 0, done.stderr
            self.tree = json.loads(done.stdout)["tree"]
        for above in (folder, *folder.parents[:-2]):
            above.chmod(above.stat().st_mode | 0o055)

    def command(self, kind: str, *words: str, folder: str = "/mnt") -> list[str]:
        """Return a program of a pack, as a user without rights starts it."""
        own = [f"{folder}/self", *words]
        return as_unprivileged(
            own if kind == "self" else [f"{folder}/{kind}/bin/{words[0]}", *words[1:]]
        )

    def after(self, script: str, *argv: str, processes: bool = False) -> list[str]:
        """Return a command after a script of root, in mounts of its own; `/mnt` is the folder."""
        more = ["--pid", "--fork", "--kill-child", "--mount-proc"] if processes else []
        first = f'mount --bind "$0" /mnt; {script}; exec "$@"'
        return ["unshare", "--mount", *more, "sh", "-c", first, str(self.folder), *argv]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    need("gcc", "mksquashfs", "patchelf", "root", "unprivileged-user", "unprivileged-userns")
    return Place(tmp_path_factory.mktemp("places"))


# Who is not in the user namespace of such a mount may not look into it.
_FUSE_FOR_ALL = (
    "mount -t tmpfs none /media && mknod -m 666 /media/fuse c 10 229 && "
    "mount --bind /media/fuse /dev/fuse"
)


def two_ranks(
    place: Place, kind: str, script: str, between: str = ":"
) -> subprocess.CompletedProcess[str]:
    """Run a second rank while the first one sleeps: root's script, first rank, `between`, second.

    They are in a process namespace of their own.
    """
    first, second = place.command(kind, "sleep", "20"), place.command(kind, "hello")
    # The first one has started where it has become the program, with whatever it was started by.
    wait = '"$@" & until readlink /proc/$!/exe | grep -q "/[.]bin/sleep"; do sleep 0.05; done; '
    last = f"{' '.join(map(_quoted, second))}; kill $!"
    both = ["sh", "-c", f"{wait} {between}; {last}", "sh", *first]
    return out(*place.after(script, *both, processes=True), env=EXPLAIN)


@pytest.mark.parametrize("kind", KINDS)
def test_processes_of_others_may_be_hidden(place: Place, kind: str) -> None:
    """By hidepid of proc(5); a second rank joins the first one also then."""
    done = two_ranks(place, kind, "mount -o remount,hidepid=2 /proc")
    assert " 42 " in done.stdout, done.stderr
    if kind != "tier 0":
        assert "joined the mount namespace of process" in done.stderr


def test_ranks_share_what_squashfuse_mounted(place: Place) -> None:
    need("fuse")
    done = two_ranks(place, "self", _FUSE_FOR_ALL)
    assert " 42 " in done.stdout, done.stderr
    assert done.stderr.count("mounted by squashfuse") == 1, done.stderr
    assert "joined the mount namespace of process" in done.stderr


def test_a_rank_mounts_again_where_squashfuse_has_ended(place: Place) -> None:
    need("fuse")
    done = two_ranks(place, "self", _FUSE_FOR_ALL, "pkill -KILL -f '[s]quashfuse'; sleep 0.2")
    assert " 42 " in done.stdout, done.stderr
    assert "joined" not in done.stderr


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


@pytest.mark.parametrize("kind", ["tier 1", "self"])
def test_without_proc_what_needs_a_mount_says_so(place: Place, kind: str) -> None:
    done = out(*place.after("mount -t tmpfs none /proc", *place.command(kind, "hello")))
    assert (done.returncode, done.stdout) == (126, "")
    assert "hint: " in done.stderr
    assert "/proc" in done.stderr


def test_killed_while_it_is_unpacked_to_memory_nothing_stays(place: Place) -> None:
    """At any time; the next one starts as if nothing had been."""
    argv = place.after(NO_MOUNTS, *place.command("self", "sleep", "60"))
    for delay_s in (0.02, 0.05, 0.1, 0.2, 0.4):
        with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as process:
            time.sleep(delay_s)
            process.kill()
        until = time.monotonic() + _WAIT_S
        while _mounted(place.tree) and time.monotonic() < until:
            time.sleep(0.02)
        assert _mounted(place.tree) == []
    done = out(*place.after(NO_MOUNTS, *place.command("self", "hello")), env=EXPLAIN)
    assert "made a mount namespace and unpacked to memory" in done.stderr
    assert " 42 " in done.stdout


def _mounted(tree: str) -> list[str]:
    """Return the processes in whose mounts a pack is."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            mounts = (process / "mountinfo").read_text()
        except OSError:  # it has ended
            continue
        if f"/.stackproof-{tree[:16]} " in mounts:
            found.append(process.name)
    return found


def test_killed_while_it_is_unpacked_to_a_folder_there_is_no_such_folder(
    place: Place, tmp_path: Path
) -> None:
    argv = [os.fspath(place.folder / "self"), "--pack-extract", os.fspath(tmp_path / "out")]
    with subprocess.Popen(argv) as process:
        while not (tmp_path / "out.part").exists():
            assert process.poll() is None
        process.kill()
    assert os.listdir(tmp_path) == ["out.part"]
    done = out(*argv)
    assert (done.returncode, f"{tmp_path}/out.part (it is there)" in done.stderr) == (126, True)
    assert "remove what an unpacking that was stopped has left" in done.stderr
