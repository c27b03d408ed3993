"""The image noun: one file that holds a stack, what it says of itself, and how a job sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec import field

from stackproof.core.command import EnvPatch
from stackproof.core.value import Value


class View(Value):
    """A named environment patch of an image; `root` is a path inside the mounted image.

    `features` are words by which tests find out whether they fit: `mpi`, `openmpi`, `cuda`.
    """

    name: str
    root: str
    description: str = ""
    env: EnvPatch = field(default_factory=EnvPatch)
    features: tuple[str, ...] = ()


class BenchmarkProgram(Value):
    """A benchmark program inside an image: `path` is absolute, below the mount point."""

    name: str
    path: str


class MpiFacts(Value):
    """What an image says about its MPI (key `mpi` of `meta/env.json`, an addition of ours).

    `family` is a name in `stackproof.mpi.families`, `prefix` the absolute folder with `bin/` and
    `lib/` below the mount point.
    """

    family: str
    version: str
    prefix: str
    launcher: str


class Image(Value):
    """A SquashFS image and its metadata.

    `path` is the file, `mount` the mount point it was built for, `sha256` the digest of the file
    (empty until somebody asked for it, since it costs a read of the whole file). `transports` are
    the views that force the transport of their name. Without `redistribute` it holds files that
    their vendor lets nobody hand on. `architecture` is that of its programs as `uname -m` says it,
    empty for an image that does not tell.
    """

    SCHEMA: ClassVar[str] = "stackproof/image/1"

    path: str
    name: str
    mount: str
    size: int
    description: str = ""
    sha256: str = ""
    default_view: str | None = None
    views: Mapping[str, View] = field(default_factory=dict)
    transports: tuple[str, ...] = ()
    mpi: MpiFacts | None = None
    benchmarks: tuple[BenchmarkProgram, ...] = ()
    stack_id: str = ""
    lock_digest: str = ""
    redistribute: bool = True
    architecture: str = ""


class TreeDigest(Value):
    """One digest of all that programs see in a tree, whatever packed it, and when, and where.

    `without` are names at the root that do not count. `image.effects.tree_digest` has the bytes
    that are hashed.
    """

    SCHEMA: ClassVar[str] = "stackproof/tree/1"

    sha256: str
    without: tuple[str, ...] = ()


class ImageMount(Value):
    """One image at one mount point; both absolute paths."""

    image: str
    mount_point: str


class Deployment(Value):
    """Mounts, environment and MPI of one arm of a comparison.

    `name` is the arm's label; `env` already holds the view's patch; the transport's patch is
    added per case, since it depends on the placement. `mpi.prefix` may also be a folder of the
    host (a vendor MPI without an image), then `mounts` is empty. `mpiexec` is the launcher's path
    where that is not `bin/mpiexec` of the prefix; `wrapped` are words before every rank's program,
    as they start a container.
    """

    name: str
    mounts: tuple[ImageMount, ...]
    mpi: MpiFacts
    programs: dict[str, str]
    env: EnvPatch = field(default_factory=EnvPatch)
    image_sha256: str = ""
    lock_digest: str = ""
    recipe: str = ""
    mpiexec: str = ""
    wrapped: tuple[str, ...] = ()


TREE_RECORD = "meta/tree.json"
"""The file in an image with the digest of its tree."""
NOT_IN_TREE = ("benchmarks", "meta")
"""What does not count in an image: the benchmark, which the machine's own compiler makes where it
is built, and what the image says of itself, this digest among it."""
