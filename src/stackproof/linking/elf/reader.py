"""A file's bytes to an `ElfFile`."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from stackproof.core import limits
from stackproof.linking.elf import symbols
from stackproof.linking.elf.layout import (
    MAGIC,
    PF_X,
    PT_DYNAMIC,
    PT_GNU_PROPERTY,
    PT_GNU_STACK,
    PT_INTERP,
    PT_NOTE,
    ElfSegment,
    Frame,
    ReadableFile,
    Tag,
    damaged,
    open_frame,
)
from stackproof.linking.elf.model import (
    HIDDEN,
    MACHINES,
    ElfFile,
    Glance,
    VersionDefinition,
    VersionNeed,
)

__all__ = ["MAGIC", "glance", "read", "read_outline"]

_DF_BIND_NOW, _DF_1_NOW, _DF_1_NODEFLIB = 8, 1, 0x800


def read(source: ReadableFile) -> ElfFile:
    """Return what an ELF file says of itself.

    Raises `StackproofError`: NOT_ELF for another kind of file, ELF_DAMAGED where its parts do not
    fit together, TOO_LARGE for tables that no real file has.
    """
    frame = open_frame(source)
    dynamic = symbols.dynamic_symbols(frame)
    outer = _outlined(frame)
    return structs.replace(
        outer,
        build_id=build_id(frame),
        isa=isa_level(frame),
        imports=tuple(dynamic.imports),
        exports=dynamic.exports,
        more_exports=dynamic.more,
        objects=dynamic.objects,
        copies=tuple(dynamic.copies) if outer.is_program else (),
        version_needs=version_needs(frame),
        version_definitions=version_definitions(frame),
        version_table=frame.one(Tag.VERSYM) is not None,
        mpi_inside=outer.is_program and symbols.defines_in_full_table(frame, b"MPI_Init"),
    )


def read_outline(source: ReadableFile) -> ElfFile:
    """Return the names and paths of an ELF file without its symbols; raises like `read`."""
    return _outlined(open_frame(source))


def _outlined(frame: Frame) -> ElfFile:
    flags, flags_1 = frame.one(Tag.FLAGS) or 0, frame.one(Tag.FLAGS_1) or 0
    soname = frame.one(Tag.SONAME)
    return ElfFile(
        bits=frame.bits,
        little_endian=frame.order == "<",
        machine=MACHINES.get(frame.machine, str(frame.machine)),
        kind=frame.kind,
        os_abi=frame.os_abi,
        flags=frame.flags,
        dynamic=any(segment.kind == PT_DYNAMIC for segment in frame.segments),
        interpreter=_interpreter(frame),
        soname="" if soname is None else frame.text(soname),
        needed=_texts(frame, Tag.NEEDED),
        rpath=_path(frame, Tag.RPATH),
        runpath=_path(frame, Tag.RUNPATH),
        filters=_texts(frame, Tag.FILTER),
        auxiliaries=_texts(frame, Tag.AUXILIARY),
        audits=(*_texts(frame, Tag.AUDIT), *_texts(frame, Tag.DEPAUDIT)),
        bind_now=bool(flags & _DF_BIND_NOW or flags_1 & _DF_1_NOW or Tag.BIND_NOW in frame.dynamic),
        no_default_libraries=bool(flags_1 & _DF_1_NODEFLIB),
        executable_stack=any(s.kind == PT_GNU_STACK and s.flags & PF_X for s in frame.segments),
    )


def glance(source: ReadableFile) -> Glance:
    """Return the little that tells whether a file has to do with MPI; raises like `read`.

    It costs a tenth of `read`: symbols are not looked at, only the text of their names.
    """
    frame = open_frame(source)
    soname = frame.one(Tag.SONAME)
    return Glance(
        interpreter=_interpreter(frame),
        soname="" if soname is None else frame.text(soname),
        needed=_texts(frame, Tag.NEEDED),
        mentions_mpi=b"MPI_" in frame.strings or b"mpi_" in frame.strings,
    )


def _texts(frame: Frame, tag: int) -> tuple[str, ...]:
    return tuple(frame.text(offset) for offset in frame.dynamic.get(tag, ()))


def _path(frame: Frame, tag: int) -> str | None:
    offset = frame.one(tag)
    return None if offset is None else frame.text(offset)


def _interpreter(frame: Frame) -> str:
    segment = next((s for s in frame.segments if s.kind == PT_INTERP), None)
    if segment is None:
        return ""
    if not 0 < segment.file_size <= limits.ELF_INTERPRETER.bytes:
        raise damaged(frame.source.name, "the name of its interpreter is too long")
    content = frame.bytes_at(segment.offset, segment.file_size)
    return content.split(b"\0", 1)[0].decode("utf-8", "backslashreplace")


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


def isa_level(frame: Frame) -> str:
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


_BASE, _WEAK = 1, 2


def version_needs(frame: Frame) -> tuple[VersionNeed, ...]:
    """Return the version nodes that must be defined by others."""
    address, count = frame.one(Tag.VERNEED), frame.one(Tag.VERNEEDNUM)
    if address is None or not count:
        return ()
    table = frame.rest(address, limits.ELF_VERSIONS.bytes)
    found: list[VersionNeed] = []
    at = 0
    for _ in range(_checked(frame, count)):
        _, nodes, file, first, following = frame.unpack("HHIII", table, at)
        inner = at + first
        for _ in range(nodes):
            _, flags, index, name, next_node = frame.unpack("IHHII", table, inner)
            found.append(
                VersionNeed(
                    library=frame.text(file),
                    name=frame.text(name),
                    number=index & ~HIDDEN,
                    weak=bool(flags & _WEAK),
                    hidden=bool(index & HIDDEN),
                )
            )
            _checked(frame, len(found))
            if not next_node:
                break
            inner += next_node
        if not following:
            break
        at += following
    return tuple(found)


def version_definitions(frame: Frame) -> tuple[VersionDefinition, ...]:
    """Return the version nodes that the object defines."""
    address, count = frame.one(Tag.VERDEF), frame.one(Tag.VERDEFNUM)
    if address is None or not count:
        return ()
    table = frame.rest(address, limits.ELF_VERSIONS.bytes)
    found = []
    at = 0
    for _ in range(_checked(frame, count)):
        _, flags, index, _, _, first, following = frame.unpack("HHHHIII", table, at)
        name, _ = frame.unpack("II", table, at + first)
        found.append(
            VersionDefinition(
                name=frame.text(name), number=index & ~HIDDEN, base=bool(flags & _BASE)
            )
        )
        if not following:
            break
        at += following
    return tuple(found)


def _checked(frame: Frame, count: int) -> int:
    if count > limits.ELF_VERSIONS.count:
        raise damaged(frame.source.name, f"it has {count} version nodes")
    return count
