"""`mirror`: what is refused, and how; tests/build/test_spack.py makes one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import gitfolders
from fixtures import Call

COVERS = ("build/cli/mirror.py",)

FJORD = Path(__file__).parents[1] / "documents" / "stackinator" / "clusters" / "fjord"
RECIPE = """\
name: small
engine: spack
spack:
  repo: {spack}
  commit: main
  packages: {{repo: {packages}, commit: main}}
compilers: {{gcc: {{version: "13"}}}}
environments: {{tools: {{compiler: [gcc], specs: [libthing@1.2]}}}}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """Return a recipe with repositories of its own, and nothing in them."""
    spack, packages = (tmp_path / "clones" / name for name in ("spack", "packages"))
    for folder in (spack, packages):
        gitfolders.commit(folder, {"README": "x"})
    path = tmp_path / "recipes" / "small.yaml"
    path.parent.mkdir()
    path.write_text(RECIPE.format(spack=spack, packages=packages))
    return path


def test_a_recipe_for_wheels_needs_no_sources(stackproof: Call, tmp_path: Path):
    (tmp_path / "wheel.yaml").write_text("name: a\nmpi: {family: mpich}\n")
    code, _, err = stackproof("mirror", "create", "m", "wheel.yaml")
    assert code == 3
    assert "wheels" in err
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("content", ["file", "other"])
def test_a_mirror_is_not_made_of_something_else(
    stackproof: Call, recipe: Path, tmp_path: Path, content: str
):
    place = tmp_path / "place"
    if content == "file":
        place.write_text("x")
    else:
        place.mkdir()
        (place / "thesis.txt").write_text("x")
    code, _, err = stackproof("mirror", "create", place, recipe, "--site", FJORD)
    assert code == 3
    assert "place" in err


def test_no_solver(stackproof: Call, recipe: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "clingo", None)
    code, _, err = stackproof("mirror", "create", "m", recipe, "--site", FJORD)
    assert code == 4
    assert "pip install clingo" in err
