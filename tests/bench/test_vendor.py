"""`--baseline vendor`: what a site says of its vendor's MPI, found on this machine or not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from installedmpis import installed
from stackproof.bench.effects import vendor
from stackproof.bench.effects.request import specification
from stackproof.bench.options import BenchOptions
from stackproof.core.errors import Reason, StackproofError


def site(folder: Path, **mpi: str) -> str:
    data: dict[str, object] = {"name": "mine", "description": "a test"}
    if mpi:
        told = {"sources": {"me": {"title": "looked at"}}, "facts": {"vendor-mpi": "me"}}
        data |= {"vendor-mpi": mpi, **told}
    (folder / "site.yaml").write_text(json.dumps(data))
    return f"vendor:{folder}/site.yaml"


def found(text: str) -> tuple[object, list[str]]:
    said: list[str] = []
    return specification(BenchOptions(baseline=text), said.append).baseline, said


def test_a_site_says_where_it_is(tmp_path: Path) -> None:
    prefix = installed(tmp_path / "impi")
    arm, said = found(site(tmp_path, family="intel-mpi", version="2021.18", path=str(prefix)))
    assert (arm.name, arm.prefix) == ("vendor", str(prefix))
    assert said == [f"the vendor's MPI is intel-mpi 2021.18, installed in {prefix}"]
    arm, _ = found("theirs=" + site(tmp_path, family="intel-mpi", path=str(prefix)))
    assert arm.name == "theirs"


def test_cray_mpich_by_its_folders_or_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vendor, "_CRAY", f"{tmp_path}/{{version}}/ofi/{{compiler}}/*/bin/mpicc")
    text = site(tmp_path, family="cray-mpich", version="8.1.28")
    arm, said = found(text)
    assert arm.module == ("cray-mpich/8.1.28",)
    assert "as the module cray-mpich/8.1.28" in said[0]
    for place in ("8.1.28/ofi/cray/17.0", "8.1.28/ofi/gnu/12.3", "8.1.29/ofi/gnu/12.3"):
        (tmp_path / place / "bin").mkdir(parents=True)
        (tmp_path / place / "bin" / "mpicc").touch()
    assert found(text)[0].prefix == f"{tmp_path}/8.1.28/ofi/gnu/12.3"
    assert found(site(tmp_path, family="cray-mpich"))[0].prefix == f"{tmp_path}/8.1.29/ofi/gnu/12.3"


def test_a_site_without_one(tmp_path: Path) -> None:
    for text, words in (
        (site(tmp_path), "does not say which MPI"),
        ("vendor", "nothing here shows"),
    ):
        with pytest.raises(StackproofError) as caught:
            found(text)
        assert caught.value.reason is Reason.NO_MPI
        assert words in str(caught.value)
        assert "module:NAME" in str(caught.value)
    with pytest.raises(StackproofError) as caught:
        found(site(tmp_path, family="intel-mpi", path="/gone"))
    assert "there is no `/gone`" in str(caught.value)
