"""What an injection makes, as values: start scripts, names of override folders."""

from __future__ import annotations

import pytest

from stackproof.core.errors import Reason, StackproofError
from stackproof.core.value import replace
from stackproof.inject.delivery import Copied, Gathered, plan_wrapping, problem, stays
from stackproof.inject.eessi import variant_name
from stackproof.inject.model import InjectionVerdict, Judgement, Way
from stackproof.inject.ways import ALIASES


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
