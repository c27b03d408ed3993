"""Libraries to all that must be carried along with them, down to what stays the machine's own.

Folders of EESSI and artefacts are filled with what is gathered here.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Mapping

from msgspec import Struct, field

from stackproof.core.errors import Location, Problem, Reason, StackproofError
from stackproof.linking.loader import Closure, FileView, MappedObject

# What glibc installs (shlib-versions): it must be the one of the program's own loader.
_C_LIBRARY = re.compile(
    r"(?:ld-linux[\w-]*|ld64|libc|libm|libmvec|libpthread|libdl|librt|libutil|libresolv|libanl|"
    r"libnsl|libnss_\w+|libBrokenLocale|libthread_db)\.so\.\d+"
)
# These belong to the driver that the kernel runs; EESSI has a place of their own for them.
_DRIVERS = re.compile(r"lib(?:cuda|nvidia-[\w-]+)\.so\.\d+")
# What opens plug-ins in a folder beside itself, and that folder: UCX (ucs/sys/module.c), libfabric.
_BESIDE = {"libucs.so.": "ucx", "libfabric.so.": "libfabric"}


def stays(name: str) -> bool:
    """Return whether a library always is the machine's own: the C library's, or a driver's."""
    base = posixpath.basename(name)
    return bool(_C_LIBRARY.fullmatch(base) or _DRIVERS.fullmatch(base))


def problem(message: str, file: str, hint: str) -> Problem:
    """Return a reason for which something cannot be carried along."""
    return Problem(
        reason=Reason.INJECTION_FAILS, message=message, where=Location(file=file), hint=hint
    )


class Gathered(Struct, kw_only=True):
    """Objects that some files load, by SONAME; names that stay the machine's; and problems.

    `stays` tells by its name whether a library is the machine's.
    """

    stays: Callable[[str], bool]
    found: dict[str, MappedObject] = field(default_factory=dict)
    left: set[str] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)

    def take(self, closure: Closure, own: Collection[str] = ()) -> None:
        """Take in a library with all that it needs; `own` are SONAMEs that come along anyway."""
        for edge in closure.missing:
            if not self.stays(edge.name) and edge.name not in own:
                by = closure.objects[edge.by].path
                self.problems.append(problem(f"`{edge.name}` is not found", by, "install it"))
        for loaded in closure.objects:
            soname = loaded.soname
            if self.stays(soname):
                self.left.add(soname)
                continue
            other = self.found.setdefault(soname, loaded)
            if other.file.identity != loaded.file.identity:
                text = f"`{loaded.path}` and `{other.path}` both are `{soname}`"
                hint = "remove one from its search path"
                self.problems.append(problem(text, loaded.path, hint))

    def check(self) -> None:
        """Raise `StackproofError` (INJECTION_FAILS) with all that is in the way."""
        if self.problems:
            raise StackproofError(*dict.fromkeys(self.problems))

    def missing(self, closure: Closure) -> str:
        """Return the words for libraries that a plug-in does not find; empty where it finds all."""
        names = dict.fromkeys(edge.name for edge in closure.missing if not self.stays(edge.name))
        return f"{', '.join(f'`{name}`' for name in names)} not found" if names else ""


def find_beside(view: FileView, libraries: Mapping[str, MappedObject]) -> Iterator[tuple[str, str]]:
    """Yield what lies in the folders beside UCX and libfabric: the folder's name, and the path.

    They look for plug-ins there, which must move with them.
    """
    for soname, loaded in tuple(libraries.items()):
        for start, name in _BESIDE.items():
            if soname.startswith(start):
                folder = posixpath.join(posixpath.dirname(loaded.file.path), name)
                yield from ((name, posixpath.join(folder, entry)) for entry in view.listing(folder))
