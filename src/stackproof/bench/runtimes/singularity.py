"""SingularityCE, the other heir of Singularity."""

from __future__ import annotations

from stackproof.bench.runtimes.apptainer import WITHOUT_RIGHTS, exec_words
from stackproof.bench.runtimes.start import ContainerStart, ImageSource, RuntimeFacts, WithProgram


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
