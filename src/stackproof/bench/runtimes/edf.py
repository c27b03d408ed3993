"""The Container Engine of Alps: tasks of srun in what an Environment Definition File describes."""

from __future__ import annotations

from stackproof.bench.runtimes.start import (
    ContainerStart,
    ImageSource,
    InSteps,
    RuntimeFacts,
    StepStart,
)
from stackproof.image.container import edf


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
