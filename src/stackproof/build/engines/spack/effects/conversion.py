"""Folders of Stackinator recipes to one recipe of our own, written when it means the same."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from stackproof.build.effects import builders, stacks
from stackproof.build.engines.spack.effects import folders
from stackproof.build.engines.spack.recipe import differences, without_words
from stackproof.build.engines.spack.stack import SpackStack
from stackproof.build.engines.spack.stackinator.convert import (
    SourceRecipe,
    convert,
    lines_that_count,
    render,
)
from stackproof.build.engines.spack.stackinator.findings import FindingsList
from stackproof.build.engines.spack.stackinator.folder import Folder
from stackproof.build.engines.spack.stackinator.reader import DOCUMENTS
from stackproof.build.options import ConvertOptions, RecipeOptions
from stackproof.core.document import Document
from stackproof.core.effects import documents, files
from stackproof.core.errors import Problem, Reason, StackproofError, fail
from stackproof.core.value import Value


class _Source(Value):
    """One of the recipes that are converted: how it is called, where it is built, what it means."""

    name: str
    path: Path
    site: str | None
    facts: Mapping[str, str]
    stack: SpackStack
    folder: Folder
    documents: Mapping[str, Document]


class Converted(Value):
    """What was written, and how many lines that count it has, and all that it stands for."""

    target: Path
    recipes: int
    lines: int
    lines_before: int


def convert_folders(options: ConvertOptions) -> Converted:
    """Write the recipe, after finding out that it means the same as every folder.

    Raises `StackproofError`: what is wrong with a folder, USAGE for a place that cannot be, and
    UNSUPPORTED where the new recipe would mean something else.
    """
    target = _target(options)
    sources = _sources(options)
    base = target.parent.resolve()
    variants = [_variant(source, base) for source in sources]
    text = _heading(sources) + render(convert(variants))
    _write_proven(text, target, sources)
    before = sum(
        lines_that_count(source.folder.texts[name].decode())
        for source in sources
        for name in source.documents
    )
    return Converted(
        target=target,
        recipes=len(sources),
        lines=lines_that_count(text),
        lines_before=before,
    )


def _target(asked: ConvertOptions) -> Path:
    paths = [Path(path).resolve() for path in asked.recipes]
    for given, path in zip(asked.recipes, paths, strict=True):
        documents.refuse_other_kind(given, "recipe")
        if not path.is_dir():
            raise fail(
                Reason.FILE_MISSING,
                f"`{given}` is a file" if path.is_file() else f"there is no folder `{given}`",
                hint="name folders of Stackinator recipes, with config.yaml, compilers.yaml and "
                "environments.yaml",
            )
    if asked.output:
        target = Path(asked.output)
    elif len(paths) == 1:
        target = Path(asked.recipes[0]).parent / f"{paths[0].name}.yaml"
    else:
        around = Path(os.path.commonpath([path.parent for path in paths]))
        target = around / f"{around.name}.yaml"
    base = target.parent.resolve()
    outside = [path for path in paths if not path.is_relative_to(base)]
    if outside:
        raise fail(
            Reason.USAGE,
            f"`{outside[0]}` is not below `{base}`, where the new recipe is to be",
            hint="a recipe names files below its own folder only: choose another FILE with -o",
        )
    inside = [path for path in paths if base.is_relative_to(path)]
    if inside:
        raise fail(
            Reason.USAGE,
            f"`{target}` would lie in `{inside[0]}` and become part of that recipe",
            hint="choose a FILE beside or above the folder with -o",
        )
    if target.exists() and not asked.force:
        raise fail(Reason.USAGE, f"`{target}` exists", hint="choose another FILE, or use --force")
    return target


def _sources(asked: ConvertOptions) -> list[_Source]:
    """Return the recipes, each on its site; all problems of all of them at once."""
    _check_facts(asked)
    sites: list[str | None] = list(asked.site) or [None]
    if len(sites) == 1:
        sites *= len(asked.recipes)
    if len(sites) != len(asked.recipes):
        raise fail(
            Reason.USAGE,
            f"{len(asked.recipes)} recipes, and {len(sites)} sites",
            hint="give --site once for all recipes, or once for each in their order",
        )
    problems: list[Problem] = []
    found = []
    for path, site in zip(asked.recipes, sites, strict=True):
        try:
            found.append(_source(Path(path), site, asked.fact))
        except StackproofError as error:
            problems += error.problems
    if problems:
        raise StackproofError(*problems)
    return found


def _check_facts(asked: ConvertOptions) -> None:
    """Refuse facts of a recipe that is not there."""
    names = [Path(path).resolve().name for path in asked.recipes]
    for word in asked.fact:
        name, mark, _ = word.partition("=")[0].rpartition(":")
        if mark and name not in names:
            raise fail(
                Reason.USAGE,
                f"`--fact {word}`: `{name}` is none of the recipes",
                hint=f"they are: {', '.join(names)}",
            )


def _source(path: Path, site: str | None, words: Sequence[str]) -> _Source:
    name = path.resolve().name
    own = [word.removeprefix(f"{name}:") for word in words if word.startswith(f"{name}:")]
    shared = [word for word in words if ":" not in word.partition("=")[0]]
    facts = stacks.given_facts([*shared, *own])
    loaded = stacks.load_recipe(_recipe(path, site, facts))
    tree = folders.read_tree(str(path), root=None, wanted=lambda found: found in DOCUMENTS)
    folder = Folder(path=str(path), files=tree.files, texts=tree.texts)
    findings = FindingsList()
    documents = {name: findings.parse(folder, name) for name in folder.texts}
    return _Source(
        name=name,
        path=path,
        site=site,
        facts=facts,
        stack=loaded.stack,
        folder=folder,
        documents={name: document for name, document in documents.items() if document},
    )


def _recipe(path: Path, site: str | None, facts: Mapping[str, str]) -> RecipeOptions:
    words = tuple(f"{name}={value}" for name, value in facts.items())
    return RecipeOptions(recipe=str(path), site=site, fact=words)


def _variant(source: _Source, base: Path) -> SourceRecipe:
    return SourceRecipe(
        name=source.name,
        path=os.path.relpath(source.path.resolve(), base),
        folder=source.folder,
        data={name: document.data for name, document in source.documents.items()},
        facts={**builders.known_facts(source.site), **source.facts},
    )


def _heading(sources: list[_Source]) -> str:
    names = ", ".join(source.name for source in sources)
    version = sources[0].stack.generation
    return f"# Converted from Stackinator recipes (version {version}): {names}.\n"


def _write_proven(text: str, target: Path, sources: list[_Source]) -> None:
    """Write the recipe beside the target, compare what it means with each source, move it there."""
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".convert-", suffix=".yaml")
    os.close(handle)
    try:
        files.write(temporary, text)
        for source in sources:
            meant = _recipe(Path(temporary), source.site, source.facts)
            stack = stacks.load_recipe(meant).stack
            own = frozenset({*DOCUMENTS, Path(temporary).name})
            found = differences(without_words(source.stack, own), without_words(stack, own))
            if found:
                raise fail(
                    Reason.UNSUPPORTED,
                    f"`{source.path}` cannot be converted: the new recipe would mean something "
                    f"else in {'; '.join(found)}",
                    hint="convert it on its own, or make the recipes more alike",
                )
        os.replace(temporary, target)
    finally:
        files.remove(temporary)
