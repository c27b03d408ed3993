"""Constants that tell of which releases of an MPI a program is: some have them and others not.

What releases mean by them is in `knowledge/mpi-constants.yaml`; here is what code is searched for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

HANDLES = frozenset(
    {
        0x54000003, 0x5800000F, 0x4C000226, 0x4C00042E, 0x4C001032, 0x4C000147, 0x4C000248,
        0x4C000449, 0x4C00084A, 0x4C00104B, 0x4C00024C, 0x4C000246, 0x4C000247,
    }
)  # fmt: skip
"""Handles of the MPICH ABI that some releases have and others not; no accident in a program."""

AUTOMATIC = 0xFFFFFFFE
"""`MPI_BUFFER_AUTOMATIC`: (void *) -2, as far as it is followed."""

FUNCTIONS: Mapping[str, int] = {
    "mpi_comm_split_type": 1,
    "mpi_buffer_attach": 0,
    "mpi_buffer_attach_c": 0,
    "mpi_error_string": 0,
    "mpi_error_class": 0,
    "mpi_add_error_code": 0,
    "mpix_gpu_query_support": 0,
    "mpi_file_seek": 2,
    "mpi_file_seek_shared": 2,
    "mpi_comm_set_errhandler": 1,
    "mpi_win_set_errhandler": 1,
    "mpi_file_set_errhandler": 1,
    "mpi_session_set_errhandler": 1,
    "mpi_session_init": 1,
    "mpi_comm_create_from_group": 3,
    "mpi_comm_get_attr": 1,
    "mpi_attr_get": 1,
    "dlopen": 0,
    "dlmopen": 1,
    "dlsym": 1,
    "dlvsym": 1,
}
"""Functions with an argument whose values some releases have and others not; counted from 0.

Of the loader's it is a name, by which any of them may be reached.
"""

LIBRARY = r"(?:[\w.+$/{}-]*/)?[\w.+-]{1,80}?\.so(?:\.\d{1,4}){0,3}"
NAMES = {
    name: re.compile(LIBRARY if name.endswith("open") else r"\w+")
    for name in ("dlopen", "dlmopen", "dlsym", "dlvsym")
}
"""What a name must look like to be seen, by the function that it is handed to."""

CODES = frozenset({"mpi_error_string", "mpi_error_class"})
"""Those of them whose argument hardly ever is a constant: a code that MPI has returned."""

CALL = re.compile(r"P?(MPIX?_\w+)|p?(mpix?_\w+?)(?:_f08(?:ts)?)?_+")


def functions_with_constants(symbols: Iterable[str]) -> frozenset[str]:
    """Return the functions in `FUNCTIONS` that symbols of C and Fortran are."""
    matches = (CALL.fullmatch(symbol) for symbol in symbols)
    names = {(match[1] or match[2]).lower() for match in matches if match}
    return frozenset(names & FUNCTIONS.keys())


_SCANS = r"i?(?:all)?reduce(?:_local|_scatter(?:_block)?)?(?:_init)?|i?(?:ex)?scan(?:_init)?"
_OF_TYPES = (
    r"type_(?:size|(?:get_)?(?:true_)?extent|lb|ub|commit|dup)(?:_x)?",
    r"type_(?:get_name|set_name|get_attr|set_attr|get_envelope|get_contents|create_resized|c2f)",
)
_TO_SEND = (
    r"i?[bsr]?send(?:_init)?|i?m?recv(?:_init)?|p(?:send|recv)_init|i?sendrecv(?:_replace)?",
    r"i?bcast(?:_init)?|r?(?:put|get|accumulate|get_accumulate)|fetch_and_op|pack(?:_external_size)?",
)
_COLLECTIVES = r"i?(?:neighbor_)?(?:(?:all)?(?:gather|toall)|scatter|alltoall)(?:_init)?"
_BY_COUNTS = r"i?(?:neighbor_)?(?:(?:all)?gather|alltoall)v(?:_init)?"
_CREATORS = (
    r"type_(?:create_)?h?(?:vector|indexed(?:_block)?)|compare_and_swap|i?scatterv(?:_init)?"
)
_COUNTERS = r"type_contiguous|get_count|(?:get|status_set)_elements(?:_x)?|pack_size"
_TAKERS = tuple(
    (kind, re.compile(f"mpix?_(?:{names})"), frozenset(positions))
    for kind, names, positions in (
        (0x4C, "|".join(_OF_TYPES), (0,)),
        (0x4C, _COUNTERS, (1,)),
        (0x4C, "|".join(_TO_SEND), (2,)),
        (0x4C, _COLLECTIVES, (2, 5)),
        (0x4C, f"{_BY_COUNTS}|file_set_view", (2, 3)),
        (0x4C, rf"{_SCANS}|{_CREATORS}|file_(?:i?read|i?write)(?!_at)\w*", (3,)),
        (0x4C, r"file_(?:i?read|i?write)_at\w*", (4,)),
        (0x4C, "r?get_accumulate|type_create_subarray|unpack", (5,)),
        (0x58, _SCANS, (4,)),
        (0x58, "fetch_and_op", (5,)),
        (0x54, "(?:comm|win|file|session)_set_errhandler|errhandler_set|session_init", (1,)),
        (0x54, "comm_create_from_group", (3,)),
    )
)
"""Where functions take datatypes, operations and error handlers among their first six arguments, by
the first byte of a handle (MPI 4.1, appendix A). Other registers may hold one all the same."""


def is_telling(function: str, position: int, value: int) -> bool:
    """Return true for a value that a release may lack, at a place where it is an argument."""
    if value not in HANDLES:
        return FUNCTIONS.get(function) == position and function not in NAMES
    name = function.removesuffix("_c")
    return any(
        value >> 24 == kind and position in positions and pattern.fullmatch(name)
        for kind, pattern, positions in _TAKERS
    )
