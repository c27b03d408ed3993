"""The Container Engine of Alps: tasks of srun in what an Environment Definition File describes."""

from __future__ import annotations

import json
from collections.abc import Mapping

from stackproof.bench.runtimes.start import (
    ContainerStart,
    ImageSource,
    InSteps,
    RuntimeFacts,
    StepStart,
    mounts,
)


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

        Its entrypoint would stand between srun and the program, and `$` begins a variable's name.
        """
        lines = [
            f"image = {_text(start.image)}",
            f"mounts = [{', '.join(map(_text, mounts(start)))}]",
            "entrypoint = false",
            "writable = false",
            'workdir = "/"',
            *_table("env", start.environment),
            *_table("annotations", start.annotations),
        ]
        options = ("--environment={file}", *start.options)
        return StepStart(options=options, file="\n".join(lines) + "\n")


def _table(name: str, values: Mapping[str, str]) -> list[str]:
    lines = [f"{_text(key)} = {_text(value)}" for key, value in sorted(values.items())]
    return ["", f"[{name}]", *lines] if lines else []


def _text(value: str) -> str:
    """Return a text as TOML's basic strings have it, which JSON's are as well."""
    return json.dumps(value.replace("$", "$$"), ensure_ascii=True)
