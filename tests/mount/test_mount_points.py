"""Where images are mounted: places that are missing, occupied, nested, links, or hidden by others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from images import env_json
from mounting import Way, mounted, put_folder, put_image, reason_of, run_words, way
from need import need
from stackproof.core.errors import Reason
from stackproof.mount.effects import methods
from stackproof.mount.effects.mount_exec import MARKER

COVERS = (
    "mount/effects/facts.py",
    "mount/effects/mount_exec.py",
)

pytestmark = pytest.mark.machine


@pytest.fixture(params=["kernel", "fuse"])
def mounter(request: pytest.FixtureRequest, tmp_path: Path) -> Way:
    return way(request.param, tmp_path)


@pytest.fixture
def fuse(tmp_path: Path) -> Way:
    return way("fuse", tmp_path)


def test_a_missing_mount_point_below_the_root_is_made_for_the_command_alone(mounter: Way) -> None:
    image, mount = put_image(mounter), "/stackproof-test/deeper"
    listing = run_words(mounter.argv("ls", "-a", "/")).stdout.split()
    script = (
        f"{mount}/bin/hello; pwd; ls -a /; echo here > {mounter.folder}/kept 2>/dev/null; : > /x"
    )
    done = mounted(mounter, f"{image}:{mount}", "sh", "-c", script)
    first, here, *names = done.stdout.split("\n")[:-1]
    assert (first, here) == ("hello from the image", os.fspath(mounter.folder))
    assert sorted(names) == sorted([*listing, "stackproof-test"])
    assert done.returncode != 0
    assert "Read-only file system" in done.stderr
    assert not Path("/stackproof-test").exists()
    assert not Path("/x").exists()


def test_in_the_copied_root_everything_works_as_before(mounter: Way) -> None:
    image, mount = put_image(mounter), "/stackproof-test"
    argv = [
        "sh",
        "-c",
        "cat /proc/self/comm && ls /sys /dev/shm >/dev/null && : < /dev/null && id -u",
    ]
    plain = run_words(mounter.argv(*argv))
    assert mounted(mounter, f"{image}:{mount}", *argv).stdout == plain.stdout


def test_the_copied_root_lets_namespaces_be_made_and_entered(mounter: Way) -> None:
    """chroot(2) alone would forbid both; sandboxes of users and clusters of ours need them."""
    image, mount = put_image(mounter), "/stackproof-test"
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
    done = mounted(mounter, f"{image}:{mount}", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.splitlines()) == {"hello from the image"}


def test_a_missing_mount_point_that_its_user_could_make_is_an_error(mounter: Way) -> None:
    mounter.real_folder.chmod(0o777)
    done = mounted(mounter, f"{put_image(mounter)}:{mounter.folder}/none/x", "true")
    assert (done.returncode, reason_of(done)) == (6, Reason.MOUNT_POINT_MISSING)
    assert "mkdir -p" in done.stderr


def test_a_missing_mount_point_in_a_folder_without_rights_is_made(fuse: Way) -> None:
    if os.geteuid() != 0:
        need("root")  # else the test's folder belongs to the user
    (fuse.real_folder / "file").write_text("kept")
    (fuse.real_folder / "link").symlink_to("file")
    image, mount = put_image(fuse), fuse.folder / "made" / "deeper"
    script = f"{mount}/bin/hello; cat {fuse.folder}/link; echo; ls {fuse.folder}"
    done = mounted(fuse, f"{image}:{mount}", "sh", "-c", script)
    assert done.stdout.split("\n")[:2] == ["hello from the image", "kept"]
    assert done.stdout.split()[-4:] == ["a.squashfs", "file", "link", "made"]
    assert not (fuse.real_folder / "made").exists()


def test_a_file_as_mount_point_is_an_error(mounter: Way) -> None:
    (mounter.real_folder / "file").write_text("")
    for tail in ("file", "file/below"):
        done = mounted(mounter, f"{_image_once(mounter)}:{mounter.folder}/{tail}", "true")
        assert (done.returncode, reason_of(done)) == (6, Reason.MOUNT_POINT_MISSING)


def _image_once(mounter: Way) -> Path:
    return (
        mounter.folder / "a.squashfs"
        if (mounter.real_folder / "a.squashfs").exists()
        else put_image(mounter)
    )


def test_an_occupied_mount_point_is_an_error(mounter: Way) -> None:
    image, mount = put_image(mounter), put_folder(mounter)
    (mounter.real_folder / "mount" / "file").write_text("")
    done = mounted(mounter, f"{image}:{mount}", "true")
    assert (done.returncode, reason_of(done)) == (6, Reason.MOUNT_POINT_OCCUPIED)


def test_a_mount_point_that_holds_an_image_is_occupied(mounter: Way) -> None:
    image, mount = put_image(mounter), put_folder(mounter)
    inner = [*mounter.mountexec, f"{image}:{mount}", "true"]
    done = mounted(mounter, f"{image}:{mount}", *inner)
    assert (done.returncode, reason_of(done)) == (6, Reason.MOUNT_POINT_OCCUPIED)
    assert f"`{image}` is mounted at `{mount}` already" in done.stderr
    assert "another mount point does not help" in done.stderr


def test_a_marker_of_another_machine_is_not_believed(mounter: Way) -> None:
    image, mount = put_image(mounter), put_folder(mounter)
    (mounter.real_folder / "mount" / "file").write_text("")
    told = ["env", f"{MARKER}={image}:{mount}", *mounter.mountexec, f"{image}:{mount}", "true"]
    done = mounted(mounter, f"{image}:{put_folder(mounter, 'other')}", *told)
    assert (done.returncode, reason_of(done)) == (6, Reason.MOUNT_POINT_OCCUPIED)
    assert "is not empty: files" in done.stderr


def test_images_within_images(mounter: Way) -> None:
    image, mount, other = put_image(mounter), put_folder(mounter), put_folder(mounter, "other")
    inner = [*mounter.mountexec, f"{image}:{other}", "sh", "-c"]
    script = f"{mount}/bin/hello && {other}/bin/hello && echo $STACKPROOF_MOUNTED"
    done = mounted(mounter, f"{image}:{mount}", *inner, script)
    assert done.stdout.splitlines()[2:] == [f"{image}:{mount},{image}:{other}"], done.stderr


@pytest.mark.parametrize("inner", ["inner", "bin/made/here"])
@pytest.mark.parametrize("turned", [False, True])
def test_nested_mount_points_whatever_their_order(mounter: Way, inner: str, turned: bool) -> None:
    image, mount = put_image(mounter), put_folder(mounter)
    entries = [f"{image}:{mount}", f"{image}:{mount}/{inner}"]
    if turned:
        entries.reverse()
    script = f"{mount}/bin/hello && {mount}/{inner}/bin/hello"
    done = mounted(mounter, ",".join(entries), "sh", "-c", script)
    assert done.stdout == "hello from the image\n" * 2, done.stderr


def test_a_link_as_mount_point_leads_to_it_and_clashes_with_it(mounter: Way) -> None:
    image, mount = put_image(mounter), put_folder(mounter)
    (mounter.real_folder / "link").symlink_to("mount")
    link = mounter.folder / "link"
    assert mounted(mounter, f"{image}:{link}", f"{mount}/bin/hello").returncode == 0
    done = mounted(mounter, f"{image}:{link},{image}:{mount}", "true")
    assert (done.returncode, reason_of(done)) == (6, Reason.MOUNT_POINT_CLASH)


def test_a_mount_point_needs_no_metadata_but_run_does(mounter: Way) -> None:
    image, mount = put_image(mounter, meta=None), put_folder(mounter)
    assert mounted(mounter, f"{image}:{mount}", f"{mount}/bin/hello").returncode == 0
    assert env_json()["mount"] != mount


@pytest.mark.parametrize("path", ["", ".", "bin", ":bin:"])
def test_no_program_of_the_working_folder_parses_an_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """A PATH with relative entries leads to whatever somebody put where the command is started."""
    for folder in (tmp_path, tmp_path / "bin"):
        folder.mkdir(exist_ok=True)
        (folder / "squashfuse_ll").write_text("#!/bin/sh\n")
        (folder / "squashfuse_ll").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    assert methods.find_squashfuse(f"{tmp_path}/bin") == f"{tmp_path}/bin/squashfuse_ll"
    found = methods.find_squashfuse(path)
    assert found is None or found.startswith(("/usr/", "/bin/"))
