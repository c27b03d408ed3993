"""Enroot: unprivileged containers out of SquashFS files."""

from __future__ import annotations

from stackproof.bench.runtimes.start import ContainerStart, ImageSource, RuntimeFacts, WithProgram
from stackproof.inject.container import option_words


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
