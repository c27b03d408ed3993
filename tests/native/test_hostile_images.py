"""A hostile user and images: those of others, swapped, changed, damaged ones."""

from __future__ import annotations

import os
import shutil

import pytest

from images import make_image
from machine import (
    NOBODY,
    RACING,
    SOMEBODY,
    as_attacker,
    assert_free,
    mount,
    reasons,
)

pytestmark = [
    pytest.mark.machine,
    pytest.mark.guarantee(
        "The mount helper",
        "It reads what the caller may read.",
        "From its first line all user and group ids are the caller's, and no capability is in "
        "effect. The path of an image is followed once, in that state, and not through the "
        "magic links of `/proc` (another process's folder, root or descriptor). The file that "
        "it led to is checked and mounted. Another user's private image is refused, however "
        "the path is swapped.",
    ),
]

_POINT = "/user-environment"
_IMAGE = f"a.squashfs:{_POINT}"


def test_another_users_image(helper, private):
    done = helper.run(*mount(f"private.squashfs:{_POINT}"), "ls", _POINT)
    assert (done.returncode, reasons(done)) == (6, ["image-unreadable"])
    assert_free(private)
    done = helper.run(*mount(f"private.squashfs:{_POINT}"), "ls", _POINT, user=SOMEBODY)
    assert "bin" in done.stdout


def test_an_image_in_another_users_folder(helper):
    folder = helper.folder / "closed"
    folder.mkdir(mode=0o700)
    shutil.copy(helper.folder / "a.squashfs", folder)
    done = helper.run(*mount(f"closed/a.squashfs:{_POINT}"), "true")
    assert reasons(done) == ["image-unreadable"]
    (helper.folder / "link").symlink_to("closed/a.squashfs")
    done = helper.run(*mount(f"link:{_POINT}"), "true")
    assert reasons(done) == ["image-unreadable"]


def test_an_image_for_a_group(helper):
    image = make_image(helper.folder / "group.squashfs")
    image.chmod(0o640)
    os.chown(image, 0, 777)
    line = [*mount(f"group.squashfs:{_POINT}"), "true"]
    assert reasons(helper.run(*line)) == ["image-unreadable"]
    ids = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--groups=777"]
    assert helper.run(*ids, *line, user=0).returncode == 0


def test_an_overlay_of_another_users_image(helper, private):
    done = helper.run(*mount(_IMAGE, f"--overlay={private.name}:{_POINT}"), "true")
    assert reasons(done) == ["image-unreadable"]


def test_an_overlay_does_not_read_for_the_user(helper):
    """A file in an image that only root may read stays so, also through an overlay."""
    options = ("-p", "secret f 600 0 0 echo secret", "-p", "closed d 700 0 0")
    make_image(helper.folder / "b.squashfs", options=options)
    overlay = f"--overlay=b.squashfs:{_POINT}"
    done = helper.run(*mount(_IMAGE, overlay), "cat", f"{_POINT}/secret")
    assert (done.returncode, done.stdout) == (1, "")
    assert helper.run(*mount(_IMAGE, overlay), "ls", f"{_POINT}/closed").returncode == 2
    assert helper.run(*mount(_IMAGE, overlay), "cat", f"{_POINT}/null").returncode == 1


_SWAP_IMAGE = """
import os, subprocess, threading
os.chdir("/test/mine")
stop = False
def swap():
    while not stop:
        for target in ("/test/a.squashfs", "/test/private.squashfs"):
            os.symlink(target, "next")
            os.rename("next", "image")
os.symlink("/test/a.squashfs", "image")
thread = threading.Thread(target=swap)
thread.start()
while racing():
    done = subprocess.run(
        ["/helper/stackproof-mount", "--images=image:/user-environment", "--",
         "cat", "/user-environment/secret"], capture_output=True, text=True)
    word = "refused" if "unreadable" in done.stderr else "mounted" if done.returncode == 1 else "odd"
    answers.add(word)
    print(word, done.stdout, flush=True)
stop = True
thread.join()
"""


@pytest.mark.race
def test_an_image_that_is_swapped_meanwhile(helper):
    options = ("-p", "secret f 644 0 0 echo secret")
    private = make_image(helper.folder / "private.squashfs", options=options)
    private.chmod(0o600)
    words = as_attacker(helper, RACING + _SWAP_IMAGE).stdout.split()
    assert set(words) == {"mounted", "refused"}  # both happened, and nothing else was printed
    assert_free(private)


_SWAP_CONTENT = """
import os, subprocess, threading
os.chdir("/test/mine")
good = open("/test/a.squashfs", "rb").read()
with open("image", "wb") as stream:
    stream.write(good)
stop = False
def swap():
    with open("image", "r+b", buffering=0) as stream:
        while not stop:
            for head in (b"sqsh", good[:4]):
                os.pwrite(stream.fileno(), head, 0)
thread = threading.Thread(target=swap)
thread.start()
while racing():
    done = subprocess.run(
        ["/helper/stackproof-mount", "--images=image:/user-environment", "--", "true"],
        capture_output=True, text=True)
    assert done.returncode in (0, 6), done
    word = "mounted" if done.returncode == 0 else done.stderr.split("]")[0].split("[")[1]
    answers |= {word} - {"mount-failed"}
    print(word)
stop = True
thread.join()
"""


@pytest.mark.race
def test_content_that_changes_meanwhile(helper):
    """The check of the superblock cannot hold an owner; the kernel then refuses, or not."""
    words = set(as_attacker(helper, RACING + _SWAP_CONTENT).stdout.split())
    assert words <= {"mounted", "image-not-squashfs", "mount-failed"}
    assert {"mounted", "image-not-squashfs"} <= words


@pytest.mark.parametrize("length", [0, 3, 4, 95, 96, 97, 1000])
def test_truncated_images(helper, length):
    image = helper.folder / "short.squashfs"
    image.write_bytes((helper.folder / "a.squashfs").read_bytes()[:length])
    done = helper.run(*mount(f"short.squashfs:{_POINT}"), "true")
    assert reasons(done) == ["image-not-squashfs" if length < 4 else "image-truncated"]
    assert_free(image)


@pytest.mark.guarantee(
    "The mount helper",
    "A damaged or foreign file is refused before the kernel sees it",
    ", by a check of the superblock. So is a file on a file system that is not in a list. "
    "The list has those of disks and clusters, never FUSE: there a user's program says "
    "whose a file is and can keep the kernel waiting.",
)
@pytest.mark.parametrize("at", [0, 4, 12, 20, 22, 26, 28, 30, 32, 40, 48, 64, 72])
def test_crafted_superblocks(helper, at):
    """`at` is the offset of a field that is made absurd."""
    data = bytearray((helper.folder / "a.squashfs").read_bytes())
    for value in (b"\xff" * 8, bytes(8)):
        size = {0: 4, 4: 4, 12: 4}.get(at, 2 if at < 32 else 8)
        if (at, value[0]) in {(4, 0xFF), (26, 0xFF), (30, 0), (32, 0)}:
            continue  # a legal value
        crafted = bytes(data[:at]) + value[:size] + bytes(data[at + size :])
        (helper.folder / "crafted.squashfs").write_bytes(crafted)
        done = helper.run(*mount(f"crafted.squashfs:{_POINT}"), "true")
        assert set(reasons(done)) <= {"image-not-squashfs", "image-truncated"}
        assert done.returncode == 6
    assert_free(helper.folder / "crafted.squashfs")


def test_what_is_no_file(helper):
    os.mkfifo(helper.folder / "fifo", 0o666)
    for path in ("fifo", "/dev/zero", "/dev/tty", "/proc/self/mem", "/", "/proc/self/fd/0"):
        done = helper.run(*mount(f"{path}:{_POINT}"), "true")
        assert len(reasons(done)) == 1, path
        assert done.returncode == 6, path
