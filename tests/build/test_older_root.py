"""Builds in the root of another system: what is a root, what is seen of it, and when."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import easybuilds
from need import need
from stackproof.build.effects import images, rootfs, stacks, visible
from stackproof.build.effects.executor import execute
from stackproof.build.effects.workspace import BuildSetup
from stackproof.build.engines.easybuild.effects import builder
from stackproof.build.engines.easybuild.effects.builder import machine_problems
from stackproof.build.options import RecipeOptions
from stackproof.build.plan import PYTHON, Plan, Step
from stackproof.build.tail import pack_step
from stackproof.core.command import Command
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.monitor import null_monitor
from stackproof.core.value import replace

RECIPES = Path(__file__).parents[2] / "recipes"
MOUNT = "/user-environment"
# Every program of the root: as `gcc`, `getconf` and `uname` it answers, with a path it leaves its name there.
PROGRAM = r"""
#include <stdio.h>
#include <string.h>
int main(int count, char **words) {
    FILE *file = count > 1 && words[1][0] == '/' ? fopen(words[1], "w") : stdout;
    if (file != stdout) fprintf(file, "%s\n", words[0]);
    else if (strstr(words[0], "gcc")) puts("gcc (Old 9.1-2) 9.1.0");
    else puts(strstr(words[0], "uname") ? MACHINE : "glibc 2.31");
    return 0;
}
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a root with programs that need no library, and nothing else."""
    need("gcc", "bubblewrap")
    folder = tmp_path_factory.mktemp("old")
    (folder / "usr" / "bin").mkdir(parents=True)
    (folder / "bin").symlink_to("usr/bin")
    program = folder / "usr" / "bin" / "gcc"
    machine = f'-DMACHINE="{os.uname().machine}"'
    argv = ["gcc", machine, "-static", "-O1", "-x", "c", "-", "-o", program]
    subprocess.run(argv, input=PROGRAM, text=True, check=True, timeout=600)
    for name in ("getconf", "python3", "uname"):
        (program.parent / name).symlink_to("gcc")
    return folder


def test_what_compiles_there_is_known_of_the_root(root: Path) -> None:
    found = rootfs.facts(rootfs.find(str(root)))
    assert (found["compiler"], found["glibc"]) == ("gcc 9.1.0 (Old 9.1-2)", "2.31")
    options = RecipeOptions(recipe=str(RECIPES / "mpich.yaml"), root=str(root))
    loaded = stacks.load_recipe(options)
    assert loaded.root == root
    assert loaded.stack.site_facts["glibc"] == "2.31"
    images.check_machine(loaded)
    other = replace(loaded, stack=replace(loaded.stack, architecture="riscv64"))
    with pytest.raises(StackproofError) as caught:
        images.check_machine(other)
    said = f"the root `{root}` is {os.uname().machine}; an image for riscv64 is built on such a"
    assert said in str(caught.value)
    plain = stacks.load_recipe(RecipeOptions(recipe=str(RECIPES / "mpich.yaml")))
    assert (plain.root, "glibc" in plain.stack.site_facts) == (None, False)


def test_only_steps_that_compile_are_in_the_root(root: Path) -> None:
    need("mksquashfs")
    made = ("out",)
    first = Step(
        name="install", commands=(Command(argv=("sh", "-c", f"mkdir {MOUNT}/out")),), outputs=made
    )
    command = Command(argv=(PYTHON, f"{MOUNT}/out/name"))
    compiles = Step(name="benchmark", inputs=(first.id,), commands=(command,))
    pack = pack_step(mount=MOUNT, compression="zstd", level=3, inputs=(compiles.id,))
    plan = Plan(name="rooted", mount=MOUNT, steps=(first, compiles, pack))
    built = execute(plan, null_monitor, setup=BuildSetup(root=root))
    assert (built.home / "store" / "out" / "name").read_text() == f"{visible.ROOTS_PYTHON}\n"


def test_a_root_takes_the_place_of_this_machines_system(root: Path) -> None:
    binds, links = visible.system(network=True, root=root)
    assert links == {"/bin": "usr/bin"}
    sources = {bind.target: bind.source for bind in binds}
    assert sources["/usr"] == f"{root}/usr"
    own = [bind for bind in binds if not bind.source.startswith(f"{root}/")]
    assert {bind.target for bind in own} <= set(visible.network_files())


@pytest.mark.parametrize(
    ("make", "reason", "said"),
    [
        ((), Reason.FILE_MISSING, "has no folder `usr` of its own"),
        (("link",), Reason.FILE_MISSING, "has no folder `usr` of its own"),
        (("usr/bin/getconf",), Reason.TOOL_MISSING, "apt-get install gcc libc6-dev"),
    ],
)
def test_what_is_no_root_is_refused(
    tmp_path: Path, make: tuple[str, ...], reason: Reason, said: str
) -> None:
    for name in make:
        if name == "link":
            (tmp_path / "usr").symlink_to("/usr")
        else:
            (tmp_path / name).parent.mkdir(parents=True)
            (tmp_path / name).touch()
    with pytest.raises(StackproofError) as caught:
        rootfs.find(os.fspath(tmp_path))
    assert caught.value.reason is reason
    assert said in str(caught.value)


def test_the_root_of_this_machine_is_told_as_such() -> None:
    with pytest.raises(StackproofError) as caught:
        rootfs.find("/")
    assert caught.value.reason is Reason.USAGE
    assert "is the root of this machine" in str(caught.value)


def test_a_chain_from_source_says_what_the_root_lacks(root: Path) -> None:
    found = machine_problems(easybuilds.stack(), ("autoconf",), ("some/header.h",), root)
    text = "\n".join(map(str, found))
    for name in ("make", "autoconf", "lmod"):
        assert f"`{name}`, which the root `{root}` does not have" in text
    assert "`some/header.h`" in text
    place = root / "usr/share/lmod/lmod/libexec/lmod"
    place.parent.mkdir(parents=True)
    place.touch()
    assert builder.find_lmod(root) == Path("/usr/share/lmod/lmod/libexec/lmod")


@pytest.mark.parametrize("name", ["cray-mpich.yaml", "spack/mpich.yaml"])
def test_other_engines_have_no_root(root: Path, name: str) -> None:
    with pytest.raises(StackproofError) as caught:
        stacks.load_recipe(RecipeOptions(recipe=str(RECIPES / name), root=str(root)))
    assert caught.value.reason is Reason.USAGE
    assert "`--root` is for" in str(caught.value)
