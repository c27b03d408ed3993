"""Launchers: how the ranks of one job are started, as a command line and an environment.

A launcher runs where every node can reach it: on the head of a cluster or on a node. With an
`agent` (a program that is called as `AGENT HOST COMMAND…`, as ssh is, and lets a shell on that node
run the command) it starts its helpers there; without one, all ranks are on this machine.

Ranks are pinned with taskset(1) in front of the program, since that is the same for every MPI; the
launcher's own binding is always off, so that no two arms of a comparison differ in it.
"""

from __future__ import annotations

from typing import Protocol

from stackproof.core import registry
from stackproof.core.command import EnvPatch
from stackproof.launch.launchers.of_mpis import Hydra, IntelHydra, Prte
from stackproof.launch.launchers.of_schedulers import Flux, Pals, Srun
from stackproof.launch.launchers.request import LaunchRequest

__all__ = ["REGISTRY", "LaunchRequest", "Launcher", "get"]


class Launcher(Protocol):
    """One way to start the ranks of a job."""

    @property
    def name(self) -> str:
        """Return the name in the registry."""

    def argv(self, request: LaunchRequest) -> tuple[str, ...]:
        """Return the command line that starts the job.

        Rank r of the job runs on the node of rank r of the placement, pinned to its CPU. Raises
        `StackproofError` (INVALID_VALUE, UNSUPPORTED) when that cannot be said to this launcher.
        """

    def environment(self, request: LaunchRequest) -> EnvPatch:
        """Return the variables for the launcher: the request's and those that it needs itself."""


REGISTRY: dict[str, Launcher] = {
    launcher.name: launcher for launcher in (Hydra(), IntelHydra(), Prte(), Srun(), Flux(), Pals())
}


def get(name: str) -> Launcher:
    """Return a launcher by name; raises `StackproofError` (UNSUPPORTED) for an unknown one."""
    return registry.find(REGISTRY, name, kind="launcher")
