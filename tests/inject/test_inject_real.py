"""Judgements on compiled programs and MPIs, and what happens when their advice is followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from elflab import run
from injectlab import (
    MPICH,
    USES_MPICH,
    WORLD,
    causes,
    found_in,
    judged,
    links_made,
    mpich,
    openmpi,
    rpath_of,
    uses_mpich,
    uses_openmpi,
)
from stackproof import cli
from stackproof.core.value import replace
from stackproof.inject.cli.words import words_of
from stackproof.inject.model import Cause, InjectionVerdict
from stackproof.inject.replacement import find_replacement
from stackproof.linking.effects.view import RootView, this_machine
from stackproof.linking.loader import Machine

COVERS = (
    "inject/findings/constants.py",
    "inject/findings/libraries.py",
    "inject/findings/symbols.py",
)


def with_pal(lab, folder, *, inner="libopen-pal.so.40", **more):
    """Compile an Open MPI with its inner library."""
    lab.library(f"{folder}/lib/{inner}", defines=["opal_init"])
    flags = ["-Wl,--enable-new-dtags,-rpath,$ORIGIN"]
    return openmpi(lab, folder, needs=[f"{folder}/lib/{inner}"], flags=flags, **more)


def for_mpich(lab, **more):
    mpich(lab, "old")
    return uses_mpich(lab, **{"flags": (), **more})


def for_openmpi(lab, *needs, **more):
    with_pal(lab, "old")
    return uses_openmpi(lab, needs=["old/lib/libmpi.so.40", *needs], **more)


def answers(lab, found, program):
    """Do what a judgement says, and return who answered."""
    return run(program, env=links_made(lab, found)).answers


def test_works(lab):
    program = for_mpich(lab)
    mpich(lab, "new")
    found = judged(lab, program, "new")
    assert (found.verdict, found.abi, found.family) == (InjectionVerdict.WORKS, "mpich", "mpich")
    assert found.environment == {"LD_LIBRARY_PATH": lab.path("new/lib")}
    assert answers(lab, found, program) == {"MPI_Init": "new/lib/libmpi.so.12"}


def test_another_name(lab):
    program = for_mpich(lab)
    mpich(lab, "new", name="libmpich.so.12")
    found = judged(lab, program, "new")
    assert (found.verdict, causes(found)) == (InjectionVerdict.STEPS, {Cause.ALIAS})
    assert answers(lab, found, program) == {"MPI_Init": "new/lib/libmpich.so.12"}


@pytest.mark.parametrize("tags", ["--enable-new-dtags", "--disable-new-dtags"])
@pytest.mark.parametrize("beside", [False, True])
def test_another_name_of_an_mpi_with_inner_libraries(lab, tags, beside):
    """`$ORIGIN` of a link in another folder is that folder: the inner ones are named as well."""
    program = for_mpich(lab)
    lab.library("new/lib/mpich/libfabric.so.1", defines=["fi_getinfo"])
    mpich(lab, "new", name="libmpich.so.12", imports=["fi_getinfo"], needs=["new/lib/mpich/libfabric.so.1"],
          flags=[f"-Wl,{tags},-rpath,$ORIGIN/mpich"])  # fmt: skip
    found = judged(lab, program, "new", beside=beside)
    assert (found.verdict, causes(found)) == (InjectionVerdict.STEPS, {Cause.ALIAS})
    (step,) = found.findings
    folders = found.environment["LD_LIBRARY_PATH"].split(":")
    if beside:
        assert folders == [lab.path("new/lib")]
        assert step.remedy == f"ln -s libmpich.so.12 {lab.path('new/lib/libmpi.so.12')}"
    else:
        assert folders[1:] == [lab.path("new/lib"), lab.path("new/lib/mpich")]
        assert step.remedy.startswith(
            f"ln -s {lab.path('new/lib/libmpich.so.12')} DIR/libmpi.so.12"
        )
    assert answers(lab, found, program) == {"MPI_Init": "new/lib/libmpich.so.12"}


def test_the_first_main_library_is_compared(lab):
    """MPICH 5 has a library of the standard ABI as well, which is no reason by itself."""
    program = for_openmpi(lab)
    mpich(lab, "new")
    lab.library("new/lib/libmpi_abi.so.1", defines=["MPI_Init", "MPI_Abi_get_version"])
    found = judged(lab, program, "new")
    assert (found.verdict, found.family) == (InjectionVerdict.FAILS, "mpich")
    assert found.findings[0].provider == lab.path("new/lib/libmpi.so.12")


def test_no_finding_names_a_link_that_is_not_made(lab):
    program = for_mpich(lab)
    mpich(lab, "new", name="libmpich.so.12", needs=["gone/libgone.so.1"]
          if lab.library("gone/libgone.so.1") else [])  # fmt: skip
    os.remove(lab.path("gone/libgone.so.1"))
    found = judged(lab, program, "new")
    assert found.verdict is InjectionVerdict.FAILS
    texts = [(one.file, one.provider, one.message, one.remedy) for one in found.findings]
    assert "/run/stackproof-aliases" not in repr(texts)
    assert lab.path("new/lib/libmpich.so.12") in {one.file for one in found.findings}


def test_rpath_of_the_program(lab):
    program = for_mpich(lab, flags=rpath_of(lab, "old/lib"))
    mpich(lab, "new")
    stays = run(program, env={"LD_LIBRARY_PATH": lab.path("new/lib")})
    assert stays.answers == {"MPI_Init": "old/lib/libmpi.so.12"}
    found = judged(lab, program, "new")
    assert (found.verdict, causes(found)) == (InjectionVerdict.STEPS, {Cause.PRELOAD})
    assert answers(lab, found, program) == {"MPI_Init": "new/lib/libmpi.so.12"}


def test_rpath_of_the_program_and_another_name(lab):
    """LD_PRELOAD answers to a SONAME only, so that nothing but a new DT_RPATH is left."""
    program = for_mpich(lab, flags=rpath_of(lab, "old/lib"))
    mpich(lab, "new", name="libmpich.so.12")
    found = judged(lab, program, "new")
    assert (found.verdict, causes(found)) == (InjectionVerdict.STEPS, {Cause.RPATH, Cause.ALIAS})


@pytest.mark.parametrize("direction", ["openmpi-to-mpich", "mpich-to-openmpi"])
def test_another_abi_under_the_right_name(lab, direction):
    """Every symbol resolves, the program even starts, and still it is refused."""
    if direction == "openmpi-to-mpich":
        program, name, inside, data = for_mpich(lab), "libmpi.so.12", [], WORLD
    else:
        program, name, inside, data = for_openmpi(lab), "libmpi.so.40", MPICH[3:], []
    defines = [*MPICH[:3], *inside, "ompi_init"]
    lab.library(f"new/lib/{name}", defines=defines, data=data)
    found = judged(lab, program, "new")
    assert found.verdict is InjectionVerdict.FAILS
    assert Cause.OTHER_ABI in causes(found)


def test_parts_of_two_releases(lab):
    """Open MPI 5's libmpi under the Fortran library of 4: two libopen-pal in one process."""
    with_pal(lab, "old")
    lab.library(
        "old/lib/libmpi_mpifh.so.40",
        defines=["mpi_init_"],
        needs=["old/lib/libopen-pal.so.40"],
        flags=["-Wl,--enable-new-dtags,-rpath,$ORIGIN"],
    )
    program = for_openmpi(lab, "old/lib/libmpi_mpifh.so.40", calls=["MPI_Init", "mpi_init_"])
    with_pal(lab, "new", inner="libopen-pal.so.80")
    found = judged(lab, program, "new")
    assert found.verdict is InjectionVerdict.FAILS
    assert {Cause.PARTIAL, Cause.TWO_VERSIONS} <= causes(found)
    real = run(program, env={"LD_LIBRARY_PATH": lab.path("new/lib")})
    opal = [path for path in real.loaded if "open-pal" in path]
    assert opal == [lab.path("new/lib/libopen-pal.so.80"), lab.path("old/lib/libopen-pal.so.40")]


@pytest.mark.battery
@pytest.mark.parametrize("calls", [["MPI_Init"], ["MPI_Init", "mpi_allreduce_f08_"]])
def test_a_symbol_that_is_gone(lab, calls):
    """The same SONAME without a Fortran 2008 procedure: fatal only for who calls it."""
    with_pal(lab, "old", defines=["mpi_allreduce_f08_"])
    program = uses_openmpi(lab, calls)
    with_pal(lab, "new")
    found = judged(lab, program, "new")
    real = run(program, env=dict(found.environment))
    assert (found.verdict is InjectionVerdict.FAILS) == (not real.done)
    assert (Cause.SYMBOL_MISSING in causes(found)) == (len(calls) == 2)
    if len(calls) == 2:
        finding = next(f for f in found.findings if f.cause is Cause.SYMBOL_MISSING)
        assert finding.symbols == ("mpi_allreduce_f08_",)
        assert "undefined symbol: mpi_allreduce_f08_" in real.error


FABRIC_NEW = (
    "FABRIC_1.6 { global: fi_open; local: *; }; FABRIC_1.7 { global: fi_more; } FABRIC_1.6;"
)
FABRIC_OLD = "FABRIC_1.6 { global: fi_open; local: *; };"


@pytest.mark.parametrize("release", ["old", "new"])
def test_only_the_fabric_is_replaced(lab, release):
    script, defines = (
        (FABRIC_OLD, ["fi_open"]) if release == "old" else (FABRIC_NEW, ["fi_open", "fi_more"])
    )
    lab.library("old/lib/libfabric.so.1", defines=["fi_open", "fi_more"], script=FABRIC_NEW)
    mpich(
        lab,
        "old",
        needs=["old/lib/libfabric.so.1"],
        imports=["fi_more"],
        flags=["-Wl,--enable-new-dtags,-rpath,$ORIGIN"],
    )
    program = uses_mpich(lab)
    lab.library("new/lib/libfabric.so.1", defines=defines, script=script)
    found = judged(lab, program, "new")
    real = run(program, env=dict(found.environment))
    assert (found.verdict is InjectionVerdict.WORKS) == real.done
    assert real.done == (release == "new")
    if release == "old":
        finding = found.findings[0]
        assert (finding.cause, finding.version) == (Cause.VERSION_MISSING, "FABRIC_1.7")
        assert "libfabric 1.20" in finding.message
        assert "version `FABRIC_1.7' not found" in real.error


def test_what_the_mpi_needs_is_missing(lab):
    program = for_mpich(lab)
    lab.library("gone/libinner.so.1", defines=["inner"])
    mpich(lab, "new", needs=["gone/libinner.so.1"])
    os.unlink(lab.path("gone/libinner.so.1"))
    found = judged(lab, program, "new")
    assert (found.verdict, causes(found)) == (InjectionVerdict.FAILS, {Cause.LIBRARY_MISSING})
    assert not run(program, env=links_made(lab, found)).started


def test_the_folder_that_the_program_has_now_comes_before_a_runpath(lab):
    """With another libfabric in its LD_LIBRARY_PATH, the MPI's own folder must be named too."""
    lab.library("new/lib/mpich/libfabric.so.1", defines=["fi_open", "fi_more"], script=FABRIC_NEW)
    mpich(
        lab,
        "new",
        needs=["new/lib/mpich/libfabric.so.1"],
        imports=["fi_more"],
        flags=["-Wl,--enable-new-dtags,-rpath,$ORIGIN/mpich"],
    )
    lab.library("site/libfabric.so.1", defines=["fi_open"], script=FABRIC_OLD)
    program = for_mpich(lab)
    found = judged(lab, program, "new", library_path=[lab.path("site")])
    assert (found.verdict, found.way.name) == (InjectionVerdict.WORKS, "library-path-all")
    assert run(program, env=links_made(lab, found)).done


def test_mpi_linked_into_the_program(lab):
    mpich(lab, "new")
    text = 'const char *MPI_Init(void) { return "own"; }\n' + USES_MPICH.replace("MPI_Recv", "own")
    program = lab.program(
        declarations=text.replace("void own(int);", "void own(int a) { (void)a; }")
    )
    found = judged(lab, program, "new")
    assert (found.verdict, causes(found)) == (InjectionVerdict.FAILS, {Cause.STATIC})
    static = lab.program("bin/static", flags=["-static"])
    assert causes(judged(lab, static, "new")) == {Cause.STATIC}
    for one in (found, judged(lab, static, "new")):
        assert words_of(one) == "its MPI cannot be exchanged"
    missing = replace(found.findings[0], cause=Cause.LIBRARY_MISSING)
    assert words_of(replace(found, findings=(*found.findings, missing))) == "fails"


@pytest.mark.parametrize(
    ("calls", "shown"),
    [
        (["MPI_Init"], ()),
        (["MPI_Init", "MPI_Open_port", "PMPI_Comm_accept"], ("MPI_Comm_accept", "MPI_Open_port")),
        (["MPI_Init", "MPI_Comm_spawn"], ("MPI_Comm_spawn",)),
    ],
)
def test_calls_that_no_file_decides(lab, calls, shown):
    mpich(lab, "new", defines=["MPI_Open_port", "PMPI_Comm_accept", "MPI_Comm_spawn"])
    program = uses_mpich(lab, calls, own="new/lib", flags=())
    found = judged(lab, program, "new")
    notes = [one for one in found.findings if one.cause is Cause.NOT_JUDGED]
    assert found.verdict is InjectionVerdict.WORKS
    assert [one.symbols for one in notes] == ([shown] if shown else [])


@pytest.mark.parametrize("words", [(), ("--tree",)])
def test_the_tree_is_shown_where_it_is_asked_for(lab, capsys, words):
    mpich(lab, "new")
    program = uses_mpich(lab, own="new/lib", flags=())
    with pytest.raises(SystemExit) as end:
        cli.main(["inject", "check", program, "--with", lab.path("new"), *words])
    assert not end.value.code
    assert ("libmpi.so.12 =>" in capsys.readouterr().out) is bool(words)


def test_no_mpi_at_all(lab):
    mpich(lab, "new")
    plain = lab.path("plain")
    lab._gcc(lab._source("int main(void) { return 0; }", "c"), plain)
    for program in (plain, lab.path("new/lib/libmpi.so.12")):
        found = judged(lab, program, "new")
        assert (found.verdict, causes(found)) == (InjectionVerdict.FAILS, {Cause.NO_MPI})
    host = judged(
        lab, lab.program(opens=True), "new"
    )  # it calls dlopen, and may open what calls MPI
    assert (host.verdict, causes(host)) == (InjectionVerdict.UNKNOWN, {Cause.HOST})


def test_code_that_does_not_show_its_abi(lab):
    """A program that only asks for `libmpi.so.40` may be anything else than it says."""
    with_pal(lab, "old")
    flags = found_in(lab, "old/lib")
    program = lab.program(needs=["old/lib/libmpi.so.40"], calls=["MPI_Init"], flags=flags)
    with_pal(lab, "new")
    assert judged(lab, program, "new").verdict is InjectionVerdict.WORKS
    mpich(lab, "other")
    os.symlink("libmpi.so.12", lab.path("other/lib/libmpi.so.40"))
    found = judged(lab, program, "other")
    assert found.verdict in {InjectionVerdict.UNKNOWN, InjectionVerdict.FAILS}
    assert Cause.ABI_UNKNOWN in causes(found)


def test_a_copied_variable_of_another_size(lab):
    program = for_openmpi(lab)
    lab.library("new/lib/libopen-pal.so.40", defines=["opal_init"])
    lab.library(
        "new/lib/libmpi.so.40",
        defines=["MPI_Init", "MPI_Send"],
        data=[("ompi_mpi_comm_world", 64)],
        needs=["new/lib/libopen-pal.so.40"],
        flags=["-Wl,-rpath,$ORIGIN"],
    )
    found = judged(lab, program, "new")
    assert (found.verdict, causes(found)) == (InjectionVerdict.FAILS, {Cause.COPY_SIZE})
    real = run(program, env=dict(found.environment))
    assert "has different size in shared object" in real.error


def test_instructions_that_the_processor_lacks(lab):
    if this_machine().architecture != "x86_64":
        pytest.skip("levels are of x86-64")
    program = for_mpich(lab)
    mpich(lab, "new", flags=["-Wl,-z,x86-64-v4"])
    for level, verdict in (
        ("x86-64-v2", InjectionVerdict.FAILS),
        ("x86-64-v4", InjectionVerdict.WORKS),
    ):
        machine = Machine(architecture="x86_64", level=level)
        found = judged(lab, program, "new", machine=machine)
        assert (found.verdict, Cause.INSTRUCTIONS in causes(found)) == (
            verdict,
            verdict is InjectionVerdict.FAILS,
        )


@pytest.mark.parametrize(
    ("family", "launcher", "verdict"),
    [
        ("mpich", "hydra", InjectionVerdict.WORKS),
        ("mpich", "intel-hydra", InjectionVerdict.WORKS),
        ("mpich", "prte", InjectionVerdict.FAILS),
        ("mpich", "srun:pmix", InjectionVerdict.FAILS),
        ("mpich", "srun:pmi2", InjectionVerdict.WORKS),
        ("intel-mpi", "srun:pmi2", InjectionVerdict.STEPS),
        ("mpich", "srun:cray_shasta", InjectionVerdict.UNKNOWN),
        ("mpich", "flux:simple", InjectionVerdict.WORKS),
        ("mpich", "flux:pmix", InjectionVerdict.FAILS),
        ("mpich", "flux:cray-pals", InjectionVerdict.UNKNOWN),
        ("mpich", "pals", InjectionVerdict.UNKNOWN),
        ("openmpi", "pals:pmix", InjectionVerdict.WORKS),
        ("openmpi", "flux:simple", InjectionVerdict.FAILS),
        ("openmpi", "prte", InjectionVerdict.WORKS),
        ("openmpi", "srun:pmix", InjectionVerdict.WORKS),
        ("openmpi", "hydra", InjectionVerdict.FAILS),
    ],
)
def test_launchers(lab, family, launcher, verdict):
    if family in {"mpich", "intel-mpi"}:
        program = for_mpich(lab)
        more = ["I_MPI_PMI_LIBRARY"] if family == "intel-mpi" else []
        mpich(lab, "new", texts=["PMI_FD", "PMI2_Init", *more])
    else:
        program = for_openmpi(lab)
        with_pal(lab, "new")
    found = judged(lab, program, "new", launcher=launcher)
    assert found.verdict is verdict
    assert causes(found) == (set() if verdict is InjectionVerdict.WORKS else {Cause.LAUNCHER})


def test_a_namespace_for_every_rank(lab):
    program = for_mpich(lab)
    mpich(lab, "new", texts=["process_vm_readv"])
    assert judged(lab, program, "new").verdict is InjectionVerdict.WORKS
    found = judged(lab, program, "new", namespaces="per-rank")
    assert (found.verdict, causes(found)) == (InjectionVerdict.STEPS, {Cause.NAMESPACES})


def test_an_open_mpi_that_was_moved(lab):
    program = for_openmpi(lab)
    with_pal(lab, "new")
    lab.library(
        "new/lib/libopen-pal.so.40",
        defines=["opal_init"],
        texts=["/opt/somewhere\\0${exec_prefix}/bin\\0"],
    )
    found = judged(lab, program, "new")
    assert (found.verdict, causes(found)) == (InjectionVerdict.STEPS, {Cause.RELOCATED})
    assert found.environment["OPAL_PREFIX"] == lab.path("new")


def test_plugins_that_cannot_be_opened(lab):
    program = for_mpich(lab)
    mpich(lab, "new")
    lab.library("gone/libinner.so.1", defines=["inner"])
    lab.library("new/lib/libfabric/libgood-fi.so", defines=["fi_init"])
    lab.library("new/lib/libfabric/libbad-fi.so", defines=["fi_init"], needs=["gone/libinner.so.1"])
    os.unlink(lab.path("gone/libinner.so.1"))
    found = judged(lab, program, "new")
    assert (found.verdict, causes(found)) == (InjectionVerdict.WORKS, {Cause.PLUGIN})
    assert "libbad-fi.so" in found.findings[0].message
    assert "libgood-fi.so" not in found.findings[0].message


def test_one_library_of_a_folder(lab):
    program = for_mpich(lab)
    found = judged(lab, program, mpich(lab, "new"))
    assert found.verdict is InjectionVerdict.WORKS
    assert answers(lab, found, program) == {"MPI_Init": "new/lib/libmpi.so.12"}


def test_a_folder_that_the_program_looks_in_first(lab):
    """EESSI's way: the DT_RPATH names a folder that is empty until something is injected."""
    words = f"{lab.path('override/lib')}:{lab.path('old/lib')}"
    program = for_mpich(lab, flags=[f"-Wl,--disable-new-dtags,-rpath,{words}"])
    assert run(program).answers == {"MPI_Init": "old/lib/libmpi.so.12"}
    mpich(lab, "override")
    found = judged(lab, program, "override")
    assert (found.verdict, found.way.name, found.environment) == (
        InjectionVerdict.WORKS,
        "as-is",
        {},
    )
    assert answers(lab, found, program) == {"MPI_Init": "override/lib/libmpi.so.12"}


def test_one_soname_twice(lab):
    """A library that is needed by its path is loaded beside the one of the same SONAME."""
    lab.library("host/libhwloc.so.15", defines=["hwloc_init"], soname="")
    lab.library("own/libhwloc.so.15", defines=["hwloc_init"])
    mpich(lab, "new", needs=["host/libhwloc.so.15"])  # linked by its path, for want of a SONAME
    lab.library("host/libhwloc.so.15", defines=["hwloc_init"], soname="libhwloc.so.15")
    mpich(lab, "old")
    program = uses_mpich(
        lab,
        needs=["own/libhwloc.so.15", "old/lib/libmpi.so.12"],
        flags=[f"-Wl,--enable-new-dtags,-rpath,{lab.path('own')}"],
    )
    found = judged(lab, program, "new")
    assert (found.verdict, causes(found)) == (InjectionVerdict.FAILS, {Cause.TWO_COPIES})
    real = run(program, env=links_made(lab, found))
    hwloc = [path for path in real.loaded if "hwloc" in path]
    assert sorted(hwloc) == [lab.path("host/libhwloc.so.15"), lab.path("own/libhwloc.so.15")]
    lab.library("own/libhwloc.so.15", defines=["hwloc_init"], soname="libhwloc.so.5")
    found = judged(lab, program, "new")
    assert (found.verdict, causes(found)) == (InjectionVerdict.FAILS, {Cause.TWO_VERSIONS})


def test_a_program_with_more_rights_than_its_user(lab):
    """Variables are dropped: only its own DT_RPATH is left."""
    program = for_mpich(lab)
    mpich(lab, "new")
    os.chmod(program, 0o4755)
    found = judged(lab, program, "new")
    assert (found.verdict, causes(found)) == (
        InjectionVerdict.STEPS,
        {Cause.RPATH, Cause.MORE_RIGHTS},
    )
    assert found.environment == {}


def test_a_folder_of_the_system_holds_more_than_an_mpi(lab):
    """With `/usr` as the prefix, the C library does not count as injected."""
    folder = "root/usr/lib/x86_64-linux-gnu"
    for name in ("libmpich.so.12", "libfabric.so.1", "libc.so.6"):
        lab.library(f"{folder}/{name}", defines=MPICH if "mpi" in name else ["f"])
    view = RootView(lab.path("root"))
    places = "/usr/lib/x86_64-linux-gnu"
    for place in ("/usr", places, f"{places}/libmpich.so.12"):
        replacement = find_replacement(view, place)
        assert [main.family.name for main in replacement.mains] == ["mpich"]
        assert replacement.owns(f"{places}/libmpich.so.12")
        assert not replacement.owns(f"{places}/libc.so.6")
        assert not replacement.owns(f"{places}/libfabric.so.1")
        assert replacement.home == "/usr"
    fabric = find_replacement(view, f"{places}/libfabric.so.1")
    assert fabric.owns(f"{places}/libfabric.so.1")
    assert not fabric.owns(f"{places}/libc.so.6")


def test_copies_in_the_place_of_links(lab):
    """A wheel has no links: the library that is loaded is another file than `libmpi.so`."""
    program = for_mpich(lab)
    path = Path(mpich(lab, "new", texts=["PMI_FD"]))
    for name in ("libmpi.so", "libmpi.so.12.0.0"):
        (path.parent / name).write_bytes(path.read_bytes())
    assert judged(lab, program, "new", launcher="hydra").verdict is InjectionVerdict.WORKS


def test_the_tree_names_every_root(lab):
    program = for_mpich(lab)
    lab.library("fabric/lib/libfabric.so.1", defines=["fi_open"])
    mpich(
        lab,
        "new",
        needs=["fabric/lib/libfabric.so.1"],
        flags=[f"-Wl,-rpath,{lab.path('fabric/lib')}"],
    )
    found = judged(lab, program, "new")
    roots = {line.name: line.root for line in found.tree}
    assert roots["libmpi.so.12"] == lab.path("new")
    assert roots["libfabric.so.1"] == lab.path("fabric")
    assert roots["libc.so.6"] == "system"
    depths = [(line.name, line.depth) for line in found.tree]
    assert ("libmpi.so.12", 1) in depths
    assert ("libfabric.so.1", 2) in depths


@pytest.mark.parametrize("how", ["prefix", "library"])
def test_an_mpi_of_unknown_make(lab, how):
    """That every symbol is there says nothing of what handles mean to it."""
    path = lab.library("new/lib/libmpi.so.12", defines=[*MPICH[:3], "MPI_Send", "PMPI_Send"])
    program = for_mpich(lab)
    found = judged(lab, program, lab.path("new") if how == "prefix" else path)
    assert found.verdict is InjectionVerdict.UNKNOWN
    (one,) = [one for one in found.findings if one.cause is Cause.ABI_UNKNOWN]
    assert one.file.endswith("libmpi.so.12")
    assert "MPII_" in one.message


@pytest.mark.parametrize("folders", [("own/lib",), ()])
def test_its_own_libfabric_comes_first(lab, folders):
    """An injected MPI keeps what it was made with, whatever the program's own path has."""
    for folder in ("own/lib", "new/lib/inner"):
        lab.library(f"{folder}/libfabric.so.1", defines=["fi_getinfo"])
    mpich(lab, "own", needs=["own/lib/libfabric.so.1"])
    flags = ["-Wl,--enable-new-dtags,-rpath,$ORIGIN/inner"]
    mpich(lab, "new", needs=["new/lib/inner/libfabric.so.1"], flags=flags)
    program = uses_mpich(lab, own="own/lib", flags=())
    path = tuple(map(lab.path, folders))
    found = judged(lab, program, "new", library_path=path)
    assert found.verdict is InjectionVerdict.WORKS
    assert len(found.way.library_path) == 1 + len(folders)
    loaded = run(program, env=dict(found.environment)).loaded
    assert lab.path("new/lib/inner/libfabric.so.1") in loaded
    assert lab.path("own/lib/libfabric.so.1") not in loaded
