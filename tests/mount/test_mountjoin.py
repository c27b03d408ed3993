"""Ranks of one node share one mount: for real, by both ways to mount."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from images import env_json, make_image
from mounting import Way, way
from need import need
from stackproof.core.effects.libc import MountFailure
from stackproof.mount.effects import join, mount_exec

pytestmark = [
    pytest.mark.machine,
    pytest.mark.guarantee(
        "Folders of several users",
        "A name in /tmp or /dev/shm that another user has taken keeps nobody from working.",
    ),
]

_TIMEOUT_S = 600
# Starts COUNT processes at once; each says its namespaces, and waits until all have.
_TOGETHER = """
for i in $(seq "$COUNT"); do
  "$@" sh -c 'echo $(readlink /proc/self/ns/user) $(readlink /proc/self/ns/mnt) $(sh "$0")
    echo >> ready; while [ $(wc -l < ready) -lt "$COUNT" ]; do sleep 0.02; done' "$MOUNT/bin/hello" &
done
wait
"""
# A process with some bytes, and another one that copies them out of it, as MPI libraries do.
_READ_OTHER = r"""
import ctypes, os, subprocess, sys
class Piece(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
if len(sys.argv) == 1:
    words = ctypes.create_string_buffer(b"from the other rank", 19)
    print(os.getpid(), ctypes.addressof(words), flush=True)
    sys.stdin.read()
else:
    into = ctypes.create_string_buffer(19)
    here, there = Piece(ctypes.addressof(into), 19), Piece(int(sys.argv[2]), 19)
    libc = ctypes.CDLL(None, use_errno=True)
    got = libc.process_vm_readv(int(sys.argv[1]), ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    print(into.raw.decode() if got == 19 else os.strerror(ctypes.get_errno()))
"""
_TWO_RANKS = """
mkfifo wait
"$@" < wait > first & exec 3> wait
while ! [ -s first ]; do sleep 0.02; done
"$@" $(cat first)
exec 3>&-
wait
"""


@pytest.fixture(params=["kernel", "fuse"])
def mounter(request: pytest.FixtureRequest, tmp_path: Path) -> Way:
    found = way(request.param, tmp_path)
    tmp_path.chmod(0o777)
    make_image(tmp_path / "a.squashfs")
    (tmp_path / "mount").mkdir()
    return found


def _run(mounter: Way, script: str, *command: str, **variables: str) -> str:
    runtime = mounter.real_folder / "runtime"
    if not runtime.exists():
        runtime.mkdir(mode=0o700)
        if mounter.private:
            os.chown(runtime, 65534, 65534)
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "XDG_RUNTIME_DIR": f"{mounter.folder}/runtime",
        "MOUNT": f"{mounter.folder}/mount",
        **variables,
    }
    done = subprocess.run(
        mounter.argv("sh", "-c", script, "sh", *command), capture_output=True, text=True,
        timeout=_TIMEOUT_S, check=False, env=environment,
    )  # fmt: skip
    assert done.stderr == "", done
    assert done.returncode == 0, done
    return done.stdout


def _mounts(mounter: Way) -> str:
    return f"{mounter.folder}/a.squashfs:{mounter.folder}/mount"


def test_all_that_come_together_share_one_mount(mounter: Way) -> None:
    command = [*mounter.mountexec, "--join", _mounts(mounter), "--"]
    lines = _run(mounter, _TOGETHER, *command, COUNT="6").splitlines()
    assert len(lines) == 6
    assert len(set(lines)) == 1
    assert lines[0].endswith("from the image")


def test_without_join_each_has_its_own(mounter: Way) -> None:
    command = [*mounter.mountexec, _mounts(mounter), "--"]
    lines = _run(mounter, _TOGETHER, *command, COUNT="3").splitlines()
    assert len(set(lines)) == 3


def test_ranks_may_read_each_others_memory_only_when_joined(mounter: Way) -> None:
    program = ("/usr/bin/python3", "-c", _READ_OTHER)
    command = [*mounter.mountexec, "--join", _mounts(mounter), "--", *program]
    assert _run(mounter, _TWO_RANKS, *command) == "from the other rank\n"
    if mounter.private or os.geteuid() != 0:  # root may read everything anyway
        for name in ("wait", "first"):
            (mounter.real_folder / name).unlink()
        command.remove("--join")
        assert _run(mounter, _TWO_RANKS, *command) == "Operation not permitted\n"


def test_when_all_have_ended_the_next_one_mounts_anew(mounter: Way) -> None:
    command = [*mounter.mountexec, "--join", _mounts(mounter), "--", "sh"]
    for _ in range(2):
        assert _run(mounter, 'exec "$@" "$MOUNT/bin/hello"', *command) == "hello from the image\n"


def test_another_image_at_the_same_place_is_not_joined(mounter: Way) -> None:
    make_image(mounter.real_folder / "b.squashfs", meta=env_json(name="other"))
    script = """
        "$@" "$0:$MOUNT" -- sh -c 'touch there; while [ -e there ]; do sleep 0.02; done' &
        while ! [ -e there ]; do sleep 0.02; done
        "$@" "$OTHER:$MOUNT" -- grep -o other "$MOUNT/meta/env.json"; rm there; wait
    """.replace("$0", "$FIRST")
    text = _run(
        mounter, script, *mounter.mountexec, "--join",
        FIRST=f"{mounter.folder}/a.squashfs", OTHER=f"{mounter.folder}/b.squashfs",
    )  # fmt: skip
    assert text == "other\n"


def test_run_joins_by_itself_when_it_is_a_rank(mounter: Way) -> None:
    options = ("--how", mounter.how, "--no-view", "--")
    command = [*mounter.stackproof, "run", _mounts(mounter), *options]
    lines = _run(mounter, _TOGETHER, *command, COUNT="3", PMI_RANK="0").splitlines()
    assert len(set(lines)) == 1
    (mounter.real_folder / "ready").unlink()
    lines = _run(mounter, _TOGETHER, *command, COUNT="3").splitlines()
    assert len(set(lines)) == 3


def test_a_folder_that_others_may_write_to_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o777)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with join.Meeting("nothing") as meeting:
        assert meeting.join() is None
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_record_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with join.Meeting("nothing") as meeting:
        meeting.record(["/somewhere"])
    (record,) = tmp_path.iterdir()
    whole = record.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], b"\0" * 100, whole.replace(b"@", b" ")):
        record.write_bytes(damaged)
        with join.Meeting("nothing") as meeting:
            assert meeting.join() is None


def test_only_ranks_of_launchers_are_ranks() -> None:
    assert mount_exec.is_rank({"PMIX_RANK": "3"})
    assert not mount_exec.is_rank({"PATH": "/bin"})


def test_a_name_that_another_user_took_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    places = [tmp_path / "first", tmp_path / "second"]
    monkeypatch.setattr(join, "_PLACES", [str(place) for place in places])
    name = f"stackproof-join-{os.geteuid()}"
    for place in places:
        place.mkdir()
    (places[0] / name).symlink_to(tmp_path)
    with join.Meeting("nothing") as meeting:
        assert meeting.join() is None
    assert len(list((places[1] / name).iterdir())) == 1
    (places[1] / name).chmod(0o777)
    with pytest.raises(MountFailure):
        join.Meeting("nothing")


def test_ranks_mount_for_themselves_where_every_name_is_taken(mounter: Way) -> None:
    need("python")
    script = (
        "import sys; from stackproof.mount.effects import mount_exec as mountexec, join as mountjoin; "
        "mountjoin._PLACES = ['/proc/none']; "
        "sys.exit(mountexec.main(sys.argv[1:]))"
    )
    words = [*mounter.python, "-c", script, "--how", mounter.how, "--join", _mounts(mounter), "--"]
    done = subprocess.run(
        mounter.argv(*words, f"{mounter.folder}/mount/bin/hello"), capture_output=True, text=True,
        timeout=_TIMEOUT_S, check=False, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )  # fmt: skip
    assert done.stdout == "hello from the image\n", done.stderr
    assert "note: every rank mounts for itself" in done.stderr
