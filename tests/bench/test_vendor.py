"""`vendor` as an arm, short and in a specification: what a site says of its vendor's MPI, found on this machine or not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from installedmpis import installed
from refusals import refusal
from stackproof.bench.effects.arms import make_ready
from stackproof.bench.effects.kinds import vendor
from stackproof.bench.effects.request import specification
from stackproof.bench.options import BenchOptions
from stackproof.bench.spec import Arm, BenchSpec
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.value import replace


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


def written(
    folder: Path, *entries: dict[str, object], **more: object
) -> tuple[BenchSpec, list[str]]:
    data = {"baseline": entries[0], "challengers": [*entries[1:]], **more}
    (folder / "spec.yaml").write_text(json.dumps(data))
    said: list[str] = []
    return specification(BenchOptions(spec=f"{folder}/spec.yaml"), said.append), said


def test_a_site_says_where_it_is(tmp_path: Path) -> None:
    prefix = installed(tmp_path / "impi")
    arm, said = found(site(tmp_path, family="intel-mpi", version="2021.18", path=str(prefix)))
    assert (arm.name, arm.prefix) == ("vendor", str(prefix))
    assert said[0] == f"the vendor's MPI is intel-mpi 2021.18, installed in {prefix}"
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


def test_a_specification_finds_the_same(tmp_path: Path) -> None:
    prefix = installed(tmp_path / "impi")
    site(tmp_path, family="intel-mpi", version="2021.18", path=str(prefix))
    entry = {"vendor": "./site.yaml", "env": {"A": "b"}}
    spec, said = written(tmp_path, entry, {"name": "theirs", "vendor": f"{tmp_path}/site.yaml"})
    assert said[0] == f"the vendor's MPI is intel-mpi 2021.18, installed in {prefix}"
    (other,) = spec.challengers
    assert [(one.name, one.prefix, one.vendor) for one in (spec.baseline, other)] == [
        ("vendor", str(prefix), ""),
        ("theirs", str(prefix), ""),
    ]
    assert spec.baseline.env == {"A": "b"}
    assert spec.baseline.transports["inter-node"] == "auto"
    short, again = found(f"vendor:{tmp_path}/site.yaml")
    assert (short, again[0]) == (replace(spec.baseline, env={}), said[0])
    settings = [{**entry, "name": value, "env": {"A": value}} for value in ("c", "d")]
    spec, said = written(tmp_path, entry, challengers=settings)
    assert len(said) == 1
    assert {one.prefix for one in spec.challengers} == {str(prefix)}


def test_a_vendor_s_mpi_that_is_not_there(tmp_path: Path) -> None:
    site(tmp_path)
    for entry, words in (
        ({"vendor": "local"}, "nothing here shows an MPI of the machine's vendor"),
        ({"vendor": "site.yaml"}, "does not say which MPI its vendor installed"),
        ({"vendor": "lmui"}, "did you mean `lumi-g`"),
        ({"vendor": "local", "prefix": "/opt"}, "this one says `prefix` and `vendor`"),
        ({"vendor": "local", "view": "x"}, "`view` is not for the vendor's MPI"),
    ):
        assert words in str(refusal(written, tmp_path, entry))
    with pytest.raises(StackproofError, match="nothing here shows"):
        make_ready(BenchSpec(baseline=Arm(vendor="local")))


def test_a_site_without_one(tmp_path: Path) -> None:
    for text, words in (
        (site(tmp_path), "does not say which MPI"),
        ("vendor", "nothing here shows"),
    ):
        error = refusal(found, text)
        assert error.reason is Reason.NO_MPI
        assert words in str(error)
        assert "module:NAME" in str(error)
    error = refusal(found, site(tmp_path, family="intel-mpi", path="/gone"))
    assert "there is no `/gone`" in str(error)
