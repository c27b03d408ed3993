"""Tables of an ELF file that code is read with: where functions begin, which slots calls go by."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from stackproof.core import limits
from stackproof.linking.elf import telling
from stackproof.linking.elf.layout import Frame, Tag

_PT_EH_FRAME, _TABLE = 0x6474E550, bytes((1, 0x1B, 0x03, 0x3B))
_SLOT_KINDS = frozenset({6, 7})  # R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT
POINTERS = frozenset({1})  # R_X86_64_64
OTHER, FORTRAN = "=", "&"
"""What stands before the names of functions that are none of MPI, and before those of Fortran."""


def starts(frame: Frame) -> list[int]:
    """Return the begins of functions, by the table for unwinding (LSB Core, `.eh_frame_hdr`)."""
    segment = next((part for part in frame.segments if part.kind == _PT_EH_FRAME), None)
    if segment is None or segment.file_size < 12:
        return []
    content = frame.bytes_at(segment.offset, segment.file_size)
    if content[:4] != _TABLE:
        return []
    (count,) = frame.unpack("I", content, 8)
    table = content[12 : 12 + 8 * count]
    pairs = struct.iter_unpack("<ii", table[: len(table) & ~7])
    return sorted(segment.address + start for start, _ in pairs)


def slots(frame: Frame, kinds: frozenset[int] = _SLOT_KINDS) -> Iterator[tuple[int, str]]:
    """Yield the words that the loader fills in with functions, and those by name.

    `kinds` are of relocations: of calls, or `POINTERS` to functions that stand in data.
    """
    symbols = frame.one(Tag.SYMTAB)
    if symbols is None or frame.bits != 64 or frame.order != "<":
        return
    for table, size in ((Tag.RELA, Tag.RELASZ), (Tag.JMPREL, Tag.PLTRELSZ)):
        place, count = frame.one(table), frame.one(size)
        if place is None or not count:
            continue
        entries = frame.memory(place, min(count // 24, limits.ELF_SLOTS.count) * 24)
        for slot, info, _ in struct.iter_unpack("<QQq", entries):
            if info & 0xFFFFFFFF not in kinds:
                continue
            (name,) = frame.unpack("I", frame.memory(symbols + 24 * (info >> 32), 4))
            text = frame.text(name)
            if match := telling.CALL.fullmatch(text):
                yield slot, match[1].lower() if match[1] else f"{FORTRAN}{match[2]}"
            elif text:
                yield slot, text if text in telling.NAMES else f"{OTHER}{text}"
