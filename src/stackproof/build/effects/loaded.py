"""A recipe that was read: the stack that it means, its lock, and what goes with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import field

from stackproof.build.engine import Sources
from stackproof.build.swap import Swap
from stackproof.core.document import Document
from stackproof.core.effects import shipped
from stackproof.core.errors import Location, Problem
from stackproof.core.value import Value, replace

OVERLAY = "with.json"
"""The file beside the recipe in an image with the keys that words laid over it."""

if TYPE_CHECKING:  # what one kind of recipe needs is imported where it is read
    from stackproof.recipe.composition import Composed


class Loaded(Value):
    """A recipe that is valid, and the stack it means on this machine or site.

    `path` is the recipe's file or its folder (Stackinator's formats), `stack` the noun of its
    engine (`stack.AnyStack`). `document` is what a file means with all that it inherits, `composed`
    where each of its values is from. `blobs` says where the bytes of the stack's files lie on this
    machine, by digest; `given_caches` are the user's, a noun of the engine. `notes` are problems
    that keep nobody from going on. `variant` tells the locks of one recipe for several targets
    apart, and `site` those of sites that are alike in all that conditions ask for and differ in
    what they have for Spack. `by_name` is a shipped recipe that was asked for by its name: nothing
    is written where it lies. `with_site` is one that takes values from the site's own
    configuration. `swaps` are what words such as `--with` came to, and `overlay` the keys that they
    laid over the recipe, as JSON.
    """

    path: Path
    stack: Any
    document: Document | None = None
    composed: Composed | None = None
    blobs: Mapping[str, Path] = field(default_factory=dict)
    given_caches: Any = None
    notes: tuple[Problem, ...] = ()
    variant: str = ""
    site: str = ""
    by_name: bool = False
    with_site: bool = False
    swaps: tuple[Swap, ...] = ()
    overlay: str = ""

    @property
    def lock_path(self) -> Path:
        """Return where the lock stands: by the recipe, `<recipe>[.<variant>][.<site>].lock.json`.

        A recipe's folder has it beside itself, since all that is in the folder is the recipe. One
        that is not of this site in particular counts where the site has none of its own. Of a
        shipped recipe the lock that comes with it counts unless there is one in this folder.
        """
        general = replace(self, site="").new_lock_path
        found = [self.new_lock_path, general]
        if self.by_name:
            found += [self.path.parent / path.name for path in found]
        return next((path for path in found if path.exists()), self.new_lock_path)

    @property
    def new_lock_path(self) -> Path:
        """Return where a lock is written: beside the recipe, for a shipped one in this folder."""
        stem = self.path.stem if self.path.is_file() else self.path.resolve().name
        folder = self.path.parent if self.path.is_file() else self.path.resolve().parent
        folder = Path() if self.by_name else folder
        return folder / ".".join(filter(None, (stem, self.variant, self.site, "lock.json")))

    @property
    def origin(self) -> str:
        """Return what builds of this recipe for this target have in common."""
        return str(self.path.resolve().parent / self.new_lock_path.name)

    @property
    def sources(self) -> Sources:
        """Return the texts that go into the image; a folder's are part of the stack itself."""
        texts = (self.path,) if self.path.is_file() else ()
        return Sources(
            recipe={
                **{path.name: path.read_text(encoding="utf-8") for path in texts},
                **({OVERLAY: self.overlay} if self.overlay else {}),
            },
            csrc=shipped.benchmark_sources(),
            caches=self.given_caches,
        )

    def where(self, key: str) -> Location | None:
        """Return where in the recipe a key stands, None for a folder."""
        return self.document.where(key) if self.document else None
