"""What one ELF object says of itself to the dynamic loader.

Names and numbers are those of the System V ABI and of the GNU extensions to it (gABI chapter 5,
"Linux Standard Base Core", symbol versioning). Bytes that are not UTF-8 are written as escapes, so
that every value is JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import field

from stackproof.core.value import Value

MACHINES = {
    3: "i386",
    20: "ppc",
    21: "ppc64",
    22: "s390x",
    40: "arm",
    62: "x86_64",
    183: "aarch64",
    243: "riscv",
    258: "loongarch",
}
"""Values of `e_machine` by the name that the field uses."""

HIDDEN = 0x8000
"""Bit of a version index: the definition is not the default one of its name."""

EXECUTABLE, SHARED = 2, 3
"""Values of `e_type`."""


class Import(NamedTuple):
    """A symbol that an object needs, with its version index (0 and 1 are none).

    `weak`: it may be missing. `eager`: it is bound when the object is loaded, not when a function
    is first called.
    """

    name: str
    version: int
    weak: bool
    eager: bool


class VersionNeed(NamedTuple):
    """A version node that a library must define for the object to be loaded.

    `hidden` is the flag in the index (`vna_other`), which makes the loader take nothing else.
    """

    library: str
    name: str
    number: int
    weak: bool
    hidden: bool


class VersionDefinition(NamedTuple):
    """A version node that the object defines; the base one carries the name of the library."""

    name: str
    number: int
    base: bool


class CopiedVariable(NamedTuple):
    """A variable of a library that the program keeps a copy of, with its size in bytes."""

    name: str
    size: int


class ElfFile(Value):
    """An ELF object as far as the loader looks at it.

    `needed` is in the order of the file. `exports` maps a name to its version index (with `HIDDEN`
    where it applies); a name with several versions has the others in `more_exports`.
    `version_table` says whether symbols have versions at all. `objects` has the size in bytes of
    every exported variable. `isa` is the level that the object's property note demands
    (`x86-64-v3`), empty without one. `dynamic` is False for a program that is linked statically.
    `mpi_inside` says that the full symbol table, where it was not stripped, defines MPI_Init.
    """

    bits: int
    little_endian: bool
    machine: str
    kind: int
    os_abi: int = 0
    flags: int = 0
    dynamic: bool = False
    interpreter: str = ""
    soname: str = ""
    needed: tuple[str, ...] = ()
    rpath: str | None = None
    runpath: str | None = None
    filters: tuple[str, ...] = ()
    auxiliaries: tuple[str, ...] = ()
    audits: tuple[str, ...] = ()
    bind_now: bool = False
    no_default_libraries: bool = False
    executable_stack: bool = False
    build_id: str = ""
    isa: str = ""
    imports: tuple[Import, ...] = ()
    exports: Mapping[str, int] = field(default_factory=dict)
    more_exports: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    objects: Mapping[str, int] = field(default_factory=dict)
    copies: tuple[CopiedVariable, ...] = ()
    version_needs: tuple[VersionNeed, ...] = ()
    version_definitions: tuple[VersionDefinition, ...] = ()
    version_table: bool = False
    mpi_inside: bool = False

    @property
    def is_program(self) -> bool:
        """Return whether the kernel can start it: it names an interpreter, or is static."""
        return bool(self.interpreter) or self.kind == EXECUTABLE


class Glance(Value):
    """The little that tells whether a file has to do with MPI: names, and whether MPI is named."""

    interpreter: str
    soname: str
    needed: tuple[str, ...]
    mentions_mpi: bool
