"""What is pure of a pack: places, run paths, tables, and what names the old place."""

from __future__ import annotations

import pytest

from stackproof.core.command import EnvPatch
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.value import replace
from stackproof.pack.effects.entry_files import MARK, TABLE_BYTES, fill, render_table
from stackproof.pack.model import (
    EntryPoint,
    Loading,
    TextKind,
    check_inside,
    floor_of,
    program_place,
    run_path,
)
from stackproof.pack.prefixes import (
    FINDERS,
    Sighting,
    explain,
    machine_paths,
    rewritten,
    sightings,
)

PREFIX = "/user-environment"


def test_a_program_lies_as_deep_as_its_entry_point() -> None:
    assert program_place("stack/mpich/bin/mpiexec") == "stack/mpich/.bin/mpiexec"
    assert program_place("stack/tool") == ".stack/tool"


def test_run_paths_lead_from_the_file_to_its_libraries() -> None:
    folders = ("stack/mpich/lib", "stack/mpich/lib/mpich", "lib", "stack/mpich/lib")
    assert run_path("stack/mpich/.bin/mpiexec", folders) == (
        "$ORIGIN/../lib:$ORIGIN/../lib/mpich:$ORIGIN/../../../lib"
    )
    assert run_path("lib/libz.so.1", ("lib",)) == "$ORIGIN"


@pytest.mark.parametrize(
    ("nodes", "floor"),
    [
        ((), 0),
        (("GLIBC_2.2.5", "GLIBC_2.34", "GLIBC_2.17"), 34),
        (("GLIBC_2.9", "GLIBC_2.10"), 10),
        (("GLIBC_PRIVATE", "GLIBCXX_3.4.30", "FABRIC_1.7"), 0),
        (("GLIBC_2.4", "GLIBC_ABI_DT_RELR"), 36),
    ],
)
def test_the_floor_is_the_newest_node_of_glibc(nodes: tuple[str, ...], floor: int) -> None:
    assert floor_of(nodes) == floor


@pytest.mark.parametrize("text", ["..", "../x", "a/../../b", "/", ".", ""])
def test_a_path_in_the_pack_stays_in_it(text: str) -> None:
    with pytest.raises(StackproofError) as error:
        check_inside(text, "--symlink")
    assert error.value.reason is Reason.USAGE


def test_a_path_in_the_pack_may_begin_with_a_slash() -> None:
    assert check_inside("/opt/bin/", "--symlink") == "opt/bin"


def _entry(**more: object) -> EntryPoint:
    return EntryPoint(place="stack/a/bin/x", program="stack/a/.bin/x", **more)  # type: ignore[arg-type]


LOADING = Loading(floor=34, interpreter="/lib64/ld.so", own="glibc/ld.so", libraries=("/a", "/b"))


def test_the_table_has_a_record_for_everything() -> None:
    env = EnvPatch(set={"A": "1"}, unset=("B",), prepend={"P": ("x", "y")}, append={"Q": ("z",)})
    table = render_table(_entry(env=env, launcher=True), LOADING)
    assert table.split(b"\0") == [
        b"U../../..", b"Pstack/a/.bin/x", b"A", b"F34", b"I/lib64/ld.so", b"Lglibc/ld.so", b"Dglibc",
        b"C/a", b"C/b", b"uB", b"sA=1", b"pP=x:y", b"aQ=z", b"", b"",
    ]  # fmt: skip
    spare = replace(LOADING, spare={"libefa.so.1": ("EFA_1.1", "EFA_1.2"), "libibverbs.so.1": ()})
    assert set(render_table(_entry(), spare).split(b"\0")) - set(table.split(b"\0")) == {
        b"Slib/spare", b"Rlibefa.so.1", b"VEFA_1.1", b"VEFA_1.2", b"Rlibibverbs.so.1",
    }  # fmt: skip
    assert b"S" not in {one[:1] for one in render_table(_entry(script=True), spare).split(b"\0")}
    script = render_table(_entry(script=True, name="n", arguments=("x",)), LOADING)
    assert script.split(b"\0") == [b"U../../..", b"Pstack/a/.bin/x", b"Nn", b"Xx", b"", b""]
    template = b"code" + MARK + bytes(TABLE_BYTES) + b"more"
    filled = fill(template, script)
    assert filled[4 : 4 + len(script)] == script
    assert (len(filled), filled[-4:]) == (len(template), b"more")


def test_too_much_for_a_table_is_told_in_bytes() -> None:
    with pytest.raises(StackproofError) as error:
        render_table(_entry(env=EnvPatch(set={"A": "x" * TABLE_BYTES})), LOADING)
    assert error.value.reason is Reason.UNSUPPORTED


def test_sightings_are_whole_texts_with_their_place() -> None:
    content = b"a\n  b=" + PREFIX.encode() + b"/x:" + PREFIX.encode() + b"/y\nc\n"
    (seen,) = sightings("f", content, PREFIX.encode())
    assert (seen.offset, seen.text) == (6, b"  b=/user-environment/x:/user-environment/y")
    binary = b"\x7fELF" + bytes(60) + PREFIX.encode() + b"/lib\0" + PREFIX.encode() + b"-2\0"
    (seen,) = sightings("f", binary, PREFIX.encode())
    assert (seen.offset, seen.text, seen.elf) == (64, b"/user-environment/lib", True)


def test_another_path_with_the_same_begin_is_no_sighting() -> None:
    for text in ("/user-environment-2/x", "/user-environment2", "/user-environment.old"):
        assert not list(sightings("f", text.encode(), PREFIX.encode()))


def seen(file: str, text: str = f"{PREFIX}/mpi/lib", **more: object) -> Sighting:
    more = {"elf": ".so" in file or "/bin/" in file, **more}
    return Sighting(file=file, offset=1, text=text.encode(), **more)  # type: ignore[arg-type]


EXPLAINED = [
    (seen("stack/mpi/lib/libopen-pal.so.80"), {"OPAL_PREFIX"}, TextKind.DATA),
    (seen("stack/mpi/lib/libpmix.so.2"), {"PMIX_PREFIX"}, TextKind.DATA),
    (seen("stack/mpi/bin/prted"), {"PRTE_PREFIX"}, TextKind.DATA),
    (seen("stack/f/lib/libfabric.so.1"), {"FI_PROVIDER_PATH"}, TextKind.DATA),
    (seen("stack/u/lib/libuct.so.0"), {"UCX_MODULE_DIR"}, TextKind.DATA),
    (seen("stack/p/lib/libpython3.11.so.1.0"), {"PYTHONHOME"}, TextKind.PYTHON),
    (seen("stack/n/lib/libtinfo.so.6"), {"TERMINFO_DIRS"}, TextKind.TERMINFO),
    (seen("stack/x/lib/liba.so", section=".debug_str"), set(), TextKind.DEBUG),
    (seen("stack/x/lib/liba.so", f"cc -O2 --prefix={PREFIX}/mpi"), set(), TextKind.DATA),
    (seen("stack/x/lib/liba.la"), set(), TextKind.LIBTOOL),
    (seen("stack/x/include/mpi.h"), set(), TextKind.COMPILING),
    (seen("stack/x/bin/mpicc", elf=False), set(), TextKind.COMPILING),
    (seen("stack/x/share/openmpi/mpicc-wrapper-data.txt"), set(), TextKind.COMPILING),
    (seen("stack/p/lib/python3.11/_sysconfigdata_x.py"), set(), TextKind.PYTHON),
    (seen("stack/x/.spack/spec.json"), set(), TextKind.DATA),
]


@pytest.mark.parametrize(("one", "variables", "kind"), EXPLAINED)
def test_what_nothing_asks_has_its_reason(
    one: Sighting, variables: set[str], kind: TextKind
) -> None:
    found = explain(one, PREFIX, dict.fromkeys(variables, "x"))
    assert (found.kind, bool(found.done)) == (kind, True)


UNEXPLAINED = [
    (seen("stack/mpi/lib/libopen-pal.so.80"), set(), TextKind.DATA),
    (seen("stack/x/lib/liba.so"), {"OPAL_PREFIX"}, TextKind.DATA),
    (seen("stack/x/lib/liba.so", f"{PREFIX}/x/lib/plugin.so"), set(), TextKind.DLOPEN),
    (seen("stack/x/lib/liba.so", f"{PREFIX}/x --prefix=y"), set(), TextKind.DATA),
    (seen("stack/x/etc/app.conf"), set(), TextKind.DATA),
    (seen("stack/x/bin/tool", elf=False), set(), TextKind.DATA),
]


@pytest.mark.parametrize(("one", "variables", "kind"), UNEXPLAINED)
def test_what_something_may_ask_has_none(
    one: Sighting, variables: set[str], kind: TextKind
) -> None:
    found = explain(one, PREFIX, dict.fromkeys(variables, "x"))
    assert (found.kind, found.done) == (kind, "")


@pytest.mark.parametrize(
    ("path", "variable", "value"),
    [
        ("/u/mpi/lib/libopen-pal.so.80", "OPAL_PREFIX", "/u/mpi"),
        ("/u/mpi/lib64/openmpi/mca_btl_tcp.so", "OPAL_PREFIX", "/u/mpi"),
        ("/u/python/bin/python3.11", "PYTHONHOME", "/u/python"),
    ],
)
def test_a_prefix_is_above_libraries_and_programs(path: str, variable: str, value: str) -> None:
    finder = next(one for one in FINDERS if one.library.fullmatch(path.rpartition("/")[2]))
    assert (finder.variable, finder.value(path)) == (variable, value)


def test_texts_find_the_place_by_their_own() -> None:
    text = f"prefix={PREFIX}/mpi\nlibdir={PREFIX}/mpi/lib\n".encode()
    found = rewritten("stack/mpi/lib/pkgconfig/a.pc", text, PREFIX, "../../..")
    assert found == (
        b"prefix=${pcfiledir}/../../../mpi\nlibdir=${pcfiledir}/../../../mpi/lib\n",
        TextKind.PC,
    )
    found = rewritten("stack/x/a.cmake", f"set(A {PREFIX}/a)".encode(), PREFIX, "..")
    assert found == (b"set(A ${CMAKE_CURRENT_LIST_DIR}/../a)", TextKind.CMAKE)
    assert rewritten("stack/x/a.conf", text, PREFIX, "..") is None


def test_what_libraries_of_the_machine_name_is_listed_by_kind() -> None:
    content = b"\0/usr/lib/x86_64-linux-gnu/gconv\0/usr/lib/locale\0/etc/terminfo\0/etc/ssl/certs\0"
    assert [one.kind for one in machine_paths("glibc/libc.so.6", content)] == [
        TextKind.GCONV, TextKind.LOCALE, TextKind.TERMINFO, TextKind.CERTIFICATES,
    ]  # fmt: skip
    assert not list(machine_paths("lib/liba.so", b"nothing"))
