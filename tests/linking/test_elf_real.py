"""The ELF reader against pyelftools, on files of this machine and on compiled ones."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerDefSection, GNUVerNeedSection, GNUVerSymSection
from elftools.elf.sections import NoteSection, SymbolTableSection

from elflab import Lab
from need import need
from stackproof.core.errors import Reason, StackproofError
from stackproof.linking.effects import runpath
from stackproof.linking.effects.view import RootView
from stackproof.linking.elf import HIDDEN, BytesSource, read
from stackproof.linking.loader import File


def theirs(path):
    """Return what pyelftools reads of a file, in our terms."""
    with open(path, "rb") as stream:
        elf = ELFFile(stream)
        tags = [
            t for s in elf.iter_segments() if isinstance(s, DynamicSegment) for t in s.iter_tags()
        ]
        named = {}
        for tag in tags:
            for word in ("needed", "soname", "rpath", "runpath"):
                if tag.entry.d_tag == f"DT_{word.upper()}":
                    named.setdefault(word, []).append(getattr(tag, word))
        dynsym = elf.get_section_by_name(".dynsym")
        versions = [s for s in elf.iter_sections() if isinstance(s, GNUVerSymSection)]
        imports, exports = [], {}
        for number, symbol in enumerate(dynsym.iter_symbols() if dynsym else ()):
            index = 0
            if versions:
                raw = versions[0].get_symbol(number)["ndx"]
                index = {"VER_NDX_LOCAL": 0, "VER_NDX_GLOBAL": 1}.get(raw, raw)
            bind, kind = symbol["st_info"]["bind"], symbol["st_info"]["type"]
            if bind == "STB_LOCAL" or number == 0:
                continue
            if symbol["st_shndx"] == "SHN_UNDEF":
                imports.append((symbol.name, index & ~HIDDEN, bind == "STB_WEAK"))
            elif (
                symbol["st_value"] or symbol["st_shndx"] == "SHN_ABS" or kind == "STT_TLS"
            ) and symbol["st_other"]["visibility"] not in {"STV_HIDDEN", "STV_INTERNAL"}:
                exports.setdefault(symbol.name, []).append(index)
        needs = [
            (version.name, aux.name)
            for section in elf.iter_sections()
            if isinstance(section, GNUVerNeedSection)
            for version, auxes in section.iter_versions()
            for aux in auxes
        ]
        defined = [
            next(iter(auxes)).name
            for section in elf.iter_sections()
            if isinstance(section, GNUVerDefSection)
            for _, auxes in section.iter_versions()
        ]
        ids = [
            note["n_desc"]
            for section in elf.iter_sections()
            if isinstance(section, NoteSection)
            for note in section.iter_notes()
            if note["n_type"] == "NT_GNU_BUILD_ID"
        ]
        inside = any(
            symbol.name == "MPI_Init" and symbol["st_shndx"] != "SHN_UNDEF"
            for section in elf.iter_sections()
            if isinstance(section, SymbolTableSection) and section.name == ".symtab"
            for symbol in section.iter_symbols()
        )
        interpreter = next(
            (s.get_interp_name() for s in elf.iter_segments() if s["p_type"] == "PT_INTERP"), ""
        )
        return named, imports, exports, needs, defined, ids, inside, interpreter


def agree(path):
    named, imports, exports, needs, defined, ids, inside, interpreter = theirs(path)
    view = RootView()
    file = view.look(os.path.realpath(path))
    assert isinstance(file, File)
    elf = view.elf(file)
    assert list(elf.needed) == named.get("needed", [])
    assert elf.soname == named.get("soname", [""])[-1]
    assert elf.rpath == named.get("rpath", [None])[-1]
    assert elf.runpath == named.get("runpath", [None])[-1]
    assert [(e.name, e.version, e.weak) for e in elf.imports] == imports
    assert {
        name: [elf.exports[name], *elf.more_exports.get(name, ())] for name in elf.exports
    } == exports
    assert [(need.library, need.name) for need in elf.version_needs] == needs
    assert [entry.name for entry in elf.version_definitions] == defined
    assert elf.build_id == (ids[0] if ids else "")
    assert elf.interpreter == interpreter
    if elf.is_program:
        assert elf.mpi_inside == inside


def some_files():
    folders = [
        "/usr/bin",
        "/lib/x86_64-linux-gnu",
        "/usr/lib64",
        "/lib64",
        "/usr/lib/aarch64-linux-gnu",
    ]
    found = {}
    for folder in folders:
        for path in sorted(Path(folder).glob("*")) if os.path.isdir(folder) else ():
            real = path.resolve()
            if real.is_file() and 8_000 < real.stat().st_size < 700_000:
                with real.open("rb") as stream:
                    if stream.read(4) == b"\x7fELF":
                        found[real] = None
    every = list(found)
    return [str(path) for path in every[:: max(1, len(every) // 40)]]


@pytest.mark.parametrize("path", some_files())
def test_files_of_this_machine(path):
    agree(path)


def test_the_c_library():
    for place in (
        "/lib/x86_64-linux-gnu/libc.so.6",
        "/lib64/libc.so.6",
        "/lib/aarch64-linux-gnu/libc.so.6",
    ):
        if os.path.exists(place):
            agree(place)
            return
    pytest.skip("no glibc where it usually is")


SCRIPT = "V_1 { global: one; local: *; }; V_2 { global: two; } V_1;"
CASES = {
    "plain": {"defines": ["one", "two"]},
    "nothing": {},
    "versions": {"defines": ["one", "two"], "script": SCRIPT},
    "sysv-hash": {"defines": ["one"], "flags": ["-Wl,--hash-style=sysv"]},
    "gnu-hash": {"defines": ["one"], "flags": ["-Wl,--hash-style=gnu"]},
    "gnu-hash-empty": {
        "imports": ["one"],
        "flags": ["-Wl,--hash-style=gnu", "-fvisibility=hidden"],
    },
    "rpath": {"defines": ["one"], "flags": ["-Wl,--disable-new-dtags,-rpath,/a:$ORIGIN/b"]},
    "runpath": {"defines": ["one"], "flags": ["-Wl,--enable-new-dtags,-rpath,/a:$ORIGIN/b"]},
    "no-soname": {"defines": ["one"], "soname": ""},
    "relr": {"defines": ["one"], "flags": ["-Wl,-z,pack-relative-relocs"]},
    "one-segment": {"defines": ["one"], "flags": ["-Wl,-z,noseparate-code"]},
    "build-id": {"defines": ["one"], "flags": ["-Wl,--build-id=0xabcdef0123"]},
    "many": {"defines": [f"name_{number}" for number in range(300)]},
    "data": {"data": [("numbers", 7)]},
}


@pytest.mark.parametrize("name", CASES)
def test_compiled_libraries(tmp_path, name):
    need("gcc")
    agree(Lab(tmp_path).library("lib/libcase.so.1", **CASES[name]))


@pytest.mark.parametrize(
    "flags", [[], ["-no-pie"], ["-pie"], ["-Wl,--hash-style=gnu"], ["-Wl,--hash-style=sysv"]]
)
def test_compiled_programs(tmp_path, flags):
    need("gcc")
    lab = Lab(tmp_path)
    lab.library("lib/libcase.so", defines=["one"])
    agree(lab.program(needs=["lib/libcase.so"], calls=["one"], flags=flags))


def test_without_section_headers(tmp_path):
    """Everything but the full symbol table is there without them."""
    need("gcc")
    path = Path(Lab(tmp_path).library("lib/libcase.so", defines=["one", "two"], script=SCRIPT))
    whole = path.read_bytes()
    bare = whole[:40] + bytes(8) + whole[48:58] + bytes(6) + whole[64:]
    assert read(BytesSource("a", bare)) == read(BytesSource("a", whole))


def test_static_program(tmp_path):
    need("gcc")
    elf = read(BytesSource("a", Path(Lab(tmp_path).program(flags=["-static"])).read_bytes()))
    assert elf.is_program
    assert not elf.dynamic


def test_links_stay_in_the_root(tmp_path):
    """`..`, absolute and endless links: nothing outside of the root is ever seen."""
    outside = tmp_path / "outside"
    outside.write_bytes(Path("/bin/sh").resolve().read_bytes()[:64])
    root = tmp_path / "root"
    (root / "lib").mkdir(parents=True)
    (root / "lib" / "real.so").write_bytes(b"\x7fELF")
    links = {
        "up": "../../../../../outside",
        "absolute": "/lib/real.so",
        "host": str(outside),
        "loop": "loop",
        "ring1": "ring2",
        "ring2": "ring1",
        "folder": "/",
    }
    for name, target in links.items():
        (root / "lib" / name).symlink_to(target)
    view = RootView(str(root))
    assert view.look("/lib/absolute").path == "/lib/real.so"
    assert view.look("/lib/folder/lib/folder/lib/real.so").path == "/lib/real.so"
    assert view.look("/../../lib/real.so").path == "/lib/real.so"
    assert all(view.look(f"/lib/{name}") is None for name in ("up", "host", "loop", "ring1"))
    os.mkfifo(root / "lib" / "fifo.so")
    assert view.look("/lib/fifo.so") is None


def test_folders_bound_into_a_root(tmp_path):
    (tmp_path / "tree" / "lib").mkdir(parents=True)
    (tmp_path / "tree" / "lib" / "liba.so").write_bytes(b"\x7fELF")
    (tmp_path / "root" / "opt").mkdir(parents=True)
    (tmp_path / "root" / "opt" / "link").symlink_to("../mnt/x/lib/liba.so")
    view = RootView(str(tmp_path / "root"), {"/mnt/x": str(tmp_path / "tree")})
    assert view.look("/mnt/x/lib/liba.so").path == "/mnt/x/lib/liba.so"
    assert view.look("/opt/link").path == "/mnt/x/lib/liba.so"
    assert view.listing("/mnt/x/lib") == ("liba.so",)
    assert view.look("/mnt/y") is None


# --------------------------------------------------------------------------------------------------
# Programs that patchelf changed, as the reader sees them.


def _program(folder: Path, *options: str) -> Path:
    target = folder / "program"
    code = "#include <math.h>\nint main(int c, char **v) { (void)v; return (int)sin(c); }"
    argv = ["gcc", "-x", "c", "-", "-no-pie", "-fno-builtin", "-o", target, "-lm", *options]
    subprocess.run(argv, input=code.encode(), check=True, timeout=600)
    return target


@pytest.mark.parametrize("words", [1, 40, 200])
def test_a_table_may_go_on_in_the_next_segment(words: int, tmp_path: Path) -> None:
    """Of a program at a fixed address patchelf puts names before it, as far as they fit."""
    need("gcc", "patchelf")
    target = _program(tmp_path)
    rpath = ":".join(f"$ORIGIN/../some/folder/number/{number}" for number in range(words))
    runpath.seal(str(target), rpath)
    found = runpath.read(str(target))
    assert (found.rpath, found.runpath) == (rpath, None)
    assert found.needed == ("libm.so.6", "libc.so.6")
    assert subprocess.run([target], check=False, timeout=600).returncode == 0


def test_a_file_that_is_no_elf_file_is_left(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("#!/bin/sh\n")
    with pytest.raises(StackproofError) as error:
        runpath.seal(str(tmp_path / "text"), "$ORIGIN")
    assert error.value.reason is Reason.NOT_ELF
    assert (tmp_path / "text").read_text() == "#!/bin/sh\n"
