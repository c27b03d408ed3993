"""Files that are made to cost a reader its time or memory: each case, and how reading it must end.

Run as a program (`main`) in a process with bounds; `tests/house/test_hostile_inputs.py` does.
"""

from __future__ import annotations

import io
import json
import struct
import tarfile
from collections.abc import Callable

import rootfslab
from stackproof.bench.programs import tables
from stackproof.build.engines.vendor import rpm
from stackproof.core import document, mountlist, noun
from stackproof.core.errors import StackproofError
from stackproof.doctor.evidence import log as evidence_log
from stackproof.image import described, superblock
from stackproof.image.container import cpio, tar
from stackproof.image.container import oci as container_oci
from stackproof.image.container.effects import roots
from stackproof.image.container.tree import Member, RootTree
from stackproof.inject import hook_manifest
from stackproof.knowledge.evidence import Evidence, redacted
from stackproof.linking.elf import read
from stackproof.linking.elf.layout import BytesSource
from stackproof.linking.loader import ldcache

_MIB = 1 << 20
_DEEP = "[" * 100_000


def _yaml(text: str) -> Callable[[], object]:
    return lambda: document.parse(text, file="f")


def _laughs() -> str:
    """Nine levels of nine aliases: 387 million values."""
    pairs = zip("abcdefgh", "bcdefghi", strict=True)
    levels = (f"{low}: &{low} [{','.join([f'*{high}'] * 9)}]\n" for high, low in pairs)
    return "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(levels)


def _cache(count: int, names: bytes, step: int) -> bytes:
    """Return an ld.so.cache whose entries' names begin one byte after another."""
    base = 48 + 24 * count
    head = struct.pack("<20sIIBxxxI12x", b"glibc-ld.so.cache1.1", count, len(names), 0, 0)
    entries = (
        struct.pack("<iIIIQ", 3, base + step * number, base + step * number, 0, 0)
        for number in range(count)
    )
    return head + b"".join(entries) + names


def _elf(**fields: int) -> bytes:
    """Return the header of a 64-bit program with fields of it replaced."""
    known = {
        "type": 3, "machine": 62, "version": 1, "entry": 0, "phoff": 64, "shoff": 0, "flags": 0,
        "ehsize": 64, "phentsize": 56, "phnum": 1, "shentsize": 64, "shnum": 0, "shstrndx": 0,
    }  # fmt: skip
    return (
        b"\x7fELF\2\1\1" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", *{**known, **fields}.values())
    )


def _dynamic(*entries: tuple[int, int]) -> bytes:
    """Return a program of one loaded segment with a dynamic section of such entries."""
    table = b"".join(struct.pack("<qQ", *entry) for entry in (*entries, (0, 0)))
    at = 64 + 2 * 56
    load = struct.pack("<IIQQQQQQ", 1, 4, 0, 0, 0, at + len(table), at + len(table), 4096)
    dynamic = struct.pack("<IIQQQQQQ", 2, 4, at, at, at, len(table), len(table), 8)
    return _elf(phnum=2) + load + dynamic + table


def _tar(**fields: object) -> bytes:
    entry = tarfile.TarInfo("name")
    for key, value in fields.items():
        setattr(entry, key, value)
    return entry.tobuf(tarfile.GNU_FORMAT) + bytes(1024)


def _entries(content: bytes) -> Callable[[], object]:
    return lambda: list(tar.entries(tar.MemoryStream(content, "f")))


def _cpio(*, length: int = 2, size: int = 0) -> Callable[[], object]:
    """Return what reads an archive of one entry that claims such a name and content."""
    numbers = (1, 0o100644, 0, 0, 1, 0, size, 0, 0, 0, 0, length, 0)
    head = b"070701" + b"".join(b"%08X" % number for number in numbers) + b"a\0"
    return lambda: list(cpio.entries(tar.MemoryStream(head + bytes(64), "f")))


def _rpm(*, count: int = 1, size: int = 16, files: int = 1) -> Callable[[], object]:
    """Return what reads an RPM whose header claims so many entries, bytes and names of files."""
    lead = b"\xed\xab\xee\xdb" + bytes(92)
    signature = b"\x8e\xad\xe8\1" + bytes(12)
    words = {1000: 1, 1001: 1, 1002: 1, 1022: 1, 1117: files}
    index = b"".join(struct.pack(">IIII", tag, 8, 0, number) for tag, number in words.items())
    count = len(words) if count == 1 else count
    header = b"\x8e\xad\xe8\1" + bytes(4) + struct.pack(">II", count, size)
    content = lead + signature + header + index + b"a\0" * 8 + bytes(64)
    return lambda: rpm.parse(BytesSource("f", content))


def _looping() -> None:
    """Look for a path in a tree of links that lead into each other."""
    tree = RootTree("f")
    links = [
        Member(
            name=f"l{n}",
            kind="symlink",
            link=f"l{(n + 1) % 50}/l{n}",
            mode=0o777,
            size=0,
            offset=-1,
        )
        for n in range(50)
    ]
    tree.add_layer(tuple(links))
    assert tree.find("/l0/a") is None


def _superblock(**fields: int) -> bytes:
    known = {
        "magic": 0x73717368, "inodes": 1, "time": 0, "block": 131072, "fragments": 0,
        "compression": 1, "log": 17, "flags": 0, "ids": 1, "major": 4, "minor": 0,
        "root": 0, "used": 96,
    }  # fmt: skip
    return struct.pack("<IIIIIHHHHHHQQ", *{**known, **fields}.values()) + b"\xff" * 48


def _header(**fields: int) -> Callable[[], object]:
    return lambda: superblock.parse(_superblock(**fields), file_size=4096, path="f")


def _many_descriptors() -> bytes:
    """Return the header of a SIF file that says that a billion descriptors follow."""
    whole = bytearray(rootfslab.sif(b"hsqs"))
    whole[88:96] = struct.pack("<q", 10**9)
    return bytes(whole[:128])


# What is read, and how it ends: a reason of ours, or `read`.
CASES: dict[str, tuple[Callable[[], object], str]] = {
    "yaml: a billion laughs": (_yaml(_laughs()), "too-large"),
    "yaml: an alias of itself": (_yaml("a: &a [*a]\n"), "too-large"),
    "yaml: merges without end": (_yaml("a: &a {<<: *a}\n"), "wrong-type"),
    "yaml: deep lists": (_yaml(_DEEP), "yaml-syntax"),
    "yaml: deep mappings": (_yaml("{a: " * 20_000), "yaml-syntax"),
    "yaml: many values": (_yaml("- a\n" * (_MIB // 4)), "too-large"),
    "yaml: one byte too many": (_yaml(" " * (_MIB + 1)), "too-large"),
    "yaml: a number of colons": (_yaml("a: 1" + ":5" * 400_000), "wrong-type"),
    "yaml: a number of digits": (_yaml("a: " + "9" * 900_000), "wrong-type"),
    "yaml: a tag that builds": (_yaml("!!python/object/apply:os.system [true]"), "unsafe-tag"),
    "json: deep": (lambda: noun.from_json(Evidence, _DEEP), "yaml-syntax"),
    "json: deep objects": (lambda: noun.from_json(Evidence, '{"a":' * 100_000), "yaml-syntax"),
    "json: digits": (
        lambda: noun.from_json(Evidence, '{"schema": ' + "9" * (8 * _MIB) + "}"), "yaml-syntax"
    ),
    "meta: deep": (lambda: described.parse(_DEEP, path="f", size=1), "image-no-meta"),
    "meta: digits": (
        lambda: described.parse('{"mount": ' + "9" * (8 * _MIB) + "}", path="f", size=1),
        "image-no-meta",
    ),
    "mount list: a million": (lambda: mountlist.parse("/a:/b," * 200_000), "usage"),
    "log: one line of 32 MiB": (lambda: evidence_log.of_log("a=" * (16 * _MIB), "f"), "read"),
    "log: a million lines": (lambda: evidence_log.of_log("FI_PROVIDER=x\n" * 1_000_000, "f"), "read"),
    "log: secrets without end": (lambda: redacted("password=" * _MIB), "read"),
    "output: a line of 8 MiB": (lambda: tables.read("1 " * (4 * _MIB)), "read"),
    "output: titles": (lambda: tables.read("# OSU MPI Latency Test v7.0\n" * 100_000), "read"),
    "output: blanks": (lambda: tables.read("#" + " " * (8 * _MIB) + "\n#---"), "read"),
    "tar: a name of eight GiB": (_entries(_tar(type=b"L", size=(8 << 30) - 1)), "too-large"),
    "tar: a header of eight GiB": (_entries(_tar(type=b"x", size=(8 << 30) - 1)), "too-large"),
    "tar: a sparse file": (_entries(_tar(type=b"S")), "unsupported"),
    "tar: a size without end": (_entries(_tar(size=1 << 62)), "read"),
    "tar: links in a circle": (_looping, "read"),
    "cpio: a name of four GiB": (_cpio(length=0xFFFFFFFF), "too-large"),
    "cpio: a file of four GiB": (_cpio(size=0xFFFFFFFF), "image-unreadable"),
    "rpm: four billion entries": (_rpm(count=0xFFFFFFFF), "too-large"),
    "rpm: a header of four GiB": (_rpm(size=0xFFFFFFFF), "too-large"),
    "rpm: four billion files": (_rpm(files=0xFFFFFFFF), "too-large"),
    "rpm: names without end": (_rpm(files=200_000), "invalid-value"),
    "oci: deep": (lambda: container_oci.parse_index(_DEEP.encode(), file="f"), "image-unreadable"),
    "oci: a million layers": (
        lambda: container_oci.parse_manifest(
            json.dumps(
                {
                    "config": {"digest": f"sha256:{'0' * 64}"},
                    "layers": [{"digest": f"sha256:{'0' * 64}"}] * 100_000,
                }
            ).encode(),
            file="f",
        ),
        "image-unreadable",
    ),
    "sif: a billion descriptors": (
        lambda: roots.find_partition(io.BytesIO(_many_descriptors()), file_size=1 << 40, file="f"),
        "image-unreadable",
    ),
    "squashfs: blocks of 2 GiB": (_header(block=1 << 31, log=31), "image-not-squashfs"),
    "squashfs: longer than its file": (_header(used=1 << 60), "image-truncated"),
    "elf: 65535 segments": (lambda: read(BytesSource("f", _elf(phnum=65535))), "elf-damaged"),
    "elf: segments outside": (lambda: read(BytesSource("f", _elf(phoff=1 << 62))), "elf-damaged"),
    "elf: strings of an exabyte": (
        lambda: read(BytesSource("f", _dynamic((5, 0), (10, 1 << 60)))), "too-large"
    ),
    "elf: a symbol table without end": (
        lambda: read(BytesSource("f", _dynamic((5, 64), (10, 64), (6, 64), (4, 176)))), "read"
    ),
    "elf: version nodes in a circle": (
        lambda: read(BytesSource("f", _dynamic((5, 64), (10, 64), (0x6FFFFFFE, 64), (0x6FFFFFFF, 1 << 40)))),
        "elf-damaged",
    ),
    "ld.so.cache: names without end": (
        lambda: ldcache.parse(_cache(1 << 20, b"a" * (40 * _MIB), 1), file="f"), "invalid-value"
    ),
    "ld.so.cache: names that overlap": (
        lambda: ldcache.parse(_cache(500_000, (b"a" * 4000 + b"\0") * 250, 2), file="f"),
        "invalid-value",
    ),
    "ld.so.cache: four billion entries": (
        lambda: ldcache.parse(_cache(0, b"", 0).replace(bytes(4), b"\xff" * 4, 1), file="f"),
        "invalid-value",
    ),
    "compact: a megabyte of words": (
        lambda: hook_manifest.parse("need " * (_MIB // 5), file="f"), "invalid-value"
    ),
}  # fmt: skip


def main() -> None:
    """Print name and end of each case."""
    for name, (work, _) in CASES.items():
        try:
            work()
            said = "read"
        except StackproofError as error:
            said = str(error.reason)
        except Exception as error:  # noqa: BLE001 - what no reader may raise
            said = f"{type(error).__name__}: {error}"[:200]
        print(name, " ".join(said.split()), sep="\t", flush=True)
