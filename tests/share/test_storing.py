"""Images put into a repository and taken out: whole or not at all, however a command ends."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import uenvsql
from images import ENV_JSON, make_image
from need import need
from refusing import refused
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.monitor import Event
from stackproof.share import labels
from stackproof.share.effects import checking, storing
from stackproof.share.effects.checking import FaultKind
from stackproof.share.effects.repository import ImageRepository
from stackproof.share.effects.storing import AddOptions
from stackproof.share.labels import Label

V1, V2 = (labels.parse(f"tiny/1:{tag}@here%x86_64") for tag in ("v1", "v2"))
_LONG_AGO = 1_700_000_000
_ADD = """
import sys
from pathlib import Path
from stackproof.share import labels
from stackproof.share.effects import storing
from stackproof.share.effects.repository import ImageRepository
folder, file, label = sys.argv[1:]
options = storing.AddOptions(label=labels.parse(label), file=file)
storing.add(ImageRepository(Path(folder)), options)
"""


@pytest.fixture
def image(tmp_path: Path) -> Path:
    need("mksquashfs")
    return make_image(tmp_path / "a.squashfs")


@pytest.fixture
def repository(tmp_path: Path) -> ImageRepository:
    return ImageRepository(tmp_path / "repo")


def options(image: Path, label: Label = V1, **changes: object) -> AddOptions:
    return AddOptions(label=label, file=str(image), **changes)  # type: ignore[arg-type]


def larger(image: Path, size: int) -> Path:
    """Return an image with so many bytes: what is behind a SquashFS is none of its business."""
    other = image.with_name("large.squashfs")
    other.write_bytes(image.read_bytes() + random.Random(1).randbytes(size))
    return other


def left(repository: ImageRepository) -> list[str]:
    return sorted(path.name for path in (repository.folder / "images").iterdir())


def test_an_image_is_there_as_uenv_has_it(repository: ImageRepository, image: Path) -> None:
    record = storing.add(repository, options(image))
    folder = repository.folder / "images" / record.digest
    assert (folder / "store.squashfs").read_bytes() == image.read_bytes()
    assert f'"name": "{ENV_JSON["name"]}"' in (folder / "meta" / "env.json").read_text()
    assert sorted(path.name for path in folder.iterdir()) == ["meta", "store.squashfs"]
    (row,) = uenvsql.listed(repository.folder)
    assert (row["sha256"], row["size"], row["id"]) == (
        record.digest, image.stat().st_size, record.digest[:16],
    )  # fmt: skip
    assert row["date"] == time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(image.stat().st_mtime))
    assert image.exists()


@pytest.mark.parametrize(
    ("seconds", "date"),
    [
        (1_767_225_600, "2026-01-01 00:00:00"),
        (0, "2022-01-01 00:00:00"),
        (4_000_000_000, "2050-12-31 23:59:59"),
    ],
)
def test_the_date_is_in_utc_and_one_that_uenv_reads(
    seconds: int, date: str, repository: ImageRepository, image: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    os.utime(image, (seconds, seconds))
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "Etc/GMT+7")
        time.tzset()
        storing.add(repository, options(image))
    time.tzset()
    (row,) = uenvsql.listed(repository.folder)
    assert row["date"] == date


def test_a_second_label_needs_no_second_copy(repository: ImageRepository, image: Path) -> None:
    record = storing.add(repository, options(image))
    inode = os.stat(record.file).st_ino
    storing.add(repository, options(image, V2))
    storing.add(repository, options(image, V2))  # again: nothing happens
    assert [str(one.label) for one in repository.records()] == [str(V1), str(V2)]
    assert os.stat(record.file).st_ino == inode
    assert storing.remove(repository, (V1,)) == ()
    assert os.path.exists(record.file)
    assert storing.remove(repository, (V2,)) == (record.digest,)
    assert left(repository) == []


def test_a_label_is_taken_by_force_alone(repository: ImageRepository, image: Path) -> None:
    first = storing.add(repository, options(image))
    other = larger(image, 10)
    with refused(Reason.LABEL_TAKEN):
        storing.add(repository, options(other))
    assert left(repository) == [first.digest]
    second = storing.add(repository, options(other, force=True))
    assert [one.digest for one in repository.records()] == [second.digest]
    (fault,) = checking.check(repository)
    assert (fault.fault, fault.path) == (FaultKind.UNLABELLED, first.folder)
    assert checking.cleared(repository, [first.folder])
    assert left(repository) == [second.digest]


def test_two_writers_of_one_label_one_wins(repository: ImageRepository, image: Path) -> None:
    """Both copy at the same time; the second learns of it when the label is given."""
    other = larger(image, 3_000_000)
    both = threading.Barrier(2)

    def meet(event: Event) -> None:
        if event.what == "started":
            both.wait(600)

    reasons: list[object] = []

    def add(path: Path) -> None:
        try:
            storing.add(repository, options(path), meet)
            reasons.append(None)
        except StackproofError as error:
            reasons.append(error.reason)

    threads = [threading.Thread(target=add, args=(path,)) for path in (image, other)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert sorted(map(str, reasons)) == ["None", "label-taken"]
    (record,) = repository.records()
    assert left(repository) == [record.digest]


@pytest.mark.battery
def test_eight_at_once_copy_once(repository: ImageRepository, image: Path) -> None:
    other = larger(image, 20_000_000)
    argv = [sys.executable, "-c", _ADD, str(repository.folder), str(other)]
    names = [f"tiny/1:v{number}@here%x86_64" for number in range(8)]
    running = [subprocess.Popen([*argv, name]) for name in names]
    most = 0
    while any(one.poll() is None for one in running):
        if (repository.folder / "images").is_dir():
            most = max(most, sum(name.startswith(storing.PART) for name in left(repository)))
        time.sleep(0.005)
    assert [one.returncode for one in running] == [0] * 8
    assert most == 1
    assert [str(one.label) for one in repository.records()] == names
    assert len(left(repository)) == 1
    assert checking.check(repository, digests=True) == ()


@pytest.mark.battery
def test_a_killed_add_leaves_nothing_visible_and_the_next_goes_on(
    repository: ImageRepository, image: Path
) -> None:
    other = larger(image, 60_000_000)
    argv = [sys.executable, "-c", _ADD, str(repository.folder), str(other), str(V1)]
    part = repository.folder / "images"
    with subprocess.Popen(argv) as running:
        while not any(one.stat().st_size > 5_000_000 for one in part.glob(f"{storing.PART}*")):
            assert running.poll() is None
            time.sleep(0.001)
        running.send_signal(signal.SIGKILL)
    assert repository.records() == ()
    (unfinished,) = part.iterdir()
    (fault,) = checking.check(repository)
    assert fault.fault is FaultKind.LEFT
    inode, done = unfinished.stat().st_ino, unfinished.stat().st_size
    assert 0 < done < other.stat().st_size
    record = storing.add(repository, options(other))
    assert os.stat(record.file).st_ino == inode  # the same copy, to its end
    assert checking.check(repository, digests=True) == ()


def test_an_earlier_copy_of_something_else_is_not_believed(
    repository: ImageRepository, image: Path
) -> None:
    record = storing.add(repository, options(image))
    storing.remove(repository, (V1,))
    part = repository.folder / "images" / f"{storing.PART}{record.digest}"
    for content in (b"x" * 100, b"x" * 100_000):
        part.write_bytes(content)
        again = storing.add(repository, options(image))
        assert Path(again.file).read_bytes() == image.read_bytes()
        storing.remove(repository, (V1,))


def test_what_a_killed_removal_or_uenv_left_is_replaced(
    repository: ImageRepository, image: Path
) -> None:
    record = storing.add(repository, options(image))
    storing.remove(repository, (V1,))
    Path(record.folder).mkdir()
    Path(record.file).write_bytes(b"half")  # uenv copies to the place itself
    again = storing.add(repository, options(image))
    assert Path(again.file).read_bytes() == image.read_bytes()
    assert left(repository) == [record.digest]


def test_a_file_that_changes_while_it_is_read_is_refused(
    repository: ImageRepository, image: Path
) -> None:
    def change(event: Event) -> None:
        if event.what == "progress":
            with other.open("r+b") as stream:
                stream.seek(2_900_000)
                stream.write(os.urandom(8))

    other = larger(image, 3_000_000)
    with refused(Reason.IMAGE_DAMAGED):
        storing.add(repository, options(other), change)
    assert (repository.records(), left(repository)) == ((), [])


def test_a_file_that_grows_for_ever_has_an_end(repository: ImageRepository, image: Path) -> None:
    def grow(event: Event) -> None:
        if event.what == "progress":
            with image.open("ab") as stream:
                stream.write(bytes(3 << 20))

    before = image.read_bytes()
    record = storing.add(repository, options(image), grow)
    assert Path(record.file).read_bytes() == before


def test_moving_takes_the_file_away_without_a_copy(
    repository: ImageRepository, image: Path
) -> None:
    inode = image.stat().st_ino
    content = image.read_bytes()
    record = storing.add(repository, options(image, move=True))
    assert not image.exists()
    assert os.stat(record.file).st_ino == inode
    assert Path(record.file).read_bytes() == content


@pytest.mark.battery
def test_moving_a_file_that_changes_does_not_hurt_it(
    repository: ImageRepository, image: Path
) -> None:
    def change(event: Event) -> None:
        if event.what == "started":  # the digest is taken after this; then it is another file
            threading.Thread(target=append).start()

    def append() -> None:
        while not any(repository.folder.glob(f"images/{storing.PART}*")):
            time.sleep(0.0005)
        with other.open("ab") as stream:
            stream.write(b"more")

    other = larger(image, 30_000_000)
    before = other.read_bytes()
    with contextlib.suppress(StackproofError):  # it may have been read to its end before the change
        storing.add(repository, options(other, move=True), change)
    (found,) = [other] if other.exists() else [Path(one.file) for one in repository.records()]
    while found.stat().st_size == len(before):
        time.sleep(0.001)
    assert found.read_bytes() == before + b"more"


@pytest.mark.parametrize("content", [b"", b"no image", b"hsqs" + bytes(200)])
def test_what_is_no_image_gets_no_label(
    repository: ImageRepository, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "x.squashfs").write_bytes(content)
    with pytest.raises(StackproofError) as caught:
        storing.add(repository, options(tmp_path / "x.squashfs"))
    assert caught.value.reason.startswith("image-")
    assert not repository.folder.exists()


def test_a_meta_that_is_more_than_files_stays_in_the_image(
    repository: ImageRepository, tmp_path: Path
) -> None:
    need("mksquashfs")
    tree = tmp_path / "tree"
    (tree / "meta").mkdir(parents=True)
    (tree / "meta" / "env.json").symlink_to("/etc/passwd")
    file = tmp_path / "evil.squashfs"
    subprocess.run(["mksquashfs", tree, file, "-quiet", "-no-progress"], check=True)
    record = storing.add(repository, options(file))
    assert sorted(os.listdir(record.folder)) == ["store.squashfs"]


_FULL = (
    'mount -t tmpfs -o size=3m tmpfs "$1" && shift && "$@"; code=$?; find "$0" | sort; exit $code'
)


def test_a_full_disk_leaves_nothing(tmp_path: Path, image: Path) -> None:
    need("root", "netns")
    small = tmp_path / "small"
    small.mkdir()
    other = larger(image, 6_000_000)
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", _FULL, small, small, sys.executable, "-m", "stackproof",
         "image", "add", str(V1), other],
        env={**os.environ, "STACKPROOF_REPOSITORY": str(small / "repo")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 4, done.stderr
    assert "[disk-full]" in done.stderr
    assert [line.removeprefix(f"{small}/") for line in done.stdout.splitlines()[1:]] == [
        "repo", "repo/images",
    ]  # fmt: skip


def test_faults_are_found_and_mended(repository: ImageRepository, image: Path) -> None:
    record = storing.add(repository, options(image))
    storing.add(repository, options(image, V2))
    other = storing.add(repository, options(larger(image, 9), labels.parse("big/1:v1@here%x86_64")))
    assert checking.check(repository, digests=True) == ()

    Path(other.file).chmod(0o644)
    content = bytearray(Path(other.file).read_bytes())
    content[-1] ^= 1
    Path(other.file).write_bytes(content)
    assert checking.check(repository) == ()
    (fault,) = checking.check(repository, digests=True)
    assert (fault.fault, fault.label) == (FaultKind.DIGEST, "big/1:v1@here%x86_64")
    Path(other.file).write_bytes(content[:-1])
    (fault,) = checking.check(repository)
    assert fault.fault is FaultKind.SIZE

    shutil.rmtree(record.folder)
    (repository.folder / "images" / f"{storing.GONE}x.1").mkdir()
    empty = repository.folder / "images" / ("f" * 64)
    empty.mkdir()
    os.utime(empty, (_LONG_AGO, _LONG_AGO))
    faults = checking.check(repository)
    assert [one.fault for one in faults] == [
        FaultKind.SIZE, FaultKind.GONE, FaultKind.GONE, FaultKind.LEFT, FaultKind.UNLABELLED,
    ]  # fmt: skip
    mended = checking.mend(repository, faults)
    assert [one.mended for one in mended] == [False, True, True, True, True]
    (fault,) = checking.check(repository)
    assert fault.fault is FaultKind.SIZE


@pytest.mark.parametrize("how", ["add", "pull"])
def test_what_uenv_brings_is_not_left_over(
    how: str, repository: ImageRepository, image: Path
) -> None:
    """It fills the folder of an image first, and gives the label last; a pull of it may be slow."""
    uenvsql.create(repository.folder)
    folder = repository.folder_of("f" * 64)
    folder.mkdir(parents=True)
    (folder / "store.squashfs").write_bytes(image.read_bytes()[:100])
    if how == "pull":
        lock = folder.with_name(f"{folder.name}.lock").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
        for path in (folder / "store.squashfs", folder):
            os.utime(path, (_LONG_AGO, _LONG_AGO))
    (fault,) = checking.check(repository)
    assert fault.fault is FaultKind.UNLABELLED
    assert not checking.cleared(repository, [fault.path])
    assert folder.exists()
    if how == "pull":
        lock.close()
    for path in (folder / "store.squashfs", folder):
        os.utime(path, (_LONG_AGO, _LONG_AGO))
    assert checking.cleared(repository, [fault.path])
    assert not folder.exists()


def test_an_image_that_lost_its_label_is_nobodys(repository: ImageRepository, image: Path) -> None:
    """However young: it is in the index."""
    first = storing.add(repository, options(image))
    storing.add(repository, options(larger(image, 9), force=True))
    assert checking.cleared(repository, [first.folder])
    assert not os.path.exists(first.folder)


@pytest.mark.battery
def test_what_is_being_added_is_not_left_over(repository: ImageRepository, image: Path) -> None:
    other = larger(image, 60_000_000)
    argv = [sys.executable, "-c", _ADD, str(repository.folder), str(other), str(V1)]
    with subprocess.Popen(argv) as running:
        # Something in it: between making it and its lock it may be taken away, and is made again.
        while not any(
            part.stat().st_size for part in repository.folder.glob(f"images/{storing.PART}*")
        ):
            time.sleep(0.001)
        faults = [one for one in checking.check(repository) if one.fault is FaultKind.LEFT]
        running.send_signal(signal.SIGSTOP)
        try:
            for one in faults:
                assert not checking.cleared(repository, [one.path])
        finally:
            running.send_signal(signal.SIGCONT)
        assert running.wait(60) == 0
    assert checking.check(repository, digests=True) == ()


_NO_LOCKS = """
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>
int flock(int fd, int operation) { (void)fd; (void)operation; errno = FAULT; return -1; }
static int locks(int command) {
    return command == F_SETLK || command == F_SETLKW || command == F_GETLK
        || command == F_OFD_SETLK || command == F_OFD_SETLKW || command == F_OFD_GETLK;
}
#define BODY \\
    va_list words; va_start(words, command); long word = va_arg(words, long); va_end(words); \\
    if (locks(command)) { errno = FAULT; return -1; } \\
    return (int)syscall(SYS_fcntl, fd, command, word);
int fcntl(int fd, int command, ...) { BODY }
int fcntl64(int fd, int command, ...) { BODY }
"""


_IMPATIENT = (
    "import sys; from stackproof.share.effects import repository; from stackproof import cli\n"
    "repository._BUSY_S = 0.2; sys.exit(cli.main(sys.argv[1:]))"
)


@pytest.mark.battery
@pytest.mark.parametrize("fault", ["ENOLCK", "ENOSYS"])
def test_a_file_system_without_locks(fault: str, tmp_path: Path) -> None:
    """As NFS without lockd (ENOLCK) and Lustre without `flock` (ENOSYS) answer: said, nothing left."""
    need("gcc", "mksquashfs")
    library = tmp_path / "nolocks.so"
    argv = ["gcc", "-shared", "-fPIC", f"-DFAULT={fault}", "-xc", "-", "-o", str(library)]
    subprocess.run(argv, input=_NO_LOCKS, text=True, check=True)
    make_image(tmp_path / "a.squashfs")
    folder = tmp_path / "repo"

    def image(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
        given = {**os.environ, "STACKPROOF_REPOSITORY": str(folder), "HOME": str(tmp_path),
                 "STACKPROOF_CACHE": str(tmp_path / "cache"), **env}  # fmt: skip
        argv = [sys.executable, "-c", _IMPATIENT, "image", *words]
        return subprocess.run(
            argv, env=given, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600
        )

    words = ("add", "tiny/1:v1@here%x86_64", "a.squashfs")
    done = image(*words, LD_PRELOAD=str(library))
    assert done.returncode == 4, done.stderr
    assert "[not-permitted]" in done.stderr
    assert "flock" in done.stderr
    assert not list(folder.rglob("store.squashfs"))
    assert image(*words).returncode == 0
    assert image("fsck").returncode == 0
    done = image("ls", "--names", LD_PRELOAD=str(library))
    assert (done.returncode, "[not-permitted]" in done.stderr) == (4, True), done.stdout


def test_the_index_is_changed_as_often_for_many_faults_as_for_one(
    repository: ImageRepository, image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storing.add(repository, options(image))

    for number in range(20):
        folder = repository.folder_of(f"{number:064x}")
        folder.mkdir()
        os.utime(folder, (_LONG_AGO, _LONG_AGO))
    changes: list[None] = []
    changing = ImageRepository.changing
    monkeypatch.setattr(
        ImageRepository, "changing", lambda one: (changes.append(None), changing(one))[1]
    )
    faults = checking.mend(repository, checking.check(repository))
    assert [one.mended for one in faults] == [True] * 20
    assert len(changes) == 1
    assert checking.check(repository) == ()


def test_an_image_that_cannot_be_looked_at_is_not_gone(
    repository: ImageRepository, image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of mode 0700, or a server that does not answer: a repair must keep the image."""
    record = storing.add(repository, options(image))
    looked = os.stat

    def refused(path: Any, *args: Any, **more: Any) -> os.stat_result:
        if str(path) == record.file:
            raise PermissionError(errno.EACCES, "Permission denied", record.file)
        return looked(path, *args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", refused)
        (fault,) = checking.check(repository)
        assert (fault.fault, "cannot be looked at" in fault.text) == (FaultKind.SIZE, True)
        checking.mend(repository, (fault,))
    assert checking.check(repository) == ()


def test_an_image_that_is_back_since_the_check_is_kept(
    repository: ImageRepository, image: Path
) -> None:
    record = storing.add(repository, options(image))
    os.rename(record.file, f"{record.file}.away")
    faults = checking.check(repository)
    assert FaultKind.GONE in {one.fault for one in faults}
    os.rename(f"{record.file}.away", record.file)
    checking.mend(repository, faults)
    assert checking.check(repository) == ()
    assert [one.label for one in repository.records()] == [record.label]
