"""ELF objects to values: what the loader would read, bounds-checked, from program headers alone.

Section headers may be stripped, so they are believed only where nothing else tells (how many
symbols there are in an object that exports none, and the full symbol table).
"""

from stackproof.linking.elf.layout import BytesSource, ReadableFile
from stackproof.linking.elf.model import (
    HIDDEN,
    CopiedVariable,
    ElfFile,
    Glance,
    Import,
    VersionDefinition,
    VersionNeed,
)
from stackproof.linking.elf.reader import MAGIC, glance, read, read_outline

__all__ = [
    "HIDDEN",
    "MAGIC",
    "BytesSource",
    "CopiedVariable",
    "ElfFile",
    "Glance",
    "Import",
    "ReadableFile",
    "VersionDefinition",
    "VersionNeed",
    "glance",
    "read",
    "read_outline",
]
