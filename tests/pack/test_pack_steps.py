"""The steps of a pack one by one, on trees of their own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from need import need
from packs import CALLS_ANSWER, MOUNT, Stack, small
from stackproof.core.errors import Reason, StackproofError
from stackproof.image.model import Image
from stackproof.inject.effects import versions
from stackproof.linking.effects.view import RootView
from stackproof.pack.effects import (
    deliver,
    fitting,
    interpreters,
    make,
    relocate,
    survey,
)
from stackproof.pack.effects.deliver import Delivery
from stackproof.pack.effects.make import PackWishes
from stackproof.pack.model import is_inside, is_loader


def test_the_format_goes_by_the_name_unless_it_is_told() -> None:
    def kind(output: str, told: str | None = None) -> str:
        return Delivery(output=output, format=told, provenance="none").kind

    assert [kind(name) for name in ("a.tar.zst", "a.tar.gz", "a.squashfs", "a", "a.tar", "a.oci", "a.oci.tar")] == [
        "tar.zst", "tar.gz", "squashfs", "dir", "dir", "oci", "oci",
    ]  # fmt: skip
    assert kind("a.tar.zst", "dir") == "dir"
    assert set(deliver.WRITERS) == {"dir", "tar.zst", "tar.gz", "squashfs", "oci"}


def test_a_survey_tells_what_is_of_the_tree_of_this_machine_and_of_nobody(tmp_path: Path) -> None:
    need("gcc")
    stack = Stack(tmp_path)
    stack.library("libanswer", "int answer(void) { return 42; }")
    stack.library("libgone", "int gone(void) { return 1; }")
    stack.program("hello", CALLS_ANSWER, "-Wl,--no-as-needed", needs=("answer", "gone", "z"))
    for name in ("libgone.so", "libgone.so.1"):
        (stack.tree / "lib" / name).unlink()
    view = RootView("/", {MOUNT: str(stack.tree)})
    found = survey.look_around(view, MOUNT, (), has_mpi=False)
    assert found.folders[f"{MOUNT}/bin/hello"] == (f"{MOUNT}/lib",)
    assert list(found.libraries) == ["libz.so.1"]
    assert "libc.so.6" in found.c_library
    assert found.missing == {"libgone.so.1": f"{MOUNT}/bin/hello"}
    with pytest.raises(StackproofError) as error:
        survey.check(found, (f"{MOUNT}/bin/hello",))
    assert error.value.reason is Reason.FILE_MISSING
    survey.check(found, ())
    assert relocate.own_floor(found) >= relocate.loading_of(found, (f"{MOUNT}/bin/hello",)).floor


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (("/usr/bin/env", "python3"), ("python3", "")),
        (("/usr/bin/python3", "-u"), ("python3", "-u")),
        (("/usr/bin/env", ""), ("env", "")),
    ],
)
def test_the_interpreter_that_a_script_names(line: tuple[str, str], named: tuple[str, str]) -> None:
    assert interpreters.named_by(*line) == named


def test_a_python_goes_along_with_what_it_is_nothing_without(tmp_path: Path) -> None:
    """Also where what is named is a script that leads to it."""
    (tmp_path / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (tmp_path / "python3").chmod(0o755)
    interpreters.carry(str(tmp_path / "python3"), tmp_path / "top/bin/python3")
    code = "import sys, json; print(sys.prefix, json.__file__, sep='\\n')"
    done = subprocess.run(
        [tmp_path / "top/bin/python3", "-I", "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    prefix, module = done.stdout.splitlines()
    assert (prefix, module.startswith(f"{tmp_path}/top/lib")) == (str(tmp_path / "top"), True)
    assert not [*(tmp_path / "top").rglob("site-packages")]


def test_a_program_that_takes_another_mpi_of_this_machine_is_left_without(tmp_path: Path) -> None:
    """As one of the modules that mpi4py brings for several."""
    need("gcc")
    machine, stack = Stack(tmp_path / "machine"), Stack(tmp_path)
    code = "int MPI_Init(int *, char ***); int main(void) { return MPI_Init(0, 0); }"
    path = f"-Wl,-rpath,{machine.tree}/lib"
    soname = machine.tree / "lib/libmpich.so.12"
    options = ("-shared", "-fPIC", "-Wl,-soname,libmpich.so.12")
    machine.compile(
        "int MPI_Init(int *a, char ***b) { return a != 0 || b != 0; }", soname, *options
    )
    stack.compile(code, stack.tree / "bin/other", path, last=[str(soname)])
    view = RootView("/", {MOUNT: str(stack.tree)})
    found = survey.look_around(view, MOUNT, (), has_mpi=True)
    assert (found.libraries, found.missing) == ({}, {"libmpich.so.12": f"{MOUNT}/bin/other"})
    found = survey.look_around(view, MOUNT, (), has_mpi=False)
    assert (list(found.libraries), found.missing) == (["libmpich.so.12"], {})
    image = Image(path="x", size=1, name="x", mount=MOUNT, mpi=None)
    assert fitting.judged(view, image, ()) == fitting.MpiFit()
    assert fitting.mpi_by_name(view, image, (f"{MOUNT}/mpi4py/MPI.mpich.so",)) == {}


def test_what_lies_beside_a_moved_program_is_beside_it_still(tmp_path: Path) -> None:
    folder = tmp_path / "stack/bin"
    (folder / "inner").mkdir(parents=True)
    for name in ("program", "data"):
        (folder / name).write_text(name)
    relocate.move_programs(tmp_path, ["stack/bin/program"])
    beside = tmp_path / "stack/.bin"
    assert sorted(os.listdir(folder)) == ["data", "inner"]
    assert (beside / "program").read_text() == "program"
    assert (os.readlink(beside / "data"), os.readlink(beside / "inner")) == (
        "../bin/data", "../bin/inner",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("head", "found"),
    [
        ("#!/bin/sh -e x\nrest", ("/bin/sh", "-e x")),
        ("#! /usr/bin/env python3\n", ("/usr/bin/env", "python3")),
        ("#!/bin/sh", ("/bin/sh", "")),
        ("#!\n", None),
        ("\x7fELF", None),
        ("", None),
    ],
)
def test_the_interpreter_of_a_script(head: str, found: object, tmp_path: Path) -> None:
    (tmp_path / "script").write_text(head)
    assert interpreters.shebang(tmp_path / "script") == found


def test_an_interpreter_in_parts() -> None:
    assert is_loader("/lib64/ld-linux-x86-64.so.2")
    assert not is_loader("/elsewhere/secret")
    assert not is_loader("/elsewhere/libc.so.6")
    assert is_inside("/m/bin/../lib", "/m")
    assert not is_inside("/m/../etc", "/m")


def test_rights_are_the_same_whatever_they_were(tmp_path: Path) -> None:
    for name, mode in (("a", 0o4711), ("b", 0o600), ("c", 0o777)):
        (tmp_path / name).write_text("x")
        (tmp_path / name).chmod(mode)
    (tmp_path / "inner").mkdir(mode=0o700)
    versions.normalise(tmp_path)
    modes = {path.name: path.stat().st_mode & 0o7777 for path in tmp_path.iterdir()}
    assert modes == {"a": 0o755, "b": 0o644, "c": 0o755, "inner": 0o755}


def test_a_pack_is_made_from_python_too(tmp_path: Path) -> None:
    need("gcc", "mksquashfs", "patchelf")
    target = Delivery(output=str(tmp_path / "out"), format=None, provenance="none")
    pack, size = deliver.write_pack(str(small(tmp_path)), PackWishes(), target)
    assert pack.programs == {"hello": "stack/bin/hello", "say": "stack/bin/say"}
    assert (pack.tier, pack.floor >= 2) == (0, True)
    assert size > 10_000
    assert make.OTHERS not in os.listdir(tmp_path / "out/stack")


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    need("gcc", "mksquashfs", "patchelf", "root")
    image = small(tmp_path)
    (tmp_path / "full").mkdir()
    script = 'mount -t tmpfs -o size=300k tmpfs "$0/full"; shift 0; "$@"; ls -A "$0/full"; exit 0'
    argv = [sys.executable, "-m", "stackproof", "pack", image, "-o", tmp_path / "full/out"]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, tmp_path, *argv],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert "[disk-full]" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("trap", ["environment", "interpreter", "folder"])
def test_a_python_of_somebody_else_starts_nothing_of_his(tmp_path: Path, trap: str) -> None:
    """Root may pack a script beside which another user has put a Python."""
    need("root")
    theirs, mark = tmp_path / "theirs", tmp_path / "mark"
    packages = theirs / "env/lib/python3.11/site-packages"
    packages.mkdir(parents=True)
    (theirs / "env/bin").mkdir()
    script = f"#!/bin/sh\ntouch {mark}\n"
    if trap == "environment":  # a link to root's Python, and what that reads beside the link
        python = theirs / "env/bin/python3"
        python.symlink_to("/usr/bin/python3")
        (theirs / "env/pyvenv.cfg").write_text("home = /usr/bin\n")
        (packages / "trap.pth").write_text(f"import os; open({str(mark)!r}, 'w')\n")
    elif trap == "interpreter":
        (theirs / "interp").write_text(script)
        (theirs / "interp").chmod(0o755)
        python = tmp_path / "python3"
        python.write_text(f"#!{theirs}/interp\n")
        python.chmod(0o755)
    else:
        python = theirs / "ours/python3"
        python.parent.mkdir()
        python.write_text(script)
        python.chmod(0o755)
    for path in (theirs, theirs / "interp", *theirs.rglob("env*")):
        if path.exists():
            os.chown(path, 31001, 31001)
    refused = pytest.raises(StackproofError, match="would be started")
    with contextlib.nullcontext() if trap == "environment" else refused:
        interpreters.carry(str(python), tmp_path / "top/bin/python3")
    assert not mark.exists()
