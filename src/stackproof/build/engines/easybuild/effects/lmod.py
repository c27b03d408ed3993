"""Lmod of this machine: EasyBuild needs it to load what it has built."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from stackproof.build.effects import rootfs
from stackproof.core.command import Bind
from stackproof.core.effects.sandbox import package_hint
from stackproof.core.errors import Reason, StackproofError, fail

# Where the packages of distributions install it (Debian and Ubuntu; Fedora and its relatives).
_PLACES = ("/usr/share/lmod/lmod/libexec/lmod", "/opt/apps/lmod/lmod/libexec/lmod")


def find(root: Path | None = None) -> Path:
    """Return Lmod's own program: what `LMOD_CMD` names, what is on PATH, or that of a package.

    In the root of another system it is that of a package there, as it is seen inside. Raises
    `StackproofError` (TOOL_MISSING).
    """
    if root is not None:
        inside = (place for place in _PLACES if place.startswith("/usr/"))
        found = next((place for place in inside if os.path.isfile(f"{root}{place}")), None)
        if found is None:
            raise StackproofError(rootfs.missing("lmod", root))
        return Path(found)
    named = os.environ.get("LMOD_CMD") or shutil.which("lmod")
    for place in (named, *_PLACES):
        if place and os.access(place, os.X_OK) and os.path.isfile(place):
            return Path(place).resolve()
    raise fail(
        Reason.TOOL_MISSING,
        "EasyBuild needs a modules tool, and Lmod is not installed",
        hint=f"{package_hint('lmod')}; where it is installed elsewhere, set LMOD_CMD to its "
        "`libexec/lmod`",
    )


def binds(program: Path) -> tuple[Bind, ...]:
    """Return what a sandbox must see of Lmod; nothing where it is below `/usr`."""
    if program.is_relative_to("/usr"):
        return ()
    root = str(program.parent.parent)
    return (Bind(source=root, target=root),)
