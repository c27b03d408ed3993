"""An engine from outside the package: one folder and one registry line, and every verb has it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import documented
import stackproof
from inprocess import exit_code
from need import need
from stackproof.build.effects import builders
from stackproof.core.cli.examples import OUTPUTS

ENGINE = """
from typing import ClassVar
from stackproof.build.effects.builders import Solving
from stackproof.build.effects.loaded import Loaded
from stackproof.build import tail
from stackproof.build.engine import Container, Findings
from stackproof.core.errors import Problem, Reason
from stackproof.core.value import Value
from stackproof.build.effects.workspace import BuildSetup
from stackproof.build.plan import Plan, Step

class ToyStack(Value):
    SCHEMA: ClassVar[str] = "toy/stack/1"
    name: str
    text: str
    version: str = "1"
    description: str = "a toy"
    engine: str = "toy"
    mount: str = "/user-environment"
    architecture: str
    default_view: str | None = None
    transports: tuple[str, ...] = ()
    site_facts: dict[str, str] = {}
    compression: str = "zstd"
    compression_level: int = 3

class ToyLock(Value):
    SCHEMA: ClassVar[str] = "toy/lock/1"
    wants: str

class Toy:
    lock_kind = ToyLock
    solving = Solving.FILES
    refused = {"on": Problem(reason=Reason.USAGE, message="toys need no nodes")}

    @property
    def engine(self):
        return self

    def stale(self, stack, lock):
        return "" if lock.wants == stack.text else "another text"

    def problems(self, stack, lock, where):
        bad = Problem(reason=Reason.INVALID_VALUE, message="no toy", where=where("text"))
        return Findings(problems=(bad,) if stack.text == "bad" else ())

    def plan(self, stack, lock, sources):
        first = Step(name="toy", files={"toy.txt": lock.wants})
        return Plan(
            name=stack.name, mount=stack.mount,
            steps=(first, *tail.in_turn([tail.packed(stack)], first.id)),
        )

    def rows(self, stack, lock):
        return (("toy", stack.text),)

    def container(self, stack, lock):
        return Container(labels={"toy": stack.text})

    def load(self, reading):
        document = reading.composed.document
        stack = ToyStack(name=document.data["name"], text=document.data["text"], architecture=ARCH)
        return Loaded(path=reading.path, document=document, composed=reading.composed, stack=stack)

    def check(self, loaded, lock, *, whole):
        return Findings()

    def solve(self, loaded, options, monitor):
        return ToyLock(wants=loaded.stack.text)

    def setup(self, loaded, lock, plan, options, monitor):
        return BuildSetup()

    def fill_mirror(self, loaded, lock, options, folder, monitor):
        (folder / "toy.src").write_text(lock.wants)
        return frozenset()

import os
ARCH = os.uname().machine
BUILDER = Toy()
"""
BASE = "registry.example.org/debian@sha256:" + "ab" * 32


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "toyengine").mkdir()
    (tmp_path / "toyengine" / "__init__.py").write_text(ENGINE)
    (tmp_path / "toy.yaml").write_text("engine: toy\nname: toy\ntext: hello\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "toyengine", raising=False)
    monkeypatch.setitem(builders.REGISTRY, "toy", "toyengine")
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_verb_on_recipes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("check", "toy.yaml") == 0
    assert exit_code("plan", "toy.yaml") == 0
    assert "toy          hello" in capsys.readouterr().out
    assert exit_code("image", "containerfile", "toy.yaml", "--base", BASE) == 3
    assert "--stop-after lock" in capsys.readouterr().err
    assert exit_code("build", "--locked", "--stop-after", "lock", "toy.yaml") == 3
    assert exit_code("build", "--stop-after", "lock", "toy.yaml") == 0
    assert json.loads((folder / "toy.lock.json").read_text())["wants"] == "hello"
    assert exit_code("build", "--on", "slurm", "--stop-after", "lock", "toy.yaml") == 2
    capsys.readouterr()
    assert exit_code("image", "containerfile", "toy.yaml", "--base", BASE) == 0
    assert 'LABEL toy="hello"' in capsys.readouterr().out
    assert exit_code("mirror", "create", "sources", "toy.yaml") == 0
    assert (folder / "sources" / "toy.src").read_text() == "hello"
    shown = [
        line.replace("easybuild/libfabric_2.1.0.orig.tar.xz", "toy.src")
        for line in OUTPUTS["mirror create"][1:]
    ]
    assert documented.is_like(shown, capsys.readouterr().out)
    (folder / "toy.yaml").write_text("engine: toy\nname: toy\ntext: bad\n")
    capsys.readouterr()
    assert exit_code("check", "toy.yaml") == 3
    said = capsys.readouterr().err
    assert "toy.yaml:3" in said
    assert "another text" in said
    assert exit_code("build", "--stop-after", "lock", "toy.yaml") == 3


def test_an_image(folder: Path) -> None:
    need("bubblewrap", "mksquashfs", "python")
    assert exit_code("build", "toy.yaml") == 0
    assert (folder / "toy.squashfs").stat().st_size > 0


@pytest.mark.parametrize("name", builders.REGISTRY)
def test_what_every_builder_has(name: str) -> None:
    builder = builders.find(name)
    methods = {"stale", "problems", "plan", "rows", "container"}
    assert methods <= set(dir(builder.engine))
    assert {"load", "check", "solve", "setup", "fill_mirror"} <= set(dir(builder))
    assert builder.lock_kind.SCHEMA.startswith("stackproof/")
    assert set(builder.refused) <= {
        "mirror",
        "build-dir",
        "on",
        "mirror create",
        "from",
        "containerfile",
        "root",
    }


def test_no_verb_looks_at_the_kind_of_a_stack() -> None:
    package = Path(stackproof.__file__).parent
    found = [
        path.name
        for path in package.rglob("cli/*.py")
        for line in path.read_text().splitlines()
        if "isinstance(" in line and "stack" in line.lower() and "StackproofError" not in line
    ]
    assert found == []
