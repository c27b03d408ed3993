"""What runs inside a cluster: the first processes of its head and nodes, and a small probe.

    python -I -S node.py head SOCKET FOLDER     first process of the head
    python -I -S node.py node SOCKET REPORT     first process of a node
    python -I -S node.py share PATH…            make paths below the outer /tmp visible
    python -I -S node.py echo                   answer UDP packets on a port it prints
    python -I -S node.py probe ADDRESS PORT     print round-trip times, us, as JSON

The file imports nothing but the standard library, and little of that, since each start of it is
part of the time that a cluster takes to come up. `stackproof.cluster.effects.up` starts it.

A cluster comes up by messages on sockets that keep their limits (SOCK_SEQPACKET); the kernel adds
the sender's pid as the receiver sees it, so nobody has to search for pids:

    up   -> head    the settings (JSON)
    head -> node    the node's settings; an empty object when its network is there; the end of the
                    stream when it is to stay
    any  -> up      {"name": …} once it exists, {"error": …} if something fails
    node -> head    {"name": …} at first, {"ready": …} in the end
    head -> up      {"ready": {node: pid as the head sees it}, "notes": […]}
    up   -> head    {"stay": true}; the end of the stream instead makes the head exit, and with it
                    everything, so that an interrupted start leaves nothing
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress

if False:  # for type checkers; `typing` costs time at each start
    from collections.abc import Callable
    from typing import Any, NoReturn

OUTER = "/tmp/.outer"  # noqa: S108 - inside the cluster's own /tmp
"""Where the head and the nodes see the /tmp of the machine."""

_MESSAGE_BYTES = 1 << 20
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_BIND, _MS_REC = 2, 4, 8, 4096, 16384
_MNT_DETACH = 2
_CREDENTIALS = struct.Struct("iII")
_PROBES = 200
_PROBE_BUDGET_S, _PROBE_LOST_S = 0.5, 5.0

_libc = ctypes.CDLL(None, use_errno=True)


class SetupError(Exception):
    """Why the head or a node could not be set up."""


def mount(
    source: str | None, target: str, kind: str | None, flags: int, options: str | None = None
) -> None:
    """Do what the system call of this name does; raises `OSError`."""
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind)]
    data = None if options is None else os.fsencode(options)
    if _libc.mount(*words, ctypes.c_ulong(flags), data) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def unmount(target: str) -> None:
    """Take a mount away at once, whoever uses it; raises `OSError`."""
    if _libc.umount2(os.fsencode(target), _MNT_DETACH) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


# ------------------------------------------------------------------------------------ the own view


def make_own_view(name: str, shared: list[tuple[str, str]]) -> list[str]:
    """Give these namespaces a hostname, /dev/shm, /tmp and /sys of their own; return notes.

    `shared` are paths, each with what it is without links. Raises `OSError`.
    """
    notes: list[str] = []
    socket.sethostname(name)
    mount("stackproof", "/dev/shm", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=1777")  # noqa: S108 - the node's own, in its namespace
    try:
        _own_sys("/dev/shm/keep")  # noqa: S108 - the node's own, in its namespace
    except OSError as error:
        # Containers often forbid it. Then programs see the machine's network interfaces in /sys.
        notes.append(f"{name}: /sys is the machine's ({error.strerror})")
    _own_tmp("/dev/shm/keep")  # noqa: S108 - the node's own, in its namespace
    for path, real in shared:
        share(path, real)
    return notes


def _own_sys(keep: str) -> None:
    """Mount the sysfs of this network namespace, with the machine's control groups in it."""
    groups = "/sys/fs/cgroup"
    os.mkdir(keep)
    try:
        mount(groups, keep, None, _MS_BIND | _MS_REC)
        try:
            mount("sysfs", "/sys", "sysfs", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
            mount(keep, groups, None, _MS_BIND | _MS_REC)
        finally:
            unmount(keep)
    finally:
        os.rmdir(keep)


def _own_tmp(keep: str) -> None:
    """Mount an empty /tmp and keep the machine's below it.

    A node of a real cluster has its own, and launchers rely on it: PRRTE's daemons name their
    session folder by their pid, and two nodes have the same pids.
    """
    outer = OUTER if os.path.isdir(OUTER) else "/tmp"  # noqa: S108 - the node's own, in its namespace
    os.mkdir(keep)
    mount(outer, keep, None, _MS_BIND | _MS_REC)
    mount("stackproof", "/tmp", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=1777")  # noqa: S108 - the node's own, in its namespace
    os.mkdir(OUTER)
    mount(keep, OUTER, None, _MS_BIND | _MS_REC)
    unmount(keep)
    os.rmdir(keep)


def share(path: str, real: str) -> None:
    """Show a path of the machine's /tmp at the same path here; raises `OSError`.

    `real` is the path without links, which lead nowhere here. Nothing happens for a path elsewhere,
    for /tmp itself and for what is visible already.
    """
    path = os.path.normpath(path)
    if not path.startswith("/tmp/") or path.startswith(OUTER):  # noqa: S108 - the node's own, in its namespace
        return
    source = OUTER + real.removeprefix("/tmp") if real.startswith("/tmp/") else real  # noqa: S108 - the node's own, in its namespace
    try:
        if os.path.samestat(os.stat(path), os.stat(source)):
            return
    except FileNotFoundError:
        if os.path.isdir(source):
            os.makedirs(path)
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_CLOEXEC, 0o600))
    mount(source, path, None, _MS_BIND | _MS_REC)


def own_etc(files: dict[str, str]) -> None:
    """Have these files (by their path below /etc) here and on nodes started later.

    An overlay on /etc: a bind mount on one file is dropped silently when somebody on the machine
    renames a new file over it. What is mounted below /etc (containers mount such files) would be
    hidden by the overlay; where all files are there already they are bound one by one then, else
    those mounts are bound again onto the overlay. Raises `OSError`, `SetupError`.
    """
    folder = "/dev/shm/keep"  # noqa: S108 - the node's own, in its namespace
    os.mkdir(folder)
    mount("stackproof", folder, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0755")
    try:
        for name in ("upper", "work", "mounted"):
            os.mkdir(f"{folder}/{name}")
        os.chmod(f"{folder}/upper", 0o755)  # noqa: S103 - it becomes /etc
        for name, text in files.items():
            _write_below(f"{folder}/upper", name, text)
        options = f"lowerdir=/etc,upperdir={folder}/upper,workdir={folder}/work"
        mounted = mounted_below("/etc/")
        exist = all(os.path.exists(f"/etc/{name}") for name in files)
        if exist and (mounted or not _try_overlay("/etc", options)):
            for name in files:
                mount(f"{folder}/upper/{name}", f"/etc/{name}", None, _MS_BIND)
        elif not exist:
            kept = [path for path in mounted if path.removeprefix("/etc/") not in files]
            _overlay_below(kept, f"{folder}/mounted", options)
    finally:
        unmount(folder)  # what was made from it keeps it
        os.rmdir(folder)


def _write_below(folder: str, name: str, text: str) -> None:
    path = f"{folder}/{name}"
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as stream:
        stream.write(text)
    os.chmod(path, 0o644)


def _overlay_below(mounted: list[str], folder: str, options: str) -> None:
    """Put the overlay on /etc under what is mounted there."""
    for number, path in enumerate(mounted):
        kept = f"{folder}/{number}"
        if os.path.isdir(path):
            os.mkdir(kept)
        else:
            _write_below(folder, str(number), "")
        mount(path, kept, None, _MS_BIND | _MS_REC)
    if not _try_overlay("/etc", options):
        raise SetupError("this kernel makes no overlay on /etc, where Slurm's configuration goes")
    for number, path in enumerate(mounted):
        mount(f"{folder}/{number}", path, None, _MS_BIND | _MS_REC)


def mounted_below(prefix: str) -> list[str]:
    """Return the places below a folder where something is mounted, the inner ones left out."""
    found: list[str] = []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as stream:
        for line in stream:
            # The kernel writes blanks, tabs, newlines and backslashes as octal numbers.
            place = re.sub(r"\\([0-7]{3})", lambda m: chr(int(m[1], 8)), line.split(" ")[4])
            if place.startswith(prefix) and not place.startswith(tuple(f"{p}/" for p in found)):
                found += [] if place in found else [place]
    return found


def _try_overlay(target: str, options: str) -> bool:
    try:
        mount("stackproof", target, "overlay", 0, options)
    except OSError:  # an old kernel without rights, or too many layers already
        return False
    return True


def own_memory(path: str | None) -> None:
    """Mount an empty folder of memory at a path, made where it is missing; raises `OSError`."""
    if path:
        os.makedirs(path, mode=0o755, exist_ok=True)
        mount("stackproof", path, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=0755")


def own_root(points: list[str]) -> list[str]:
    """Have these mount points here and on nodes started later; return notes where that fails."""
    if not points:
        return []
    folder, program = "/dev/shm/keep", os.path.join(os.path.dirname(__file__), "root.py")  # noqa: S108 - the node's own, in its namespace
    os.mkdir(folder)
    argv = [sys.executable, "-I", "-S", program, folder, *points]
    done = subprocess.run(argv, stderr=subprocess.PIPE, text=True, check=False)  # noqa: S603 - this Python and a file beside this one
    if done.returncode == 0:
        return []
    return [f"{' and '.join(points)} cannot be made here: {done.stderr.strip()}"]


def pin(group: str | None, core: int | None) -> None:
    """Stay on one core, with everything started from here: by a control group or by affinity.

    A launcher can bind itself out of an affinity, but not out of a group. Raises `OSError`.
    """
    if group:
        with open(f"{group}/cgroup.procs", "w", encoding="ascii") as stream:
            stream.write("0")  # the writer itself, see cgroups(7)
    elif core is not None:
        os.sched_setaffinity(0, {core})


def no_ipv6() -> None:
    """Switch IPv6 off in this network namespace: its discovery is traffic nobody asked for."""
    for which in ("all", "default"):
        _set(f"net/ipv6/conf/{which}/disable_ipv6", "1")


def long_pids() -> None:
    """Have processes numbered from 10000 on: MPICH over shm ends at 99 and 100 (K89)."""
    _set("kernel/ns_last_pid", "9999")


def _set(name: str, text: str) -> None:
    with (
        suppress(OSError),
        open(f"/proc/sys/{name}", "w", encoding="utf-8") as stream,
    ):  # not every kernel has it
        stream.write(text)


def ip_batch(program: str, lines: list[str]) -> None:
    """Run `ip -batch` on lines; raises `SetupError` with what it said."""
    done = subprocess.run(  # noqa: S603 - the ip(8) that was found; its words are on its input
        [program, "-batch", "-"], input="\n".join(lines) + "\n", text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        said = " ".join(line for line in done.stdout.splitlines() if line.strip())
        raise SetupError(f"cannot set up the network: {said}")


# ------------------------------------------------------------------------------- the first process


def send(link: socket.socket, message: dict[str, Any]) -> None:
    """Send one message."""
    link.send(json.dumps(message).encode())


def receive(link: socket.socket) -> dict[str, Any]:
    """Wait for a message and return it; empty at the end of the stream."""
    data = link.recv(_MESSAGE_BYTES)
    return dict(json.loads(data)) if data else {}


def receive_text_with_pid(link: socket.socket) -> tuple[str, int]:
    """Wait for text and return it with the sender's pid as this process sees it (0: none)."""
    data, control, _, _ = link.recvmsg(_MESSAGE_BYTES, socket.CMSG_SPACE(_CREDENTIALS.size))
    pid = 0
    for level, kind, content in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS:
            pid = _CREDENTIALS.unpack(content)[0]
    return data.decode(errors="replace"), pid


def receive_with_pid(link: socket.socket) -> tuple[dict[str, Any], int]:
    """Wait for a message and return it with the sender's pid as this process sees it."""
    text, pid = receive_text_with_pid(link)
    return (dict(json.loads(text)) if text else {}), pid


def run_head(link: socket.socket) -> NoReturn:
    """Be the first process of the head: start the nodes, join them, then keep house."""
    settings = receive(link)
    if not settings:
        sys.exit(1)
    send(link, {"name": "head"})
    notes = make_own_view("head", settings["shared"])
    own_etc(settings["etc"])
    own_memory(settings["memory"])
    notes += own_root(settings["points"])
    links = {name: _start_node(name, settings, link) for name in settings["nodes"]}
    no_ipv6()
    pids = {name: receive_with_pid(node)[1] for name, node in links.items()}
    if not all(pids.values()):
        raise SetupError("a node ended before it was set up")
    lines: list[str] = settings["network"]
    for name, pid in pids.items():
        lines = [line.replace(f"@{name}@", str(pid)) for line in lines]
    ip_batch(settings["ip"], lines)
    for node in links.values():
        send(node, {})
    for node in links.values():
        notes += receive(node).get("ready", [])
    send(link, {"ready": pids, "notes": notes})
    if not receive(link):
        sys.exit(1)
    for node in links.values():
        node.close()  # what a node waits for; a message to one that has died would be an error
    keep_house(link)


def _start_node(name: str, settings: dict[str, Any], report: socket.socket) -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    subprocess.Popen(  # noqa: S603 - this Python and this file, unshared
        [
            *settings["unshare"], sys.executable, "-I", "-S", __file__,
            "node", str(theirs.fileno()), str(report.fileno()),
        ],
        pass_fds=(theirs.fileno(), report.fileno()),
    )  # fmt: skip
    theirs.close()
    node = {
        "name": name,
        "shared": settings["shared"],
        "ip": settings["ip"],
        **settings["nodes"][name],
    }
    send(ours, node)
    return ours


def run_node(link: socket.socket, report: socket.socket) -> NoReturn:
    """Be the first process of a node."""
    settings = receive(link)
    name = settings["name"]
    for listener in (report, link):
        send(listener, {"name": name})
    pin(settings["group"], settings["core"])
    notes = make_own_view(name, settings["shared"])
    own_memory(settings["memory"])
    no_ipv6()
    long_pids()
    receive(link)
    ip_batch(settings["ip"], settings["network"])
    send(link, {"ready": notes})
    receive(link)  # until its end
    report.close()
    keep_house(link)


def keep_house(link: socket.socket) -> NoReturn:
    """Reap every process that has lost its parent, until this one is killed or told to end."""
    link.close()
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    awaited = {signal.SIGCHLD, signal.SIGTERM}
    # Blocked from here on, so that no child can end unseen between the look and the wait.
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    while True:
        _reap()
        if signal.sigwait(awaited) == signal.SIGTERM:
            os._exit(0)


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def guarded(report: socket.socket, what: str, work: Callable[[], NoReturn]) -> NoReturn:
    """Do the work of a first process; a failure is reported, then everything ends."""
    try:
        work()
    except SetupError as error:
        send(report, {"error": f"{what}: {error}"})
    except OSError as error:
        send(report, {"error": f"{what}: {error.filename}: {error.strerror}"})
    sys.exit(1)


# --------------------------------------------------------------------------------------- the probe


def run_echo() -> NoReturn:
    """Send every UDP packet back, until one says `end` or nothing has come for a while."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("", 0))
    sys.stdout.write(f"{server.getsockname()[1]}\n")
    sys.stdout.flush()
    server.settimeout(_PROBE_LOST_S)
    while True:
        try:
            data, sender = server.recvfrom(64)
        except TimeoutError:
            sys.exit(0)
        server.sendto(data, sender)
        if data == b"end":
            sys.exit(0)


def run_probe(address: str, port: int) -> None:
    """Print the round-trip times of small packets, in us, as a JSON list."""
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    client.connect((address, port))
    client.setblocking(False)
    times: list[float] = []
    end = time.monotonic() + _PROBE_BUDGET_S
    while len(times) < _PROBES and (len(times) < 10 or time.monotonic() < end):
        begin = time.perf_counter_ns()
        client.send(b"probe")
        if not _answered(client, begin + int(_PROBE_LOST_S * 1e9)):
            break
        times.append((time.perf_counter_ns() - begin) / 1000)
    client.send(b"end")
    sys.stdout.write(json.dumps(times[len(times) // 10 :]))


def _answered(client: socket.socket, until_ns: int) -> bool:
    """Wait for an answer without sleeping at first: a sleep costs more than a short delay."""
    busy_until = time.perf_counter_ns() + 200_000
    while time.perf_counter_ns() < until_ns:
        try:
            return bool(client.recv(64))
        except BlockingIOError:
            if time.perf_counter_ns() > busy_until:
                select.select([client], [], [], 0.5)
    return False


def _socket(word: str) -> socket.socket:
    return socket.socket(fileno=int(word))


def main(words: list[str]) -> None:
    """Do what the module's docstring says."""
    match words:
        case ["head", number, _]:
            link = _socket(number)
            guarded(link, "head", lambda: run_head(link))
        case ["node", number, report_number]:
            link, report = _socket(number), _socket(report_number)
            guarded(report, "node", lambda: run_node(link, report))
        case ["share", *paths]:
            for path, real in zip(paths[::2], paths[1::2], strict=True):
                share(path, real)
        case ["echo"]:
            run_echo()
        case ["probe", address, port]:
            run_probe(address, int(port))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
