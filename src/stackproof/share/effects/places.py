"""Which repositories there are for this user, and what is in them.

`STACKPROOF_REPOSITORY` names them, several with colons: all are read, the first is written to. Left
out, it is the one that uenv takes where nothing is configured: `$SCRATCH/.uenv-images`, else
`~/.uenv/repo`, the first that is there, or that can be made.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from stackproof.share import labels
from stackproof.share.effects.repository import ImageRepository
from stackproof.share.labels import Label, LabelRecord

VARIABLE = "STACKPROOF_REPOSITORY"
SYSTEM = "CLUSTER_NAME"
"""The variable by which a site tells which of its systems this is; it is uenv's, too."""


def repositories(environment: Mapping[str, str] | None = None) -> tuple[ImageRepository, ...]:
    """Return the repositories, the one to write to first; the folders need not be there."""
    env = os.environ if environment is None else environment
    named = [Path(os.path.abspath(text)) for text in env.get(VARIABLE, "").split(":") if text]
    if named:
        return tuple(ImageRepository(path) for path in named)
    bases = {env.get("SCRATCH", ""): ".uenv-images", env.get("HOME") or "/": ".uenv/repo"}
    usual = {base: ImageRepository(Path(base, below)) for base, below in bases.items() if base}
    there = [one for one in usual.values() if one.exists()]
    can_be = [one for base, one in usual.items() if os.access(base, os.W_OK)]
    return tuple(there or can_be or usual.values())[:1]


def own() -> ImageRepository:
    """Return the repository that is written to."""
    return repositories()[0]


def records() -> tuple[LabelRecord, ...]:
    """Return the labels of all repositories; of one that stands in several the first counts."""
    return _merged(one.records() for one in repositories())


def candidates(label: Label, *, beginning: bool = False) -> tuple[LabelRecord, ...]:
    """Return at least the records of all repositories that `labels.matching` takes, as `records`.

    What a digest means in one of several shows only when all labels of those before it are read.
    """
    several = repositories()
    if len(several) > 1 and labels.may_be_digest(label):
        return records()
    return _merged(one.candidates(label, beginning=beginning) for one in several)


def _merged(parts: Iterable[tuple[LabelRecord, ...]]) -> tuple[LabelRecord, ...]:
    first, *others = parts
    if not others:
        return first
    found = {record.label: record for record in first}
    for part in others:
        for record in part:
            found.setdefault(record.label, record)
    return tuple(found.values())


def system() -> str:
    """Return the system that labels without one are of, empty where that is not known."""
    return os.environ.get(SYSTEM, "")
