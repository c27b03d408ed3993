"""Engines: what obtains the software of a stack.

An engine is pure: it says which command finds the exact versions, reads that command's answer
into a lock, and turns stack and lock into steps. The effects are in `host/` and `executor.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from stackproof.command import Command, Completed
from stackproof.engines import wheel
from stackproof.engines.easybuild import tool as easybuild
from stackproof.errors import Problem
from stackproof.plan import Step
from stackproof.stack import Artefact, Lock, Stack


class Engine(Protocol):
    """One way to obtain software."""

    def problems(self, stack: Stack) -> tuple[Problem, ...]:
        """Return why this engine cannot make the stack; empty when it can."""

    def lock_command(self, stack: Stack) -> Command:
        """Return the command whose output says which exact files make up the stack."""

    def read_lock(self, stack: Stack, done: Completed) -> Lock:
        """Return the lock from that command's output; raises `StackproofError`."""

    def fetch_command(self, artefact: Artefact, folder: str) -> Command:
        """Return the command that downloads one file of the lock into `folder`."""

    def steps(self, stack: Stack, lock: Lock, inputs: tuple[str, ...]) -> tuple[Step, ...]:
        """Return the steps that fill the store with the locked software."""


REGISTRY: dict[str, Engine] = {"wheel": wheel.ENGINE}

FETCH_COMMANDS: dict[str, Callable[[Artefact, str], Command]] = {
    "wheel": wheel.ENGINE.fetch_command,
    "easybuild": easybuild.fetch_command,
}
"""What downloads a file of the lock from the package index, by engine; Spack needs none."""
