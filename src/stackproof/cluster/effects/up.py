"""Clusters on this machine: bring one up, take it down, look at it.

Everything a cluster has lives in the namespaces of its head: processes, interfaces, mounts. So
killing the head's first process is the whole teardown, and whatever way it dies nothing stays
behind but a folder with a state file. `stackproof.cluster.effects.node` is what runs inside.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from stackproof.cluster import model
from stackproof.cluster.effects import cgroups, slurm
from stackproof.cluster.effects import link as cluster_link
from stackproof.cluster.effects import node as cluster_node
from stackproof.cluster.effects.agent import started
from stackproof.cluster.effects.state import (
    STATE_FILE,
    base,
    checked_name,
    describe_owner,
    end_process,
    locked,
    look,
    own_folder,
    refuse_of_root,
    remove,
    write,
)
from stackproof.cluster.model import ClusterNode, ClusterSpec, ClusterState
from stackproof.cluster.slurm import MOUNT_POINTS, PACKAGES, SPOOL, SlurmFacts
from stackproof.core.command import Command
from stackproof.core.effects import cache_kinds, files, libc, shipped
from stackproof.core.effects.run import run
from stackproof.core.effects.sandbox import packages
from stackproof.core.errors import Problem, Reason, StackproofError, fail
from stackproof.core.monitor import Event, Monitor, null_monitor
from stackproof.core.value import replace

_AGENT = "agent"
_LOG = "start.log"
_START_S = 30.0
_STOP_S = 10.0
_CAP_NET_ADMIN, _CAP_SYS_ADMIN = 1 << 12, 1 << 21
NAMESPACES = (
    "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc",
    "--propagation", "private",
)  # fmt: skip


def up(spec: ClusterSpec, monitor: Monitor = null_monitor) -> ClusterState:
    """Bring a cluster up and return its state.

    A cluster of this name that is up with the same nodes, rate and delay is returned as it is;
    one that has lost a node is replaced. Raises `StackproofError`: INVALID_VALUE, FILE_MISSING (a
    shared path), TOOL_MISSING, NO_USER_NAMESPACES, NOT_PERMITTED, DISK_FULL, BUSY (another
    specification is up, or another start is under way) or CLUSTER_FAILED. Nothing is left
    behind then.
    """
    wrong = model.problems(spec) + _missing_paths(spec) + _missing_tools(spec)
    if spec.slurm:
        wrong += slurm.problems(spec.slurm, root=_is_root())
    if wrong:
        raise StackproofError(*wrong)
    begin = time.monotonic()
    with locked(spec.name) as folder:
        current = look(folder)
        if current is not None and not current.faults:
            _same_or_busy(current.spec, spec)
            share(current, spec.shared)
            monitor(Event(what="skipped", name=spec.name, text="is up already"))
            return current
        if current is not None:
            monitor(Event(what="note", name=spec.name, text=f"{current.faults[0]}: starting again"))
        remove(folder)
        monitor(Event(what="started", name=spec.name, text=f"{spec.nodes} nodes", total=spec.nodes))
        try:
            state = _start(spec, folder)
        except BaseException:
            remove(folder)
            raise
        seconds = time.monotonic() - begin
        monitor(Event(what="done", name=spec.name, text="is up", seconds=seconds))
        return state


def down(name: str = "default") -> bool:
    """Take a cluster down with everything in it; return whether there was anything to take down.

    Raises `StackproofError` (NOT_PERMITTED, BUSY, CLUSTER_FAILED).
    """
    with locked(name) as folder:
        existed = remove(folder)
    if not existed and name != ClusterSpec().name:  # who names none does not mean root's
        refuse_of_root(name, "down")
    return existed


def kill(name: str, node: str) -> bool:
    """Kill a node as a lost power supply does; return whether it was alive.

    Raises `StackproofError` (CLUSTER_DOWN, NODE_UNREACHABLE, INVALID_VALUE for the head, BUSY).
    """
    with locked(name):
        state = reach(name)
        target = state.node(node)
        if target.name == model.HEAD:
            raise fail(
                Reason.INVALID_VALUE,
                "the head is what the whole cluster stands on",
                hint=f"stackproof cluster down --name {state.name}; or name a node",
            )
        if target.alive:
            end_process(target.pid)
        return target.alive


def status(name: str = "default") -> ClusterState | None:
    """Return the state of a cluster with dead nodes marked, None when it is not up.

    Raises `StackproofError` (NOT_PERMITTED) when the state folder is not one to trust.
    """
    folder = base() / checked_name(name)
    return look(folder)


def reach(name: str = "default", *, instead: str = "", named: bool = True) -> ClusterState:
    """Return the state of a cluster that is up, whole or not.

    Raises `StackproofError` with the command that helps: CLUSTER_DOWN when it is not up, where
    `instead` says how to do without, and NOT_PERMITTED when it is root's, and was `named`.
    """
    state = status(name)
    if state is None:
        if named:
            refuse_of_root(name, "status")
        raise fail(
            Reason.CLUSTER_DOWN,
            describe_owner(name) or f"the cluster `{name}` is not up",
            hint=f"bring it up: {model.up_command(ClusterSpec(name=name))}{instead}",
        )
    return state


def require(name: str = "default", *, instead: str = "", named: bool = True) -> ClusterState:
    """Return the state of a cluster that is up and whole.

    Raises `StackproofError` as `reach`, and CLUSTER_DOWN for one that has lost a part.
    """
    state = reach(name, instead=instead, named=named)
    if state.faults:
        raise fail(
            Reason.CLUSTER_DOWN,
            f"the cluster `{name}` is broken: {', '.join(state.faults)}",
            hint=f"start it again: {model.up_command(state.spec)}",
        )
    return state


def set_link(state: ClusterState, *, rate: str | None, delay: str | None) -> ClusterState:
    """Give all links of a running cluster another rate and delay (None: unlimited, no delay).

    A change of the rate takes milliseconds; one of the delay a few hundred, since what it comes
    to is measured. Connections stay. Raises `StackproofError` (INVALID_VALUE, TOOL_MISSING,
    CLUSTER_DOWN, CLUSTER_FAILED).
    """
    spec = replace(state.spec, rate=rate, delay=delay)
    wrong = model.problems(spec)
    if wrong:
        raise StackproofError(*wrong)
    with locked(state.name):
        current = require(state.name)
        spec = replace(current.spec, rate=rate, delay=delay)
        changed = cluster_link.shape(current, spec)
        write(changed)
        return changed


def share(state: ClusterState, paths: tuple[str, ...]) -> None:
    """Make paths below /tmp visible on the head and all nodes, which have a /tmp of their own.

    Paths elsewhere are visible anyway and cost nothing. A link is followed here, where it leads
    somewhere. Raises `StackproofError` (FILE_MISSING, CLUSTER_FAILED).
    """
    wanted = tuple(path for path in map(os.path.abspath, paths) if _is_hidden(path))
    if not wanted:
        return
    missing = _missing_paths(replace(state.spec, shared=wanted))
    if missing:
        raise StackproofError(*missing)
    pairs = [word for path in wanted for word in (path, os.path.realpath(path))]
    for node in (state.head, *(node for node in state.nodes if node.alive)):
        argv = (sys.executable, "-I", "-S", cluster_node.__file__, "share", *pairs)
        done = run(Command(argv=model.enter_argv(state, node.name, argv), timeout_s=_START_S))
        if done.returncode != 0:
            raise fail(
                Reason.CLUSTER_FAILED,
                f"cannot make paths of /tmp visible on `{node.name}`",
                detail=done.stderr.decode(errors="replace")[-1000:],
            )


def end_processes(state: ClusterState) -> None:
    """Kill every process on the nodes but their first ones: what a stopped launch may leave.

    With Slurm nothing is done: it ends what belongs to a job that was cancelled.
    """
    if state.slurm:
        return
    for node in state.nodes:
        # kill(2): -1 is every process that may be signalled but the first and the caller itself.
        argv = model.enter_argv(state, node.name, ("sh", "-c", "kill -KILL -1"))
        run(Command(argv=argv, timeout_s=_STOP_S))


# ------------------------------------------------------------------------------------------- start


def _start(spec: ClusterSpec, folder: Path) -> ClusterState:
    own_folder(folder)
    rootless = not _may_administer()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        ours.settimeout(_START_S)
        _spawn_head(theirs, folder, rootless=rootless)
        theirs.close()
        try:
            planned = _planned(spec, folder)
            cluster_node.send(ours, _settings(spec, folder, planned))
            pids, head_pids, notes = _await_ready(ours)
        except OSError as error:
            raise _start_failure(folder, error.strerror or "no answer", rootless) from None
        except cluster_node.SetupError as error:
            raise _start_failure(folder, str(error), rootless) from None
        state = ClusterState(
            spec=replace(spec, rate=None, delay=None),
            slurm=SlurmFacts(version="") if spec.slurm else None,
            folder=os.fspath(folder),
            agent=os.fspath(folder / _AGENT),
            rootless=rootless,
            head=_born(_plan(model.HEAD), pids, {model.HEAD: 1}),
            nodes=tuple(_born(node, pids, head_pids) for node in planned),
            notes=tuple(notes),
        )
        state = cluster_link.shape(state, spec)
        if spec.slurm:
            facts = slurm.start(state, spec.slurm)
            state = replace(state, slurm=facts)
        _write_agent(state)
        write(state)
        cluster_node.send(ours, {"stay": True})
    (folder / _LOG).unlink(missing_ok=True)
    return state


def _spawn_head(link: socket.socket, folder: Path, *, rootless: bool) -> None:
    """Start the head as a child of nobody, so that no caller has to wait for it."""
    user = ("--user", "--map-root-user") if rootless else ()
    argv = (
        "setsid", "--fork", "unshare", *user, *NAMESPACES,
        sys.executable, "-I", "-S", cluster_node.__file__,
        "head", str(link.fileno()), os.fspath(folder),
    )  # fmt: skip
    with files.translate_errors(folder / _LOG), open(folder / _LOG, "wb") as log:
        done = subprocess.run(  # noqa: S603 - this Python and a module of ours
            argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
            pass_fds=(link.fileno(),), env=inner_environment(), check=False,
        )  # fmt: skip
    if done.returncode != 0:
        raise _start_failure(folder, "setsid failed", rootless)


def inner_environment() -> dict[str, str]:
    """Return the environment of a cluster's first processes."""
    return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}


def _planned(spec: ClusterSpec, folder: Path) -> tuple[ClusterNode, ...]:
    """Return the nodes that are to be, with their cores if they are to have one each."""
    names = model.node_names(spec.nodes)
    if not (spec.slurm and spec.slurm.pin):
        return tuple(map(_plan, names))
    cores = sorted(os.sched_getaffinity(0))
    planned = []
    for number, name in enumerate(names):
        core = cores[number % len(cores)]
        group = cgroups.make(folder, name, core)
        planned.append(replace(_plan(name), core=core, group=group))
    return tuple(planned)


def _settings(
    spec: ClusterSpec, folder: Path, planned: tuple[ClusterNode, ...]
) -> dict[str, object]:
    hosts = {"hosts": model.hosts_text(spec.nodes)}
    return {
        "etc": hosts | slurm.files(spec, folder),
        "memory": SPOOL if spec.slurm else None,
        "points": MOUNT_POINTS if spec.slurm else (),
        "shared": [pair for pair in _shared(spec, folder) if _is_hidden(pair[0])],
        "ip": cluster_link.tool("ip"),
        "unshare": [cluster_link.tool("unshare"), *NAMESPACES],
        "network": model.head_network(spec.nodes),
        "nodes": {node.name: model.node_settings(spec, node) for node in planned},
    }


def _shared(spec: ClusterSpec, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield what must be visible inside, and where it is without links, which lead nowhere there.

    That is what was asked for, and what this package itself needs.
    """
    package = Path(cluster_node.__file__).parents[2]
    wanted: list[os.PathLike[str] | str] = [*spec.shared, folder, package, cache_kinds.cache()]
    wanted += map(shipped.root, shipped.KINDS)
    if spec.slurm:
        wanted += slurm.shared(spec.slurm)
    wanted += [sys.prefix, sys.base_prefix, cluster_link.tool("ip"), cluster_link.tool("unshare")]
    with contextlib.suppress(OSError):
        wanted.append(os.getcwd())
    for path in wanted:
        real = os.path.realpath(path)
        if os.path.exists(real):
            yield from ((form, real) for form in dict.fromkeys((os.path.abspath(path), real)))


def _await_ready(link: socket.socket) -> tuple[dict[str, int], dict[str, int], list[str]]:
    """Return the pids as this machine and as the head sees them, and notes."""
    pids: dict[str, int] = {}
    while True:
        message, pid = cluster_node.receive_with_pid(link)
        if not message:
            raise cluster_node.SetupError("the head ended before it was set up")
        if "error" in message:
            raise cluster_node.SetupError(str(message["error"]))
        if "name" in message:
            pids[message["name"]] = pid
        if "ready" in message:
            return pids, message["ready"], message["notes"]


def _plan(name: str) -> ClusterNode:
    return ClusterNode(
        name=name,
        address=model.address_of(name),
        interface=model.BRIDGE if name == model.HEAD else model.INTERFACE,
        pid=0,
        head_pid=0,
        started=0,
    )


def _born(node: ClusterNode, pids: Mapping[str, int], head_pids: Mapping[str, int]) -> ClusterNode:
    pid = pids[node.name]
    return replace(node, pid=pid, head_pid=head_pids[node.name], started=started(pid))


def _start_failure(folder: Path, said: str, rootless: bool) -> StackproofError:  # noqa: FBT001
    """Return the error for a start that failed, by what the programs wrote."""
    try:
        log = (folder / _LOG).read_text(errors="replace", encoding="utf-8").strip()
    except OSError:
        log = ""
    # unshare(1) names itself in everything that the kernel denied it.
    if "unshare:" in log or "mount_proc" in log:
        if rootless:
            return fail(
                Reason.NO_USER_NAMESPACES,
                "this machine does not let you make the namespaces of a cluster",
                detail=log,
                hint="the administrator may allow them: sysctl user.max_user_namespaces, "
                "kernel.unprivileged_userns_clone (Debian), "
                "kernel.apparmor_restrict_unprivileged_userns (Ubuntu); or run it as root",
            )
        return fail(
            Reason.NOT_PERMITTED,
            "this machine does not let root make the namespaces of a cluster",
            detail=log,
            hint="in a container: start it with the rights to make namespaces and mounts",
        )
    return fail(
        Reason.CLUSTER_FAILED,
        f"the cluster did not start: {said}",
        detail=log or None,
        hint="the kernel needs network namespaces, veth and bridge",
    )


def _write_agent(state: ClusterState) -> None:
    words = [sys.executable, "-I", "-S", os.path.join(os.path.dirname(__file__), "agent.py")]
    command = shlex.join((*words, os.path.join(state.folder, STATE_FILE)))
    files.write(state.agent, f'#!/bin/sh\nexec {command} "$@"\n', mode=0o700)


def _same_or_busy(have: ClusterSpec, want: ClusterSpec) -> None:
    def shape(spec: ClusterSpec) -> tuple[object, ...]:
        rate = None if spec.rate is None else model.parse_rate(spec.rate)
        delay = None if spec.delay is None else model.parse_delay(spec.delay)
        return spec.nodes, rate, delay, spec.slurm

    if shape(have) != shape(want):
        scheduler = "with Slurm" if have.slurm else "without Slurm"
        other = " of other settings" if have.slurm and want.slurm else ""
        raise fail(
            Reason.BUSY,
            f"the cluster `{want.name}` is up with {have.nodes} nodes, "
            f"rate {have.rate or 'unlimited'}, delay {have.delay or 'none'}, {scheduler}{other}",
            hint=f"take it down first: stackproof cluster down --name {want.name}; "
            "or choose another --name",
        )


# ------------------------------------------------------------------------------------- the machine


def _missing_tools(spec: ClusterSpec) -> tuple[Problem, ...]:
    """Return all that is not installed as one problem, with one command that installs it."""
    names = [
        name
        for name in ("ip", "tc", "unshare", "nsenter", "setsid")
        if not shutil.which(name, path=cluster_link.search_path())
    ]
    needed = tuple(dict.fromkeys(package for name in names for package in packages(name)))
    for_slurm = slurm.missing() if spec.slurm else ()
    if for_slurm:
        needed = (*PACKAGES, *needed)
    missing = dict.fromkeys((*names, *for_slurm))
    with_slurm = "with Slurm " if for_slurm else ""
    message = f"a cluster {with_slurm}needs what is not installed: `{'`, `'.join(missing)}`"
    hint = f"on Debian and Ubuntu: apt-get install {' '.join(needed)}"
    problem = Problem(reason=Reason.TOOL_MISSING, message=message, hint=hint)
    return (problem,) if missing else ()


def _missing_paths(spec: ClusterSpec) -> tuple[Problem, ...]:
    return tuple(
        Problem(reason=Reason.FILE_MISSING, message=f"the shared path `{path}` does not exist")
        for path in spec.shared
        if os.path.isabs(path) and not os.path.exists(path)
    )


def _is_hidden(path: str) -> bool:
    return os.path.normpath(path).startswith("/tmp/")  # noqa: S108 - the point of it


def _is_root() -> bool:
    """Return whether this process may also become other users: root of a user namespace may not."""
    with open("/proc/self/uid_map", encoding="ascii") as stream:
        users = sum(int(line.split()[2]) for line in stream)
    return os.geteuid() == 0 and users > 1 and _may_administer()


def _may_administer() -> bool:
    """Return whether this process may make namespaces without a user namespace."""
    needed = _CAP_NET_ADMIN | _CAP_SYS_ADMIN
    return int(libc.status_field("CapEff"), 16) & needed == needed
