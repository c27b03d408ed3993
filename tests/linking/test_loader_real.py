"""The loader's model against the real loader: compiled cases, predicted, run, compared."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import stat
import struct
import subprocess
from pathlib import Path

import pytest

from loaderlab import checked, compare, predicted
from need import as_unprivileged, need
from stackproof.inject.tree import tree_of
from stackproof.linking.effects.view import this_machine
from stackproof.linking.loader import Scope, missing_nodes, unbound
from stackproof.linking.loader.ldcache import parse


def in_lib(lab):
    return [f"-Wl,-rpath,{lab.path('lib')}"]


COMBINATIONS = list(
    itertools.product(
        ("rpath", "runpath", "none"), (False, True), ("direct", "below"), (False, True)
    )
)


@pytest.mark.parametrize(("tag", "variable", "depth", "origin"), COMBINATIONS)
def test_order_of_folders(lab, tag, variable, depth, origin):
    """A copy of the library in every place that may be searched; who wins says its path."""
    for place in ("by-tag", "by-variable", "own"):
        lab.library(f"{place}/libwanted.so.1", defines=["wanted"])
    folder = "$ORIGIN/../by-tag" if origin else lab.path("by-tag")
    flag = {
        "rpath": [f"-Wl,--disable-new-dtags,-rpath,{folder}"],
        "runpath": [f"-Wl,--enable-new-dtags,-rpath,{folder}"],
        "none": [],
    }[tag]
    if depth == "direct":
        program = lab.program(needs=["own/libwanted.so.1"], calls=["wanted"], flags=flag)
        calls = ["wanted"]
    else:
        lab.library("by-tag/libmiddle.so", needs=["own/libwanted.so.1"], imports=["wanted"])
        lab.library("by-variable/libmiddle.so", needs=["own/libwanted.so.1"], imports=["wanted"])
        program = lab.program(needs=["by-tag/libmiddle.so"], calls=["via_wanted"], flags=flag)
        calls = ["via_wanted"]
    env = {"LD_LIBRARY_PATH": lab.path("by-variable")} if variable else {}
    compare(program, env=env, calls=calls)


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_subfolders_of_the_processor(lab, level):
    lab.library("lib/libwanted.so.1", defines=["wanted"])
    lab.library(f"lib/glibc-hwcaps/{level}/libwanted.so.1", defines=["wanted"])
    checked(
        lab,
        needs=["lib/libwanted.so.1"],
        calls=["wanted"],
        env={"LD_LIBRARY_PATH": lab.path("lib")},
    )


@pytest.mark.parametrize("sub", ["tls", "x86_64", "tls/x86_64", "tls/x86_64/x86_64", "haswell"])
def test_old_subfolders(lab, sub):
    lab.library("lib/libwanted.so.1", defines=["wanted"])
    lab.library(f"lib/{sub}/libwanted.so.1", defines=["wanted"])
    program = lab.program(needs=["lib/libwanted.so.1"], calls=["wanted"])
    if (
        sub in {"haswell", "tls/x86_64/x86_64"}
        and "GenuineIntel" in Path("/proc/cpuinfo").read_text()
    ):
        pytest.skip("Intel's newer processors are `haswell` to old loaders, which is not foretold")
    compare(program, env={"LD_LIBRARY_PATH": lab.path("lib")}, calls=["wanted"])


def test_origin_is_the_path_that_was_opened(lab):
    """A link in another folder makes `$ORIGIN` point elsewhere."""
    lab.library("real/inner/libinner.so", defines=["inner"])
    lab.library(
        "real/libouter.so",
        needs=["real/inner/libinner.so"],
        imports=["inner"],
        flags=["-Wl,--enable-new-dtags,-rpath,$ORIGIN/inner"],
    )
    os.makedirs(lab.path("alias"))
    os.symlink(lab.path("real/libouter.so"), lab.path("alias/libouter.so"))
    program = lab.program(needs=["real/libouter.so"], calls=["via_inner"])
    broken, _ = compare(program, env={"LD_LIBRARY_PATH": lab.path("alias")}, calls=["via_inner"])
    assert [edge.name for edge in broken.missing] == ["libinner.so"]
    whole, _ = compare(program, env={"LD_LIBRARY_PATH": lab.path("real")}, calls=["via_inner"])
    assert not whole.missing


def test_origin_of_the_program_is_its_real_place(lab):
    lab.library("lib/libwanted.so", defines=["wanted"])
    program = lab.program(
        needs=["lib/libwanted.so"], calls=["wanted"], flags=["-Wl,-rpath,$ORIGIN/../lib"]
    )
    os.makedirs(lab.path("other/place"))
    os.symlink(program, lab.path("other/place/program"))
    closure, _ = compare(lab.path("other/place/program"), calls=["wanted"])
    assert not closure.missing


@pytest.mark.parametrize(
    "word", ["${ORIGIN}/../lib", "$ORIGIN/../$LIB", "$ORIGINAL/lib", "$NONE/lib"]
)
def test_tokens(lab, word):
    lib_token = predicted("/bin/sh").searcher.interpreter.library_token
    for folder in ("lib", lib_token):
        lab.library(f"{folder}/libwanted.so", defines=["wanted"])
    checked(lab, needs=["lib/libwanted.so"], calls=["wanted"], flags=[f"-Wl,-rpath,{word}"])


def test_first_soname_wins(lab):
    """A library that was asked for by its path answers to its SONAME as well."""
    lab.library("one/libsame.so.1", defines=["same"])
    lab.library("two/libsame.so.1", defines=["same"])
    absolute = lab.library("one/libother.so", defines=["other"], soname="libsame.so.1")
    lab.library("two/libuser.so", needs=["two/libsame.so.1"], imports=["same"])
    program = lab.program(needs=["two/libuser.so", "one/libsame.so.1"], calls=["via_same"])
    env = {"LD_LIBRARY_PATH": f"{lab.path('two')}:{lab.path('one')}"}
    compare(program, env=env, calls=["via_same"])
    env["LD_PRELOAD"] = absolute
    closure, _ = compare(program, env=env, calls=["via_same"])
    assert closure.objects[1].path == absolute


def test_absolute_need_gives_two_of_one_soname(lab):
    lab.library("a/libsame.so.1", defines=["same"], soname="")
    lab.library("b/libsame.so.1", defines=["same"])
    # Without a SONAME the linker writes down the path that it was given.
    checked(
        lab,
        needs=["a/libsame.so.1", "b/libsame.so.1"],
        calls=["same"],
        env={"LD_LIBRARY_PATH": lab.path("b")},
    )


def test_one_file_under_two_names(lab):
    lab.library("lib/libone.so", defines=["one"], soname="libone.so")
    os.symlink("libone.so", lab.path("lib/libtwo.so"))
    lab.library("stub/libtwo.so", defines=["one"], soname="libtwo.so")
    closure, _ = checked(
        lab,
        needs=["lib/libone.so", "stub/libtwo.so"],
        calls=["one"],
        env={"LD_LIBRARY_PATH": lab.path("lib")},
    )
    assert (
        sum(
            "lib/lib" in loaded.path and str(lab.folder) in loaded.path
            for loaded in closure.objects
        )
        == 1
    )


@pytest.mark.parametrize("preload", ["good", "missing", "both"])
def test_preload(lab, preload):
    good = lab.library("pre/libpre.so", defines=["wanted"])
    lab.library("lib/libwanted.so", defines=["wanted"])
    program = lab.program(needs=["lib/libwanted.so"], calls=["wanted"], flags=in_lib(lab))
    words = {"good": good, "missing": "/nowhere/libx.so", "both": f"/nowhere/libx.so:{good}"}
    compare(program, env={"LD_PRELOAD": words[preload]}, calls=["wanted"])


def test_preload_beats_rpath_by_soname(lab):
    lab.library("old/libwanted.so.1", defines=["wanted"])
    new = lab.library("new/libwanted.so.1", defines=["wanted"])
    flags = [f"-Wl,--disable-new-dtags,-rpath,{lab.path('old')}"]
    program = lab.program(needs=["old/libwanted.so.1"], calls=["wanted"], flags=flags)
    env = {"LD_LIBRARY_PATH": lab.path("new")}
    stays, _ = compare(program, env=env, calls=["wanted"])
    assert stays.named("libwanted.so.1").path == lab.path("old/libwanted.so.1")
    taken, _ = compare(program, env={**env, "LD_PRELOAD": new}, calls=["wanted"])
    assert taken.named("libwanted.so.1").path == new


DAMAGE = {
    "other-machine": lambda b: b[:18] + struct.pack("<H", 8) + b[20:],
    "other-class": lambda b: b[:4] + b"\x01" + b[5:],
    "other-order": lambda b: b[:5] + b"\x02" + b[6:],
    "text": lambda b: b"/* GNU ld script */ INPUT(libx.so.1)\n" * 20,
    "empty": lambda b: b"",
    "other-abi": lambda b: b[:7] + b"\x09" + b[8:],
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_files_that_are_no_library_for_this_program(lab, damage):
    """What is for another machine is passed over; what is no library ends the program."""
    good = Path(lab.library("good/libwanted.so", defines=["wanted"]))
    bad = Path(lab.path("bad/libwanted.so"))
    bad.parent.mkdir()
    bad.write_bytes(DAMAGE[damage](good.read_bytes()))
    program = lab.program(needs=[good], calls=["wanted"])
    env = {"LD_LIBRARY_PATH": f"{bad.parent}:{good.parent}"}
    compare(program, env=env, calls=["wanted"])


@pytest.mark.parametrize("words", ["", ":", "::", "lib:", "lib"])
def test_empty_and_relative_folders(lab, words):
    lab.library("lib/libwanted.so", defines=["wanted"])
    program = lab.program(needs=["lib/libwanted.so"], calls=["wanted"])
    for folder in ("", "lib"):
        cwd = lab.path(folder).rstrip("/")
        compare(program, env={"LD_LIBRARY_PATH": words}, cwd=cwd, calls=["wanted"])


def test_relative_rpath(lab):
    lab.library("lib/libwanted.so", defines=["wanted"])
    program = lab.program(needs=["lib/libwanted.so"], calls=["wanted"], flags=["-Wl,-rpath,lib"])
    compare(program, cwd=str(lab.folder), calls=["wanted"])
    compare(program, cwd="/", calls=["wanted"])


def test_runpath_is_not_handed_on_and_rpath_is(lab):
    lab.library("lib/libleaf.so", defines=["leaf"])
    lab.library("lib/libmiddle.so", needs=["lib/libleaf.so"], imports=["leaf"])
    for tag, found in (("--enable-new-dtags", False), ("--disable-new-dtags", True)):
        flags = [f"-Wl,{tag},-rpath,{lab.path('lib')}"]
        closure, _ = checked(lab, needs=["lib/libmiddle.so"], calls=["via_leaf"], flags=flags)
        assert bool(closure.missing) is not found


def test_runpath_of_a_library_hides_the_rpath_above(lab):
    lab.library("lib/libleaf.so", defines=["leaf"])
    lab.library(
        "lib/libmiddle.so",
        needs=["lib/libleaf.so"],
        imports=["leaf"],
        flags=["-Wl,--enable-new-dtags,-rpath,/nowhere"],
    )
    flags = [f"-Wl,--disable-new-dtags,-rpath,{lab.path('lib')}"]
    closure, _ = checked(lab, needs=["lib/libmiddle.so"], calls=["via_leaf"], flags=flags)
    assert closure.missing


def test_no_default_libraries(lab):
    """`-z nodefaultlib`: neither the default folders nor what the cache has of them."""
    closure, _ = checked(lab, flags=["-Wl,-z,nodefaultlib"])
    assert closure.missing


def test_program_with_the_rights_of_another_user(lab):
    """Set-user-id: the variables are dropped, and `$ORIGIN` is refused."""
    need("root", "unprivileged-user")
    lab.library("lib/libwanted.so", defines=["wanted"])
    for folder in (lab.folder, *lab.folder.parents):
        if os.stat(folder).st_uid == os.getuid() and folder != Path("/tmp"):
            os.chmod(folder, stat.S_IMODE(os.stat(folder).st_mode) | 0o055)
    program = lab.program(needs=["lib/libwanted.so"], calls=["wanted"])
    with_origin = lab.program(
        "bin/origin",
        needs=["lib/libwanted.so"],
        calls=["wanted"],
        flags=["-Wl,-rpath,$ORIGIN/../lib"],
    )
    absolute = lab.program(
        "bin/absolute", needs=["lib/libwanted.so"], calls=["wanted"], flags=in_lib(lab)
    )
    for path in (program, with_origin, absolute):
        os.chmod(path, 0o4755)
        argv = as_unprivileged(["env", "-i", f"LD_LIBRARY_PATH={lab.path('lib')}"])
        env = {"LD_LIBRARY_PATH": lab.path("lib")}
        closure, _ = compare(path, env=env, calls=["wanted"], argv=argv, secure=True)
        assert bool(closure.missing) == (path != absolute)


@pytest.mark.parametrize("seed", range(16))
def test_random_graphs(lab, seed):
    """Libraries in random folders with random paths and needs: the same files, in the same order."""
    chance = random.Random(seed)
    folders = ["a", "b", "c"]
    names = [f"libr{number}.so" for number in range(6)]
    for number, name in enumerate(names):
        below = chance.sample(
            names[number + 1 :], min(len(names) - number - 1, chance.randint(0, 3))
        )
        lab.library(f"stub/{name}", defines=[f"f{number}", "shared"])
        for folder in chance.sample(folders, chance.randint(1, 2)):
            flags = []
            if chance.random() < 0.6:
                tag = chance.choice(["--enable-new-dtags", "--disable-new-dtags"])
                word = chance.choice([lab.path("a"), "$ORIGIN", "$ORIGIN/../b", lab.path("c")])
                flags = [f"-Wl,{tag},-rpath,{word}"]
            for one in below:
                if not os.path.exists(lab.path(f"stub/{one}")):
                    lab.library(f"stub/{one}", defines=[f"f{names.index(one)}", "shared"])
            lab.library(
                f"{folder}/{name}",
                defines=[f"f{number}", "shared"],
                needs=[f"stub/{one}" for one in below],
                flags=flags,
            )
    tag = chance.choice(["--enable-new-dtags", "--disable-new-dtags"])
    program = lab.program(
        needs=[f"stub/{names[0]}", f"stub/{names[1]}"],
        calls=["f0", "shared"],
        flags=[f"-Wl,{tag},-rpath,{lab.path(chance.choice(folders))}"],
    )
    env = {}
    if chance.random() < 0.7:
        env = {
            "LD_LIBRARY_PATH": ":".join(map(lab.path, chance.sample(folders, chance.randint(1, 3))))
        }
    compare(program, env=env, calls=["f0", "shared"])


PROGRAMS = [
    "/bin/sh",
    "/usr/bin/env",
    "/usr/bin/gcc",
    "/usr/bin/git",
    "/usr/bin/python3",
    "/usr/bin/perl",
    "/usr/bin/gdb",
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_of_this_machine(program):
    if not os.path.exists(program) or Path(program).read_bytes()[:4] != b"\x7fELF":
        pytest.skip(f"no program {program} here")
    closure = predicted(os.path.realpath(program))
    done = subprocess.run(
        [closure.searcher.interpreter.path, "--list", program],
        stdout=subprocess.PIPE, text=True, check=True, env={},
    )  # fmt: skip
    rows = [line.split() for line in done.stdout.splitlines() if "vdso" not in line]
    real = [row[2] if "=>" in row else row[0] for row in rows]
    assert [loaded.path for loaded in closure.objects[1:]] == real
    assert list(unbound(closure, Scope(closure))) == []
    assert missing_nodes(closure) == ()


def test_what_is_compiled_into_the_loader():
    closure = predicted(os.path.realpath("/bin/sh"))
    interpreter = closure.searcher.interpreter
    if not interpreter.minor:
        pytest.skip("a loader before glibc 2.33 does not tell")
    done = subprocess.run(
        [interpreter.path, "--list-diagnostics"], stdout=subprocess.PIPE, text=True, check=True
    )
    rows = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    folders = [
        v.strip('"').rstrip("/") for k, v in rows.items() if k.startswith("path.system_dirs")
    ]
    assert list(interpreter.folders) == folders
    assert rows["version.version"].strip('"') == f"2.{interpreter.minor}"
    assert rows["dl_dst_lib"].strip('"') == interpreter.library_token
    names = rows["dl_hwcaps_subdirs"].strip('"').split(":")
    active = int(rows["dl_hwcaps_subdirs_active"], 16)
    mine = [
        s.removeprefix("glibc-hwcaps/")
        for s in interpreter.subfolders(this_machine())
        if "hwcaps" in s
    ]
    assert mine == [name for bit, name in enumerate(names) if active >> bit & 1]


def test_cache_of_this_machine():
    program = shutil.which("ldconfig", path="/usr/sbin:/sbin:/usr/bin")
    cache = Path("/etc/ld.so.cache")
    if program is None or not cache.exists():
        pytest.skip("no ldconfig, or no cache of it, here")
    done = subprocess.run([program, "-p"], stdout=subprocess.PIPE, text=True, check=True)
    rows = [line.strip() for line in done.stdout.splitlines() if "=>" in line]
    real = sorted((row.split(" ", 1)[0], row.rsplit("=> ", 1)[1]) for row in rows)
    found = parse(cache.read_bytes(), file=str(cache))
    assert sorted((name, e.path) for name, entries in found.items() for e in entries) == real


# --------------------------------------------------------------------------------------------------
# Functions, variables and versions.


@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize("now", [False, True])
def test_function_that_nothing_defines(lab, called, now):
    lab.library("lib/libwanted.so", defines=["here"])
    stub = lab.library("stub/libwanted.so", defines=["here", "gone"])
    flags = in_lib(lab)
    calls = ["here", "gone"] if called else ["here"]
    declarations = (
        ""
        if called
        else "const char *gone(void); const char *use(int n) { return n ? gone() : 0; }\n"
    )
    program = lab.program(needs=[stub], calls=calls, flags=flags, declarations=declarations)
    env = {}
    if now:
        flags = [*flags, "-Wl,-z,now"]
        source = lab.program(
            "bin/now",
            needs=[stub],
            calls=calls,
            flags=["-Wl,-z,now", flags[0]],
            declarations=declarations,
        )
        program = source
    compare(program, env=env, calls=calls)


def test_variable_that_nothing_defines(lab):
    lab.library("lib/libwanted.so", defines=["here"])
    stub = lab.library("stub/libwanted.so", defines=["here"], data=[("gone", 4)])
    declarations = "extern int gone[]; int *use(void) { return gone; }\n"
    flags = in_lib(lab)
    closure, _ = checked(lab, needs=[stub], calls=["here"], flags=flags, declarations=declarations)
    assert [entry.name for entry in unbound(closure, Scope(closure))] == ["gone"]


def test_weak_reference(lab):
    lab.library("lib/libwanted.so", defines=["here"])
    declarations = (
        "const char *gone(void) __attribute__((weak)); int use(void) { return gone != 0; }\n"
    )
    flags = in_lib(lab)
    checked(lab, needs=["lib/libwanted.so"], calls=["here"], flags=flags, declarations=declarations)


OLD = "V_1 { global: here; local: *; };"
NEW = "V_1 { global: here; local: *; }; V_2 { global: more; } V_1;"


@pytest.mark.parametrize("installed", ["old", "new", "none"])
@pytest.mark.parametrize("uses", [["here"], ["here", "more"]])
def test_version_nodes(lab, installed, uses):
    stub = lab.library("stub/libwanted.so", defines=["here", "more"], script=NEW)
    scripts = {"old": OLD, "new": NEW, "none": None}
    defines = ["here"] if installed == "old" else ["here", "more"]
    lab.library("lib/libwanted.so", defines=defines, script=scripts[installed])
    checked(lab, needs=[stub], calls=uses, flags=in_lib(lab))


def test_unversioned_reference_to_a_versioned_library(lab):
    lab.library("stub/libwanted.so", defines=["here"])
    lab.library("lib/libwanted.so", defines=["here", "more"], script=NEW)
    checked(lab, needs=["stub/libwanted.so"], calls=["here"], flags=in_lib(lab))


def test_node_moves_to_another_library(lab):
    """A version need names its library; the symbol may come from any that has the node."""
    stub = lab.library("stub/libwanted.so", defines=["here", "more"], script=NEW)
    lab.library(
        "lib/libwanted.so", defines=["here"], script="V_1 { global: here; local: *; }; V_2 { } V_1;"
    )
    lab.library("lib/libmoved.so", defines=["more"], script="V_2 { global: more; local: *; };")
    checked(lab, needs=[stub, "lib/libmoved.so"], calls=["here", "more"], flags=in_lib(lab))


def test_first_definition_wins(lab):
    lab.library("lib/libone.so", defines=["both"])
    lab.library("lib/libtwo.so", defines=["both"])
    for needs in (["lib/libone.so", "lib/libtwo.so"], ["lib/libtwo.so", "lib/libone.so"]):
        _, real = checked(lab, needs=needs, calls=["both"], flags=in_lib(lab))
        assert real.answers["both"] == needs[0]


@pytest.mark.parametrize(
    "kind", ["good", "needs-missing", "needs-node", "symbol-gone", "uses-program's"]
)
def test_plugins(lab, kind):
    base = lab.library("lib/libbase.so", defines=["here"], script=OLD)
    lab.library("stub/libbase.so", defines=["here", "more"], script=NEW)
    lab.library("stub/libgone.so", defines=["gone"])
    needs, imports = {
        "good": (["lib/libbase.so"], ["here"]),
        "needs-missing": (["stub/libgone.so"], ["gone"]),
        "needs-node": (["stub/libbase.so"], ["more"]),
        "symbol-gone": ([], ["nowhere_defined"]),
        "uses-program's": ([], ["here"]),
    }[kind]
    plugin = lab.library("plug/plugin.so", needs=needs, imports=imports, flags=["-Wl,-z,now"])
    closure, real = checked(
        lab, plugin, needs=[base], calls=["here"], flags=in_lib(lab), opens=True
    )
    opened = closure.opened(plugin, 0)
    known = len(closure.objects)
    mine = [e for e in unbound(opened, Scope(opened)) if e.by.number >= known and e.eager]
    nodes = [m for m in missing_nodes(opened) if m.by.number >= known]
    assert real.opened == (not (opened.missing or nodes or mine),)


@pytest.mark.parametrize("flag", ["-F", "-f"])
@pytest.mark.parametrize("there", ["before it", "not yet", "after it", "missing"])
def test_a_filter_stands_behind_what_it_filters(lab, flag, there):
    """A library may name others whose functions are to be found before its own."""
    behind = lab.library("lib/libbehind.so", defines=["wanted"], needs=[])
    if there == "missing":
        (lab.folder / "lib/libbehind.so").unlink()
    own = [f"-Wl,{flag},libbehind.so", f"-Wl,-rpath,{lab.path('lib')}"]
    front = lab.library("lib/libfront.so", defines=["wanted", "other"], flags=own)
    needs = {"before it": [behind, front], "after it": [front, behind]}.get(there, [front])
    flags = in_lib(lab)
    closure, real = checked(lab, needs=needs, calls=["wanted", "other"], flags=flags)
    if real.started:
        shown = [line.path for line in tree_of(closure, ()) if not line.again]
        assert shown.count(lab.path("lib/libbehind.so")) == (there != "missing")
        by = Path(Scope(closure).provider("wanted").path).name
        assert by == ("libfront.so" if there == "missing" else "libbehind.so")
