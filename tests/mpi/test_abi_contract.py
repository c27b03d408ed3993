"""What every MPI ABI family keeps."""

import pytest

from stackproof.linking.elf import ElfFile, Import
from stackproof.linking.elf.constants import Traces
from stackproof.mpi import abi
from stackproof.mpi.abi import MPICH_BLOCKS, OPENMPI_BLOCKS, Abi, LibraryRole

COVERS = ("mpi/abi.py",)

FAMILIES = list(abi.FAMILIES.values())
each_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


def elf(*, exports=(), imports=(), needed=(), soname="", copies=()):
    return ElfFile(
        bits=64, little_endian=True, machine="x86_64", kind=3, dynamic=True, soname=soname,
        exports=dict.fromkeys(exports, 1), needed=tuple(needed), copies=tuple(copies),
        imports=tuple(Import(name, 0, False, False) for name in imports),
    )  # fmt: skip


LIBRARIES = {
    "mpich": elf(exports=["MPI_Init", "MPII_Win_get_attr"], soname="libmpi.so.12"),
    "openmpi": elf(exports=["MPI_Init", "ompi_mpi_comm_world"], soname="libmpi.so.40"),
    "openmpi6": elf(exports=["MPI_Init"], soname="libmpi.so.40", needed=["libopen_mpi.so.40"]),
    "standard": elf(exports=["MPI_Init", "MPI_Abi_get_version"], soname="libmpi_abi.so.1"),
}
PROGRAMS = {
    "mpich": (elf(imports=["MPI_Init"]), Traces(handles=(0x4C000405, 0x4C00080B))),
    "openmpi": (elf(imports=["MPI_Init", "ompi_mpi_int"]), Traces()),
    "openmpi6": (elf(imports=["MPI_Init", "ompi_mpi_int"]), Traces()),
    "standard": (elf(imports=["MPI_Init"], needed=["libmpi_abi.so.1"]), Traces()),
}


@each_family
def test_its_library_is_told_from_all_others(family):
    for name, library in LIBRARIES.items():
        found = abi.family_of(library)
        assert (found[0] is family) == (name == family.name)
        assert found[1]


@each_family
def test_its_program_is_told_from_those_of_other_abis(family):
    for name, (program, traces) in PROGRAMS.items():
        same = abi.FAMILIES[name].abi == family.abi
        assert bool(family.used_by(program, traces)) == same


@each_family
def test_nothing_is_seen_in_other_files(family):
    plain = elf(exports=["main"], imports=["printf"], soname="libc.so.6", needed=["ld.so"])
    assert family.exported_by(plain) == ""
    assert family.used_by(plain, Traces()) == ""
    # One constant may stand there by accident.
    assert family.used_by(plain, Traces(handles=(0x4C000405,))) == ""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("libmpi.so.12", (Abi.MPICH, LibraryRole.MAIN)),
        ("libmpich.so.12", (Abi.MPICH, LibraryRole.MAIN)),
        ("libmpi_cray.so.12", (Abi.MPICH, LibraryRole.MAIN)),
        ("libmpi_gnu_123.so.12", (Abi.MPICH, LibraryRole.MAIN)),
        ("libmpifort.so.12", (Abi.MPICH, LibraryRole.FORTRAN)),
        ("libmpichfort.so.12", (Abi.MPICH, LibraryRole.FORTRAN)),
        ("libmpi.so.40", (Abi.OPENMPI, LibraryRole.MAIN)),
        ("libmpi_mpifh.so.40", (Abi.OPENMPI, LibraryRole.FORTRAN)),
        ("libmpi_usempif08.so.40", (Abi.OPENMPI, LibraryRole.FORTRAN)),
        ("libmpi_usempi_ignore_tkr-gfortran.so.40", (Abi.OPENMPI, LibraryRole.FORTRAN)),
        ("libmpi_cxx.so.40", (Abi.OPENMPI, LibraryRole.CXX)),
        ("libopen-pal.so.80", (Abi.OPENMPI, LibraryRole.INNER)),
        ("libmpi_abi.so.1", (Abi.STANDARD, LibraryRole.MAIN)),
        ("libmpifort_abi.so.1", (Abi.STANDARD, LibraryRole.FORTRAN)),
        ("libfabric.so.1", None),
        ("libmpi.so", None),
        ("libmpi.so.13", None),
    ],
)
def test_what_names_promise(name, expected):
    assert abi.abi_of_name(name) == expected


@pytest.mark.parametrize(
    ("name", "releases"),
    [
        ("libopen-rte.so.40", "Open MPI 3 or 4"),
        ("libmpi_cxx.so.40", "Open MPI 3 or 4"),
        ("libopen-pal.so.40", "Open MPI 3 or 4"),
        ("libopen-pal.so.20", "Open MPI 2"),
        ("libmpi.so.20", "Open MPI 2"),
        ("libmpi.so.1", "Open MPI 1"),
        ("libmpi_f77.so.1", "Open MPI 1"),
        ("libmpi_usempif08.so.0", "Open MPI 1"),
        ("libopen-pal.so.80", ""),
        ("libmpi.so.40", ""),
        ("libmpi_mpifh.so.40", ""),
        ("libmpi.so.12", ""),
        ("libmpi_cxx.so", ""),
        ("libfabric.so.1", ""),
    ],
)
def test_parts_that_open_mpi_5_lacks(name, releases):
    assert abi.releases_of_part(name) == releases


@pytest.mark.parametrize("name", ["mpi_init_", "mpi_send", "mpi_comm_rank__", "MPI_SEND"])
def test_fortran_calls(name):
    assert abi.is_fortran_call(name)


@pytest.mark.parametrize("name", ["MPI_Send", "PMPI_Init", "mpich_x", "ompi_mpi_int", "printf"])
def test_other_calls(name):
    assert not abi.is_fortran_call(name)


def test_fortran_blocks_tell_the_family():
    assert not MPICH_BLOCKS & OPENMPI_BLOCKS
    for blocks, wanted in ((MPICH_BLOCKS, "mpich"), (OPENMPI_BLOCKS, "openmpi")):
        for block in blocks:
            program = elf(imports=["mpi_init_"], exports=[block])
            shown = {f.abi for f in FAMILIES if f.used_by(program, Traces())}
            assert shown == {wanted}
