"""The plan noun: what will be done, as data; each step has an id hashed from its content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from stackproof import ids
from stackproof.command import Command
from stackproof.stack import Artefact


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One unit of work of a build.

    Paths in `files`, `outputs` and commands use the build layout of `executor.py`; `files` maps a
    path below the store to its content as text (JSON and scripts); `outputs` are paths below the
    store that belong to this step alone: they are removed before it is run again. `fetch` are the
    files it needs downloaded; `inputs` are ids of steps before it.
    """

    name: str
    description: str = ""
    inputs: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    executable: tuple[str, ...] = ()
    fetch: tuple[Artefact, ...] = ()
    install: tuple[tuple[Artefact, str], ...] = ()
    commands: tuple[Command, ...] = ()
    outputs: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Return the hash of everything that decides the step's result."""
        from stackproof.noun import to_data  # noqa: PLC0415 - msgspec only when an id is needed

        return ids.content_id(to_data(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The steps that turn a locked stack into an image, in order."""

    SCHEMA: ClassVar[str] = "stackproof/plan/1"

    name: str
    mount: str
    steps: tuple[Step, ...]
    image_file: str

    @property
    def id(self) -> str:
        """Return the id of the whole plan: the last step's id covers all before it."""
        return ids.content_id([step.id for step in self.steps])
