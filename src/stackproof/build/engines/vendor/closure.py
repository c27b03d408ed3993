"""What the libraries of a lock need, where each finds it, and what only the machine can bring."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping

from stackproof.build.engines.vendor import releases
from stackproof.build.engines.vendor.stack import VendorLibrary, VendorLock, VendorStack
from stackproof.core.errors import Problem, Reason
from stackproof.core.value import Value

_MAIN = re.compile(r"libmpi(?:_[a-z]+(?:_\d+)?)?\.so\.\d+")
_GTL = re.compile(r"libmpi_gtl_\w+\.so\b.*")
_OLD_HIP = "libamdhip64.so.6"
_XPMEM = "libxpmem.so.0"


class LibraryChange(Value):
    """What is changed in a library: its search path, and names that it needs."""

    rpath: str
    add: tuple[str, ...] = ()
    replace: Mapping[str, str]


def changes(stack: VendorStack, lock: VendorLock) -> dict[str, LibraryChange]:
    """Return what is changed in every library and program of a lock, by its place."""
    gtl = _gtl_sonames(lock)
    found = {}
    for library in lock.libraries:
        add: list[str] = []
        if _MAIN.fullmatch(library.soname) and not _GTL.fullmatch(library.soname):
            add += [*gtl, *([_XPMEM] if stack.xpmem else [])]
        elif library.soname in gtl:
            add += releases.unnamed_needs(stack.gtl, lock.mpi.product_version)
        known = {name.partition(".so")[0] for name in library.needed}
        renamed = {}
        if stack.hip and _OLD_HIP in library.needed:
            renamed[_OLD_HIP] = f"libamdhip64.so.{stack.hip}"
        found[library.target] = LibraryChange(
            rpath=":".join(_search_path(library, stack, lock)),
            add=tuple(name for name in add if name.partition(".so")[0] not in known),
            replace=renamed,
        )
    return found


def _search_path(library: VendorLibrary, stack: VendorStack, lock: VendorLock) -> Iterable[str]:
    """Return where a library looks: beside itself, in the folders of the others, at the site's."""
    own = posixpath.dirname(library.target)
    folders = dict.fromkeys((own, *(f"{one.folder}/lib" for one in lock.packages)))
    for folder in folders:
        way = posixpath.relpath(folder, own)
        yield "$ORIGIN" if way == "." else f"$ORIGIN/{way}"
    yield from stack.libraries


def _gtl_sonames(lock: VendorLock) -> tuple[str, ...]:
    return tuple(one.soname for one in lock.libraries if _GTL.fullmatch(one.soname))


def main_library(lock: VendorLock) -> str:
    """Return what the MPI's own library is linked as: `mpi_gnu_123`; empty without one."""
    folder = f"{lock.mpi.folder}/lib"
    for one in lock.libraries:
        if posixpath.dirname(one.target) == folder and _MAIN.fullmatch(one.soname):
            return one.soname.removeprefix("lib").partition(".so")[0]
    return ""


def gtl_library(lock: VendorLock) -> str:
    """Return what the library for GPUs is linked as; empty without one."""
    return next((one.removeprefix("lib").partition(".so")[0] for one in _gtl_sonames(lock)), "")


def outside(stack: VendorStack, lock: VendorLock) -> dict[str, str]:
    """Return what no RPM of the lock has, and a library that needs it; not what glibc has."""
    have = {posixpath.basename(file.target) for one in lock.packages for file in one.files}
    have |= {one.soname for one in lock.libraries}
    changed = changes(stack, lock)
    found: dict[str, str] = {}
    for library in lock.libraries:
        change = changed[library.target]
        for name in (*library.needed, *change.add):
            name = change.replace.get(name, name)  # noqa: PLW2901 - the name that is looked for
            if name not in have and not releases.is_glibc(name):
                found.setdefault(name, posixpath.basename(library.target))
    return found


def missing(stack: VendorStack, lock: VendorLock) -> tuple[Problem, ...]:
    """Return what RPMs of HPE would bring and none of the lock does."""
    found = []
    for name, user in outside(stack, lock).items():
        package, _, which = releases.vendor_package(name, lock.mpi.product_version).partition(" ")
        if package:
            message = (
                f"`{name}`, which `{user}` needs, is in none of the RPMs: `{package}-*.rpm`{which} "
                "would bring it"
            )
            hint = "put it into the folder of --from"
            found.append(Problem(reason=Reason.FILE_MISSING, message=message, hint=hint))
    return tuple(found)


def wanted_versions(lock: VendorLock, soname: str) -> tuple[str, ...]:
    """Return the version nodes that libraries of a lock want of another one."""
    return tuple(
        dict.fromkeys(node for one in lock.libraries for node in one.versions.get(soname, ()))
    )


def floor(lock: VendorLock) -> tuple[str, str]:
    """Return the oldest glibc that all libraries run with, and one that asks for it."""
    asking = [one for one in lock.libraries if one.glibc]
    newest = max(asking, key=lambda one: releases.number(one.glibc), default=None)
    return (newest.glibc, posixpath.basename(newest.target)) if newest else ("", "")
