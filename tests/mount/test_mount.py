"""Mounting for real, both ways: what a command sees, what others see, and what is left behind."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from images import make_image
from mounting import Way, mounted, put_folder, put_image, reason_of, run_words, way
from need import need
from stackproof.core.errors import Reason
from stackproof.mount import without_mount
from stackproof.mount.effects import methods

pytestmark = pytest.mark.machine

_TIMEOUT_S = 600


@pytest.fixture(params=["kernel", "fuse"])
def mounter(request: pytest.FixtureRequest, tmp_path: Path) -> Way:
    return way(request.param, tmp_path)


@pytest.fixture
def fuse(tmp_path: Path) -> Way:
    return way("fuse", tmp_path)


def _users_of(image: Path) -> list[str]:
    """Return what still holds an image: loop devices over it, processes with it open."""
    state = image.stat()
    found = []
    for device in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            if device.read_text().strip() == os.fspath(image):
                found.append(os.fspath(device))
    for link in glob.glob("/proc/[0-9]*/fd/*"):  # pathlib's stops where a process ends meanwhile
        with contextlib.suppress(OSError):
            other = os.stat(link)
            if (other.st_dev, other.st_ino) == (state.st_dev, state.st_ino):
                found.append(link)
    return found


def _eventually(check: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if check():
            return True
        time.sleep(0.02)
    return check()


@contextlib.contextmanager
def _started(argv: list[str]) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a program and give it together with the first line it prints."""
    process = subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    )
    with process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline()
        finally:
            process.kill()


# ------------------------------------------------------------------------- what the command sees


def test_the_command_takes_the_place_and_its_exit_code_is_passed(mounter: Way) -> None:
    image, mount = put_image(mounter), put_folder(mounter)
    done = mounted(mounter, f"{image}:{mount}", "sh", "-c", f"{mount}/bin/hello; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "hello from the image\n", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2])
def test_signals_reach_the_command_itself(mounter: Way, number: signal.Signals) -> None:
    image, mount = put_image(mounter), put_folder(mounter)
    script = (
        f"trap 'echo caught; exit 5' {number.name[3:]}; echo ready; while :; do sleep 0.05; done"
    )
    argv = mounter.argv(*mounter.mountexec, f"{image}:{mount}", "sh", "-c", script)
    with _started(argv) as (process, line):
        assert line == "ready\n"
        process.send_signal(number)
        stdout, _ = process.communicate(timeout=_TIMEOUT_S)
        assert (process.returncode, stdout) == (5, "caught\n")


def test_death_by_signal_is_seen_as_such(mounter: Way) -> None:
    image, mount = put_image(mounter), put_folder(mounter)
    assert mounted(mounter, f"{image}:{mount}", "sh", "-c", "kill -SEGV $$").returncode == -11


def test_read_only_nosuid_nodev(mounter: Way) -> None:
    image, mount = put_image(mounter), put_folder(mounter)
    done = mounted(mounter, f"{image}:{mount}", "cat", "/proc/self/mountinfo")
    (line,) = [line for line in done.stdout.splitlines() if line.split()[4] == os.fspath(mount)]
    assert set(line.split()[5].split(",")) >= {"ro", "nosuid", "nodev"}


def test_nothing_can_be_written(mounter: Way) -> None:
    image, mount = put_image(mounter), put_folder(mounter)
    done = mounted(mounter, f"{image}:{mount}", "sh", "-c", f"LC_ALL=C touch {mount}/x")
    assert done.returncode == 1
    assert "Read-only file system" in done.stderr


def test_set_user_id_has_no_effect(mounter: Way) -> None:
    image, mount = put_image(mounter), put_folder(mounter)
    drop = ["setpriv", "--reuid", "1234", "--clear-groups"] if mounter.how == "kernel" else []
    done = mounted(mounter, f"{image}:{mount}", *drop, f"{mount}/bin/whoami", "-u")
    assert done.returncode == 0, done.stderr
    assert done.stdout != "0\n"


def test_device_nodes_have_no_effect(mounter: Way) -> None:
    image, mount = put_image(mounter), put_folder(mounter)
    script = f"test -c {mount}/null && ! cat {mount}/null 2>&1"
    assert mounted(mounter, f"{image}:{mount}", "sh", "-c", script).returncode == 0


def test_the_working_folder_stays(mounter: Way) -> None:
    image, mount = put_image(mounter), put_folder(mounter)
    assert mounted(mounter, f"{image}:{mount}", "pwd").stdout == f"{mounter.folder}\n"


def test_a_relative_image_and_several_at_once(mounter: Way) -> None:
    put_image(mounter), put_image(mounter, "b.squashfs")
    one, two = put_folder(mounter), put_folder(mounter, "two")
    script = f"{one}/bin/hello && {two}/bin/hello && echo $STACKPROOF_MOUNTED"
    done = mounted(mounter, f"a.squashfs:{one},b.squashfs:{two}", "sh", "-c", script)
    here = mounter.folder
    expected = f"{here}/a.squashfs:{one},{here}/b.squashfs:{two}"
    assert done.stdout.splitlines() == ["hello from the image"] * 2 + [expected]


def test_one_image_at_two_places(mounter: Way) -> None:
    image, one, two = put_image(mounter), put_folder(mounter), put_folder(mounter, "two")
    done = mounted(
        mounter, f"{image}:{one},{image}:{two}", "cmp", f"{one}/bin/hello", f"{two}/bin/hello"
    )
    assert done.returncode == 0, done.stderr


def test_descriptors_of_the_caller_pass_through_and_no_other(mounter: Way) -> None:
    image, mount = put_image(mounter), put_folder(mounter)
    reader, writer = os.pipe()
    try:
        listing = ["ls", "/proc/self/fd"]
        plain = run_words(mounter.argv(*listing), pass_fds=(writer,))
        argv = mounter.argv(*mounter.mountexec, f"{image}:{mount}", "--", *listing)
        mounted = run_words(argv, pass_fds=(writer,))
    finally:
        os.close(reader)
        os.close(writer)
    assert str(writer) in mounted.stdout.split()
    assert mounted.stdout == plain.stdout


def test_signal_dispositions_are_those_of_the_caller(mounter: Way) -> None:
    image, mount = put_image(mounter), put_folder(mounter)
    lines = ["grep", "Sig[BIC]", "/proc/self/status"]
    assert (
        mounted(mounter, f"{image}:{mount}", *lines).stdout
        == run_words(mounter.argv(*lines)).stdout
    )


@pytest.mark.parametrize(
    ("name", "code"), [("no-such-program", 127), ("./text", 126), ("./no", 127)]
)
def test_a_command_that_cannot_run(mounter: Way, name: str, code: int) -> None:
    (mounter.real_folder / "text").write_text("text")
    done = mounted(mounter, f"{put_image(mounter)}:{put_folder(mounter)}", name)
    assert (done.returncode, reason_of(done)) == (code, Reason.COMMAND_NOT_FOUND)


def test_a_script_without_an_interpreter_line_runs_as_with_env(mounter: Way) -> None:
    script = mounter.real_folder / "script"
    script.write_text('echo "$0 $1"\n')
    script.chmod(0o755)
    done = mounted(mounter, f"{put_image(mounter)}:{put_folder(mounter)}", "./script", "x y")
    assert done.stdout == "./script x y\n"


# ------------------------------------------------------------- what others see, what is left over


def test_no_other_process_sees_it(mounter: Way) -> None:
    image, mount = put_image(mounter), put_folder(mounter)
    before = Path("/proc/self/mountinfo").read_text()
    argv = mounter.argv(*mounter.mountexec, f"{image}:{mount}", "sh", "-c", f"ls {mount}; read x")
    with _started(argv) as (_, line):
        assert line == "bin\n"
        assert list((mounter.real_folder / "mount").iterdir()) == []
        assert Path("/proc/self/mountinfo").read_text() == before


@pytest.mark.parametrize("end", ["exit", "kill"])
def test_nothing_is_left_however_the_command_ends(mounter: Way, end: str) -> None:
    image, mount = put_image(mounter), put_folder(mounter)
    real = mounter.real_folder / image.name
    argv = mounter.argv(*mounter.mountexec, f"{image}:{mount}", "sh", "-c", "echo ready; read x")
    with _started(argv) as (process, line):
        assert line == "ready\n"
        assert _users_of(real)
        if end == "kill":
            process.kill()
        else:
            process.stdin.close()
        process.wait(_TIMEOUT_S)
    assert _eventually(lambda: not _users_of(real)), _users_of(real)


def test_the_mount_lasts_as_long_as_any_process_of_the_command(mounter: Way) -> None:
    image, mount = put_image(mounter), put_folder(mounter)
    real = mounter.real_folder / image.name
    script = f"(read x; {mount}/bin/hello) <&3 & exit 0"
    argv = mounter.argv(
        "sh", "-c", 'exec 3<&0; exec "$@"', "sh", *mounter.mountexec, f"{image}:{mount}"
    )
    process = subprocess.Popen(
        [*argv, "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.wait(_TIMEOUT_S) == 0
        assert _users_of(real)
        stdout, _ = process.communicate("\n", timeout=_TIMEOUT_S)
    assert stdout == "hello from the image\n"
    assert _eventually(lambda: not _users_of(real))


def test_killed_while_mounting_leaves_nothing(mounter: Way) -> None:
    image, mount = put_image(mounter), put_folder(mounter)
    real = mounter.real_folder / image.name
    argv = mounter.argv(*mounter.mountexec, f"{image}:{mount}", "true")
    for milliseconds in range(8, 60, 4):
        with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as process:
            time.sleep(milliseconds / 1000)
            process.kill()
    assert _eventually(lambda: not _users_of(real)), _users_of(real)


def test_many_at_once(mounter: Way) -> None:
    image, mount = put_image(mounter), put_folder(mounter)
    argv = mounter.argv(*mounter.mountexec, f"{image}:{mount}", f"{mount}/bin/hello")
    processes = [
        subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(12)
    ]
    done = [(*process.communicate(timeout=_TIMEOUT_S), process.returncode) for process in processes]
    assert done == [("hello from the image\n", "", 0)] * 12
    assert _eventually(lambda: not _users_of(mounter.real_folder / image.name))


# ------------------------------------------------------------------------------------- bad images


def _damage(path: Path, start: int) -> None:
    with path.open("r+b") as stream:
        stream.seek(start)
        stream.write(b"\xa5" * (path.stat().st_size - start))


_BAD_IMAGES: dict[str, tuple[Callable[[Path], object], Reason]] = {
    "missing": (Path.unlink, Reason.IMAGE_MISSING),
    "empty": (lambda path: path.write_bytes(b""), Reason.IMAGE_NOT_SQUASHFS),
    "text": (lambda path: path.write_text("text " * 99), Reason.IMAGE_NOT_SQUASHFS),
    "old version": (lambda p: _patch(p, 28, b"\x03"), Reason.IMAGE_NOT_SQUASHFS),
    "cut in its superblock": (lambda path: os.truncate(path, 50), Reason.IMAGE_TRUNCATED),
    "cut": (lambda path: os.truncate(path, 1000), Reason.IMAGE_TRUNCATED),
    "damaged tables": (lambda path: _damage(path, 96), Reason.MOUNT_FAILED),
}


def _patch(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as stream:
        stream.seek(at)
        stream.write(data)


@pytest.mark.parametrize("name", list(_BAD_IMAGES))
def test_a_bad_image_is_an_error_with_its_reason(mounter: Way, name: str) -> None:
    image, mount = put_image(mounter), put_folder(mounter)
    change, reason = _BAD_IMAGES[name]
    change(mounter.real_folder / image.name)
    done = mounted(mounter, f"{image}:{mount}", "true")
    assert (done.returncode, reason_of(done)) == (6, reason)


def test_a_folder_or_a_fifo_is_not_an_image(mounter: Way) -> None:
    mount = put_folder(mounter)
    os.mkfifo(mounter.real_folder / "fifo")
    (mounter.real_folder / "fifo").chmod(0o644)
    for name in ("mount", "fifo"):
        done = mounted(mounter, f"{mounter.folder}/{name}:{mount}", "true")
        assert (done.returncode, reason_of(done)) == (6, Reason.IMAGE_NOT_SQUASHFS)


def test_an_image_without_the_right_to_read_it(fuse: Way) -> None:
    image, mount = put_image(fuse), put_folder(fuse)
    (fuse.real_folder / image.name).chmod(0)
    done = mounted(fuse, f"{image}:{mount}", "true")
    assert (done.returncode, reason_of(done)) == (6, Reason.IMAGE_UNREADABLE)


def test_an_image_that_is_not_whole_sectors_long(mounter: Way) -> None:
    image, mount = put_image(mounter, options=("-nopad",)), put_folder(mounter)
    real = mounter.real_folder / image.name
    assert real.stat().st_size % 512, "the test's image must have an odd size"
    done = mounted(mounter, f"{image}:{mount}", f"{mount}/bin/hello")
    if mounter.how == "kernel":
        assert (done.returncode, reason_of(done)) == (6, Reason.MOUNT_FAILED)
    else:
        assert done.stdout == "hello from the image\n"


@pytest.mark.parametrize("compressor", ["gzip", "lzo", "xz", "lz4", "zstd"])
def test_every_compressor(mounter: Way, compressor: str) -> None:
    image, mount = put_image(mounter, options=("-comp", compressor)), put_folder(mounter)
    done = mounted(mounter, f"{image}:{mount}", f"{mount}/bin/hello")
    assert done.stdout == "hello from the image\n", done.stderr


# ------------------------------------------------------------------------------------ bad machines


def test_the_kernel_is_not_for_everybody(fuse: Way) -> None:
    argv = [word if word != "fuse" else "kernel" for word in fuse.mountexec]
    done = run_words(fuse.argv(*argv, f"{put_image(fuse)}:{put_folder(fuse)}", "true"))
    assert (done.returncode, reason_of(done)) == (4, Reason.NOT_PERMITTED)


def test_auto_takes_what_is_permitted(mounter: Way) -> None:
    argv = [word if word != mounter.how else "auto" for word in mounter.mountexec]
    done = run_words(
        mounter.argv(*argv, "--verbose", f"{put_image(mounter)}:{put_folder(mounter)}", "true")
    )
    assert methods.WAYS[mounter.how] in done.stderr.splitlines()[0]


def test_without_the_fuse_device(fuse: Way) -> None:
    if not fuse.private:
        need("root")  # to take the device away
    argv = [*fuse.mountexec, f"{put_image(fuse)}:{put_folder(fuse)}", "true"]
    if run_words(fuse.argv("test", "-w", "/dev/fuse", fuse=False)).returncode == 0:
        pytest.skip("/dev/fuse is for everybody here")
    done = run_words(fuse.argv(*argv, fuse=False))
    assert (done.returncode, reason_of(done)) == (4, Reason.NO_FUSE)
    assert without_mount.PACK in done.stderr


def test_without_squashfuse(fuse: Way) -> None:
    need("root")
    hide = 'for name in /usr/bin/squashfuse*; do mount --bind /dev/null $name; done; exec "$@"'
    argv = fuse.argv(*fuse.mountexec, f"{put_image(fuse)}:{put_folder(fuse)}", "true")
    done = run_words(["unshare", "--mount", "sh", "-c", hide, "sh", *argv])
    assert (done.returncode, reason_of(done)) == (4, Reason.TOOL_MISSING)
    assert without_mount.PACK in done.stderr


def test_without_user_namespaces(fuse: Way) -> None:
    need("root")
    drop = "setpriv --ambient-caps=-all --inh-caps=-all --bounding-set=-all"
    none = f'echo 0 > /proc/sys/user/max_user_namespaces && exec {drop} "$@"'
    argv = fuse.argv(
        "unshare", "--user", "--map-current-user", "--keep-caps", "sh", "-c", none, "sh",
        *fuse.mountexec, f"{put_image(fuse)}:{put_folder(fuse)}", "true",
    )  # fmt: skip
    done = run_words(argv)
    assert (done.returncode, reason_of(done)) == (4, Reason.NO_USER_NAMESPACES)
    assert without_mount.PACK in done.stderr


def test_root_of_a_user_namespace_mounts_with_squashfuse_in_it(fuse: Way) -> None:
    """As on the nodes of a cluster that was made without root."""
    image, mount = put_image(fuse), put_folder(fuse)
    argv = [word if word != "fuse" else "auto" for word in fuse.mountexec]
    outer = [
        "unshare",
        "--user",
        "--map-root-user",
        "sh",
        "-c",
        'readlink /proc/self/ns/user; exec "$@"',
    ]
    script = f"readlink /proc/self/ns/user; {mount}/bin/hello; id -u"
    done = run_words(fuse.argv(*outer, "sh", *argv, f"{image}:{mount}", "sh", "-c", script))
    before, after, *rest = done.stdout.splitlines()
    assert before == after
    assert rest == ["hello from the image", "0"]


@pytest.mark.parametrize(
    "words", [[], ["a:/x"], ["--how", "x", "a:/x", "true"], ["--x", "a:/x", "y"], ["a", "true"]]
)
def test_wrong_usage(tmp_path: Path, words: list[str]) -> None:
    plain = Way("kernel", tmp_path, private=False)
    done = run_words([word for word in plain.mountexec if word not in {"--how", "kernel"}] + words)
    assert (done.returncode, reason_of(done)) == (2, Reason.USAGE)


@pytest.mark.parametrize("at_once", [True, False])
def test_a_loop_device_is_read_only_and_goes_with_its_last_user(
    tmp_path: Path, at_once: bool
) -> None:
    """Also with the two calls of kernels before Linux 5.8."""
    need("kernel-mount")
    image = make_image(tmp_path / "a.squashfs")
    with image.open("rb") as stream, open("/dev/loop-control", "rb") as control:
        for _ in range(64):
            number = fcntl.ioctl(control, 0x4C82)
            with open(f"/dev/loop{number}", "rb") as device:
                if not methods.configure_loop(device.fileno(), stream.fileno(), at_once=at_once):
                    continue
                assert device.read(4) == b"hsqs"
                block = Path(f"/sys/block/loop{number}")
                assert (block / "loop/backing_file").read_text().strip() == os.fspath(image)
                assert (block / "loop/autoclear").read_text().strip() == "1"
                assert (block / "ro").read_text().strip() == "1"
            break
    assert _eventually(lambda: not _users_of(image))
