"""The Spack engine: a stack of packages built from source, with views, modules and metadata.

Everything here is pure: it renders what Spack reads, lists the commands that lock and build, and
reads Spack's lock files. `build/engines/spack/effects/worker.py` runs inside the sandbox for what
only Spack knows.
"""

from __future__ import annotations

from collections.abc import Mapping

from stackproof.build.engines.spack import locks
from stackproof.build.engines.spack.buildplan import INSTALL, MIRROR, build_plan, mirror_plan
from stackproof.build.engines.spack.configuration import CacheSettings, cache_settings
from stackproof.build.engines.spack.lockplan import lock_plan, wants
from stackproof.build.engines.spack.locks import lock_files
from stackproof.build.engines.spack.missing_sources import source_problems
from stackproof.build.engines.spack.problems import problems
from stackproof.build.engines.spack.stack import LockedClone, SpackLock, SpackStack

__all__ = [
    "INSTALL",
    "MIRROR",
    "CacheSettings",
    "build_plan",
    "cache_settings",
    "lock_files",
    "lock_plan",
    "mirror_plan",
    "problems",
    "read_lock",
    "source_problems",
    "wants",
]


def read_lock(
    stack: SpackStack, clones: tuple[LockedClone, ...], files: Mapping[str, bytes]
) -> SpackLock:
    """Return the lock of a stack from the lock files that Spack left (`lock_files`).

    Raises `StackproofError` (GARBAGE_OUTPUT, UNSUPPORTED) with all problems.
    """
    return locks.read_lock(stack, wants(stack), clones, files)
