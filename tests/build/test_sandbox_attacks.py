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
import subprocess
import sys
from pathlib import Path

import pytest

import everybody
from need import as_unprivileged, need

# Another run of pytest closes the folder of all runs again, in which a Python for everybody lies.
pytestmark = pytest.mark.in_turn

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
_TIMEOUT_S = 120
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
    done = run.run(Command(argv=shell, sandbox=box, cwd=None if box else folder))
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
    for part in (folder, *folder.parents[:2]):  # pytest makes its own for the tests' user alone
        part.chmod(part.stat().st_mode | 0o055)
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


@pytest.fixture(scope="module")
def results(program: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, int]]:
    """Run all attacks once for each kind of user, when the first one is asked for."""
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
    found = {}
    for kind, (start, interpreter) in ways.items():
        folder = tmp_path_factory.mktemp(kind)
        for part in (folder, *folder.parents[:2]):
            part.chmod(part.stat().st_mode | 0o055)
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
