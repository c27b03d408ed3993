"""Runtimes of containers: how a rank's program is started inside of one.

A member returns words that stand before the program, on each rank's command line, or options of
srun where the runtime is a part of Slurm. The launcher is outside, and every rank has a container
of its own that shares the node's network, processes and memory with the others: messages go as they
do without containers.
"""

from __future__ import annotations

from typing import Protocol

from stackproof.bench.runtimes.apptainer import Apptainer
from stackproof.bench.runtimes.edf import Edf
from stackproof.bench.runtimes.enroot import Enroot
from stackproof.bench.runtimes.podman import Podman
from stackproof.bench.runtimes.pyxis import Pyxis
from stackproof.bench.runtimes.sarus import Sarus
from stackproof.bench.runtimes.singularity import Singularity
from stackproof.bench.runtimes.start import ContainerStart, ImageSource, RuntimeFacts, StepStart
from stackproof.core import registry


class ContainerRuntime(Protocol):
    """One runtime."""

    @property
    def name(self) -> str:
        """Return the name in the registry."""

    @property
    def facts(self) -> RuntimeFacts:
        """Return what it is and what it can start."""

    def words(self, start: ContainerStart) -> tuple[str, ...]:
        """Return the words before a rank's program; none for a runtime that is a part of srun."""

    def step(self, start: ContainerStart) -> StepStart:
        """Return how srun starts tasks in the container; nothing for a runtime with a program."""

    def archive(self, image: str, file: str) -> tuple[str, ...]:
        """Return the command that writes an image as a file which `image.container` reads.

        Empty where the image is such a file by itself, or the runtime writes none.
        """


REGISTRY: dict[str, ContainerRuntime] = {
    runtime.name: runtime
    for runtime in (Podman(), Apptainer(), Singularity(), Sarus(), Enroot(), Pyxis(), Edf())
}


def get(name: str) -> ContainerRuntime:
    """Return a runtime by name; raises `StackproofError` (UNSUPPORTED) for an unknown one."""
    return registry.find(REGISTRY, name, kind="runtime of containers", kinds="runtimes")


def starting(source: ImageSource) -> tuple[str, ...]:
    """Return the runtimes that start images of a kind."""
    return tuple(name for name, one in REGISTRY.items() if source in one.facts.sources)
