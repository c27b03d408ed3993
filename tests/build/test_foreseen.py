"""What an image will lack on its site, told by `plan --site` and `build --site` before it is built."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from stackproof import cli
from stackproof.build.effects import site_needs, stacks
from stackproof.build.foreseen import ForeseenNeeds, foresee, lacking
from stackproof.build.options import RecipeOptions
from stackproof.build.plan import Plan, Step
from stackproof.build.stack import Artefact
from stackproof.core.errors import ExitCode
from stackproof.core.value import replace
from stackproof.inject.releases import nothing_known
from stackproof.site.model import External, Site

RECIPES = Path(__file__).parents[2] / "recipes"
STACK = SimpleNamespace(architecture="x86_64", compression="zstd")
BILL = {
    "components": [
        {"name": "libcxi", "version": "13.0.0", "scope": "required"},
        {"name": "cuda", "version": "12.6.3"},
        {"name": "libcxi", "version": "1.0", "properties": [{"name": "spack:external"}]},
        {"name": "cuda", "version": "9.0", "scope": "excluded"},
    ]
}


def planned(*wheels: str, compiles: bool = False, bill: object = None) -> Plan:
    files = tuple(Artefact(name="a", version="1", filename=one, sha256="0") for one in wheels)
    first = Step(name="install", fetch=files)
    last = Step(name="metadata", files={"meta/bom.cdx.json": json.dumps(bill or {})})
    steps = (first, Step(name="benchmark"), last) if compiles else (first, last)
    return Plan(name="p", mount="/m", steps=steps)


def site(**facts: object) -> Site:
    return replace(Site(name="there", kernel="5.14.21-150500"), **facts)  # type: ignore[arg-type]


def of(plan: Plan, glibc: str = "2.36", **more: object) -> ForeseenNeeds:
    return foresee(plan, SimpleNamespace(**{**vars(STACK), **more}), glibc, locked=True)


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("mpich-5.0.2-py3-none-manylinux_2_28_x86_64.whl", "GLIBC_2.28"),
        ("x-1-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", "GLIBC_2.17"),
        ("x-1-cp311-cp311-manylinux1_x86_64.whl", "GLIBC_2.5"),
    ],
)
def test_a_wheel_asks_for_no_more_than_its_tag_says(name: str, node: str) -> None:
    needs = of(planned(name, "x-1-py3-none-any.whl"))
    assert needs.most.nodes == {"GLIBC": node}
    assert needs.most.asks == {"GLIBC": name}
    assert needs.least.nodes == {}


@pytest.mark.parametrize(
    ("here", "there", "lacks", "unknown"),
    [
        ("2.36", "2.31", ["`GLIBC_2.34`, for what is compiled here: there has `GLIBC_2.31`"], []),
        ("2.36", "2.35", [],
         ["perhaps `GLIBC_2.36`, for what is compiled here: there has `GLIBC_2.35`"]),
        ("2.31", "2.28", [],
         ["perhaps `GLIBC_2.31`, for what is compiled here: there has `GLIBC_2.28`"]),
        ("2.36", "2.36", [], []),
        ("2.36", None, [],
         ["`GLIBC_2.36`, for what is compiled here: there does not say which it has"]),
    ],
)  # fmt: skip
def test_the_glibc_that_compiles_bounds_what_is_asked_for(
    here: str, there: str | None, lacks: list[str], unknown: list[str]
) -> None:
    plan = planned("x-1-py3-none-manylinux_2_28_x86_64.whl", compiles=True)
    found = lacking(of(plan, here), site(glibc=there), nothing_known())
    assert (list(found.lacks), list(found.unknown)) == (lacks, unknown)


def test_what_is_not_locked_is_taken_to_be_compiled() -> None:
    assert foresee(planned(), STACK, "2.36", locked=False).least.nodes == {"GLIBC": "GLIBC_2.34"}
    assert foresee(planned(), STACK, "2.36", locked=True).least.nodes == {}
    assert foresee(planned(), STACK, "", locked=False).most.nodes == {}


@pytest.mark.parametrize(
    ("slingshot", "driver", "lacks", "unknown"),
    [
        ("13.0.0", "560.35.03", [], []),
        ("14.0.0", "525.60.13", [], []),
        ("2.1.1", "470.82.01",
         ["a driver for CUDA 12.6.3, 525.60 or newer: there has 470.82.01"],
         ["a driver that answers libcxi 13.0.0: there has that of 2.1.1"]),
        (None, None, [],
         ["a driver that answers libcxi 13.0.0: there does not say its `slingshot-host-software`",
          "a driver for CUDA 12.6.3, 525.60 or newer: there does not say its `nvidia-driver`"]),
    ],
)  # fmt: skip
def test_what_is_brought_along_must_fit_drivers(
    slingshot: str | None, driver: str | None, lacks: list[str], unknown: list[str]
) -> None:
    stated = {"slingshot-host-software": slingshot, "nvidia-driver": driver}
    externals = {name: External(version=one) for name, one in stated.items() if one}
    found = lacking(of(planned(bill=BILL)), site(externals=externals), nothing_known())
    assert (list(found.lacks), list(found.unknown)) == (lacks, unknown)


def test_a_cuda_of_tomorrow_is_not_known() -> None:
    bill = {"components": [{"name": "cuda", "version": "99.1"}]}
    externals = {"nvidia-driver": External(version="900.1")}
    found = lacking(of(planned(bill=bill)), site(externals=externals), nothing_known())
    assert found.unknown == ("a driver for CUDA 99.1: there has 900.1",)


@pytest.mark.parametrize(
    ("compression", "kernel", "said"),
    [
        ("zstd", "4.12.14", "Linux 4.14 or a backport: there has 4.12.14"),
        ("zstd", None, "Linux 4.14 or a backport: there does not say its own"),
        ("zstd", "5.14.21-150500.55", ""),
        ("gzip", None, ""),
        ("lz4", "3.10.0-1160", "Linux 3.19 or a backport: there has 3.10.0-1160"),
    ],
)
def test_the_kernel_must_read_the_image(compression: str, kernel: str | None, said: str) -> None:
    found = lacking(of(planned(), compression=compression), site(kernel=kernel), nothing_known())
    assert (found.lacks, bool(found.unknown)) == ((), bool(said))
    assert not said or found.unknown[0].endswith(said)


def test_another_machine_is_lacking() -> None:
    other = site(partitions={"a": SimpleNamespace(architecture="aarch64", microarchitecture=None,
                                                  gpus=0, gpu=None)})  # fmt: skip
    assert lacking(of(planned()), other, nothing_known()).lacks == (
        "it is for x86_64, and there is aarch64",
    )


@pytest.fixture
def old_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = tmp_path / "old.yaml"
    path.write_text(
        'name: old\nglibc: "2.17"\nkernel: "3.10.0"\nsources: {a: {title: b}}\n'
        "partitions: {cpu: {architecture: x86_64}}\n"
        "facts: {glibc: a, kernel: a, partitions: a}\n"
    )
    monkeypatch.setattr("os.confstr", lambda _: "glibc 2.36")
    return str(path)


def planned_by_verb(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as stop:
        cli.main(["plan", str(RECIPES / "openmpi-lnx.yaml"), *words])
    assert stop.value.code == ExitCode.DONE
    return capsys.readouterr().out


def test_plan_says_what_the_site_lacks(capsys: pytest.CaptureFixture[str], old_site: str) -> None:
    out = planned_by_verb(capsys, "--site", old_site)
    assert "site lacks   `GLIBC_2.34` (glibc 2.34" in out
    assert "for what is compiled here: old has `GLIBC_2.17`" in out
    assert "not known    a kernel that mounts the image without FUSE, Linux 4.14" in out
    data = json.loads(planned_by_verb(capsys, "--site", old_site, "--json"))["site"]
    assert data["needs"]["least"]["nodes"] == {"GLIBC": "GLIBC_2.34"}
    assert len(data["lacking"]["lacks"]) == 1
    assert json.loads(planned_by_verb(capsys, "--json"))["site"] is None


def test_build_warns_of_what_is_certain(old_site: str) -> None:
    loaded = stacks.load_recipe(RecipeOptions(recipe=str(RECIPES / "openmpi-lnx.yaml")))
    plan = planned("x-1-py3-none-manylinux_2_28_x86_64.whl", compiles=True)
    asked = site_needs.ask(loaded, plan, old_site, locked=True)
    assert asked is not None
    (note,) = asked.notes
    assert note.message.startswith("the site lacks `GLIBC_2.34`")
    assert note.message.endswith("for what is compiled here: old has `GLIBC_2.17`")
    assert site_needs.ask(loaded, plan, None, locked=True) is None


def test_a_folder_of_a_cluster_says_nothing_of_it(tmp_path: Path) -> None:
    loaded = stacks.load_recipe(RecipeOptions(recipe=str(RECIPES / "openmpi-lnx.yaml")))
    assert site_needs.ask(loaded, planned(), str(tmp_path), locked=True) is None
