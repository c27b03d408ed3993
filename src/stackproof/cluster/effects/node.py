"""What runs inside a cluster: the first processes of its head and nodes, and a small probe.

    python -I -S node.py head SOCKET FOLDER     first process of the head
    python -I -S node.py node SOCKET REPORT     first process of a node
    python -I -S node.py share PATH…            make paths below the outer /tmp visible
    python -I -S node.py root FOLDER POINT…     make mount points that the root folder lacks
    python -I -S node.py echo                   answer UDP packets on a port it prints
    python -I -S node.py probe ADDRESS PORT     print round-trip times, us, as JSON

The file imports little, since each start of it is part of the time that a cluster takes to come up.
`stackproof.cluster.effects.up` starts it.

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

if __name__ == "__main__":  # run by its path, with `-I`: the package is around this file
    sys.path.insert(0, __file__.rsplit("/", 4)[0])

from stackproof.core.effects import libc

if False:  # for type checkers; `typing` costs time at each start
    from collections.abc import Callable
    from typing import Any, NoReturn

OUTER = "/tmp/.outer"  # noqa: S108 - inside the cluster's own /tmp
"""Where the head and the nodes see the /tmp of the machine."""

_KEEP = "/dev/shm/keep"  # noqa: S108 - the node's own, in its namespace
_MESSAGE_BYTES = 1 << 20
_MEMORY, _TREE, _NO_PROGRAMS = libc.MS_NOSUID | libc.MS_NODEV, libc.MS_BIND | libc.MS_REC, 8
_CREDENTIALS = struct.Struct("iII")
_PROBES = 200
_PROBE_BUDGET_S, _PROBE_LOST_S = 0.5, 5.0


class SetupError(Exception):
    """Why the head or a node could not be set up."""


# ------------------------------------------------------------------------------------ the own view


def make_own_view(name: str, shared: list[tuple[str, str]]) -> list[str]:
    """Give these namespaces a hostname, /dev/shm, /tmp and /sys of their own; return notes.

    `shared` are paths, each with what it is without links. Raises `OSError`.
    """
    notes: list[str] = []
    socket.sethostname(name)
    libc.mount("stackproof", "/dev/shm", "tmpfs", _MEMORY, "mode=1777")  # noqa: S108 - the node's own, in its namespace
    try:
        _own_sys()
    except OSError as error:
        # Containers often forbid it. Then programs see the machine's network interfaces in /sys.
        notes.append(f"{name}: /sys is the machine's ({error.strerror})")
    _own_tmp()
    for path, real in shared:
        share(path, real)
    return notes


def _own_sys() -> None:
    """Mount the sysfs of this network namespace, with the machine's control groups in it."""
    groups = "/sys/fs/cgroup"
    os.mkdir(_KEEP)
    try:
        libc.mount(groups, _KEEP, None, _TREE)
        try:
            libc.mount("sysfs", "/sys", "sysfs", _MEMORY | _NO_PROGRAMS)
            libc.mount(_KEEP, groups, None, _TREE)
        finally:
            libc.detach(_KEEP)
    finally:
        os.rmdir(_KEEP)


def _own_tmp() -> None:
    """Mount an empty /tmp and keep the machine's below it.

    A node of a real cluster has its own, and launchers rely on it: PRRTE's daemons name their
    session folder by their pid, and two nodes have the same pids.
    """
    outer = OUTER if os.path.isdir(OUTER) else "/tmp"  # noqa: S108 - the node's own, in its namespace
    os.mkdir(_KEEP)
    libc.mount(outer, _KEEP, None, _TREE)
    libc.mount("stackproof", "/tmp", "tmpfs", _MEMORY, "mode=1777")  # noqa: S108 - the node's own, in its namespace
    os.mkdir(OUTER)
    libc.mount(_KEEP, OUTER, None, _TREE)
    libc.detach(_KEEP)
    os.rmdir(_KEEP)


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
    libc.mount(source, path, None, _TREE)


def own_etc(files: dict[str, str]) -> None:
    """Have these files (by their path below /etc) here and on nodes started later.

    An overlay on /etc: a bind mount on one file is dropped silently when somebody on the machine
    renames a new file over it. What is mounted below /etc (containers mount such files) would be
    hidden by the overlay; where all files are there already they are bound one by one then, else
    those mounts are bound again onto the overlay. Raises `OSError`, `SetupError`.
    """
    folder = _KEEP
    os.mkdir(folder)
    libc.mount("stackproof", folder, "tmpfs", _MEMORY, "mode=0755")
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
                libc.mount(f"{folder}/upper/{name}", f"/etc/{name}", None, libc.MS_BIND)
        elif not exist:
            kept = [path for path in mounted if path.removeprefix("/etc/") not in files]
            _overlay_below(kept, f"{folder}/mounted", options)
    finally:
        libc.detach(folder)  # what was made from it keeps it
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
        libc.mount(path, kept, None, _TREE)
    if not _try_overlay("/etc", options):
        raise SetupError("this kernel makes no overlay on /etc, where Slurm's configuration goes")
    for number, path in enumerate(mounted):
        libc.mount(f"{folder}/{number}", path, None, _TREE)


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
        libc.mount("stackproof", target, "overlay", 0, options)
    except OSError:  # an old kernel without rights, or too many layers already
        return False
    return True


def own_memory(path: str | None) -> None:
    """Mount an empty folder of memory at a path, made where it is missing; raises `OSError`."""
    if path:
        os.makedirs(path, mode=0o755, exist_ok=True)
        libc.mount("stackproof", path, "tmpfs", _MEMORY, "mode=0755")


def own_root(points: list[str]) -> list[str]:
    """Have these mount points here and on nodes started later; return notes where that fails.

    A program does it, whose end lets go of all that a half-made root holds.
    """
    os.mkdir(_KEEP)
    argv = [sys.executable, "-I", "-S", __file__, "root", _KEEP, *points]
    done = subprocess.run(argv, stderr=subprocess.PIPE, text=True, check=False)  # noqa: S603 - this Python and this file
    if done.returncode == 0:
        return []
    return [f"{' and '.join(points)} cannot be made here: {done.stderr.strip()}"]


def renew_root(folder: str, points: list[str]) -> None:
    """Give this mount namespace a root folder with mount points in it that the machine's own lacks.

    One that shows all that the machine's shows, and the points, takes the old one's place for every
    process of the namespace (pivot_root(2)). Nothing changes on the machine; what is in its root
    later is not seen. The folder is an empty one, used meanwhile. Raises `OSError`.
    """
    missing = [point for point in points if not os.path.isdir(point)]
    if not missing:
        return
    libc.mount("stackproof", folder, "tmpfs", _MEMORY, "mode=0755,size=4m")
    with os.scandir("/") as entries:
        for entry in entries:
            made = f"{folder}/{entry.name}"
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), made)
                continue
            if entry.is_dir():
                os.mkdir(made)
            else:
                os.close(os.open(made, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
            libc.mount(entry.path, made, None, _TREE)
    for point in missing:
        os.makedirs(folder + point)
    os.chdir(folder)
    libc.pivot_root(".", ".")
    libc.detach(".")  # the old root, which lies over the new one: pivot_root(2), "Notes"
    os.chdir("/")
    libc.detach(folder)  # the copy of the folder in what was bound from the old root
    os.rmdir(folder)


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


def _set(name: str, text: str) -> None:
    with suppress(OSError), open(f"/proc/sys/{name}", "w", encoding="utf-8") as stream:
        stream.write(text)  # not every kernel has it


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
    notes += own_root(settings["points"]) if settings["points"] else []
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
    common = {key: settings[key] for key in ("shared", "ip")}
    send(ours, {"name": name, **common, **settings["nodes"][name]})
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
    _set("kernel/ns_last_pid", "9999")  # MPICH over shm ends at the pids 99 and 100 (K89)
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
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if signal.sigwait(awaited) == signal.SIGTERM:
            os._exit(0)


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


def main(words: list[str]) -> None:
    """Do what the module's docstring says."""
    match words:
        case ["head", number, _]:
            link = socket.socket(fileno=int(number))
            guarded(link, "head", lambda: run_head(link))
        case ["node", number, report_number]:
            link, report = (socket.socket(fileno=int(word)) for word in (number, report_number))
            guarded(report, "node", lambda: run_node(link, report))
        case ["share", *paths]:
            for path, real in zip(paths[::2], paths[1::2], strict=True):
                share(path, real)
        case ["root", folder, *points]:
            try:
                renew_root(folder, points)
            except OSError as problem:
                sys.exit(f"{problem.filename}: {problem.strerror}")
        case ["echo"]:
            run_echo()
        case ["probe", address, port]:
            run_probe(address, int(port))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
