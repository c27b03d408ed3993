"""`stackproof site spack-config`: a cluster configuration that recipes can be read with."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from need import need
from stackinators import SMALL
from stackproof import cli
from stackproof.build.engines.spack.effects.stackinator import load
from stackproof.core.effects import shipped

COVERS = ("build/cli/site_spack_config.py",)


def command(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(["site", "spack-config", *words])
    return int(ended.value.code or 0)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_recipe_can_be_read_with_it(tmp_path: Path, version: int):
    need("gcc", "g++")
    assert command("-o", str(tmp_path / "here")) == 0
    recipe = tmp_path / "recipe"
    recipe.mkdir()
    for name, text in SMALL[version].items():
        (recipe / name).write_text(text)
    written = load(str(recipe), site=str(tmp_path / "here")).stack
    assert "gcc" in written.packages
    assert bool(written.compilers_yaml) is (version == 1)
    found = load(str(recipe)).stack
    assert found.packages == written.packages
    assert found.environments == written.environments


def test_compilers_of_this_machine_are_none_of_another(capsys: pytest.CaptureFixture[str]):
    need("gcc", "g++")
    assert command("--site", "lumi-g") == 0
    said = capsys.readouterr()
    packages, _, compilers, _ = yaml.safe_load_all(said.out)
    assert (packages, compilers) == ({"packages": {}}, {"compilers": []})
    assert "note: left out: gcc: the site does not state its compilers" in said.err


def test_documents_are_printed(capsys: pytest.CaptureFixture[str]):
    own = yaml.safe_load((shipped.root("sites") / "alps-gh200.yaml").read_text())
    assert command("--site", "alps-gh200") == 0
    packages, network, *_ = yaml.safe_load_all(capsys.readouterr().out)
    assert packages["packages"]["gcc"] == own["spack"]["packages"]["gcc"]
    assert packages["packages"]["slurm"] == own["spack"]["packages"]["slurm"]
    assert "+cuda" in network["packages"]["openmpi"]["prefer"]
    assert "cxi" in network["mpi"]["openmpi"]["specs"][0]


def test_reasons_stand_in_the_file(tmp_path: Path):
    assert command("--site", "lumi-g", "-o", str(tmp_path)) == 0
    text = (tmp_path / "network.yaml").read_text()
    assert "https://github.com/" in text
    assert text.startswith("# ")


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "network.yaml").write_text("mine\n")
    assert command("-o", str(tmp_path)) == 2
    assert "network.yaml" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["network.yaml"]
    assert (tmp_path / "network.yaml").read_text() == "mine\n"


def test_a_site_that_is_not_there():
    assert command("--site", "nowhere") == 3
