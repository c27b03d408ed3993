"""What a hostile user may try against the setuid helper, tried as a user without any right."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from images import make_image
from machine import HELPER, NOBODY, SOMEBODY, Machine, loop_devices, mount, reasons
from need import need

_POINT = "/user-environment"
_PYTHON = "/usr/bin/python3"
_IMAGE = f"a.squashfs:{_POINT}"


@pytest.fixture(params=["setuid", "capabilities"])
def helper(request: pytest.FixtureRequest, machine: Machine) -> Machine:
    """Return a machine whose helper has rights, in both ways in which it can."""
    return dataclasses.replace(machine, capabilities=request.param == "capabilities")


@pytest.fixture
def private(machine: Machine) -> Path:
    """Return an image that belongs to another user and is for nobody else."""
    image = make_image(machine.folder / "private.squashfs")
    image.chmod(0o600)
    os.chown(image, SOMEBODY, SOMEBODY)
    return image


def _python(machine: Machine, source: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python in the machine as the hostile user, in a folder of theirs."""
    folder = machine.folder / "mine"
    folder.mkdir(exist_ok=True)
    os.chown(folder, NOBODY, NOBODY)
    (machine.folder / "attack.py").write_text(source)
    done = machine.run(_PYTHON, "/test/attack.py", *words)
    assert done.returncode == 0, done.stderr
    return done


def _assert_free(image: Path) -> None:
    end = time.monotonic() + 10
    while loop_devices(image) and time.monotonic() < end:
        time.sleep(0.02)
    assert loop_devices(image) == []


# ----------------------------------------------------------------------------------------- images


def test_another_users_image(helper: Machine, private: Path) -> None:
    done = helper.run(*mount(f"private.squashfs:{_POINT}"), "ls", _POINT)
    assert (done.returncode, reasons(done)) == (6, ["image-unreadable"])
    _assert_free(private)
    done = helper.run(*mount(f"private.squashfs:{_POINT}"), "ls", _POINT, user=SOMEBODY)
    assert "bin" in done.stdout


def test_an_image_in_another_users_folder(helper: Machine) -> None:
    folder = helper.folder / "closed"
    folder.mkdir(mode=0o700)
    shutil.copy(helper.folder / "a.squashfs", folder)
    done = helper.run(*mount(f"closed/a.squashfs:{_POINT}"), "true")
    assert reasons(done) == ["image-unreadable"]
    (helper.folder / "link").symlink_to("closed/a.squashfs")
    done = helper.run(*mount(f"link:{_POINT}"), "true")
    assert reasons(done) == ["image-unreadable"]


def test_an_image_for_a_group(helper: Machine) -> None:
    image = make_image(helper.folder / "group.squashfs")
    image.chmod(0o640)
    os.chown(image, 0, 777)
    line = [*mount(f"group.squashfs:{_POINT}"), "true"]
    assert reasons(helper.run(*line)) == ["image-unreadable"]
    ids = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--groups=777"]
    assert helper.run(*ids, *line, user=0).returncode == 0


def test_an_overlay_of_another_users_image(helper: Machine, private: Path) -> None:
    done = helper.run(*mount(_IMAGE, f"--overlay={private.name}:{_POINT}"), "true")
    assert reasons(done) == ["image-unreadable"]


def test_an_overlay_does_not_read_for_the_user(helper: Machine) -> None:
    """A file in an image that only root may read stays so, also through an overlay."""
    options = ("-p", "secret f 600 0 0 echo secret", "-p", "closed d 700 0 0")
    make_image(helper.folder / "b.squashfs", options=options)
    overlay = f"--overlay=b.squashfs:{_POINT}"
    done = helper.run(*mount(_IMAGE, overlay), "cat", f"{_POINT}/secret")
    assert (done.returncode, done.stdout) == (1, "")
    assert helper.run(*mount(_IMAGE, overlay), "ls", f"{_POINT}/closed").returncode == 2
    assert helper.run(*mount(_IMAGE, overlay), "cat", f"{_POINT}/null").returncode == 1


_SWAP_IMAGE = """
import os, subprocess, sys, threading, time
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
end = time.monotonic() + 2
while time.monotonic() < end:
    done = subprocess.run(
        ["/helper/stackproof-mount", "--images=image:/user-environment", "--",
         "cat", "/user-environment/secret"], capture_output=True, text=True)
    word = "refused" if "unreadable" in done.stderr else "mounted" if done.returncode == 1 else "odd"
    print(word, done.stdout, flush=True)
stop = True
thread.join()
"""


def test_an_image_that_is_swapped_meanwhile(helper: Machine) -> None:
    options = ("-p", "secret f 644 0 0 echo secret")
    private = make_image(helper.folder / "private.squashfs", options=options)
    private.chmod(0o600)
    words = _python(helper, _SWAP_IMAGE).stdout.split()
    assert set(words) == {"mounted", "refused"}  # both happened, and nothing else was printed
    _assert_free(private)


_SWAP_CONTENT = """
import os, subprocess, threading, time
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
end = time.monotonic() + 1.5
while time.monotonic() < end:
    done = subprocess.run(
        ["/helper/stackproof-mount", "--images=image:/user-environment", "--", "true"],
        capture_output=True, text=True)
    assert done.returncode in (0, 6), done
    print("mounted" if done.returncode == 0 else done.stderr.split("]")[0].split("[")[1])
stop = True
thread.join()
"""


def test_content_that_changes_meanwhile(helper: Machine) -> None:
    """The check of the superblock cannot hold an owner; the kernel then refuses, or not."""
    words = set(_python(helper, _SWAP_CONTENT).stdout.split())
    assert words <= {"mounted", "image-not-squashfs", "mount-failed"}
    assert {"mounted", "image-not-squashfs"} <= words


@pytest.mark.parametrize("length", [0, 3, 4, 95, 96, 97, 1000])
def test_truncated_images(helper: Machine, length: int) -> None:
    image = helper.folder / "short.squashfs"
    image.write_bytes((helper.folder / "a.squashfs").read_bytes()[:length])
    done = helper.run(*mount(f"short.squashfs:{_POINT}"), "true")
    assert reasons(done) == ["image-not-squashfs" if length < 4 else "image-truncated"]
    _assert_free(image)


@pytest.mark.parametrize("at", [0, 4, 12, 20, 22, 26, 28, 30, 32, 40, 48, 64, 72])
def test_crafted_superblocks(helper: Machine, at: int) -> None:
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
    _assert_free(helper.folder / "crafted.squashfs")


def test_what_is_no_file(helper: Machine) -> None:
    os.mkfifo(helper.folder / "fifo", 0o666)
    for path in ("fifo", "/dev/zero", "/dev/tty", "/proc/self/mem", "/", "/proc/self/fd/0"):
        done = helper.run(*mount(f"{path}:{_POINT}"), "true")
        assert len(reasons(done)) == 1, path
        assert done.returncode == 6, path


# ----------------------------------------------------------------------------------- mount points


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
def test_places_that_are_not_for_users(helper: Machine, point: str, reason: str) -> None:
    done = helper.run(*mount(f"a.squashfs:{point}"), "true")
    assert reasons(done) == [reason]
    assert done.stdout == ""


def test_mount_points_with_links(helper: Machine) -> None:
    """In every part of the path, wherever they lead; old kernels are tried in test_core.py."""
    machine = dataclasses.replace(helper, policy="mount-point = /test\n")
    (helper.folder / "place").mkdir()
    for name, target in (("etc", "/etc"), ("same", "place"), ("up", ".."), ("gone", "none")):
        (helper.folder / name).symlink_to(target)
        for point in (f"/test/{name}", f"/test/{name}/skel", f"/test/place/../{name}"):
            done = machine.run(*mount(f"a.squashfs:{point}"), "true")
            assert reasons(done) == ["bad-mount-point"], point
    (helper.folder / "file").touch()
    assert reasons(machine.run(*mount("a.squashfs:/test/file"), "true")) == ["bad-mount-point"]
    assert machine.run(*mount("a.squashfs:/test/place"), "true").returncode == 0


def test_an_image_cannot_lead_the_next_one_astray(helper: Machine) -> None:
    """A link in the first image where the second one is to be mounted."""
    tree = helper.folder / "tree"
    tree.mkdir()
    (tree / "inner").symlink_to("/etc")
    argv = ["mksquashfs", tree, helper.folder / "b.squashfs", "-quiet", "-no-progress"]
    subprocess.run(argv, check=True, capture_output=True, timeout=60)
    done = helper.run(*mount(f"b.squashfs:{_POINT},a.squashfs:{_POINT}/inner"), "true")
    assert reasons(done) == ["bad-mount-point"]


_SWAP_POINT = """
import os, subprocess, threading, time
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
end = time.monotonic() + 2
while time.monotonic() < end:
    done = subprocess.run(
        ["/helper/stackproof-mount", "--images=/test/a.squashfs:/test/mine/point", "--",
         "cat", "/proc/self/mountinfo"], capture_output=True, text=True)
    places = [line.split()[4] for line in done.stdout.splitlines() if " squashfs " in line]
    if done.returncode:
        places = [done.stderr.split("]")[0].split("[")[1]]
    print(*places, flush=True)
stop = True
thread.join()
"""


def test_a_mount_point_that_is_swapped_meanwhile(helper: Machine) -> None:
    """Nothing but the folder that was looked at is covered, whatever it is called by then."""
    machine = dataclasses.replace(helper, policy="mount-point = /test/mine\n")
    words = set(_python(machine, _SWAP_POINT).stdout.split())
    mounted = {word for word in words if word.startswith("/")}
    assert mounted
    assert mounted <= {"/test/mine/point", "/test/mine/aside"}
    assert words - mounted <= {"mount-point-missing", "bad-mount-point", "mount-failed"}
    assert words - mounted


# ------------------------------------------------------------------------------------- the caller


def test_lists_without_end(helper: Machine) -> None:
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


def test_a_megabyte_of_lists_in_arguments(helper: Machine) -> None:
    script = f"""import os
word = "--overlay=" + "a:/x," * 24_000
os.execv("{HELPER}", ["x", *[word] * 10, "--", "true"])"""
    (helper.folder / "attack.py").write_text(script)
    done = helper.run(_PYTHON, "/test/attack.py")
    assert (done.returncode, reasons(done)) == (2, ["usage"])


_EVIL_LIBRARY = r"""
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
__attribute__((constructor)) static void begin(void)
{
    char name[256] = {0}, status[4096] = {0};
    int file = open("/proc/self/comm", O_RDONLY);
    (void)!read(file, name, sizeof name - 1);
    name[strcspn(name, "\n")] = 0;
    close(file);
    file = open("/proc/self/status", O_RDONLY);
    (void)!read(file, status, sizeof status - 1);
    close(file);
    const char *capabilities = strstr(status, "CapPrm:");
    FILE *log = fopen("/test/mine/log", "a");
    fprintf(log, "%s %d %.24s\n", name, (int)geteuid(), capabilities ? capabilities : "none");
    fclose(log);
}
"""


def test_variables_of_the_loader(helper: Machine) -> None:
    """They have no effect on the helper; passed on by its prefix, they have on the command."""
    need("gcc")
    folder = helper.folder / "mine"
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    source, library = helper.folder / "evil.c", helper.folder / "libc.so.6"
    source.write_text(_EVIL_LIBRARY)
    argv = ["gcc", "-shared", "-fPIC", "-o", library, source]
    subprocess.run(argv, check=True, capture_output=True, timeout=60)
    line = [*mount(_IMAGE), "/bin/true"]
    hostile = {
        "LD_PRELOAD": "/test/libc.so.6",
        "LD_LIBRARY_PATH": "/test",
        "LD_AUDIT": "/test/libc.so.6",
        "GCONV_PATH": "/test",
        "GLIBC_TUNABLES": "glibc.malloc.check=3:glibc.malloc.check=" + "x" * 5000,
        "LOCPATH": "/test",
        "MALLOC_TRACE": "/test/mine/trace",
        "PATH": "/test",
        "IFS": "/",
        "TMPDIR": "/test/mine",
        "STACKPROOF_POLICY_FOLDER": "/test",
    }
    argv = ["env", *[f"{name}={value}" for name, value in hostile.items()], *line]
    (helper.folder / "start.py").write_text(
        f"import os\nos.execve({HELPER!r}, {line!r}, {hostile!r})"
    )
    done = helper.run(_PYTHON, "-I", "-S", "/test/start.py")
    assert done.returncode == 0, done.stderr
    assert list(folder.iterdir()) == []
    done = helper.run(*line, STACKPROOF_FWD_LD_PRELOAD="/test/libc.so.6")
    assert done.returncode == 0, done.stderr
    assert (folder / "log").read_text() == f"true {NOBODY} CapPrm:\t{'0' * 16}\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_descriptors(helper: Machine, closed: str) -> None:
    image = helper.folder / "a.squashfs"
    image.chmod(0o666)  # so that a stray descriptor could do harm
    before = image.read_bytes()
    (helper.folder / "mine").mkdir(mode=0o777)
    (helper.folder / "mine").chmod(0o777)
    script = f"cat >&2; echo x; echo y >&2; ls {_POINT} >/test/mine/out"
    line = " ".join(mount(_IMAGE))
    done = helper.run("sh", "-c", f"{line} sh -c '{script}' {closed}")
    assert (helper.folder / "mine" / "out").read_text().split() == ["bin", "inner", "meta", "null"]
    assert done.returncode == 0
    helper.run("sh", "-c", f"{HELPER} --images=none:/user-tools -- true {closed}")
    assert image.read_bytes() == before


@pytest.mark.parametrize(
    "limit", ["NOFILE", "NPROC", "AS", "FSIZE", "CORE", "DATA", "STACK", "MEMLOCK", "CPU", "LOCKS"]
)
def test_resource_limits_of_zero(helper: Machine, limit: str) -> None:
    """The command runs as it should, or the failure is a clean one, or the kernel ends it."""
    script = f"""import os, resource
resource.setrlimit(resource.RLIMIT_{limit}, (0, 0))
os.execv({HELPER!r}, {[*mount(_IMAGE), "/bin/cat", f"{_POINT}/bin/hello"]!r})"""
    if limit == "LOCKS":
        script = script.replace("resource.RLIMIT_LOCKS", "10")
    (helper.folder / "attack.py").write_text(script)
    done = helper.run(_PYTHON, "-I", "-S", "/test/attack.py")
    if done.returncode == 0:
        assert "hello from the image" in done.stdout
    elif done.stderr.startswith("error: ["):
        assert done.returncode in {4, 6, 126, 127}
        assert len(reasons(done)) == 1
    else:
        assert limit in {"NOFILE", "AS", "DATA", "STACK", "CPU"}, done
    if limit in {"FSIZE", "CORE", "NPROC", "MEMLOCK", "LOCKS"}:
        assert done.returncode == 0, done.stderr
    _assert_free(helper.folder / "a.squashfs")


_TRACE = """
import ctypes, os, random, signal, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
TRACEME, ATTACH, SEIZE = 0, 16, 0x4206
line = ["/helper/stackproof-mount", "--images=/test/a.squashfs:/user-environment", "--", "true"]
def status(pid):
    with open(f"/proc/{pid}/status") as stream:
        return dict(row.rstrip("\\n").split(":\\t", 1) for row in stream if ":\\t" in row)
caught = 0
end = time.monotonic() + 20
while caught < 10 and time.monotonic() < end:
    child = subprocess.Popen(line, stderr=subprocess.DEVNULL)
    time.sleep(random.uniform(0, 0.006))
    try:
        os.kill(child.pid, signal.SIGSTOP)
        time.sleep(0.002)
        if int(status(child.pid)["CapPrm"], 16):
            caught += 1
            assert libc.ptrace(ATTACH, child.pid, None, None) == -1, "attached"
            assert libc.ptrace(SEIZE, child.pid, None, None) == -1, "seized"
            for name in ("mem", "environ", "auxv", "maps", "map_files", "fd/0", "cwd", "root"):
                path = f"/proc/{child.pid}/{name}"
                try:
                    os.readlink(path) if name in ("fd/0", "cwd", "root") else os.listdir(
                        path) if name == "map_files" else open(path, "rb").read(1)
                except (PermissionError, FileNotFoundError):
                    continue
                print("open", name)
            pidfd = os.pidfd_open(child.pid)
            assert libc.syscall(438, pidfd, 0, 0) == -1, "took a descriptor"
            os.close(pidfd)
    except ProcessLookupError:
        pass
    os.kill(child.pid, signal.SIGCONT)
    child.wait()
print("caught", caught)
pid = os.fork()
if pid == 0:
    libc.ptrace(TRACEME, 0, None, None)
    os.execv(line[0], [line[0], "--way=setuid", *line[1:]])
while True:
    _, state = os.waitpid(pid, 0)
    if os.WIFEXITED(state):
        break
    libc.ptrace(7, pid, None, None)  # go on
print("traced", os.WEXITSTATUS(state))
"""


def test_tracing(helper: Machine) -> None:
    """With rights it cannot be traced; started by a tracer it has none."""
    lines = _python(helper, _TRACE).stdout.splitlines()
    assert lines == ["caught 10", "traced 4"]


_KILL = """
import os, random, signal, subprocess, time
line = ["/helper/stackproof-mount", "--images=/test/a.squashfs:/user-environment,"
        "/test/a.squashfs:/user-tools", "--overlay=/test/a.squashfs:/user-tools", "--", "sleep", "9"]
def is_the_helper(child):
    with open(f"/proc/{child.pid}/comm") as stream:
        return stream.read().startswith("stackproof")
# How long it takes until it is the command, here and now.
times = []
for number in range(5):
    begin = time.monotonic()
    child = subprocess.Popen(line, stderr=subprocess.DEVNULL)
    while is_the_helper(child):
        pass
    times.append(time.monotonic() - begin)
    child.kill()
    child.wait()
longest = 1.2 * sorted(times)[2]
early = 0
for number in range(200):
    child = subprocess.Popen(line, stderr=subprocess.DEVNULL)
    time.sleep(random.uniform(0, longest))
    early += is_the_helper(child)
    child.send_signal(random.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP]))
    child.wait()
print(early)
"""


def test_signals_at_every_moment(helper: Machine) -> None:
    done = _python(helper, _KILL)
    assert int(done.stdout) >= 10  # of 200, so many were hit before they became the command
    _assert_free(helper.folder / "a.squashfs")


# -------------------------------------------------------------------------------- the installation


def test_a_setgid_helper_gives_no_group(machine: Machine) -> None:
    image = make_image(machine.folder / "group.squashfs")
    image.chmod(0o640)
    for mode in ("2755", "6755"):
        installed = dataclasses.replace(machine, mode=mode)
        done = installed.run(*mount(f"group.squashfs:{_POINT}"), "true")
        assert reasons(done) == ["image-unreadable"]
    need("squashfuse", "fuse", "unprivileged-userns")
    done = installed.run(*mount(_IMAGE), "id", "-g")
    assert done.stdout == f"{NOBODY}\n"


def test_a_helper_that_is_setuid_of_another_user(machine: Machine) -> None:
    installed = f"cp {HELPER} /tmp/helper; chown {SOMEBODY} /tmp/helper; chmod 4755 /tmp/helper"
    start = f"exec setpriv --reuid={NOBODY} --clear-groups /tmp/helper --images={_IMAGE} -- id"
    script = f"{installed}; {start}"
    done = machine.run("sh", "-c", script, user=0)
    assert (done.returncode, reasons(done)) == (4, ["not-permitted"])


def test_without_capabilities_in_the_bounding_set_it_goes_without(machine: Machine) -> None:
    need("squashfuse", "fuse", "unprivileged-userns")
    ids = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    line = [*mount(_IMAGE, "--verbose"), "true"]
    done = machine.run(*ids, "--bounding-set=-all", *line, user=0)
    assert (done.returncode, "squashfuse" in done.stderr) == (0, True)


def test_in_a_user_namespace_of_the_user_it_has_no_rights(machine: Machine) -> None:
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
def test_the_policy(helper: Machine, policy: str, image: str, outcome: str) -> None:
    folder = helper.folder
    (folder / "trusted").mkdir()
    for name in ("trusted/a.squashfs", "mine.squashfs", "loose.squashfs"):
        shutil.copy(folder / "a.squashfs", folder / name)
    os.chown(folder / "mine.squashfs", NOBODY, NOBODY)
    (folder / "loose.squashfs").chmod(0o666)
    (folder / "link").symlink_to("trusted/a.squashfs")
    (folder / "trusted/link").symlink_to("../a.squashfs")
    machine = dataclasses.replace(helper, policy=policy)
    done = machine.run(*mount(f"{image}:{_POINT}"), "true")
    expected = {"yes": [], "no": ["not-permitted"], "bad": ["invalid-value"]}[outcome]
    assert reasons(done) == expected
    _assert_free(folder / Path(image).name)


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
def test_a_policy_that_is_not_roots_alone(helper: Machine, change: str) -> None:
    machine = dataclasses.replace(helper, policy="mount-point = /user-environment\n")
    line = " ".join([*mount(_IMAGE), "true"])
    user = f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups"
    script = f"cd /etc/stackproof; {change}; cd /test; exec {user} {line}"
    done = machine.run("sh", "-c", script, user=0)
    assert (done.returncode, reasons(done)) == (4, ["not-permitted"])


def test_a_site_without_squashfuse(helper: Machine) -> None:
    need("squashfuse", "fuse", "unprivileged-userns")
    policy = "mount-point = /user-environment\nunprivileged = no\n"
    machine = dataclasses.replace(helper, policy=policy)
    done = machine.run(*mount(_IMAGE, "--way=userns"), "true")
    assert reasons(done) == ["not-permitted"]
    assert machine.run(*mount(_IMAGE), "true").returncode == 0


def test_root_is_not_bound_by_the_list(helper: Machine) -> None:
    (helper.folder / "place").mkdir()
    done = helper.run(*mount("a.squashfs:/test/place"), "ls", "/test/place", user=0)
    assert done.returncode == 0, done.stderr
    done = helper.run(*mount("a.squashfs:/etc"), "true", user=0)
    assert reasons(done) == ["bad-mount-point"]
