"""What was seen to the loader that programs start with: a machine's, or that which goes along."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from stackproof.core.errors import Location, Reason, fail
from stackproof.linking.effects import runpath
from stackproof.pack.effects.survey import Survey
from stackproof.pack.layout import floor_of, is_loader
from stackproof.pack.model import LOADER, Loading


def loading_of(survey: Survey, programs: Sequence[str]) -> Loading:
    """Return how programs of the pack find a loader that knows what they need.

    The loader that they name goes along. Raises `StackproofError` (UNSUPPORTED) for a program of a
    newer C library than that of this machine.
    """
    names = [survey.elves[path].interpreter for path in programs if path in survey.elves]
    interpreter = next(filter(is_loader, names), "")
    if interpreter:
        survey.c_library.setdefault(posixpath.basename(interpreter), interpreter)
    nodes = [need.name for elf in survey.elves.values() for need in elf.version_needs]
    for path in (*survey.libraries.values(), *survey.spare.values()):
        nodes += [need.name for need in runpath.read(path).version_needs]
    floor = floor_of(nodes)
    own = own_floor(survey)
    if floor > own:
        asks = next(
            path
            for path, elf in survey.elves.items()
            if floor_of(need.name for need in elf.version_needs) == floor
        )
        raise fail(
            Reason.UNSUPPORTED,
            f"`{asks}` needs glibc 2.{floor}, and this machine has 2.{own}, which goes along",
            where=Location(file=asks),
            hint="make the pack on a machine with that glibc, or one that is newer",
        )
    return Loading(
        floor=floor,
        interpreter=interpreter,
        own=f"{LOADER}/{posixpath.basename(interpreter)}",
        libraries=tuple(
            dict.fromkeys(
                (
                    f"/lib/{survey.machine.architecture}-linux-gnu/libc.so.6",
                    f"/usr/lib/{survey.machine.architecture}-linux-gnu/libc.so.6",
                    "/lib64/libc.so.6",
                    "/usr/lib64/libc.so.6",
                    "/usr/lib/libc.so.6",
                )
            )
        ),
        spare=_spare_of(survey),
    )


def _spare_of(survey: Survey) -> dict[str, tuple[str, ...]]:
    """Return libraries for RDMA with the versions that programs of the pack need of each.

    Only those that this machine's library defines: what an image asks for is any text.
    """
    spare = {}
    for name, path in sorted(survey.spare.items()):
        have = {node.name for node in runpath.read(path).version_definitions}
        spare[name] = tuple(sorted(have & survey.asked.get(name, set())))
    return spare


def own_floor(survey: Survey) -> int:
    """Return the x of the newest GLIBC_2.x of the C library that goes along, 0 without one."""
    library = survey.c_library.get("libc.so.6")
    if library is None:
        return 0
    return floor_of(node.name for node in runpath.read(library).version_definitions)
