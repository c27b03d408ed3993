"""The code of one file of x86-64: its functions, its words, and what refers to what."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator

from stackproof.linking.elf import telling, x86
from stackproof.linking.elf.call_tables import FORTRAN, slots, starts
from stackproof.linking.elf.layout import PF_W, PF_X, PT_LOAD, ElfSegment, Frame

# Calls and jumps, and what takes the address of a function: `mov` of a slot, `lea`.
_REFERS = re.compile(rb"[\xe8\xe9]|\xff[\x15\x25]|[\x8b\x8d][\x05\x0d\x15\x1d\x25\x2d\x35\x3d]")


def list_loaded(frame: Frame) -> Iterator[ElfSegment]:
    """Return the segments of a file that are loaded and not empty."""
    return (segment for segment in frame.segments if segment.kind == PT_LOAD and segment.file_size)


class Code:
    """The code of a file, with the functions of other files that it calls."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.parts = [
            (segment.address, frame.bytes_at(segment.offset, segment.file_size))
            for segment in list_loaded(frame)
            if segment.flags & PF_X
        ]
        self.slots = dict(slots(frame))
        self.stubs = dict(self._stubs())
        self.starts = starts(frame)

    def telling_places(self) -> set[int]:
        """Return the stubs and slots of functions that take a telling argument."""
        tables = (*self.stubs.items(), *self.slots.items())
        return {at for at, name in tables if name.lstrip(FORTRAN) in telling.FUNCTIONS}

    def references(self, places: set[int]) -> Iterator[tuple[int, int, int]]:
        """Yield the last byte of instructions as above, what they refer to, and their first."""
        for address, code in self.parts if places else ():
            for match in _REFERS.finditer(code):
                end = match.end() + 4
                distance = int.from_bytes(code[end - 4 : end], "little", signed=True)
                if address + end + distance in places:
                    yield address + end - 1, address + end + distance, address + match.start()

    def _stubs(self) -> Iterator[tuple[int, str]]:
        """Yield the addresses that calls of imported functions go to, with the functions."""
        for address, code in self.parts:
            for match in re.finditer(rb"(\xf3\x0f\x1e\xfa)?(\xf2)?\xff\x25(.{4})", code, re.DOTALL):
                distance = int.from_bytes(match.group(3), "little", signed=True)
                name = self.slots.get(address + match.end() + distance)
                if name:
                    yield address + match.start(), name
                    yield address + match.end() - 6, name

    def start_of(self, address: int) -> int:
        """Return the first address of the function that an address is in."""
        place = bisect.bisect_right(self.starts, address)
        return self.starts[place - 1] if place else max(self._part(address)[0], address - 4096)

    def end_of(self, start: int) -> int:
        """Return the address behind a function by its first one, the latest possible."""
        base, code = self._part(start)
        place = bisect.bisect_right(self.starts, start)
        after = self.starts[place] if place < len(self.starts) else start + 8192
        return min(after, base + len(code))

    def _part(self, address: int) -> tuple[int, bytes]:
        return next(
            ((base, code) for base, code in self.parts if base <= address < base + len(code)),
            (address, b""),
        )

    def text(self, start: int, end: int) -> bytes:
        """Return the code between two addresses."""
        base, code = self._part(start)
        return code[start - base : end - base]

    def name_of(self, step: x86.Instruction) -> str:
        """Return the imported function that is called, empty for any other."""
        if isinstance(step.source, x86.Place) and step.source.base == x86.AT:
            return self.slots.get(step.source.distance, "")
        return self.stubs.get(step.value, "") if step.value is not None else ""

    def word_at(self, address: int, flags: int = 0) -> int | None:
        """Return the word at an address that nothing, or with `PF_W` something, may write to."""
        for segment in list_loaded(self.frame):
            inside = segment.address <= address <= segment.address + segment.file_size - 4
            if inside and segment.flags & PF_W == flags:
                place = segment.offset + address - segment.address
                return int.from_bytes(self.frame.bytes_at(place, 4), "little")
        return None
