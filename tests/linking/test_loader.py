"""The loader's model on files that are values: what no machine here can be made to show."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackproof.core.errors import Reason, StackproofError
from stackproof.inject.releases import number_of
from stackproof.inject.tree import root_of
from stackproof.linking.elf import ElfFile, Import, VersionDefinition, VersionNeed
from stackproof.linking.elf.constants import Traces
from stackproof.linking.loader import (
    CacheEntry,
    File,
    Interpreter,
    LoaderSettings,
    Machine,
    Scope,
    level_of,
    load_program,
    missing_nodes,
    unbound,
)
from stackproof.linking.loader.ldcache import parse

COVERS = (
    "linking/loader/binding.py",
    "linking/loader/closure.py",
    "linking/loader/search.py",
    "linking/loader/ldcache.py",
)

LOADER = "/lib64/ld-linux-x86-64.so.2"
X86 = Machine(architecture="x86_64", level="x86-64-v3")


def elf(**more):
    return ElfFile(bits=64, little_endian=True, machine="x86_64", kind=3, dynamic=True, **more)


class Files:
    """A file view of a few values."""

    def __init__(self, elfs, *, cache=None, traces=None, preloaded=()):
        self.preloaded = preloaded
        self.elfs = elfs
        self.caches = cache or {}
        self.all_traces = traces or {}

    def look(self, path):
        return File(path, path) if path in self.elfs else None

    def elf(self, file):
        return self.elfs[file.path]

    def traces(self, file):
        return self.all_traces.get(file.path, Traces())

    def listing(self, folder):
        return ()

    def preloads(self):
        return self.preloaded

    def cache(self, path):
        return self.caches if path == "/etc/ld.so.cache" else {}


def load(elfs, *, cache=None, machine=X86, minor=36, preloaded=(), **setting):
    traces = Traces(loader_folders=("/lib64", "/usr/lib64"), glibc_minor=minor)
    view = Files(
        {LOADER: elf(soname="ld-linux-x86-64.so.2"), **elfs}, cache=cache, traces={LOADER: traces},
        preloaded=preloaded,
    )  # fmt: skip
    return load_program(view, "/bin/p", machine=machine, setting=LoaderSettings(**setting))


def program(**more):
    return elf(interpreter=LOADER, **more)


@pytest.mark.parametrize(
    ("minor", "expected"),
    [
        (None, "/l/tls/x86_64/liba.so"),
        (32, "/l/tls/x86_64/liba.so"),
        (36, "/l/glibc-hwcaps/x86-64-v3/liba.so"),
        (41, "/l/glibc-hwcaps/x86-64-v3/liba.so"),
    ],
)
def test_which_subfolders_a_release_of_glibc_knows(minor, expected):
    paths = ["/l/glibc-hwcaps/x86-64-v3/liba.so", "/l/tls/x86_64/liba.so", "/l/liba.so"]
    elfs = {path: elf() for path in paths}
    closure = load(
        {"/bin/p": program(needed=("liba.so",)), **elfs}, minor=minor, library_path=("/l",)
    )
    assert closure.objects[1].path == expected


@pytest.mark.parametrize("secure", [False, True])
def test_what_the_system_preloads_comes_first(secure):
    """/etc/ld.so.preload: for every program, whatever rights it has, behind LD_PRELOAD."""
    old, new = elf(soname="libmpi.so.12"), elf(soname="libmpi.so.12")
    files = {"/bin/p": program(needed=("libmpi.so.12",)), "/s/libmpi.so.12": old,
             "/n/libmpi.so.12": new, "/t/tool.so": elf()}  # fmt: skip
    closure = load(
        files, preloaded=("/s/libmpi.so.12", "/gone.so"), library_path=("/n",),
        preload=("/t/tool.so",), secure=secure,
    )  # fmt: skip
    first = [] if secure else ["/t/tool.so"]
    assert [one.path for one in closure.objects[1:]] == [*first, "/s/libmpi.so.12"]
    assert closure.ignored == ["/gone.so"]


def test_old_subfolders_are_gone_in_2_37():
    elfs = {"/bin/p": program(needed=("liba.so",)), "/l/tls/liba.so": elf(), "/l/liba.so": elf()}
    assert load(elfs, minor=36, library_path=("/l",)).objects[1].path == "/l/tls/liba.so"
    assert load(elfs, minor=37, library_path=("/l",)).objects[1].path == "/l/liba.so"


def test_both_tags_in_one_object():
    """DT_RPATH counts for nothing where a DT_RUNPATH stands beside it."""
    elfs = {
        "/bin/p": program(needed=("liba.so",), rpath="/r", runpath="/u"),
        "/r/liba.so": elf(),
        "/u/liba.so": elf(),
    }
    assert load(elfs).objects[1].path == "/u/liba.so"


def test_rpath_of_a_grandparent_skips_a_parent_with_runpath():
    """A parent's DT_RUNPATH ends its own DT_RPATH, not those further up."""
    elfs = {
        "/bin/p": program(needed=("/x/liba.so",), rpath="/r"),
        "/x/liba.so": elf(needed=("/x/libb.so",), runpath="/nowhere"),
        "/x/libb.so": elf(needed=("libc.so",)),
        "/r/libc.so": elf(),
    }
    assert load(elfs).objects[-1].path == "/r/libc.so"


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("x86-64-v1", "/lib64/liba.so"),
        ("x86-64-v2", "/lib64/glibc-hwcaps/x86-64-v2/liba.so"),
        ("x86-64-v4", "/lib64/glibc-hwcaps/x86-64-v3/liba.so"),
    ],
)
def test_the_cache_has_one_entry_for_every_level(level, expected):
    paths = [
        "/lib64/glibc-hwcaps/x86-64-v3/liba.so",
        "/lib64/glibc-hwcaps/x86-64-v2/liba.so",
        "/lib64/liba.so",
    ]
    entries = [
        CacheEntry(path=path, flags=0x303, subfolder=sub)
        for path, sub in zip(paths, ("x86-64-v3", "x86-64-v2", ""), strict=True)
    ]
    other = CacheEntry(path="/lib/liba.so", flags=0x803)
    elfs = {"/bin/p": program(needed=("liba.so",)), **{path: elf() for path in paths}}
    closure = load(
        elfs,
        cache={"liba.so": (other, *entries)},
        machine=Machine(architecture="x86_64", level=level),
    )
    assert closure.objects[1].path == expected


def test_a_program_that_needs_itself_in_circles():
    elfs = {
        "/bin/p": program(needed=("/l/liba.so",)),
        "/l/liba.so": elf(needed=("/l/libb.so",), soname="liba.so"),
        "/l/libb.so": elf(needed=("liba.so", "/l/libb.so"), soname="libb.so"),
    }
    assert [loaded.path for loaded in load(elfs).objects] == ["/bin/p", "/l/liba.so", "/l/libb.so"]


def test_musl_is_noticed():
    path = "/lib/ld-musl-x86_64.so.1"
    view = Files({"/bin/p": elf(interpreter=path), path: elf()})
    closure = load_program(view, "/bin/p", machine=X86)
    assert not closure.searcher.interpreter.glibc


def bound(needs, library, minor=36):
    """Return the closure of a program that uses `f` of one library."""
    user = program(
        needed=("/l/liba.so",),
        imports=(Import("f", 2 if needs else 1, False, False),),
        version_needs=needs,
    )
    return load({"/bin/p": user, "/l/liba.so": elf(soname="liba.so", **library)}, minor=minor)


V1, V2 = VersionDefinition("V_1", 2, False), VersionDefinition("V_2", 3, False)
NEED = VersionNeed("liba.so", "V_2", 2, False, False)


@pytest.mark.parametrize(
    ("index", "found"), [(3, True), (0x8003, True), (2, False), (1, True), (0x8001, False)]
)
def test_which_definition_a_versioned_reference_takes(index, found):
    library = {"exports": {"f": index}, "version_definitions": (V1, V2), "version_table": True}
    closure = bound((NEED,), library)
    assert (not list(unbound(closure, Scope(closure)))) == found
    assert missing_nodes(closure) == ()


@pytest.mark.parametrize(
    ("indexes", "found"),
    [((2,), True), ((0x8002,), True), ((3,), True), ((0x8003,), False), ((0x8002, 3), True)],
)
def test_which_definition_a_plain_reference_takes(indexes, found):
    library = {
        "exports": {"f": indexes[0]},
        "more_exports": {"f": indexes[1:]} if indexes[1:] else {},
        "version_definitions": (V1, V2),
        "version_table": True,
    }
    closure = bound((), library)
    assert (not list(unbound(closure, Scope(closure)))) == found


@pytest.mark.parametrize(("minor", "found"), [(None, False), (36, False), (40, False), (41, True)])
def test_a_library_that_has_lost_its_versions(minor, found):
    """Of glibc 2.36 and 2.41 the real loader shows it (tests/linking/test_loader_real.py)."""
    closure = bound((NEED,), {"exports": {"f": 1}}, minor=minor)
    assert (not list(unbound(closure, Scope(closure)))) == found
    assert missing_nodes(closure) == ()


def test_a_weak_node_may_be_missing():
    library = {"exports": {"f": 2}, "version_definitions": (V1,), "version_table": True}
    assert len(missing_nodes(bound((NEED,), library))) == 1
    assert missing_nodes(bound((NEED._replace(weak=True),), library)) == ()


def test_levels_of_processors():
    two = {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"}
    three = two | {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}
    assert level_of([]) == "x86-64-v1"
    assert level_of(two) == "x86-64-v2"
    assert level_of(three) == "x86-64-v3"
    assert level_of(three - {"cx16"}) == "x86-64-v1"


@pytest.mark.parametrize(
    ("architecture", "minor", "count"),
    [("aarch64", None, 8), ("aarch64", 36, 8), ("aarch64", 37, 1), ("s390x", 36, 1)],
)
def test_the_old_subfolders_of_other_machines(architecture, minor, count):
    """Of aarch64 the real loader shows their order (tests/build/test_aarch64.py)."""
    machine = Machine(architecture=architecture, level="x86-64-v3")
    assert len(Interpreter(path="/x", minor=minor).subfolders(machine)) == count


@given(st.binary(max_size=300))
def test_damaged_caches(content):
    for start in (b"glibc-ld.so.cache1.1", b"ld.so-1.7.0\0"):
        reason = None
        try:
            parse(start + content, file="ld.so.cache")
        except StackproofError as error:
            reason = error.reason
        assert reason in {None, Reason.INVALID_VALUE}


@pytest.mark.parametrize("content", [b"", b"glibc", b"glibc-ld.so.cache1.1", b"x" * 100])
def test_no_cache(content):
    with pytest.raises(StackproofError) as caught:
        parse(content, file="ld.so.cache")
    assert caught.value.reason is Reason.INVALID_VALUE


def test_a_cache_with_subfolders():
    names = b"liba.so\0/lib/liba.so\0/lib/hw/liba.so\0x86-64-v3\0"
    entries, extension = 2 * 24, 8 + 16 + 4
    base = 48 + entries
    place = base + len(names)
    place += -place % 4
    content = struct.pack("<20sIIBxxxI12x", b"glibc-ld.so.cache1.1", 2, len(names), 2, place)
    content += struct.pack("<iIIIQ", 0x303, base, base + 21, 0, 1 << 62)
    content += struct.pack("<iIIIQ", 0x303, base, base + 8, 0, 0)
    content += names
    content = content.ljust(place, b"\0")
    content += struct.pack("<IIIIII", 0xEAA42174, 1, 1, 0, place + 24, 4)
    content += struct.pack("<I", base + 37)
    assert len(content) == place + extension
    found = parse(content, file="ld.so.cache")
    assert found == {
        "liba.so": (
            CacheEntry(path="/lib/hw/liba.so", flags=0x303, subfolder="x86-64-v3"),
            CacheEntry(path="/lib/liba.so", flags=0x303),
        )
    }


@pytest.mark.parametrize(
    ("path", "root"),
    [
        ("/usr/lib64/libcuda.so.1", "system"),
        (
            "/cvmfs/s/versions/1/software/linux/x/software/UCX/1/lib64/libucs.so.0",
            "/cvmfs/s/versions/1/software",
        ),
        ("/cvmfs/s/host_injections/1/software/x/lib/libmpi.so.40", "/cvmfs/s/host_injections"),
        ("/cvmfs/s/versions/1/compat/linux/x/usr/lib/libz.so.1", "/cvmfs/s/versions/1/compat"),
        ("/cluster/installations/e/OpenMPI/lib/libopen-pal.so.80", "/cluster/installations"),
        ("/opt/cray/pe/lib64/libmpi.so", "/opt/cray/pe"),
        ("/mine/lib/libmpi.so.12", "/mine"),
    ],
)
def test_whose_a_file_is(path, root):
    assert root_of(path, ("/mine",)) == root


def test_numbers_of_nodes():
    assert number_of("FABRIC_1.10") > number_of("FABRIC_1.9")
    assert number_of("GLIBC_PRIVATE") == ()
