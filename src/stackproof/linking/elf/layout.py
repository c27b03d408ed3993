"""The frame of an ELF file: header, segments, dynamic section, and text and bytes by address.

Everything that the file says of itself (offsets, sizes, counts, links) is checked before use, so
that a damaged or hostile file costs an error, never a wrong read, a long loop or much memory.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, Protocol

from msgspec import Struct, field

from stackproof.core import limits
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value


class ReadableFile(Protocol):
    """A file that is read in pieces."""

    @property
    def name(self) -> str:
        """Return what messages call the file."""

    @property
    def size(self) -> int:
        """Return its size in bytes."""

    def read(self, offset: int, count: int) -> bytes:
        """Return `count` bytes from `offset`, fewer at the end of the file."""


class BytesSource(Value, kw_only=False):
    """A file that is in memory."""

    name: str
    content: bytes

    @property
    def size(self) -> int:
        """Return its size in bytes."""
        return len(self.content)

    def read(self, offset: int, count: int) -> bytes:
        """Return `count` bytes from `offset`, fewer at the end."""
        return self.content[offset : offset + count]


MAGIC = b"\x7fELF"


PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_NOTE = 1, 2, 3, 4
PT_GNU_STACK, PT_GNU_PROPERTY = 0x6474E551, 0x6474E553
PF_X, PF_W = 1, 2


def damaged(name: str, message: str) -> StackproofError:
    """Return the error for a file whose parts do not fit together."""
    return fail(
        Reason.ELF_DAMAGED,
        f"the ELF file is damaged: {message}",
        where=Location(file=name),
        hint="copy or build the file again",
    )


class ElfSegment(NamedTuple):
    """A program header; offset and sizes in bytes."""

    kind: int
    flags: int
    offset: int
    address: int
    file_size: int
    memory_size: int


class Frame(Struct, kw_only=True):
    """An opened ELF file: header values, segments, dynamic entries and the string table."""

    source: ReadableFile
    bits: int
    order: str
    os_abi: int
    kind: int
    machine: int
    flags: int
    section_offset: int
    section_size: int
    section_count: int
    segments: tuple[ElfSegment, ...]
    dynamic: dict[int, list[int]] = field(default_factory=dict)
    strings: bytes = b""

    def one(self, tag: int) -> int | None:
        """Return the value of a dynamic entry, the last one if there are several."""
        values = self.dynamic.get(tag)
        return values[-1] if values else None

    def text(self, offset: int) -> str:
        """Return the text at an offset of the dynamic string table."""
        end = self.strings.find(b"\0", offset)
        if offset < 0 or end < 0:
            raise damaged(self.source.name, f"a name at {offset} is outside of the string table")
        return self.strings[offset:end].decode("utf-8", "backslashreplace")

    def offset_of(self, address: int) -> tuple[int, int]:
        """Return where an address of memory is in the file, and how many bytes follow there."""
        for segment in self.segments:
            if segment.kind == PT_LOAD and 0 <= address - segment.address < segment.file_size:
                inside = address - segment.address
                return segment.offset + inside, segment.file_size - inside
        raise damaged(self.source.name, f"nothing of the file is loaded at {address:#x}")

    def memory(self, address: int, count: int) -> bytes:
        """Return `count` bytes of what is loaded at an address; raises when they are not there.

        They may go on in the segment that follows in memory: patchelf makes such programs.
        """
        if not 0 <= count <= limits.ELF.bytes:
            raise too_large(self.source.name, count)
        found = b""
        while True:
            offset, left = self.offset_of(address + len(found))
            found += self.bytes_at(offset, min(left, count - len(found)))
            if len(found) >= count:
                return found
            if not any(
                one.kind == PT_LOAD and one.address == address + len(found) for one in self.segments
            ):
                raise damaged(self.source.name, f"a table at {address:#x} leaves its segment")

    def rest(self, address: int, most: int) -> bytes:
        """Return what is loaded from an address to the end of its segment, at most `most`."""
        offset, left = self.offset_of(address)
        return self.bytes_at(offset, min(left, most))

    def bytes_at(self, offset: int, count: int) -> bytes:
        """Return bytes of the file; raises when the file ends before them."""
        content = self.source.read(offset, count)
        if len(content) != count:
            raise damaged(self.source.name, f"it ends before byte {offset + count}")
        return content

    def unpack(self, layout: str, content: bytes, offset: int = 0) -> tuple[int, ...]:
        """Return numbers in the byte order of the file; raises when `content` is too short."""
        try:
            return struct.unpack_from(self.order + layout, content, offset)
        except struct.error:
            raise damaged(self.source.name, "a table ends within an entry") from None


def too_large(name: str, count: int) -> StackproofError:
    """Return the error for a table of more bytes than any real file has."""
    return fail(
        Reason.TOO_LARGE,
        f"a table of the ELF file has {count} bytes; it may have {limits.ELF.bytes}",
        where=Location(file=name),
        hint="check that this is a program or a library",
    )


def open_frame(source: ReadableFile) -> Frame:
    """Return the frame of an ELF file.

    Raises `StackproofError`: NOT_ELF for another kind of file, ELF_DAMAGED, TOO_LARGE.
    """
    head = source.read(0, 64)
    if head[:4] != MAGIC:
        raise fail(
            Reason.NOT_ELF,
            f"`{source.name}` is not an ELF file",
            where=Location(file=source.name),
            hint="name a program or a library, not a script",
        )
    if len(head) < 16 or head[4] not in {1, 2} or head[5] not in {1, 2}:
        raise damaged(source.name, "its first 16 bytes are not those of an ELF file")
    bits, order = (32, 64)[head[4] - 1], "<>"[head[5] - 1]
    layout = "HHIIIIIHHHHHH" if bits == 32 else "HHIQQQIHHHHHH"
    try:
        fields = struct.unpack_from(order + layout, head, 16)
    except struct.error:
        raise damaged(source.name, "it ends within its header") from None
    kind, machine, _, _, ph_offset, sh_offset, flags, _, ph_size, ph_count, sh_size, sh_count, _ = (
        fields
    )
    frame = Frame(
        source=source,
        bits=bits,
        order=order,
        os_abi=head[7],
        kind=kind,
        machine=machine,
        flags=flags,
        section_offset=sh_offset,
        section_size=sh_size,
        section_count=sh_count,
        segments=(),
    )
    frame.segments = _segments(frame, ph_offset, ph_size, ph_count)
    _read_dynamic(frame)
    return frame


def _segments(frame: Frame, offset: int, size: int, count: int) -> tuple[ElfSegment, ...]:
    layout = "IIIIIIII" if frame.bits == 32 else "IIQQQQQQ"
    wanted = struct.calcsize(f"={layout}")
    if count and size != wanted:
        raise damaged(frame.source.name, f"a program header has {size} bytes, not {wanted}")
    if count > limits.ELF.count:
        raise damaged(frame.source.name, f"it has {count} segments")
    content = frame.bytes_at(offset, count * size) if count else b""
    found = []
    for fields in struct.iter_unpack(frame.order + layout, content):
        if frame.bits == 32:
            kind, start, address, _, file_size, memory_size, flags, _ = fields
        else:
            kind, flags, start, address, _, file_size, memory_size, _ = fields
        found.append(
            ElfSegment(
                kind=kind,
                flags=flags,
                offset=start,
                address=address,
                file_size=file_size,
                memory_size=memory_size,
            )
        )
    for segment in found:
        if segment.kind == PT_LOAD and segment.offset + segment.file_size > frame.source.size:
            raise damaged(frame.source.name, "a segment goes on after the end of the file")
    return tuple(found)


class Tag:
    """Kinds of entries of the dynamic section: gABI, chapter 5, and the GNU extensions to it."""

    NEEDED, HASH, STRTAB, SYMTAB, RELA, RELASZ, RELAENT = 1, 4, 5, 6, 7, 8, 9
    STRSZ, SONAME, RPATH, REL, RELSZ, PLTREL, JMPREL = 10, 14, 15, 17, 18, 20, 23
    BIND_NOW, RUNPATH, FLAGS, PLTRELSZ = 24, 29, 30, 2
    GNU_HASH, VERSYM, FLAGS_1 = 0x6FFFFEF5, 0x6FFFFFF0, 0x6FFFFFFB
    VERDEF, VERDEFNUM, VERNEED, VERNEEDNUM = 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
    DEPAUDIT, AUDIT = 0x6FFFFEFB, 0x6FFFFEFC
    AUXILIARY, FILTER = 0x7FFFFFFD, 0x7FFFFFFF


def _read_dynamic(frame: Frame) -> None:
    """Fill in the dynamic entries and the string table that they name."""
    segment = next((s for s in frame.segments if s.kind == PT_DYNAMIC), None)
    if segment is None:
        return
    width = 8 if frame.bits == 32 else 16
    count = min(segment.file_size // width, limits.ELF_DYNAMIC.count)
    content = frame.bytes_at(segment.offset, count * width)
    entries = struct.iter_unpack(frame.order + ("II" if frame.bits == 32 else "QQ"), content)
    for tag, value in entries:
        if tag == 0:
            break
        frame.dynamic.setdefault(tag, []).append(value)
    address, size = frame.one(Tag.STRTAB), frame.one(Tag.STRSZ)
    if address is not None and size:
        if size > limits.ELF.bytes:
            raise too_large(frame.source.name, size)
        frame.strings = frame.memory(address, size)
