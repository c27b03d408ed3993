"""A hostile user and mount points: of the system, behind links, swapped ones; lists without end."""

from __future__ import annotations

import subprocess

import pytest

from machine import (
    HELPER,
    RACING,
    as_attacker,
    mount,
    reasons,
)
from stackproof.core.value import replace

pytestmark = [
    pytest.mark.machine,
    pytest.mark.guarantee(
        "The mount helper",
        "It mounts where the administrator says.",
        "Mount points are those of a file that only root may write to, or two built-in ones; "
        "paths of the system cannot even be listed there. A mount point is opened without "
        "following a link in any part of its path, must be an empty folder, and is mounted on "
        "by its descriptor. What was looked at is what is covered.",
    ),
]

_POINT = "/user-environment"
_PYTHON = "/usr/bin/python3"
_IMAGE = f"a.squashfs:{_POINT}"


@pytest.mark.parametrize(
    ("point", "reason"),
    [
        ("/", "bad-mount-point"),
        ("/etc", "bad-mount-point"),
        ("//etc", "bad-mount-point"),
        ("/etc/stackproof", "bad-mount-point"),
        ("/user-environment/../etc", "bad-mount-point"),
        ("/user-environment/.", "bad-mount-point"),
        ("/usr/bin", "bad-mount-point"),
        ("/proc/self/cwd/etc", "bad-mount-point"),
        ("/srv", "bad-mount-point"),
        ("/test", "not-permitted"),
        ("/user-environment-2", "not-permitted"),
        ("/user-", "not-permitted"),
        ("/helper", "not-permitted"),
    ],
)
def test_places_that_are_not_for_users(helper, point, reason):
    done = helper.run(*mount(f"a.squashfs:{point}"), "true")
    assert reasons(done) == [reason]
    assert done.stdout == ""


def test_mount_points_with_links(helper):
    """In every part of the path, wherever they lead; old kernels are tried in test_core.py."""
    machine = replace(helper, policy="mount-point = /test\n")
    (helper.folder / "place").mkdir()
    for name, target in (("out", "/etc"), ("same", "place"), ("up", ".."), ("gone", "none")):
        (helper.folder / name).symlink_to(target)
        for point in (f"/test/{name}", f"/test/{name}/skel", f"/test/place/../{name}"):
            done = machine.run(*mount(f"a.squashfs:{point}"), "true")
            assert reasons(done) == ["bad-mount-point"], point
    (helper.folder / "file").touch()
    assert reasons(machine.run(*mount("a.squashfs:/test/file"), "true")) == ["bad-mount-point"]
    assert machine.run(*mount("a.squashfs:/test/place"), "true").returncode == 0


def test_an_image_cannot_lead_the_next_one_astray(helper):
    """A link in the first image where the second one is to be mounted."""
    tree = helper.folder / "tree"
    tree.mkdir()
    (tree / "inner").symlink_to("/etc")
    argv = ["mksquashfs", tree, helper.folder / "b.squashfs", "-quiet", "-no-progress"]
    subprocess.run(argv, check=True, capture_output=True, timeout=600)
    done = helper.run(*mount(f"b.squashfs:{_POINT},a.squashfs:{_POINT}/inner"), "true")
    assert reasons(done) == ["bad-mount-point"]


_SWAP_POINT = """
import os, subprocess, threading
os.chdir("/test/mine")
os.mkdir("point")
os.symlink("/etc", "link")
stop = False
def swap():
    while not stop:
        os.rename("point", "aside")
        os.rename("link", "point")
        os.rename("point", "link")
        os.rename("aside", "point")
thread = threading.Thread(target=swap)
thread.start()
while racing():
    done = subprocess.run(
        ["/helper/stackproof-mount", "--images=/test/a.squashfs:/test/mine/point", "--",
         "cat", "/proc/self/mountinfo"], capture_output=True, text=True)
    places = [line.split()[4] for line in done.stdout.splitlines() if " squashfs " in line]
    if done.returncode:
        places = [done.stderr.split("]")[0].split("[")[1]]
    answers.add(bool(done.returncode))
    print(*places, flush=True)
stop = True
thread.join()
"""


@pytest.mark.race
def test_a_mount_point_that_is_swapped_meanwhile(helper):
    """Nothing but the folder that was looked at is covered, whatever it is called by then."""
    machine = replace(helper, policy="mount-point = /test/mine\n")
    words = set(as_attacker(machine, RACING + _SWAP_POINT).stdout.split())
    mounted = {word for word in words if word.startswith("/")}
    assert mounted
    assert mounted <= {"/test/mine/point", "/test/mine/aside"}
    assert words - mounted <= {"mount-point-missing", "bad-mount-point", "mount-failed"}
    assert words - mounted


def test_lists_without_end(helper):
    for words in (
        [f"--images={'a:/x,' * 10_000}"],
        [f"--images={'/a' * 60_000}"],
        [f"--overlay={'a:/x'}"] * 10_000,
        [f"--images={_IMAGE}", *[f"--overlay={'a,' * 60_000}"] * 9],
    ):
        done = helper.run(HELPER, *words, "--", "true")
        assert reasons(done) == ["usage"], words[0][:40]
        assert done.returncode == 2
        assert len(done.stderr) < 4000


def test_a_megabyte_of_lists_in_arguments(helper):
    script = f"""import os
word = "--overlay=" + "a:/x," * 24_000
os.execv("{HELPER}", ["x", *[word] * 10, "--", "true"])"""
    (helper.folder / "attack.py").write_text(script)
    done = helper.run(_PYTHON, "/test/attack.py")
    assert (done.returncode, reasons(done)) == (2, ["usage"])
