"""Nouns of a job: what is asked of a scheduler, and what it says of a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import ClassVar

from msgspec import field

from stackproof.core.errors import Problem
from stackproof.core.value import Value


class JobState(StrEnum):
    """What a job is doing, or how it ended."""

    PENDING = "pending"
    """It waits: for nodes, for its turn, or because it was put back into the queue."""
    RUNNING = "running"
    """It has nodes; it may also be starting or ending."""
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    NODE_FAIL = "node-fail"
    GONE = "gone"
    """The scheduler does not know it (any more)."""

    @property
    def active(self) -> bool:
        """Return whether the job may still do something."""
        return self in {JobState.PENDING, JobState.RUNNING}


class JobRequest(Value):
    """A batch job.

    `command` runs once, on the first node of the allocation, in `folder`; its output is appended
    to files in `logs`. `nodes` is how many nodes it gets, `node_names` which ones must be among
    them, `tasks_per_node` how many tasks a step will have on a node at most. With `elements` that
    many jobs run independently, each with an allocation and one of these numbers of its own.
    `options` are further options of the scheduler by their long names; an empty value is an option
    without one, `no` one that must not be set.
    """

    name: str
    command: tuple[str, ...]
    folder: str
    logs: str
    nodes: int
    node_names: tuple[str, ...] = ()
    tasks_per_node: int = 1
    elements: tuple[int, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)


class JobStatus(Value):
    """What a scheduler says of one job, or of one element of an array.

    `said` is the state in the scheduler's own words, `reason` why it waits or ended, empty when it
    does not say. `restarts` counts how often it was put back into the queue.
    """

    state: JobState
    said: str
    reason: str = ""
    restarts: int = 0
    element: int | None = None


class Query(Value, kw_only=False):
    """One way to ask for the state of a job: a command, and what reads its output.

    `read` returns None for an output that is not one, and nothing for a job that is not known.
    """

    argv: tuple[str, ...]
    read: Callable[[bytes], tuple[JobStatus, ...] | None]


class Job(Value):
    """A job that was handed in, as a results folder keeps it.

    `cluster` is the cluster of this machine whose scheduler has it, None for the machine's own.
    `elements` are the allocations that it makes launches in. `interface` is what ready placements
    use between nodes, `rate_mb_s` the rate of a node's link where the submitter knows it (MB/s of
    10^6 bytes), `facts` what else is known of the nodes. `command` is the user's command line,
    `submitted` UTC ISO 8601.
    """

    SCHEMA: ClassVar[str] = "stackproof/job/1"

    scheduler: str
    id: str
    cluster: str | None
    elements: tuple[int, ...]
    options: Mapping[str, str]
    command: tuple[str, ...]
    submitted: str
    interface: str | None = None
    rate_mb_s: float | None = None
    facts: Mapping[str, str] = field(default_factory=dict)


class JobEnd(Value):
    """How the work of one element ended, written by the job itself as its last act."""

    SCHEMA: ClassVar[str] = "stackproof/job-end/1"

    id: str
    problems: tuple[Problem, ...] = ()
