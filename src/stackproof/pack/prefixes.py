"""Texts that name the place a stack was built for, to what is done about each, and why.

A file that still names it after it was moved is no fault where nothing that runs asks it, or where
a variable says otherwise. Whatever has no such reason keeps the pack from being made.
"""

from __future__ import annotations

import posixpath
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from stackproof.core.value import Value
from stackproof.pack.model import Moved, TextKind

MOST_TEXT = 160


class Finder(NamedTuple):
    """A library that finds its own files by a variable; `value` from the path of the library.

    Sources: docs.open-mpi.org, "Installation location"; fi_provider(7); UCX's configuration
    (`UCX_MODULE_DIR`); hwloc's plug-ins (`HWLOC_PLUGINS_PATH`); python(1); ncurses(3X).
    """

    library: re.Pattern[str]
    variable: str
    value: Callable[[str], str]
    kind: TextKind


def _prefix(path: str) -> str:
    """Return the prefix of a library: the folder above `lib`, also of one in a folder below it.

    That of a program is above its own folder.
    """
    folder = posixpath.dirname(path)
    while posixpath.basename(folder) not in {"lib", "lib64", ""}:
        folder = posixpath.dirname(folder)
    own = posixpath.basename(folder)
    return posixpath.dirname(folder if own else posixpath.dirname(path))


def _beside(name: str) -> Callable[[str], str]:
    return lambda path: posixpath.join(posixpath.dirname(path), name)


FINDERS = tuple(
    Finder(re.compile(library), variable, value, kind)
    for library, variable, value, kind in (
        (r"lib(?:open-pal|open-rte|mpi|mpi_\w+|oshmem|mca_\w+)\.so.*|mca_.*\.so",
         "OPAL_PREFIX", _prefix, TextKind.DATA),
        (r"libpmix\.so.*|pmix_mca_.*", "PMIX_PREFIX", _prefix, TextKind.DATA),
        (r"libprrte\.so.*|prte_mca_.*", "PRTE_PREFIX", _prefix, TextKind.DATA),
        (r"libfabric\.so.*", "FI_PROVIDER_PATH", _beside("libfabric"), TextKind.DATA),
        (r"libuc[stpm]\.so.*", "UCX_MODULE_DIR", _beside("ucx"), TextKind.DATA),
        (r"libhwloc\.so.*", "HWLOC_PLUGINS_PATH", _beside("hwloc"), TextKind.DATA),
        (r"libpython3.*\.so.*|python3(?:\.\d+)?", "PYTHONHOME", _prefix, TextKind.PYTHON),
        (r"lib(?:tinfo|ncurses)w?\.so.*", "TERMINFO_DIRS",
         lambda path: posixpath.join(_prefix(path), "share/terminfo"), TextKind.TERMINFO),
    )
)  # fmt: skip

# In the prefix of an MPI: programs that ask what their libraries ask.
_OPEN_MPI = {"OPAL_PREFIX", "PMIX_PREFIX", "PRTE_PREFIX"}
_BUILT_HOW = re.compile(rb"--(?:prefix|with|enable|disable|mandir|sysconfdir)|(?:^|\s)-[IL]/")
_COMPILING = re.compile(
    r"(?:.*/)?(?:include|cmake|pkgconfig|share/(?:man|doc|info|aclocal))/.*"
    r"|.*\.(?:mod|h|hpp|a|o|m4)"
    r"|.*-wrapper-data\.txt"
    r"|(?:.*/)?\.?bin/(?:mpi(?:cc|cxx|c\+\+|CC|fort|f77|f90|fc|icc|ifort|icpc|icx)\w*"
    r"|oshmem\w+|shmem\w+|\w+-config|pmixcc|hwloc-ps|\w+_wrapper)"
)
_TRACES = re.compile(r"(?:.*/)?(?:\.spack|easybuild|var/log)/.*")
_PYTHON = re.compile(r".*(?:\.pyc|/_sysconfigdata\w*\.py|/config-3[^/]*/.*|\.dist-info/.*)")


class Sighting(Value):
    """A text that names the old place: the whole of it, in which file, where, in which section."""

    file: str
    offset: int
    text: bytes
    elf: bool
    section: str = ""

    def moved(self, kind: TextKind, done: str) -> Moved:
        """Return it with what was done about it."""
        shown = self.text[:MOST_TEXT].decode(errors="backslashreplace")
        return Moved(file=self.file, offset=self.offset, kind=kind, text=shown, done=done)


def sightings(file: str, content: bytes, prefix: bytes) -> Iterator[Sighting]:
    """Yield each text of a file in which a prefix stands as a path."""
    elf = content[:4] == b"\x7fELF"
    sections = _sections(content) if elf else ()
    end = b"\0" if elf or b"\0" in content[:4096] else b"\n"
    last = -1
    for match in re.finditer(re.escape(prefix) + rb"(?![\w.-])", content):
        begin = content.rfind(end, 0, match.start()) + 1
        if begin == last:
            continue
        last = begin
        stop = content.find(end, match.end())
        text = content[begin : stop if stop >= 0 else len(content)]
        section = next((name for name, a, b in sections if a <= match.start() < b), "")
        yield Sighting(file=file, offset=match.start(), text=text, elf=elf, section=section)


def explain(seen: Sighting, prefix: str, set_for: Mapping[str, str]) -> Moved:
    """Return a sighting with the reason why nothing asks it; without one where there is none.

    `set_for` are the variables that entry points set.
    """
    name = posixpath.basename(seen.file)
    if seen.elf:
        return _of_elf(seen, name, prefix, set_for)
    if name.endswith(".la"):
        return seen.moved(TextKind.LIBTOOL, "left: no program that runs reads it")
    if _COMPILING.fullmatch(seen.file):
        return seen.moved(TextKind.COMPILING, "left: compile where the image is mounted")
    if _PYTHON.fullmatch(seen.file):
        return seen.moved(TextKind.PYTHON, "left: asked for when extensions are compiled only")
    if _TRACES.fullmatch(seen.file):
        return seen.moved(TextKind.DATA, "left: a record of the build, which no program reads")
    return seen.moved(TextKind.DATA, "")


def _of_elf(seen: Sighting, name: str, prefix: str, set_for: Mapping[str, str]) -> Moved:
    kind = TextKind.DLOPEN if re.search(rb"\.so(?:\.|$)", seen.text) else TextKind.DATA
    done = ""
    told = sorted(_OPEN_MPI & set_for.keys())
    by_variable = (
        one for one in FINDERS if one.library.fullmatch(name) and one.variable in set_for
    )
    if seen.section.startswith((".debug", ".comment", ".stab", ".gnu_debug")):
        kind, done = TextKind.DEBUG, "left: for debuggers only"
    elif _BUILT_HOW.search(seen.text) and not seen.text.startswith(prefix.encode()):
        done = "left: says how it was built"
    elif finder := next(by_variable, None):
        kind, done = finder.kind, f"{finder.variable} says otherwise"
    elif told and ("/bin/" in seen.file or "/.bin/" in seen.file):
        done = f"{', '.join(told)} say otherwise"
    elif _COMPILING.fullmatch(seen.file):
        kind, done = TextKind.COMPILING, "left: compile where the image is mounted"
    return seen.moved(kind, done)


def _sections(content: bytes) -> tuple[tuple[str, int, int], ...]:
    """Return names, begins and ends of the sections of a 64-bit ELF file; none without a table."""
    try:
        table, size, count, names = struct.unpack_from("<Q10xHHH", content, 40)
        heads = [struct.unpack_from("<II16xQQ", content, table + i * size) for i in range(count)]
        start = heads[names][2]
        return tuple(
            (
                content[start + name : content.find(b"\0", start + name)].decode(errors="replace"),
                offset,
                offset + bytes_,
            )
            for name, kind, offset, bytes_ in heads
            if kind != _SHT_NOBITS
        )
    except (struct.error, ValueError, IndexError):
        return ()


_SHT_NOBITS = 8

# What this machine's libraries name of this machine; glibc(7), terminfo(5), OpenSSL's c_rehash(1).
_MACHINES = (
    (re.compile(rb"/usr/lib/[\w./-]*gconv"), TextKind.GCONV),
    (re.compile(rb"/usr/lib/locale"), TextKind.LOCALE),
    (re.compile(rb"/(?:usr/share|etc|lib)/terminfo"), TextKind.TERMINFO),
    (re.compile(rb"/(?:etc|usr/lib)/ssl[\w./-]*"), TextKind.CERTIFICATES),
)


def machine_paths(file: str, content: bytes) -> Iterator[Moved]:
    """Yield where a library of this machine names its folders, the first of each kind."""
    for pattern, kind in _MACHINES:
        match = pattern.search(content)
        if match:
            yield Moved(
                file=file,
                offset=match.start(),
                kind=kind,
                text=match[0].decode(errors="backslashreplace"),
                done="left: those of the machine that it runs on count, where it has them",
            )


def rewritten(path: str, content: bytes, prefix: str, top: str) -> tuple[bytes, TextKind] | None:
    """Return a text that finds the place by its own, and its kind; None for another kind of text.

    `top` leads from the folder of the file to where the prefix is now.
    """
    if path.endswith(".pc"):
        return content.replace(prefix.encode(), f"${{pcfiledir}}/{top}".encode()), TextKind.PC
    if path.endswith(".cmake"):
        place = f"${{CMAKE_CURRENT_LIST_DIR}}/{top}"
        return content.replace(prefix.encode(), place.encode()), TextKind.CMAKE
    return None
