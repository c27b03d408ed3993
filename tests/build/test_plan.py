"""`plan` and `plan --explain` on recipes of every format: what a user sees, also with wrong input."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from archspec import cpu

from spackstacks import content, node
from stackproof.build.effects import stacks
from stackproof.build.engines.spack.lockplan import wants
from stackproof.build.engines.spack.stack import LockedClone, SpackLock
from stackproof.build.options import RecipeOptions
from stackproof.core.noun import to_json

COVERS = (
    "build/cli/plan.py",
    "build/options.py",
)

DOCUMENTS = Path(__file__).parents[1] / "documents"
FJORD = DOCUMENTS / "stackinator" / "clusters" / "fjord"
V2 = DOCUMENTS / "stackinator" / "recipes" / "v2-smallest"
OWN = DOCUMENTS / "spack" / "everything.yaml"
SITE = DOCUMENTS / "spack" / "fjord.yaml"
CHOICE = ("--choose", "build=plain", "--choose", "mpi=default")
FULL = "a" * 40
RECIPE = f"""\
name: pinned
engine: spack
spack:
  repo: https://example.org/spack.git
  commit: {FULL}
  packages: {{repo: https://example.org/packages.git, commit: {"b" * 40}}}
compilers: {{gcc: {{version: "13"}}}}
environments: {{tools: {{compiler: [gcc], specs: [cmake]}}}}
"""


def test_a_folder_and_a_file_give_a_plan_and_write_nothing(stackproof, tmp_path):
    for recipe in ((V2, "--site", FJORD), (OWN, "--site", SITE, *CHOICE)):
        code, out, err = stackproof("plan", *recipe)
        assert code == 0, err
        assert "concretize-environments" in out
        assert "stop-after lock" in err
    assert list(tmp_path.iterdir()) == []


def test_ids_are_shown_only_when_every_commit_is_known(stackproof, tmp_path):
    (tmp_path / "pinned.yaml").write_text(RECIPE)
    code, out, _ = stackproof("plan", "pinned.yaml", "--site", FJORD, "--json")
    data = json.loads(out)
    assert code == 0
    assert len(data["id"]) == 64
    assert all(len(step["id"]) == 64 for step in data["steps"])
    (tmp_path / "branch.yaml").write_text(RECIPE.replace(FULL, "develop"))
    _, out, _ = stackproof("plan", "branch.yaml", "--site", FJORD, "--json")
    data = json.loads(out)
    assert data["id"] is None
    assert {step["id"] for step in data["steps"]} == {None}
    assert data["stack"]["schema"] == "stackproof/spack-stack/1"
    assert data["lock"] is None


def test_explain_a_wheel_recipe_needs_no_index(stackproof, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    (tmp_path / "small.yaml").write_text("name: small\nmpi: {family: mpich}\n")
    code, out, _ = stackproof("plan", "small.yaml", "--explain", "mpi")
    assert code == 0
    assert "small.yaml:2:15" in out
    assert stackproof("plan", "small.yaml", "--explain", "mpi.version")[1].count("newest") == 1


@pytest.mark.parametrize("key", ["environments.gun", "nothing", "", ".", "facts.fabrics"])
def test_an_unknown_key_is_wrong_usage(stackproof, key):
    code, out, err = stackproof("plan", V2, "--site", FJORD, "--explain", key)
    assert (code, out) == (2, "")
    assert "nothing is set at" in err
    assert "hint:" in err


def test_explain_on_a_recipe_with_problems_gives_the_problems(stackproof, tmp_path):
    (tmp_path / "bad.yaml").write_text(RECIPE.replace("specs:", "specz:"))
    code, _, err = stackproof("plan", "bad.yaml", "--site", FJORD, "--explain", "name")
    assert code == 3
    assert "bad.yaml:8:" in err


def test_explain_what_is_found_on_this_machine(stackproof, tmp_path):
    (tmp_path / "here.yaml").write_text(RECIPE)
    code, out, err = stackproof("plan", "here.yaml", "--explain", "facts.architecture")
    assert code == 0, err
    assert os.uname().machine in out
    assert "this machine" in out


def test_explain_of_links_and_named_sites(stackproof, tmp_path):
    (tmp_path / "linked").symlink_to(V2)
    code, out, _ = stackproof("plan", "linked", "--site", "alps-zen2", "--explain", "packages.gcc")
    assert code == 0
    assert "the site alps-zen2" in out
    assert "alps-zen2.yaml:" in out


def test_a_matrix_needs_a_choice(stackproof):
    code, _, err = stackproof("plan", OWN, "--site", SITE)
    assert code == 2
    assert "build=debug mpi=default" in err
    assert stackproof("plan", OWN, "--site", SITE, "--matrix")[0] == 2


def test_a_lock_of_another_recipe_is_said_and_not_used(stackproof, tmp_path):
    (tmp_path / "pinned.yaml").write_text(RECIPE)
    lock = {"schema": "stackproof/spack-lock/1", "wants": "x", "clones": [], "environments": {}}
    (tmp_path / "pinned.lock.json").write_text(json.dumps(lock))
    code, out, err = stackproof("plan", "pinned.yaml", "--site", FJORD)
    assert code == 0
    made = f"stackproof build --site {FJORD} --update --stop-after lock pinned.yaml"
    assert f"lock         no lock for this site; this makes it: {made}\n" in out
    assert "does not answer the recipe" in err
    (tmp_path / "pinned.lock.json").write_text("{}")
    assert stackproof("plan", "pinned.yaml", "--site", FJORD)[0] == 3


def test_with_a_lock_there_is_every_step_of_the_build(stackproof, tmp_path):
    (tmp_path / "pinned.yaml").write_text(RECIPE)
    arguments = RecipeOptions(recipe="pinned.yaml", site=str(FJORD))
    wanted = wants(stacks.load_recipe(arguments).stack)
    gcc = node("gcc", "13.2.0", variants={"languages": ["c", "c++", "fortran"]})
    solved = {
        "compilers/gcc": content(("gcc",), gcc),
        "environments/tools": content(("cmake",), node("cmake", "3.31", ("gcc", "build")), gcc),
    }
    places = {"spack": ("spack", FULL), "builtin": ("repos/builtin", "b" * 40)}
    clones = tuple(
        LockedClone(name=name, url="https://example.org", ref=commit, commit=commit, folder=folder)
        for name, (folder, commit) in places.items()
    )
    lock = SpackLock(wants=wanted, clones=clones, environments=solved)
    (tmp_path / "pinned.lock.json").write_text(to_json(lock))
    code, out, err = stackproof("plan", "pinned.yaml", "--site", FJORD)
    assert (code, err) == (0, "")
    assert "lock         pinned.lock.json" in out
    steps = [line.split()[2] for line in out.splitlines() if line.strip()[:1].isdigit()]
    assert steps == [
        "setup", "fetch", "install-compiler-gcc", "install-tools", "views", "metadata", "tidy", "image",
    ]  # fmt: skip
    assert "------------" not in out
    assert stackproof("check", "pinned.yaml", "--site", FJORD)[0] == 0


def test_a_recipe_for_the_site_is_for_this_machine_where_no_site_is_named(stackproof, tmp_path):
    recipe = tmp_path / "here.yaml"
    recipe.write_text(RECIPE + "target: site\n")
    code, out, err = stackproof("plan", recipe, "--explain", "target", "--json")
    assert code == 0, err
    code, out, err = stackproof("plan", recipe, "--json")
    assert code == 0, err
    assert json.loads(out)["stack"]["target"] == cpu.host().name
    other = "aarch64" if os.uname().machine != "aarch64" else "x86_64"
    code, out, err = stackproof("plan", recipe, "--fact", f"architecture={other}")
    assert code == 4
    assert "microarchitecture" in err
