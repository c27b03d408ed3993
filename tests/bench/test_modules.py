"""Modules of a machine: what they say when they fail, what they make, and a real Lmod of all kinds."""

from __future__ import annotations

from pathlib import Path

import pytest

from installedmpis import MPICH, OPEN_MPI, installed
from need import need
from refusals import refusal
from stackproof.bench.effects import modules
from stackproof.bench.effects.modules import (
    ModuleLoad,
    difference,
    fault_of,
    is_loaded,
    mpi_folders,
)
from stackproof.core.errors import Reason, StackproofError

# What the tools print, by release.
SAID = {
    "lmod-unknown": (
        1,
        ("Lmod has detected the following error: The following module(s) are unknown:\n"
        '"mpi"\n\nPlease check the spelling or version number. Also try "module spider ..."\n'),
        "there is no module `mpi`",
    ),
    "lmod-hierarchy": (
        1,
        ("Lmod has detected the following error: These module(s) or extension(s) exist but cannot be\n"
        'loaded as requested: "mpi"\n   Try: "module spider mpi" to see how to load the module(s).\n'),
        "`mpi` needs others first: gcc/12.2.0 or intel/2024 mkl/1",
    ),
    "lmod-prereq": (
        1,
        ('Lmod has detected the following error: Cannot load module "mpi" without\n'
        "these module(s) loaded:\n   gcc/12\n"),
        "`mpi` needs another one first: gcc/12",
    ),
    "tcl3-unknown": (
        0,
        "ModuleCmd_Load.c(213):ERROR:105: Unable to locate a modulefile for 'mpi'\n",
        "there is no module `mpi`",
    ),
    "tcl3-broken": (
        0,
        "mpi(12):ERROR:102: Tcl command execution failed: puts $nothing\n",
        "printed an error, although it exited with 0",
    ),
    "tcl5-unknown": (
        1, "ERROR: Unable to locate a modulefile for 'mpi'\n", "there is no module `mpi`"
    ),
    "tcl5-prereq": (
        1,
        ("Loading mpi\n  ERROR: Module cannot be loaded due to missing prereq.\n"
        "    HINT: the following module must be loaded first: gcc\n"),
        "`mpi` needs another one first: gcc",
    ),
    "sourced-file": (
        0, "/bin/sh: /opt/vendor/setvars.sh: No such file or directory\n", "printed an error"
    ),
    "quiet": (0, "", "exited with 0, and it is not loaded"),
    "code": (3, "", "exited with 3"),
}  # fmt: skip
SPIDER = """
  mpi: mpi/5
    You will need to load all module(s) on any one of the lines below before the "mpi/5" module is
    available to load.

      gcc/12.2.0
      intel/2024  mkl/1

    Help:
"""


@pytest.mark.parametrize("case", SAID)
def test_every_way_to_fail_is_seen(case: str) -> None:
    code, said, words = SAID[case]
    fault = fault_of(ModuleLoad(name="mpi", code=code, said=said, loaded=()), (), SPIDER)
    assert fault is not None
    assert words in fault.message
    assert fault.hint


def test_a_module_that_is_there_is_no_fault() -> None:
    good = ModuleLoad(name="mpi", code=0, said="Loading mpi/5\n  welcome to MPI", loaded=("mpi/5",))
    assert fault_of(good, ("gcc/12", "mpi/5")) is None
    gone = fault_of(good, ("gcc/12", "othermpi/1"))
    assert gone is not None
    assert "took it away" in gone.message
    assert is_loaded("mpi/5", ("mpi/5",))
    assert not is_loaded("mpi", ("mpich/5",))


def test_an_error_counts_although_the_module_is_there() -> None:
    liar = ModuleLoad(name="mpi", code=0, said="ERROR: no licence\n", loaded=("mpi/5",))
    fault = fault_of(liar, ("mpi/5",))
    assert fault is not None
    assert "although it exited with 0" in fault.message


def test_the_difference_of_environments() -> None:
    before = {"PATH": "/usr/bin:/bin", "OLD": "1", "KEPT": "x", "HOME": "/root"}
    after = {
        "PATH": "/mpi/bin:/usr/bin:/bin:/last", "LD_LIBRARY_PATH": "/mpi/lib", "KEPT": "x",
        "MPI_HOME": "/mpi", "BASH_FUNC_module%%": "() { :; }", "_ModuleTable001_": "abc",
        "SHLVL": "2", "HOME": "/other",
    }  # fmt: skip
    change = difference(before, after)
    assert change.apply(before) == {
        "PATH": "/mpi/bin:/usr/bin:/bin:/last", "LD_LIBRARY_PATH": "/mpi/lib", "KEPT": "x",
        "MPI_HOME": "/mpi", "HOME": "/root",
    }  # fmt: skip
    assert difference(after, after).apply(before) == before


def test_only_folders_that_are_brought_count() -> None:
    path = "/a/bin:/usr/bin:/b/bin:/c"
    assert mpi_folders(path, ("/usr/bin",), {"/usr/bin", "/b/bin"}) == ("/b/bin",)
    assert mpi_folders(path, ("/usr/bin",), {"/usr/bin"}) == ()


# ------------------------------------------------------------------------------------- a real Lmod


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of modules: MPIs, and everything that goes wrong with modules."""
    need("lmod", "gcc")
    root = tmp_path_factory.mktemp("modules")
    first = installed(root / "mpich", said=MPICH, needed="BY_MODULE", rpath=False)
    second = installed(root / "ompi", said=OPEN_MPI, needed="BY_MODULE", rpath=False)
    files = {
        "mpich/5.0": _of(first),
        "ompi/5.0": _of(second),
        # Its libraries are not where the loader looks first: there are the other one's.
        "mixed/1": f'prepend_path("LD_LIBRARY_PATH", "{second}/lib")\n',
        "needs/1": 'prereq("mpich")\n',
        "compiler/1": f'prepend_path("MODULEPATH", "{root}/below")\n',
        "broken/1": "this is no Lua(\n",
        "liar/1": 'execute{cmd="echo ERROR: no licence >&2", modeA={"load"}}\n',
        "one/1": 'family("kind")\n',
        "two/1": 'family("kind")\n',
        "ends/1": 'execute{cmd="exit 0", modeA={"load"}}\n',
    }
    for name, text in files.items():
        _write(root / "files" / f"{name}.lua", text)
    _write(root / "below" / "inner" / "2.lua", _of(first))
    return root


def _of(prefix: Path) -> str:
    return (
        f'prepend_path("PATH", "{prefix}/bin")\n'
        f'prepend_path("LD_LIBRARY_PATH", "{prefix}/lib")\nsetenv("BY_MODULE", "yes")\n'
    )


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def refused(tree: Path, *names: str) -> StackproofError:
    with pytest.raises(StackproofError) as caught:
        modules.mpi_of(modules.load(names, [f"{tree}/files"]), named_by="it")
    return caught.value


def test_a_module_makes_an_mpi(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOADEDMODULES", "what/was/loaded")
    monkeypatch.setenv("OF_THE_USER", "yes")
    loaded = modules.load(["compiler", "inner/2"], [f"{tree}/files"])
    assert loaded.names == ("compiler/1", "inner/2")
    change = loaded.env.apply({})
    assert change["BY_MODULE"] == "yes"
    assert change["LD_LIBRARY_PATH"] == f"{tree}/mpich/lib"
    assert "OF_THE_USER" not in change
    assert not [name for name in change if "MODULE" in name and name not in {
        "LOADEDMODULES", "BY_MODULE"}]  # fmt: skip
    found = modules.mpi_of(loaded, named_by="it")
    assert (found.family, found.version) == ("mpich", "5.0.2")
    assert found.library == f"{tree}/mpich/lib/libmpi.so.12"
    assert found.prefix == f"{tree}/mpich"


@pytest.mark.battery
def test_what_cannot_be_loaded(tree: Path) -> None:
    assert "there is no module `nope`" in str(refused(tree, "nope"))
    needs = refused(tree, "needs")
    assert "needs another one first: mpich" in str(needs)
    assert "module: [mpich, needs]" in str(needs)
    inner = refused(tree, "inner")
    assert "`inner` needs others first: compiler/1" in str(inner)
    assert "module: [compiler/1, inner]" in str(inner)
    assert "printed an error" in str(refused(tree, "broken"))
    assert "although it exited with 0" in str(refused(tree, "liar", "mpich"))
    assert "`one` was loaded, and one after it took it away" in str(refused(tree, "one", "two"))
    several = refused(tree, "nope", "mpich", "broken")
    assert len(several.problems) == 2
    assert {problem.reason for problem in several.problems} == {Reason.INVALID_VALUE}


@pytest.mark.battery
def test_modules_without_an_mpi_or_with_two(tree: Path) -> None:
    none = refused(tree, "compiler")
    assert none.reason is Reason.NO_MPI
    assert "compiler/1" in str(none)
    two = refused(tree, "mpich", "ompi")
    assert two.reason is Reason.INVALID_VALUE
    assert f"{tree}/ompi/bin and {tree}/mpich/bin" in str(two)
    mixed = refused(tree, "mpich", "mixed")
    assert mixed.reason is Reason.WRONG_MPI
    assert f"{tree}/ompi/lib/libmpi.so.12" in str(mixed)


def test_a_shell_that_does_not_come_to_its_end(tree: Path) -> None:
    error = refused(tree, "mpich", "ends")
    assert error.reason is Reason.INVALID_VALUE
    assert "did not come to its end" in str(error)


def test_a_machine_without_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modules, "_STARTS", ())
    monkeypatch.setenv("HOME", str(tmp_path))
    bare = tmp_path / "bin"
    bare.mkdir()
    # A login shell reads what the machine has; here that is nothing.
    (bare / "bash").write_text('#!/bin/sh\nshift\nexec /bin/bash --noprofile --norc "$@"\n')
    (bare / "bash").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bare}:/usr/bin:/bin")
    error = refusal(modules.load, ["mpich"])
    assert error.reason is Reason.TOOL_MISSING
    assert "prefix: DIR" in str(error)
