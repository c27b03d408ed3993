"""Notes of an ELF file: the build id and the level of instructions that it demands."""

from __future__ import annotations

from collections.abc import Iterator

from stackproof.core import limits
from stackproof.linking.elf.layout import PT_GNU_PROPERTY, PT_NOTE, ElfSegment, Frame

_GNU_BUILD_ID, _GNU_PROPERTY = 3, 5
# x86-64 psABI, "Program Property": GNU_PROPERTY_X86_ISA_1_NEEDED; bit n demands level n + 1.
_ISA_1_NEEDED = 0xC0008002
_LEVELS = ((8, "x86-64-v4"), (4, "x86-64-v3"), (2, "x86-64-v2"))


def build_id(frame: Frame) -> str:
    """Return the build id as hexadecimal digits, empty without one."""
    for name, kind, content in _notes(frame, PT_NOTE):
        if name == b"GNU\0" and kind == _GNU_BUILD_ID:
            return content[:64].hex()
    return ""


def isa(frame: Frame) -> str:
    """Return the level of x86-64 that the object demands, empty when it demands none."""
    if frame.machine != 62:
        return ""
    for name, kind, content in _notes(frame, PT_GNU_PROPERTY):
        if name != b"GNU\0" or kind != _GNU_PROPERTY:
            continue
        for tag, value in _properties(frame, content):
            if tag == _ISA_1_NEEDED and len(value) >= 4:
                bits = frame.unpack("I", value)[0]
                return next((level for bit, level in _LEVELS if bits & bit), "")
    return ""


def _notes(frame: Frame, kind: int) -> Iterator[tuple[bytes, int, bytes]]:
    for segment in frame.segments:
        if segment.kind == kind:
            yield from _of_segment(frame, segment)


def _of_segment(frame: Frame, segment: ElfSegment) -> Iterator[tuple[bytes, int, bytes]]:
    """Yield the notes of a segment as (owner, type, content); a cut one ends the list."""
    content = frame.source.read(segment.offset, min(segment.file_size, limits.ELF_NOTES.bytes))
    # Notes are padded to 4 bytes; those with properties, of 64-bit files, to 8.
    align = 8 if segment.kind == PT_GNU_PROPERTY and frame.bits == 64 else 4
    at = 0
    while at + 12 <= len(content):
        name_size, size, kind = frame.unpack("III", content, at)
        start = at + 12 + _up(name_size, 4)
        yield content[at + 12 : at + 12 + name_size], kind, content[start : start + size]
        at = start + _up(size, align)


def _properties(frame: Frame, content: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 8 <= len(content):
        tag, size = frame.unpack("II", content, at)
        yield tag, content[at + 8 : at + 8 + size]
        at += 8 + _up(size, 8 if frame.bits == 64 else 4)


def _up(number: int, align: int) -> int:
    return -(-number // align) * align
