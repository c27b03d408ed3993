"""The plan noun: what will be done, as data; each step has an id hashed from its content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec import field

from stackproof.build.stack import Artefact
from stackproof.core import ids
from stackproof.core.command import Command
from stackproof.core.value import Value

# Where things are inside the build sandbox. `@python@` stands for the interpreter that runs
# stackproof: its path differs between machines and must not change an id.
PYTHON = "@python@"
DOWNLOADS = "/build/downloads"
TOOLS = "/build/tools"
TREE_DIGEST = "tree_digest.py"
"""The program of ours among `TOOLS` that writes the digest of a tree."""
OUT = "/build/out"
BENCHMARK = "benchmark"
"""The name of the step that compiles the benchmark program."""
PROGRAM = "program-"
"""How the names of steps begin that compile a program of the recipe."""
IMAGE_FILE = "image.squashfs"
BUILD = "/build"
"""The build folder: what an engine needs besides the store (sources, configuration, caches)."""
LAYOUT = 1
"""Version of the sandbox layout; part of every step's id."""


class Copy(Value):
    """A file given by its content: the bytes are looked up by digest when the step runs."""

    sha256: str
    executable: bool = False


class Clone(Value):
    """A git repository needed at `commit` (a full id) in `folder` below `BUILD`.

    `url` is an address or a local path; the executor maps it to a mirror where there is one.
    """

    name: str
    url: str
    commit: str
    folder: str


class Step(Value):
    """One unit of work of a build.

    `files` maps a path below the store to its content (text: metadata, scripts, sources), written
    before the commands run; those in `executable` get mode 0755. `commands` run in the build
    sandbox, whose layout is `LAYOUT`: the store is at its mount point, so nothing carries a build
    path. `outputs` are paths below the store that belong to this step alone: they are removed
    before it is run again. `fetch` are files that must be downloaded first; `inputs` are the ids
    of the steps before it.

    `build_files` is as `files`, but below `BUILD`; `copies` maps a path that begins with `store/`
    or `build/` to a file known by its digest. `clones` are repositories that must be in the build
    folder. With `network` its commands may use the network. With `resumes` the outputs of an
    interrupted run stay, since the commands continue where they stopped. `reports` names the
    kind of progress that can be read from the commands' output (`spack-install`), "" for none.
    """

    name: str
    description: str = ""
    inputs: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    executable: tuple[str, ...] = ()
    fetch: tuple[Artefact, ...] = ()
    commands: tuple[Command, ...] = ()
    outputs: tuple[str, ...] = ()
    build_files: Mapping[str, str] = field(default_factory=dict)
    copies: Mapping[str, Copy] = field(default_factory=dict)
    clones: tuple[Clone, ...] = ()
    network: bool = False
    resumes: bool = False
    reports: str = ""

    @property
    def compiles(self) -> bool:
        """Return whether its commands compile, so that the machine's C library is asked for."""
        return bool(self.reports) or self.name == BENCHMARK or self.makes_program

    @property
    def makes_program(self) -> bool:
        """Return true for a step that compiles a program of the recipe."""
        return self.name.startswith(PROGRAM)

    @property
    def id(self) -> str:
        """Return the hash of everything that decides the step's result."""
        from stackproof.core.noun import to_data  # noqa: PLC0415 - msgspec only when an id is needed

        return ids.content_id({"layout": LAYOUT, **to_data(self)})


class Plan(Value):
    """The steps that turn a locked stack into an image, in order."""

    SCHEMA: ClassVar[str] = "stackproof/plan/1"

    name: str
    mount: str
    steps: tuple[Step, ...]

    @property
    def id(self) -> str:
        """Return the id of what the plan makes: the image and all that it depends on.

        Steps that only happen beside it (a cache is filled) do not count; in a plan without an
        image all steps do.
        """
        every = {step.id: step for step in self.steps}
        waiting = [key for key, step in every.items() if step.name == "image"] or list(every)
        needed: set[str] = set()
        while waiting:
            key = waiting.pop()
            if key in every and key not in needed:
                needed.add(key)
                waiting += every[key].inputs
        return ids.content_id([key for key in every if key in needed])
