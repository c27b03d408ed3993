"""What an installation of the helper and a site's list hold back."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from images import make_image
from machine import (
    HELPER,
    NOBODY,
    SOMEBODY,
    assert_free,
    mount,
    reasons,
)
from need import need
from stackproof.core.value import replace

pytestmark = pytest.mark.machine

_POINT = "/user-environment"
_IMAGE = f"a.squashfs:{_POINT}"


def test_a_setgid_helper_gives_no_group(machine):
    image = make_image(machine.folder / "group.squashfs")
    image.chmod(0o640)
    for mode in ("2755", "6755"):
        installed = replace(machine, mode=mode)
        done = installed.run(*mount(f"group.squashfs:{_POINT}"), "true")
        assert reasons(done) == ["image-unreadable"]
    need("squashfuse", "fuse", "unprivileged-userns")
    done = installed.run(*mount(_IMAGE), "id", "-g")
    assert done.stdout == f"{NOBODY}\n"


def test_a_helper_that_is_setuid_of_another_user(machine):
    installed = f"cp {HELPER} /tmp/helper; chown {SOMEBODY} /tmp/helper; chmod 4755 /tmp/helper"
    start = f"exec setpriv --reuid={NOBODY} --clear-groups /tmp/helper --images={_IMAGE} -- id"
    script = f"{installed}; {start}"
    done = machine.run("sh", "-c", script, user=0)
    assert (done.returncode, reasons(done)) == (4, ["not-permitted"])


def test_without_capabilities_in_the_bounding_set_it_goes_without(machine):
    need("squashfuse", "fuse", "unprivileged-userns")
    ids = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    line = [*mount(_IMAGE, "--verbose"), "true"]
    done = machine.run(*ids, "--bounding-set=-all", *line, user=0)
    assert (done.returncode, "squashfuse" in done.stderr) == (0, True)


def test_in_a_user_namespace_of_the_user_it_has_no_rights(machine):
    need("unprivileged-userns")
    done = machine.run("unshare", "-Ur", *mount(_IMAGE, "--way=root"), "true")
    assert reasons(done) == ["not-permitted"]


@pytest.mark.parametrize(
    ("policy", "image", "outcome"),
    [
        ("mount-point = /user-environment\nimage-folder = /test/trusted\n", "a.squashfs", "no"),
        ("mount-point = /user-environment\nimage-folder = /test/trusted\n", "trusted/a.squashfs", "yes"),
        ("mount-point = /user-environment\nimage-folder = /test/trusted\n", "link", "yes"),
        ("mount-point = /user-environment\nimage-folder = /test/trusted\n", "trusted/link", "no"),
        ("mount-point = /user-environment\nimage-folder = /test/trust\n", "trusted/a.squashfs", "no"),
        ("mount-point = /user-environment\nimage-owner = 0\n", "a.squashfs", "yes"),
        ("mount-point = /user-environment\nimage-owner = 0\n", "mine.squashfs", "no"),
        ("mount-point = /user-environment\nimage-owner = 0\n", "loose.squashfs", "no"),
        (f"mount-point = /user-environment\nimage-owner = {NOBODY}\n", "mine.squashfs", "yes"),
        ("mount-point = /user-tools\n", "a.squashfs", "no"),
        ("# nothing is permitted\n", "a.squashfs", "no"),
        ("mount-point = /user-environment\nmount-point = /etc\n", "a.squashfs", "bad"),
        ("mount_point = /user-environment\n", "a.squashfs", "bad"),
    ],
)  # fmt: skip
def test_the_policy(helper, policy, image, outcome):
    folder = helper.folder
    (folder / "trusted").mkdir()
    for name in ("trusted/a.squashfs", "mine.squashfs", "loose.squashfs"):
        shutil.copy(folder / "a.squashfs", folder / name)
    os.chown(folder / "mine.squashfs", NOBODY, NOBODY)
    (folder / "loose.squashfs").chmod(0o666)
    (folder / "link").symlink_to("trusted/a.squashfs")
    (folder / "trusted/link").symlink_to("../a.squashfs")
    machine = replace(helper, policy=policy)
    done = machine.run(*mount(f"{image}:{_POINT}"), "true")
    expected = {"yes": [], "no": ["not-permitted"], "bad": ["invalid-value"]}[outcome]
    assert reasons(done) == expected
    assert_free(folder / Path(image).name)


@pytest.mark.guarantee(
    "The mount helper",
    "When in doubt it stops.",
    "Parsing is complete before anything is done. Every failure ends it with a reason. An "
    "error in `mount.conf`, or doubt about who can write to it, means no mount.",
)
@pytest.mark.parametrize(
    "change",
    [
        "chmod 664 mount.conf",
        "chmod 646 mount.conf",
        f"chown {NOBODY} mount.conf",
        "chmod 775 .",
        f"chown {NOBODY} .",
        "mv mount.conf other; ln -s other mount.conf",
        "rm mount.conf; mkdir mount.conf",
        "rm mount.conf; mkfifo mount.conf",
        "chmod 600 mount.conf",
        "chmod 700 .",
    ],
)
def test_a_policy_that_is_not_roots_alone(helper, change):
    machine = replace(helper, policy="mount-point = /user-environment\n")
    line = " ".join([*mount(_IMAGE), "true"])
    user = f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups"
    script = f"cd /etc/stackproof; {change}; cd /test; exec {user} {line}"
    done = machine.run("sh", "-c", script, user=0)
    assert (done.returncode, reasons(done)) == (4, ["not-permitted"])


def test_a_site_without_squashfuse(helper):
    need("squashfuse", "fuse", "unprivileged-userns")
    policy = "mount-point = /user-environment\nunprivileged = no\n"
    machine = replace(helper, policy=policy)
    done = machine.run(*mount(_IMAGE, "--way=userns"), "true")
    assert reasons(done) == ["not-permitted"]
    assert machine.run(*mount(_IMAGE), "true").returncode == 0


def test_root_is_not_bound_by_the_list(helper):
    (helper.folder / "place").mkdir()
    done = helper.run(*mount("a.squashfs:/test/place"), "ls", "/test/place", user=0)
    assert done.returncode == 0, done.stderr
    done = helper.run(*mount("a.squashfs:/etc"), "true", user=0)
    assert reasons(done) == ["bad-mount-point"]
