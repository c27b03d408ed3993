"""Doors that a user could go in by: each test is an attack, and what the old code let it do is gone."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from images import make_image
from machine import HELPER, NOBODY, SOMEBODY, Machine, loop_devices, mount, reasons
from need import need

pytestmark = [
    pytest.mark.machine,
    pytest.mark.guarantee(
        "The mount helper",
        "It reads what the caller may read.",
    ),
]

_POINT = "/user-environment"
_TIMEOUT_S = 600


def _asked(program: Path, *words: str | Path, cwd: Path | None = None) -> str:
    """Return what the probe says: `ok`, or the reasons of failures."""
    done = subprocess.run(
        [program, *map(str, words)], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False,
        cwd=cwd,
    )  # fmt: skip
    return done.stdout.split("\n")[0]


@contextmanager
def _sleeper(argv: list[str], **options: object) -> Iterator[int]:
    """Run a program that says when it is ready and then waits; its pid."""
    with subprocess.Popen(  # type: ignore[call-overload]
        [*argv, "sh", "-c", "echo; exec sleep 60"], stdout=subprocess.PIPE, **options
    ) as process:
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


@pytest.fixture
def probe(built):
    return built / "tests" / "probe"


@pytest.fixture
def private(tmp_path):
    """Return a readable image in a folder into which only NOBODY can go."""
    need("root", "mksquashfs")
    home = tmp_path / "home"
    (home / "project").mkdir(parents=True)
    image = make_image(home / "project" / "secret.squashfs")
    os.chown(home, NOBODY, NOBODY)
    home.chmod(0o700)
    for folder in (tmp_path, *tmp_path.parents):  # pytest's own are for one user
        if folder.owner() == "root" and folder.stat().st_mode & 0o077 == 0:
            folder.chmod(0o711)
    tmp_path.chmod(0o755)
    return image


@pytest.mark.guarantee(
    "The plug-in for Slurm",
    "Images are opened with the rights of the job's user",
)
def test_no_image_through_the_folder_of_a_process(private, probe):
    """/proc/PID/cwd and /proc/PID/root lead past the rights of the folders above."""
    user = str(SOMEBODY)
    assert _asked(probe, "open", user, user, private) == "image-unreadable"
    owner = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    with _sleeper([], cwd=private.parent, **owner) as pid:
        for door in (f"/proc/{pid}/cwd/{private.name}", f"/proc/{pid}/root{private}"):
            assert Path(door).is_file()
            assert _asked(probe, "open", user, user, door) == "image-unreadable", door
    own = str(NOBODY)
    assert _asked(probe, "open", own, own, private) == "ok", "its owner may"


def test_no_image_of_another_namespace_at_a_permitted_path(tmp_path, probe):
    """`image-folder` names a folder of this machine, not one of the same name in a namespace."""
    need("root", "mksquashfs", "netns")
    (tmp_path / "mount.conf").write_text(f"image-folder = {tmp_path}/images\n")
    (tmp_path / "images").mkdir()
    image = make_image(tmp_path / "own.squashfs")
    script = (
        f'mount -t tmpfs tmpfs {tmp_path}/images && cp {image} {tmp_path}/images/x && exec "$@"'
    )
    with _sleeper(["unshare", "--mount", "sh", "-c", script, "sh"]) as pid:
        door = f"/proc/{pid}/root{tmp_path}/images/x"
        assert Path(door).is_file()
        assert _asked(probe, "check", tmp_path, door) == "image-unreadable"
    shutil.copy(image, tmp_path / "images" / "x")
    assert _asked(probe, "check", tmp_path, tmp_path / "images" / "x") == "ok"


@pytest.mark.guarantee(
    "The mount helper",
    "A damaged or foreign file is refused before the kernel sees it",
)
def test_no_image_on_a_file_system_that_somebody_serves(tmp_path, probe):
    """FUSE says whose a file is: `image-owner = 0` meant nothing there, and the kernel would wait."""
    need("root", "mksquashfs", "squashfuse")
    (tmp_path / "tree").mkdir()
    inner = make_image(tmp_path / "tree" / "inner.squashfs")
    outer = tmp_path / "outer.squashfs"
    subprocess.run(
        ["mksquashfs", tmp_path / "tree", outer, "-all-root", "-quiet", "-no-progress"], check=True,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    served = tmp_path / "served"
    served.mkdir()
    subprocess.run(["squashfuse", outer, served], check=True, timeout=_TIMEOUT_S)
    try:
        for policy in ("image-owner = 0\n", ""):
            (tmp_path / "mount.conf").write_text(f"mount-point = {_POINT}\n{policy}")
            assert (served / inner.name).stat().st_uid == 0
            assert _asked(probe, "check", tmp_path, served / inner.name) == "not-permitted"
            assert _asked(probe, "check", tmp_path, inner) == "ok"
    finally:
        subprocess.run(["umount", "--lazy", served], check=True, timeout=_TIMEOUT_S)


_PATHS = (
    "file", "./file", "folder/../file", "folder//file", "to-file", "to-folder/file", "absolute",
    "to-folder/../file", "loop", "dangling", "none", "none/x", "file/x", "folder", "folder/", "chain0",
    "chain39", "chain60", "", "/", ".", "..", "x" * 300, "y/" * 2200,
)  # fmt: skip
_DOORS = ("/proc/self/cwd/file", "/proc/self/root", "/proc/self/fd/0", "/dev/fd/0", "door/file")


def test_paths_are_followed_alike_on_older_kernels(tmp_path, probe):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").touch()
    for name, target in (
        ("to-file", "file"), ("to-folder", "folder"), ("absolute", tmp_path / "file"),
        ("loop", "loop"), ("dangling", "none"), ("door", "/proc/self/cwd"), ("chain0", "file"),
    ):  # fmt: skip
        (tmp_path / name).symlink_to(target)
    for number in range(1, 61):
        (tmp_path / f"chain{number}").symlink_to(f"chain{number - 1}")

    def followed(path: str) -> list[str]:
        done = subprocess.run(
            [probe, "walk", path], cwd=tmp_path, capture_output=True, text=True, check=True,
            stdin=subprocess.DEVNULL, timeout=_TIMEOUT_S,
        )  # fmt: skip
        return done.stdout.splitlines()

    for path in _PATHS:
        new, old = followed(path)
        assert new == old, path
    assert ":" in followed("chain39")[0]
    for door in _DOORS:
        for said in followed(door):
            assert "symbolic links" in said, door


@pytest.mark.guarantee(
    "The mount helper",
    "What one user can take is limited",
    "by `mount.conf`: images of a command, kernel memory for them (by estimate), loop "
    "devices. Each mount is a line in the system's log (authpriv): who, which file, "
    "where.",
)
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("images-per-command = 1", "not-permitted"),
        ("image-memory = 1", "not-permitted"),
        ("loop-devices-per-user = 1", "not-permitted"),
        ("images-per-command = 2\nimage-memory = 8\nloop-devices-per-user = 2", None),
        ("images-per-command = 0", "invalid-value"),
        ("image-memory = 1k", "invalid-value"),
        ("loop-devices-per-user = -1", "invalid-value"),
        ("image-filesystem = 0x65735546", "invalid-value"),
        ("image-filesystem = fuse", "invalid-value"),
        ("image-filesystem = 0x1234", None),
    ],
)
def test_limits_of_a_site(machine, line, reason):
    make_image(machine.folder / "b.squashfs")
    policy = f"mount-point = {_POINT}\nmount-point = /user-tools\n{line}\n"
    limited = Machine(folder=machine.folder, program=machine.program, policy=policy)
    done = limited.run(*mount(f"a.squashfs:{_POINT},b.squashfs:/user-tools"), "true")
    assert reasons(done) == ([reason] if reason else [])


@pytest.mark.parametrize(("overlays", "reason"), [(1, None), (3, "not-permitted")])
def test_overlays_of_one_image_count_as_devices(machine, overlays, reason):
    """Only those before the first one that had the file were counted: no limit held for them."""
    policy = f"mount-point = {_POINT}\nloop-devices-per-user = 2\n"
    limited = Machine(folder=machine.folder, program=machine.program, policy=policy)
    options = [f"--overlay=a.squashfs:{_POINT}"] * overlays
    done = limited.run(*mount(f"a.squashfs:{_POINT}", *options), "true")
    assert reasons(done) == ([reason] if reason else [])


@pytest.mark.guarantee(
    "The mount helper",
    "It leaves nothing.",
)
def test_one_device_for_a_file_however_many_mount_it(machine):
    image = machine.folder / "a.squashfs"
    script = f"touch $0; while [ ! -e go ]; do sleep 0.05; done; test -e {_POINT}/meta"
    machine.folder.chmod(0o1777)
    running = []
    for number in range(4):
        argv = machine.argv(*mount(f"a.squashfs:{_POINT}"), "sh", "-c", script, f"here{number}")
        running.append(subprocess.Popen(argv, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}))
        end = time.monotonic() + _TIMEOUT_S
        while not (machine.folder / f"here{number}").exists():
            assert time.monotonic() < end
            time.sleep(0.02)
        assert len(loop_devices(image)) == 1
    (machine.folder / "go").touch()
    assert [process.wait(timeout=_TIMEOUT_S) for process in running] == [0, 0, 0, 0]


@pytest.mark.guarantee(
    "The mount helper",
    "It leaves nothing.",
)
def test_devices_of_a_rush_are_given_back(machine):
    """They stayed until the next boot."""
    names = [f"i{number}.squashfs" for number in range(40)]
    for name in names:
        shutil.copy(machine.folder / "a.squashfs", machine.folder / name)
    folders = [f"{_POINT}/p{number}" for number in range(40)]
    root = make_image(machine.folder / "root.squashfs", meta=None)
    tree = machine.folder / "tree"
    for folder in folders:
        (tree / os.path.basename(folder)).mkdir(parents=True)
    subprocess.run(
        ["mksquashfs", tree, root, "-noappend", "-quiet", "-no-progress"], check=True,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    images = ",".join(f"{name}:{folder}" for name, folder in zip(names, folders, strict=True))
    done = machine.run(*mount(f"root.squashfs:{_POINT},{images}"), "true")
    assert done.returncode == 0, done.stderr

    def idle() -> int:
        devices = list(Path("/sys/block").glob("loop*"))
        return sum(not (device / "loop" / "backing_file").exists() for device in devices)

    end = time.monotonic() + _TIMEOUT_S
    while idle() > 24 and time.monotonic() < end:
        assert machine.run(*mount(f"a.squashfs:{_POINT}"), "true").returncode == 0
        time.sleep(0.2)
    assert idle() <= 24


@pytest.mark.guarantee(
    "The mount helper",
    "What one user can take is limited",
)
def test_a_line_in_the_log_for_each_mount(machine):
    """Who, which file, where; and nothing that a path holds looks like another line."""
    if os.path.exists("/dev/log"):
        pytest.skip("this machine has a log of its own at /dev/log")
    name = "new\nline\x1b.squashfs"
    shutil.copy(machine.folder / "a.squashfs", machine.folder / "b.squashfs")
    state = (machine.folder / "b.squashfs").stat()
    device = f"{os.major(state.st_dev)}:{os.minor(state.st_dev)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
        log.bind("/dev/log")
        try:
            os.chmod("/dev/log", 0o666)
            log.settimeout(10)
            done = machine.run(*mount(f"b.squashfs:{_POINT}"), "true")
            assert done.returncode == 0, done.stderr
            line = log.recv(4096).decode()
            assert line.startswith("<85>stackproof-mount[")
            assert f": uid {NOBODY} mounts inode {state.st_ino} of device {device}," in line
            assert line.endswith(f", owner 0, at {_POINT}: b.squashfs")
            refused = machine.run(HELPER, f"--images={name}:{_POINT}", "--", "true")
            assert refused.returncode != 0
        finally:
            os.unlink("/dev/log")


_TRIES = """
import os, socket, sys
def attempt(name, work):
    try:
        work()
        print(name, "done")
    except OSError as error:
        print(name, error.strerror)
attempt("image", lambda: os.read(3, 4))
attempt("again", lambda: open("/proc/self/fd/3", "rb").close())
attempt("secret", lambda: open(sys.argv[1]).close())
attempt("folder", lambda: os.listdir(os.path.dirname(sys.argv[1])))
attempt("write", lambda: open("/var/tmp/stackproof-door", "w").close())
attempt("network", lambda: socket.socket())
attempt("unix", lambda: socket.socket(socket.AF_UNIX))
attempt("process", lambda: os.fork() or os._exit(0))
attempt("signal", lambda: os.kill(os.getppid(), 0))
attempt("program", lambda: os.execv("/bin/sh", ["sh", "-c", "echo program done"]))
"""


def test_who_parses_an_image_can_do_nothing_else(tmp_path, probe):
    """A squashfuse that an image has taken over: no network, home, process or program is its own."""
    need("root", "mksquashfs")
    if not _has_landlock():
        pytest.skip("this kernel has no Landlock")
    image = make_image(tmp_path / "a.squashfs")
    secret = tmp_path / "secret"
    secret.write_text("key")
    done = subprocess.run(
        [probe, "confine", "/usr/bin/python3", image, "-I", "-S", "-c", _TRIES, secret],
        capture_output=True, text=True, timeout=_TIMEOUT_S, check=False,
    )  # fmt: skip
    found = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert found.pop("image") == "done", done
    assert found.pop("again") == "done", done
    assert len(found) == 8, done
    assert all(text in {"Permission denied", "Operation not permitted"} for text in found.values())


def test_squashfuse_runs_behind_the_wall(machine):
    script = (
        f"test -e {_POINT}/meta/env.json || exit 1; for p in /proc/[0-9]*; do "
        "case $(cat $p/comm) in squashfuse*) grep -E '^(Seccomp|NoNewPrivs):' $p/status;; esac; done"
    )
    words = mount(f"a.squashfs:{_POINT}", "--way=userns")
    done = machine.run(*words, "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["NoNewPrivs:", "1", "Seccomp:", "2"]


def _has_landlock() -> bool:
    modules = Path("/sys/kernel/security/lsm")
    if modules.exists():
        return "landlock" in modules.read_text()
    library = ctypes.CDLL(None)
    return int(library.syscall(444, None, 0, 1)) >= 1
