"""Constants of the standard ABI that released libraries do not agree on.

The MPI Forum's header (mpi-forum/mpi-abi-stubs, `mpi.h`) counts as the standard; `mpi_abi.h` of
Intel MPI 2021.18 and 2021.19 has its values, that of MPICH 5.0 has others for the nine below. All
other constants of the three headers are the same. A program holds the values of the header that it
was compiled with, and nothing resolves or fails at its start when the library means others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Constants that are handed to the same functions: by name, their values in a library."""

    functions: frozenset[str]
    standard: Mapping[str, int]
    early: Mapping[str, int]


def _functions(*names: str) -> frozenset[str]:
    return frozenset((*names, *(f"P{name}" for name in names)))


GROUPS = (
    Group(
        functions=_functions("MPI_File_seek", "MPI_File_seek_shared"),
        standard={"MPI_SEEK_SET": 401, "MPI_SEEK_CUR": 402, "MPI_SEEK_END": 403},
        early={"MPI_SEEK_SET": 403, "MPI_SEEK_CUR": 401, "MPI_SEEK_END": 402},
    ),
    Group(
        functions=_functions(
            "MPI_Comm_set_errhandler",
            "MPI_Win_set_errhandler",
            "MPI_File_set_errhandler",
            "MPI_Session_set_errhandler",
            "MPI_Session_init",
            "MPI_Comm_create_from_group",
            "MPI_Intercomm_create_from_groups",
        ),
        standard={"MPI_ERRORS_RETURN": 0x142, "MPI_ERRORS_ABORT": 0x143},
        early={"MPI_ERRORS_RETURN": 0x143, "MPI_ERRORS_ABORT": 0x142},
    ),
    Group(
        functions=_functions("MPI_Comm_get_attr", "MPI_Attr_get"),
        standard={"MPI_UNIVERSE_SIZE": 505, "MPI_APPNUM": 506, "MPI_LASTUSEDCODE": 507},
        early={"MPI_UNIVERSE_SIZE": 507, "MPI_APPNUM": 505, "MPI_LASTUSEDCODE": 506},
    ),
)

STANDARD, EARLY = "standard", "early"


def edition_of(release: str) -> str:
    """Return which values a library of a release has, empty where nobody has looked.

    MPICH counts from 3 on, Intel MPI by years.
    """
    if release.startswith("5.0."):
        return EARLY
    return STANDARD if release.startswith(("2021.18.", "2021.19.")) else ""
