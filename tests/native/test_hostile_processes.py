"""A hostile user and the helper's process: environment, descriptors, limits, tracing, signals."""

from __future__ import annotations

import os
import subprocess

import pytest

from machine import (
    HELPER,
    NOBODY,
    as_attacker,
    assert_free,
    mount,
    reasons,
)
from need import need

pytestmark = [
    pytest.mark.machine,
    pytest.mark.guarantee(
        "The mount helper",
        "It listens to nobody while it has rights.",
        "The environment is not read. The process cannot be traced, its memory and "
        "descriptors cannot be read, and it leaves no core. Started by a tracer, it has no "
        "rights.",
    ),
]

_POINT = "/user-environment"
_PYTHON = "/usr/bin/python3"
_IMAGE = f"a.squashfs:{_POINT}"


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


def test_variables_of_the_loader(helper):
    """They have no effect on the helper; passed on by its prefix, they have on the command."""
    need("gcc")
    folder = helper.folder / "mine"
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    source, library = helper.folder / "evil.c", helper.folder / "libc.so.6"
    source.write_text(_EVIL_LIBRARY)
    argv = ["gcc", "-shared", "-fPIC", "-o", library, source]
    subprocess.run(argv, check=True, capture_output=True, timeout=600)
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
def test_closed_standard_descriptors(helper, closed):
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
def test_resource_limits_of_zero(helper, limit):
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
    assert_free(helper.folder / "a.squashfs")


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
end = time.monotonic() + 600
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


def test_tracing(helper):
    """With rights it cannot be traced; started by a tracer it has none."""
    lines = as_attacker(helper, _TRACE).stdout.splitlines()
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


@pytest.mark.guarantee(
    "The mount helper",
    "It leaves nothing.",
    "The kernel frees loop devices with their last user, and mounts with the last process "
    "of the namespace, whatever signal ends it (Linux before 5.8: see SECURITY.md). A "
    "file takes one loop device, however many mount it; devices made for a rush go back "
    "to the kernel when the next image is mounted.",
)
def test_signals_at_every_moment(helper):
    done = as_attacker(helper, _KILL)
    assert int(done.stdout) >= 10  # of 200, so many were hit before they became the command
    assert_free(helper.folder / "a.squashfs")
