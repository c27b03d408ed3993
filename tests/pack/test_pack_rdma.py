"""A pack with libraries for RDMA where a machine has none, its own, or some that are too old."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from need import need
from packs import HERE, INTERPRETER, MOUNT, Stack, out, pack
from stackproof.core import noun
from stackproof.linking.effects import runpath
from stackproof.linking.effects.view import RootView
from stackproof.pack.cli.pack import explain_pack
from stackproof.pack.effects import relocate, survey
from stackproof.pack.model import Pack

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="loader of x86_64")

VERBS = "libibverbs.so.1"
LIBC = next(path for path in HERE if os.path.exists(path))
PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
const char *ibv_of(void);
int main(void) {
    const char *path = getenv("LD_LIBRARY_PATH");
    printf("%s|%s\\n", ibv_of(), path ? path : "-");
    return 0;
}
"""


def _verbs(stack: Stack, of: str, version: str, *options: str, more: str = "") -> Path:
    """Compile a libibverbs that says whose it is, with a version of its own."""
    script = stack.folder / "versions"
    script.write_text(f"{version} {{ global: ibv_of; local: *; }};\n")
    code = f'{more}const char *ibv_of(void) {{ {"near();" if more else ""} return "{of}"; }}'
    return stack.library("libibverbs", code, f"-Wl,--version-script={script}", *options)


def _make_places(root: Path) -> None:
    """Make the folders of a root at which something is mounted."""
    for name in ("pack", "mine", "proc"):
        (root / name).mkdir(parents=True, exist_ok=True)


class Machine:
    """An image whose program asks for libraries of the machine that packs, and the pack of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        machine = Stack(folder / "machine")
        machine.library("libnear", "void near(void) {}")
        path = f"-Wl,-rpath,{machine.tree}/lib"
        near = (path, f"-L{machine.tree}/lib", "-lnear")
        verbs = _verbs(machine, "spare", "IBVERBS_1.9", *near, more="void near(void);")
        self.stack = Stack(folder)
        self.stack.compile(PROGRAM, self.stack.tree / "bin/verbs", path, last=[str(verbs)])
        done = pack(self.stack.image(), "verbs", "-o", "pack", cwd=folder)
        assert done.returncode == 0, done.stderr
        shutil.rmtree(machine.tree)

    def root(self, of: str = "", version: str = "IBVERBS_1.9") -> Path:
        """Return a root with a C library, and with a libibverbs of its own where it has a name."""
        root = self.folder / f"root-{of}-{version}"
        _make_places(root)
        for path in (INTERPRETER, LIBC):
            (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, root / path[1:])
        if of:
            own = _verbs(Stack(self.folder / f"own-{of}-{version}"), of, version)
            shutil.copy(own, root / LIBC[1:].replace("libc.so.6", VERBS))
        return root

    def run(self, root: Path, *more: str | Path) -> tuple[str, str]:
        """Return what the program prints in a root, and what its entry point says."""
        places = ("--ro-bind", root, "/", "--ro-bind", self.folder / "pack", "/pack")
        explain = ("--setenv", "STACKPROOF_PACK_EXPLAIN", "1")
        argv = ("bwrap", *places, "--proc", "/proc", "--clearenv", *more, *explain)
        done = out(*argv, "/pack/bin/verbs")
        assert done.returncode == 0, done.stderr
        return done.stdout.rstrip(), done.stderr.splitlines()[-1]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    need("gcc", "mksquashfs", "patchelf", "bubblewrap")
    return Machine(tmp_path_factory.mktemp("rdma"))


def test_a_machine_without_them_takes_those_of_the_pack(machine: Machine) -> None:
    """With what they need; by this machine's loader, and by that of the pack in an empty root."""
    said, why = machine.run(machine.root())
    assert said == "spare|/pack/lib/spare"
    assert why.endswith("libraries in /pack/lib/spare, as this machine has no libibverbs.so.1")
    empty = machine.folder / "empty"
    _make_places(empty)
    assert machine.run(empty) == ("spare|-", why)


def test_a_machine_with_its_own_uses_them(machine: Machine) -> None:
    """Then its drivers fit; also where a machine without them has started this one's program."""
    root = machine.root("machine")
    here = ("machine|-", "stackproof pack: RDMA by the libraries of this machine")
    assert machine.run(root) == here
    assert machine.run(root, "--setenv", "LD_LIBRARY_PATH", "/pack/lib/spare") == here


def test_those_that_are_too_old_are_passed_over(machine: Machine) -> None:
    said, why = machine.run(machine.root("machine", "IBVERBS_1.8"))
    assert said == "spare|/pack/lib/spare"
    assert why.endswith("as this machine has no libibverbs.so.1 with IBVERBS_1.9")


def test_those_that_a_user_names_come_first(machine: Machine) -> None:
    root, own = machine.root(), machine.root("named")
    mine = ("--ro-bind", own / LIBC[1:].rpartition("/")[0], "/mine")
    said, _ = machine.run(root, *mine, "--setenv", "LD_LIBRARY_PATH", "/mine")
    assert said == "named|/mine:/pack/lib/spare"


def test_they_are_told_in_the_provenance_and_explained(machine: Machine) -> None:
    found = noun.from_json(Pack, (machine.folder / "pack.provenance.json").read_bytes())
    own = ("lib/libnear.so.1", "lib/spare/libibverbs.so.1")
    assert [path for path in found.libraries if path.startswith("lib/")] == [*own]
    assert runpath.read(str(machine.folder / "pack" / own[1])).rpath == "$ORIGIN:$ORIGIN/.."
    lines = [*explain_pack(found)]
    assert "from this machine: lib/libnear.so.1" in lines
    assert "for machines that lack one of them: lib/spare/libibverbs.so.1" in lines


def test_a_machine_without_them_makes_a_pack_all_the_same(tmp_path: Path) -> None:
    """Where a library of the image asks: what runs the pack may have them."""
    need("gcc", "mksquashfs", "patchelf")
    stack = Stack(tmp_path)
    stack.library("librdmacm", "int x;", "-Wl,-soname,libmlx4.so.9")
    stack.library("libfabric", "int fabric(void) { return 1; }", "-Wl,--no-as-needed",
                  f"-L{stack.tree}/lib", "-lrdmacm")  # fmt: skip
    for name in ("librdmacm.so", "librdmacm.so.1"):
        (stack.tree / "lib" / name).unlink()
    code = "int fabric(void); int main(void) { return fabric(); }"
    stack.program("info", code, "-Wl,--unresolved-symbols=ignore-all", needs=("fabric",))
    done = pack(stack.image(), "info", "-o", "pack", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert noun.from_json(Pack, done.stdout.encode()).missing == {
        "libmlx4.so.9": "/user-environment/lib/libfabric.so.1"
    }


def test_what_a_plug_in_asks_for_is_the_machines_alone(tmp_path: Path) -> None:
    """It does without: no machine gives up its own libraries, and their drivers, for that."""
    need("gcc")
    machine, stack = Stack(tmp_path / "machine"), Stack(tmp_path)
    verbs = _verbs(machine, "spare", "IBVERBS_1.9")
    path = (f"-Wl,-rpath,{machine.tree}/lib", f"-L{machine.tree}/lib", "-libverbs")
    plug_in = "const char *ibv_of(void); const char *of(void) { return ibv_of(); }"
    stack.library("libuct_ib", plug_in, *path)
    stack.compile("int main(void) { return 0; }", stack.tree / "bin/info")
    view = RootView("/", {MOUNT: str(stack.tree)})
    assert survey.look_around(view, MOUNT, (), has_mpi=False).spare == {}
    stack.compile(PROGRAM, stack.tree / "bin/more", path[0], last=[str(verbs)])
    view = RootView("/", {MOUNT: str(stack.tree)})
    found = survey.look_around(view, MOUNT, (), has_mpi=False)
    assert (list(found.spare), found.asked[VERBS]) == ([VERBS], {"IBVERBS_1.9"})


def test_what_an_image_asks_for_is_not_written_to_entry_points(tmp_path: Path) -> None:
    """Its names may be paths, and its versions any text: what this machine's library has counts."""
    need("gcc", "patchelf")
    machine, stack = Stack(tmp_path / "machine"), Stack(tmp_path)
    verbs = _verbs(machine, "spare", "IBVERBS_1.9")
    path = f"-Wl,-rpath,{machine.tree}/lib"
    program = stack.tree / "bin/verbs"
    stack.compile(PROGRAM, program, path, last=[str(verbs)])

    def spare() -> dict[str, tuple[str, ...]]:
        view = RootView("/", {MOUNT: str(stack.tree)})
        found = survey.look_around(view, MOUNT, (), has_mpi=False)
        assert {name: os.path.realpath(file) for name, file in found.spare.items()} == {
            VERBS: str(verbs)
        }
        return {**relocate.loading_of(found, (f"{MOUNT}/bin/verbs",)).spare}

    assert spare() == {VERBS: ("IBVERBS_1.9",)}
    content = program.read_bytes()
    program.write_bytes(content.replace(b"IBVERBS_1.9", b"../../../et"))
    assert spare() == {VERBS: ()}
    beside = f"{machine.tree}/bin/../lib/{VERBS}"
    subprocess.run(["patchelf", "--replace-needed", VERBS, beside, program], check=True)
    assert spare() == {VERBS: ()}
