"""Pyxis: Enroot's containers for the tasks of srun, by a plug-in of Slurm."""

from __future__ import annotations

from stackproof.bench.runtimes.start import (
    ContainerStart,
    ImageSource,
    InSteps,
    RuntimeFacts,
    StepStart,
    mounts,
)


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
