"""`convert`: Stackinator recipes to one of our own that means the same on every target."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from stackproof import cli
from stackproof.build.effects import stacks
from stackproof.build.engines.spack.recipe import differences, without_words
from stackproof.build.engines.spack.stackinator import reader
from stackproof.build.options import RecipeOptions

COVERS = ("build/cli/convert.py", "build/engines/spack/effects/conversion.py")

DOCUMENTS = Path(__file__).parents[1] / "documents"
CLUSTERS = DOCUMENTS / "stackinator" / "clusters"
FJORD, OLD = CLUSTERS / "fjord", CLUSTERS / "fjord-spack-0.23"
GPU = {"gpu": "cuda", "architecture": "aarch64", "microarchitecture": "neoverse_v2"}
CPU = {"gpu": "none", "architecture": "x86_64", "microarchitecture": "zen3"}
AMD = {"gpu": "rocm", "architecture": "x86_64", "microarchitecture": "zen4"}


@pytest.fixture
def recipes(tmp_path, monkeypatch):
    """Return a checkout with one recipe, and work in it."""
    (tmp_path / ".git").mkdir()
    shutil.copytree(DOCUMENTS / "same" / "v2", tmp_path / "cpu")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def stackproof(capsys):
    """Return a function that runs a command line and gives exit code, output and messages."""

    def run(*words: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            cli.main([str(word) for word in words])
        found = capsys.readouterr()
        return int(stopped.value.code or 0), found.out, found.err

    return run


def variant(recipes: Path, name: str, *changes: tuple[str, str, str]) -> None:
    """Copy the recipe and change texts in it: file, old, new."""
    shutil.copytree(recipes / "cpu", recipes / name)
    for file, old, new in changes:
        path = recipes / name / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))


def facts(**of: dict[str, str]) -> list[str]:
    words = [f"{name}:{key}={value}" for name, body in of.items() for key, value in body.items()]
    return [part for word in words for part in ("--fact", word)]


def load(path: Path, site: Path, given: dict[str, str]):
    arguments = RecipeOptions(
        recipe=str(path),
        site=str(site),
        fact=tuple(f"{key}={value}" for key, value in given.items()),
    )
    return stacks.load_recipe(arguments).stack


def same(folder: Path, file: Path, site: Path, given: dict[str, str]) -> tuple[str, ...]:
    own = frozenset({*reader.DOCUMENTS, file.name})
    one, other = load(folder, site, given), load(file, site, given)
    return differences(without_words(one, own), without_words(other, own))


@pytest.mark.parametrize(
    ("name", "site"),
    [("v1-everything", OLD), ("v2-everything", FJORD), ("v2-smallest", FJORD),
     ("v3-everything", FJORD), ("v3-system-gcc", FJORD)],
)  # fmt: skip
def test_every_key_of_every_version(recipes, stackproof, name, site):
    shutil.copytree(DOCUMENTS / "stackinator" / "recipes", recipes / "all", symlinks=True)
    code, out, err = stackproof("convert", f"all/{name}", "--site", site, "-o", f"all/{name}.yaml")
    assert code == 0, err
    assert f"all/{name}.yaml: means the same" in out
    given = {"architecture": "aarch64"}
    assert same(recipes / "all" / name, recipes / "all" / f"{name}.yaml", site, given) == ()


def test_several_targets_become_one_recipe(recipes, stackproof):
    variant(
        recipes, "gpu",
        ("environments.yaml", "- cmake", "- cmake\n  - nccl"),
        ("environments.yaml", "[+mpi]", "[+mpi, +cuda, cuda_arch=90]"),
        ("environments.yaml", "mpi: openmpi@5.0.9", "mpi: openmpi@5.0.9 +cuda"),
    )  # fmt: skip
    variant(
        recipes, "amd",
        ("environments.yaml", "- cmake", "- cmake\n  - rccl"),
        ("environments.yaml", "[+mpi]", "[+mpi, +rocm]"),
    )  # fmt: skip
    code, out, err = stackproof(
        "convert", "cpu", "gpu", "amd", "--site", FJORD, "-o", "one.yaml",
        *facts(cpu=CPU, gpu=GPU, amd=AMD),
    )  # fmt: skip
    assert code == 0, err
    assert "means the same as 3 recipes" in out
    for name, given in (("cpu", CPU), ("gpu", GPU), ("amd", AMD)):
        assert same(recipes / name, recipes / "one.yaml", FJORD, given) == ()
    data = yaml.safe_load((recipes / "one.yaml").read_text())
    assert data["environments"]["gnu"]["specs"] == [
        "cmake",
        {"if": {"gpu": "cuda"}, "then": ["nccl"]},
        {"if": {"gpu": "rocm"}, "then": ["rccl"]},
        "hdf5 +mpi",
    ]
    assert data["repo"] == "cpu/repo"
    whole = sum(
        len((recipes / name / file).read_text().splitlines())
        for name in ("cpu", "gpu", "amd")
        for file in ("config.yaml", "compilers.yaml", "environments.yaml", "packages.yaml")
    )
    assert len((recipes / "one.yaml").read_text().splitlines()) < whole * 2 / 3


def test_targets_that_differ_in_nothing(recipes, stackproof):
    variant(recipes, "gpu")
    code, out, err = stackproof("convert", "cpu", "gpu", "--site", FJORD, "-o", "one.yaml")
    assert (code, "same as 2 recipes" in out) == (0, True), err
    assert "when" not in yaml.safe_load((recipes / "one.yaml").read_text())


def test_other_hooks_packages_and_files(recipes, stackproof):
    variant(recipes, "gpu", ("post-install", "echo", "printf"))
    (recipes / "gpu" / "notes").mkdir()
    (recipes / "gpu" / "notes" / "a.txt").write_text("a")
    shutil.rmtree(recipes / "gpu" / "repo")
    code, _, err = stackproof(
        "convert", "cpu", "gpu", "--site", FJORD, "-o", "one.yaml", *facts(cpu=CPU, gpu=GPU)
    )
    assert code == 0, err
    for name, given in (("cpu", CPU), ("gpu", GPU)):
        assert same(recipes / name, recipes / "one.yaml", FJORD, given) == ()


def test_targets_that_no_fact_tells_apart(recipes, stackproof):
    variant(recipes, "gpu", ("environments.yaml", "- cmake", "- nccl"))
    code, _, err = stackproof("convert", "cpu", "gpu", "--site", FJORD, "-o", "one.yaml")
    assert code == 3
    assert "no fact tells" in err
    assert "--fact" in err
    assert not (recipes / "one.yaml").exists()


def test_nothing_is_overwritten_unless_told(recipes, stackproof):
    (recipes / "cpu.yaml").write_text("mine")
    assert stackproof("convert", "cpu", "--site", FJORD)[0] == 2
    assert (recipes / "cpu.yaml").read_text() == "mine"
    assert stackproof("convert", "cpu", "--site", FJORD, "--force")[0] == 0
    assert "Converted" in (recipes / "cpu.yaml").read_text()
    assert sorted(p.name for p in recipes.iterdir()) == [".git", "cpu", "cpu.yaml"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("nothing",), 3, "no folder `nothing`"),
        (("cpu", "-o", "cpu/x.yaml"), 2, "become part"),
        (("cpu", "-o", "cpu/repo/x.yaml"), 2, "not below"),
        (("cpu", "--site", "a", "--site", "b"), 2, "1 recipes, and 2 sites"),
        (("cpu", "--fact", "gpu=x"), 2, "never"),
        (("cpu", "--fact", "gpu"), 2, "NAME=VALUE"),
        (("cpu", "--fact", "gpu:gpu=cuda"), 2, "`gpu` is none of the recipes"),
        ((), 2, "DIR"),
    ],
)
def test_wrong_usage(recipes, stackproof, words, code, said):
    found = stackproof("convert", *words)
    assert found[0] == code
    assert said in found[2]
    assert not list(recipes.glob("*.yaml"))


def test_problems_of_all_recipes_come_at_once(recipes, stackproof):
    variant(recipes, "gpu", ("environments.yaml", "compiler:", "compilers:"))
    variant(recipes, "amd", ("config.yaml", "name: same", "nmae: same"))
    code, _, err = stackproof("convert", "cpu", "gpu", "amd", "--site", FJORD, "-o", "one.yaml")
    assert code == 3
    assert "gpu/environments.yaml" in err
    assert "amd/config.yaml" in err


def test_a_recipe_of_another_version_cannot_be_merged_silently(recipes, stackproof):
    variant(recipes, "new", ("config.yaml", "version: 2", "version: 3"))
    code, _, err = stackproof(
        "convert", "cpu", "new", "--site", FJORD, "-o", "one.yaml", *facts(cpu=CPU, new=GPU)
    )
    if code == 0:
        for name, given in (("cpu", CPU), ("new", GPU)):
            assert same(recipes / name, recipes / "one.yaml", FJORD, given) == ()
    else:
        assert code == 3, err
        assert not (recipes / "one.yaml").exists()
