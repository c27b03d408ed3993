"""MPIs that are asked what they are: whole ones, moved ones, broken ones, and two in one place."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from installedmpis import INTEL, MPICH, OPEN_MPI, installed
from mpitrees import Trees
from need import installed_mpi, need
from refusals import refusal
from stackproof.bench.effects.installation import (
    environments,
    of_prefix,
    parse_probe,
    siblings,
    suffix_of,
)
from stackproof.core.errors import Reason, StackproofError


def refused(path: object) -> StackproofError:
    return refusal(of_prefix, str(path))


def test_names_of_wrappers() -> None:
    assert suffix_of("/usr/bin/mpicc") == ""
    assert suffix_of("/usr/bin/mpicc.mpich") == ".mpich"
    assert suffix_of("/opt/my.dir/bin/mpiicx") == ""
    assert siblings("/usr/bin/mpicc.openmpi") == {
        "c++": "/usr/bin/mpicxx.openmpi",
        "fortran": "/usr/bin/mpifort.openmpi",
    }
    assert siblings("/opt/cray/bin/cc") == {
        "c++": "/opt/cray/bin/CC", "fortran": "/opt/cray/bin/ftn"
    }  # fmt: skip


def test_environments_begin_with_none() -> None:
    family, bare = environments("/usr")[0]
    assert (family, bare.apply({})) == ("", {})
    assert environments("/opt/x")[0][1].apply({}) == {"PATH": "/opt/x/bin"}
    assert {name for name, _ in environments("/opt/x")} > {"openmpi", "intel-mpi"}


def test_the_answer_of_the_probe() -> None:
    assert parse_probe("library /a b/libmpi.so.12\nMPICH Version: 5\nmore\n\0") == (
        "/a b/libmpi.so.12",
        "MPICH Version: 5\nmore",
    )
    assert parse_probe("") == ("", "")


@pytest.mark.parametrize(
    ("said", "family", "version"),
    [(MPICH, "mpich", "5.0.2"), (OPEN_MPI, "openmpi", "5.0.11"), (INTEL, "intel-mpi", "2021.18")],
)
def test_a_prefix_is_asked(tmp_path: Path, said: str, family: str, version: str) -> None:
    need("gcc")
    prefix = installed(tmp_path / "mpi", said=said)
    found = of_prefix(str(prefix))
    assert (found.family, found.version, found.prefix) == (family, version, str(prefix))
    assert found.library == f"{prefix}/lib/libmpi.so.12"
    assert found.said == said.splitlines()[0]
    assert found.wrappers == {"c": f"{prefix}/bin/mpicc"}
    assert found.mpiexec == ""
    assert found == of_prefix(f"{prefix}/bin/mpicc")


def test_another_library_is_another_identity(tmp_path: Path) -> None:
    need("gcc")
    prefix = installed(tmp_path / "mpi")
    before = of_prefix(str(prefix))
    installed(prefix, said=MPICH.replace("none", "later"))
    after = of_prefix(str(prefix))
    assert before.version == after.version
    assert before.identity != after.identity
    assert before.library_sha256 != after.library_sha256


def test_one_that_was_moved_gets_its_family_s_variables(tmp_path: Path) -> None:
    need("gcc")
    prefix = installed(tmp_path / "impi", said=INTEL, needed="I_MPI_ROOT", rpath=False)
    assert of_prefix(str(prefix)).env.apply({})["I_MPI_ROOT"] == str(prefix)
    other = installed(tmp_path / "mpi", said=MPICH, needed="I_MPI_ROOT")
    assert refused(other).reason is Reason.BUILD_FAILED  # the variables of another family


def test_what_is_no_mpi(tmp_path: Path) -> None:
    assert refused(tmp_path / "gone").reason is Reason.FILE_MISSING
    assert refused(tmp_path).reason is Reason.NO_MPI
    need("gcc")
    unknown = installed(tmp_path / "other", said="My MPI 1.0")
    assert "My MPI 1.0" in str(refused(unknown))


def test_a_broken_wrapper_says_why(tmp_path: Path) -> None:
    need("gcc")
    lacking = installed(tmp_path / "lacking")
    (lacking / "include" / "mpi.h").unlink()
    error = refused(lacking)
    assert error.reason is Reason.BUILD_FAILED
    assert "mpi.h" in str(error)
    needs = installed(tmp_path / "needs", needed="SET_BY_A_MODULE")
    assert "SET_BY_A_MODULE" in str(refused(needs))


def test_a_library_of_another_mpi_is_found_out(tmp_path: Path) -> None:
    """As where a system's MPI has the name of one that is elsewhere, and the loader takes it."""
    need("gcc")
    other = installed(tmp_path / "other", library="libsame.so.12")
    moved = installed(tmp_path / "moved", library="libsame.so.12", rpath=False, said=OPEN_MPI)
    wrapper = moved / "bin" / "mpicc"
    plain = wrapper.read_text()
    wrapper.write_text(plain.replace("exec gcc", f"exec gcc -Wl,-rpath,{other}/lib"))
    found = of_prefix(str(moved))  # by LD_LIBRARY_PATH, which comes before that
    assert found.library == f"{moved}/lib/libsame.so.12"
    assert found.env.apply({})["LD_LIBRARY_PATH"] == f"{moved}/lib"
    first = f"exec gcc -Wl,--disable-new-dtags,-rpath,{other}/lib"
    wrapper.write_text(plain.replace("exec gcc", first))
    error = refused(moved)
    assert error.reason is Reason.WRONG_MPI
    assert f"{other}/lib/libsame.so.12" in str(error)
    shutil.rmtree(moved / "lib")  # a prefix whose libraries lie elsewhere, where its wrapper says
    (moved / "lib").mkdir()
    (moved / "lib" / "libsame.so.12").symlink_to(other / "lib" / "libsame.so.12")
    assert of_prefix(str(moved)).library == f"{other}/lib/libsame.so.12"


def test_two_mpis_in_one_prefix_must_be_told_apart(tmp_path: Path) -> None:
    need("gcc")
    prefix = installed(tmp_path / "usr", said=MPICH, suffix=".mpich")
    installed(prefix, said=OPEN_MPI, suffix=".openmpi", library="libmpi.so.40")
    (prefix / "bin" / "mpicc").symlink_to("mpicc.openmpi")
    error = refused(prefix)
    assert error.reason is Reason.INVALID_VALUE
    assert f"{prefix}/bin/mpicc.mpich" in str(error)
    assert of_prefix(f"{prefix}/bin/mpicc.mpich").family == "mpich"
    assert of_prefix(f"{prefix}/bin/mpicc.openmpi").family == "openmpi"


@pytest.mark.battery
def test_a_launcher_of_another_mpi(trees: Trees, tmp_path: Path) -> None:
    """What mixes two MPIs would start single ranks, each the only one of its world."""
    prefix = installed(tmp_path / "mixed", said=MPICH)
    (prefix / "bin" / "mpiexec").symlink_to(trees["openmpi"].prefix / "bin" / "mpiexec")
    error = refused(prefix)
    assert error.reason is Reason.WRONG_MPI
    assert "prte" in str(error)


@pytest.mark.battery
@pytest.mark.parametrize("family", ["openmpi", "mpich", "intel-mpi"])
def test_developers_trees_where_they_lie(trees: Trees, family: str) -> None:
    tree = trees[family]
    found = of_prefix(str(tree.prefix))
    assert found.family == family
    assert tree.version.startswith(found.version)
    assert found.mpiexec.startswith(f"{tree.prefix}/bin/mpiexec")
    assert found.library.startswith(f"{tree.prefix}/lib/")


def test_mpis_of_the_distribution() -> None:
    """As packages have them: two in one prefix, told apart by the names of their wrappers."""
    need("installed-mpis")
    found = {name: of_prefix(installed_mpi(name)) for name in ("mpich", "openmpi")}
    assert {name: one.family for name, one in found.items()} == {
        "mpich": "mpich", "openmpi": "openmpi"
    }  # fmt: skip
    assert found["mpich"].library != found["openmpi"].library
    assert all(Path(one.mpiexec).exists() for one in found.values())
    assert found["mpich"].mpiexec != found["openmpi"].mpiexec
