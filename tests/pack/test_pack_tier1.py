"""Packs whose stack must lie where it was built for: one mount on a node, which all ranks join."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from need import as_unprivileged, need
from packs import CALLS_ANSWER, MOUNT, Stack, out, pack

EXPLAIN = {"STACKPROOF_PACK_EXPLAIN": "1"}
DATA = f"{MOUNT}/share/data"
WHERE = "readlink /proc/self/ns/user; readlink /proc/self/ns/mnt"
# Denies unshare(2) of x86_64 by seccomp(2), and becomes its arguments.
DENY = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None)
errno, allow = 0x00050000 | 1, 0x7FFF0000
rule = lambda *words: struct.pack("HBBI", *words)
code = rule(0x20, 0, 0, 0) + rule(0x15, 0, 1, 272) + rule(6, 0, 0, errno) + rule(6, 0, 0, allow)
buffer = ctypes.create_string_buffer(code)
program = struct.pack("HxxxxxxP", 4, ctypes.addressof(buffer))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.create_string_buffer(program)) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a pack of a stack with a program, and a script that asks for data by the old place."""
    need("gcc", "mksquashfs", "patchelf")
    folder = tmp_path_factory.mktemp("tier1")
    stack = Stack(folder)
    stack.library("libanswer", "int answer(void) { return 42; }")
    stack.program("hello", CALLS_ANSWER, needs=("answer",))
    stack.script("share/data", "the data\n")
    stack.script("bin/ask", f'#!/bin/sh\ncat {DATA}\n{WHERE}\npwd\n"$@"\n')
    done = pack(stack.image(), "-o", "a pack", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["tier"], told["mounting"]["place"]) == (1, MOUNT)
    for above in (folder, *folder.parents[:-2]):
        above.chmod(above.stat().st_mode | 0o055)
    return folder / "a pack"


def plain(top: Path, *words: str) -> list[str]:
    """Return a command of a user without rights that a program of the pack is in."""
    argv = [os.fspath(top / "bin/ask"), *words]
    return as_unprivileged(argv) if os.geteuid() == 0 else argv


def left_by_users() -> set[str]:
    """Return the entries of /tmp about packs that are not of this test's own user."""
    names = [name for name in os.listdir("/tmp") if "pack" in name]
    return {name for name in names if Path("/tmp", name).lstat().st_uid != os.geteuid()}


@pytest.mark.battery
def test_what_names_the_old_place_finds_it_and_nothing_stays(top: Path) -> None:
    need("unprivileged-user", "userns")
    before = left_by_users()
    there = os.path.lexists(MOUNT)  # on a machine that has the folder it is used
    done = out(*plain(top), env={**os.environ, **EXPLAIN}, cwd="/var")
    data, user, mounts, here = done.stdout.splitlines()
    assert (data, here) == ("the data", "/var"), done.stderr
    assert user != os.readlink("/proc/self/ns/user")
    assert mounts != os.readlink("/proc/self/ns/mnt")
    assert "tier 1, as stack/.bin/ask names that place" in done.stderr
    assert f"made a mount namespace, with the stack at {MOUNT}" in done.stderr
    assert os.path.lexists(MOUNT) is there
    assert not os.path.exists(DATA)
    assert left_by_users() == before


def test_ranks_that_come_at_once_share_one_namespace(top: Path) -> None:
    need("unprivileged-user", "userns")
    argv = plain(top, "sleep", "0.5")
    ranks = [
        subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **EXPLAIN},
        )
        for _ in range(12)
    ]  # fmt: skip
    said = [rank.communicate(timeout=600) for rank in ranks]
    assert len({tuple(text.splitlines()[1:3]) for text, _ in said}) == 1, said
    assert sum("made a mount namespace" in notes for _, notes in said) == 1
    assert sum("joined the mount namespace of process" in notes for _, notes in said) == 11


def test_a_rank_joins_also_when_the_first_one_has_ended(top: Path) -> None:
    need("unprivileged-user", "userns")
    script = "read x; exec 1>&-; read x"
    ranks = []
    for _ in range(2):
        rank = subprocess.Popen(
            plain(top, "sh", "-c", script), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert rank.stdout
        ranks.append((rank, [rank.stdout.readline() for _ in range(4)]))
    first, second = ranks
    assert first[1] == second[1]
    first[0].communicate("\n\n", timeout=600)
    done = out(*plain(top))
    assert done.stdout.splitlines(keepends=True)[1:3] == second[1][1:3]
    second[0].communicate("\n\n", timeout=600)
    assert out(*plain(top)).stdout.splitlines(keepends=True)[1:3] != second[1][1:3]


@pytest.mark.battery
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGSEGV])
def test_signals_are_the_programs(top: Path, number: signal.Signals) -> None:
    need("userns")
    # Not `cat` alone: for an interrupt a shell waits until what it has started is gone.
    with subprocess.Popen([top / "bin/ask", "exec", "cat"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:  # fmt: skip
        assert process.stdout
        for _ in range(4):
            process.stdout.readline()
        process.send_signal(number)
        script = process.wait(timeout=600)
    assert script == -number


def test_programs_in_it_may_make_namespaces_and_start_others_of_it(top: Path) -> None:
    need("unprivileged-user", "userns")
    done = out(*plain(top, "unshare", "--user", "--map-root-user", "id", "-u"))
    assert done.stdout.splitlines()[-1] == "0", done.stderr
    done = out(*plain(top, f"{top}/bin/hello"), env={**os.environ, **EXPLAIN})
    assert done.stdout.splitlines()[-1].startswith(f"{top}/bin/hello 42"), done.stderr
    assert "already there" in done.stderr


def test_where_the_place_is_there_already_nothing_is_made(top: Path) -> None:
    """As by an administrator's link: no namespace is asked for."""
    need("bubblewrap", "userns")
    link = ("--symlink", f"{top}/stack", MOUNT)
    argv = ["bwrap", *_all_of_root(), *link, "--dev", "/dev", "--proc", "/proc"]
    done = out(*argv, top / "bin/ask", env={**os.environ, **EXPLAIN})
    assert done.stdout.startswith("the data\n"), done.stderr
    assert "already there" in done.stderr


def _all_of_root() -> list[str]:
    words = []
    for name in sorted(os.listdir("/")):
        path = f"/{name}"
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
        elif name not in {"dev", "proc", MOUNT.strip("/")}:
            words += ["--bind", path, path]
    return words


def test_without_user_namespaces_it_says_what_to_do(top: Path) -> None:
    """Denied by the sysctl, and by seccomp."""
    need("unprivileged-user", "userns")
    limit = 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"'
    without = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    sysctl = ["unshare", "--user", "--map-root-user", "--", "sh", "-c", limit, "sh", *without]
    *user, program = plain(top)
    for before in (sysctl, [*user, sys.executable, "-c", DENY]):
        done = out(*before, program)
        assert done.returncode == 126, done.stderr
        assert "lets you make no user namespace" in done.stderr
        assert f"link {MOUNT} to {top}/stack" in done.stderr


@pytest.mark.battery
def test_the_tier_may_be_asked_for(tmp_path: Path) -> None:
    need("gcc", "mksquashfs", "patchelf", "userns")
    stack = Stack(tmp_path)
    stack.library("libanswer", "int answer(void) { return 42; }")
    stack.program("hello", CALLS_ANSWER, needs=("answer",))
    image = stack.image()
    done = pack(image, "-o", "out", "--tier", "1", cwd=tmp_path)
    assert "tier 1: the stack is mounted at" in done.stdout, done.stderr
    assert out(tmp_path / "out/bin/hello").stdout.split()[1] == "42"
    done = pack(image, "--explain", cwd=tmp_path)
    assert done.stdout.startswith("tier 0: ")
