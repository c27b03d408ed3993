"""Shipped recipes: listed, shown, and found by their names wherever one is asked for."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from fixtures import Call
from stackproof.core.effects import documents, shipped

COVERS = (
    "recipe/cli/recipe.py",
    "recipe/options.py",
)


def test_every_recipe_that_can_be_built_is_listed(stackproof: Call) -> None:
    code, out, _ = stackproof("recipe", "ls", "--json")
    rows = {row["name"]: row for row in json.loads(out)}
    folder = shipped.root("recipes")
    inherited = {
        f"spack/{documents.load(str(path)).data['inherit']}"[: -len(".yaml")]
        for path in folder.glob("spack/*.yaml")
        if "inherit" in documents.load(str(path)).data
    }
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*.yaml")}
    # A folder in Stackinator's format is named by its path, as those of its users are.
    names = {name[: -len(".yaml")] for name in files if not re.search("/repo/|^stackinator/", name)}
    assert code == 0
    assert set(rows) == {name for name in names if "/sites/" not in name} - inherited
    assert {row["engine"] for row in rows.values()} == {"wheel", "easybuild", "spack", "vendor"}
    text = stackproof("recipe", "ls")[1]
    assert all(f"{name} " in text and row["description"] in text for name, row in rows.items())


def test_each_of_them_is_found_by_its_name(stackproof: Call) -> None:
    for row in json.loads(stackproof("recipe", "ls", "--json")[1]):
        site = ["--site", "alps-zen2"] if row["engine"] == "spack" else []
        if row["name"] == "spack/cray-mpich":
            continue  # that site does not say where its MPI lies: see below
        code, out, err = stackproof("check", "--offline", *site, row["name"])
        said = out.replace(", no lock for this site", "")
        assert (code, said) == (0, f"{row['name']}: valid\n"), err
        assert f"note: the recipe is `{row['file']}`" in err


def test_one_is_shown_to_start_from(stackproof: Call) -> None:
    code, out, _ = stackproof("recipe", "show", "mpich")
    assert (code, out) == (0, shipped.find("recipes", "mpich").read_text())
    Path("mine.yaml").write_text(out)
    assert stackproof("check", "--offline", "mine.yaml")[:2] == (0, "mine.yaml: valid\n")
    code, _, err = stackproof("recipe", "show", "mpch")
    assert code == 3
    assert "did you mean `mpich`?" in err


@pytest.mark.battery
def test_what_lies_here_wins(stackproof: Call) -> None:
    Path("mpich.yaml").write_text("name: mine\nmpi:\n  family: mpich\n  version: '4.3.1'\n")
    code, out, err = stackproof("plan", "mpich")
    assert code == 0
    assert out.startswith("stack        mine")
    assert "note: the recipe is `mpich.yaml`" in err
    Path("mpich.yaml").rename("mpich")
    assert stackproof("plan", "mpich")[1].startswith("stack        mine")
    Path("mpich").unlink()
    Path("mpich").mkdir()  # a folder that is no recipe, such as an unpacked image
    assert stackproof("plan", "mpich")[1].startswith("stack        mpich")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("mpch", "did you mean `mpich`?"),
        ("mpch.yaml", "`mpch.yaml` does not exist"),
        ("a/mpich", "`a/mpich` does not exist"),
        ("../mpich", "`../mpich` does not exist"),
        ("spack/../mpich", "does not exist"),
    ],
)
def test_other_words_are_refused(stackproof: Call, word: str, said: str) -> None:
    code, out, err = stackproof("check", "--offline", word)
    assert (code, out) == (3, "")
    assert said in err


def test_nothing_is_written_where_shipped_recipes_lie(
    stackproof: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock of one's own lies in the folder that one is in, and counts from then on."""
    folder = tmp_path / "recipes"
    shutil.copytree(shipped.root("recipes"), folder)
    monkeypatch.setattr(shipped, "root", lambda _: folder)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    code, out, _ = stackproof("build", "mpich", "--stop-after", "lock")
    assert (code, out) == (0, f"{folder}/mpich.lock.json\n")
    assert list(Path().iterdir()) == []
    own = Path("mpich.lock.json")
    lock = json.loads((folder / "mpich.lock.json").read_text())
    own.write_text(json.dumps(lock))
    assert stackproof("build", "mpich", "--stop-after", "lock", "--locked")[1] == f"{own}\n"
    own.write_text(json.dumps({**lock, "wants": "0" * 64}))
    code, _, err = stackproof("build", "mpich", "--stop-after", "lock", "--locked")
    assert code == 3
    assert f"`{own}` does not answer" in err
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_what_nobody_can_build_must_be_at_the_site(stackproof: Call) -> None:
    """Valid means that it can be done: without Cray MPICH of the site no lock can be made."""
    (row,) = (one for one in stackproof("recipe", "ls")[1].splitlines() if "/cray-mpich" in one)
    assert "for a Slingshot site that says where" in row
    for site in ("alps-zen2", "alps-gh200"):
        code, out, err = stackproof("check", "spack/cray-mpich", "--site", site)
        assert (code, out) == (4, "")
        assert "`cray-mpich`, which nobody can build" in err
    has = str(shipped.root("recipes") / "spack" / "sites" / "slingshot.yaml")
    words = ("check", "spack/cray-mpich", "--site", has, "--fact", "microarchitecture=zen3")
    assert stackproof(*words)[:2] == (0, "spack/cray-mpich: valid\n")
