"""Which constants code hands to MPI, as compilers write it down."""

from __future__ import annotations

import contextlib
import itertools
import struct
import subprocess
from pathlib import Path

import pytest

from need import need
from stackproof.core.errors import StackproofError
from stackproof.linking.elf import BytesSource, calls, telling, x86
from stackproof.linking.elf.constants import read_traces
from stackproof.linking.elf.flow import Handed, Relay
from stackproof.linking.elf.layout import open_frame

CODE = """
#define FAR __attribute__((noinline, noclone))
int MPI_Init(void), MPI_Comm_split_type(int, int, int), MPI_Type_size(int, int *);
int MPI_Allreduce(int *, int *, int, int, int, int), MPI_Buffer_attach(void *, int), mpi_error_string_(const int *, int *);
volatile int deciding, unknown;
volatile int chosen = 12;
static FAR int size_of(int type) { int size = 0; MPI_Type_size(type, &size); return size; }
static FAR int further(int a, int type) { return size_of(type) + a; }
static FAR int split(int kind) { return MPI_Comm_split_type(7, kind, 0) + 1; }
static FAR int again(int a, int kind) { return split(kind) + a; }
FAR int elsewhere(void) { return again(2, 3) + 1; }
static const int resource = 5;
static FAR int returned(void) { if (unknown) { deciding = 1; return unknown; } return 9; }
static FAR void stores(int *place) { *place = 0x4c00024c; }
int main(void) {
    int types[2] = {deciding, 0}, size = 0;
    MPI_Init();
    MPI_Comm_split_type(7, 2, 0);
    if (deciding) MPI_Comm_split_type(7, 4, 0);
    MPI_Comm_split_type(7, chosen, 0);
    MPI_Comm_split_type(7, unknown, 0);
    MPI_Allreduce(types, types, 1, 0x4c000405, 0x5800000f, 7);
    MPI_Type_size(deciding ? 0x4c000449 : 0x4c000807, &size);
    size += further(3, 0x4c000246);
    MPI_Buffer_attach((void *)-2, 0);
    stores(types);
    MPI_Comm_split_type(7, resource, 0);
    size += elsewhere();
    MPI_Comm_split_type(7, returned(), 0);
    static const int fortran = 77;
    mpi_error_string_(&fortran, &size);
    return size + types[0];
}
"""
EXPECTED = {
    Handed("mpi_comm_split_type", 1, 2),
    Handed("mpi_comm_split_type", 1, 4),
    Handed("mpi_comm_split_type", 1, 5),
    Handed("mpi_comm_split_type", 1, 3),
    Handed("mpi_allreduce", 4, 0x5800000F),
    Handed("mpi_type_size", 0, 0x4C000246),
    Handed("mpi_buffer_attach", 0, 0xFFFFFFFE),
    Handed("mpi_error_string", 0, 77),
}
STUB = "".join(
    f"int {name}(void) {{ return 0; }}\n"
    for name in (
        "MPI_Init", "MPI_Comm_split_type", "MPI_Type_size", "MPI_Allreduce", "MPI_Buffer_attach",
        "mpi_error_string_",
    )
)  # fmt: skip
FLAGS = (
    ("-O0",),
    ("-O1",),
    ("-O2",),
    ("-Os",),
    ("-O2", "-fno-plt"),
    ("-O2", "-fno-pie", "-no-pie"),
    ("-O2", "-fcf-protection=full", "-Wl,-z,now"),
    ("-O0", "-fcf-protection=full"),
)


def compiled(folder: Path, *flags: str, compiler: str = "gcc") -> bytes:
    need(compiler)
    for name, text in (("stub.c", STUB), ("main.c", CODE)):
        (folder / name).write_text(text)
    stub, target = folder / "libstub.so", folder / "program"
    for argv in (
        ("-shared", "-fPIC", "-o", stub, folder / "stub.c"),
        (*flags, "-o", target, folder / "main.c", stub),
    ):
        subprocess.run([compiler, "-w", *argv], check=True, timeout=600)
    return target.read_bytes()


def found_in(content: bytes) -> set[Handed]:
    return set(calls.read_calls(open_frame(BytesSource("program", content))).handed)


@pytest.mark.parametrize("flags", FLAGS)
def test_what_is_handed_over(tmp_path: Path, flags: tuple[str, ...]) -> None:
    content = compiled(tmp_path, *flags)
    assert found_in(content) == EXPECTED
    shown = calls.shown_handles(open_frame(BytesSource("program", content)))
    assert 0x4C00024C in shown  # which is written to memory, and not handed to MPI
    assert 0x4C000405 not in shown  # which every release has


RELAYS = """
#define FAR __attribute__((noinline, noclone))
int MPI_Buffer_attach(void *, int), MPI_Comm_split_type(int, int, int), MPI_Init(void);
static FAR int inner(int size, void *buffer) { return MPI_Buffer_attach(buffer, size) + 1; }
int attach(void *buffer) { return MPI_Buffer_attach(buffer, 0); }
int again(int a, int b, void *buffer) { return inner(a + b, buffer) + a; }
int split(int kind) { return MPI_Comm_split_type(7, kind, 0) + kind; }
int fixed(void *buffer) { return MPI_Buffer_attach(0, buffer == 0) + MPI_Init(); }
"""
SENDS = """
int attach(void *), again(int, int, void *), fixed(void *), split(int);
volatile int unknown;
int main(void) {
    int done = attach((void *)-2) + again(1, 2, (void *)-2) + split(3);
    return done + fixed((void *)&unknown);
}
"""


COVERS = ("linking/elf/call_tables.py", "linking/elf/code.py", "linking/elf/reading.py")


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("flags", FLAGS)
def test_what_goes_through_another_file(
    tmp_path: Path, flags: tuple[str, ...], compiler: str
) -> None:
    """A program that calls no MPI hands a constant to a library, which passes it on."""
    need(compiler)
    for name, text in (("stub", STUB), ("relays", RELAYS), ("sends", SENDS)):
        (tmp_path / f"{name}.c").write_text(text)
    stub, library, program = (tmp_path / name for name in ("libstub.so", "librelays.so", "sends"))
    kept = [flag for flag in flags if not flag.endswith("pie")]
    for argv in (
        ("-shared", "-fPIC", "-o", stub, tmp_path / "stub.c"),
        (*kept, "-shared", "-fPIC", "-o", library, tmp_path / "relays.c", stub),
        (*flags, "-o", program, tmp_path / "sends.c", library, stub),
    ):
        subprocess.run([compiler, "-w", *argv], check=True, timeout=600)
    relays = read_traces(BytesSource("library", library.read_bytes())).relays
    assert set(relays) == {
        Relay("attach", 0, "mpi_buffer_attach", 0),
        Relay("again", 2, "mpi_buffer_attach", 0),
        Relay("split", 0, "mpi_comm_split_type", 1),
    }
    sent = read_traces(BytesSource("program", program.read_bytes())).sent
    automatic = telling.AUTOMATIC
    assert {Handed("attach", 0, automatic), Handed("again", 2, automatic)} <= set(sent)
    assert {one.function for one in sent} == {"attach", "again"}


def test_another_compiler(tmp_path: Path) -> None:
    assert found_in(compiled(tmp_path, "-O2", compiler="clang")) == EXPECTED


def test_without_the_table_for_unwinding(tmp_path: Path) -> None:
    flags = ("-O1", "-fno-asynchronous-unwind-tables", "-Wl,--no-eh-frame-hdr")
    assert Handed("mpi_comm_split_type", 1, 2) in found_in(compiled(tmp_path, *flags))


def test_damaged_code(tmp_path: Path) -> None:
    """Whatever stands in a file costs neither an error nor much time."""
    content = compiled(tmp_path, "-O2")
    places = range(0, len(content) - 8, 997)
    for place, word in itertools.product(places, (b"\xff" * 8, b"\xe8\0\0\0\x80\xe9\xfb\xff")):
        broken = bytearray(content)
        broken[place : place + 8] = word
        with contextlib.suppress(StackproofError):
            calls.read_calls(open_frame(BytesSource("program", bytes(broken))))


@pytest.mark.parametrize(
    ("code", "length", "kind"),
    [
        ("b84c02004c", 5, "move"),
        ("48c7c7feffffff", 7, "move"),
        ("c744240c0300004c", 8, "move"),
        ("8b7dfc", 3, "move"),
        ("31f6", 2, "zero"),
        ("488d3d00100000", 7, "address"),
        ("440f44e6", 4, "other"),
        ("6a03", 2, "push"),
        ("5e", 1, "pop"),
        ("e800000000", 5, "call"),
        ("ff1500000000", 6, "call"),
        ("0f8400000000", 6, "branch"),
        ("c3", 1, "end"),
        ("c5f877", 3, "other"),
        ("62f17c48100520000000", 10, "other"),
        ("66480f3a16c001", 7, "other"),
        ("f7c700000100", 6, "other"),
    ],
)
def test_one_instruction(code: str, length: int, kind: str) -> None:
    told = x86.decode(bytes.fromhex(code) + bytes(16), 0, 0x1000)
    assert told is not None
    assert (told.length, told.kind) == (length, kind)


def test_what_one_instruction_says() -> None:
    told = x86.decode(b"\xbe" + struct.pack("<I", 0x4C00024C), 0, 0)
    assert told is not None
    assert (told.target, told.value) == (x86.RSI, 0x4C00024C)
    told = x86.decode(bytes.fromhex("8b05f8ffffff"), 0, 0x1000)
    assert told is not None
    assert told.source == x86.Place(x86.AT, 0x1000 + 6 - 8)
    assert x86.decode(b"\xb8\x01", 0, 0) is None


@pytest.mark.parametrize(
    ("function", "position", "value", "is_one"),
    [
        ("mpi_allreduce", 3, 0x4C00024C, True),
        ("mpi_allreduce_c", 3, 0x4C00024C, True),
        ("mpi_barrier", 3, 0x4C00024C, False),
        ("mpi_allreduce", 4, 0x4C00024C, False),
        ("mpi_alltoall", 5, 0x4C00024C, True),
        ("mpi_file_write_at_all", 4, 0x4C00024C, True),
        ("mpi_file_write_at_all", 3, 0x4C00024C, False),
        ("mpi_comm_set_errhandler", 1, 0x54000003, True),
        ("mpi_comm_split_type", 1, 3, True),
        ("mpi_comm_split", 1, 3, False),
    ],
)
def test_what_a_function_takes(function: str, position: int, value: int, is_one: bool) -> None:
    assert telling.is_telling(function, position, value) is is_one
