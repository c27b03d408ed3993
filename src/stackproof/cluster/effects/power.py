"""Cut the power of a node and give it back; kill a daemon of Slurm and start it again.

A node that is restarted is a new one: its namespaces, its end of the link, its /tmp and its
processes are made again, as a machine that was rebooted has nothing left but its place in the
cluster. Whatever is shared below /tmp is shared again.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

from stackproof.cluster import model
from stackproof.cluster.effects import link as cluster_link
from stackproof.cluster.effects import node as cluster_node
from stackproof.cluster.effects import slurm, up
from stackproof.cluster.effects.agent import started
from stackproof.cluster.effects.state import end_process, locked, write
from stackproof.cluster.model import ClusterNode, ClusterState
from stackproof.core.errors import Reason, fail
from stackproof.core.value import replace

_BOOT_S = 30.0
_LOG = "restart.log"


def kill(name: str, node: str, *, daemon: bool = False) -> bool:
    """Kill a node as a lost power supply does, or only its Slurm daemon (the head's: slurmctld).

    Returns whether there was anything to kill; returns when it has ended. Raises
    `StackproofError` (CLUSTER_DOWN, NODE_UNREACHABLE, INVALID_VALUE for the head itself or for a
    daemon in a cluster without Slurm, BUSY).
    """
    with locked(name):
        state = up.reach(name)
        target = _checked(state, node, daemon=daemon)
        if daemon:
            return target.alive and slurm.kill_daemon(state, target.name)
        if target.alive:
            end_process(target.pid)
        return target.alive


def restart(name: str, node: str, *, daemon: bool = False) -> ClusterState:
    """Start a node again, or only its Slurm daemon; what runs there is killed first.

    Returns the new state when the node is in its place and, with Slurm, usable again. Raises as
    `kill` does, and CLUSTER_FAILED.
    """
    with locked(name):
        state = up.reach(name)
        target = _checked(state, node, daemon=daemon)
        if daemon:
            if not target.alive:
                raise fail(
                    Reason.NODE_UNREACHABLE,
                    f"the node `{target.name}` has died itself",
                    hint=f"stackproof cluster restart --name {name} {target.name}",
                )
            slurm.kill_daemon(state, target.name)
        else:
            if target.alive:
                end_process(target.pid)
            state = _boot(state, target)
            write(state)
        if state.slurm and target.name == model.HEAD:
            slurm.start_controller(state)
        elif state.slurm:
            slurm.start_node(state, target.name)
        return up.reach(name)


def _checked(state: ClusterState, name: str, *, daemon: bool) -> ClusterNode:
    node = state.node(name)
    if daemon and not state.slurm:
        raise fail(
            Reason.INVALID_VALUE,
            f"the cluster `{state.name}` has no Slurm, and so no daemon on `{name}`",
        )
    if not daemon and node.name == model.HEAD:
        raise fail(
            Reason.INVALID_VALUE,
            "the head is what the whole cluster stands on",
            hint=f"stackproof cluster down --name {state.name}; or name a node",
        )
    return node


def _boot(state: ClusterState, old: ClusterNode) -> ClusterState:
    """Make a node again; return the state with it and with the links as they were."""
    link, their_link = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    report, their_report = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with link, their_link, report, their_report:
        for ours in (link, report):
            ours.settimeout(_BOOT_S)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        cluster_node.send(link, _settings(state, old))
        _spawn(state, their_link, their_report)
        their_link.close()
        their_report.close()
        try:
            pid = _await(link, report, "name")
            node = replace(
                old, pid=pid, head_pid=_pid_in_head(pid), started=started(pid), alive=True
            )
            cluster_link.connect(state, node)
            cluster_node.send(link, {})
            _await(link, report, "ready")
        except (OSError, cluster_node.SetupError) as error:
            log = Path(state.folder, _LOG).read_text(errors="replace", encoding="utf-8").strip()
            raise fail(
                Reason.CLUSTER_FAILED,
                f"the node `{old.name}` did not start: {error}",
                detail=log or None,
            ) from error
        nodes = tuple(node if other.name == old.name else other for other in state.nodes)
        state = cluster_link.reshape(replace(state, nodes=nodes))
        cluster_node.send(link, {"stay": True})
    return state


def _settings(state: ClusterState, node: ClusterNode) -> dict[str, object]:
    ip = cluster_link.tool("ip")
    return {
        "name": node.name,
        "shared": _shared(state.head.pid),
        "ip": ip,
        **model.node_settings(state.spec, node),
    }


def _shared(head: int) -> list[tuple[str, str]]:
    """Return what the head shows of the outer /tmp until now, and where it is without links."""
    found = cluster_node.mounted_below("/tmp/", f"/proc/{head}/mountinfo")  # noqa: S108 - looked at
    return [
        (path, os.path.realpath(path)) for path in found if not path.startswith(cluster_node.OUTER)
    ]


def _spawn(state: ClusterState, link: socket.socket, report: socket.socket) -> None:
    """Start a node's first process as a child of the head's, which reaps it."""
    argv = (
        "setsid", "--fork", cluster_link.tool("unshare"), *up.NAMESPACES,
        sys.executable, "-I", "-S", cluster_node.__file__,
        "node", str(link.fileno()), str(report.fileno()),
    )  # fmt: skip
    with open(os.path.join(state.folder, _LOG), "wb") as log:
        subprocess.run(  # noqa: S603 - this Python and a module of ours
            model.enter_argv(state, None, argv),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            pass_fds=(link.fileno(), report.fileno()), env=up.inner_environment(),
            timeout=_BOOT_S, check=False,
        )  # fmt: skip


def _await(link: socket.socket, report: socket.socket, what: str) -> int:
    """Wait for a message of a node's first process; return that process's pid.

    Raises `SetupError` with what it says when it gives up.
    """
    # A reset is how the end of a process looks that has not read all that was sent to it.
    with contextlib.suppress(ConnectionResetError):
        message, pid = cluster_node.receive_with_pid(link)
        if what in message:
            return pid
    while message := cluster_node.receive(report):
        if "error" in message:
            raise cluster_node.SetupError(str(message["error"]))
    raise cluster_node.SetupError("it ended before it was set up")


def _pid_in_head(pid: int) -> int:
    """Return a node's first process as the head counts; see NSpid in proc_pid_status(5)."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[-2])
    raise ProcessLookupError(os.strerror(3))
