"""An installed stack as `--with PREFIX`: its MPI lies deeper, and is found in every verb."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from eessilab import EVERY, Eessi, inject
from elflab import run
from injectlab import mpich, uses_mpich
from need import need
from stackproof.core.errors import ExitCode, Reason, StackproofError
from stackproof.inject.effects import job_judge
from stackproof.inject.effects import named as inject_named
from stackproof.inject.effects.job_key import JobCase, MountedImage
from stackproof.inject.replacement import find_replacement, require_use
from stackproof.linking.effects.view import RootView


@pytest.fixture
def lab(tmp_path: Path) -> Eessi:
    """A prefix of `stackproof install`: an MPI in `stack`, libraries that were packed in `lib`."""
    need("gcc")
    lab = Eessi(tmp_path)
    lab.library("sw/lib/libnuma.so.1", defines=["numa_node"])
    lab.library(
        "sw/stack/mpich-5.0.2/lib/libmpi.so.12", defines=EVERY, needs=["sw/lib/libnuma.so.1"],
        flags=["-Wl,--disable-new-dtags,-rpath,$ORIGIN/../../../lib"],
    )  # fmt: skip
    (tmp_path / "sw" / "stack" / "benchmarks" / "share").mkdir(parents=True)
    return lab


def program(lab: Eessi) -> str:
    needs = ["eessi/lib/libmpi.so.12"]
    return uses_mpich(lab, name="plain/app", needs=needs, flags=())


def folder_of(lab: Eessi) -> str:
    return lab.path("sw/stack/mpich-5.0.2/lib")


def test_the_check_names_the_mpi(lab, capsys):
    code, out, _ = inject(capsys, "check", program(lab), "--with", lab.path("sw"))
    assert code == ExitCode.DONE
    assert f"with {lab.path('sw')} (mpich;" in out
    assert f"LD_LIBRARY_PATH={folder_of(lab)}\n" in out


def test_a_container_gets_the_whole_prefix(lab, capsys):
    """The MPI needs what was packed beside it."""
    words = ("container", program(lab), "--with", lab.path("sw"), "--form", "podman")
    code, out, _ = inject(capsys, *words)
    assert code == ExitCode.DONE
    prefix = lab.path("sw")
    bind, variable = shlex.split(out)
    assert bind == f"--volume={prefix}:{prefix}:ro"
    assert variable == f"--env=LD_LIBRARY_PATH={folder_of(lab)}"


def test_a_wrapper_starts_with_it(lab, capsys, tmp_path):
    need("patchelf")
    words = ("apply", program(lab), "--with", lab.path("sw"), "--wrapper", tmp_path / "wrapped")
    assert inject(capsys, *words)[0] == ExitCode.DONE
    outcome = run(str(tmp_path / "wrapped" / "bin" / "app"))
    assert outcome.answers["MPI_Init"] == "sw/stack/mpich-5.0.2/lib/libmpi.so.12", outcome.error


def test_an_artefact_is_made_of_it(lab, capsys, tmp_path):
    need("patchelf")
    assert inject(capsys, "artefact", lab.path("sw"), "-o", tmp_path / "net")[0] == ExitCode.DONE
    assert (tmp_path / "net" / "default" / "mpi" / "libmpi.so.12").is_file()


def test_a_job_gets_it(lab, tmp_path):
    injected = MountedImage(lab.path("sw"), lab.path("sw"))
    case = JobCase([], injected, {}, programs=[program(lab)])
    job = job_judge.examine(case, str(tmp_path / "links")).job
    assert job.env.prepend["LD_LIBRARY_PATH"] == (folder_of(lab),)


def test_the_launcher_behind_an_entry_point(lab):
    """`bin/mpiexec` of a pack only starts `.bin/mpiexec`."""
    home = Path(lab.path("sw/stack/mpich-5.0.2"))
    entry = Path(lab.program("sw/stack/mpich-5.0.2/bin/mpiexec"))
    assert inject_named.kind_of_file(str(entry)) == ""
    lab.library("sw/stack/mpich-5.0.2/.bin/texts", texts=["hydra_pmi_proxy"])
    (home / ".bin" / "texts").rename(home / ".bin" / "mpiexec")
    assert inject_named.kind_of_file(str(entry)) == "hydra"


def test_the_tree_of_an_image(lab, tmp_path):
    """Where a prefix is the image's mount point, its tree lies there as it is."""
    mpich(lab, "tree/mpich-5.0.2")
    with pytest.raises(StackproofError):
        find_replacement(RootView(), lab.path("tree"))
    (tmp_path / "tree" / "meta").mkdir()
    (tmp_path / "tree" / "meta" / "env.json").write_text("{}")
    replacement = find_replacement(RootView(), lab.path("tree"))
    assert replacement.folders == (lab.path("tree/mpich-5.0.2/lib"),)
    assert replacement.home == lab.path("tree/mpich-5.0.2")


def test_a_stack_of_several_packages(lab):
    """EasyBuild's trees are deeper; views of one package are no second one."""
    mpich(lab, "deep/stack/software/MPICH/4.3.2-GCC-14.2.0")
    os.makedirs(lab.path("deep/stack/env/default"))
    os.symlink("../../software/MPICH/4.3.2-GCC-14.2.0/lib", lab.path("deep/stack/env/default/lib"))
    replacement = find_replacement(RootView(), lab.path("deep"))
    assert replacement.folders == (lab.path("deep/stack/software/MPICH/4.3.2-GCC-14.2.0/lib"),)
    mpich(lab, "deep/stack/software/MPICH/5.0.2-GCC-14.2.0")
    with pytest.raises(StackproofError) as caught:
        find_replacement(RootView(), lab.path("deep"))
    assert caught.value.reason is Reason.INVALID_VALUE
    assert "4.3.2-GCC-14.2.0" in str(caught.value)


def test_a_stack_below_an_mpi(lab):
    lab.library("net/stack/libfabric-2.1/lib/libfabric.so.1", defines=["fi_getinfo"])
    lab.library("net/lib/libnl-3.so.200", defines=["nl_connect"])
    replacement = require_use(find_replacement(RootView(), lab.path("net")))
    assert replacement.folders == (lab.path("net/stack/libfabric-2.1/lib"),)


@pytest.mark.parametrize(
    "words",
    [
        ("check", "{app}", "--with", "{prefix}"),
        ("container", "{app}", "--with", "{prefix}", "--form", "podman"),
        ("apply", "{app}", "--with", "{prefix}", "--wrapper", "{prefix}/wrapped"),
    ],
)
@pytest.mark.parametrize("prefix", ["sw", "other"])
def test_nothing_to_inject_is_refused(lab, capsys, words, prefix):
    """Neither a stack without an MPI nor a folder of other libraries \"works\"."""
    os.remove(lab.path("sw/stack/mpich-5.0.2/lib/libmpi.so.12"))
    lab.library("other/lib/libnuma.so.1", defines=["numa_node"])
    told = {"app": program(lab), "prefix": lab.path(prefix)}
    code, out, err = inject(capsys, *(word.format(**told) for word in words))
    assert (code, out) == (ExitCode.INVALID, "")
    assert "neither an MPI nor a network library" in err


def test_a_library_that_is_named_is_taken(lab):
    """Who names a file knows what it is for."""
    lab.library("other/lib/libnuma.so.1", defines=["numa_node"])
    require_use(find_replacement(RootView(), lab.path("other/lib/libnuma.so.1")))
