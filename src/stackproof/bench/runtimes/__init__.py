"""Runtimes of containers: how a rank's program is started inside of one.

A member returns words that stand before the program, on each rank's command line. The launcher is
outside, and every rank has a container of its own that shares the node's network, processes and
memory with the others: messages go as they do without containers.
"""

from __future__ import annotations

from typing import Protocol

from stackproof.bench.runtimes.apptainer import Apptainer
from stackproof.bench.runtimes.podman import Podman
from stackproof.bench.runtimes.sarus import Sarus
from stackproof.bench.runtimes.start import ContainerStart
from stackproof.core import registry


class ContainerRuntime(Protocol):
    """One runtime."""

    @property
    def name(self) -> str:
        """Return the name, which is also that of its program."""

    def words(self, start: ContainerStart) -> tuple[str, ...]:
        """Return the words before a rank's program."""

    def archive(self, image: str, file: str) -> tuple[str, ...]:
        """Return the command that writes an image as a file which `image.container` reads.

        Empty where the image is such a file by itself.
        """


REGISTRY: dict[str, ContainerRuntime] = {
    runtime.name: runtime for runtime in (Podman(), Apptainer(), Sarus())
}


def get(name: str) -> ContainerRuntime:
    """Return a runtime by name; raises `StackproofError` (UNSUPPORTED) for an unknown one."""
    return registry.find(REGISTRY, name, kind="runtime of containers", kinds="runtimes")
