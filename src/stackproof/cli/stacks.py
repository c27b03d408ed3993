"""What `check`, `plan` and `build` share: from a recipe file to a locked, planned stack."""

from __future__ import annotations

import argparse
import difflib
import functools
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof.cli.loaded import Loaded
from stackproof.conditions import Verdict
from stackproof.document import Document
from stackproof.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.host import shipped, toolchain
from stackproof.mpis import REGISTRY as MPIS
from stackproof.stack import Stack

if TYPE_CHECKING:  # what one kind of recipe needs is imported where it is read
    from stackproof.composition import Composed
    from stackproof.host.recipes import Place
    from stackproof.monitor import Monitor
    from stackproof.stackinator.cluster import ClusterConfig


# What a word must look like to be the name of a shipped recipe: no path and no file's name.
_NAME = re.compile(r"(spack/)?[A-Za-z0-9][A-Za-z0-9_.-]*(?<!\.yaml)(?<!\.yml)")
_FOLDERS_FILE = "config.yaml"
_ENGINES = ("spack", "easybuild", "wheel", "auto")


def load_recipe(args: argparse.Namespace) -> Loaded:
    """Return the recipe named on the command line, resolved; raises all its problems at once."""
    loaded = load_recipes(args)
    if len(loaded) == 1:
        return loaded[0]
    raise fail(Reason.USAGE, "`--matrix` stands for several stacks, and this needs one")


def load_recipes(args: argparse.Namespace) -> tuple[Loaded, ...]:
    """Return the stacks of a recipe: one for each combination with `--matrix`, otherwise one."""
    path = _recipe_path(args.recipe)
    by_name = path != Path(args.recipe) and shipped.has(path)
    if path != Path(args.recipe):
        print(f"note: the recipe is `{path}`", file=sys.stderr)
    return tuple(replace(one, by_name=by_name) for one in _load_every(path, args))


def _recipe_path(text: str) -> Path:
    """Return the recipe that is meant: what lies at a path, NAME.yaml here, or a shipped recipe.

    Raises `StackproofError` (FILE_MISSING) for a word that is none of these.
    """
    path = Path(text)
    if path.is_file() or (path.is_dir() and (path / _FOLDERS_FILE).is_file()):
        return path
    beside = Path(f"{text}.yaml")
    is_name = _NAME.fullmatch(text) is not None
    if is_name and beside.is_file():
        return beside
    if path.exists() and text not in shipped.names("recipes"):
        return path
    if not is_name:
        return path
    try:
        return shipped.find("recipes", text)
    except StackproofError as error:
        message = (
            f"there is no file `{text}` here, and no recipe of that name comes with stackproof"
        )
        raise StackproofError(replace(error.problems[0], message=message)) from None


def _load_every(path: Path, args: argparse.Namespace) -> tuple[Loaded, ...]:
    facts = given_facts(args.fact)
    if path.is_dir():
        return (_with_os_sources(_load_folder(path, args, facts)),)
    from stackproof import composition  # noqa: PLC0415 - not for folders
    from stackproof.host import recipechain  # noqa: PLC0415

    chain = recipechain.load_chain(str(path))
    choices = composition.expand(chain)
    if not args.matrix:
        choices = (_choice(args.choose, chain),)
    return tuple(
        _with_os_sources(_load_file(path, chain, choice, args, facts)) for choice in choices
    )


def _with_os_sources(loaded: Loaded) -> Loaded:
    """Return a recipe with the sources of the operating system that were accepted for it."""
    if not loaded.for_spack:
        return loaded
    from stackproof.host import accepted_sources  # noqa: PLC0415 - only for Spack stacks

    stack, blobs = accepted_sources.accept(loaded.spack, loaded.blobs, loaded.os_sources_path)
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
    name = ""
    if args.site is not None:
        place = _place(args.site, 1)
        name = place.facts["site"]
        site = place.folder or place.cluster  # a folder is read as the recipe's version has it
        blobs = {} if place.folder else place.blobs
        architecture = architecture or place.facts.get("architecture")
    found = stackinator.load(str(path), site=site, mirrors=args.mirror, architecture=architecture)
    return Loaded(
        path=path,
        stack=found.stack,
        blobs={**blobs, **found.blobs},
        given_caches=found.caches,
        notes=found.notes,
        site=name,
    )


def _load_file(
    path: Path,
    chain: tuple[Document, ...],
    choice: Mapping[str, str],
    args: argparse.Namespace,
    given: Mapping[str, str],
) -> Loaded:
    """Return the stack of one combination of a recipe file."""
    from stackproof import composition  # noqa: PLC0415 - see above

    facts = dict(given)
    if composition.has_conditions(chain):
        from stackproof import spack_recipe  # noqa: PLC0415 - slow

        stated = [one.data for one in chain if "generation" in one.data] or [{}]
        generation = spack_recipe.generation_of(stated[-1])
        facts = {**known_facts(args.site, generation), **given}
    composed = composition.compose(chain, facts, choice)
    _check_engine(composed.document)
    engine = composed.document.data.get("engine")
    if engine == "easybuild":
        return _load_easybuild(path, composed, args, given)
    if engine == "spack":
        return _load_spack(path, chain, composed, args, given)
    return _load_wheel(path, composed, args, given)


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

    if args.mirror is not None:
        raise fail(
            Reason.USAGE,
            "`--mirror` is for builds from source, and this recipe is of wheels",
            hint="a folder of wheels is named by PIP_FIND_LINKS, with PIP_NO_INDEX=1",
        )
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
        notes=_wheels_on_slingshot(args.site, stack, document),
        variant=_variant(composed, facts),
    )


def _wheels_on_slingshot(site: str | None, stack: Stack, document: Document) -> tuple[Problem, ...]:
    """Return a note where the nodes are joined by Slingshot, whose NIC no wheel can use."""
    from stackproof.host import fabric  # noqa: PLC0415 - only for wheels
    from stackproof.transports.setup import SLINGSHOT  # noqa: PLC0415

    if site is None:
        kind, place = fabric.of_this_machine()[0], "this machine"
    else:
        from stackproof.host.probe import load_site  # noqa: PLC0415 - only with --site

        kind, place = load_site(site).fabric.type or "", f"`{site}`"
    if kind != SLINGSHOT:
        return ()
    title = MPIS[stack.mpi_family].title
    note = Problem(
        reason=Reason.UNSUPPORTED,
        message=f"{title} of the developers' wheels has no cxi: between nodes of {place}, which "
        "Slingshot-11 joins, messages would take TCP",
        hint="build it from source on a libfabric that has cxi (`engine: easybuild` with "
        "`slingshot:`, or the chains for Spack), or put one under it with --inject",
        where=document.where("mpi"),
    )
    return (note,)


def _load_easybuild(
    path: Path, composed: Composed, args: argparse.Namespace, given: Mapping[str, str]
) -> Loaded:
    from stackproof.easybuild_recipe import parse_easybuild_recipe  # noqa: PLC0415 - only here

    if args.mirror is not None:
        from stackproof.host.easybuild_sources import mirror_folders  # noqa: PLC0415 - slow

        mirror_folders(args.mirror)  # says what is wrong with it, before anything is built
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
    caches, more = stackinator.load_caches(args.mirror, stack.mount) if args.mirror else (None, ())
    return Loaded(
        path=path,
        document=composed.document,
        composed=composed,
        stack=stack,
        blobs={**place.blobs, **blobs},
        given_caches=caches,
        notes=(*_undecided(composed), *findings.notes, *more),
        variant=_variant(composed, facts),
        site=place.facts["site"] if args.site and "site" not in composed.tested else "",
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


def write_lock(loaded: Loaded, lock: object, monitor: Monitor) -> None:
    """Write a new lock where it belongs, and say where.

    Raises `StackproofError` as `outputs.write` does, with what to do where nobody may write beside
    the recipe.
    """
    from stackproof.host import outputs  # noqa: PLC0415 - for new locks alone
    from stackproof.monitor import Event  # noqa: PLC0415
    from stackproof.noun import to_json  # noqa: PLC0415

    path = loaded.new_lock_path
    try:
        outputs.write(path, to_json(lock), "lock")
    except StackproofError as error:
        if error.reason is not Reason.NOT_PERMITTED:
            raise
        where = "this folder" if loaded.by_name else "the recipe's folder"
        remedy = (
            "go to a folder that you may write to"
            if loaded.by_name
            else f"copy the recipe to a folder of yours: cp {loaded.path} ."
        )
        hint = f"the lock is written to {where}, for the next build; {remedy}"
        raise StackproofError(replace(error.problems[0], hint=hint)) from None
    monitor(Event(what="note", name="lock", text=f"written to {path}"))
