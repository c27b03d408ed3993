"""The deployment noun: an image as a job sees it."""

from __future__ import annotations

from dataclasses import dataclass, field

from stackproof.core.command import EnvPatch
from stackproof.image.model import ImageMount, MpiFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """Mounts, environment and MPI of one arm of a comparison.

    `name` is the arm's label; `env` already holds the view's patch; the transport's patch is
    added per case, since it depends on the placement. `mpi.prefix` may also be a folder of the
    host (a vendor MPI without an image), then `mounts` is empty.
    """

    name: str
    mounts: tuple[ImageMount, ...]
    mpi: MpiFacts
    programs: dict[str, str]
    env: EnvPatch = field(default_factory=EnvPatch)
    image_sha256: str = ""
    lock_digest: str = ""
    recipe: str = ""
