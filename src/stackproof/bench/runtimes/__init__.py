"""Runtimes of containers: how a rank's program is started inside of one.

A member returns words that stand before the program, on each rank's command line, or options of
srun where the runtime is a part of Slurm. The launcher is outside, and every rank has a container
of its own that shares the node's network, processes and memory with the others: messages go as they
do without containers.
"""

from __future__ import annotations

from typing import Protocol

from stackproof.bench.runtimes.start import (
    ContainerStart,
    ImageSource,
    InSteps,
    RuntimeFacts,
    StepStart,
    WithProgram,
    mounts,
)
from stackproof.core import registry
from stackproof.image.container import edf
from stackproof.inject.container import option_words

# ----------------------------- Apptainer: the environment and file descriptors go in by themselves

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


# ---------------------------------------------------- SingularityCE, the other heir of Singularity


class Singularity(WithProgram):
    """singularity-exec(1) of SingularityCE 4.1, which has no `--sharens`.

    Without a setuid starter each rank is in a user namespace of its own, in which MPICH's copies
    between processes are refused (seen with 4.1.5): it aborts unless MPIR_CVAR_CH4_CMA_ENABLE is 0.
    """

    name = "singularity"
    facts = RuntimeFacts(
        program="singularity",
        sources=frozenset({ImageSource.SIF, ImageSource.SQUASHFS, ImageSource.FOLDER}),
        gpu="--nv, or --rocm",
        settings=WITHOUT_RIGHTS,
    )

    def words(self, start: ContainerStart) -> tuple[str, ...]:
        """Return the words before a rank's program."""
        return ("singularity", "exec", *exec_words(start))


# --------------------------------------------------------------------------------------------------
# podman: a container for each rank, which sees the node's network, processes and memory.

PASSED = (
    "PMI_*", "PMI2_*", "PMIX_*", "HYDI_*", "HYDRA_*", "MPIR_*", "MPICH_*", "MPI_*", "I_MPI_*",
    "OMPI_*", "PRTE_*", "OPAL_*", "FI_*", "UCX_*", "SLURM_*",
)  # fmt: skip
"""Variables of launchers, MPIs and networks that a container gets (podman-run(1), `--env`)."""


class Podman(WithProgram):
    """podman-run(1)."""

    name = "podman"
    facts = RuntimeFacts(
        program="podman",
        sources=frozenset({ImageSource.NAME, ImageSource.OCI}),
        gpu="--device=nvidia.com/gpu=all, or --device=/dev/kfd and --device=/dev/dri",
        hooks=True,
        settings="`options`, or `env` with CONTAINERS_CONF",
    )

    def words(self, start: ContainerStart) -> tuple[str, ...]:
        """Return the words before a rank's program.

        Ranks of a node must see each other's processes to copy between them, which the filter of
        system calls of old releases forbids. What podman does by itself is the site's matter:
        containers.conf and storage.conf.
        """
        return (
            "podman", "run", "--rm", "--network=host", "--pid=host", "--ipc=host",
            "--security-opt=seccomp=unconfined", "--pull=never", "--workdir=/",
            *(f"--env={name}" for name in PASSED),
            *(f"--env={name}={value}" for name, value in sorted(start.environment.items())),
            *(f"--volume={mount}" for mount in mounts(start)),
            *((f"--hooks-dir={start.hooks}",) if start.hooks else ()),
            *(f"--annotation={name}={value}" for name, value in sorted(start.annotations.items())),
            *start.options, "--entrypoint=", start.image,
        )  # fmt: skip

    def archive(self, image: str, file: str) -> tuple[str, ...]:
        """Return `podman save` as an OCI archive."""
        return ("podman", "save", "--quiet", "--format=oci-archive", f"--output={file}", image)


# ------------------------- Pyxis: Enroot's containers for the tasks of srun, by a plug-in of Slurm


class Pyxis(InSteps):
    """`srun --container-image` (github.com/NVIDIA/pyxis, README, "Usage").

    Not run by the tests here: the options are those of the documentation. The tasks of a node share
    one container.
    """

    name = "pyxis"
    facts = RuntimeFacts(
        program="srun",
        sources=frozenset({ImageSource.NAME, ImageSource.SQUASHFS}),
        gpu="env: {NVIDIA_VISIBLE_DEVICES: all}, by Enroot's hook 98-nvidia.sh",
        in_steps=True,
    )

    def step(self, start: ContainerStart) -> StepStart:
        """Return the options of srun; variables are set before the program."""
        binds = ",".join(mounts(start))
        return StepStart(
            options=(
                f"--container-image={start.image}",
                *((f"--container-mounts={binds}",) if binds else ()),
                "--no-container-mount-home",
                "--no-container-entrypoint",
                *start.options,
            )
        )


# ------------------------------------------- Enroot: unprivileged containers out of SquashFS files


class Enroot(WithProgram):
    """`enroot start` (github.com/NVIDIA/enroot, doc/cmd/start.md and doc/image-format.md).

    Not run by the tests here: the command line is that of the documentation.
    """

    name = "enroot"
    facts = RuntimeFacts(
        program="enroot",
        sources=frozenset({ImageSource.NAME, ImageSource.SQUASHFS}),
        gpu="--env=NVIDIA_VISIBLE_DEVICES=all, by its hook 98-nvidia.sh",
    )

    def words(self, start: ContainerStart) -> tuple[str, ...]:
        """Return the words before a rank's program.

        Variables of launchers and MPIs that begin as its hooks for Slurm and PMIx say go in by
        these hooks.
        """
        return (
            "enroot", "start",
            *option_words("enroot", start.binds, start.environment),
            *start.options, start.image,
        )  # fmt: skip


# ------------------------------------------- Sarus: containers of sites, with mounts in long words


class Sarus(WithProgram):
    """`sarus run` (sarus.readthedocs.io, "User guide").

    Not run by the tests here: the command line is that of the documentation. The host's environment
    goes in by itself.
    """

    name = "sarus"
    facts = RuntimeFacts(
        program="sarus", sources=frozenset({ImageSource.NAME}), gpu="by the site's hook"
    )

    def words(self, start: ContainerStart) -> tuple[str, ...]:
        """Return the words before a rank's program."""
        return (
            "sarus", "run",
            *(
                f"--mount=type=bind,source={source},destination={place},readonly"
                for place, source in sorted(start.binds.items())
            ),
            *(f"--env={name}={value}" for name, value in sorted(start.environment.items())),
            *start.options, start.image,
        )  # fmt: skip


# --------------------------------------------------------------------------------------------------
# The Container Engine of Alps: tasks of srun in what an Environment Definition File describes.


class Edf(InSteps):
    """`srun --environment=FILE` (docs.cscs.ch, "Container Engine", its EDF reference).

    Not run by the tests here: file and option are those of the documentation.
    """

    name = "edf"
    facts = RuntimeFacts(
        program="srun",
        sources=frozenset({ImageSource.NAME, ImageSource.SQUASHFS}),
        gpu="env: {NVIDIA_VISIBLE_DEVICES: all}, by the site's hook",
        hooks=True,
        in_steps=True,
    )

    def step(self, start: ContainerStart) -> StepStart:
        """Return the option of srun and the file, in TOML.

        Its entrypoint would stand between srun and the program.
        """
        text = edf.render(
            edf.JobContainer(
                image=edf.literal(start.image),
                mounts=tuple(edf.mount(one, place) for place, one in sorted(start.binds.items())),
                workdir="/",
                entrypoint=False,
                writable=False,
                env={name: edf.literal(value) for name, value in start.environment.items()},
                annotations={key: edf.literal(text) for key, text in start.annotations.items()},
            )
        )
        return StepStart(options=("--environment={file}", *start.options), file=text)


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
