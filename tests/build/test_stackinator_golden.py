"""Recipes of all versions on a cluster to Spack stacks: every key, as it was understood.

After a wanted change write them again:
STACKPROOF_WRITE_GOLDEN=1 python -m pytest tests/build/test_stackinator_golden.py
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stackinators import CLUSTERS, DOCUMENTS
from stackproof.build.engines.spack.effects.stackinator import load
from stackproof.build.engines.spack.stack import SpackStack
from stackproof.core.noun import from_json, to_json

GOLDEN = Path(__file__).parents[1] / "golden" / "stackinator"
RECIPES = sorted(path.parent.name for path in (DOCUMENTS / "recipes").glob("*/config.yaml"))


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_on_cluster(name: str) -> None:
    site = DOCUMENTS / "clusters" / CLUSTERS[int(name[1])]
    recipe = str(DOCUMENTS / "recipes" / name)
    root = str(DOCUMENTS / "recipes")
    stack = load(recipe, site=str(site), root=root, architecture="aarch64").stack
    text = to_json(stack)
    file = GOLDEN / f"{name}.json"
    if os.environ.get("STACKPROOF_WRITE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text()
    assert from_json(SpackStack, text) == stack


def test_there_is_a_golden_for_each_recipe_and_no_other() -> None:
    assert [path.stem for path in sorted(GOLDEN.glob("*.json"))] == RECIPES
    assert {name[:2] for name in RECIPES} == {"v1", "v2", "v3"}
