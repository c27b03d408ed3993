"""What registries had when they were last asked, kept in the cache: for completion, and offline.

It is shown and nothing else: what is pulled, or has a label, is asked of the registry itself.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from pathlib import Path

from stackproof.core import limits
from stackproof.core.effects import cache_kinds, files
from stackproof.core.errors import StackproofError
from stackproof.share import listing
from stackproof.share.addresses import RegistryAddress
from stackproof.share.listing import RemoteRecord

KIND = "listings"
_SUFFIX = ".json"


def keep(address: RegistryAddress, namespace: str, records: Sequence[RemoteRecord]) -> None:
    """Keep what a namespace has; a cache that cannot be written keeps nothing."""
    with contextlib.suppress(StackproofError):
        files.write(_folder(address) / f"{namespace}{_SUFFIX}", listing.render(records))


def known(address: RegistryAddress, namespace: str = "") -> tuple[RemoteRecord, ...]:
    """Return the images that a namespace had, or all of them, without what cannot be read."""
    pattern = f"{namespace or '*'}{_SUFFIX}"
    found: list[RemoteRecord] = []
    for path in sorted(_folder(address).glob(pattern)):
        with contextlib.suppress(StackproofError):
            content = files.read_bounded(path, limits.LISTING)
            found += listing.parse(content, namespace=path.stem, where=str(path))
    return listing.ordered(found)


def _folder(address: RegistryAddress) -> Path:
    return cache_kinds.home(KIND) / hashlib.sha256(str(address).encode()).hexdigest()
