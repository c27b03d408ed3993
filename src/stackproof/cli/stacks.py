"""What `check`, `plan` and `build` share: from a recipe file to a locked, planned stack."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path

from stackproof.document import Document
from stackproof.engines import wheel
from stackproof.errors import Problem, Reason, StackproofError, fail
from stackproof.executor import lock_stack
from stackproof.host import files, toolchain
from stackproof.host.documents import load
from stackproof.monitor import Event, Monitor
from stackproof.noun import from_json, to_json
from stackproof.planner import Sources
from stackproof.recipe import Recipe, parse_recipe
from stackproof.resolve import resolve
from stackproof.spackstack import Caches, SpackStack
from stackproof.stack import Lock, Stack


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A recipe that is valid, and the stack it means on this machine or site.

    `path` is the recipe's file or its folder (Stackinator's formats). `document` is what a file
    holds, `recipe` what it asks of the wheel engine. `blobs` says where the bytes of a Spack
    stack's files lie on this machine, by digest; `caches` are the user's. `notes` are problems
    that keep nobody from going on.
    """

    path: Path
    stack: Stack | SpackStack
    document: Document | None = None
    recipe: Recipe | None = None
    blobs: Mapping[str, Path] = field(default_factory=dict)
    caches: Caches = field(default_factory=Caches)
    notes: tuple[Problem, ...] = ()

    @property
    def lock_path(self) -> Path:
        """Return where the lock stands: beside the recipe, `<recipe>.lock.json`."""
        return self.path.with_name(f"{self.path.stem}.lock.json")

    @property
    def wheel(self) -> Stack:
        """Return the stack of the wheel engine; calling it for another one is a bug."""
        if not isinstance(self.stack, Stack):
            raise TypeError(f"{self.path} is not for the wheel engine")
        return self.stack

    @property
    def spack(self) -> SpackStack:
        """Return the stack of the Spack engine; calling it for another one is a bug."""
        if not isinstance(self.stack, SpackStack):
            raise TypeError(f"{self.path} is not for the Spack engine")
        return self.stack

    @property
    def sources(self) -> Sources:
        """Return the texts that go into the image."""
        folder = resources.files("stackproof.benchmarks") / "csrc"
        csrc = {
            entry.name: entry.read_text()
            for entry in sorted(folder.iterdir(), key=lambda e: e.name)
            if entry.name.endswith((".c", ".h"))
        }
        return Sources(recipe_name=self.path.name, recipe=self.path.read_text(), csrc=csrc)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that every verb on recipes has."""
    parser.add_argument(
        "recipe", metavar="RECIPE", help="recipe file (YAML), or folder of a Stackinator recipe"
    )
    parser.add_argument(
        "--site",
        metavar="SITE",
        help="site file, name of a shipped site, or folder of a cluster configuration as "
        "Stackinator has it; default: this machine",
    )
    parser.add_argument(
        "--mirror", metavar="FILE", help="mirrors.yaml or cache.yaml of Spack stacks"
    )


def load_recipe(args: argparse.Namespace) -> Loaded:
    """Return the recipe named on the command line, resolved; raises all its problems at once."""
    path = Path(args.recipe)
    if path.is_dir():
        return _load_folder(args)
    document = load(str(path))
    recipe = parse_recipe(document)
    try:
        stack = resolve(recipe, _facts(args.site))
    except StackproofError as error:
        raise _placed(error, document) from None
    return Loaded(path=path, document=document, recipe=recipe, stack=stack)


def _load_folder(args: argparse.Namespace) -> Loaded:
    """Return the stack of a Stackinator recipe's folder."""
    raise fail(
        Reason.UNSUPPORTED,
        f"`{args.recipe}` is a folder; a recipe is one YAML file",
        hint="name the file, for example recipes/mpich.yaml",
    )


def _facts(site: str | None) -> dict[str, str]:
    """Return the facts of the machine that is built for.

    A named site decides the architecture; the compiler is always this machine's, since it is
    this machine that builds.
    """
    facts = toolchain.build_facts()
    if site is None:
        return facts
    from stackproof.host.probe import load_site  # noqa: PLC0415 - only with --site

    found = load_site(site)
    architectures = sorted(found.architectures)
    if not architectures:
        raise fail(
            Reason.INVALID_VALUE,
            f"the site `{found.name}` does not say what architecture it has",
            hint="add it to the site file, or probe the machine with `stackproof site probe`",
        )
    if len(architectures) > 1 and facts["architecture"] not in architectures:
        raise fail(
            Reason.INVALID_VALUE,
            f"the site `{found.name}` has several architectures: {', '.join(architectures)}",
            hint="name a site with one of them",
        )
    if facts["architecture"] not in architectures:
        facts["architecture"] = architectures[0]
    return facts


def _placed(error: StackproofError, document: Document) -> StackproofError:
    """Give problems of a resolution the place in the recipe that they are about."""
    keys = {Reason.UNKNOWN_VERSION: ("mpi", "version"), Reason.UNSUPPORTED: ("mpi", "family")}
    return StackproofError(
        *(
            replace(p, where=document.where(*keys[p.reason]))
            if p.where is None and p.reason in keys
            else p
            for p in error.problems
        )
    )


def valid_lock(loaded: Loaded) -> Lock | None:
    """Return the lock beside the recipe when it answers what the recipe asks; None otherwise.

    Raises `StackproofError` when the lock file is there and is not a lock.
    """
    try:
        text = loaded.lock_path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise files.translate(error, loaded.lock_path) from error
    lock = from_json(Lock, text, file=str(loaded.lock_path))
    return lock if lock.wants == wheel.wants(loaded.wheel) else None


def make_lock(loaded: Loaded, monitor: Monitor) -> Lock:
    """Resolve the recipe to exact files with the package index."""
    monitor(Event(what="started", name="resolve", text="exact versions and digests"))
    try:
        lock = lock_stack(loaded.wheel)
    except StackproofError as error:
        raise (_placed(error, loaded.document) if loaded.document else error) from None
    found = ", ".join(f"{a.name} {a.version}" for a in lock.artefacts)
    monitor(Event(what="done", name="resolve", text=found))
    return lock


def ensure_lock(loaded: Loaded, monitor: Monitor, *, update: bool, locked: bool) -> Lock:
    """Return a lock that answers the recipe, made and written beside it when there is none.

    Raises `StackproofError` (LOCK_MISMATCH) with `locked` when one would have to be made.
    """
    lock = None if update else valid_lock(loaded)
    if lock is not None:
        return lock
    if locked:
        raise StackproofError(
            Problem(
                reason=Reason.LOCK_MISMATCH,
                message=f"`{loaded.lock_path}` does not answer this recipe, and --locked forbids "
                "to make a new one",
                hint="run `stackproof build --update` and look at what changed",
            )
        )
    lock = make_lock(loaded, monitor)
    files.write(loaded.lock_path, to_json(lock))
    monitor(Event(what="note", name="lock", text=f"written to {loaded.lock_path}"))
    return lock
