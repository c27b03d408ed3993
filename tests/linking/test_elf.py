"""The ELF reader: damaged and hostile files cost an error of ours, never anything else."""

from __future__ import annotations

import _ctypes
import random
import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stackproof.core.errors import Reason, StackproofError
from stackproof.core.noun import from_data, to_data
from stackproof.linking.elf import BytesSource, ElfFile, read
from stackproof.linking.elf.constants import MPICH_DATATYPES, _of_aarch64, _of_x86, read_traces

COVERS = (
    "linking/elf/layout.py",
    "linking/elf/model.py",
    "linking/elf/reader.py",
    "linking/elf/symbols.py",
)

# A real library of this Python, as the linker of this machine made it.
REAL = Path(_ctypes.__file__).read_bytes()
REASONS = {Reason.NOT_ELF, Reason.ELF_DAMAGED, Reason.TOO_LARGE}


def source(content: bytes) -> BytesSource:
    return BytesSource("a.so", content)


def reads_or_says_why(content: bytes) -> None:
    """Require that both readers end with a value or with an error of ours."""
    for reader in (read, read_traces):
        reason = None
        try:
            reader(source(content))
        except StackproofError as error:
            reason = error.reason
        assert reason in {None, *REASONS}


def test_a_real_library() -> None:
    elf = read(source(REAL))
    assert elf.dynamic
    assert not elf.is_program
    assert "PyInit__ctypes" in elf.exports
    assert "PyErr_SetString" in {entry.name for entry in elf.imports}
    assert any(name.startswith("libc.so") for name in elf.needed)
    assert from_data(ElfFile, to_data(elf)) == elf


@pytest.mark.parametrize("content", [b"", b"\x7f", b"#!/bin/sh\n", b"MZ" * 100])
def test_other_files(content: bytes) -> None:
    with pytest.raises(StackproofError) as caught:
        read(source(content))
    assert caught.value.reason is Reason.NOT_ELF


@pytest.mark.parametrize("size", [4, 15, 16, 40, 63, 64, 100, 200, 1000])
def test_cut_files(size: int) -> None:
    with pytest.raises(StackproofError) as caught:
        read(source(REAL[:size]))
    assert caught.value.reason is Reason.ELF_DAMAGED


@pytest.mark.parametrize("seed", range(20))
def test_cut_anywhere(seed: int) -> None:
    reads_or_says_why(REAL[: random.Random(seed).randrange(len(REAL))])


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.tuples(st.integers(0, len(REAL) - 1), st.integers(0, 255)), min_size=1, max_size=12)
)
def test_changed_bytes(changes: list[tuple[int, int]]) -> None:
    content = bytearray(REAL)
    for place, value in changes:
        content[place] = value
    reads_or_says_why(bytes(content))


def dynamic_place() -> tuple[int, int]:
    """Return offset and size of the dynamic section of the real library."""
    start, width, count = struct.unpack_from("<32xQ14xHH", REAL)
    for number in range(count):
        kind, _, offset, _, _, size, _, _ = struct.unpack_from(
            "<IIQQQQQQ", REAL, start + number * width
        )
        if kind == 2:
            return offset, size
    raise AssertionError


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    entry=st.integers(0, 40),
    value=st.one_of(
        st.integers(0, 2**64 - 1),
        st.integers(0, 1 << 22),
        st.sampled_from([0, 1, 2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 1]),
    ),
)
def test_hostile_dynamic_entries(entry: int, value: int) -> None:
    """Every address, size and count that the dynamic section has may be a lie."""
    offset, size = dynamic_place()
    place = offset + 16 * (entry % (size // 16)) + 8
    content = REAL[:place] + struct.pack("<Q", value) + REAL[place + 8 :]
    reads_or_says_why(content)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    segment=st.integers(0, 12),
    word=st.integers(2, 6),
    value=st.sampled_from([0, 1, 4096, 2**31, 2**32, 2**40, 2**63, 2**64 - 1]),
)
def test_hostile_segments(segment: int, word: int, value: int) -> None:
    """Segments that overlap, leave the file or have 4 GB."""
    start, width, count = struct.unpack_from("<32xQ14xHH", REAL)
    place = start + width * (segment % count) + 8 * (word - 1)
    reads_or_says_why(REAL[:place] + struct.pack("<Q", value) + REAL[place + 8 :])


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=2000))
def test_random_bytes_after_the_magic(content: bytes) -> None:
    reads_or_says_why(b"\x7fELF\x02\x01\x01" + content)


def test_a_hostile_file_costs_little_memory() -> None:
    """Counts of 4 GB in every field: refused before anything of that size is asked for."""
    offset, size = dynamic_place()
    worst = 0
    tracemalloc.start()
    try:
        for number in range(size // 16):
            place = offset + 16 * number + 8
            content = REAL[:place] + struct.pack("<Q", 2**32 - 1) + REAL[place + 8 :]
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            reads_or_says_why(content)
            worst = max(worst, tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()
    assert worst < 20 * len(REAL)


def test_a_source_that_shrinks() -> None:
    """A file that is cut while it is read."""

    class Shrinking:
        name = "a.so"
        size = len(REAL)

        def read(self, offset: int, count: int) -> bytes:
            return REAL[offset : offset + count][: max(64, count - 1)]

    with pytest.raises(StackproofError) as caught:
        read(Shrinking())
    assert caught.value.reason is Reason.ELF_DAMAGED


def test_handles_of_x86() -> None:
    value = 0x4C000405
    assert value in set(_of_x86(b"\x90\x90\xbe" + struct.pack("<I", value) + b"\x90"))
    # The same bytes as the end of one instruction and the start of the next are no handle.
    assert list(_of_x86(b"\x8b\x8d\x48\x05\x04\x00\x4c\x89\xe7")) == []


def test_handles_of_aarch64() -> None:
    """`movz w1, #0x405; movk w1, #0x4c00, lsl #16`, as compilers load MPI_INT."""
    movz = 0x52800000 | 0x405 << 5 | 1
    movk = 0x72A00000 | 0x4C00 << 5 | 1
    code = struct.pack("<III", 0xD503201F, movz, movk)
    assert list(_of_aarch64(code)) == [0x4C000405]
    assert 0x4C000405 in MPICH_DATATYPES
    other = struct.pack("<II", movz & ~31 | 2, movk)
    assert list(_of_aarch64(other)) == []
