"""What a runtime of containers is asked to start, and what it says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import field

from stackproof.core.value import Value


class ImageSource(StrEnum):
    """What an image is named by; the value says it in words."""

    NAME = "a name that the runtime knows"
    OCI = "an OCI layout or archive"
    SIF = "a SIF file"
    SQUASHFS = "a SquashFS file"
    FOLDER = "a folder with a root"


class RuntimeFacts(Value):
    """What a runtime is: its program, the images it starts, and how a user asks it for a GPU.

    `hooks` says whether containers can be annotated for a hook; `in_steps` whether it is a part of
    srun, and has no program of its own; `settings` how an arm says the runtime's own settings.
    """

    program: str
    sources: frozenset[ImageSource]
    gpu: str
    hooks: bool = False
    in_steps: bool = False
    settings: str = "`options`"


class ContainerStart(Value):
    """What is started: an image, folders by the place they are seen at (read-only), variables.

    `options` are more words for the runtime, as a site or a user gives them. `annotations` are what
    hooks are chosen by; `hooks` is a folder with definitions of hooks, empty for those of the site.
    """

    image: str
    binds: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    hooks: str = ""


class StepStart(Value):
    """How srun starts tasks in a container: options, and the file that `{file}` in them means."""

    options: tuple[str, ...] = ()
    file: str = ""


class WithProgram:
    """What runtimes share whose program stands before a rank's, and that write no archives."""

    def step(self, start: ContainerStart) -> StepStart:
        """Return nothing: the words before the program do all."""
        del start
        return StepStart()

    def archive(self, image: str, file: str) -> tuple[str, ...]:
        """Return nothing: what it starts is read as it is, or was loaded from one."""
        del image, file
        return ()


class InSteps:
    """What runtimes share that are a part of srun."""

    def words(self, start: ContainerStart) -> tuple[str, ...]:
        """Return nothing: srun puts the tasks into the container."""
        del start
        return ()

    def archive(self, image: str, file: str) -> tuple[str, ...]:
        """Return nothing: a SquashFS file is read as it is."""
        del image, file
        return ()


def mounts(start: ContainerStart) -> tuple[str, ...]:
    """Return the folders as Enroot's relatives write them, `SOURCE:PLACE:ro`."""
    return tuple(f"{source}:{place}:ro" for place, source in sorted(start.binds.items()))
