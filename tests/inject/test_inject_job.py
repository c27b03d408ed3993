"""What a job sets for an injection, and the reasons against it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from stackproof.core.errors import Reason
from stackproof.core.value import replace
from stackproof.inject.job import broken_before, plan_job
from stackproof.inject.model import Cause, Effect, Finding, InjectionVerdict, Judgement, Way
from stackproof.inject.replacement import Main, Replacement
from stackproof.inject.ways import ALIASES, inner_folders
from stackproof.linking.loader import File
from stackproof.mpi import abi

PREFIX = "/opt/new"
WAY = Way(name="library-path", library_path=(f"{PREFIX}/lib",))
WORKS = Judgement(
    program="/bin/app",
    replacement=PREFIX,
    verdict=InjectionVerdict.WORKS,
    abi="mpich",
    family="mpich",
    way=WAY,
    environment={},
    findings=(),
    tree=(),
)
NETWORK = Replacement(
    prefix=PREFIX,
    folders=(f"{PREFIX}/lib",),
    names={"libfabric.so.1": f"{PREFIX}/lib/libfabric.so.1"},
    mains=(),
)
OLD = {"FI_PROVIDER_PATH": "/old/libfabric", "OPAL_PREFIX": "/old", "PATH": "/bin"}


def open_mpi() -> Replacement:
    elf: Any = SimpleNamespace(runpath=None, rpath=None)  # nothing else of it is asked
    path = f"{PREFIX}/lib/libmpi.so.40"
    main = Main(
        path=path, file=File(path, "1:1", False), elf=elf, family=abi.FAMILIES["openmpi"], shown=""
    )  # fmt: skip
    return replace(NETWORK, names={"libmpi.so.40": path}, mains=(main,))


@pytest.mark.parametrize("kind", ["runpath", "rpath"])
def test_a_path_of_an_mpi_adds_no_folder_of_others(kind: str) -> None:
    """In a list of the loader a semicolon ends a folder, in the path of a library it does not."""
    words = "$ORIGIN/own:$ORIGIN/a;/tmp/b:$ORIGIN/../../../tmp:/tmp"
    elf: Any = SimpleNamespace(**{"runpath": None, "rpath": None, kind: words})
    main = replace(open_mpi().mains[0], elf=elf)
    assert inner_folders(replace(open_mpi(), mains=(main,))) == (f"{PREFIX}/lib/own",)


def found(effect: Effect, cause: Cause = Cause.SYMBOL_MISSING, *, before: bool = False) -> Finding:
    return Finding(cause=cause, effect=effect, message="why", remedy="do this", before=before)


def test_the_first_main_library_is_that_of_an_unknown_abi() -> None:
    """MPICH 5 has one of the standard ABI beside its own, which mpi4py has no module for."""
    (main,) = open_mpi().mains
    standard = replace(main, path=f"{PREFIX}/lib/libmpi_abi.so.1", family=abi.FAMILIES["standard"])
    both = replace(NETWORK, mains=(main, standard))
    assert both.main_for(None) == both.main_for("mpich", None) == main
    assert both.main_for("mpich", standard.family.abi) == standard
    assert NETWORK.main_for(None) is None


def test_all_ways_at_once() -> None:
    linked = Way(
        name="preload",
        library_path=(ALIASES, f"{PREFIX}/lib"),
        preload=(f"{ALIASES}/libmpi.so.12",),
        links={f"{ALIASES}/libmpi.so.12": f"{PREFIX}/lib/libmpich.so.12"},
    )
    steps = replace(WORKS, verdict=InjectionVerdict.STEPS, way=linked)
    job = plan_job((WORKS, steps), NETWORK, {}, links="/cache/links")
    assert job.verdict is InjectionVerdict.STEPS
    assert job.links == {"libmpi.so.12": f"{PREFIX}/lib/libmpich.so.12"}
    assert job.env.apply({"LD_LIBRARY_PATH": "/own"}) == {
        "LD_LIBRARY_PATH": f"{PREFIX}/lib:/cache/links:/own",
        "LD_PRELOAD": "/cache/links/libmpi.so.12",
    }
    assert job.problems == ()


def test_plug_ins_of_the_old_libfabric_are_left_behind() -> None:
    job = plan_job((WORKS,), NETWORK, OLD, links="", plug_ins=f"{PREFIX}/lib/libfabric")
    assert job.env.apply(OLD)["FI_PROVIDER_PATH"] == f"{PREFIX}/lib/libfabric"
    job = plan_job((WORKS,), NETWORK, OLD, links="")
    assert "FI_PROVIDER_PATH" not in job.env.apply(OLD)
    assert job.env.apply(OLD)["OPAL_PREFIX"] == "/old"


def test_the_home_of_another_open_mpi() -> None:
    job = plan_job((WORKS,), open_mpi(), OLD, links="")
    after = job.env.apply(OLD)
    assert after["OPAL_PREFIX"] == PREFIX
    assert after["FI_PROVIDER_PATH"] == "/old/libfabric"
    assert "PMIX_PREFIX" not in after
    moved = replace(WORKS, environment={"PMIX_PREFIX": PREFIX, "LD_LIBRARY_PATH": "/not/this"})
    assert plan_job((moved,), NETWORK, {}, links="").env.set == {"PMIX_PREFIX": PREFIX}


def test_reasons_against_it_the_worst_first() -> None:
    unknown = replace(
        WORKS, verdict=InjectionVerdict.UNKNOWN, findings=(found(Effect.CANNOT_TELL),)
    )
    fails = replace(WORKS, verdict=InjectionVerdict.FAILS, findings=(found(Effect.FAILS),))
    fine = (found(Effect.STEP), found(Effect.NOTE), found(Effect.FAILS, Cause.RELOCATED))
    steps = replace(WORKS, verdict=InjectionVerdict.STEPS, findings=fine)
    job = plan_job((unknown, steps, fails), NETWORK, {}, links="")
    assert job.verdict is InjectionVerdict.FAILS
    assert [one.reason for one in job.problems] == [
        Reason.INJECTION_FAILS,
        Reason.INJECTION_UNKNOWN,
    ]
    assert job.problems[0].hint == "do this"


def test_what_no_variable_reaches_fails() -> None:
    rpath = replace(
        WORKS, verdict=InjectionVerdict.STEPS, way=Way(name="rpath", rpath=("/opt/new/lib",))
    )
    job = plan_job((rpath,), NETWORK, {}, links="")
    assert job.verdict is InjectionVerdict.FAILS
    assert job.problems[0].reason is Reason.INJECTION_FAILS


def test_broken_before() -> None:
    assert not broken_before(WORKS)
    for before in (True, False):
        one = replace(WORKS, findings=(found(Effect.FAILS, before=before), found(Effect.NOTE)))
        assert broken_before(one) is before


def test_a_tool_that_is_preloaded_stays_in_front() -> None:
    way = Way(name="preload", preload=(f"{PREFIX}/lib/libmpi.so.12",))
    job = plan_job((replace(WORKS, way=way),), NETWORK, {}, links="")
    changed = job.env.apply({"LD_PRELOAD": "/tool.so"})
    assert changed["LD_PRELOAD"] == f"/tool.so:{PREFIX}/lib/libmpi.so.12"
