"""What a prediction must not overlook: which MPI is bound, who opens what later, what is meant.

Every case is compiled, and where a program can be run the prediction is held against what it does.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from elflab import Lab, run
from injectlab import (
    MPICH,
    USES_MPICH,
    USES_OPENMPI,
    causes,
    found_in,
    judged,
    links_made,
    mpich,
    openmpi,
    root_of,
    uses_mpich,
    uses_openmpi,
)
from need import need
from stackproof import cli
from stackproof.core.value import replace
from stackproof.inject.job import reasons_against
from stackproof.inject.model import Cause, Effect, InjectionVerdict, Judgement
from stackproof.linking.effects.view import RootView
from stackproof.mpi import abi

COVERS = ("inject/findings/abi.py", "inject/findings/opening.py", "inject/program.py")


def test_a_fortran_library_that_asks_for_the_main_one(lab):
    """Only the Fortran library names `libmpich.so.12`: it stays, and the MPI below is replaced."""
    mpich(lab, "old", "libmpich.so.12")
    lab.library(
        "old/lib/libmpichfort.so.12", defines=["mpi_init_"], needs=["old/lib/libmpich.so.12"],
        imports=["MPI_Init"], flags=found_in(lab, "old/lib"),
    )  # fmt: skip
    program = lab.program(
        needs=["old/lib/libmpichfort.so.12"], calls=["mpi_init_", "via_MPI_Init"],
        declarations="extern int mpipriv1_[4]; int mpipriv1_[4];\n", flags=found_in(lab, "old/lib"),
    )  # fmt: skip
    mpich(lab, "new")
    lab.library("new/lib/libucp.so.0", defines=["ucp_init"])
    found = judged(lab, program, "new")
    assert found.verdict is InjectionVerdict.STEPS
    assert causes(found, Effect.STEP) == {Cause.ALIAS}
    assert run(program).answers["via_MPI_Init"] == "old/lib/libmpich.so.12"
    real = run(program, env=links_made(lab, found))
    assert real.answers["via_MPI_Init"] == "new/lib/libmpi.so.12"
    openmpi(lab, "else")
    other = judged(lab, program, "else")
    assert (other.verdict, Cause.NOT_INJECTED in causes(other)) == (InjectionVerdict.FAILS, True)
    real = run(program, env={"LD_LIBRARY_PATH": lab.path("else/lib")})
    assert real.answers["via_MPI_Init"] == "old/lib/libmpich.so.12"


@pytest.mark.parametrize(
    ("calls", "lacks", "verdict"),
    [
        ("mpi_init_", "MPI_Session_init", InjectionVerdict.STEPS),
        ("mpi_init_", "PMPIX_Delete_error_class", InjectionVerdict.STEPS),
        ("mpi_session_init_", "MPI_Session_init", InjectionVerdict.UNKNOWN),
        ("mpi_init_", "MPI_File_f2c", InjectionVerdict.UNKNOWN),
        ("mpi_bcast_f08ts_", "MPI_Session_init", InjectionVerdict.UNKNOWN),
        ("mpi_init_", "MPIR_Inside", InjectionVerdict.UNKNOWN),
    ],
)
def test_a_fortran_library_that_stays_and_calls_what_the_new_mpi_lacks(lab, calls, lacks, verdict):
    """It is never called for what the program does not ask of it, and each asks for its like."""
    mpich(lab, "old", "libmpich.so.12", defines=[lacks])
    procedures = ["mpi_init_", "mpi_session_init_", "mpi_bcast_f08ts_"]
    lab.library(
        "old/lib/libmpichfort.so.12", defines=procedures, needs=["old/lib/libmpich.so.12"],
        imports=["MPI_Init", lacks], flags=found_in(lab, "old/lib"),
    )  # fmt: skip
    program = lab.program(
        needs=["old/lib/libmpichfort.so.12"], calls=[calls, "via_MPI_Init"],
        declarations="extern int mpipriv1_[4]; int mpipriv1_[4];\n", flags=found_in(lab, "old/lib"),
    )  # fmt: skip
    mpich(lab, "new")
    found = judged(lab, program, "new")
    assert (found.verdict, Cause.SYMBOL_MISSING in causes(found)) == (verdict, True)
    real = run(program, env=links_made(lab, found))
    assert real.answers["via_MPI_Init"] == "new/lib/libmpi.so.12"


STANDARD = [
    "MPI_Init", "PMPI_Init", "MPI_Abi_get_version", "MPI_File_seek", "MPI_Recv",
    "MPI_Comm_set_errhandler", "MPI_Session_init", "MPI_Comm_get_attr",
]  # fmt: skip


def standard(lab, folder, release):
    return lab.library(f"{folder}/lib/libmpi_abi.so.1", defines=STANDARD, texts=[f'\\0""{release}'])


@pytest.mark.parametrize(
    ("own", "new", "calls", "verdict"),
    [
        ("5.0.2", "2021.18.1", "MPI_File_seek(0, 0, 401)", InjectionVerdict.FAILS),
        ("2021.19.0", "5.0.2", "MPI_File_seek(0, 0, 401)", InjectionVerdict.FAILS),
        ("2021.19.0", "2021.18.1", "MPI_File_seek(0, 0, 401)", InjectionVerdict.WORKS),
        ("5.0.1", "5.0.2", "MPI_File_seek(0, 0, 401)", InjectionVerdict.WORKS),
        ("5.0.2", "2021.18.1", "MPI_Comm_set_errhandler(0, 0x143)", InjectionVerdict.FAILS),
        ("2021.18.1", "5.0.2", "MPI_Session_init(0, 0x142)", InjectionVerdict.FAILS),
        ("2021.19.0", "5.0.2", "MPI_Comm_get_attr(0, 506)", InjectionVerdict.FAILS),
        ("2021.19.0", "2021.18.1", "MPI_Comm_get_attr(0, 506)", InjectionVerdict.WORKS),
        ("5.0.2", "2021.18.1", "MPI_Comm_get_attr(0, 401)", InjectionVerdict.WORKS),
        ("5.0.2", "2021.18.1", "MPI_Recv(401)", InjectionVerdict.WORKS),
        ("5.0.2", "2021.18.1", "MPI_File_seek(0, 0, 7)", InjectionVerdict.WORKS),
        ("5.0.2", "6.1.0", "MPI_File_seek(0, 0, 401)", InjectionVerdict.UNKNOWN),
        ("6.1.0", "6.1.0", "MPI_File_seek(0, 0, 401)", InjectionVerdict.WORKS),
    ],
)
def test_constants_of_the_standard_abi(lab, own, new, calls, verdict):
    """Every symbol resolves, and `MPI_SEEK_SET` of one library is `MPI_SEEK_END` of another."""
    standard(lab, "own", own)
    standard(lab, "new", new)
    name = calls.partition("(")[0]
    program = lab.program(
        needs=["own/lib/libmpi_abi.so.1"], calls=["MPI_Init"],
        declarations=f"void {name}(); void use(void) {{ {calls}; }}\n",
        flags=found_in(lab, "own/lib"),
    )  # fmt: skip
    found = judged(lab, program, "new")
    assert found.verdict is verdict
    assert (Cause.CONSTANTS in causes(found)) == (verdict is not InjectionVerdict.WORKS)


MODULE = "const char *PyModule_New(void); const char *make(void) { return PyModule_New(); }\n"


@pytest.mark.parametrize("asks", ["finds-it", "finds-none", ""])
def test_a_module_of_an_interpreter(lab, asks):
    """Its host defines `Py…`, and may have opened the MPI for it: both are not its own fault."""
    old = mpich(lab, "old")
    mpich(lab, "new")
    source = lab._source(
        MODULE + USES_MPICH + "const char *MPI_Init(void); "
        "const char *start(void) { return MPI_Init(); }\n", "c",
    )  # fmt: skip
    module = lab.path("module.so")
    linked = [old] if asks else []
    linked += found_in(lab, "old/lib") if asks == "finds-it" else []
    lab._gcc("-shared", "-fPIC", source, *linked, module)
    found = judged(lab, module, "new")
    linked = bool(found.way.links)  # for hosts that ask for another MPI of this system
    assert found.verdict is (InjectionVerdict.STEPS if linked else InjectionVerdict.WORKS)
    assert not (asks and linked)
    assert Cause.HOST in causes(found, Effect.NOTE)
    host = lab.path("host")
    text = """
    #include <dlfcn.h>
    #include <stdio.h>
    const char *PyModule_New(void) { return "host"; }
    int main(int count, char **words) {
        if (count > 2) dlopen(words[2], RTLD_NOW | RTLD_GLOBAL);
        void *module = dlopen(words[1], RTLD_NOW);
        const char *(*start)(void) = module ? dlsym(module, "start") : 0;
        printf("%s", start ? start() : dlerror());
        return !start;
    }
    """
    lab._gcc("-rdynamic", lab._source(text, "c"), host)
    done = subprocess.run(
        [host, module, *([] if asks else ["libmpi.so.12"])], env=dict(found.environment),
        capture_output=True, text=True, timeout=600, check=True,
    )  # fmt: skip
    assert done.stdout == "new/lib/libmpi.so.12"
    told = judged(lab, host, "new")
    assert (told.verdict, causes(told)) == (InjectionVerdict.UNKNOWN, {Cause.HOST})


@pytest.mark.parametrize("name", ["libmpich.so.12", "libmpi_cray.so.12", "libmpi.so.12"])
def test_a_module_whose_host_asks_for_an_mpi_of_the_system(lab, name):
    """The module names none: every name that the system has of its ABI must lead to the new one."""
    old = mpich(lab, "old", name)
    lab.library("new/inner/libbelow.so.1", defines=["below"])
    mpich(
        lab, "new", imports=["below"], needs=["new/inner/libbelow.so.1"],
        flags=["-Wl,--enable-new-dtags,-rpath,$ORIGIN/../inner"],
    )  # fmt: skip
    source = (
        USES_MPICH + "const char *MPI_Init(void); const char *start(void) { return MPI_Init(); }"
    )
    module = lab.path("module.so")
    lab._gcc("-shared", "-fPIC", lab._source(source, "c"), module)
    host = lab.path("host")
    text = """
    #include <dlfcn.h>
    #include <stdio.h>
    int main(int count, char **words) {
        const char *(*start)(void) = dlsym(dlopen(words[1], RTLD_NOW), "start");
        return puts(start()) < 0;
    }
    """
    lab._gcc("-Wl,--no-as-needed", lab._source(text, "c"), old, host)
    found = judged(lab, module, "new", library_path=(lab.path("old/lib"),))
    assert (name in map(os.path.basename, found.way.links)) is (name != "libmpi.so.12")
    done = subprocess.run(
        [host, module], env=links_made(lab, found), capture_output=True, text=True, timeout=600,
        check=True,
    )  # fmt: skip
    assert done.stdout == "new/lib/libmpi.so.12\n"


def test_a_module_and_an_mpi_that_lacks_what_it_calls(lab):
    mpich(lab, "old", defines=["MPI_Session_init"])
    mpich(lab, "new")
    module = lab.library(
        "module.so",
        imports=["MPI_Session_init", "MPII_Win_get_attr"],
        needs=["old/lib/libmpi.so.12"],
    )
    assert judged(lab, module, "new").verdict is InjectionVerdict.FAILS


@pytest.mark.parametrize("how", ["by-name", "plug-in"])
def test_a_libfabric_that_is_opened_later(lab, how):
    lab.library("fabric/lib/libfabric.so.1", defines=["fi_open"])
    if how == "by-name":
        mpich(lab, "old", texts=["libfabric.so.1"])
    else:
        mpich(lab, "old")
        lab.library(
            "old/lib/openmpi/mca_mtl_ofi.so",
            imports=["fi_open"],
            needs=["fabric/lib/libfabric.so.1"],
        )
    program = uses_mpich(lab)
    found = judged(lab, program, "fabric")
    assert (found.verdict, causes(found)) == (InjectionVerdict.WORKS, {Cause.OPENED_LATER})
    opener = lab.program(
        "bin/opener", needs=["old/lib/libmpi.so.12"], calls=["MPI_Init"],
        flags=found_in(lab, "old/lib"), opens=True,
    )  # fmt: skip
    real = run(opener, "libfabric.so.1", env=dict(found.environment))
    assert real.opened == (True,)
    lab.library("else/lib/libother.so.1", defines=["other"])
    other = judged(lab, program, "else")
    assert (other.verdict, causes(other)) == (InjectionVerdict.FAILS, {Cause.NOT_INJECTED})


@pytest.mark.parametrize("how", ["opened", "linked"])
def test_the_mpi_of_the_system_itself(lab, how):
    """`/lib` leads to `/usr/lib`, where libc lies too; parts have names with three numbers there."""
    inner = lab.library("usr/lib/libopen-pal.so.40", defines=["opal_init"])
    openmpi(lab, "usr", needs=["usr/lib/libopen-pal.so.40"])
    linked = {"needs": ["usr/lib/libmpi.so.40"], "calls": ["MPI_Init"]} if how == "linked" else {}
    opens = 'const char *opened = "libmpi.so.40";\n' if how == "opened" else USES_OPENMPI
    folder = "usr/lib/x86_64-linux-gnu"
    program = lab.program(
        declarations=opens, flags=[f"-Wl,-rpath,/{folder}"], opens=not linked, **linked
    )
    root = Path(root_of(lab))
    (root / folder).mkdir(parents=True, exist_ok=True)
    if (root / "lib").is_dir():
        shutil.copytree(root / "lib", root / "usr" / "lib", dirs_exist_ok=True)
        shutil.rmtree(root / "lib")
    (root / "lib").symlink_to("usr/lib")
    shutil.copy(inner, root / folder / "libopen-pal.so.40.30.2")
    (root / folder / "libopen-pal.so.40").symlink_to("libopen-pal.so.40.30.2")
    shutil.copy(lab.path("usr/lib/libmpi.so.40"), root / folder)
    shutil.copy(program, root / "program")
    found = judged(lab, "/program", "/usr", RootView(str(root)))
    assert not {Cause.NOT_INJECTED, Cause.PARTIAL} & causes(found)
    assert (Cause.OPENED_LATER in causes(found)) is (how == "opened")


OPENS = """
#include <dlfcn.h>
#include <stdio.h>
int main(void) {
    const char *names[] = {NAMES};
    for (unsigned at = 0; at < sizeof names / sizeof *names; at++) {
        void *mpi = dlopen(names[at], RTLD_NOW);
        const char *(*start)(void) = mpi ? dlsym(mpi, "MPI_Init") : 0;
        if (start) return puts(start()) < 0;
    }
    return 3;
}
"""


@pytest.mark.parametrize(
    ("names", "verdict"),
    [
        (["libmpi.so.12"], InjectionVerdict.WORKS),
        (["libmpich.so.12"], InjectionVerdict.STEPS),
        (["libmpi.so"], InjectionVerdict.WORKS),
        (["libmpich.so"], InjectionVerdict.STEPS),
        (["libmpich.so.12", "libmpich.so"], InjectionVerdict.STEPS),
        (["OLD/libmpi.so.12", "libmpi.so.12"], InjectionVerdict.UNKNOWN),
        (["libmpi.so.40"], InjectionVerdict.FAILS),
        (["OLD/libmpi.so.12"], InjectionVerdict.FAILS),
        (["NEW/libmpi.so.12"], InjectionVerdict.WORKS),
        (["OLD/libmpi.so.12", "OLD/libmpich.so.12"], InjectionVerdict.UNKNOWN),
    ],
    ids=" ".join,
)
def test_a_program_that_opens_an_mpi_itself(lab, names, verdict):
    """What becomes of the names that stand in it; a link has other folders beside it."""
    for name in ("libmpi.so.12", "libmpich.so.12", "libmpi.so", "libmpich.so"):
        mpich(lab, "old", name)
    lab.library("new/inner/libbelow.so.1", defines=["below"])
    new = mpich(
        lab, "new", imports=["below"], needs=["new/inner/libbelow.so.1"],
        flags=["-Wl,--enable-new-dtags,-rpath,$ORIGIN/../inner"],
    )  # fmt: skip
    shutil.copy(new, lab.path("new/lib/libmpi.so"))
    Path(lab.path("new/lib/libmpich.so")).write_text("INPUT(libmpi.so.12)\n")
    folders = {"OLD": lab.path("old/lib"), "NEW": lab.path("new/lib")}
    paths = [name.replace(name[:3], folders.get(name[:3], name[:3])) for name in names]
    listed = ",".join(f'"{path}"' for path in paths)
    program = lab.path("program")
    source = lab._source(OPENS.replace("NAMES", listed), "c")
    lab._gcc("-O0", source, *found_in(lab, "old/lib"), program)
    found = judged(lab, program, "new")
    assert found.verdict is verdict
    done = subprocess.run(
        [program], env=links_made(lab, found), capture_output=True, text=True, timeout=600,
        check=False,
    )  # fmt: skip
    works = verdict in {InjectionVerdict.WORKS, InjectionVerdict.STEPS}
    assert (done.stdout == "new/lib/libmpi.so.12\n") is works


LINKED = """
#include <stdio.h>
const char *MPI_Init(void);
void MPI_Comm_size(int);
volatile int never;
int main(void) { return puts(MPI_Init()) < 0 || (never && (MPI_Comm_size(0), 1)); }
"""


@pytest.mark.parametrize("how", ["", "--enable-new-dtags", "--disable-new-dtags"])
@pytest.mark.parametrize("name", ["libmpi.so", "libmpich.so"])
def test_a_name_that_leads_to_a_text_of_the_linker(lab, name, how):
    """A wheel has one beside its library: a link comes before it, or a changed DT_RPATH."""
    lab.library("new/inner/libbelow.so.1", defines=["below"])
    mpich(
        lab, "new", imports=["below"], needs=["new/inner/libbelow.so.1"],
        defines=["MPI_Comm_size"], flags=["-Wl,--enable-new-dtags,-rpath,$ORIGIN/../inner"],
    )  # fmt: skip
    mpich(lab, "built", name, defines=["MPI_Comm_size"])
    Path(lab.path(f"new/lib/{name}")).write_text("INPUT(libmpi.so.12)\n")
    program = lab.path("program")
    flags = [f"-Wl,{how},-rpath,{lab.path('new/lib')}"] if how else []
    lab._gcc(lab._source(LINKED, "c"), lab.path(f"built/lib/{name}"), *flags, program)
    found = judged(lab, program, "new")
    assert found.verdict is InjectionVerdict.STEPS
    assert Cause.ALIAS in causes(found)
    environment = links_made(lab, found)
    if found.way.rpath:
        need("patchelf")
        rpath = ":".join(found.way.rpath).replace("/run/stackproof-aliases", lab.path("aliases"))
        subprocess.run(["patchelf", "--force-rpath", "--set-rpath", rpath, program], check=True)
    real = subprocess.run([program], env=environment, capture_output=True, text=True, check=False)
    assert real.stdout == "new/lib/libmpi.so.12\n"


@pytest.mark.parametrize(
    ("launcher", "family"),
    [("", "mpich"), ("hydra", "mpich"), ("orterun", "openmpi"), ("srun:cray_shasta", "mpich")],
)
def test_a_place_with_two_mpis(lab, launcher, family):
    """Of a program without an ABI of its own, the launcher says which of them is meant."""
    mpich(lab, "both")
    openmpi(lab, "both")
    found = judged(lab, lab.program(calls=[]), "both", launcher=launcher)
    assert found.family == family or not launcher


def test_a_program_that_opens_an_mpi_of_another_abi(lab):
    """A plain name promises nothing: it is of the ABI of what the name leads to now."""
    mpich(lab, "new", "libmpi.so")
    openmpi(lab, "old")
    shutil.copy(lab.path("old/lib/libmpi.so.40"), lab.path("old/lib/libmpi.so"))
    program = lab.path("program")
    source = lab._source(OPENS.replace("NAMES", '"libmpi.so"'), "c")
    lab._gcc(source, *found_in(lab, "old/lib"), program)
    found = judged(lab, program, "new")
    assert (found.verdict, causes(found)) == (InjectionVerdict.UNKNOWN, {Cause.HOST})


@pytest.mark.parametrize(
    ("asks", "verdict"), [(False, InjectionVerdict.FAILS), (True, InjectionVerdict.UNKNOWN)],
    ids=["calls-it", "asks-first"],
)  # fmt: skip
def test_what_the_mpi_at_hand_lacks_too(lab, asks, verdict):
    """That the MPI which is found now has no such function either does not make it work."""
    openmpi(lab, "built", defines=["MPI_Session_init", "MPI_Get_version"])
    openmpi(lab, "found", defines=["MPI_Get_version"])
    openmpi(lab, "new", defines=["MPI_Get_version"])
    calls = ["MPI_Session_init", *(["MPI_Get_version"] if asks else [])]
    program = uses_openmpi(lab, calls, own="built/lib", flags=found_in(lab, "found/lib"))
    found = judged(lab, program, "new")
    assert found.verdict is verdict
    real = run(program, env=dict(found.environment))
    assert "undefined symbol: MPI_Session_init" in real.error


TOOL = "const char *PMPI_Init(void); const char *MPI_Init(void) { return PMPI_Init(); }\n"


def test_a_tool_that_is_linked_into_the_program(lab):
    """It defines MPI_Init and has a copy of a handle, and is no MPI."""
    openmpi(lab, "old")
    openmpi(lab, "new")
    program = lab.program(
        needs=["old/lib/libmpi.so.40"], declarations=TOOL + USES_OPENMPI, calls=["MPI_Init"],
        flags=[*found_in(lab, "old/lib"), "-rdynamic"],
    )  # fmt: skip
    found = judged(lab, program, "new")
    assert found.verdict is InjectionVerdict.WORKS
    real = run(program, env=dict(found.environment))
    assert real.answers["MPI_Init"] == "new/lib/libmpi.so.40"


@pytest.mark.parametrize("name", ["libmpimid.so", "libmpiP.so.3", "libmpi_mine.so"])
def test_a_users_library_with_mpi_in_its_name(lab, name):
    mpich(lab, "old")
    mpich(lab, "new")
    source = lab._source(USES_MPICH, "c")
    Path(lab.path("mine")).mkdir()
    lab._gcc(
        "-shared", "-fPIC", source, lab.path("old/lib/libmpi.so.12"), *found_in(lab, "old/lib"),
        f"-Wl,-soname,{name}", lab.path(f"mine/{name}"),
    )  # fmt: skip
    program = lab.program(needs=[f"mine/{name}"], flags=found_in(lab, "mine", "old/lib"))
    assert judged(lab, program, "new").verdict is InjectionVerdict.WORKS


def test_a_debuggers_name_is_no_evidence(lab):
    """`MPIR_being_debugged` is of every MPI."""
    openmpi(lab, "old", defines=["MPIR_being_debugged"])
    openmpi(lab, "new", defines=["MPIR_being_debugged"])
    program = uses_openmpi(lab, ["MPI_Init", "MPIR_being_debugged"])
    assert judged(lab, program, "new").verdict is InjectionVerdict.WORKS
    tool = lab.library(
        "tool/libtool.so", imports=["MPIR_being_debugged"], needs=["old/lib/libmpi.so.40"]
    )
    program = uses_openmpi(
        lab,
        ["MPI_Init", "via_MPIR_being_debugged"],
        needs=["old/lib/libmpi.so.40", tool],
        flags=found_in(lab, "old/lib", "tool"),
    )
    assert judged(lab, program, "old").verdict is InjectionVerdict.WORKS
    found = judged(lab, program, "new")
    assert found.verdict is InjectionVerdict.WORKS
    real = run(program, env=dict(found.environment))
    assert real.answers["via_MPIR_being_debugged"] == "new/lib/libmpi.so.40"


def test_a_second_mpi_that_is_only_loaded(lab):
    openmpi(lab, "old")
    mpich(lab, "other")
    openmpi(lab, "new")
    program = uses_openmpi(
        lab,
        needs=["old/lib/libmpi.so.40", "other/lib/libmpi.so.12"],
        flags=found_in(lab, "old/lib", "other/lib"),
    )
    found = judged(lab, program, "new")
    assert found.verdict is InjectionVerdict.WORKS
    assert run(program, env=dict(found.environment)).answers["MPI_Init"] == "new/lib/libmpi.so.40"


@pytest.mark.parametrize("part", ["libopen-rte.so.12", "libmpi_cxx.so.1", "libmpi.so.1"])
def test_a_part_that_newer_open_mpi_lacks(lab, part):
    """It is not said that such a part should be installed, though the program lacked it before."""
    openmpi(lab, "old")
    openmpi(lab, "new", texts=["\\0v5.0.8"])
    lab.library(f"gone/lib/{part}", defines=["old_part"])
    program = uses_openmpi(
        lab, ["old_part", "MPI_Init"], needs=[f"gone/lib/{part}", "old/lib/libmpi.so.40"]
    )
    (missing,) = (
        finding
        for finding in judged(lab, program, "new").findings
        if finding.cause is Cause.LIBRARY_MISSING
    )
    assert missing.provider == part
    assert "link the program again" in missing.remedy
    assert "install" not in missing.remedy


@pytest.mark.parametrize("part", ["libmpi_mpifh.so.40", "libmpi_cxx.so.40"])
@pytest.mark.parametrize(
    ("own", "new", "verdict"),
    [("4.1.4", "4.1.8", InjectionVerdict.WORKS), ("4.0.7", "4.1.8", InjectionVerdict.UNKNOWN)],
)
def test_a_part_that_stays_under_open_mpi(lab, part, own, new, verdict):
    openmpi(lab, "old", texts=[f"\\0v{own}"])
    openmpi(lab, "new", texts=[f"\\0v{new}"])
    lab.library(
        f"old/lib/{part}", defines=["mpi_init_"], needs=["old/lib/libmpi.so.40"],
        imports=["MPI_Init"], flags=found_in(lab, "old/lib"),
    )  # fmt: skip
    program = uses_openmpi(
        lab, ["mpi_init_", "MPI_Init"], needs=[f"old/lib/{part}", "old/lib/libmpi.so.40"]
    )
    found = judged(lab, program, "new")
    assert found.verdict is verdict
    assert Cause.PARTIAL in causes(found)
    relinked = [one for one in found.findings if "link the program again" in one.remedy]
    assert bool(relinked) is (part == "libmpi_cxx.so.40" and verdict is InjectionVerdict.UNKNOWN)


@pytest.mark.parametrize(
    ("texts", "release"),
    [
        (["\\0004.3.2"], "4.3.2"),
        (["\\0v5.0.8"], "5.0.8"),
        (["\\0002021.18.1"], "2021.18.1"),
        # The first of a series has no third number; the other is of a zlib inside.
        (["\\0001.2.13", "\\0002021.13"], "2021.13"),
        (["\\0005.0", "\\000v2021.13"], ""),
    ],
)
def test_the_release_that_an_mpi_names(lab, texts, release):
    mpich(lab, "new", texts=texts)
    view = RootView()
    assert view.traces(view.look(lab.path("new/lib/libmpi.so.12"))).release == release


@pytest.mark.parametrize(
    ("own", "new", "verdict"),
    [
        ("4.0.2", "2021.13", InjectionVerdict.UNKNOWN),
        ("2021.19.0", "4.3.2", InjectionVerdict.UNKNOWN),
        ("2021.18.1", "2021.13", InjectionVerdict.WORKS),
        ("4.0.2", "4.3.2", InjectionVerdict.WORKS),
    ],
)
def test_descriptors_of_fortran_between_intel_s_mpi_and_others(lab, own, new, verdict):
    mpich(lab, "old", defines=["mpi_bcast_f08ts_"], texts=[f"\\000{own}"])
    mpich(lab, "new", defines=["mpi_bcast_f08ts_"], texts=[f"\\000{new}"])
    program = uses_mpich(lab, ["MPI_Init", "mpi_bcast_f08ts_"])
    found = judged(lab, program, "new")
    assert found.verdict is verdict
    assert (Cause.ABI_UNKNOWN in causes(found)) is (verdict is InjectionVerdict.UNKNOWN)


def test_a_program_with_capabilities(lab):
    """The loader drops the variables for it as for a set-user-id program."""
    mpich(lab, "old")
    mpich(lab, "new")
    program = uses_mpich(lab)
    assert judged(lab, program, "new").verdict is InjectionVerdict.WORKS
    # struct vfs_cap_data: version 2, effective, cap_ipc_lock (linux/capability.h).
    content = (0x02000001).to_bytes(4, "little") + (1 << 14).to_bytes(4, "little") + bytes(12)
    try:
        os.setxattr(program, "security.capability", content)
    except OSError:
        pytest.skip("only root may give capabilities, and some file systems have none")
    found = judged(lab, program, "new")
    assert (found.verdict, causes(found)) == (
        InjectionVerdict.STEPS,
        {Cause.RPATH, Cause.MORE_RIGHTS},
    )


def test_an_mpi_inside_whose_name_ends_another(lab):
    """A linker lets `MPI_Init` be the end of `PMPI_Init` in the table of names."""
    mpich(lab, "new")
    text = "int PMPI_Init(void) { return 0; }\nint MPI_Init(void) { return PMPI_Init(); }\n"
    program = lab.path("inside")
    lab._gcc("-O2", lab._source(text + "int main(void) { return MPI_Init(); }\n", "c"), program)
    content = Path(program).read_bytes()
    assert b"\0MPI_Init\0" not in content
    assert b"\0PMPI_Init\0" in content
    assert causes(judged(lab, program, "new")) == {Cause.STATIC}


def test_a_file_for_another_machine_is_of_the_injection(lab):
    """The program's own library is right, the injected one is not: that is new."""
    old = mpich(lab, "old")
    new = Path(mpich(lab, "new"))
    content = bytearray(new.read_bytes())
    content[18] = 183  # e_machine: aarch64
    new.write_bytes(content)
    program = uses_mpich(lab, needs=[old], flags=["-Wl,-z,nodefaultlib"])
    found = judged(lab, program, "new")
    other = [one for one in found.findings if one.cause is Cause.OTHER_MACHINE]
    assert [one.before for one in other] == [False]


def test_a_program_is_no_mpi_for_a_copy_of_a_handle(lab):
    openmpi(lab, "old")
    program = lab.program(
        needs=["old/lib/libmpi.so.40"], declarations=TOOL + USES_OPENMPI, calls=["MPI_Init"],
        flags=["-rdynamic", "-no-pie"],
    )  # fmt: skip
    view = RootView()
    elf = view.elf(view.look(program))
    assert abi.family_of(elf) is None
    assert abi.family_of(replace(elf, imports=(), needed=())) is not None


# --------------------------------------------------------------------------------------------------
# An MPI of another ABI: that is the first sentence, and nothing that would do harm follows.

CALLS = ["MPI_Init", "MPI_Comm_rank"]
HARMFUL = ("LD_PRELOAD", "DT_RPATH", "install it", "find out")


def library(lab: Lab, folder: str = "old") -> None:
    lab.library(f"{folder}/lib/libmpi.so.12", defines=[*MPICH, "MPI_Comm_rank"])


def program(lab: Lab, calls: list[str], **more: object) -> str:
    """Return a program for MPICH whose code shows no datatype."""
    library(lab)
    flags = more.pop("flags", found_in(lab, "old/lib"))
    return lab.program(needs=["old/lib/libmpi.so.12"], calls=calls, flags=flags, **more)


def refused(found: Judgement) -> None:
    first = found.findings[0]
    assert (found.verdict, first.cause) == (InjectionVerdict.FAILS, Cause.OTHER_ABI), found
    assert causes(found, Effect.FAILS) == {Cause.OTHER_ABI}
    remedies = " ".join(one.remedy for one in found.findings)
    assert not [word for word in HARMFUL if word in remedies]
    problem, *_ = reasons_against([found])
    assert "is compiled for the mpich ABI" in problem.message
    assert "Open MPI" in problem.message


@pytest.mark.parametrize("flags", ["runpath", "rpath", "gone"])
def test_whatever_the_program_finds_now(lab: Lab, flags: str) -> None:
    openmpi(lab, "new", defines=["MPI_Comm_rank"])
    words = {
        "runpath": found_in(lab, "old/lib"),
        "rpath": [f"-Wl,--disable-new-dtags,-rpath,{lab.path('old/lib')}"],
        "gone": [],
    }[flags]
    refused(judged(lab, program(lab, CALLS, flags=words), "new"))


def test_the_other_way_round_it_is_the_first_sentence_too(lab: Lab) -> None:
    openmpi(lab, "old")
    mpich(lab, "new")
    asks = uses_openmpi(lab)
    found = judged(lab, asks, "new")
    assert [one.cause for one in found.findings if one.effect is Effect.FAILS] == [Cause.OTHER_ABI]


def test_a_program_that_hands_over_no_handle_is_not_decided(lab: Lab) -> None:
    openmpi(lab, "new")
    found = judged(lab, program(lab, ["MPI_Init"]), "new")
    first = found.findings[0]
    assert (first.cause, first.effect) == (Cause.ABI_UNKNOWN, Effect.CANNOT_TELL)


def test_a_module_may_get_its_handles_from_elsewhere(lab: Lab) -> None:
    openmpi(lab, "new", defines=["MPI_Comm_rank"])
    library(lab)
    module = lab.library(
        "module.so", defines=["start"], imports=CALLS, needs=["old/lib/libmpi.so.12"],
        flags=found_in(lab, "old/lib"),
    )  # fmt: skip
    assert Cause.OTHER_ABI not in causes(judged(lab, module, "new"))


def test_handles_that_come_of_numbers_of_fortran_are_not_decided(lab: Lab) -> None:
    openmpi(lab, "new", defines=["MPI_Comm_rank", "MPI_Comm_f2c"])
    lab.library("old/lib/libmpi.so.12", defines=[*MPICH, "MPI_Comm_rank", "MPI_Comm_f2c"])
    asks = lab.program(
        needs=["old/lib/libmpi.so.12"], calls=[*CALLS, "MPI_Comm_f2c"],
        flags=found_in(lab, "old/lib"),
    )  # fmt: skip
    assert Cause.OTHER_ABI not in causes(judged(lab, asks, "new"))


def test_check_and_apply_say_it_first(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    openmpi(lab, "new", defines=["MPI_Comm_rank"])
    path, new = program(lab, CALLS, flags=[]), lab.path("new")
    said = []
    for words in (
        ["check", path, "--with", new],
        ["check", path, "--with", new, "--json"],
        ["apply", path, "--with", new, "--wrapper", lab.path("wrapped")],
    ):
        with pytest.raises(SystemExit) as stop:
            cli.main(["inject", *words])
        assert stop.value.code == 8
        printed = capsys.readouterr()
        said.append(printed.out + printed.err)
    assert json.loads(said[1])["programs"][0]["findings"][0]["cause"] == "other-abi"
    for text in (said[0], said[2]):
        assert "is compiled for the mpich ABI" in text
        assert not [word for word in HARMFUL if word in text], text
