"""Programs of a pack of stackproof, which say so instead of what any such file would be told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from elflab import Lab
from injectlab import judged, mpich, uses_mpich
from stackproof.inject.findings.abi import pack_of
from stackproof.inject.model import Cause, Finding, InjectionVerdict
from stackproof.linking.effects.view import RootView


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
