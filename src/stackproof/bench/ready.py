"""An arm made ready: what it mounts, sets and can run, and what was found of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import field

from stackproof.bench.spec import Arm
from stackproof.core import mountlist
from stackproof.core.command import EnvPatch
from stackproof.core.errors import Problem
from stackproof.core.mountlist import MountRequest
from stackproof.core.value import Value, replace
from stackproof.image.model import Deployment, Image
from stackproof.mpi.transports import Libfabric


class MpiWrappers(Value):
    """What compiles for an arm: wrappers by language (`c`, `c++`, `fortran`), and what they need.

    `identity` is a digest of all that a compiled program depends on besides sources and commands:
    the wrappers, the compiler below, the MPI's library. `start` are words before every command, for
    wrappers in a container; `{folder}` in them is the folder that is compiled in.
    """

    wrappers: Mapping[str, str]
    identity: str
    env: EnvPatch = field(default_factory=EnvPatch)
    start: tuple[str, ...] = ()


class ReadyArm(Value):
    """An arm that was read: what it mounts, sets and can run.

    `image` is what it was made of: of an arm without an image the MPI's folder, with a digest of
    all that a launch runs. `found` says in words what the arm turned out to be. `folders` are what
    its ranks read besides; `stamps` says by path which files these were when they were read.
    `compilers` are those of an MPI of the machine; an image has its own below its mount point.
    `step` are options of srun that start it in a container; `uncompiled` is why nothing can be
    compiled for it. `documents` is what an image would have in its `meta/`, by name, where it lies
    elsewhere.
    """

    arm: Arm
    image: Image
    deployment: Deployment
    libfabric: Libfabric = field(default_factory=Libfabric)
    folders: tuple[str, ...] = ()
    stamps: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    found: Mapping[str, str] = field(default_factory=dict)
    compilers: MpiWrappers | None = None
    step: tuple[str, ...] = ()
    uncompiled: tuple[Problem, ...] = ()
    documents: Mapping[str, str] = field(default_factory=dict)

    @property
    def contained(self) -> bool:
        """Return whether ranks run in a container, where files of the machine may not be seen."""
        return False

    @property
    def foreign(self) -> bool:
        """Return whether its MPI is in a container of other people, and in no bill."""
        return False

    def carrying(self, folder: str, programs: Mapping[str, str]) -> ReadyArm:
        """Return the arm with more programs by their paths in a folder; may raise as reading it."""
        return replace(
            self,
            deployment=replace(self.deployment, programs={**self.deployment.programs, **programs}),
            folders=tuple(dict.fromkeys((*self.folders, folder))),
        )

    def hidden(self, driver: Sequence[str]) -> Problem | None:
        """Return the reason that ranks cannot open a GPU's library that the machine may have."""
        del driver
        return None


def mount_list(deployment: Deployment) -> str:
    """Return the images of a deployment and their places as programs take them; empty for none."""
    return mountlist.render(
        [MountRequest(image=one.image, mount_point=one.mount_point) for one in deployment.mounts]
    )
