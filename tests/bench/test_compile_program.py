"""Programs compiled for an arm: once for equal sources, wrappers and commands, and again for others."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from need import need
from refusals import refusal
from stackproof.bench.effects.compile_program import (
    MpiWrappers,
    compile_program,
    native_source,
)
from stackproof.build.programs import ProgramSource
from stackproof.core.errors import Reason
from stackproof.core.value import replace

HELLO = ProgramSource(
    name="hello",
    files={"hello.c": '#include "said.h"\n#include <stdio.h>\nint main(void){puts(SAID);}\n',
           "inner/said.h": b'#define SAID "first"\n'},
    commands=(("{c}", "-Iinner", "-o", "hello", "hello.c"),),
    outputs=("hello",),
)  # fmt: skip


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("gcc")
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def chain(tmp_path: Path) -> MpiWrappers:
    """A wrapper that notes each call."""
    wrapper = tmp_path / "mpicc"
    wrapper.write_text(f'#!/bin/sh\necho "$0" >>{tmp_path}/calls\nexec gcc "$@"\n')
    wrapper.chmod(0o755)
    return MpiWrappers(wrappers={"c": str(wrapper)}, identity="one")


def calls(tmp_path: Path) -> int:
    return len((tmp_path / "calls").read_text().splitlines())


def said(folder: Path) -> str:
    return subprocess.run([folder / "hello"], capture_output=True, text=True, check=True).stdout


def test_what_is_equal_is_compiled_once(tmp_path: Path, chain: MpiWrappers) -> None:
    first = compile_program(chain, HELLO)
    assert said(first) == "first\n"
    assert (first / "hello.c").exists()  # who doubts a number can read the program
    assert compile_program(chain, HELLO) == first
    assert calls(tmp_path) == 1


def test_other_sources_commands_or_wrappers_are_other_programs(
    tmp_path: Path, chain: MpiWrappers
) -> None:
    other = replace(HELLO, files={**HELLO.files, "inner/said.h": '#define SAID "second"\n'})
    faster = replace(HELLO, commands=(("{c}", "-O2", *HELLO.commands[0][1:]),))
    updated = replace(chain, identity="two")
    made = [
        compile_program(chain, HELLO), compile_program(chain, other),
        compile_program(chain, faster), compile_program(updated, HELLO),
    ]  # fmt: skip
    assert len(set(made)) == 4
    assert said(made[1]) == "second\n"
    assert calls(tmp_path) == 4


def test_what_does_not_compile_leaves_nothing(tmp_path: Path, chain: MpiWrappers) -> None:
    broken = replace(HELLO, files={**HELLO.files, "hello.c": "int main(void) { return nothing; }"})
    error = refusal(compile_program, chain, broken)
    assert error.reason is Reason.BUILD_FAILED
    assert "nothing" in str(error)
    assert [*(tmp_path / "cache" / "programs").iterdir()] == []
    lacking = replace(HELLO, outputs=("hello", "goodbye"))
    assert "goodbye" in str(refusal(compile_program, chain, lacking))
    assert [*(tmp_path / "cache" / "programs").iterdir()] == []


def test_words_before_the_commands_know_the_folder(tmp_path: Path, chain: MpiWrappers) -> None:
    """As a wrapper in a container is started, with the folder bound to the same place."""
    start = ("sh", "-c", 'test -f "$0/hello.c" && cd "$0" && exec "$@"', "{folder}")
    folder = compile_program(replace(chain, start=start), HELLO)
    assert said(folder) == "first\n"


def test_our_own_program_is_all_that_an_image_has(chain: MpiWrappers) -> None:
    source = native_source()
    assert source.outputs == ("stackproof-bench",)
    assert "main.c" in source.files
    assert "main.c" in source.commands[0]
    assert "-O2" in source.commands[0]
    assert "bench.h" not in source.commands[0]
    assert not chain.start
