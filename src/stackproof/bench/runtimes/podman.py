"""podman: a container for each rank, which sees the node's network, processes and memory."""

from __future__ import annotations

from stackproof.bench.runtimes.start import (
    ContainerStart,
    ImageSource,
    RuntimeFacts,
    WithProgram,
    mounts,
)

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
