"""The stack of Guix's packages and its lock: channels at commits, a pack, and what it holds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from msgspec import field

from stackproof.build.stack import StackView
from stackproof.core import ids
from stackproof.core.value import Value

MOUNT = "/gnu"
"""Where images of Guix are mounted: programs of a store name each other by /gnu/store."""

HASH = "[0-9a-df-np-sv-z]{32}"
"""A hash in Guix's base 32, which has no e, o, t and u."""
ITEM = re.compile(rf"{HASH}-[A-Za-z0-9+._?=-]{{1,211}}")
"""The name of an item of a store."""


class Channel(Value):
    """A repository of packages at one commit; `introduced` and `fingerprint` begin its signatures.

    All three are empty where the recipe does not say them.
    """

    name: str
    url: str
    commit: str
    branch: str = ""
    introduced: str = ""
    fingerprint: str = ""


class GuixStack(Value):
    """A recipe for Guix, resolved on a site.

    `packages` are in Guix's words (NAME@VERSION:OUTPUT), `with_input` what takes the place of
    others. `mpi_version` may be the beginning of one, or empty. `site_facts` are as in that of
    wheels.
    """

    SCHEMA: ClassVar[str] = "stackproof/guix-stack/1"

    name: str
    version: str = "0"
    description: str = ""
    engine: str = "guix"
    mpi_family: str
    mpi_package: str
    mpi_version: str = ""
    packages: tuple[str, ...]
    channels: tuple[Channel, ...]
    with_input: Mapping[str, str] = field(default_factory=dict)
    mount: str = MOUNT
    architecture: str
    views: tuple[StackView, ...]
    default_view: str | None
    transports: tuple[str, ...] = ()
    benchmarks: tuple[str, ...] = ()
    compression: str = "zstd"
    compression_level: int = 6
    site_facts: Mapping[str, str] = field(default_factory=dict)


class StoreItem(Value):
    """A file or folder of a store: `filename` is its name there, HASH-NAME-VERSION.

    `sha256` is the digest of its nar, which `guix hash --serializer=nar` and substitute servers
    have too. `needs` are the items whose paths stand in its files and links, not itself.
    """

    filename: str
    name: str
    version: str
    sha256: str
    needs: tuple[str, ...] = ()


class GuixLock(Value):
    """The pack that Guix made of a recipe, kept beside it as `<recipe>.lock.json`.

    `pack` is the file that `guix pack` wrote, `items` the store in it; `mpi` and `profile` are
    names of items.
    """

    SCHEMA: ClassVar[str] = "stackproof/guix-lock/1"

    engine: str = "guix"
    wants: str
    channels: tuple[Channel, ...]
    pack: StoreItem
    items: tuple[StoreItem, ...]
    mpi: str
    profile: str

    def item(self, filename: str) -> StoreItem:
        """Return an item by its name in the store."""
        return next(item for item in self.items if item.filename == filename)


def wants(stack: GuixStack) -> str:
    """Return the id of what a lock must answer besides its channels."""
    wishes = {
        "packages": list(stack.packages),
        "with-input": dict(stack.with_input),
        "mpi": [stack.mpi_family, stack.mpi_package, stack.mpi_version],
        "benchmarks": list(stack.benchmarks),
        "architecture": stack.architecture,
    }
    return ids.content_id({"engine": stack.engine, **wishes})
