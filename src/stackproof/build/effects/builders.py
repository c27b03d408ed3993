"""Builders: what has the effects of an engine; and the registry of both.

A builder names its `Engine`, which is pure. Modules are named, and imported when a recipe is for
them: none of the three loads fast enough to be loaded for another one.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from stackproof.build.engine import Engine, Findings
from stackproof.build.options import BuildOptions, RecipeOptions
from stackproof.build.swap import Swapper
from stackproof.core.document import Document
from stackproof.core.errors import Problem, Reason, StackproofError, did_you_mean, fail
from stackproof.core.monitor import Monitor
from stackproof.core.value import Value

if TYPE_CHECKING:  # `check` and `plan` build nothing
    from stackproof.build.effects.loaded import Loaded
    from stackproof.build.effects.workspace import BuildSetup
    from stackproof.build.plan import Plan
    from stackproof.recipe.composition import Composed

REGISTRY: dict[str, str] = {
    "spack": "stackproof.build.engines.spack.effects.builder",
    "easybuild": "stackproof.build.engines.easybuild.effects.builder",
    "wheel": "stackproof.build.engines.wheel.effects.builder",
    "vendor": "stackproof.build.engines.vendor.effects.builder",
    "guix": "stackproof.build.engines.guix.effects.builder",
}
"""The module of each engine's builder, which has it as `BUILDER`."""
FACTS = "stackproof.build.engines.spack.effects.recipe_files"
"""The module that knows the facts of sites, a cluster's folder for Spack among them."""
DEFAULT = "wheel"
"""The engine of a recipe that names none, or `auto`."""
OF_FOLDERS = "spack"
"""The engine of a recipe that is a folder: Stackinator's formats."""


NO_RPMS = Problem(
    reason=Reason.USAGE,
    message="`--from` names a folder of RPMs or a pack of Guix, of which only recipes with "
    "`engine: vendor` or `engine: guix` are made",
)
"""Why an engine refuses `from`."""

NO_NODES = Problem(reason=Reason.USAGE, message="`--on slurm` is for recipes with `engine: spack`")
"""Why an engine refuses `on`."""


def build_dir_problem(content: str, assembly: str) -> Problem:
    """Return the refusal of `build-dir` by an engine whose content was built elsewhere."""
    return Problem(
        reason=Reason.USAGE,
        message=f"`--build-dir` is for builds from source, and this recipe is of {content}",
        hint=f"{assembly} in the cache: set STACKPROOF_CACHE to move it",
    )


class Solving(StrEnum):
    """What it takes to make a lock, which decides who makes one besides `build`."""

    QUESTION = "question"
    """A question to the package index: `check` and `plan` ask it."""
    FILES = "files"
    """Source files are looked at: `plan` does."""
    STEPS = "steps"
    """Steps of a plan, and minutes: `plan` shows them."""


class Reading(Value):
    """A recipe that was read and not yet understood.

    `composed` is what a file means with all that it inherits (`chain`), None for a folder; `facts`
    are those of the command line.
    """

    path: Path
    options: RecipeOptions
    facts: Mapping[str, str]
    chain: tuple[Document, ...] = ()
    composed: Composed | None = None

    def require_file(self) -> Composed:
        """Return the meaning of a file; raises `TypeError` for a folder."""
        if self.composed is None:
            raise TypeError(f"{self.path} is a folder")
        return self.composed


class Builder(Protocol):
    """What has the effects of one engine."""

    @property
    def engine(self) -> Engine:
        """Return what is pure of it."""

    @property
    def lock_kind(self) -> type[Any]:
        """Return the noun of its locks."""

    @property
    def solving(self) -> Solving:
        """Return what it takes to make a lock."""

    @property
    def refused(self) -> Mapping[str, Problem]:
        """Return what is wrong with options that are nothing for it, and with `mirror create`."""

    @property
    def swap(self) -> Swapper:
        """Return what makes words into keys that are laid over its recipes."""

    def load(self, reading: Reading) -> Loaded:
        """Return the stack that a recipe means; raises `StackproofError` with all problems."""

    def check(self, loaded: Loaded, lock: Any | None, *, whole: bool) -> Findings:
        """Return what this machine knows of a stack besides `Engine.problems`.

        Without `whole` only what a build refuses, or tells before it begins.
        """

    def solve(self, loaded: Loaded, options: BuildOptions, monitor: Monitor) -> Any:
        """Return a new lock; raises `StackproofError` with all problems."""

    def setup(
        self, loaded: Loaded, lock: Any, plan: Plan, options: BuildOptions, monitor: Monitor
    ) -> BuildSetup:
        """Return what a build has of this machine, and bring what it needs besides the plan."""

    def fill_mirror(
        self, loaded: Loaded, lock: Any, options: BuildOptions, folder: Path, monitor: Monitor
    ) -> frozenset[Path]:
        """Bring the sources of a locked stack into a folder; return the clones in it."""


class MirrorlessBuilder:
    """A builder of what is no source, and lies in no mirror; `refused` says why."""

    refused: Mapping[str, Problem]

    def fill_mirror(self, *_: Any, **__: Any) -> frozenset[Path]:
        """See `Builder`."""
        raise StackproofError(self.refused["mirror create"])


def known_facts(site: str | None, stated: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Return what conditions may ask for: the site's facts, this machine's where it has none.

    `stated` is what a recipe says outright, where a site's folder is read as one of its kind.
    """
    found: dict[str, str] = importlib.import_module(FACTS).known_facts(site, stated)
    return found


def find(name: str) -> Builder:
    """Return the builder of an engine."""
    found: Builder = importlib.import_module(REGISTRY[name]).BUILDER
    return found


def of(loaded: Loaded) -> Builder:
    """Return the builder of a recipe that was read."""
    return find(loaded.stack.engine)


def name_of(document: Document) -> str:
    """Return the engine that a recipe asks for.

    Raises `StackproofError`: INVALID_VALUE for one that is not there, MISSING_KEY for a recipe for
    Spack that does not say so.
    """
    name = document.data.get("engine")
    names = (*REGISTRY, "auto")
    if name is None and "environments" in document.data and "mpi" not in document.data:
        raise fail(
            Reason.MISSING_KEY,
            "the recipe has `environments`, and does not say that Spack builds them",
            hint="add `engine: spack`",
            where=document.where_key("environments"),
        )
    if not isinstance(name, str) or name == "auto":  # of another type: the schema refuses it
        return DEFAULT
    if name in REGISTRY:
        return name
    guess = did_you_mean(name, names)
    raise fail(
        Reason.INVALID_VALUE,
        f"`{name}` is no engine",
        hint=f"{guess}there are: {', '.join(names)}",
        where=document.where("engine"),
    )


def refuse(builder: Builder, *options: str) -> None:
    """Raise `StackproofError` for options that are given and nothing for an engine."""
    found = [builder.refused[name] for name in options if name in builder.refused]
    if found:
        raise StackproofError(*found)


def refuse_wrong(found: Findings) -> Findings:
    """Return findings without problems; raises `StackproofError` with all of them otherwise."""
    if found.problems:
        raise StackproofError(*found.problems)
    return found
