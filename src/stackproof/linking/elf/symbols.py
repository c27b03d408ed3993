"""Dynamic symbols of an ELF file: how many there are, what it needs and what it offers."""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterator

from msgspec import Struct, field

from stackproof.core import limits
from stackproof.linking.elf.layout import Frame, Tag, damaged, too_large
from stackproof.linking.elf.model import HIDDEN, CopiedVariable, Import

_LOCAL, _WEAK = 0, 2
_ABSOLUTE = 0xFFF1
_OBJECT, _FUNCTION, _TLS = 1, 2, 6
_SHT_SYMTAB, _SHT_DYNSYM = 2, 11
# Relocations that copy a variable into the program; each is in the psABI of its machine.
_COPY = {3: 5, 20: 19, 21: 19, 22: 9, 40: 20, 62: 5, 183: 1024, 243: 4, 258: 4}

Entry = tuple[int, int, int, int, int, int]
"""A symbol: offset of its name, binding and type, visibility, section, value, size in bytes."""


class Symbols(Struct):
    """What the dynamic symbol table holds; see `ElfFile` for the meaning."""

    imports: list[Import] = field(default_factory=list)
    exports: dict[str, int] = field(default_factory=dict)
    more: dict[str, tuple[int, ...]] = field(default_factory=dict)
    objects: dict[str, int] = field(default_factory=dict)
    copies: list[CopiedVariable] = field(default_factory=list)


def dynamic_symbols(frame: Frame) -> Symbols:
    """Return what an object imports and exports, and which variables a program copies."""
    found = Symbols()
    address = frame.one(Tag.SYMTAB)
    if address is None:
        return found
    relocated, copied = _relocated(frame)
    entries, versions = _table(frame, address)
    # As text of one character a byte: decoding every name by itself takes longer than all else.
    plain = frame.strings.isascii()
    strings = frame.strings.decode("latin-1")
    find = strings.find
    exports, objects = found.exports, found.objects
    for number, ((offset, info, other, section, value, size), version) in enumerate(
        zip(entries, versions, strict=False)
    ):
        if info < 16:  # a local symbol
            continue
        end = find("\0", offset)
        if end < 0:
            raise damaged(frame.source.name, "the name of a symbol is outside of the string table")
        name = strings[offset:end] if plain else frame.text(offset)
        if section == 0:
            weak, eager = info >> 4 == _WEAK, number in relocated
            found.imports.append(Import(name, version & ~HIDDEN, weak, eager))
            continue
        # As the loader: 0 is no place, unless absolute or thread-local; 1 and 2 of the visibility
        # are internal and hidden.
        kind = info & 15
        if (not value and section != _ABSOLUTE and kind != _TLS) or other & 3 in {1, 2}:
            continue
        if name in exports:
            found.more[name] = (*found.more.get(name, ()), version)
        else:
            exports[name] = version
        if kind == _OBJECT:
            objects[name] = size
            if number in copied:
                found.copies.append(CopiedVariable(name, size))
    return found


def defined_functions(frame: Frame) -> dict[int, tuple[str, ...]]:
    """Return the names of the functions that an object exports, by their addresses."""
    address = frame.one(Tag.SYMTAB)
    found: dict[int, tuple[str, ...]] = {}
    for offset, info, _, section, value, _ in _table(frame, address)[0] if address else ():
        if section and info >= 16 and info & 15 == _FUNCTION:
            found[value] = (*found.get(value, ()), frame.text(offset))
    return found


def _table(frame: Frame, address: int) -> tuple[Iterator[Entry], array[int]]:
    """Return the symbols and the version index of each, as far as the table makes sense."""
    width = 16 if frame.bits == 32 else 24
    count = _count(frame, address, width)
    if count * width > limits.ELF.bytes:
        raise too_large(frame.source.name, count * width)
    table = frame.memory(address, count * width)
    versions = array("H")
    place = frame.one(Tag.VERSYM)
    versions.frombytes(bytes(2 * count) if place is None else frame.memory(place, 2 * count))
    _swap(frame, versions)
    return _entries(frame, table), versions


def _entries(frame: Frame, table: bytes) -> Iterator[Entry]:
    if frame.bits == 64:
        return struct.iter_unpack(frame.order + "IBBHQQ", table)
    return (
        (name, info, other, section, value, size)
        for name, value, size, info, other, section in struct.iter_unpack(
            frame.order + "IIIBBH", table
        )
    )


def _swap(frame: Frame, numbers: array[int]) -> None:
    """Turn numbers into the byte order of this machine."""
    if frame.order != ("<" if sys.byteorder == "little" else ">"):
        numbers.byteswap()


def _count(frame: Frame, address: int, width: int) -> int:
    """Return how many symbols there are.

    DT_HASH says so. DT_GNU_HASH tells the last exported one; with none exported, only the section
    headers know, and without those the next table in memory is the limit.
    """
    place = frame.one(Tag.HASH)
    if place is not None and frame.machine not in {22, 0x9026}:  # entries of 8 bytes there
        return frame.unpack("II", frame.memory(place, 8))[1]
    place = frame.one(Tag.GNU_HASH)
    exported = 0 if place is None else _exported(frame, place)
    return exported or _by_sections(frame, address) or _by_neighbours(frame, address, width)


def _exported(frame: Frame, place: int) -> int:
    """Return one more than the last symbol of a GNU hash table, 0 when it is empty."""
    buckets, first, words, _ = frame.unpack("IIII", frame.memory(place, 16))
    start = place + 16 + words * (frame.bits // 8)
    table = array("I")
    table.frombytes(frame.memory(start, 4 * buckets))
    _swap(frame, table)
    last = max(table, default=0)
    if last == 0:
        return 0
    if last < first:
        raise damaged(frame.source.name, "its hash table names symbols before its first one")
    chain = array("I")
    rest = frame.rest(start + 4 * buckets + 4 * (last - first), limits.ELF.bytes)
    chain.frombytes(rest[: len(rest) & ~3])
    _swap(frame, chain)
    for length, value in enumerate(chain, start=1):
        if value & 1:
            return last + length
    raise damaged(frame.source.name, "its hash table has no end")


def _by_sections(frame: Frame, address: int) -> int:
    """Return the count that the section headers tell of the table at `address`, else 0."""
    for kind, place, _, size, entry, _ in _sections(frame):
        if kind == _SHT_DYNSYM and place == address and entry:
            return size // entry
    return 0


def _sections(frame: Frame) -> Iterator[tuple[int, int, int, int, int, int]]:
    """Yield (type, address, offset, size, size of an entry, link); nothing when stripped."""
    layout = "IIIIIIIIII" if frame.bits == 32 else "IIQQQQIIQQ"
    width = struct.calcsize(f"={layout}")
    count = min(frame.section_count, limits.ELF_SECTIONS.count)
    if frame.section_size != width or not frame.section_offset:
        return
    content = frame.source.read(frame.section_offset, count * width)
    content = content[: len(content) // width * width]
    for fields in struct.iter_unpack(frame.order + layout, content):
        _, kind, _, address, offset, size, link, _, _, entry = fields
        yield kind, address, offset, size, entry, link


def _by_neighbours(frame: Frame, address: int, width: int) -> int:
    _, left = frame.offset_of(address)
    others = [value for values in frame.dynamic.values() for value in values if value > address]
    return min([left, *(value - address for value in others)]) // width


def _relocated(frame: Frame) -> tuple[frozenset[int], frozenset[int]]:
    """Return the symbols bound at start (not first when called), and those that are copied."""
    bound: set[int] = set()
    copied: set[int] = set()
    letter, shift = ("I", 8) if frame.bits == 32 else ("Q", 32)
    for table, size, words in ((Tag.RELA, Tag.RELASZ, 3), (Tag.REL, Tag.RELSZ, 2)):
        place, count = frame.one(table), frame.one(size)
        if place is None or not count:
            continue
        entry = words * struct.calcsize(f"={letter}")
        numbers = array(letter)
        numbers.frombytes(frame.memory(place, count // entry * entry))
        _swap(frame, numbers)
        for info in set(numbers[1::words]):
            symbol, kind = info >> shift, info & ((1 << shift) - 1)
            (copied if kind == _COPY.get(frame.machine) else bound).add(symbol)
    return frozenset(bound - {0}), frozenset(copied)


def defines_in_full_table(frame: Frame, name: bytes) -> bool:
    """Return whether the full symbol table, where there is one, defines a name."""
    sections = list(_sections(frame))
    for kind, _, offset, size, entry, link in sections:
        width = 16 if frame.bits == 32 else 24
        if kind != _SHT_SYMTAB or entry != width or link >= len(sections):
            continue
        _, _, start, length, _, _ = sections[link]
        if max(size, length) > limits.ELF.bytes:
            continue
        strings = frame.source.read(start, length)
        # A linker lets a name be the end of a longer one: MPI_Init that of PMPI_Init.
        places = set(_ends(strings, name + b"\0"))
        if not places:
            continue
        table = frame.source.read(offset, size // width * width)
        table = table[: len(table) // width * width]
        return any(e[0] in places and e[3] != 0 for e in _entries(frame, table))
    return False


def _ends(strings: bytes, text: bytes) -> Iterator[int]:
    at = strings.find(text)
    while at >= 0:
        yield at
        at = strings.find(text, at + 1)
