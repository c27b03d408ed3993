"""`stackproof run` by the site's helper: setuid root, for a user without any right."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from images import MOUNT, env_json, make_image
from machine import HELPER, Machine, loop_devices
from mounting import SOURCE
from nativebuild import built
from need import need
from stackproof.core.effects.libc import MountFailure
from stackproof.core.value import replace
from stackproof.mount.effects import helper as mount_helper

pytestmark = pytest.mark.machine

Verb = Callable[..., subprocess.CompletedProcess[str]]
_POLICY = f"mount-point = {MOUNT}\nmount-point = /user-tools\n"
_RELEASE = tuple(sys.version_info[:2])
_LOADER = {"LD_LIBRARY_PATH": "/nowhere", "TMPDIR": "/test", "LD_BIND_NOW": "1"}


@pytest.fixture(scope="module")
def helper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("native"), "helper/stackproof-mount")


@pytest.fixture
def machine(helper: Path, tmp_path: Path) -> Machine:
    """Return a machine with the helper setuid root, our package in /test/src, and an image."""
    need("root", "mksquashfs", "kernel-mount", "unprivileged-user")
    done = subprocess.run(
        ["/usr/bin/python3", "-c", f"import sys; sys.exit(sys.version_info[:2] != {_RELEASE})"],
        check=False,
    )
    if done.returncode:
        pytest.skip("/usr/bin/python3 is of another release than the tests' Python")
    tmp_path.chmod(0o755)
    make_image(tmp_path / "a.squashfs")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(SOURCE / "stackproof", tmp_path / "src" / "stackproof", ignore=ignored)
    # What goes wrong is worded by more of the package than what goes well.
    packages = Path(sysconfig.get_path("purelib"))
    shutil.copytree(packages / "msgspec", tmp_path / "src" / "msgspec", ignore=ignored)
    return Machine(folder=tmp_path, program=helper, policy=_POLICY)


def _verb(machine: Machine, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": "/test/src", "PYTHONDONTWRITEBYTECODE": "1", **variables}
    environment.setdefault(mount_helper.VARIABLE, HELPER)
    return machine.run("/usr/bin/python3", "-m", "stackproof", *words, **environment)


def _kind(mount: str) -> str:
    """Return a shell line that prints the kind of file system at a mount point."""
    return f"grep ' {mount} ' /proc/self/mountinfo | sed 's/.* - //' | cut -d' ' -f1"


def test_the_kernel_mounts_for_a_user_without_rights(machine: Machine) -> None:
    script = f"{_kind(MOUNT)}; id -u; hello; echo $MPI_TINY; echo $STACKPROOF_MOUNTED; exit 3"
    done = _verb(machine, "run", "a.squashfs", "--", "sh", "-c", script)
    lines = ["squashfs", "65534", "hello from the image", "yes", f"/test/a.squashfs:{MOUNT}"]
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.splitlines() == lines
    assert not loop_devices(machine.folder / "a.squashfs")


def test_it_is_found_on_the_path_and_may_be_switched_off(machine: Machine) -> None:
    words = ("run", "a.squashfs", "--", "sh", "-c", _kind(MOUNT))
    environment = {"PYTHONPATH": "/test/src", "PATH": "/helper:/usr/sbin:/usr/bin:/sbin:/bin"}
    program = ("/usr/bin/python3", "-B", "-m", "stackproof", *words)
    assert machine.run(*program, **environment).stdout == "squashfs\n"
    need("squashfuse", "unprivileged-userns")
    off = machine.run(*program, **environment, **{mount_helper.VARIABLE: ""})
    assert (off.stdout, off.stderr) == ("fuse.squashfuse\n", "")


def test_variables_that_a_program_with_rights_loses_reach_the_command(machine: Machine) -> None:
    show = "; ".join(f"echo ${name}" for name in _LOADER)
    done = _verb(machine, "run", "a.squashfs", "--", "sh", "-c", f"{show}; env", **_LOADER)
    assert done.stdout.splitlines()[: len(_LOADER)] == list(_LOADER.values())
    assert "STACKPROOF_FWD_" not in done.stdout


def test_start_goes_the_same_way(machine: Machine) -> None:
    python = ("/usr/bin/python3", "-B", "-m", "stackproof")
    variables = {"PYTHONPATH": "/test/src", mount_helper.VARIABLE: HELPER, "SHELL": "/bin/sh"}
    done = machine.run(*python, "start", "a.squashfs", stdin=_kind(MOUNT), **variables)
    assert (done.returncode, done.stdout, done.stderr) == (0, "squashfs\n", "")


def test_verbose_tells_it(machine: Machine) -> None:
    done = _verb(machine, "run", "a.squashfs", "--verbose", "--", "true")
    assert done.stderr.splitlines()[0] == f"note: mounting by stackproof-mount, `{HELPER}`"
    assert "with the rights that this program has" in done.stderr


@pytest.mark.parametrize(
    ("images", "code", "reason"),
    [
        ("a.squashfs:/user-environment-2", 4, "not-permitted"),
        ("a.squashfs:/nowhere", 6, "mount-point-missing"),
    ],
)
def test_what_the_helper_refuses_passes_through(
    machine: Machine, images: str, code: int, reason: str
) -> None:
    policy = _POLICY if reason == "not-permitted" else f"{_POLICY}mount-point = /nowhere\n"
    words = ("run", images, "--no-view", "--how", "helper", "--", "true")
    done = _verb(replace(machine, policy=policy), *words)
    assert done.returncode == code
    assert f"error: [{reason}]" in done.stderr


def test_views_and_metadata_are_checked_before_it_starts(machine: Machine) -> None:
    done = _verb(machine, "run", "a.squashfs", "--view", "nonesuch", "--", "true")
    assert (done.returncode, done.stdout) == (6, "")
    assert done.stderr.startswith("error: no view")
    make_image(machine.folder / "b.squashfs", meta=env_json(mount="/usr"))
    assert _verb(machine, "run", "b.squashfs", "--", "true").returncode == 3


def test_a_mount_point_that_is_not_there_is_made_without_it(machine: Machine) -> None:
    need("squashfuse", "unprivileged-userns")
    words = ("run", "a.squashfs:/nowhere", "--no-view", "--", "sh", "-c", _kind("/nowhere"))
    assert _verb(machine, *words).stdout == "fuse.squashfuse\n"


def test_without_rights_it_is_used_only_when_asked_for(machine: Machine) -> None:
    need("squashfuse", "unprivileged-userns")
    plain = replace(machine, mode="755")
    words = ("--verbose", "--", "sh", "-c", _kind(MOUNT))
    assert "stackproof-mount" not in _verb(plain, "run", "a.squashfs", *words).stderr
    asked = _verb(plain, "run", "a.squashfs", "--how", "helper", *words)
    assert asked.stdout == "fuse.squashfuse\n"
    assert "stackproof-mount" in asked.stderr


def test_without_unsquashfs_nothing_tells_where_to_mount(machine: Machine) -> None:
    need("squashfuse", "unprivileged-userns")
    folder = machine.folder / "bin"
    folder.mkdir()
    for program in ("sh", "grep", "sed", "cut", "squashfuse", "true"):
        (folder / program).symlink_to(shutil.which(program) or "")
    python = ("env", "PATH=/test/bin", "/usr/bin/python3", "-B", "-m", "stackproof", "run")
    variables = {"PYTHONPATH": "/test/src", mount_helper.VARIABLE: HELPER}
    found = machine.run(*python, "a.squashfs", "--", "sh", "-c", _kind(MOUNT), **variables)
    assert found.stdout == "fuse.squashfuse\n"
    asked = machine.run(*python, "a.squashfs", "--how", "helper", "--", "true", **variables)
    assert asked.returncode == 4
    assert "unsquashfs" in asked.stderr


def test_file_capabilities_are_rights_too(machine: Machine) -> None:
    words = ("run", "a.squashfs", "--", "sh", "-c", _kind(MOUNT))
    assert _verb(replace(machine, capabilities=True), *words).stdout == "squashfs\n"


def test_inside_of_its_own_session_squashfuse_is_left(machine: Machine) -> None:
    """The helper forbids new privileges for its command, so that it would have none there."""
    need("squashfuse", "unprivileged-userns")
    inner = f'python3 -B -m stackproof run a.squashfs:/user-tools --no-view -- sh -c "{_kind("/user-tools")}"'
    done = _verb(machine, "run", "a.squashfs", "--no-view", "--", "sh", "-c", inner)
    assert (done.stdout, done.stderr) == ("fuse.squashfuse\n", "")


def test_the_remote_start_takes_it_too(machine: Machine) -> None:
    script = "/test/src/stackproof/mount/effects/mount_exec.py"
    mounts = f"/test/a.squashfs:{MOUNT}"
    words = ("/usr/bin/python3", "-B", "-I", "-S", script, "--join", mounts, "--")
    variables = {mount_helper.VARIABLE: HELPER, **_LOADER}
    done = machine.run(*words, "sh", "-c", f"{_kind(MOUNT)}; echo $TMPDIR", **variables)
    assert (done.stdout, done.stderr) == ("squashfs\n/test\n", "")


def test_a_helper_that_is_not_there(tmp_path: Path) -> None:
    environment = {mount_helper.VARIABLE: str(tmp_path / "none")}
    assert mount_helper.find(environment) is None
    with pytest.raises(MountFailure) as failure:
        mount_helper.choose("helper", environment)
    assert failure.value.reason == "tool-missing"
    assert mount_helper.choose("fuse", environment) is None


def test_a_file_that_is_no_program_has_no_rights(tmp_path: Path) -> None:
    program = tmp_path / "stackproof-mount"
    program.touch(mode=0o755)
    assert mount_helper.find({"PATH": str(tmp_path)}) == str(program)
    assert not mount_helper.has_rights(str(program))
    assert not mount_helper.has_rights(str(tmp_path / "none"))


def test_only_what_would_be_lost_has_another_name_on_the_way() -> None:
    found = mount_helper.forwarded(
        {"PATH": "/bin", "LD_PRELOAD": "a.so", "TMPDIR": "/x", "LD": "y"}
    )
    assert found == {
        "PATH": "/bin",
        "STACKPROOF_FWD_LD_PRELOAD": "a.so",
        "STACKPROOF_FWD_TMPDIR": "/x",
        "LD": "y",
    }
