from pathlib import Path

import pytest

from stackproof.core.command import EnvPatch
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.noun import from_data, to_data
from stackproof.mpi import families
from stackproof.mpi.families import record
from stackproof.mpi.transports import support

COVERS = (
    "mpi/families/cray_mpich/__init__.py",
    "mpi/families/intel_mpi/__init__.py",
    "mpi/families/mpich/__init__.py",
    "mpi/families/openmpi/__init__.py",
    "mpi/families/mvapich/__init__.py",
    "mpi/families/record.py",
)

CAPTURES = Path(__file__).parents[1] / "captures" / "launch"


@pytest.mark.parametrize(
    ("version", "specifier"),
    [
        (None, ""),
        ("5.0.11", "==5.0.11"),
        ("5.0", "==5.0.*"),
        ("5", "==5.*"),
        ("5.0.1.post1", "==5.0.1.post1"),
        ("5.1rc1", "==5.1rc1"),
    ],
)
def test_version_becomes_specifier(version, specifier):
    assert record.specifier_of(version) == specifier


@pytest.mark.parametrize("version", ["", "latest", "5.0.x", ">=5", "5.0.*", "5 .0", "v5.0"])
def test_what_is_no_version_is_refused(version):
    with pytest.raises(StackproofError) as caught:
        record.specifier_of(version)
    assert caught.value.reason is Reason.INVALID_VALUE


def test_intel_runtime_and_headers_have_one_version():
    assert [str(r) for r in families.get("intel-mpi").wheels(None)] == [
        "impi-rt==2021.18.1",
        "impi-devel==2021.18.1",
    ]
    assert [str(r) for r in families.get("intel-mpi").wheels("2021.17")] == [
        "impi-rt==2021.17.*",
        "impi-devel==2021.17.*",
    ]


def test_cray_mpich_has_no_wheel():
    assert families.get("cray-mpich").wheels("8.1.28") == ()


@pytest.mark.parametrize(
    ("family", "version"),
    [
        ("openmpi", "5.0.11"),
        ("mpich", "5.0.2"),
        ("intel-mpi", "2021.18.1"),
        ("cray-mpich", "8.1.28.2"),
    ],
)
def test_only_its_own_family_knows_a_library(family, version):
    text = (CAPTURES / f"library-version-{family}-{version}.txt").read_text()
    assert {name: f.identify(text) for name, f in families.REGISTRY.items()} == {
        name: (version if name == family else None) for name in families.REGISTRY
    }
    assert families.identify(text) == (family, version)


@pytest.mark.parametrize(
    "text", ["", "\x00\xff nonsense\n", "LAM/MPI Version: 7.1", "based on MPICH Version: 3.4"]
)
def test_foreign_library_is_nobodys(text):
    assert families.identify(text) is None


@pytest.mark.parametrize(
    ("text", "version"),
    [
        # https://github.com/JuliaParallel/MPI.jl, test of version strings
        ("MVAPICH2 Version      :\t2.3.6\nMVAPICH2 Release date :\tMon March 29", "2.3.6"),
        ("MVAPICH Version:        4.1\nMVAPICH Release date:   Tue", "4.1"),
    ],
)
def test_mvapich_says_its_release_in_two_forms(text, version):
    assert families.identify(text) == ("mvapich", version)


def test_mvapich_takes_a_transport_as_mpich_does_from_release_4_on():
    mvapich, mpich = families.get("mvapich").paths, families.get("mpich").paths
    assert {name: path.set for name, path in mvapich.items()} == {
        name: mpich[name].set for name in ("shm", "tcp", "cxi")
    }
    assert support.forced("tcp", "mvapich", "4.1")
    assert not support.forced("tcp", "mvapich", "2.3.7")


@pytest.mark.parametrize(
    ("names", "path", "content", "family"),
    [
        (["libmpi.so.40", "libopen-pal.so.80"], "/a/libmpi.so.40", b"", "openmpi"),
        (["libmpi.so.12"], "/opt/cray/pe/mpich/8.1.28/lib/libmpi.so.12", b"", "cray-mpich"),
        (["libmpi.so.12"], "/a/libmpi.so.12", b"..I_MPI_FABRICS..", "intel-mpi"),
        (["libmpi.so.12"], "/a/libmpi.so.12", b"..MVAPICH Version..", "mvapich"),
        (["libmpi.so.12"], "/a/libmpi.so.12", b"..MPICH Version..", "mpich"),
    ],
)
def test_marks_tell_a_library(names, path, content, family):
    assert families.of_library(names, path, lambda: content) == family


@pytest.mark.parametrize(
    ("abi", "release", "words", "maker"),
    [
        ("openmpi", "5.0.8", (), ("openmpi", False)),
        ("mpich", "4.3.1", (), ("mpich", False)),
        ("mpich", "2021.18", (), ("intel-mpi", False)),
        ("mpich", "4.1", ("MVAPICH",), ("mvapich", True)),
        ("standard", "5.0.2", (), ("mpich", False)),
        ("standard", "2021.19", (), ("intel-mpi", False)),
    ],
)
def test_constants_tell_the_maker(abi, release, words, maker):
    assert families.maker_of(abi, release, words) == maker


def test_what_is_made_of_another_is_asked_before_it():
    names = [family.name for family in families.by_likeness()]
    assert names[-1] == "mpich"
    assert names.index("openmpi") > names.index("mvapich")


def test_unknown_family_is_unsupported():
    with pytest.raises(StackproofError) as caught:
        families.get("lam")
    assert caught.value.reason is Reason.UNSUPPORTED


@pytest.mark.parametrize(
    ("version", "wanted", "same"),
    [
        ("5.0.11", "5.0.11", True),
        ("5.0.11", "5.0", True),
        ("5.0.1", "5.0.11", False),
        ("5.0.11", "5.0.1", False),
        ("5.0.1", "5.0.1.post1", True),
        ("8.1.28.2", "8.1.28", True),
        ("2021.17", "2021.17.2", True),
        ("2021.17", "2021.18.1", False),
    ],
)
def test_same_release(version, wanted, same):
    assert families.same_release(version, wanted) is same


def test_environment_puts_the_tree_before_everything_else():
    patch = families.get("mpich").environment("/opt/stack")
    env = patch.apply({"PATH": "/usr/bin", "LD_LIBRARY_PATH": "/usr/local/lib"})
    assert env["PATH"] == "/opt/stack/bin:/usr/bin"
    assert env["LD_LIBRARY_PATH"] == "/opt/stack/lib:/usr/local/lib"


# --------------------------------------------------------------------------------------------------
# What every MPI family keeps.

FAMILIES = list(families.REGISTRY.values())
each_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


@each_family
def test_an_exact_version_is_asked_for_exactly(family):
    assert {r.specifier for r in family.wheels("1.2.3")} <= {"==1.2.3"}


@each_family
def test_environment_names_the_prefix_and_nothing_else_absolute(family):
    patch = family.environment("/mnt/stack")
    values = [*patch.set.values(), *(e for es in patch.prepend.values() for e in es)]
    assert values
    assert all(v == "/mnt/stack" or v.startswith("/mnt/stack/") for v in values)
    assert "/mnt/stack/bin" in patch.prepend["PATH"]
    assert from_data(EnvPatch, to_data(patch)) == patch
