"""A program of this machine to the MPI library that it takes although an image has an MPI.

Nothing of it is started: files are read within the limits of the ELF reader.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence

from stackproof.core import harmless
from stackproof.core.errors import StackproofError
from stackproof.linking.effects.view import RootView, this_machine
from stackproof.linking.elf import read_outline
from stackproof.linking.loader import load_program, settings_of
from stackproof.mpi import abi, families
from stackproof.mpi.abi import Abi, LibraryRole


def describe_other(
    program: str,
    mpi: Mapping[str, str],
    points: Sequence[str],
    environment: Mapping[str, str],
    start: Sequence[str],
) -> str:
    """Return the MPI that a program takes in the place of an image's, and what to do about it.

    It is empty where there is none. `mpi` is of the image, `points` are the mount points, and
    `start` is the command that puts the image's MPI under the program.
    """
    family = mpi["family"]
    if family not in families.REGISTRY:  # an image may say anything
        return ""
    view, setting = RootView(reader=read_outline), settings_of(environment)
    try:
        closure = load_program(view, program, machine=this_machine(), setting=setting)
    except StackproofError:  # whoever starts it says what is wrong with it
        return ""
    for edge in closure.edges:
        kind, role = abi.abi_of_name(edge.name) or ("", None)
        if role is not LibraryRole.MAIN:
            continue
        path = "" if edge.to is None else closure.objects[edge.to].file.path
        if path.startswith(tuple(f"{os.path.realpath(point)}/" for point in points)):
            return ""
        taken = f"takes {edge.name} from {path}" if path else f"finds no {edge.name}"
        if kind not in {Abi.STANDARD, families.abi_of(family, mpi["version"])}:
            more = "and the image's MPI is of another ABI: compile it with the image's mpicc"
            return harmless.line(f"{taken}, {more}")
        more = "not from the image; to run it on the image's MPI"
        return harmless.line(f"{taken}, {more}: `{shlex.join(start)}`")
    return ""
