"""The library from outside: on older kernels, as another user, and with policies."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from images import make_image
from machine import NOBODY, SOMEBODY, Machine
from need import need

_POINT = "/user-environment"


@pytest.fixture
def probe(machine, built):
    """Return the path of the probe in the machine."""
    program = machine.folder / "probe"
    program.write_bytes((built / "tests" / "probe").read_bytes())
    program.chmod(0o755)
    return "/test/probe"


def test_older_kernels(machine, probe):
    """Without openat2(2), the calls around fsopen(2), and LOOP_CONFIGURE."""
    images = f"a.squashfs:{_POINT}/inner,a.squashfs:{_POINT}"
    words = [probe, "old", images, f"a.squashfs:{_POINT}"]
    script = f"ls {_POINT} {_POINT}/inner; grep {_POINT} /proc/self/mountinfo; ls /proc/self/fd"
    done = machine.run(*words, "sh", "-c", script, user=0)
    assert done.returncode == 0, done.stderr
    listed, _, mounts = done.stdout.partition("meta\nnull\n\n")
    assert listed.split()[:3] == [f"{_POINT}:", "bin", "inner"]
    rows = [line.split() for line in mounts.splitlines() if f" {_POINT}" in line]
    assert [row[4] for row in rows] == [_POINT, _POINT, _POINT, f"{_POINT}/inner"]
    assert all(row[5].startswith("ro,nosuid,nodev") for row in rows)
    assert [row[row.index("-") + 1] for row in rows] == [
        "squashfs", "squashfs", "overlay", "squashfs",
    ]  # fmt: skip
    assert done.stdout.split()[-4:] == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    ("point", "reason"),
    [
        ("/test/link", "bad-mount-point"),
        ("/test/link/skel", "bad-mount-point"),
        ("/test/probe", "bad-mount-point"),
        ("/test/none", "mount-point-missing"),
        (f"/test/{'x' * 300}", "mount-point-missing"),
        ("/test", "mount-point-occupied"),
    ],
)
def test_mount_points_on_older_kernels(machine, probe, point, reason):
    (machine.folder / "link").symlink_to("/etc")
    done = machine.run(probe, "old", f"a.squashfs:{point}", "", "true", user=0)
    assert done.stdout == f"{reason}\n"


@pytest.mark.guarantee(
    "The plug-in for Slurm",
    "Images are opened with the rights of the job's user",
    ": fsuid, fsgid and groups of that one thread, with every capability out of effect. "
    "The magic links of `/proc` are not followed. It looks that they took, and takes them "
    "back. Where either fails, nothing is mounted. What the mount helper guarantees of "
    "places, kinds, limits and doubt holds as it is, with the same `mount.conf` of the "
    "node. Overlays are not offered.",
)
def test_opening_as_another_user(machine, probe):
    """As a daemon of root does: with that user's rights, and none of its own."""
    image = make_image(machine.folder / "private.squashfs")
    for mode, owner, expected in (
        (0o600, SOMEBODY, ["image-unreadable", "ok"]),
        (0o600, 0, ["image-unreadable", "ok"]),
        (0o640, 0, ["image-unreadable", "ok"]),
        (0o600, NOBODY, ["ok", "ok"]),
        (0o644, 0, ["ok", "ok"]),
    ):
        image.chmod(mode)
        os.chown(image, owner, 0)
        done = machine.run(probe, "open", f"{NOBODY}", f"{NOBODY}", "private.squashfs", user=0)
        assert done.stdout.split() == expected, (oct(mode), owner)


def test_opening_as_another_user_needs_root(machine, probe):
    done = machine.run(probe, "open", f"{SOMEBODY}", f"{SOMEBODY}", "a.squashfs")
    assert done.stdout.split() == ["not-permitted", "ok"]


def test_images_of_every_kind(machine, probe):
    """What mksquashfs makes passes the check, with each compression and without tables."""
    empty = machine.folder / "empty"
    (empty / "folder").mkdir(parents=True)
    for number, options in enumerate(
        [
            ["-comp", "gzip"],
            ["-comp", "xz", "-b", "1M"],
            ["-comp", "lzo", "-b", "4K"],
            ["-comp", "lz4"],
            ["-comp", "zstd", "-no-fragments", "-no-exports", "-no-xattrs"],
            ["-noI", "-noD", "-noF", "-noX", "-always-use-fragments"],
            ["-noI", "-no-exports"],
        ]
    ):
        for source in (empty, Path("/etc/skel"), Path(__file__).parent):
            image = machine.folder / f"{number}.squashfs"
            argv = ["mksquashfs", source, image, *options]
            argv += ["-noappend", "-quiet", "-no-progress", "-e", "__pycache__"]
            subprocess.run(argv, check=True, capture_output=True, timeout=600)
            image.chmod(0o644)
            done = machine.run(probe, "superblock", image.name)
            assert done.stdout == "ok\n", (options, source, done.stderr)


@pytest.mark.guarantee(
    "The mount helper",
    "When in doubt it stops.",
)
def test_policies_of_a_folder(machine, probe):
    folder = machine.folder / "policy"
    assert machine.run(probe, "policy", "/test/policy").stdout == "ok\n2\n"  # the built-in one
    folder.mkdir(mode=0o755)
    assert machine.run(probe, "policy", "/test/policy").stdout == "ok\n2\n"
    (folder / "mount.conf").write_text("mount-point = /a\n")
    assert machine.run(probe, "policy", "/test/policy").stdout == "ok\n1\n"
    (folder / "mount.conf").write_text("#" * (64 * 1024 + 1))
    assert machine.run(probe, "policy", "/test/policy").stdout == "invalid-value\n"
    (folder / "mount.conf").unlink()
    (machine.folder / "link").symlink_to("policy")
    assert machine.run(probe, "policy", "/test/link").stdout == "not-permitted\n"
    assert machine.run(probe, "policy", "/test/probe").stdout == "not-permitted\n"


@pytest.mark.battery
def test_the_library_under_sanitizers(machine, sanitized):
    """The same paths as root, with AddressSanitizer and UndefinedBehaviourSanitizer."""
    need("mksquashfs")
    program = machine.folder / "probe"
    program.write_bytes((sanitized / "tests" / "probe").read_bytes())
    program.chmod(0o755)
    done = machine.run(
        "/test/probe", "old", f"a.squashfs:{_POINT}", f"a.squashfs:{_POINT}", "true", user=0
    )
    assert (done.returncode, done.stderr) == (0, "")
    for words in (["superblock", "a.squashfs"], ["superblock", "probe"], ["policy", "/test"]):
        done = machine.run("/test/probe", *words, user=0)
        assert "Sanitizer" not in done.stderr
        assert "runtime error" not in done.stderr


@pytest.mark.battery
def test_the_helper_under_sanitizers(machine, sanitized):
    """As root and without rights: a sanitized program must not be setuid."""
    for mode, user in (("755", 0), ("755", NOBODY)):
        checked = Machine(machine.folder, sanitized / "helper" / "stackproof-mount", mode)
        helper = "/helper/stackproof-mount"
        for words in (
            [f"--images=a.squashfs:{_POINT},a.squashfs:/user-tools",
             f"--overlay=a.squashfs:{_POINT}", "true"],
            [f"--images=a.squashfs:{_POINT},,b:/x:", "true"],
            [f"--images=none:{_POINT}", "true"],
            [f"--images=a.squashfs:{_POINT}", f"--overlay=a.squashfs:{_POINT}", "--", "none"],
            ["--version"],
        ):  # fmt: skip
            done = checked.run(helper, *words, user=user, STACKPROOF_FWD_A="b")
            assert "Sanitizer" not in done.stderr, done.stderr
            assert "runtime error" not in done.stderr, done.stderr
