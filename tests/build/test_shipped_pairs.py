"""Every shipped recipe on every shipped site: valid with a lock that answers, or it says so."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from stackproof import cli
from stackproof.build.effects import builders, locking, stacks
from stackproof.build.options import RecipeOptions
from stackproof.core.effects import shipped
from stackproof.core.errors import Reason, StackproofError

RECIPES = shipped.root("recipes")
SITES = sorted(path.stem for path in shipped.root("sites").glob("*.yaml"))
PARTS = {"spack/chain.yaml", "spack/debian.yaml"}
"""What other recipes inherit from; by themselves they are none."""
NAMED = sorted(
    {str(path.relative_to(RECIPES)) for path in RECIPES.glob("**/*.yaml")
     if path.parent in {RECIPES, RECIPES / "spack"}} - PARTS
    | {str(path.parent.relative_to(RECIPES)) for path in RECIPES.glob("stackinator/*/config.yaml")}
)  # fmt: skip


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        cli.main(list(words))
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


def test_there_are_recipes_of_each_kind_and_sites() -> None:
    assert {"openmpi.yaml", "spack/openmpi.yaml", "stackinator/arbor-dev"} <= set(NAMED)
    assert {"lumi-g", "alps-gh200", "local"} <= set(SITES)


@pytest.mark.battery
@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("name", NAMED)
def test_what_is_valid_has_a_lock_or_says_that_it_has_none(
    name: str, site: str, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = str(RECIPES / name)
    code, out, err = run(capsys, "check", "--offline", recipe, "--site", site)
    data = json.loads(run(capsys, "check", "--offline", recipe, "--site", site, "--json")[1])
    assert data["exit_code"] == code
    assert "which works here" not in err
    if code:
        assert code == Reason.SITE_INCOMPLETE.exit_code, err  # what only the machine can tell
        assert "hint:" in err
        return
    loaded = stacks.load_recipe(RecipeOptions(recipe=recipe, site=site))
    lock, stale = locking.find(builders.of(loaded), loaded)
    assert data["locked"] is (lock is not None)
    if lock is not None:
        assert (out, stale) == (f"{recipe}: valid\n", ())
        assert "does not answer" not in err
        return
    assert out == f"{recipe}: valid, no lock for this site\n"
    made = err.partition("note: this makes it: stackproof ")[2].partition("\n")[0]
    words = shlex.split(made)
    assert words[:3] == ["build", "--site", site]
    # What it makes is looked for on this site: the command names the same stack.
    assert words[-1] == recipe
    for problem in stale:
        assert "at this site" in problem.message or "it is for x86_64" in problem.message


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.lock.json")), ids=lambda path: path.name)
def test_each_shipped_lock_answers_on_some_shipped_site(path: Path) -> None:
    """A lock that answers nowhere is a leftover. Those of Spack: `test_shipped_chains.py`."""
    for name in NAMED:
        if not path.name.startswith(f"{name.removesuffix('.yaml')}."):
            continue
        for site in SITES:
            if _answers(path, str(RECIPES / name), site):
                return
    # Of what no site has: a GPU with a processor that each site combines otherwise.
    assert "x86_64-cuda" in path.name
    options = RecipeOptions(
        recipe=str(RECIPES / f"{path.name.partition('.')[0]}.yaml"),
        fact=("architecture=x86_64", "gpu=cuda"),
    )
    loaded = stacks.load_recipe(options)
    assert loaded.lock_path == path
    assert locking.find(builders.of(loaded), loaded)[0] is not None


def _answers(path: Path, recipe: str, site: str) -> bool:
    try:
        loaded = stacks.load_recipe(RecipeOptions(recipe=recipe, site=site))
    except StackproofError:
        return False
    return loaded.lock_path == path and not locking.find(builders.of(loaded), loaded)[1]


@pytest.mark.parametrize("site", ["alps-gh200", "olivia-gh200", "lumi-g", "alps-zen2", "lumi-c"])
@pytest.mark.parametrize(
    "name", ["container-mpich", "slingshot-mpich", "slingshot-openmpi", "eessi-openmpi"]
)
def test_chains_for_slingshot_have_a_lock_on_every_kind_of_node(name: str, site: str) -> None:
    """Without it who has no network there could only plan, and nobody knew that it can be made."""
    loaded = stacks.load_recipe(RecipeOptions(recipe=str(RECIPES / f"{name}.yaml"), site=site))
    lock, stale = locking.find(builders.of(loaded), loaded)
    assert lock is not None
    assert stale == ()


def test_a_lock_for_another_architecture_is_called_that() -> None:
    for name in ("mpich.yaml", "libfabric.yaml"):
        loaded = stacks.load_recipe(RecipeOptions(recipe=str(RECIPES / name), site="alps-gh200"))
        lock, (note,) = locking.find(builders.of(loaded), loaded)
        assert lock is None
        assert "it is for x86_64, and this is aarch64" in note.message


@pytest.mark.parametrize("name", NAMED)
def test_plan_says_the_same_of_the_lock(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = str(RECIPES / name)
    code, out, err = run(capsys, "plan", recipe, "--site", "lumi-g")
    if code == Reason.FILE_MISSING.exit_code:
        assert "it is not said where the RPMs" in err
        assert "--from DIR" in err
        assert "--from DIR" in run(capsys, "check", "--offline", recipe, "--site", "lumi-g")[2]
        return
    if code:
        assert code == Reason.SITE_INCOMPLETE.exit_code, err
        return
    loaded = stacks.load_recipe(RecipeOptions(recipe=recipe, site="lumi-g"))
    lock, _ = locking.find(builders.of(loaded), loaded)
    assert ("no lock for this site; this makes it: stackproof build" in out) is (lock is None), out
