"""The content of a folder for an injection: for programs on disk, for EESSI, for an artefact.

A judgement becomes the files that start a program with its replacement: a script, links, a copy.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping

from msgspec import Struct, field

from stackproof.core.errors import Location, Problem, Reason, StackproofError
from stackproof.core.value import Value
from stackproof.inject.model import Judgement
from stackproof.inject.ways import ALIASES
from stackproof.linking.loader import Closure, FileView, MappedObject


class Copied(Value):
    """A file that is copied: from where, to where below the folder, with which DT_RPATH.

    `soname` is another one than it has, `needed` maps the names that the source asks for to those
    that the copy asks for, where they differ, and `asks` is a library that the copy asks for
    besides; each is empty for none.
    """

    source: str
    target: str
    rpath: str
    soname: str = ""
    needed: Mapping[str, str] = field(default_factory=dict)
    asks: str = ""


class InjectionDelivery(Value):
    """The content of a folder, by paths below it.

    `links` maps a path to the text of the link, `scripts` to the text of a program, `trees` to
    files and folders that are copied as they are. `left` are names that stay those of the program's
    own machine and loader; `without` are plug-ins that stay behind, with the reason: the MPI goes
    on without them. `environment` is what programs or the MPI must be told.
    """

    copies: tuple[Copied, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    trees: Mapping[str, str] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


def plan_wrapping(
    judgement: Judgement, place: str, old_rpath: str
) -> tuple[str, InjectionDelivery]:
    """Return what is started in the place of a program, and what the folder `place` gets for it.

    `old_rpath` is what the program has. It is copied where no variable reaches it. Lists that are
    set already are kept behind ours: they come after the MPI, as before.
    """
    name = posixpath.basename(judgement.program)
    home = posixpath.join(place, "aliases")
    environment = {
        key: value.replace(ALIASES, home) for key, value in judgement.environment.items()
    }
    program, copies = judgement.program, tuple[Copied, ...]()
    if judgement.way.rpath:
        target = f"libexec/{name}"
        # In the copy $ORIGIN would be another folder.
        origin = posixpath.dirname(program)
        old = old_rpath.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)
        folders = (word.replace(ALIASES, home) for word in judgement.way.rpath)
        rpath = ":".join((*folders, *((old,) if old else ())))
        copies = (Copied(source=program, target=target, rpath=rpath),)
        program = posixpath.join(place, target)
    return program, InjectionDelivery(
        copies=copies,
        links={
            posixpath.join("aliases", posixpath.basename(link)): target
            for link, target in judgement.way.links.items()
        },
        scripts={f"bin/{name}": _script(judgement, environment, program)},
        environment=environment,
    )


def _script(judgement: Judgement, environment: Mapping[str, str], program: str) -> str:
    about = f"# Starts {judgement.program} with {judgement.replacement}."
    lines = ["#!/bin/sh", "".join(c if c.isprintable() else "?" for c in about)]
    for name, value in environment.items():
        if name == "LD_PRELOAD":  # a tool that stands before the MPI stays before it
            before = f"${{{name}:+${name}:}}"
            lines.append(f"export {name}={before}{shlex.quote(value)}")
            continue
        more = f"${{{name}:+:${name}}}" if name == "LD_LIBRARY_PATH" else ""
        lines.append(f"export {name}={shlex.quote(value)}{more}")
    lines.append(f'exec {shlex.quote(program)} "$@"')
    return "\n".join(lines) + "\n"


# --------------------------------------------------------------------------------------------------
# Libraries to all that must be carried along with them, down to what stays the machine's own.

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
