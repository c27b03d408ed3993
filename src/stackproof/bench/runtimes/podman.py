"""podman: a container for each rank, which sees the node's network, processes and memory."""

from __future__ import annotations

from stackproof.bench.runtimes.start import ContainerStart

PASSED = (
    "PMI_*", "PMI2_*", "PMIX_*", "HYDI_*", "HYDRA_*", "MPIR_*", "MPICH_*", "MPI_*", "I_MPI_*",
    "OMPI_*", "PRTE_*", "OPAL_*", "FI_*", "UCX_*", "SLURM_*",
)  # fmt: skip
"""Variables of launchers, MPIs and networks that a container gets (podman-run(1), `--env`)."""


class Podman:
    """podman-run(1)."""

    name = "podman"

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
            *(f"--volume={source}:{place}:ro" for place, source in sorted(start.binds.items())),
            *start.options, "--entrypoint=", start.image,
        )  # fmt: skip

    def archive(self, image: str, file: str) -> tuple[str, ...]:
        """Return `podman save` as an OCI archive."""
        return ("podman", "save", "--quiet", "--format=oci-archive", f"--output={file}", image)
