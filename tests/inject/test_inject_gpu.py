"""GPUs, audit libraries and preloads in what an injection is judged by; with files made for it."""

from __future__ import annotations

import pytest

from elflab import run
from injectlab import MPICH, found_in, judged, uses_mpich
from stackproof.inject.model import Cause, Effect, InjectionVerdict

COVERS = ("inject/judge.py",)

GPU = {"cuda": "libcudart.so.12", "hsa": "libamdhip64.so.6"}


@pytest.fixture
def lab(lab):
    for name in GPU.values():
        lab.library(f"gpu/{name}", defines=[f"init_{name[3:6]}"])
    for name in ("cuda", "hsa"):
        lab.library(f"gtl/libmpi_gtl_{name}.so", defines=[f"gtl_{name}"])
        lab.library(f"full/lib/libmpi_gtl_{name}.so", defines=[f"gtl_{name}"])
    lab.library("old/lib/libmpi.so.12", defines=MPICH)
    lab.library("plain/lib/libmpi.so.12", defines=MPICH)
    lab.library("aware/lib/libmpi.so.12", defines=MPICH, texts=["libcuda.so.1"])
    lab.library("cray/lib/libmpi.so.12", defines=MPICH, soname="libmpi_gnu_123.so.12")
    lab.library("full/lib/libmpi.so.12", defines=MPICH, soname="libmpi_gnu_123.so.12")
    return lab


def program(lab, *needs):
    name = f"bin/{'-'.join(needs) or 'none'}".replace("/", "_")
    linked = ["old/lib/libmpi.so.12", *needs]
    return uses_mpich(lab, name=name, needs=linked, flags=found_in(lab, "gpu", "gtl"))


def effects(found, *causes):
    return [one.effect for one in found.findings if one.cause in causes]


@pytest.mark.parametrize(
    ("needs", "prefix", "effect"),
    [
        ([], "plain", []),
        ([], "cray", []),
        (["gpu/libcudart.so.12"], "plain", [Effect.CANNOT_TELL]),
        (["gpu/libcudart.so.12"], "aware", []),
        (["gpu/libamdhip64.so.6"], "aware", [Effect.CANNOT_TELL]),
        (["gpu/libcudart.so.12"], "cray", [Effect.CANNOT_TELL]),
        (["gpu/libcudart.so.12"], "full", [Effect.STEP]),
        (["gpu/libcudart.so.12", "gtl/libmpi_gtl_cuda.so"], "cray", []),
        (["gpu/libamdhip64.so.6", "gtl/libmpi_gtl_hsa.so"], "cray", []),
        (["gpu/libcudart.so.12", "gtl/libmpi_gtl_hsa.so"], "cray", [Effect.FAILS]),
        (["gpu/libcudart.so.12", "gtl/libmpi_gtl_cuda.so"], "aware", [Effect.NOTE]),
    ],
)
def test_gpu_buffers(lab, needs, prefix, effect):
    found = judged(lab, program(lab, *needs), prefix)
    assert effects(found, Cause.GTL, Cause.GPU) == effect


def test_the_gtl_that_is_brought_along_is_named(lab):
    found = judged(lab, program(lab, "gpu/libcudart.so.12"), "full")
    (step,) = [one for one in found.findings if one.cause is Cause.GTL]
    assert step.remedy.startswith(f"LD_PRELOAD={lab.path('full/lib/libmpi_gtl_cuda.so')} ")


def test_two_of_them(lab):
    """Preloading another one gives the process two, each with its own state."""
    preload = lab.path("full/lib/libmpi_gtl_cuda.so")
    lab.library("gtl/libmpi_gtl_cuda.so", defines=["gtl_cuda"], soname="libmpi_gtl_cuda.so.0")
    path = program(lab, "gpu/libcudart.so.12", "gtl/libmpi_gtl_cuda.so")
    lab.library("gtl/libmpi_gtl_cuda.so.0", defines=["gtl_cuda"])
    found = judged(lab, path, "full", preload=(preload,))
    assert Cause.TWO_VERSIONS in {one.cause for one in found.findings}


AUDIT = r"""
#define _GNU_SOURCE
#include <link.h>
#include <string.h>
unsigned int la_version(unsigned int version) { return version; }
char *la_objsearch(const char *name, uintptr_t *cookie, unsigned int flag) {
    return strstr(name, "libmpi.so.12") ? (char *)"%s" : (char *)name;
}
"""


def test_an_audit_library_has_the_last_word(lab, tmp_path):
    """It can put any other file in the place of the injected one, so that nothing can be told."""
    path, other = program(lab), lab.library("else/libmpi.so.12", defines=MPICH)
    source = lab._source(AUDIT % other, "c")
    audit = lab.path("audit.so")
    lab._gcc("-shared", "-fPIC", source, audit)
    found = judged(lab, path, "plain")
    assert found.verdict is InjectionVerdict.WORKS
    outcome = run(path, env=dict(found.environment))
    assert outcome.answers["MPI_Init"] == "plain/lib/libmpi.so.12"
    watched = judged(lab, path, "plain", audit=(audit,))
    assert watched.verdict is InjectionVerdict.UNKNOWN
    assert effects(watched, Cause.AUDIT) == [Effect.CANNOT_TELL]
    outcome = run(path, env={**found.environment, "LD_AUDIT": audit})
    assert outcome.answers["MPI_Init"] == "else/libmpi.so.12"
    secure = judged(lab, path, "plain", audit=(audit,), secure=True)
    assert effects(secure, Cause.AUDIT) == []


def test_an_audit_library_that_the_program_names(lab):
    audit = lab.path("audit.so")
    lab._gcc("-shared", "-fPIC", lab._source(AUDIT % "none", "c"), audit)
    path = uses_mpich(lab, name="bin/audited", flags=[f"-Wl,--audit={audit}"])
    assert effects(judged(lab, path, "plain"), Cause.AUDIT) == [Effect.CANNOT_TELL]


def test_a_preload_of_today_stays(lab):
    """An MPI that the user preloads stays first, and what calls are bound to."""
    path, own = program(lab), lab.path("old/lib/libmpi.so.12")
    found = judged(lab, path, "plain", preload=(own,))
    assert found.verdict is InjectionVerdict.FAILS
    assert effects(found, Cause.NOT_INJECTED) == [Effect.FAILS]
    outcome = run(path, env={"LD_PRELOAD": own, **found.environment})
    assert outcome.answers["MPI_Init"] == "old/lib/libmpi.so.12"
