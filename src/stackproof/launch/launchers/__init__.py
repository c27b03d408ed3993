"""Launchers: how the ranks of one job are started, as a command line and an environment.

A launcher runs where every node can reach it: on the head of a cluster or on a node. With an
`agent` (a program that is called as `AGENT HOST COMMAND…`, as ssh is, and lets a shell on that node
run the command) it starts its helpers there; without one, all ranks are on this machine.

Ranks are pinned with taskset(1) in front of the program, since that is the same for every MPI; the
launcher's own binding is always off, so that no two arms of a comparison differ in it.
"""

from __future__ import annotations

from stackproof.core import registry
from stackproof.launch.launchers import of_mpis, of_schedulers
from stackproof.launch.launchers.request import Launcher, LaunchRequest

__all__ = ["REGISTRY", "LaunchRequest", "Launcher", "get"]

REGISTRY: dict[str, Launcher] = {
    launcher.name: launcher for launcher in (*of_mpis.LAUNCHERS, *of_schedulers.LAUNCHERS)
}


def get(name: str) -> Launcher:
    """Return a launcher by name; raises `StackproofError` (UNSUPPORTED) for an unknown one."""
    return registry.find(REGISTRY, name, kind="launcher")
