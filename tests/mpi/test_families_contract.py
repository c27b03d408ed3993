"""What every MPI family keeps."""

import pytest

from stackproof.core.command import EnvPatch
from stackproof.core.noun import from_data, to_data
from stackproof.mpi import families

COVERS = (
    "mpi/families/cray_mpich/__init__.py",
    "mpi/families/intel_mpi/__init__.py",
    "mpi/families/mpich/__init__.py",
    "mpi/families/openmpi/__init__.py",
    "mpi/families/mvapich/__init__.py",
    "mpi/families/record.py",
)

FAMILIES = list(families.REGISTRY.values())
each_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


@each_family
def test_registered_under_its_name(family):
    assert families.REGISTRY[family.name] is family
    assert families.get(family.name) is family


@each_family
def test_attributes(family):
    assert family.title
    assert family.abi in {"mpich", "openmpi"}
    assert family.compiler == "mpicc"


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


@each_family
def test_no_family_knows_garbage(family):
    assert family.identify("") is None
    assert family.identify("\x00\xff nonsense\n" * 10) is None
