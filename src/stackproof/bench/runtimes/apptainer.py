"""Apptainer: the environment and file descriptors go in by themselves."""

from __future__ import annotations

from stackproof.bench.runtimes.start import (
    ContainerStart,
    ImageSource,
    RuntimeFacts,
    WithProgram,
    mounts,
)

WITHOUT_RIGHTS = "`options`, such as [--userns] where root lacks a capability"
"""How both heirs of Singularity start where root may not do everything, as in a container."""


class Apptainer(WithProgram):
    """apptainer-exec(1), and apptainer.org/docs/user, "Apptainer and MPI applications"."""

    name = "apptainer"
    facts = RuntimeFacts(
        program="apptainer",
        sources=frozenset({ImageSource.SIF, ImageSource.SQUASHFS, ImageSource.FOLDER}),
        gpu="--nv, or --rocm",
        settings=WITHOUT_RIGHTS,
    )

    def words(self, start: ContainerStart) -> tuple[str, ...]:
        """Return the words before a rank's program.

        `--sharens` has the ranks of a node join one namespace, without which MPICH's copies between
        processes are refused.
        """
        return ("apptainer", "exec", "--sharens", *exec_words(start))


def exec_words(start: ContainerStart) -> tuple[str, ...]:
    """Return what Apptainer and SingularityCE both take behind `exec`."""
    return (
        *(f"--bind={mount}" for mount in mounts(start)),
        *(f"--env={name}={value}" for name, value in sorted(start.environment.items())),
        *start.options, start.image,
    )  # fmt: skip
