"""What a hostile build step tries against its sandbox, one case each, whoever builds.

`tests/csrc/sandboxed.c` has the attacks. Root builds in many containers and wherever a cluster is
tried out, and owns what bubblewrap takes along from the host, so every case runs as root, as a user
without rights, the same with a bubblewrap before 0.8, and as root where no user namespace can be
made.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import everybody
from need import as_unprivileged, need
from stackproof.core.effects import seccomp

pytestmark = [
    pytest.mark.guarantee(
        "The sandbox of build steps",
        "What root owns is read-only even where a mount is not",
        ": the device nodes that are lent to it and bubblewrap's own program, whose modes "
        "their owner could change.",
    ),
]

# Another run of pytest closes the folder of all runs again, in which a Python for everybody lies.

SOURCE = Path(__file__).parents[1] / "csrc" / "sandboxed.c"
ATTACKS = re.findall(
    r"\bA\((\w+)\)", SOURCE.read_text().partition("#define A(call)")[2].partition("\n")[2]
)
KINDS = ("root", "user", "user-old-bubblewrap", "root-without-namespaces")
# A machine on which these succeed without a sandbox shows that the attacks are attacks.
_WORK_OUTSIDE = {
    "mount_tmpfs", "mount_bind", "new_mount", "cloned_tree",
    "by_handle", "left_by_chroot", "unshare_user", "unshare_mounts", "clone_user",
    "clone_user_and_mounts", "node_null", "open_kernel_messages", "real_time",
    "become_another", "any_capability", "privileges", "give_away",
    "read_private", "write_closed", "linked", "mode_of_null",
    "see_password_file", "core_pattern", "raw_socket", "signal_word", "traced",
    "outside_folder", "connect_word", "connected_by_name", "shared_memory", "found_key", "see_word",
}  # fmt: skip
_TIMEOUT_S = 600
_OLD_BUBBLEWRAP = """#!/bin/sh
case " $* " in *" --disable-userns "*) echo "bwrap: Unknown option" >&2; exit 1 ;; esac
exec %s "$@"
"""
# Keeps what is attacked: a process, doors, memory and a key of the same user, outside.
_DRIVER = """
import ctypes, json, os, socket, subprocess, sys, time
from stackproof.core.command import Bind, Command, Sandbox
from stackproof.core.effects import run

program, folder, names = sys.argv[1], sys.argv[2], sys.argv[3].split(",")
libc = ctypes.CDLL(None, use_errno=True)
assert libc.syscall(250, 1, None) > 0  # keyctl: a session keyring of its own
assert libc.syscall(248, b"user", b"secret", b"s", 1, -3) > 0  # add_key
door = socket.create_server(("127.0.0.1", 0))
named = socket.socket(socket.AF_UNIX)
named.bind("\\0doors" + str(os.getpid()))
named.listen()
key = os.getpid()
memory = libc.shmget(key, 4096, 0o1600)
victim = subprocess.Popen(["sleep", "300"])
os.chdir(folder)
for part in ("closed", "out"):
    os.makedirs(part)
for path in ("closed/file", "closed/private", "out/mine"):
    open(path, "w").close()
try:
    os.chown("closed/private", 4343, 4343)
except OSError:
    pass
os.chmod("closed/private", 0o600 if os.stat("closed/private").st_uid == 4343 else 0)
words = {"see_word": folder, "connect_word": door.getsockname()[1], "shared_memory": key,
         "connected_by_name": "doors" + str(os.getpid()), "found_key": "secret"}
words |= dict.fromkeys(
    ("signal_word", "handle_of_word", "traced", "read_memory", "outside_folder"), victim.pid)
inside = sys.argv[4] == "inside"
bare = "" if inside else "unshare --mount --uts --propagation private "
tool = "/attack" if inside else program
lines = [f"{bare}{tool} {name} {words.get(name, '')}; echo {name} $?" for name in names]
links = {p: os.readlink(p) for p in ("/bin", "/lib", "/lib64", "/sbin") if os.path.islink(p)}
binds = [Bind(source=p, target=p) for p in ("/usr", "/bin", "/lib", "/lib64")
         if os.path.exists(p) and p not in links]
binds += [Bind(source=program, target="/attack"),
          Bind(source=folder + "/closed", target="/closed"),
          Bind(source=folder + "/out", target="/out", writable=True)]
box = Sandbox(binds=tuple(binds), links=links) if inside else None
shell = ("sh", "-c", chr(10).join(lines))
try:
    done = run.run(
        Command(argv=shell, sandbox=box, cwd=None if box else folder, timeout_s=100.0)
    )  # an attack that hangs is then the one that is not in the list
finally:
    victim.kill()
    victim.wait()
    libc.shmctl(memory, 0, None)
rows = [line.split() for line in done.stdout.decode().splitlines()]
print(json.dumps({"found": dict(rows), "said": done.stderr.decode()}))
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("gcc")
    folder = tmp_path_factory.mktemp("attacks")
    target = folder / "sandboxed"
    options = ("-O1", "-std=gnu11", "-Wall", "-Wextra", "-Werror")
    subprocess.run(["gcc", *options, "-o", target, SOURCE], check=True, timeout=_TIMEOUT_S)
    everybody.open_way(folder)
    return target


def attacked(
    start: list[str], python: str, program: Path, folder: Path, names: list[str], where: str
) -> dict[str, int]:
    """Return what attacks ended with: 0, or why they failed."""
    words = [os.fspath(program), os.fspath(folder), ",".join(names), where]
    done = subprocess.run(
        [*start, python, "-B", "-c", _DRIVER, *words], cwd="/",
        capture_output=True, timeout=_TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    told = json.loads(done.stdout)
    assert set(told["found"]) == set(names), told["said"]
    return {name: int(code) for name, code in told["found"].items()}


Ways = dict[str, tuple[list[str], str]]


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Ways:
    """Return the words that start a Python as each kind of user."""
    need("bubblewrap", "userns")
    old = tmp_path_factory.mktemp("old") / "bwrap"
    old.write_text(_OLD_BUBBLEWRAP % shutil.which("bwrap"))
    old.chmod(0o755)
    outdated = ["env", f"PATH={old.parent}:/usr/bin:/bin"]
    ways = {"user": ([], sys.executable), "user-old-bubblewrap": (outdated, sys.executable)}
    if os.geteuid() == 0:
        need("unprivileged-userns")
        old.parent.chmod(0o755)
        without = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
                   'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"', "sh"]  # fmt: skip
        python, _ = everybody.python(tmp_path_factory.mktemp("everybody"))
        ways = {kind: (as_unprivileged(start), python) for kind, (start, _) in ways.items()}
        ways |= {"root": ([], sys.executable), "root-without-namespaces": (without, sys.executable)}
    return ways


@pytest.fixture(scope="module")
def results(
    ways: Ways, program: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, int]]:
    """Run all attacks once for each kind of user, when the first one is asked for."""
    found = {}
    for kind, (start, interpreter) in ways.items():
        folder = tmp_path_factory.mktemp(kind)
        everybody.open_way(folder)
        folder.chmod(0o777)
        found[kind] = attacked(start, interpreter, program, folder, ATTACKS, "inside")
    return found


# There the step is root from the start, and it is no right any more.
_CASES = [
    (kind, attack)
    for kind in KINDS
    for attack in ATTACKS
    if (kind, attack) != ("root-without-namespaces", "become_root")
]


@pytest.mark.guarantee(
    "The sandbox of build steps",
    "The first process of a sandbox tells nothing of the caller and cannot be stopped.",
    "Tried: its variables, words, memory, descriptors and limits, ptrace, signals.",
)
@pytest.mark.guarantee(
    "The sandbox of build steps",
    "A step has no capability and can make no user namespace",
    ", whoever builds: also as root, also where no user namespace can be made, also with "
    "a bubblewrap before 0.8. It cannot mount, remount, make device nodes, load modules, "
    "change the kernel's settings, trace or see a process outside, reach its files, or "
    "type into a terminal. Tried: about 170 attacks, each as root, as a user, and in the "
    "two cases just named.",
)
@pytest.mark.battery
@pytest.mark.parametrize(("kind", "attack"), _CASES)
def test_attack_fails(kind: str, attack: str, results: dict[str, dict[str, int]]) -> None:
    if kind not in results:
        need("root")
    assert results[kind][attack] not in {0, 126, 127, 255}  # done; or never tried


def test_the_attacks_are_attacks(program: Path, tmp_path: Path) -> None:
    need("root")
    names = sorted(_WORK_OUTSIDE)
    found = attacked([], sys.executable, program, tmp_path, names, "outside")
    assert {name: code for name, code in found.items() if code != 0} == {}


# ------------------------------------------------------- docs/explanation/build-sandbox.md, from inside

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "build-sandbox.md").read_text()
_LOOK = """
import json, os, socket
proc = [f"/proc/{name}" for name in os.listdir("/proc") if not name.isdigit()]
def refused(path, flags):
    try:
        os.close(os.open(path, flags | os.O_NONBLOCK))
    except OSError:
        return True
    return False
def family(number, kind):
    try:
        socket.socket(number, kind).close()
    except OSError as error:
        return error.errno != 97
    return True
settings = [os.path.join(f, n) for f, _, names in os.walk("/proc/sys") for n in names]
files = [path for path in proc if not os.path.isdir(path) and not os.path.islink(path)]
print(json.dumps({
    "Files": os.listdir("/"), "etc": os.listdir("/etc"), "Devices": os.listdir("/dev"),
    "first": os.listdir("/proc/1"), "Variables": list(os.environ),
    "processes": len([name for name in os.listdir("/proc") if name.isdigit()]),
    "unreadable": [os.path.basename(p) for p in files if refused(p, os.O_RDONLY)],
    "writable": [p for p in settings + files if not refused(p, os.O_WRONLY)],
    "Sockets": [n for n in range(64) if any(family(n, k) for k in (1, 2, 3, 5))],
    "there": [os.path.basename(path) for path in proc],
    "open": [n for n in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{n}")],
}))
"""
_START = """
import sys
from stackproof.build.effects import visible
from stackproof.core.command import Command, Sandbox
from stackproof.core.effects import run
binds, links = visible.system(network=False)
box = Sandbox(binds=tuple(binds), links=links, scratch=("/tmp",))
done = run.run(Command(argv=("/usr/bin/python3", "-I", "-S", "-c", sys.argv[1]), sandbox=box))
sys.stderr.buffer.write(done.stderr)
sys.stdout.buffer.write(done.stdout)
"""


def listed(section: str) -> set[str]:
    """Return the words of the first column of a section's table."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    assert rows
    return {word for row in rows for word in re.findall(r"`([^`]+)`", row)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_step_reaches_what_the_page_lists(kind: str, ways: Ways) -> None:
    if kind not in ways:
        need("root")
    start, python = ways[kind]
    done = subprocess.run(
        [*start, python, "-B", "-c", _START, _LOOK], cwd="/", env={**os.environ, "SECRET": "x"},
        capture_output=True, timeout=_TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    seen = json.loads(done.stdout)
    prefixes = {f"/{path.split('/')[1]}" for path in (python, sys.base_prefix, sys.prefix)}
    prefixes |= {f"/{os.path.realpath(python).split('/')[1]}"}
    assert {f"/{name}" for name in seen["Files"]} - prefixes <= listed("Files")
    assert {"usr", "etc", "tmp", "proc", "dev"} <= set(seen["Files"])
    assert not {"shadow", "ssh", "ssl", "hosts", "machine-id", "fstab"} & set(seen["etc"])
    assert set(seen["Devices"]) == listed("Devices")
    assert set(seen["Variables"]) - {"PWD", "LC_CTYPE"} == listed("Variables")
    assert seen["processes"] == 2
    assert seen["first"] == []
    closed = listed("Processes and /proc")
    assert set(seen["unreadable"]) == closed & set(seen["there"])
    assert seen["writable"] == []
    families = {getattr(socket, name) for name in listed("Sockets")}
    assert set(seen["Sockets"]) <= families
    assert {socket.AF_UNIX, socket.AF_INET, socket.AF_NETLINK} <= set(seen["Sockets"])
    assert sorted(seen["open"]) == ["0", "1", "2"]


def answer(program: bytes, number: int, arguments: tuple[int, ...] = ()) -> int:
    """Return the answer of a filter to a call on this kind of machine, as linux/filter.h has it."""
    data = struct.pack("<IIQ6Q", number, 0xC000003E, 0, *arguments, *[0] * (6 - len(arguments)))
    at, loaded = 0, 0
    while True:
        code, yes, no, value = struct.unpack_from("=HBBI", program, at * 8)
        at += 1
        if code == 0x06:
            return value
        if code == 0x20:
            loaded = struct.unpack_from("<I", data, value)[0]
        else:
            true = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[code]
            at += yes if true else no


@pytest.mark.guarantee(
    "The sandbox of build steps",
    "System calls that no build needs are refused",
    ": io_uring, which works behind the back of any filter, the caller's keys, bpf, perf, "
    "mounting and handles of files. So are sockets of all families but local ones, IP and "
    "the list of interfaces, and all calls of programs for 32 bits. Tried: each call.",
)
def test_the_page_lists_the_calls_that_are_refused() -> None:
    need("gcc")
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers are those of another kind of machine")
    text = subprocess.run(
        ["gcc", "-E", "-dM", "-x", "c", "-"], input="#include <sys/syscall.h>", text=True,
        capture_output=True, timeout=_TIMEOUT_S, check=True,
    ).stdout  # fmt: skip
    names = {
        int(n): name for name, n in re.findall(r"#define __NR_(\w+) (\d+)$", text, re.MULTILINE)
    }
    names |= {467: "open_tree_attr", 443: "quotactl_fd", 447: "memfd_secret"}
    filtered = seccomp.of_a_step("x86_64")
    assert filtered is not None
    allowed = 0x7FFF0000
    local = (socket.AF_INET,)  # else sockets of no family are refused
    refused = {names[n] for n in range(600) if answer(filtered, n, local) != allowed}
    assert refused == listed("System calls")
