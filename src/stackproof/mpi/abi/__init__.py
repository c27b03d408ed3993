"""MPI ABI families: recognised by what is inside a file, never by its name alone.

A SONAME says neither enough nor the truth: `libmpi.so.12` may be given to anything, Debian calls
MPICH `libmpich.so.12`, and Open MPI keeps one SONAME over changes that matter. What a library
exports, and which constants a program was compiled with, cannot be given by a link.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Protocol

from stackproof.linking.elf import ElfFile
from stackproof.linking.elf.constants import Traces
from stackproof.mpi.abi.fortran import is_fortran_call
from stackproof.mpi.abi.mpich import MpichAbi
from stackproof.mpi.abi.openmpi import OpenMpiAbi, releases_of_part
from stackproof.mpi.abi.openmpi6 import OpenMpi6Abi
from stackproof.mpi.abi.parts import LibraryRole
from stackproof.mpi.abi.standard import StandardAbi

__all__ = [
    "FAMILIES",
    "Abi",
    "AbiFamily",
    "LibraryRole",
    "abi_of_name",
    "family_of",
    "is_fortran_call",
    "is_plain",
    "releases_of_part",
]


class Abi(StrEnum):
    """What a program is compiled for."""

    MPICH = "mpich"
    OPENMPI = "openmpi"
    STANDARD = "standard"


class AbiFamily(Protocol):
    """Libraries that share one binary interface and one way of being put together."""

    @property
    def name(self) -> str:
        """Return the name in the registry."""

    @property
    def title(self) -> str:
        """Return the name as people write it."""

    @property
    def abi(self) -> str:
        """Return the ABI of programs that it runs; a value of `Abi`."""

    def exported_by(self, elf: ElfFile) -> str:
        """Return what shows that a main library is of this family, empty when nothing does."""

    def used_by(self, elf: ElfFile, traces: Traces) -> str:
        """Return what shows that an object was compiled for this ABI, empty when nothing does."""


_OWN_START = frozenset({"PMPI_Init", "PMPI_Init_thread"})
_MEMBERS: tuple[AbiFamily, ...] = (StandardAbi(), OpenMpi6Abi(), OpenMpiAbi(), MpichAbi())
FAMILIES: dict[str, AbiFamily] = {family.name: family for family in _MEMBERS}


def family_of(elf: ElfFile) -> tuple[AbiFamily, str] | None:
    """Return the family of a main library and what shows it, None for no MPI or an unknown one."""
    for family in FAMILIES.values():
        shown = family.exported_by(elf)
        if shown:
            return None if calls_below(elf) else (family, shown)
    return None


def calls_below(elf: ElfFile) -> bool:
    """Return whether an object puts itself before an MPI: what it defines calls MPI's own (PMPI).

    A tool that is linked into a program makes it define `MPI_Init`, and the program may have a copy
    of a handle besides: neither makes it an MPI.
    """
    return any(entry.name in _OWN_START for entry in elf.imports)


_PLAIN_NAME = re.compile(r"libmpi(?:ch)?\.so")


def is_plain(name: str) -> bool:
    """Return True for the name of a main library for linkers, which any MPI may have."""
    return _PLAIN_NAME.fullmatch(name) is not None


def abi_of_name(name: str) -> tuple[Abi, LibraryRole] | None:
    """Return which ABI and which part of an MPI the name of a library promises, None if none."""
    for abi, parts in (
        (Abi.STANDARD, StandardAbi.PARTS),
        (Abi.MPICH, MpichAbi.PARTS),
        (Abi.OPENMPI, OpenMpiAbi.PARTS),
    ):
        for part, pattern in parts.items():
            if pattern.fullmatch(name):
                return abi, part
    return None
