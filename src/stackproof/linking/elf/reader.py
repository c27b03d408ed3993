"""A file's bytes to an `ElfFile`."""

from __future__ import annotations

from stackproof.core import limits
from stackproof.linking.elf import notes, symbols, versions
from stackproof.linking.elf.layout import (
    DT_AUDIT,
    DT_AUXILIARY,
    DT_BIND_NOW,
    DT_DEPAUDIT,
    DT_FILTER,
    DT_FLAGS,
    DT_FLAGS_1,
    DT_NEEDED,
    DT_RPATH,
    DT_RUNPATH,
    DT_SONAME,
    DT_VERSYM,
    MAGIC,
    PF_X,
    PT_DYNAMIC,
    PT_GNU_STACK,
    PT_INTERP,
    Frame,
    ReadableFile,
    damaged,
    open_frame,
)
from stackproof.linking.elf.model import EXECUTABLE, MACHINES, ElfFile, Glance

__all__ = ["MAGIC", "glance", "read"]

_DF_BIND_NOW, _DF_1_NOW, _DF_1_NODEFLIB = 8, 1, 0x800


def read(source: ReadableFile) -> ElfFile:
    """Return what an ELF file says of itself.

    Raises `StackproofError`: NOT_ELF for another kind of file, ELF_DAMAGED where its parts do not
    fit together, TOO_LARGE for tables that no real file has.
    """
    frame = open_frame(source)
    dynamic = symbols.dynamic_symbols(frame)
    program = frame.kind == EXECUTABLE or any(s.kind == PT_INTERP for s in frame.segments)
    flags, flags_1 = frame.one(DT_FLAGS) or 0, frame.one(DT_FLAGS_1) or 0
    soname = frame.one(DT_SONAME)
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
        needed=_texts(frame, DT_NEEDED),
        rpath=_path(frame, DT_RPATH),
        runpath=_path(frame, DT_RUNPATH),
        filters=_texts(frame, DT_FILTER),
        auxiliaries=_texts(frame, DT_AUXILIARY),
        audits=(*_texts(frame, DT_AUDIT), *_texts(frame, DT_DEPAUDIT)),
        bind_now=bool(flags & _DF_BIND_NOW or flags_1 & _DF_1_NOW or DT_BIND_NOW in frame.dynamic),
        no_default_libraries=bool(flags_1 & _DF_1_NODEFLIB),
        executable_stack=any(s.kind == PT_GNU_STACK and s.flags & PF_X for s in frame.segments),
        build_id=notes.build_id(frame),
        isa=notes.isa(frame),
        imports=tuple(dynamic.imports),
        exports=dynamic.exports,
        more_exports=dynamic.more,
        objects=dynamic.objects,
        copies=tuple(dynamic.copies) if program else (),
        version_needs=versions.needs(frame),
        version_definitions=versions.definitions(frame),
        version_table=frame.one(DT_VERSYM) is not None,
        mpi_inside=program and symbols.defines_in_full_table(frame, b"MPI_Init"),
    )


def glance(source: ReadableFile) -> Glance:
    """Return the little that tells whether a file has to do with MPI; raises like `read`.

    It costs a tenth of `read`: symbols are not looked at, only the text of their names.
    """
    frame = open_frame(source)
    soname = frame.one(DT_SONAME)
    return Glance(
        interpreter=_interpreter(frame),
        soname="" if soname is None else frame.text(soname),
        needed=_texts(frame, DT_NEEDED),
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
