from pathlib import Path

import pytest

from stackproof.core.errors import Reason, StackproofError
from stackproof.mpi import families
from stackproof.mpi.families import versions

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
    assert versions.specifier(version) == specifier


@pytest.mark.parametrize("version", ["", "latest", "5.0.x", ">=5", "5.0.*", "5 .0", "v5.0"])
def test_what_is_no_version_is_refused(version):
    with pytest.raises(StackproofError) as caught:
        versions.specifier(version)
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


@pytest.mark.parametrize("text", ["", "MVAPICH Version: 4.0", "based on MPICH Version: 3.4"])
def test_foreign_library_is_nobodys(text):
    assert families.identify(text) is None


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
