"""The Spack engine: a stack of packages built from source, with views, modules and metadata.

Everything here is pure: it renders what Spack reads, lists the commands that lock and build, and
reads Spack's lock files. `build/engines/spack/effects/worker.py` runs inside the sandbox for what
only Spack knows.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stackproof.build.engines.spack.buildplan import (
        INSTALL,
        MIRROR,
        build_plan,
        mirror_plan,
    )
    from stackproof.build.engines.spack.configuration import CacheSettings, cache_settings
    from stackproof.build.engines.spack.lockplan import lock_plan, read_lock, wants
    from stackproof.build.engines.spack.locks import lock_files
    from stackproof.build.engines.spack.missing_sources import source_problems
    from stackproof.build.engines.spack.problems import problems

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

_HOMES = {
    "buildplan": {"INSTALL", "MIRROR", "build_plan", "mirror_plan"},
    "configuration": {"CacheSettings", "cache_settings"},
    "lockplan": {"lock_plan", "read_lock", "wants"},
    "locks": {"lock_files"},
    "missing_sources": {"source_problems"},
    "problems": {"problems"},
}


def __getattr__(name: str) -> Any:
    """Return an attribute of a module of the engine; `check` of a recipe needs few modules."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(name)
