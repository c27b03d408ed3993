"""The oldest C library that an image is to run with: before it is built, and over all its files."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from need import need
from packs import CALLS_ANSWER, Stack
from stackproof import cli
from stackproof.build import floor
from stackproof.build.effects.oldest import Oldest
from stackproof.build.plan import Plan, Step
from stackproof.core.errors import ExitCode, Reason, StackproofError
from stackproof.linking.elf.model import VersionNeed

RECIPES = Path(__file__).parents[2] / "recipes"
STACK = SimpleNamespace(architecture="x86_64", compression="zstd")
COMPILES = Plan(name="p", mount="/m", steps=(Step(name="benchmark"),))


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
    seen = floor.above(view(program=nodes), ["program"], "2.31")  # type: ignore[arg-type]
    assert seen == ({"program": found} if found else {})


def test_every_file_is_named_with_its_node_and_many_are_cut_short() -> None:
    floor.refuse({}, "2.31", root="")
    found = {f"/m/lib{number:02}.so": "GLIBC_2.34" for number in range(22)}
    with pytest.raises(StackproofError) as caught:
        floor.refuse({**found, "/m/bin/a": "GLIBC_2.38"}, "2.31", root="")
    (problem,) = caught.value.problems
    assert problem.reason is Reason.BUILD_FAILED
    assert problem.message == "23 files need a C library newer than glibc 2.31, up to `GLIBC_2.38`"
    lines = (problem.detail or "").splitlines()
    assert (lines[0], lines[-1], len(lines)) == ("GLIBC_2.38  /m/bin/a", "and 3 more", 21)
    assert "--root" in (problem.hint or "")


@pytest.mark.parametrize(("here", "asked"), [("2.36", "2.33"), ("2.34", "2.31")])
def test_what_is_certain_is_refused_before_anything_is_compiled(here: str, asked: str) -> None:
    for root, hint in (("", "--root FOLDER"), ("/old", "an older glibc")):
        with pytest.raises(StackproofError) as caught:
            floor.refuse_early(COMPILES, STACK, here, asked, root=root)
        (problem,) = caught.value.problems
        assert "every program that is compiled here needs `GLIBC_2.34`" in problem.message
        assert hint in (problem.hint or "")


def test_what_the_files_decide_is_not_refused_before() -> None:
    floor.refuse_early(COMPILES, STACK, "2.31", "2.28", root="")
    floor.refuse_early(COMPILES, STACK, "2.36", "2.34", root="")
    floor.refuse_early(Plan(name="p", mount="/m", steps=()), STACK, "2.36", "2.17", root="")


@pytest.mark.parametrize("word", ["2.31", "glibc", "glibc=", "glibc=2", "musl=1.2", "glibc=2.x"])
def test_a_floor_is_a_release_of_glibc(word: str) -> None:
    assert floor.parse("glibc=2.31") == "2.31"
    with pytest.raises(StackproofError) as caught:
        floor.parse(word)
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
    Oldest(release="2.99", root="").refuse(image)
    with pytest.raises(StackproofError) as caught:
        Oldest(release="2.98", root="/old").refuse(image)
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
