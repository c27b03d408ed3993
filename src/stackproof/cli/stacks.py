"""What `check`, `plan` and `build` share: from a recipe file to a locked, planned stack."""

from __future__ import annotations

import argparse
import difflib
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof.conditions import Verdict
from stackproof.document import Document
from stackproof.engines.easybuild.stack import EasyBuildStack
from stackproof.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.host import toolchain
from stackproof.spackstack import Caches, SpackStack
from stackproof.stack import Stack

if TYPE_CHECKING:  # what one kind of recipe needs is imported where it is read
    from stackproof.composition import Composed
    from stackproof.host.recipes import Place
    from stackproof.planner import Sources
    from stackproof.recipe import Recipe
    from stackproof.stackinator.cluster import ClusterConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A recipe that is valid, and the stack it means on this machine or site.

    `path` is the recipe's file or its folder (Stackinator's formats). `document` is what a file
    means with all that it inherits, `composed` where each of its values is from, `recipe` what it
    asks of the wheel engine. `blobs` says where the bytes of a Spack stack's files lie on this
    machine, by digest; `caches` are the user's. `notes` are problems that keep nobody from going
    on. `variant` tells the locks of one recipe for several targets apart.
    """

    path: Path
    stack: Stack | SpackStack | EasyBuildStack
    document: Document | None = None
    recipe: Recipe | None = None
    composed: Composed | None = None
    blobs: Mapping[str, Path] = field(default_factory=dict)
    caches: Caches = field(default_factory=Caches)
    notes: tuple[Problem, ...] = ()
    variant: str = ""

    @property
    def lock_path(self) -> Path:
        """Return where the lock stands: beside the recipe, `<recipe>[.<variant>].lock.json`.

        A recipe's folder has it beside itself, since all that is in the folder is the recipe.
        """
        stem = self.path.stem if self.path.is_file() else self.path.resolve().name
        middle = f".{self.variant}" if self.variant else ""
        folder = self.path.parent if self.path.is_file() else self.path.resolve().parent
        return folder / f"{stem}{middle}.lock.json"

    @property
    def os_sources_path(self) -> Path:
        """Return where the accepted sources of the operating system are listed, as the lock is."""
        return self.lock_path.with_name(
            f"{replace(self, variant='').lock_path.name.removesuffix('.lock.json')}.os-sources.json"
        )

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
    def easybuild(self) -> EasyBuildStack:
        """Return the stack of the EasyBuild engine; calling it for another one is a bug."""
        if not isinstance(self.stack, EasyBuildStack):
            raise TypeError(f"{self.path} is not for the EasyBuild engine")
        return self.stack

    @property
    def sources(self) -> Sources:
        """Return the texts that go into the image."""
        from stackproof.host import shipped  # noqa: PLC0415 - not for Spack stacks
        from stackproof.planner import Sources  # noqa: PLC0415

        csrc = shipped.benchmark_sources()
        return Sources(recipe_name=self.path.name, recipe=self.path.read_text(), csrc=csrc)


_ENGINES = ("spack", "easybuild", "wheel", "auto")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that every verb on recipes has."""
    parser.add_argument(
        "recipe", metavar="RECIPE", help="recipe file (YAML), or folder of a Stackinator recipe"
    )
    add_site_arguments(parser)
    parser.add_argument(
        "--mirror",
        metavar="FILE|DIR",
        help="mirrors.yaml or cache.yaml of Spack stacks, or a folder: one of `mirror create`, or "
        "for EasyBuild any that has the source files",
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--choose",
        metavar="AXIS=CHOICE",
        action="append",
        default=[],
        help="one combination of the recipe's matrix; once for each axis",
    )
    group.add_argument(
        "--matrix", action="store_true", help="every combination of the recipe's matrix"
    )


def add_site_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that say where a stack is to be built."""
    parser.add_argument(
        "--site",
        metavar="SITE",
        help="site file, name of a shipped site, or folder of a cluster configuration as "
        "Stackinator has it; default: this machine",
    )
    parser.add_argument(
        "--fact",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a fact that conditions of the recipe ask for, in the place of what the site says "
        "(architecture=aarch64, gpu=cuda)",
    )


def load_recipe(args: argparse.Namespace) -> Loaded:
    """Return the recipe named on the command line, resolved; raises all its problems at once."""
    loaded = load_recipes(args)
    if len(loaded) == 1:
        return loaded[0]
    raise fail(Reason.USAGE, "`--matrix` stands for several stacks, and this needs one")


def load_recipes(args: argparse.Namespace) -> tuple[Loaded, ...]:
    """Return the stacks of a recipe: one for each combination with `--matrix`, otherwise one."""
    path = Path(args.recipe)
    facts = given_facts(args.fact)
    if path.is_dir():
        return (_with_os_sources(_load_folder(path, args, facts)),)
    from stackproof import composition  # noqa: PLC0415 - not for folders
    from stackproof.host import recipes  # noqa: PLC0415

    chain = recipes.load_chain(str(path))
    choices = composition.expand(chain)
    if not args.matrix:
        choices = (_choice(args.choose, chain),)
    return tuple(
        _with_os_sources(_load_file(path, chain, choice, args, facts)) for choice in choices
    )


def _with_os_sources(loaded: Loaded) -> Loaded:
    """Return a recipe with the sources of the operating system that were accepted for it."""
    if not isinstance(loaded.stack, SpackStack):
        return loaded
    from stackproof.host import accepted_sources  # noqa: PLC0415 - only for Spack stacks

    stack, blobs = accepted_sources.accept(loaded.stack, loaded.blobs, loaded.os_sources_path)
    return replace(loaded, stack=stack, blobs=blobs)


def given_facts(words: list[str]) -> dict[str, str]:
    """Return the facts of `--fact NAME=VALUE`; raises `StackproofError` (USAGE)."""
    from stackproof.conditions import FACTS  # noqa: PLC0415 - beside its only use

    facts = _pairs(words, "--fact")
    for name, value in facts.items():
        if name not in FACTS:
            raise fail(
                Reason.USAGE, f"`{name}` is not a fact", hint=f"facts are: {', '.join(FACTS)}"
            )
        possible = FACTS[name].values
        if possible and value not in possible:
            raise fail(
                Reason.USAGE,
                f"`{name}` is never `{value}`",
                hint=f"it is one of: {', '.join(possible)}",
            )
    return facts


def _pairs(words: list[str], option: str) -> dict[str, str]:
    pairs = {}
    for word in words:
        name, mark, value = word.partition("=")
        if not (name and mark and value):
            form = "AXIS=CHOICE" if option == "--choose" else "NAME=VALUE"
            raise fail(Reason.USAGE, f"`{option} {word}` is not of the form {form}")
        pairs[name] = value
    return pairs


def _choice(words: list[str], chain: tuple[Document, ...]) -> dict[str, str]:
    """Return the one combination that `--choose` names; a recipe without a matrix needs none."""
    from stackproof import composition  # noqa: PLC0415 - beside its only use

    axes = composition.matrix(chain)
    chosen = _pairs(words, "--choose")
    combinations = composition.expand(chain)
    for one in combinations:
        if dict(one) == chosen:
            return chosen
    known = "; ".join(" ".join(f"{a}={name}" for a, name in one.items()) for one in combinations)
    if not axes:
        raise fail(Reason.USAGE, "the recipe has no matrix to choose from")
    raise fail(
        Reason.USAGE,
        "the recipe has a matrix, and "
        + ("this combination is none of it" if chosen else "nothing was chosen"),
        hint=f"give `--choose` once for each axis, or `--matrix` for all; there are: {known}",
    )


def _load_folder(path: Path, args: argparse.Namespace, facts: Mapping[str, str]) -> Loaded:
    """Return the stack of a Stackinator recipe's folder."""
    from stackproof.host import stackinator  # noqa: PLC0415 - not for other recipes

    site: str | ClusterConfig | None = args.site
    architecture = facts.get("architecture")
    blobs: Mapping[str, Path] = {}
    if args.site is not None:
        place = _place(args.site, 1)
        site = place.folder or place.cluster  # a folder is read as the recipe's version has it
        blobs = {} if place.folder else place.blobs
        architecture = architecture or place.facts.get("architecture")
    found = stackinator.load(str(path), site=site, mirrors=args.mirror, architecture=architecture)
    return Loaded(
        path=path,
        stack=found.stack,
        blobs={**blobs, **found.blobs},
        caches=found.caches,
        notes=found.notes,
    )


def _load_file(
    path: Path,
    chain: tuple[Document, ...],
    choice: Mapping[str, str],
    args: argparse.Namespace,
    given: Mapping[str, str],
) -> Loaded:
    """Return the stack of one combination of a recipe file."""
    from stackproof import composition, easybuild_recipe, spack_recipe  # noqa: PLC0415 - see above

    facts = dict(given)
    if composition.has_conditions(chain):
        stated = [one.data for one in chain if "generation" in one.data] or [{}]
        generation = spack_recipe.generation_of(stated[-1])
        facts = {**known_facts(args.site, generation), **given}
    composed = composition.compose(chain, facts, choice)
    _check_engine(composed.document)
    if easybuild_recipe.asks_for_easybuild(composed.document.data):
        return _load_easybuild(path, composed, args, given)
    if not spack_recipe.asks_for_spack(composed.document.data):
        return _load_wheel(path, composed, args, given)
    return _load_spack(path, chain, composed, args, given)


def _check_engine(document: Document) -> None:
    """Refuse an engine that is not there, and a recipe for Spack that does not say so."""
    name = document.data.get("engine")
    if isinstance(name, str) and name not in _ENGINES:
        close = difflib.get_close_matches(name, _ENGINES, n=1)
        guess = f"did you mean `{close[0]}`? " if close else ""
        raise fail(
            Reason.INVALID_VALUE,
            f"`{name}` is no engine",
            hint=f"{guess}there are: {', '.join(_ENGINES)}",
            where=document.where("engine"),
        )
    if name is None and "environments" in document.data and "mpi" not in document.data:
        raise fail(
            Reason.MISSING_KEY,
            "the recipe has `environments`, and does not say that Spack builds them",
            hint="add `engine: spack`",
            where=document.where_key("environments"),
        )


def known_facts(site: str | None, generation: int = 1) -> dict[str, str]:
    """Return what conditions may ask for: the site's facts, this machine's where it has none.

    `generation` says how a cluster's folder is read; the facts are the same for all.
    """
    facts = dict(_place(site, generation).facts)
    facts.setdefault("architecture", toolchain.architecture())
    return facts


@functools.cache
def _place(site: str | None, generation: int) -> Place:
    """Return what a site says; a command asks more than once, and looking takes time."""
    from stackproof.host import recipes  # noqa: PLC0415 - only for recipes with conditions

    return recipes.load_place(site, generation)


def _load_wheel(
    path: Path, composed: Composed, args: argparse.Namespace, given: Mapping[str, str]
) -> Loaded:
    from stackproof.recipe import parse_recipe  # noqa: PLC0415 - not for Spack stacks
    from stackproof.resolve import resolve  # noqa: PLC0415

    document = composed.document
    recipe = parse_recipe(document)
    facts = _facts(args.site)
    if "architecture" in given:
        facts["architecture"] = given["architecture"]
    try:
        stack = resolve(recipe, facts)
    except StackproofError as error:
        raise placed(error, document) from None
    return Loaded(
        path=path,
        document=document,
        recipe=recipe,
        composed=composed,
        stack=stack,
        variant=_variant(composed, facts),
    )


def _load_easybuild(
    path: Path, composed: Composed, args: argparse.Namespace, given: Mapping[str, str]
) -> Loaded:
    from stackproof.easybuild_recipe import parse_easybuild_recipe  # noqa: PLC0415 - only here

    facts = _facts(args.site)
    if "architecture" in given:
        facts["architecture"] = given["architecture"]
    return Loaded(
        path=path,
        document=composed.document,
        composed=composed,
        stack=parse_easybuild_recipe(composed.document, facts),
        notes=_undecided(composed),
        variant=_variant(composed, facts),
    )


def _load_spack(
    path: Path,
    chain: tuple[Document, ...],
    composed: Composed,
    args: argparse.Namespace,
    given: Mapping[str, str],
) -> Loaded:
    from stackproof import spack_recipe  # noqa: PLC0415 - not for the wheel engine
    from stackproof.host import recipes, stackinator  # noqa: PLC0415

    found = spack_recipe.problems(composed, chain)
    if found:
        raise StackproofError(*found)
    place = _place(args.site, spack_recipe.generation_of(composed.document.data))
    facts = {"architecture": toolchain.architecture(), **place.facts, **given}
    if spack_recipe.asks_for_microarchitecture(composed.document) and args.site is None:
        facts = {**toolchain.processor_facts(facts["architecture"]), **facts}
    folder, blobs = recipes.load_files(composed, chain)
    stack, findings = spack_recipe.read(composed, folder, place.cluster, facts)
    findings.raise_problems()
    caches, more = (
        stackinator.load_caches(args.mirror, stack.mount) if args.mirror else (Caches(), ())
    )
    return Loaded(
        path=path,
        document=composed.document,
        composed=composed,
        stack=stack,
        blobs={**place.blobs, **blobs},
        caches=caches,
        notes=(*_undecided(composed), *findings.notes, *more),
        variant=_variant(composed, facts),
    )


def _undecided(composed: Composed) -> tuple[Problem, ...]:
    """Return a note for each fact that the site does not state and conditions ask for."""
    places: dict[str, list[Location]] = {}
    for decision in composed.decisions:
        if decision.verdict is Verdict.UNKNOWN:
            for name in decision.condition.facts:
                if name not in composed.facts:
                    places.setdefault(name, []).append(decision.where)
    return tuple(
        Problem(
            reason=Reason.INVALID_VALUE,
            message=f"the site does not say `{name}`: {len(where)} conditional parts are left out",
            hint=f"state it in the site, or on the command line: --fact {name}=VALUE",
            where=where[0],
        )
        for name, where in places.items()
    )


def _variant(composed: Composed, facts: Mapping[str, str]) -> str:
    """Return what tells the locks of one recipe apart: empty for a recipe without conditions."""
    tested = [name for name in composed.tested if not name.startswith("matrix.")]
    if not tested and not composed.choice:
        return ""
    machine = facts.get("microarchitecture") or facts.get("architecture", "")
    rest = [facts.get(name, "") for name in tested if "architecture" not in name]
    words = [machine, *rest, *composed.choice.values()]
    return "-".join(word for word in words if word and word != "none")


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


def placed(error: StackproofError, document: Document) -> StackproofError:
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
