"""The Container Engine of Alps: tasks of srun in what an Environment Definition File describes."""

from __future__ import annotations

from stackproof.bench.runtimes.start import (
    ContainerStart,
    ImageSource,
    InSteps,
    RuntimeFacts,
    StepStart,
)
from stackproof.inject.container import edf_mounts, edf_table, edf_text


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
        lines = [
            f"image = {edf_text(start.image)}",
            edf_mounts(start.binds),
            "entrypoint = false",
            "writable = false",
            'workdir = "/"',
            *edf_table("env", start.environment),
            *edf_table("annotations", start.annotations),
        ]
        options = ("--environment={file}", *start.options)
        return StepStart(options=options, file="\n".join(lines) + "\n")
