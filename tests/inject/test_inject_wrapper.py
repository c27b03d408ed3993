"""`inject apply --wrapper`: folders of scripts that start programs with another MPI."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from eessilab import EVERY, USES_MPICH, Eessi, inject
from elflab import run
from need import need
from stackproof.core.errors import ExitCode, Reason, StackproofError
from stackproof.core.value import replace
from stackproof.inject.delivery import Copied, Gathered, plan_wrapping, problem, stays
from stackproof.inject.eessi import variant_name
from stackproof.inject.effects import staging
from stackproof.inject.model import InjectionVerdict, Judgement, Way
from stackproof.inject.ways import ALIASES


@pytest.fixture
def eessi(tmp_path: Path) -> Eessi:
    need("gcc", "patchelf")
    return Eessi(tmp_path)


def test_a_wrapper_sets_variables(eessi, capsys, tmp_path):
    """A program without a DT_RPATH is reached by a variable; what was set comes after it."""
    app = eessi.program(
        "plain/bin/app",
        needs=["eessi/lib/libmpi.so.12"],
        calls=["MPI_Init"],
        declarations=USES_MPICH,
    )
    place = tmp_path / "wrapped"
    words = ("apply", app, "--with", eessi.path("host"), "--wrapper", place)
    assert inject(capsys, *words, "--dry-run")[0] == ExitCode.DONE
    assert not os.path.lexists(place)
    assert inject(capsys, *words)[0] == ExitCode.DONE
    other = {"LD_LIBRARY_PATH": eessi.path("newer/lib")}
    outcome = run(str(place / "bin" / "app"), env=other)
    assert outcome.answers["MPI_Init"] == "host/lib/libmpi.so.12", outcome.error
    assert inject(capsys, "undo", place)[0] == ExitCode.DONE
    assert not os.path.lexists(place)


def test_a_wrapper_with_links(eessi, capsys, tmp_path):
    eessi.library("named/lib/libmpich.so.12", defines=EVERY)
    app = eessi.program(
        "plain/bin/app",
        needs=["eessi/lib/libmpi.so.12"],
        calls=["MPI_Init"],
        declarations=USES_MPICH,
    )
    place = tmp_path / "wrapped"
    words = ("apply", app, "--with", eessi.path("named"), "--wrapper", place)
    assert inject(capsys, *words)[0] == ExitCode.DONE
    outcome = run(str(place / "bin" / "app"))
    assert outcome.answers["MPI_Init"] == "named/lib/libmpich.so.12", outcome.error


def test_a_wrapper_for_a_dt_rpath(eessi, capsys, tmp_path):
    """EESSI's program looks into its DT_RPATH first: it takes a preload."""
    place = tmp_path / "wrapped"
    words = ("apply", eessi.app, "--with", eessi.path("host"), "--wrapper", place)
    assert inject(capsys, *words)[0] == ExitCode.DONE
    outcome = run(str(place / "bin" / "app"))
    assert outcome.answers["MPI_Init"] == "host/lib/libmpi.so.12", outcome.error


def test_no_wrapper_for_a_program_with_capabilities(eessi, capsys, tmp_path):
    """A script's variables would be dropped, and a copy would lose what the program may."""
    eessi.mpi("flat", inner=False)
    app = eessi.program(
        "plain/bin/app", needs=["eessi/lib/libmpi.so.12"], calls=["MPI_Init"],
        declarations=USES_MPICH, flags=[f"-Wl,--enable-new-dtags,-rpath,{eessi.path('eessi/lib')}"],
    )  # fmt: skip
    # struct vfs_cap_data: version 2, effective, cap_ipc_lock (linux/capability.h).
    content = (0x02000001).to_bytes(4, "little") + (1 << 14).to_bytes(4, "little") + bytes(12)
    try:
        os.setxattr(app, "security.capability", content)
    except OSError:
        pytest.skip("only root may give capabilities, and some file systems have none")
    place = tmp_path / "wrapped"
    words = ("apply", app, "--with", eessi.path("flat"), "--wrapper", place)
    code, _, err = inject(capsys, *words)
    assert code == ExitCode.INVALID, err
    assert "more rights than its user" in err
    assert not os.path.lexists(place)


def test_what_the_loader_takes_of_a_wrapper_is_looked_at(eessi, capsys, tmp_path, monkeypatch):
    """The script's variable is lost: the loader takes the MPI of before, and nothing is left."""
    app = eessi.program(
        "plain/bin/app", needs=["eessi/lib/libmpi.so.12"], calls=["MPI_Init"],
        declarations=USES_MPICH, flags=[f"-Wl,--enable-new-dtags,-rpath,{eessi.path('eessi/lib')}"],
    )  # fmt: skip
    load_again = staging.load_again
    monkeypatch.setattr(staging, "load_again", lambda *words: load_again(*words[:2], {}))
    place = tmp_path / "wrapped"
    code, _, err = inject(capsys, "apply", app, "--with", eessi.path("host"), "--wrapper", place)
    assert code == ExitCode.WORSE
    assert "eessi/lib/libmpi.so.12" in err
    assert not os.path.lexists(place)


def test_a_wrapper_takes_nobodys_folder(eessi, capsys, tmp_path):
    place = tmp_path / "mine"
    place.mkdir()
    words = ("apply", eessi.app, "--with", eessi.path("host"), "--wrapper", place)
    assert inject(capsys, *words)[0] == ExitCode.USAGE
    assert list(place.iterdir()) == []


def test_a_wrapper_with_a_copy(eessi, capsys, tmp_path):
    """No variable comes before a DT_RPATH for a library below the MPI: a copy gets another one."""
    eessi.library("own/libfabric.so.1", defines=["fi_getinfo"])
    eessi.library("own/libmpi.so.12", defines=EVERY, needs=["own/libfabric.so.1"])
    eessi.library("fabric/libfabric.so.1", defines=["fi_getinfo"])
    app = eessi.program(
        "bin/below",
        needs=["own/libmpi.so.12", "own/libfabric.so.1"],
        calls=["MPI_Init", "fi_getinfo"],
        declarations=USES_MPICH,
        flags=["-Wl,--disable-new-dtags,-rpath,$ORIGIN/../own"],
    )
    place = tmp_path / "wrapped"
    words = ("apply", app, "--with", eessi.path("fabric"), "--wrapper", place)
    code, _, err = inject(capsys, *words)
    assert code == ExitCode.DONE, err
    outcome = run(str(place / "bin" / "below"))
    assert outcome.answers["fi_getinfo"] == "fabric/libfabric.so.1", outcome.error
    assert outcome.answers["MPI_Init"] == "own/libmpi.so.12"
    assert run(app).answers["fi_getinfo"] == "own/libfabric.so.1"


# --------------------------------------------------------------------------------------------------
# What an injection makes, as values; what is carried along with libraries.


def judgement(way, environment):
    return Judgement(
        program="/apps/a b/solver",
        replacement="/opt/mpich",
        verdict=InjectionVerdict.STEPS,
        abi="mpich",
        family="mpich",
        way=way,
        environment=environment,
        findings=(),
        tree=(),
    )


def test_a_script():
    way = Way(
        name="preload",
        links={f"{ALIASES}/libmpi.so.12": "/opt/mpich/lib/libmpich.so.12"},
        library_path=(ALIASES, "/opt/mpich/lib"),
        preload=(f"{ALIASES}/libmpi.so.12",),
    )
    environment = {
        "LD_LIBRARY_PATH": f"{ALIASES}:/opt/mpich/lib",
        "LD_PRELOAD": f"{ALIASES}/libmpi.so.12",
        "OPAL_PREFIX": "/opt/it's",
    }
    program, found = plan_wrapping(judgement(way, environment), "/w", "")
    assert found.links == {"aliases/libmpi.so.12": "/opt/mpich/lib/libmpich.so.12"}
    assert (program, found.copies) == ("/apps/a b/solver", ())
    assert found.scripts["bin/solver"] == (
        "#!/bin/sh\n"
        "# Starts /apps/a b/solver with /opt/mpich.\n"
        "export LD_LIBRARY_PATH=/w/aliases:/opt/mpich/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}\n"
        "export LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}/w/aliases/libmpi.so.12\n"
        "export OPAL_PREFIX='/opt/it'\"'\"'s'\n"
        "exec '/apps/a b/solver' \"$@\"\n"
    )


def test_a_copy_keeps_what_the_program_found():
    """The copy lies elsewhere, so that its $ORIGIN is written out."""
    way = Way(name="rpath", rpath=(ALIASES, "/opt/mpich/lib"))
    program, found = plan_wrapping(judgement(way, {}), "/w", "$ORIGIN/../lib:${ORIGIN}:/else")
    rpath = "/w/aliases:/opt/mpich/lib:/apps/a b/../lib:/apps/a b:/else"
    assert program == "/w/libexec/solver"
    assert found.copies == (
        Copied(source="/apps/a b/solver", target="libexec/solver", rpath=rpath),
    )
    assert found.scripts["bin/solver"].endswith('exec /w/libexec/solver "$@"\n')


def test_a_name_cannot_leave_the_comment():
    way = Way(name="library-path", library_path=("/opt/mpich/lib",))
    odd = replace(judgement(way, {}), replacement="/opt/\nrm -rf x")
    lines = plan_wrapping(odd, "/w", "")[1].scripts["bin/solver"].splitlines()
    assert [line[0] for line in lines] == ["#", "#", "e"]


@pytest.mark.parametrize(
    ("compiler", "accelerator", "name"),
    [
        ("", "", "system"),
        ("GCC", "", "system-GCC"),
        ("GCC", "CUDA-12.6.0", "system-GCC-CUDA-12.6.0"),
        ("ROCm", "ROCM-6.4.1", "system-ROCm-ROCM-6.4.1"),
    ],
)
def test_names_of_override_folders(compiler, accelerator, name):
    assert variant_name(compiler, accelerator) == name


@pytest.mark.parametrize(
    ("compiler", "accelerator"),
    [("", "CUDA-12.6.0"), ("../x", ""), ("GCC", "cuda-12"), ("GCC", "CUDA-12/..")],
)
def test_what_is_no_name(compiler, accelerator):
    with pytest.raises(StackproofError) as error:
        variant_name(compiler, accelerator)
    assert error.value.reason is Reason.USAGE


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("libc.so.6", True), ("/lib64/libm.so.6", True), ("ld-linux-x86-64.so.2", True),
        ("libcuda.so.1", True), ("libnvidia-ml.so.1", True), ("libcudart.so.12", False),
        ("libcxi.so.1", False), ("libcrypt.so.1", False),
    ],
)  # fmt: skip
def test_what_stays_the_machines_own(name: str, own: bool) -> None:
    assert stays(name) is own


def test_all_that_is_in_the_way_is_told_once() -> None:
    gathered = Gathered(stays=stays)
    gathered.check()
    gathered.problems += [problem("a", "/x", "h"), problem("b", "/x", "h"), problem("a", "/x", "h")]
    with pytest.raises(StackproofError) as caught:
        gathered.check()
    assert [one.message for one in caught.value.problems] == ["a", "b"]
    assert caught.value.reason is Reason.INJECTION_FAILS
