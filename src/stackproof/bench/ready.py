"""An arm made ready: what it mounts, sets and can run, and what was found of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stackproof.bench.arms.installation import Installation
from stackproof.bench.spec import Arm
from stackproof.core.command import EnvPatch
from stackproof.image.model import Deployment, Image
from stackproof.mpi.transports import Libfabric


@dataclass(frozen=True, slots=True, kw_only=True)
class MpiWrappers:
    """What compiles for an arm: wrappers by language (`c`, `c++`, `fortran`), and what they need.

    `identity` is a digest of all that a compiled program depends on besides sources and commands:
    the wrappers, the compiler below, the MPI's library. `start` are words before every command, for
    wrappers in a container; `{folder}` in them is the folder that is compiled in.
    """

    wrappers: Mapping[str, str]
    identity: str
    env: EnvPatch = field(default_factory=EnvPatch)
    start: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerCase:
    """A container and what is carried into it, before it is known how it starts.

    `image` is what its runtime is given, `archive` the same as a file or folder to look into;
    `folders` (and files) are seen at their own paths in it, `programs` are in these, by name.
    """

    arm: Arm
    host: Installation
    image: str
    archive: str
    image_digest: str
    folders: tuple[str, ...]
    programs: Mapping[str, str]

    @property
    def hybrid(self) -> bool:
        """Return whether the machine's MPI is put under the programs."""
        return self.arm.bind == "hybrid"

    @property
    def binds(self) -> dict[str, str]:
        """Return the folders of the machine by the place that they are seen at."""
        found = {folder: folder for folder in self.folders}
        return {**found, self.host.prefix: self.host.prefix} if self.hybrid else found


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyArm:
    """An arm that was read: what it mounts, sets and can run.

    `image` is what it was made of: of an arm without an image the MPI's folder, with a digest of
    all that a launch runs. `found` says in words what the arm turned out to be. `folders` are what
    its ranks read besides; `stamps` says by path which files these were when they were read.
    `compilers` are those of an MPI of the machine; an image has its own below its mount point.
    `container` is what it is made of where it is one, `step` options of srun that start it.
    `documents` is what an image would have in its `meta/`, by name, where it lies elsewhere.
    """

    arm: Arm
    image: Image
    deployment: Deployment
    libfabric: Libfabric = field(default_factory=Libfabric)
    folders: tuple[str, ...] = ()
    stamps: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    found: Mapping[str, str] = field(default_factory=dict)
    compilers: MpiWrappers | None = None
    container: ContainerCase | None = None
    step: tuple[str, ...] = ()
    documents: Mapping[str, str] = field(default_factory=dict)
