"""Every shipped recipe on every shipped site: valid, or what the site would have to state."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from stackinators import SMALL
from stackproof.cli import main
from stackproof.core.document import parse
from stackproof.core.effects import shipped
from stackproof.core.errors import ExitCode
from stackproof.site import model
from stackproof.site.effects import probe

SITES = shipped.names("sites")
CAPTURES = Path(__file__).parents[1] / "captures" / "probe"


def check(recipe: str, site: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(("check", recipe, "--site", site, "--offline"))
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("recipe", ["spack/mpich", "spack/openmpi", "openmpi", "libfabric"])
def test_a_recipe_that_can_be_built_anywhere_is_valid(
    recipe: str, site: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check(recipe, site) == 0
    out = capsys.readouterr().out
    assert out.replace(", no lock for this site", "") == f"{recipe}: valid\n"


@pytest.mark.parametrize("site", SITES)
def test_what_only_the_vendor_has_is_asked_of_the_machine(
    site: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No public page says where Cray MPICH lies on a machine: one sentence says what tells it."""
    assert check("spack/cray-mpich", site) == ExitCode.NOT_POSSIBLE
    said = capsys.readouterr()
    assert said.out == ""
    note, *lines = said.err.splitlines()
    assert note.startswith("note: the recipe is ")
    missing = f"`{site}` does not state where it has `cray-mpich`, which nobody can build"
    hint = (
        f"hint: `stackproof site probe --missing {site}` on a login node asks the machine; or write "
        '`cray-mpich: {version: "VERSION", path: DIR}` below `externals:` of mine.yaml, which '
        f"`stackproof site show {site} --yaml > mine.yaml` makes"
    )
    assert lines == [f"error: {missing} [site-incomplete]", lines[1], hint]
    assert re.fullmatch(r"  --> .*recipes/spack/cray-mpich\.yaml:\d+:\d+", lines[1])


@pytest.mark.parametrize("site", SITES)
def test_after_the_machine_was_asked_nothing_is_missing(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a machine says, from a capture: each site file is its own."""
    monkeypatch.chdir(tmp_path)
    capture = CAPTURES / "constructed-slingshot.json"
    with pytest.raises(SystemExit) as ended:
        main(("site", "probe", "--missing", site, "--from", str(capture), "--part", "login"))
    assert ended.value.code == 0
    lines = parse(capsys.readouterr().out, file="lines").data or {}
    data = model.overlay(lines, probe.read_site_file(site).data)
    (tmp_path / f"{site}.yaml").write_text(json.dumps(data))
    if site == "local":  # what is probed at each use: this machine has no Cray MPICH
        return
    for recipe in ("spack/cray-mpich", "spack/openmpi", "spack/mpich", "openmpi", "libfabric"):
        assert check(recipe, f"./{site}.yaml") == 0, capsys.readouterr().err
        out = capsys.readouterr().out.replace(", no lock for this site", "")
        assert out.endswith(f"{recipe}: valid\n")


@pytest.mark.parametrize("site", ["alps-zen2", "lumi-c", "helios-cpu"])
def test_a_stackinator_recipe_is_valid_after_its_hint(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipe").mkdir()
    for name, text in SMALL[2].items():
        own = text.replace("  specs:", "  network: {mpi: cray-mpich@8.1.30}\n  specs:", 1)
        (tmp_path / "recipe" / name).write_text(own)
    assert check("recipe", site) == ExitCode.NOT_POSSIBLE
    said = capsys.readouterr().err
    assert re.search(r"\n  --> recipe/environments\.yaml\b", said)
    entry = said.partition("; or write `")[2].partition("`")[0]
    assert entry == 'cray-mpich: {version: "8.1.30", path: DIR}'
    with pytest.raises(SystemExit):
        main(("site", "show", site, "--yaml"))
    text = capsys.readouterr().out
    assert "\nexternals:\n" in text
    (tmp_path / "mine.yaml").write_text(
        text.replace("\nexternals:\n", f"\nexternals:\n  {entry.replace('DIR', '/opt/mpich')}\n")
    )
    assert check("recipe", "./mine.yaml") == 0, capsys.readouterr().err
