"""The code of one file of x86-64: its functions, its words, and what refers to what."""

from __future__ import annotations

import bisect
import functools
import re
import struct
from collections.abc import Iterator

from stackproof.linking.elf import telling, x86
from stackproof.linking.elf.call_tables import FORTRAN, slots, starts
from stackproof.linking.elf.layout import PF_W, PF_X, PT_LOAD, ElfSegment, Frame
from stackproof.linking.elf.model import EXECUTABLE

# Calls and jumps, and what takes the address of a function: `mov` of a slot, `lea`.
_REFERS = re.compile(
    rb"[\xe8\xe9]|\x0f[\x80-\x8f]|\xff[\x15\x25]|[\x8b\x8d][\x05\x0d\x15\x1d\x25\x2d\x35\x3d]"
)
_FAR = re.compile(rb"(?:\xe9|\x0f[\x80-\x8f])(?=(.{4}))", re.DOTALL)
_GOES, _GOES_NEAR = frozenset(b"\xe8\xe9\x0f"), frozenset((0xEB, *range(0x70, 0x80)))


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

    def callers_of(self, start: int) -> set[int] | None:
        """Return the functions that call or jump to one, None where its address is taken."""
        word = struct.pack("<Q", start)
        frame = self.frame
        data = (part for part in list_loaded(frame) if not part.flags & PF_X)
        if any(word in frame.bytes_at(part.offset, part.file_size) for part in data):
            return None
        callers = set()
        for address, code in self.parts:
            if frame.kind == EXECUTABLE and word[:4] in code:  # it lies where the file says
                return None
            for at in range(max(0, start - address - 129), min(start - address + 127, len(code))):
                distance = int.from_bytes(code[at + 1 : at + 2], "little", signed=True)
                if code[at] in _GOES_NEAR and address + at + 2 + distance == start:
                    callers.add(self.start_of(address + at))
        for end, _, first in self.references({start}):
            if self.text(first, first + 1)[0] not in _GOES:
                return None
            callers.add(self.start_of(end))
        return callers - {start}

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

    def word_at(self, address: int) -> int | None:
        """Return the word at an address that nothing may write to."""
        word = self._bytes_at(address, 4)
        return int.from_bytes(word, "little") if len(word) == 4 else None

    def text_at(self, address: int) -> str:
        """Return the text at an address that nothing may write to, empty where there is none."""
        text, end, _ = self._bytes_at(address, 512).partition(b"\0")
        return text.decode("latin-1") if end else ""

    def _bytes_at(self, address: int, count: int) -> bytes:
        for segment in list_loaded(self.frame):
            left = segment.address + segment.file_size - address
            if 0 < left <= segment.file_size and not segment.flags & PF_W:
                place = segment.offset + address - segment.address
                return self.frame.bytes_at(place, min(count, left))
        return b""

    def labels_in(self, span: range, table: int, *, absolute: bool = False) -> Iterator[int]:
        """Yield the places in a function that a table of addresses or distances leads to."""
        at = table
        while (word := self.word_at(at)) is not None:
            place = word if absolute else (table + word) & 0xFFFFFFFF
            if place not in span:
                return
            yield place
            at += 8 if absolute else 4

    @functools.cached_property
    def jumped_to(self) -> frozenset[int]:
        """Return the addresses that far jumps go to: parts of functions may lie apart."""
        return frozenset(
            address + match.end() + 4 + int.from_bytes(match[1], "little", signed=True)
            for address, code in self.parts
            for match in _FAR.finditer(code)
        )
