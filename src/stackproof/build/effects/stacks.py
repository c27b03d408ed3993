"""What `check`, `plan` and `build` share: from a recipe file to a locked, planned stack."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stackproof.build import swap
from stackproof.build.effects import builders
from stackproof.build.effects.builders import Reading
from stackproof.build.effects.loaded import Loaded
from stackproof.build.options import RecipeOptions
from stackproof.build.swap import Swap, SwapWord
from stackproof.core.document import Document
from stackproof.core.effects import documents, shipped
from stackproof.core.errors import Location, Problem, Reason, StackproofError, fail
from stackproof.core.value import replace
from stackproof.recipe.conditions import Truth
from stackproof.site.effects import toolchain

if TYPE_CHECKING:  # what one kind of recipe needs is imported where it is read
    from stackproof.build.programs import StackProgram
    from stackproof.recipe.composition import Composed

# What a word must look like to be the name of a shipped recipe: no path and no file's name.
_NAME = re.compile(r"(spack/)?[A-Za-z0-9][A-Za-z0-9_.-]*(?<!\.yaml)(?<!\.yml)")
_FOLDERS_FILE = "config.yaml"


def load_recipe(options: RecipeOptions) -> Loaded:
    """Return the recipe named on the command line, resolved; raises all its problems at once."""
    loaded = load_recipes(options)
    if len(loaded) == 1:
        return loaded[0]
    raise fail(Reason.USAGE, "`--matrix` stands for several stacks, and this needs one")


def load_recipes(options: RecipeOptions) -> tuple[Loaded, ...]:
    """Return the stacks of a recipe: one for each combination with `--matrix`, otherwise one."""
    path = _recipe_path(options.recipe)
    by_name = path != Path(options.recipe) and shipped.has(path)
    if path != Path(options.recipe):
        print(f"note: the recipe is `{path}`", file=sys.stderr)  # noqa: T201 - before its problems
    return tuple(replace(one, by_name=by_name) for one in _load_every(path, options))


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


def _load_every(path: Path, options: RecipeOptions) -> tuple[Loaded, ...]:
    facts = given_facts(options.fact)
    if path.is_dir():
        documents.refuse_other_kind(str(path), "recipe")
        if words_of(options):
            raise fail(
                Reason.UNSUPPORTED,
                "words such as `--with` change a recipe file, and this recipe is a folder",
                hint="write a recipe file with its keys: docs/how-to/use-stackinator-recipes.md",
            )
        reading = Reading(path=path, options=options, facts=facts)
        builder = builders.find(builders.OF_FOLDERS)
        builders.refuse(builder, *(["from"] if options.rpms is not None else []))
        return (builder.load(reading),)
    from stackproof.recipe import composition  # noqa: PLC0415 - not for folders
    from stackproof.recipe.effects import inheritance  # noqa: PLC0415

    chain = inheritance.load_chain(str(path))
    choices = composition.expand(chain)
    if not options.matrix:
        choices = (_choice(options.choose, chain),)
    reading = Reading(path=path, options=options, facts=facts, chain=chain)
    return tuple(_load_file(reading, choice) for choice in choices)


def given_facts(words: Sequence[str]) -> dict[str, str]:
    """Return the facts of `--fact NAME=VALUE`; raises `StackproofError` (USAGE)."""
    from stackproof.recipe.conditions import FACTS  # noqa: PLC0415 - beside its only use

    facts = _pairs(words, "--fact")
    for name, value in facts.items():
        if name not in FACTS:
            raise fail(
                Reason.USAGE, f"`{name}` is not a fact", hint=f"facts are: {', '.join(FACTS)}"
            )
        possible = FACTS[name]
        if possible and value not in possible:
            raise fail(
                Reason.USAGE,
                f"`{name}` is never `{value}`",
                hint=f"it is one of: {', '.join(possible)}",
            )
    return facts


def _pairs(words: Sequence[str], option: str) -> dict[str, str]:
    pairs = {}
    for word in words:
        name, mark, value = word.partition("=")
        if not (name and mark and value):
            form = "AXIS=CHOICE" if option == "--choose" else "NAME=VALUE"
            raise fail(Reason.USAGE, f"`{option} {word}` is not of the form {form}")
        pairs[name] = value
    return pairs


def _choice(words: Sequence[str], chain: tuple[Document, ...]) -> dict[str, str]:
    """Return the one combination that `--choose` names; a recipe without a matrix needs none."""
    from stackproof.recipe import composition  # noqa: PLC0415 - beside its only use

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


def _load_file(reading: Reading, choice: Mapping[str, str]) -> Loaded:
    """Return the stack of one combination of a recipe file."""
    from stackproof.recipe import composition  # noqa: PLC0415 - see above

    facts = dict(reading.facts)
    if composition.has_conditions(reading.chain):
        stated = [one.data for one in reading.chain if "generation" in one.data] or [{}]
        facts = {**builders.known_facts(reading.options.site, stated[-1]), **facts}
    composed = composition.compose(reading.chain, facts, choice)
    builder = builders.find(builders.name_of(composed.document))
    words = words_of(reading.options)
    swaps: tuple[Swap, ...] = ()
    overlay: Document | None = None
    if words:
        added = composition.suffix(choice)
        overlay, swaps = swap.apply(composed.document, words, builder.swap, suffix=added)
        composed = composition.compose((*reading.chain, overlay), facts, choice)
    options = reading.options
    given = {"mirror": options.mirror, "from": options.rpms}
    builders.refuse(builder, *(name for name, value in given.items() if value is not None))
    loaded = builder.load(replace(reading, composed=composed))
    if overlay is None:
        return loaded
    return replace(
        loaded,
        swaps=swaps,
        overlay=json.dumps(overlay.data, indent=1) + "\n",
        variant="-".join(filter(None, (loaded.variant, "with", swap.slug(words)))),
    )


def words_of(options: RecipeOptions) -> tuple[SwapWord, ...]:
    """Return the words that change a package of a recipe; raises `StackproofError` (USAGE)."""
    return swap.parse_words(options.swap, options.with_source, options.with_patch)


def undecided(composed: Composed) -> tuple[Problem, ...]:
    """Return a note for each fact that the site does not state and conditions ask for."""
    places: dict[str, list[Location]] = {}
    for decision in composed.decisions:
        if decision.verdict is Truth.UNKNOWN:
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


def variant(composed: Composed, facts: Mapping[str, str]) -> str:
    """Return what tells the locks of one recipe apart: empty for a recipe without conditions."""
    tested = [name for name in composed.tested if not name.startswith("matrix.")]
    if not tested and not composed.choice:
        return ""
    machine = facts.get("microarchitecture") or facts.get("architecture", "")
    rest = [facts.get(name, "") for name in tested if "architecture" not in name]
    words = [machine, *rest, *composed.choice.values()]
    return "-".join(word for word in words if word and word != "none")


def variant_of_architecture(composed: Composed, architecture: str) -> str:
    """Return the variant of packages that fit every processor of their architecture."""
    return variant(composed, {**composed.facts, "microarchitecture": architecture})


def programs_of(document: Document) -> tuple[tuple[StackProgram, ...], Mapping[str, Path]]:
    """Return the programs of a recipe, and where their sources lie, as `load_programs` does."""
    if not document.data.get("programs"):
        return (), {}
    from stackproof.build.effects import program_files  # noqa: PLC0415 - reads archives

    return program_files.load_programs(document)


def build_facts(options: RecipeOptions, composed: Composed) -> dict[str, str]:
    """Return the facts of the machine that is built for, with those that conditions asked for.

    A named site decides the architecture; the compiler is always this machine's, since it is this
    machine that builds.
    """
    facts = toolchain.build_facts()
    site = options.site
    if site is not None:
        facts["architecture"] = _architecture(site, facts["architecture"])
    mattered = {"architecture", *composed.tested}
    return {**facts, **{key: composed.facts[key] for key in composed.facts if key in mattered}}


def _architecture(site: str, here: str) -> str:
    from stackproof.site.effects.probe import load_site  # noqa: PLC0415 - only with --site

    found = load_site(site)
    architectures = sorted(found.architectures)
    if not architectures:
        raise fail(
            Reason.INVALID_VALUE,
            f"the site `{found.name}` does not say what architecture it has",
            hint="add it to the site file, or probe the machine with `stackproof site probe`",
        )
    if len(architectures) > 1 and here not in architectures:
        raise fail(
            Reason.INVALID_VALUE,
            f"the site `{found.name}` has several architectures: {', '.join(architectures)}",
            hint="name a site with one of them",
        )
    return here if here in architectures else architectures[0]
