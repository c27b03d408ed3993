"""A recipe that was read: the stack that it means, its lock, and what goes with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from stackproof.document import Document
from stackproof.errors import Problem
from stackproof.host import shipped
from stackproof.stack import Stack

if TYPE_CHECKING:  # what one kind of recipe needs is imported where it is read
    from stackproof.composition import Composed
    from stackproof.engines.easybuild.stack import EasyBuildStack
    from stackproof.planner import Sources
    from stackproof.recipe import Recipe
    from stackproof.spackstack import Caches, SpackStack


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A recipe that is valid, and the stack it means on this machine or site.

    `path` is the recipe's file or its folder (Stackinator's formats). `document` is what a file
    means with all that it inherits, `composed` where each of its values is from, `recipe` what it
    asks of the wheel engine. `blobs` says where the bytes of a Spack stack's files lie on this
    machine, by digest; `given_caches` are the user's. `notes` are problems that keep nobody from
    going on. `variant` tells the locks of one recipe for several targets apart, and `site` those of
    sites that are alike in all that conditions ask for and differ in what they have for Spack.
    `by_name` is a shipped recipe that was asked for by its name: nothing is written where it lies.
    """

    path: Path
    stack: Stack | SpackStack | EasyBuildStack
    document: Document | None = None
    recipe: Recipe | None = None
    composed: Composed | None = None
    blobs: Mapping[str, Path] = field(default_factory=dict)
    given_caches: Caches | None = None
    notes: tuple[Problem, ...] = ()
    variant: str = ""
    site: str = ""
    by_name: bool = False

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
    def os_sources_path(self) -> Path:
        """Return where the accepted sources of the operating system are listed, as the lock is."""
        stem = replace(self, variant="", site="").new_lock_path.name.removesuffix(".lock.json")
        return self.new_lock_path.with_name(f"{stem}.os-sources.json")

    @property
    def for_spack(self) -> bool:
        """Return whether Spack builds the stack; asked of its name, since its nouns load slowly."""
        return self.stack.engine == "spack"

    @property
    def for_easybuild(self) -> bool:
        """Return whether EasyBuild builds the stack; asked of its name too."""
        return self.stack.engine == "easybuild"

    @property
    def caches(self) -> Caches:
        """Return the user's caches for Spack, empty where none are given."""
        from stackproof.spackstack import Caches  # noqa: PLC0415 - only for Spack stacks

        return self.given_caches or Caches()

    @property
    def wheel(self) -> Stack:
        """Return the stack of the wheel engine; calling it for another one is a bug."""
        if not isinstance(self.stack, Stack):
            raise TypeError(f"{self.path} is not for the wheel engine")
        return self.stack

    @property
    def spack(self) -> SpackStack:
        """Return the stack of the Spack engine; calling it for another one is a bug."""
        if not self.for_spack:
            raise TypeError(f"{self.path} is not for the Spack engine")
        return cast("SpackStack", self.stack)

    @property
    def easybuild(self) -> EasyBuildStack:
        """Return the stack of the EasyBuild engine; calling it for another one is a bug."""
        if not self.for_easybuild:
            raise TypeError(f"{self.path} is not for the EasyBuild engine")
        return cast("EasyBuildStack", self.stack)

    @property
    def sources(self) -> Sources:
        """Return the texts that go into the image."""
        from stackproof.planner import Sources  # noqa: PLC0415

        csrc = shipped.benchmark_sources()
        return Sources(
            recipe_name=self.path.name, recipe=self.path.read_text(encoding="utf-8"), csrc=csrc
        )
