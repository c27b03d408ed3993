"""Where a replacement lies and what it is called: prefixes, links, odd names, preloads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from elflab import Lab, run
from injectlab import (
    MPICH,
    causes,
    found_in,
    judged,
    mpich,
    openmpi,
    root_of,
    rpath_of,
    uses_mpich,
    uses_openmpi,
)
from stackproof.inject.findings.abi import pack_of
from stackproof.inject.model import Cause, Effect, Finding, InjectionVerdict
from stackproof.inject.replacement import find_replacement
from stackproof.linking.effects.view import RootView


def test_what_the_machine_preloads_for_all(lab):
    """`/etc/ld.so.preload` comes before every variable: the MPI that it names stays."""
    root = root_of(lab)
    for name in ("root/own", "root/new"):
        mpich(lab, name)
    uses_mpich(
        lab,
        name="root/bin/app",
        own="root/own/lib",
        flags=["-Wl,--enable-new-dtags,-rpath,/own/lib"],
    )
    found = judged(lab, "/bin/app", "/new", RootView(root))
    assert found.verdict is InjectionVerdict.WORKS
    os.mkdir(f"{root}/etc")
    Path(root, "etc", "ld.so.preload").write_text("/own/lib/libmpi.so.12\n")
    found = judged(lab, "/bin/app", "/new", RootView(root))
    assert (found.verdict, causes(found, Effect.FAILS)) == (
        InjectionVerdict.FAILS,
        {Cause.TWO_COPIES},
    )


def test_a_library_that_is_asked_for_by_its_path(lab):
    """Something of the replacement is loaded, and the MPI still is the old one."""
    old = mpich(lab, "old", soname="")  # without a SONAME the linker writes down the path
    lab.library("sys/libucp.so.0", defines=["ucp_init"])
    program = uses_mpich(lab, needs=[old, "sys/libucp.so.0"], flags=found_in(lab, "sys"))
    mpich(lab, "new")
    lab.library("new/lib/libucp.so.0", defines=["ucp_init"])
    found = judged(lab, program, "new")
    assert (found.verdict, causes(found, Effect.FAILS)) == (
        InjectionVerdict.FAILS,
        {Cause.NOT_INJECTED},
    )
    env = {"LD_LIBRARY_PATH": lab.path("new/lib")}
    assert run(program, env=env).answers["MPI_Init"] == "old/lib/libmpi.so.12"


def test_one_library_that_is_named_stands_for_itself(lab):
    """Beside `libmpich.so.12` lies an Open MPI, which is not what was named."""
    openmpi(lab, "old")
    mpich(lab, "all", "libmpich.so.12")
    openmpi(lab, "all")
    program = uses_openmpi(lab)
    assert judged(lab, program, "all").verdict is InjectionVerdict.WORKS
    found = judged(lab, program, "all/lib/libmpich.so.12")
    assert (found.verdict, Cause.OTHER_ABI in causes(found)) == (InjectionVerdict.FAILS, True)


def test_a_prefix_whose_libraries_are_links_to_a_folder_of_the_system(lab):
    """Debian's own prefix of Open MPI; its plug-ins lie beside its `lib`."""
    folder = "usr/lib/x86_64-linux-gnu"
    root = root_of(lab)
    openmpi(lab, "root/old")
    library = Path(openmpi(lab, "root/made"))
    for place in (lab.path(f"root/{folder}/openmpi/lib"), lab.path("root/bin")):
        os.makedirs(place, exist_ok=True)
    library.rename(lab.path(f"root/{folder}/libmpi.so.40.30.4"))
    for link, target in (
        (f"{folder}/libmpi.so.40", "libmpi.so.40.30.4"),
        (f"{folder}/openmpi/lib/libmpi.so.40", "../../libmpi.so.40.30.4"),
        (f"{folder}/openmpi/lib/libmpi.so", "../../libmpi.so.40.30.4"),
    ):
        os.symlink(target, lab.path(f"root/{link}"))
    uses_openmpi(
        lab,
        name="root/bin/app",
        own="root/old/lib",
        flags=["-Wl,--enable-new-dtags,-rpath,/old/lib"],
    )
    found = judged(lab, "/bin/app", f"/{folder}/openmpi", RootView(root))
    assert found.verdict is InjectionVerdict.WORKS
    assert found.environment["LD_LIBRARY_PATH"] == f"/{folder}/openmpi/lib"


def test_a_link_to_a_part_in_a_folder_of_the_system(lab):
    """Debian's MPICH under a program of Intel's MPI: other names, and real names with numbers."""
    folder, root = "usr/lib/x86_64-linux-gnu", root_of(lab)
    for name in ("libmpi.so.12", "libmpifort.so.12"):
        parts = ["root/old/lib/libmpi.so.12"] if "fort" in name else []
        defines = ["mpi_init_"] if parts else MPICH
        lab.library(f"root/old/lib/{name}", defines=defines, needs=parts)
    for name in ("libmpich.so.12", "libmpichfort.so.12"):
        parts = [f"root/{folder}/libmpich.so.12"] if "fort" in name else []
        defines = ["mpi_init_"] if parts else MPICH
        made = Path(lab.library(f"root/{folder}/{name}", defines=defines, needs=parts))
        made.rename(f"{made}.2.2")
        made.symlink_to(f"{name}.2.2")
    uses_mpich(
        lab,
        ["mpi_init_", "MPI_Init"],
        name="root/bin/app",
        needs=["root/old/lib/libmpifort.so.12", "root/old/lib/libmpi.so.12"],
        flags=["-Wl,--enable-new-dtags,-rpath,/old/lib"],
    )
    for place in ("/usr", f"/{folder}/libmpich.so.12"):
        found = judged(lab, "/bin/app", place, RootView(root))
        assert (found.verdict, causes(found, Effect.STEP)) == (
            InjectionVerdict.STEPS,
            {Cause.ALIAS},
        )
        assert len(found.way.links) == 2


@pytest.mark.parametrize("name", ["a:b", "a;b", "a$LIB", "a${ORIGIN}b"])
def test_a_prefix_that_no_list_can_name(lab, name):
    mpich(lab, "old")
    mpich(lab, name)
    program = uses_mpich(lab)
    found = judged(lab, program, name)
    assert (found.verdict, Cause.UNNAMEABLE in causes(found)) == (InjectionVerdict.FAILS, True)
    real = run(program, env={"LD_LIBRARY_PATH": lab.path(f"{name}/lib")})
    assert real.answers["MPI_Init"] == "old/lib/libmpi.so.12"
    os.symlink(lab.path(name), lab.path("plain"))
    found = judged(lab, program, "plain")
    assert found.verdict is InjectionVerdict.WORKS
    assert (
        run(program, env=dict(found.environment)).answers["MPI_Init"] == f"{name}/lib/libmpi.so.12"
    )


@pytest.mark.parametrize("name", ["a b", "a$b"])
def test_a_prefix_that_a_preload_cannot_name(lab, name):
    """LD_LIBRARY_PATH takes a blank, LD_PRELOAD does not."""
    mpich(lab, "old")
    mpich(lab, name)
    program = uses_mpich(lab, flags=rpath_of(lab, "old/lib"))
    found = judged(lab, program, name)
    expected = Cause.RPATH if " " in name else Cause.PRELOAD
    assert (found.verdict, causes(found, Effect.STEP)) == (InjectionVerdict.STEPS, {expected})


def test_a_tool_that_is_preloaded_stays_first(lab):
    mpich(lab, "old")
    mpich(lab, "new")
    source = lab._source('const char *MPI_Init(void) { return "tool"; }\n', "c")
    tool = lab.path("libtool.so")
    lab._gcc("-shared", "-fPIC", source, tool)
    program = uses_mpich(lab, flags=rpath_of(lab, "old/lib"))
    found = judged(lab, program, "new", preload=(tool,))
    assert found.environment["LD_PRELOAD"] == f"{tool}:{lab.path('new/lib/libmpi.so.12')}"
    real = run(program, env=dict(found.environment))
    assert real.answers["MPI_Init"] == "tool"
    assert lab.path("new/lib/libmpi.so.12") in real.loaded


def test_names_that_are_not_utf8(lab):
    """Such a file is none that a program asks for; the rest of the folder is seen."""
    path = mpich(lab, "new")
    odd = os.fsencode(lab.path("new/lib")) + b"/caf\xe9.so"
    Path(os.fsdecode(odd)).write_bytes(Path(path).read_bytes())
    view = RootView()
    assert [main.path for main in find_replacement(view, lab.path("new")).mains] == [path]
    assert [*view.elf_files(lab.path("new"))] == [path]
    assert len(view.skipped) == 1


def test_what_the_file_of_preloads_may_hold(tmp_path):
    """Names apart by blanks or colons, and comments; ld.so(8)."""
    (tmp_path / "etc").mkdir()
    view = RootView(str(tmp_path))
    assert view.preloads() == ()
    text = "/a.so /b.so:/c.so # /no.so\n# nothing\n\t/d.so\n"
    (tmp_path / "etc" / "ld.so.preload").write_text(text)
    assert RootView(str(tmp_path)).preloads() == ("/a.so", "/b.so", "/c.so", "/d.so")


# --------------------------------------------------------------------------------------------------
# Programs of a pack, which say so instead of what any such file would be told.


@pytest.fixture
def lab(lab: Lab) -> Lab:
    """The root of a container that holds a pack and nothing else, and an MPI to be injected."""
    mpich(lab, "root/new")
    mpich(lab, "root/opt/mine/stack/mpich-5.0.2")
    uses_mpich(
        lab,
        name="root/opt/mine/stack/programs/.bin/app",
        own="root/opt/mine/stack/mpich-5.0.2/lib",
        flags=(),
    )
    lab.program("root/opt/mine/stack/programs/bin/app", flags=["-static"])
    for name in ("bin", "glibc"):
        os.mkdir(lab.path(f"root/opt/mine/{name}"))
    os.symlink("../stack/programs/bin/app", lab.path("root/opt/mine/bin/app"))
    Path(lab.path("root/opt/mine/glibc/ld-linux-x86-64.so.2")).touch()
    return lab


def failure_of(lab: Lab, program: str) -> Finding:
    """Return the only finding on a program in the root."""
    judgement = judged(lab, program, "/new", RootView(lab.path("root")))
    assert judgement.verdict is InjectionVerdict.FAILS
    (finding,) = judgement.findings
    return finding


@pytest.mark.parametrize(
    ("program", "cause"),
    [
        ("/opt/mine/bin/app", Cause.STATIC),
        ("/opt/mine/stack/programs/bin/app", Cause.STATIC),
        ("/opt/mine/stack/programs/.bin/app", Cause.NO_LOADER),
    ],
)
def test_a_program_of_a_pack(lab, program, cause):
    finding = failure_of(lab, program)
    assert finding.cause is cause
    assert "`/opt/mine` is a pack of stackproof" in finding.message
    assert "run IMAGE --inject" in finding.remedy
    assert "stackproof pack" in finding.remedy
    assert "--root" not in finding.remedy


def test_a_program_outside_of_packs(lab):
    """It is told what any such program is, and what helps it."""
    lab.program("root/opt/bin/app", flags=["-static"])
    finding = failure_of(lab, "/opt/bin/app")
    assert "linked statically" in finding.message
    assert pack_of(RootView(lab.path("root")), "/opt/bin/app") == ""
