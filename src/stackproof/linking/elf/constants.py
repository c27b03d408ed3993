"""What the code and the constants of an ELF object tell, beyond what the loader reads.

A program names the constants of the MPI that it was compiled for, a library the files that it may
open and the variables that it reads. All of this is evidence, not proof: a constant may stand in a
file for another reason, so that whoever judges counts different ones.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from stackproof.core import limits
from stackproof.core.value import Value
from stackproof.linking.elf import calls, telling
from stackproof.linking.elf.calls import Calls
from stackproof.linking.elf.flow import Handed, Relay
from stackproof.linking.elf.layout import (
    PF_W,
    PF_X,
    PT_LOAD,
    ElfSegment,
    Frame,
    ReadableFile,
    open_frame,
    too_large,
)

_X86_64, _AARCH64 = 62, 183
_WORDS = (
    "PMI_FD",
    "PMI_PORT",
    "PMI_RANK",
    "PMI2_Init",
    "I_MPI_PMI_LIBRARY",
    "PMIX_NAMESPACE",
    "PMIX_RANK",
    "process_vm_readv",
    "CRAY MPICH",
    "MVAPICH",
)
"""Texts that are looked for as they are: variables of launchers, system calls, and makers."""

_LIBRARY = re.compile(telling.LIBRARY.encode() + rb"\0")
_OF_MPI = re.compile(rb"(MPIX?_\w*)(\0?)")
_STEMS = {name.partition("_")[2]: name for name in telling.FUNCTIONS if "_" in name}
_STEM = re.compile(rf"({'|'.join(_STEMS)})(?![A-Za-z_])".encode(), re.IGNORECASE)
_FOLDERS = re.compile(rb"(?:/[\w.+-]+(?:/[\w.+-]+){0,20}/\0){2,16}")
_CACHE = re.compile(rb"(/[\w.+/-]{1,200}/ld\.so\.cache)\0")
_RELEASE = re.compile(rb"release version 2\.(\d{1,3})[.\s]")
_AFTER_PREFIX = b"\0${exec_prefix}/bin\0"
_MPI_LIBRARY = b"\0PMPI_Init\0"
_MPI_NAME = re.compile(rb"\0P?(?:MPI|mpi)_")
# How MPI_Get_library_version's numbers stand in MPICH and, with a `v`, in Open MPI. Intel MPI's
# begin with the year, and the first of a series has no third one.
_MPI_RELEASE = re.compile(
    rb"(?<=\0)(20[12]\d\.\d{1,2}(?:\.\d{1,2})?|v?[1-9]\.\d{1,2}\.\d{1,2}(?:(?:a|b|rc|p)\d{1,2})?)\0"
)


class Traces(Value):
    """What was found in one object.

    `handles` are handles of the MPICH ABI that its code loads, at most `ENOUGH`; `opened` the names
    of libraries among its constants; `words` the texts of launchers; `prefix` the folder that
    Open MPI was configured for; `release` what an MPI's main library says that it is; `newer`
    the handles in code or data that not every release of an MPI has, `handed` what code hands to
    MPI that not every release takes alike, `sent` what it hands to functions of other files, and
    `relays` its own functions that pass such on to MPI, `followed` the functions of MPI and of the
    loader of which it hides no value, `looked_up` those of MPI whose names stand in it as texts.
    The rest is of a dynamic loader.
    """

    handles: tuple[int, ...] = ()
    opened: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    prefix: str = ""
    release: str = ""
    newer: tuple[int, ...] = ()
    handed: tuple[Handed, ...] = ()
    sent: tuple[Handed, ...] = ()
    relays: tuple[Relay, ...] = ()
    followed: tuple[str, ...] = ()
    looked_up: tuple[str, ...] = ()
    loader_folders: tuple[str, ...] = ()
    loader_cache: str = ""
    glibc_minor: int | None = None


def read_traces(source: ReadableFile) -> Traces:
    """Return what code and constants tell; raises `StackproofError` like `elf.read`."""
    frame = open_frame(source)
    code, data = _content(frame)
    release = _RELEASE.search(data)
    loader = b"LD_LIBRARY_PATH\0" in data and b"/ld.so.cache\0" in data
    folders = _FOLDERS.search(data) if loader else None
    cache = _CACHE.search(data) if loader else None
    is_mpi = _MPI_LIBRARY in frame.strings
    calls_mpi = not is_mpi and _MPI_NAME.search(frame.strings) is not None
    names = () if is_mpi else telling.NAMES
    looks_up = {name for name in names if f"{name}\0".encode() in frame.strings}
    reads = frame.machine == _X86_64 and (calls_mpi or calls.sends(code, always=bool(looks_up)))
    seen = calls.read_calls(frame) if reads else Calls()
    hides = bool(looks_up & {"dlsym", "dlvsym"} - {*seen.followed})
    looked_up = () if is_mpi else _looked_up(frame, code, data, hides=hides)
    return Traces(
        handles=_handles(frame.machine, frame.order, code),
        opened=_libraries(data),
        words=tuple(word for word in _WORDS if word.encode() in data),
        prefix=_prefix(data),
        release=_release(data) if _MPI_LIBRARY in frame.strings else "",
        newer=_newer(frame, code) if calls_mpi or looked_up else (),
        **seen._asdict(),
        looked_up=looked_up,
        loader_folders=_split(folders.group()) if folders else (),
        loader_cache=_text(cache.group(1)) if cache else "",
        glibc_minor=int(release.group(1)) if release else None,
    )


def _looked_up(frame: Frame, code: bytes, data: bytes, *, hides: bool) -> tuple[str, ...]:
    """Return functions of MPI that texts name; if it hides names, by a part of a name too."""
    names: set[str] = set()
    for content, known in ((data.replace(frame.strings, b""), 16), (code if hides else b"", 8)):
        for match in _OF_MPI.finditer(content):
            name = match[1].decode().lower()
            if match[2]:
                names.add(name)
            if hides and (not match[2] or name.endswith("_")):
                names |= {f for f in _STEMS.values() if f.startswith(name[:known])}
        names |= {_STEMS[m[1].decode().lower()] for m in _STEM.finditer(content) if hides}
    return tuple(sorted(names))


def _content(frame: Frame) -> tuple[bytes, bytes]:
    """Return code and constants, as they are in the file.

    Constants are in segments that are neither code nor written to, where there are such (linkers
    since 2018 make them); an MPI's own code tells nothing and is left out.
    """
    loaded = [s for s in frame.segments if s.kind == PT_LOAD and s.file_size > 0]
    if sum(segment.file_size for segment in loaded) > limits.ELF_CONTENT.bytes:
        raise too_large(frame.source.name, sum(segment.file_size for segment in loaded))
    code = [s for s in loaded if s.flags & PF_X]
    constants = [s for s in loaded if not s.flags & (PF_X | PF_W)]
    data = _joined(frame, constants if code and constants else loaded)
    return b"" if _MPI_LIBRARY in frame.strings else _joined(frame, code), data


def _joined(frame: Frame, segments: list[ElfSegment]) -> bytes:
    parts = [frame.bytes_at(segment.offset, segment.file_size) for segment in segments]
    return parts[0] if len(parts) == 1 else b"\0".join(parts)


def _release(data: bytes) -> str:
    """Return the release that an MPI names most often, the first of those; empty without."""
    found = [match.group(1) for match in _MPI_RELEASE.finditer(data)]
    years = [
        release for release in found if release.startswith(b"20")
    ]  # Intel's; others are zlib's
    return _text(max(years or found, key=found.count)).removeprefix("v") if found else ""


def _prefix(data: bytes) -> str:
    """Return the folder that Open MPI was installed to: the constant before its `bin`."""
    end = data.find(_AFTER_PREFIX)
    start = data.rfind(b"\0", max(0, end - 4096), end) + 1 if end > 0 else 0
    return _text(data[start:end]) if end > 0 and data[start : start + 1] == b"/" else ""


def _libraries(data: bytes) -> tuple[str, ...]:
    """Return the names of libraries among constants; each must begin where a text begins."""
    found: dict[str, None] = {}
    at = data.find(b".so")
    while at >= 0:
        start = data.rfind(b"\0", max(0, at - 200), at) + 1
        match = _LIBRARY.fullmatch(data, start, at + 24) if start else None
        if match is None and start:
            end = data.find(b"\0", at, at + 24) + 1
            match = _LIBRARY.fullmatch(data, start, end) if end else None
        if match:
            found[_text(match.group()[:-1])] = None
        at = data.find(b".so", at + 3)
    return tuple(found)


def _split(folders: bytes) -> tuple[str, ...]:
    return tuple(_text(word[:-1]) for word in folders.split(b"\0") if word)


def _text(word: bytes) -> str:
    return word.decode("utf-8", "backslashreplace")


# Handles of the MPICH ABI (mpi.h of MPICH 3 to 5 and of Intel MPI): predefined datatypes are
# 0x4c00SSNN with SS the size in bytes and NN a number of its own.
MPICH_DATATYPES = frozenset(
    {
        0x4C000101, 0x4C000102, 0x4C00010D, 0x4C00010F, 0x4C000118, 0x4C000203, 0x4C000204,
        0x4C00040E, 0x4C000405, 0x4C000406, 0x4C00040A, 0x4C000807, 0x4C000808, 0x4C000809,
        0x4C00080B, 0x4C000819, 0x4C00100C, 0x4C000816, 0x4C000137, 0x4C000238, 0x4C000439,
        0x4C00083A, 0x4C00013B, 0x4C00023C, 0x4C00043D, 0x4C00083E, 0x4C000843, 0x4C000844,
        0x4C00013F,
    }
)  # fmt: skip
"""Values that a program of the MPICH ABI loads, and others hardly ever do."""

ENOUGH = 3
"""So many different handles are no accident; the search for more is not worth the time."""

_OPCODES = range(0xB8, 0xC0)  # mov r32, imm32; a bare value may be part of two instructions


def _handles(machine: int, order: str, code: bytes) -> tuple[int, ...]:
    """Return the first handles of the MPICH ABI that instructions load."""
    if order != "<" or machine not in {_X86_64, _AARCH64}:
        return ()
    found: set[int] = set()
    for value in _of_x86(code) if machine == _X86_64 else _of_aarch64(code):
        if value in MPICH_DATATYPES:
            found.add(value)
        if len(found) == ENOUGH:
            break
    return tuple(sorted(found))


def _newer(frame: Frame, code: bytes) -> tuple[int, ...]:
    """Return the handles in code or data that not every release has."""
    found = set(calls.shown_handles(frame))
    if frame.machine == _AARCH64 and frame.order == "<":
        highs = {value >> 16 for value in telling.HANDLES}
        loaded = {value for high in highs for value in _of_aarch64(code, high)}
        found |= loaded & telling.HANDLES
    return tuple(sorted(found))


def _of_x86(code: bytes) -> Iterator[int]:
    """Yield the 32-bit immediates 0x4c00nnnn behind the opcode that loads one."""
    at = code.find(b"\x00\x4c", 3)
    while at >= 0:
        if code[at - 3] in _OPCODES:
            yield int.from_bytes(code[at - 2 : at + 2], "little")
        at = code.find(b"\x00\x4c", at + 2)


def _of_aarch64(code: bytes, high: int = 0x4C00) -> Iterator[int]:
    """Yield what `movz w, #low` and, within four instructions, `movk w, #high, lsl 16` load."""
    for register in range(32):
        word = struct.pack("<I", 0x72A00000 | high << 5 | register)
        at = code.find(word)
        while at >= 0:
            if at % 4 == 0:
                for before in range(max(0, at - 16), at, 4):
                    (instruction,) = struct.unpack_from("<I", code, before)
                    if instruction & 0xFFE0001F == 0x52800000 | register:
                        yield high << 16 | instruction >> 5 & 0xFFFF
            at = code.find(word, at + 4)
