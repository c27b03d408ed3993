"""Schedulers: how a job is handed in, asked about and ended, as scripts and command lines.

A member is pure: it renders a script and command lines, and reads what they print.
`stackproof.launch.effects.scheduler` runs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from stackproof.core import registry
from stackproof.core.command import Command
from stackproof.launch.schedulers.job import Job, JobEnd, JobRequest, JobState, JobStatus, Query
from stackproof.launch.schedulers.local import Local
from stackproof.launch.schedulers.slurm import Slurm

__all__ = [
    "REGISTRY", "Job", "JobEnd", "JobRequest", "JobState", "JobStatus", "Query", "Scheduler", "get",
]  # fmt: skip


class Scheduler(Protocol):
    """One way to get nodes for a job."""

    @property
    def name(self) -> str:
        """Return the name in the registry."""

    @property
    def queues(self) -> bool:
        """Return whether a job that was handed in runs on its own, perhaps later."""

    def script(self, request: JobRequest) -> str:
        """Return the script of a job.

        Raises `StackproofError` (INVALID_VALUE) with every option that it cannot have.
        """

    def submit(self, request: JobRequest, script: str, environment: Mapping[str, str]) -> Command:
        """Return the command that hands in the script in the file `script`.

        `environment` is the user's; defaults that the user keeps there count.
        """

    def job_id(self, stdout: bytes) -> str | None:
        """Return the id of the job from what that command printed, None if it is not there."""

    def queries(self, job: str) -> tuple[Query, ...]:
        """Return the ways to ask for a job's state, the best one first."""

    def cancel_argv(self, job: str) -> tuple[str, ...]:
        """Return the command line that ends a job; empty where there is none to end."""


REGISTRY: dict[str, Scheduler] = {
    scheduler.name: scheduler for scheduler in (Local("local"), Local("allocation"), Slurm())
}


def get(name: str) -> Scheduler:
    """Return a scheduler by name; raises `StackproofError` (UNSUPPORTED) for an unknown one."""
    return registry.find(REGISTRY, name, kind="scheduler")
