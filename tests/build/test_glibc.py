"""The C library that an image needs: before it is built, over all its files, and on its site."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from need import need
from packs import CALLS_ANSWER, Stack
from stackproof import cli
from stackproof.build import glibc
from stackproof.build.effects import glibc as effects_glibc
from stackproof.build.effects import stacks
from stackproof.build.glibc import ForeseenNeeds
from stackproof.build.options import RecipeOptions
from stackproof.build.plan import Plan, Step
from stackproof.build.stack import Artefact
from stackproof.core.errors import ExitCode, Reason, StackproofError
from stackproof.core.value import replace
from stackproof.inject.releases import nothing_known
from stackproof.linking.elf.model import VersionNeed
from stackproof.site.model import Site

RECIPES = Path(__file__).parents[2] / "recipes"


def planned(*wheels: str, compiles: bool = False) -> Plan:
    files = tuple(Artefact(name="a", version="1", filename=one, sha256="0") for one in wheels)
    first = Step(name="install", fetch=files)
    steps = (first, Step(name="benchmark")) if compiles else (first,)
    return Plan(name="p", mount="/m", steps=steps)


def site(**facts: object) -> Site:
    return replace(Site(name="there"), **facts)  # type: ignore[arg-type]


def of(plan: Plan, here: str = "2.36", *, locked: bool = True) -> ForeseenNeeds:
    return glibc.foresee(plan, "x86_64", here, locked=locked)


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
    found = glibc.lacking(of(plan, here), site(glibc=there), nothing_known())
    assert (list(found.lacks), list(found.unknown)) == (lacks, unknown)


def test_what_is_not_locked_is_taken_to_be_compiled() -> None:
    assert of(planned(), locked=False).least.nodes == {"GLIBC": "GLIBC_2.34"}
    assert of(planned()).least.nodes == {}
    assert of(planned(), "", locked=False).most.nodes == {}


def test_another_machine_is_lacking() -> None:
    other = site(partitions={"a": SimpleNamespace(architecture="aarch64", microarchitecture=None,
                                                  gpus=0, gpu=None)})  # fmt: skip
    assert glibc.lacking(of(planned()), other, nothing_known()).lacks == (
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
    data = json.loads(planned_by_verb(capsys, "--site", old_site, "--json"))["site"]
    assert data["needs"]["least"]["nodes"] == {"GLIBC": "GLIBC_2.34"}
    assert len(data["lacking"]["lacks"]) == 1
    assert json.loads(planned_by_verb(capsys, "--json"))["site"] is None


def test_build_warns_of_what_is_certain(old_site: str) -> None:
    loaded = stacks.load_recipe(RecipeOptions(recipe=str(RECIPES / "openmpi-lnx.yaml")))
    plan = planned("x-1-py3-none-manylinux_2_28_x86_64.whl", compiles=True)
    asked = effects_glibc.ask(loaded, plan, old_site, locked=True)
    assert asked is not None
    (note,) = asked.notes
    assert note.message.startswith("the site lacks `GLIBC_2.34`")
    assert note.message.endswith("for what is compiled here: old has `GLIBC_2.17`")
    assert effects_glibc.ask(loaded, plan, None, locked=True) is None


def test_a_folder_of_a_cluster_says_nothing_of_it(tmp_path: Path) -> None:
    loaded = stacks.load_recipe(RecipeOptions(recipe=str(RECIPES / "openmpi-lnx.yaml")))
    assert effects_glibc.ask(loaded, planned(), str(tmp_path), locked=True) is None


def view(**nodes: tuple[str, ...]) -> SimpleNamespace:
    """Return a view with a file for each word, which asks for nodes; `~` before one: weakly."""
    files = {
        name: SimpleNamespace(
            dynamic=True,
            version_needs=tuple(
                VersionNeed("libc.so.6", one.lstrip("~"), 2, one[0] == "~", hidden=False)
                for one in wanted
            ),
        )
        for name, wanted in nodes.items()
    }
    return SimpleNamespace(look=lambda path: path, elf=files.__getitem__)


@pytest.mark.parametrize(
    ("nodes", "found"),
    [
        (("GLIBC_2.2.5", "GLIBC_2.31"), ""),
        (("GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.33"), "GLIBC_2.34"),
        (("GLIBC_2.31.1",), "GLIBC_2.31.1"),
        (("GLIBC_2.4", "GLIBC_2.9"), ""),
        (("GLIBC_ABI_DT_RELR", "GLIBC_2.32"), "GLIBC_ABI_DT_RELR"),
        (("~GLIBC_2.34",), ""),
        (("GLIBC_PRIVATE", "GLIBCXX_3.4.30", "CXXABI_1.3"), ""),
        ((), ""),
    ],
)
def test_the_newest_node_that_a_file_asks_for_counts(nodes: tuple[str, ...], found: str) -> None:
    seen = glibc.above(view(program=nodes), ["program"], "2.31")  # type: ignore[arg-type]
    assert seen == ({"program": found} if found else {})


def test_every_file_is_named_with_its_node_and_many_are_cut_short() -> None:
    glibc.refuse({}, "2.31")
    found = {f"/m/lib{number:02}.so": "GLIBC_2.34" for number in range(22)}
    with pytest.raises(StackproofError) as caught:
        glibc.refuse({**found, "/m/bin/a": "GLIBC_2.38"}, "2.31")
    (problem,) = caught.value.problems
    assert problem.reason is Reason.BUILD_FAILED
    assert problem.message == "23 files need a C library newer than glibc 2.31, up to `GLIBC_2.38`"
    lines = (problem.detail or "").splitlines()
    assert (lines[0], lines[-1], len(lines)) == ("GLIBC_2.38  /m/bin/a", "and 3 more", 21)
    assert "on a system as old" in (problem.hint or "")


@pytest.mark.parametrize(("here", "asked"), [("2.36", "2.33"), ("2.34", "2.31")])
def test_what_is_certain_is_refused_before_anything_is_compiled(here: str, asked: str) -> None:
    with pytest.raises(StackproofError) as caught:
        glibc.refuse_early(of(planned(compiles=True), here), here, asked)
    (problem,) = caught.value.problems
    assert "every program that is compiled here needs `GLIBC_2.34`" in problem.message


def test_what_the_files_decide_is_not_refused_before() -> None:
    for compiles, here, asked in (
        (True, "2.31", "2.28"),
        (True, "2.36", "2.34"),
        (False, "2.36", "2.17"),
    ):
        glibc.refuse_early(of(planned(compiles=compiles), here), here, asked)


@pytest.mark.parametrize("word", ["2.31", "glibc", "glibc=", "glibc=2", "musl=1.2", "glibc=2.x"])
def test_a_floor_is_a_release_of_glibc(word: str) -> None:
    assert glibc.parse_floor("glibc=2.31") == "2.31"
    with pytest.raises(StackproofError) as caught:
        glibc.parse_floor(word)
    assert caught.value.reason is Reason.USAGE


def test_the_files_of_a_real_image_are_read(tmp_path: Path) -> None:
    need("gcc", "mksquashfs")
    stack = Stack(tmp_path)
    script = tmp_path / "nodes"
    script.write_text("GLIBC_2.99 { global: answer; };\n")
    option = f"-Wl,--version-script,{script}"
    stack.library("libanswer", "int answer(void) { return 42; }", option)
    stack.program("hello", CALLS_ANSWER, needs=("answer",))
    image = os.fspath(stack.image())
    effects_glibc.refuse_newer(image, "2.99")
    with pytest.raises(StackproofError) as caught:
        effects_glibc.refuse_newer(image, "2.98")
    assert caught.value.problems[0].detail == "GLIBC_2.99  /user-environment/bin/hello"


def test_build_says_it_at_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    need("gcc")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.confstr", lambda _: "glibc 2.36")
    for word, code, said in (
        ("glibc=2.31", ExitCode.INVALID, "this machine has glibc 2.36"),
        ("2.31", ExitCode.USAGE, "write for example --floor glibc=2.31"),
    ):
        with pytest.raises(SystemExit) as stop:
            cli.main(["build", str(RECIPES / "mpich.yaml"), "--locked", "--floor", word])
        assert stop.value.code == code
        assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
