"""Apptainer, and SingularityCE by its other name: the environment and file descriptors go in."""

from __future__ import annotations

from stackproof.bench.runtimes.start import ContainerStart


class Apptainer:
    """`apptainer exec` (apptainer.org/docs/user, "Apptainer and MPI applications").

    Not run by the tests here: the command line is that of the documentation.
    """

    name = "apptainer"

    def words(self, start: ContainerStart) -> tuple[str, ...]:
        """Return the words before a rank's program.

        `--sharens` has the ranks of a node join one namespace, without which MPICH's copies between
        processes are refused.
        """
        return (
            "apptainer", "exec", "--sharens",
            *(f"--bind={source}:{place}:ro" for place, source in sorted(start.binds.items())),
            *(f"--env={name}={value}" for name, value in sorted(start.environment.items())),
            *start.options, start.image,
        )  # fmt: skip

    def archive(self, image: str, file: str) -> tuple[str, ...]:
        """Return nothing: a SIF file is read as it is."""
        del image, file
        return ()
