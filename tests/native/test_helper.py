"""The mount helper in each of its ways: what the command gets, and what stays behind."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from msgspec import Struct

from images import make_image
from machine import HELPER, NOBODY, Machine, assert_free, mount, reasons
from need import need
from stackproof.core.errors import Reason
from stackproof.core.value import replace

pytestmark = pytest.mark.machine

_POINT = "/user-environment"
_SAYS = {
    "root": "mounting by a loop device, as root",
    "setuid": "mounting by a loop device, with the rights that this program has",
    "capabilities": "mounting by a loop device, with the rights that this program has",
    "userns": "mounting by squashfuse, in a user namespace",
}


class Way(Struct):
    """A machine, and the user who starts the helper in one of its ways."""

    name: str
    machine: Machine
    user: int

    def run(self, *words: str, **options: str) -> subprocess.CompletedProcess[str]:
        return self.machine.run(*words, user=self.user, **options)

    def mounted(self, *command: str, **options: str) -> subprocess.CompletedProcess[str]:
        return self.run(*mount(f"a.squashfs:{_POINT}"), *command, **options)


@pytest.fixture(params=_SAYS)
def way(request, machine):
    name = request.param
    if name == "userns":
        need("squashfuse", "fuse", "unprivileged-userns")
        machine = replace(machine, mode="755")
    machine = replace(machine, capabilities=name == "capabilities")
    return Way(name, machine, 0 if name == "root" else NOBODY)


@pytest.fixture
def userns(machine):
    need("squashfuse", "fuse", "unprivileged-userns")
    return Way("userns", replace(machine, mode="755"), NOBODY)


def test_the_command_sees_the_image(way):
    done = way.run(*mount(f"a.squashfs:{_POINT}", "--verbose"), f"{_POINT}/bin/hello")
    assert done.stdout == "hello from the image\n"
    assert done.stderr == _SAYS[way.name] + "\n"
    assert done.returncode == 0


@pytest.mark.guarantee(
    "The mount helper",
    "It mounts only SquashFS, and overlays of nothing else, read-only, nosuid, nodev",
    ", in a mount namespace of its own from which nothing reaches any other process. No "
    "program in an image has more rights than the caller.",
)
def test_the_mount_is_read_only_without_devices_and_setuid(way):
    done = way.mounted("grep", f" {_POINT} ", "/proc/self/mountinfo")
    assert done.stdout.split()[5].startswith("ro,nosuid,nodev")
    assert way.mounted("touch", f"{_POINT}/x").returncode == 1
    assert way.mounted("cat", f"{_POINT}/null").returncode == 1
    done = way.mounted(f"{_POINT}/bin/whoami", "-u")  # it is setuid root
    assert done.stdout == f"{way.user}\n"


@pytest.mark.guarantee(
    "The mount helper",
    "It gives back everything.",
    "Before the command starts, all capabilities are dropped and it is looked up that "
    "they are gone. No-new-privileges is set from the first line and stays. Nothing below "
    "the helper gains rights by a setuid bit or file capabilities, so nothing with rights "
    "ever runs where a folder has been covered.",
)
def test_no_right_is_left(way):
    done = way.mounted("cat", "/proc/self/status")
    status = dict(line.split(":\t") for line in done.stdout.splitlines() if ":\t" in line)
    assert status["NoNewPrivs"] == "1"
    assert set(status["Uid"].split()) == {str(way.user)}
    assert set(status["Gid"].split()) == {str(way.user)}
    if way.name != "root":
        assert {status[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Amb")} == {"0" * 16}


def test_descriptors_of_ours_are_closed_and_those_of_the_caller_are_not(way):
    line = " ".join(mount(f"a.squashfs:{_POINT}"))
    done = way.run("sh", "-c", f"exec 7</dev/null; exec {line} ls /proc/self/fd")
    assert done.stdout.split() == ["0", "1", "2", "3", "7"]  # 3 is the folder that is listed


def test_exit_codes_and_signals_are_the_commands(way):
    assert way.mounted("sh", "-c", "exit 7").returncode == 7
    done = way.run("sh", "-c", f"{' '.join(mount(f'a.squashfs:{_POINT}'))} sh -c 'kill -TERM $$'")
    assert done.returncode == 128 + signal.SIGTERM


def test_the_process_becomes_the_command(way):
    line = " ".join(mount(f"a.squashfs:{_POINT}"))
    done = way.run("sh", "-c", f"echo $$; exec {line} sh -c 'echo $$'")
    first, second = done.stdout.split()
    assert first == second


def test_a_command_that_is_not_there(way):
    done = way.mounted("no-such-program")
    assert (done.returncode, reasons(done)) == (127, ["command-not-found"])
    done = way.mounted("/etc/passwd")
    assert (done.returncode, reasons(done)) == (126, ["command-not-found"])


def test_the_environment(way):
    script = "echo $STACKPROOF_MOUNTED; echo $LD_LIBRARY_PATH; env | grep -c STACKPROOF_FWD"
    done = way.mounted(
        "sh", "-c", script,
        STACKPROOF_FWD_LD_LIBRARY_PATH="/x=y:/z", STACKPROOF_FWD_="odd", STACKPROOF_MOUNTED="b:/b",
    )  # fmt: skip
    assert done.stdout == f"b:/b,/test/a.squashfs:{_POINT}\n/x=y:/z\n0\n"


def test_the_marker_has_plain_absolute_paths(way):
    done = way.run(
        *mount(f"./../test//a.squashfs:{_POINT}/"), "sh", "-c", "echo $STACKPROOF_MOUNTED"
    )
    assert done.stdout == f"/test/a.squashfs:{_POINT}\n"


def test_the_working_folder_is_entered_anew(way):
    line = " ".join(mount(f"/test/a.squashfs:{_POINT}"))
    done = way.run("sh", "-c", f"cd {_POINT}; {line} sh -c 'pwd; ls bin'")
    assert done.stdout == f"{_POINT}\nhello\nmpicc\nwhoami\n"


def test_several_images_nested(way):
    images = f"a.squashfs:{_POINT}/inner,a.squashfs:{_POINT},a.squashfs:/user-tools"
    done = way.run(*mount(images), "ls", f"{_POINT}/inner/bin", "/user-tools/bin")
    assert done.stdout.count("hello") == 2
    assert done.returncode == 0


def _tree(folder: Path, name: str, files: dict[str, str]) -> None:
    tree = folder / f"{name}.tree"
    for path, text in files.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
    argv = ["mksquashfs", tree, folder / f"{name}.squashfs", "-quiet", "-no-progress", "-all-root"]
    subprocess.run(argv, check=True, capture_output=True, timeout=600)


@pytest.mark.guarantee(
    "The mount helper",
    "It mounts only SquashFS, and overlays of nothing else, read-only, nosuid, nodev",
)
def test_overlays(way):
    folder = way.machine.folder
    _tree(folder, "debugger", {"bin/debug": "debugger\n", "bin/hello": "debugger\n"})
    _tree(folder, "profiler", {"bin/profile": "profiler\n", "bin/debug": "profiler\n"})
    options = [f"--overlay={name}.squashfs:{_POINT}" for name in ("debugger", "profiler")]
    images = f"a.squashfs:{_POINT},a.squashfs:{_POINT}/inner"
    script = f"cd {_POINT}; cat bin/hello bin/debug bin/profile; ls bin inner; touch x"
    done = way.run(*mount(images, *options), "sh", "-c", script)
    assert done.stdout.split() == [
        "debugger", "profiler", "profiler", "bin:", "debug", "hello", "mpicc", "profile", "whoami",
        "inner:", "bin", "inner", "meta", "null",
    ]  # fmt: skip
    assert "Read-only" in done.stderr
    done = way.run(*mount(images, *options), "sh", "-c", "echo $STACKPROOF_MOUNTED")
    assert "debugger" not in done.stdout


def test_an_overlay_needs_an_image_below_it(way):
    overlay = "--overlay=a.squashfs:/user-tools"
    done = way.run(*mount(f"a.squashfs:{_POINT}", overlay), "true")
    assert (done.returncode, reasons(done)) == (2, ["usage"])


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "usage"),
        (["true"], "usage"),
        (["--images=a.squashfs:/user-environment"], "usage"),
        (["--images=a.squashfs", "true"], "usage"),
        (["--images", "a.squashfs:/user-environment", "true"], "usage"),
        (["--way=kernel", "--images=a.squashfs:/user-environment", "true"], "usage"),
        (["--images=a:/user-environment", "--images=a:/user-tools", "true"], "usage"),
        (["--images=none:/user-environment", "true"], "image-missing"),
        (["--images=a.squashfs/x:/user-environment", "true"], "image-missing"),
        (["--images=/test:/user-environment", "true"], "image-not-squashfs"),
        (["--images=/dev/null:/user-environment", "true"], "image-not-squashfs"),
        (["--images=/etc/passwd:/user-environment", "true"], "image-not-squashfs"),
        (["--images=a.squashfs:/user-environment/none", "true"], "mount-point-missing"),
        (["--images=a.squashfs:/user-tools/..", "true"], "bad-mount-point"),
        (
            ["--images=a.squashfs:/user-environment/a.squashfs,b:/user-tools", "true"],
            "image-missing",
        ),
    ],
    ids=str,
)
def test_what_is_wrong_is_said(way, words, reason):
    done = way.run(HELPER, *words)
    assert reasons(done) == [reason]
    assert done.returncode == Reason(reason).exit_code
    assert done.stdout == ""


def test_all_problems_of_a_list_at_once(way):
    done = way.run(*mount("a:/usr,,c:/x,d:/x"), "true")
    assert reasons(done) == ["bad-mount-point", "usage", "mount-point-clash"]


def test_an_occupied_mount_point(way):
    images = f"a.squashfs:{_POINT},a.squashfs:{_POINT}/bin"
    done = way.run(*mount(images), "true")
    assert (done.returncode, reasons(done)) == (6, ["mount-point-occupied"])


def test_help_and_version(way):
    done = way.run(HELPER, "--version")
    assert done.stdout.startswith("stackproof-mount ")
    assert way.run(HELPER, "--help").stdout.startswith("usage: ")


def test_many_at_once(way):
    line = " ".join(mount(f"a.squashfs:{_POINT}"))
    script = f"for i in $(seq 30); do {line} cat {_POINT}/bin/hello & done; wait"
    done = way.run("sh", "-c", script)
    assert done.stdout.count("echo hello from the image") == 30, done.stderr
    assert_free(way.machine.folder / "a.squashfs")


@pytest.mark.parametrize("end", ["exit 0", "kill -9 $$"])
def test_nothing_is_left_while_the_machine_goes_on(way, end):
    line = " ".join(mount(f"a.squashfs:{_POINT}"))
    script = f"""{line} sh -c '{end}'
    for i in $(seq 100); do
        cat /proc/[0-9]*/comm 2>/dev/null | grep -q squashfuse || break
        cat /proc/[0-9]*/status 2>/dev/null | grep -A1 squashfuse | grep -q zombie && break
        sleep 0.05
    done
    echo waited $i; grep -c {_POINT} /proc/self/mountinfo"""
    done = way.run("sh", "-c", script)
    waited, mounts = done.stdout.replace("Killed", "").split()[-2:]
    assert int(waited) < 100
    assert mounts == "0"
    assert_free(way.machine.folder / "a.squashfs")


def test_squashfuse_can_be_chosen_with_rights(way):
    need("squashfuse", "fuse", "unprivileged-userns")
    done = way.run(*mount(f"a.squashfs:{_POINT}", "--way=userns"), "grep", _POINT, "/proc/mounts")
    assert "squashfuse" in done.stdout
    assert way.mounted("true").returncode == 0


def test_ways_that_are_not_there(userns, machine):
    for name in ("root", "setuid"):
        done = userns.run(*mount(f"a.squashfs:{_POINT}", f"--way={name}"), "true")
        assert (done.returncode, reasons(done)) == (4, ["not-permitted"])
    done = machine.run(*mount(f"a.squashfs:{_POINT}", "--way=root"), "true")
    assert reasons(done) == ["not-permitted"]


def test_without_the_fuse_device_it_names_the_way_without_a_mount(machine):
    """The device is the machine's own, so nobody else's changes."""
    need("squashfuse", "fuse", "unprivileged-userns")
    drop = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    words = (*drop, *mount(f"a.squashfs:{_POINT}", "--way=userns"), "true")
    done = machine.run("sh", "-c", 'chmod 600 /dev/fuse; exec "$@"', "sh", *words, user=0)
    assert (done.returncode, reasons(done)) == (4, ["no-fuse"])
    assert "`stackproof pack IMAGE -o DIR`" in done.stderr


@pytest.mark.guarantee(
    "The mount helper",
    "It gives back everything.",
)
def test_within_a_command_the_next_image_needs_no_right(machine):
    """No-new-privileges takes the setuid bit out of effect: the second one goes without."""
    need("squashfuse", "fuse", "unprivileged-userns")
    inner = mount("a.squashfs:/user-tools", "--verbose")
    outer = mount(f"a.squashfs:{_POINT}", "--verbose")
    done = machine.run(*outer, *inner, "sh", "-c", "ls /user-tools; echo $STACKPROOF_MOUNTED")
    assert done.stderr.splitlines() == [_SAYS["setuid"], _SAYS["userns"]]
    assert done.stdout.endswith(f"/test/a.squashfs:{_POINT},/test/a.squashfs:/user-tools\n")


def test_an_image_that_squashfuse_cannot_read(userns):
    image = userns.machine.folder / "a.squashfs"
    data = bytearray(image.read_bytes())
    data[96:] = bytes(len(data) - 96)  # the superblock is right, all else is gone
    image.write_bytes(data)
    done = userns.mounted("true")
    assert (done.returncode, reasons(done)) == (6, ["mount-failed"])


def test_an_image_of_odd_size_needs_squashfuse(machine):
    need("squashfuse", "fuse", "unprivileged-userns")
    make_image(machine.folder / "odd.squashfs", options=("-nopad",))
    with (machine.folder / "odd.squashfs").open("ab") as stream:
        stream.write(bytes(1 + -stream.tell() % 512))
    done = machine.run(*mount(f"odd.squashfs:{_POINT}"), "true")
    assert reasons(done) == ["mount-failed"]
    done = machine.run(*mount(f"odd.squashfs:{_POINT}", "--way=userns"), "true")
    assert done.returncode == 0
