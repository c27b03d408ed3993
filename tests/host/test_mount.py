"""Mounting for real, both ways: what a command sees, what others see, and what is left behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from images import env_json, make_image
from mounting import Way, way
from need import need
from stackproof.errors import Reason
from stackproof.host import mountways

_TIMEOUT_S = 60


@pytest.fixture(params=["kernel", "fuse"])
def mounter(request: pytest.FixtureRequest, tmp_path: Path) -> Way:
    return way(request.param, tmp_path)


@pytest.fixture
def fuse(tmp_path: Path) -> Way:
    return way("fuse", tmp_path)


def _image(mounter: Way, name: str = "a.squashfs", **options: object) -> Path:
    make_image(mounter.real_folder / name, **options)
    return mounter.folder / name


def _folder(mounter: Way, name: str = "mount") -> Path:
    (mounter.real_folder / name).mkdir()
    return mounter.folder / name


def _run(argv: list[str], **options: object) -> subprocess.CompletedProcess[str]:
    # A folder of PATH without the right to look into it would make 126 of a 127, as with env(1).
    environment = {**os.environ, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, env=environment,
        **options,
    )  # fmt: skip


def _mounted(mounter: Way, mounts: str, *command: str | Path) -> subprocess.CompletedProcess[str]:
    return _run(mounter.argv(*mounter.mountexec, mounts, "--", *command))


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """Return the reason of a failure, which is one line and perhaps a hint."""
    lines = done.stderr.splitlines()
    assert lines, done
    assert lines[0].startswith("error: ["), done.stderr
    assert all(line.startswith("hint: ") for line in lines[1:]), done.stderr
    return lines[0].removeprefix("error: [").partition("]")[0]


def _users_of(image: Path) -> list[str]:
    """Return what still holds an image: loop devices over it, processes with it open."""
    state = image.stat()
    found = []
    for device in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            if device.read_text().strip() == os.fspath(image):
                found.append(os.fspath(device))
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            other = link.stat()
            if (other.st_dev, other.st_ino) == (state.st_dev, state.st_ino):
                found.append(os.fspath(link))
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
    image, mount = _image(mounter), _folder(mounter)
    done = _mounted(mounter, f"{image}:{mount}", "sh", "-c", f"{mount}/bin/hello; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "hello from the image\n", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2])
def test_signals_reach_the_command_itself(mounter: Way, number: signal.Signals) -> None:
    image, mount = _image(mounter), _folder(mounter)
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
    image, mount = _image(mounter), _folder(mounter)
    assert _mounted(mounter, f"{image}:{mount}", "sh", "-c", "kill -SEGV $$").returncode == -11


def test_read_only_nosuid_nodev(mounter: Way) -> None:
    image, mount = _image(mounter), _folder(mounter)
    done = _mounted(mounter, f"{image}:{mount}", "cat", "/proc/self/mountinfo")
    (line,) = [line for line in done.stdout.splitlines() if line.split()[4] == os.fspath(mount)]
    assert set(line.split()[5].split(",")) >= {"ro", "nosuid", "nodev"}


def test_nothing_can_be_written(mounter: Way) -> None:
    image, mount = _image(mounter), _folder(mounter)
    done = _mounted(mounter, f"{image}:{mount}", "sh", "-c", f"LC_ALL=C touch {mount}/x")
    assert done.returncode == 1
    assert "Read-only file system" in done.stderr


def test_set_user_id_has_no_effect(mounter: Way) -> None:
    image, mount = _image(mounter), _folder(mounter)
    drop = ["setpriv", "--reuid", "1234", "--clear-groups"] if mounter.how == "kernel" else []
    done = _mounted(mounter, f"{image}:{mount}", *drop, f"{mount}/bin/whoami", "-u")
    assert done.returncode == 0, done.stderr
    assert done.stdout != "0\n"


def test_device_nodes_have_no_effect(mounter: Way) -> None:
    image, mount = _image(mounter), _folder(mounter)
    script = f"test -c {mount}/null && ! cat {mount}/null 2>&1"
    assert _mounted(mounter, f"{image}:{mount}", "sh", "-c", script).returncode == 0


def test_the_working_folder_stays(mounter: Way) -> None:
    image, mount = _image(mounter), _folder(mounter)
    assert _mounted(mounter, f"{image}:{mount}", "pwd").stdout == f"{mounter.folder}\n"


def test_a_relative_image_and_several_at_once(mounter: Way) -> None:
    _image(mounter), _image(mounter, "b.squashfs")
    one, two = _folder(mounter), _folder(mounter, "two")
    script = f"{one}/bin/hello && {two}/bin/hello && echo $STACKPROOF_MOUNTED"
    done = _mounted(mounter, f"a.squashfs:{one},b.squashfs:{two}", "sh", "-c", script)
    here = mounter.folder
    expected = f"{here}/a.squashfs:{one},{here}/b.squashfs:{two}"
    assert done.stdout.splitlines() == ["hello from the image"] * 2 + [expected]


def test_one_image_at_two_places(mounter: Way) -> None:
    image, one, two = _image(mounter), _folder(mounter), _folder(mounter, "two")
    done = _mounted(
        mounter, f"{image}:{one},{image}:{two}", "cmp", f"{one}/bin/hello", f"{two}/bin/hello"
    )
    assert done.returncode == 0, done.stderr


def test_descriptors_of_the_caller_pass_through_and_no_other(mounter: Way) -> None:
    image, mount = _image(mounter), _folder(mounter)
    reader, writer = os.pipe()
    try:
        listing = ["ls", "/proc/self/fd"]
        plain = _run(mounter.argv(*listing), pass_fds=(writer,))
        argv = mounter.argv(*mounter.mountexec, f"{image}:{mount}", "--", *listing)
        mounted = _run(argv, pass_fds=(writer,))
    finally:
        os.close(reader)
        os.close(writer)
    assert str(writer) in mounted.stdout.split()
    assert mounted.stdout == plain.stdout


def test_signal_dispositions_are_those_of_the_caller(mounter: Way) -> None:
    image, mount = _image(mounter), _folder(mounter)
    lines = ["grep", "Sig[BIC]", "/proc/self/status"]
    assert _mounted(mounter, f"{image}:{mount}", *lines).stdout == _run(mounter.argv(*lines)).stdout


@pytest.mark.parametrize(
    ("name", "code"), [("no-such-program", 127), ("./text", 126), ("./no", 127)]
)
def test_a_command_that_cannot_run(mounter: Way, name: str, code: int) -> None:
    (mounter.real_folder / "text").write_text("text")
    done = _mounted(mounter, f"{_image(mounter)}:{_folder(mounter)}", name)
    assert (done.returncode, _reason(done)) == (code, Reason.COMMAND_NOT_FOUND)


def test_a_script_without_an_interpreter_line_runs_as_with_env(mounter: Way) -> None:
    script = mounter.real_folder / "script"
    script.write_text('echo "$0 $1"\n')
    script.chmod(0o755)
    done = _mounted(mounter, f"{_image(mounter)}:{_folder(mounter)}", "./script", "x y")
    assert done.stdout == "./script x y\n"


# ------------------------------------------------------------- what others see, what is left over


def test_no_other_process_sees_it(mounter: Way) -> None:
    image, mount = _image(mounter), _folder(mounter)
    before = Path("/proc/self/mountinfo").read_text()
    argv = mounter.argv(*mounter.mountexec, f"{image}:{mount}", "sh", "-c", f"ls {mount}; read x")
    with _started(argv) as (_, line):
        assert line == "bin\n"
        assert list((mounter.real_folder / "mount").iterdir()) == []
        assert Path("/proc/self/mountinfo").read_text() == before


@pytest.mark.parametrize("end", ["exit", "kill"])
def test_nothing_is_left_however_the_command_ends(mounter: Way, end: str) -> None:
    image, mount = _image(mounter), _folder(mounter)
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
    image, mount = _image(mounter), _folder(mounter)
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
    image, mount = _image(mounter), _folder(mounter)
    real = mounter.real_folder / image.name
    argv = mounter.argv(*mounter.mountexec, f"{image}:{mount}", "true")
    for milliseconds in range(8, 60, 4):
        with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as process:
            time.sleep(milliseconds / 1000)
            process.kill()
    assert _eventually(lambda: not _users_of(real)), _users_of(real)


def test_many_at_once(mounter: Way) -> None:
    image, mount = _image(mounter), _folder(mounter)
    argv = mounter.argv(*mounter.mountexec, f"{image}:{mount}", f"{mount}/bin/hello")
    processes = [
        subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(12)
    ]
    done = [(*process.communicate(timeout=_TIMEOUT_S), process.returncode) for process in processes]
    assert done == [("hello from the image\n", "", 0)] * 12
    assert _eventually(lambda: not _users_of(mounter.real_folder / image.name))


# ----------------------------------------------------------------------------------- mount points


def test_a_missing_mount_point_below_the_root_is_made_for_the_command_alone(mounter: Way) -> None:
    image, mount = _image(mounter), "/stackproof-test/deeper"
    listing = _run(mounter.argv("ls", "-a", "/")).stdout.split()
    script = (
        f"{mount}/bin/hello; pwd; ls -a /; echo here > {mounter.folder}/kept 2>/dev/null; : > /x"
    )
    done = _mounted(mounter, f"{image}:{mount}", "sh", "-c", script)
    first, here, *names = done.stdout.split("\n")[:-1]
    assert (first, here) == ("hello from the image", os.fspath(mounter.folder))
    assert sorted(names) == sorted([*listing, "stackproof-test"])
    assert done.returncode != 0
    assert "Read-only file system" in done.stderr
    assert not Path("/stackproof-test").exists()
    assert not Path("/x").exists()


def test_in_the_copied_root_everything_works_as_before(mounter: Way) -> None:
    image, mount = _image(mounter), "/stackproof-test"
    argv = [
        "sh",
        "-c",
        "cat /proc/self/comm && ls /sys /dev/shm >/dev/null && : < /dev/null && id -u",
    ]
    plain = _run(mounter.argv(*argv))
    assert _mounted(mounter, f"{image}:{mount}", *argv).stdout == plain.stdout


def test_the_copied_root_lets_namespaces_be_made_and_entered(mounter: Way) -> None:
    """chroot(2) alone would forbid both; sandboxes of users and clusters of ours need them."""
    image, mount = _image(mounter), "/stackproof-test"
    script = f"""
    unshare --user --map-current-user --mount {mount}/bin/hello || exit
    sleep 100 & nsenter --user --preserve-credentials --mount --target $! {mount}/bin/hello
    code=$?; kill $!; exit $code
    """
    if mounter.how == "kernel":
        need("userns")
        script = script.replace(
            "--user --preserve-credentials --mount --target", "--mount --target"
        )
    else:
        script = script.split("sleep 100")[0]  # without rights only a new one can be made
    done = _mounted(mounter, f"{image}:{mount}", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.splitlines()) == {"hello from the image"}


def test_a_missing_mount_point_that_its_user_could_make_is_an_error(mounter: Way) -> None:
    mounter.real_folder.chmod(0o777)
    done = _mounted(mounter, f"{_image(mounter)}:{mounter.folder}/none/x", "true")
    assert (done.returncode, _reason(done)) == (6, Reason.MOUNT_POINT_MISSING)
    assert "mkdir -p" in done.stderr


def test_a_missing_mount_point_in_a_folder_without_rights_is_made(fuse: Way) -> None:
    if os.geteuid() != 0:
        need("root")  # else the test's folder belongs to the user
    (fuse.real_folder / "file").write_text("kept")
    (fuse.real_folder / "link").symlink_to("file")
    image, mount = _image(fuse), fuse.folder / "made" / "deeper"
    script = f"{mount}/bin/hello; cat {fuse.folder}/link; echo; ls {fuse.folder}"
    done = _mounted(fuse, f"{image}:{mount}", "sh", "-c", script)
    assert done.stdout.split("\n")[:2] == ["hello from the image", "kept"]
    assert done.stdout.split()[-4:] == ["a.squashfs", "file", "link", "made"]
    assert not (fuse.real_folder / "made").exists()


def test_a_file_as_mount_point_is_an_error(mounter: Way) -> None:
    (mounter.real_folder / "file").write_text("")
    for tail in ("file", "file/below"):
        done = _mounted(mounter, f"{_image_once(mounter)}:{mounter.folder}/{tail}", "true")
        assert (done.returncode, _reason(done)) == (6, Reason.MOUNT_POINT_MISSING)


def _image_once(mounter: Way) -> Path:
    return (
        mounter.folder / "a.squashfs"
        if (mounter.real_folder / "a.squashfs").exists()
        else _image(mounter)
    )


def test_an_occupied_mount_point_is_an_error(mounter: Way) -> None:
    image, mount = _image(mounter), _folder(mounter)
    (mounter.real_folder / "mount" / "file").write_text("")
    done = _mounted(mounter, f"{image}:{mount}", "true")
    assert (done.returncode, _reason(done)) == (6, Reason.MOUNT_POINT_OCCUPIED)


def test_a_mount_point_that_holds_an_image_is_occupied(mounter: Way) -> None:
    image, mount = _image(mounter), _folder(mounter)
    inner = [*mounter.mountexec, f"{image}:{mount}", "true"]
    done = _mounted(mounter, f"{image}:{mount}", *inner)
    assert (done.returncode, _reason(done)) == (6, Reason.MOUNT_POINT_OCCUPIED)


def test_images_within_images(mounter: Way) -> None:
    image, mount, other = _image(mounter), _folder(mounter), _folder(mounter, "other")
    inner = [*mounter.mountexec, f"{image}:{other}", "sh", "-c"]
    script = f"{mount}/bin/hello && {other}/bin/hello && echo $STACKPROOF_MOUNTED"
    done = _mounted(mounter, f"{image}:{mount}", *inner, script)
    assert done.stdout.splitlines()[2:] == [f"{image}:{mount},{image}:{other}"], done.stderr


@pytest.mark.parametrize("inner", ["inner", "bin/made/here"])
@pytest.mark.parametrize("turned", [False, True])
def test_nested_mount_points_whatever_their_order(mounter: Way, inner: str, turned: bool) -> None:
    image, mount = _image(mounter), _folder(mounter)
    entries = [f"{image}:{mount}", f"{image}:{mount}/{inner}"]
    if turned:
        entries.reverse()
    script = f"{mount}/bin/hello && {mount}/{inner}/bin/hello"
    done = _mounted(mounter, ",".join(entries), "sh", "-c", script)
    assert done.stdout == "hello from the image\n" * 2, done.stderr


def test_a_link_as_mount_point_leads_to_it_and_clashes_with_it(mounter: Way) -> None:
    image, mount = _image(mounter), _folder(mounter)
    (mounter.real_folder / "link").symlink_to("mount")
    link = mounter.folder / "link"
    assert _mounted(mounter, f"{image}:{link}", f"{mount}/bin/hello").returncode == 0
    done = _mounted(mounter, f"{image}:{link},{image}:{mount}", "true")
    assert (done.returncode, _reason(done)) == (6, Reason.MOUNT_POINT_CLASH)


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
    image, mount = _image(mounter), _folder(mounter)
    change, reason = _BAD_IMAGES[name]
    change(mounter.real_folder / image.name)
    done = _mounted(mounter, f"{image}:{mount}", "true")
    assert (done.returncode, _reason(done)) == (6, reason)


def test_a_folder_or_a_fifo_is_not_an_image(mounter: Way) -> None:
    mount = _folder(mounter)
    os.mkfifo(mounter.real_folder / "fifo")
    (mounter.real_folder / "fifo").chmod(0o644)
    for name in ("mount", "fifo"):
        done = _mounted(mounter, f"{mounter.folder}/{name}:{mount}", "true")
        assert (done.returncode, _reason(done)) == (6, Reason.IMAGE_NOT_SQUASHFS)


def test_an_image_without_the_right_to_read_it(fuse: Way) -> None:
    image, mount = _image(fuse), _folder(fuse)
    (fuse.real_folder / image.name).chmod(0)
    done = _mounted(fuse, f"{image}:{mount}", "true")
    assert (done.returncode, _reason(done)) == (6, Reason.IMAGE_UNREADABLE)


def test_an_image_that_is_not_whole_sectors_long(mounter: Way) -> None:
    image, mount = _image(mounter, options=("-nopad",)), _folder(mounter)
    real = mounter.real_folder / image.name
    assert real.stat().st_size % 512, "the test's image must have an odd size"
    done = _mounted(mounter, f"{image}:{mount}", f"{mount}/bin/hello")
    if mounter.how == "kernel":
        assert (done.returncode, _reason(done)) == (6, Reason.MOUNT_FAILED)
    else:
        assert done.stdout == "hello from the image\n"


@pytest.mark.parametrize("compressor", ["gzip", "lzo", "xz", "lz4", "zstd"])
def test_every_compressor(mounter: Way, compressor: str) -> None:
    image, mount = _image(mounter, options=("-comp", compressor)), _folder(mounter)
    done = _mounted(mounter, f"{image}:{mount}", f"{mount}/bin/hello")
    assert done.stdout == "hello from the image\n", done.stderr


# ------------------------------------------------------------------------------------ bad machines


def test_the_kernel_is_not_for_everybody(fuse: Way) -> None:
    argv = [word if word != "fuse" else "kernel" for word in fuse.mountexec]
    done = _run(fuse.argv(*argv, f"{_image(fuse)}:{_folder(fuse)}", "true"))
    assert (done.returncode, _reason(done)) == (4, Reason.NOT_PERMITTED)


def test_auto_takes_what_is_permitted(mounter: Way) -> None:
    argv = [word if word != mounter.how else "auto" for word in mounter.mountexec]
    done = _run(mounter.argv(*argv, "--verbose", f"{_image(mounter)}:{_folder(mounter)}", "true"))
    assert mountways.WAYS[mounter.how] in done.stderr.splitlines()[0]


def test_without_the_fuse_device(fuse: Way) -> None:
    if not fuse.private:
        need("root")  # to take the device away
    argv = [*fuse.mountexec, f"{_image(fuse)}:{_folder(fuse)}", "true"]
    if _run(fuse.argv("test", "-w", "/dev/fuse", fuse=False)).returncode == 0:
        pytest.skip("/dev/fuse is for everybody here")
    done = _run(fuse.argv(*argv, fuse=False))
    assert (done.returncode, _reason(done)) == (4, Reason.NO_FUSE)


def test_without_squashfuse(fuse: Way) -> None:
    need("root")
    hide = 'for name in /usr/bin/squashfuse*; do mount --bind /dev/null $name; done; exec "$@"'
    argv = fuse.argv(*fuse.mountexec, f"{_image(fuse)}:{_folder(fuse)}", "true")
    done = _run(["unshare", "--mount", "sh", "-c", hide, "sh", *argv])
    assert (done.returncode, _reason(done)) == (4, Reason.TOOL_MISSING)


def test_without_user_namespaces(fuse: Way) -> None:
    need("root")
    drop = "setpriv --ambient-caps=-all --inh-caps=-all --bounding-set=-all"
    none = f'echo 0 > /proc/sys/user/max_user_namespaces && exec {drop} "$@"'
    argv = fuse.argv(
        "unshare", "--user", "--map-current-user", "--keep-caps", "sh", "-c", none, "sh",
        *fuse.mountexec, f"{_image(fuse)}:{_folder(fuse)}", "true",
    )  # fmt: skip
    done = _run(argv)
    assert (done.returncode, _reason(done)) == (4, Reason.NO_USER_NAMESPACES)


def test_root_of_a_user_namespace_mounts_with_squashfuse_in_it(fuse: Way) -> None:
    """As on the nodes of a cluster that was made without root."""
    image, mount = _image(fuse), _folder(fuse)
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
    done = _run(fuse.argv(*outer, "sh", *argv, f"{image}:{mount}", "sh", "-c", script))
    before, after, *rest = done.stdout.splitlines()
    assert before == after
    assert rest == ["hello from the image", "0"]


@pytest.mark.parametrize(
    "words", [[], ["a:/x"], ["--how", "x", "a:/x", "true"], ["--x", "a:/x", "y"], ["a", "true"]]
)
def test_wrong_usage(tmp_path: Path, words: list[str]) -> None:
    plain = Way("kernel", tmp_path, private=False)
    done = _run([word for word in plain.mountexec if word not in {"--how", "kernel"}] + words)
    assert (done.returncode, _reason(done)) == (2, Reason.USAGE)


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
                if not mountways.configure_loop(device.fileno(), stream.fileno(), at_once=at_once):
                    continue
                assert device.read(4) == b"hsqs"
                block = Path(f"/sys/block/loop{number}")
                assert (block / "loop/backing_file").read_text().strip() == os.fspath(image)
                assert (block / "loop/autoclear").read_text().strip() == "1"
                assert (block / "ro").read_text().strip() == "1"
            break
    assert _eventually(lambda: not _users_of(image))


def test_a_mount_point_needs_no_metadata_but_run_does(mounter: Way) -> None:
    image, mount = _image(mounter, meta=None), _folder(mounter)
    assert _mounted(mounter, f"{image}:{mount}", f"{mount}/bin/hello").returncode == 0
    assert env_json()["mount"] != mount
