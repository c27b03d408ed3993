"""One stack in every language: Stackinator's versions 1, 2 and 3 and our own format agree.

What must differ, since the generations of Spack do, is listed by field. After a wanted change:
STACKPROOF_WRITE_GOLDEN=1 python -m pytest tests/build/test_same_golden.py
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stackinators import CLUSTERS, DOCUMENTS
from stackproof.build.effects import stacks
from stackproof.build.engines.spack.stack import SpackEnvironment, SpackStack
from stackproof.build.engines.spack.stackinator import reader
from stackproof.build.options import RecipeOptions
from stackproof.core.noun import to_json

GOLDEN = Path(__file__).parents[1] / "golden" / "same"
SAME = DOCUMENTS.parent / "same"
CHOICES = {1: "old", 2: "middle", 3: "new"}
OWN_FILES = frozenset({*reader.DOCUMENTS, "own.yaml"})


def load(path: Path, generation: int, *choose: str) -> SpackStack:
    site = DOCUMENTS / "clusters" / CLUSTERS[generation]
    arguments = RecipeOptions(
        recipe=str(path), site=str(site), choose=choose, fact=("architecture=aarch64",)
    )  # fmt: skip
    return stacks.load_recipe(arguments).stack


def folder(generation: int) -> SpackStack:
    return load(SAME / f"v{generation}", generation)


def fields(one: object, other: object) -> set[str]:
    names = one.__struct_fields__
    return {name for name in names if getattr(one, name) != getattr(other, name)}


def files_of(stack: SpackStack) -> dict[str, object]:
    """Return the files that go into the image, without the documents of the recipe."""
    documents = OWN_FILES | {*reader.HOOKS}
    return {path: entry for path, entry in stack.recipe_files.items() if path not in documents}


def environments(one: SpackStack, other: SpackStack) -> set[str]:
    pairs = zip(one.environments, other.environments, strict=True)
    return {name for mine, theirs in pairs for name in fields(mine, theirs)}


@pytest.mark.parametrize("generation", CHOICES)
def test_the_stack_of_each_language(generation: int) -> None:
    text = to_json(folder(generation))
    file = GOLDEN / f"v{generation}.json"
    if os.environ.get("STACKPROOF_WRITE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert text == file.read_text()


@pytest.mark.parametrize("generation", CHOICES)
def test_our_own_format_means_what_each_version_means(generation: int) -> None:
    own = load(SAME / "own.yaml", generation, f"spack={CHOICES[generation]}")
    theirs = folder(generation)
    assert fields(own, theirs) == {"name", "source", "recipe_files"}
    assert own.name == f"same-{CHOICES[generation]}"
    assert files_of(own) == files_of(theirs)


def test_versions_2_and_3_differ_in_nothing_but_what_spack_is_told_of_compilers() -> None:
    one, other = folder(2), folder(3)
    # The documents themselves are in the image, and the generation is written in one of them.
    assert fields(one, other) == {
        "generation",
        "source",
        "recipe_files",
        "compilers",
        "environments",
    }
    assert one.recipe_files.keys() == other.recipe_files.keys()
    # Version 3 prefers the compiler with its version, and builds gcc without profiling it.
    assert environments(one, other) == {"prefer"}
    assert {
        n for a, b in zip(one.compilers, other.compilers, strict=True) for n in fields(a, b)
    } == {"variants"}


def test_versions_1_and_2_differ_in_what_spack_before_1_0_needs() -> None:
    one, other = folder(1), folder(2)
    assert fields(one, other) == {
        "generation", "source", "recipe_files",
        "spack", "package_repositories",  # Spack itself holds its packages
        "local_repositories",  # recipe and site in one
        "compilers", "compilers_yaml", "concretizer",  # stages, and the site's own files
        "environments",
        "packages", "site_facts",  # another cluster configuration; gcc is in compilers.yaml
    }  # fmt: skip
    assert environments(one, other) == {
        "compiler_specs", "prefer",  # compilers by spec instead of preference
        "specs", "mpi_requirement",  # the language's own options of an MPI, no network
    }  # fmt: skip


def test_what_is_the_same_in_all() -> None:
    names = (
        "name",
        "mount",
        "description",
        "architecture",
        "post_install",
        "cleanup",
        "extra_files",
    )
    stacks_of_all = [folder(generation) for generation in CHOICES]
    for name in names:
        assert len({repr(getattr(one, name)) for one in stacks_of_all}) == 1
    kept = ("name", "compilers", "mpi", "unify", "variants", "views", "deprecated")
    for environment in zip(*(one.environments for one in stacks_of_all), strict=True):
        for name in kept:
            assert len({repr(getattr(one, name)) for one in environment}) == 1
    assert set(SpackEnvironment.__struct_fields__) >= set(kept)
