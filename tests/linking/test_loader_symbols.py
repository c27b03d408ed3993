"""The loader's model of functions, variables and versions against the real loader."""

from __future__ import annotations

from pathlib import Path

import pytest

from loaderlab import compare
from stackproof.inject.tree import tree_of
from stackproof.linking.loader import Scope, missing_nodes, unbound


@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize("now", [False, True])
def test_function_that_nothing_defines(lab, called, now):
    lab.library("lib/libwanted.so", defines=["here"])
    stub = lab.library("stub/libwanted.so", defines=["here", "gone"])
    flags = [f"-Wl,-rpath,{lab.path('lib')}"]
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
    flags = [f"-Wl,-rpath,{lab.path('lib')}"]
    program = lab.program(needs=[stub], calls=["here"], flags=flags, declarations=declarations)
    closure, _ = compare(program, calls=["here"])
    assert [entry.name for entry in unbound(closure, Scope(closure))] == ["gone"]


def test_weak_reference(lab):
    lab.library("lib/libwanted.so", defines=["here"])
    declarations = (
        "const char *gone(void) __attribute__((weak)); int use(void) { return gone != 0; }\n"
    )
    flags = [f"-Wl,-rpath,{lab.path('lib')}"]
    program = lab.program(
        needs=["lib/libwanted.so"], calls=["here"], flags=flags, declarations=declarations
    )
    compare(program, calls=["here"])


OLD = "V_1 { global: here; local: *; };"
NEW = "V_1 { global: here; local: *; }; V_2 { global: more; } V_1;"


@pytest.mark.parametrize("installed", ["old", "new", "none"])
@pytest.mark.parametrize("uses", [["here"], ["here", "more"]])
def test_version_nodes(lab, installed, uses):
    stub = lab.library("stub/libwanted.so", defines=["here", "more"], script=NEW)
    scripts = {"old": OLD, "new": NEW, "none": None}
    defines = ["here"] if installed == "old" else ["here", "more"]
    lab.library("lib/libwanted.so", defines=defines, script=scripts[installed])
    program = lab.program(needs=[stub], calls=uses, flags=[f"-Wl,-rpath,{lab.path('lib')}"])
    compare(program, calls=uses)


def test_unversioned_reference_to_a_versioned_library(lab):
    lab.library("stub/libwanted.so", defines=["here"])
    lab.library("lib/libwanted.so", defines=["here", "more"], script=NEW)
    program = lab.program(
        needs=["stub/libwanted.so"], calls=["here"], flags=[f"-Wl,-rpath,{lab.path('lib')}"]
    )
    compare(program, calls=["here"])


def test_node_moves_to_another_library(lab):
    """A version need names its library; the symbol may come from any that has the node."""
    stub = lab.library("stub/libwanted.so", defines=["here", "more"], script=NEW)
    lab.library(
        "lib/libwanted.so", defines=["here"], script="V_1 { global: here; local: *; }; V_2 { } V_1;"
    )
    lab.library("lib/libmoved.so", defines=["more"], script="V_2 { global: more; local: *; };")
    program = lab.program(
        needs=[stub, "lib/libmoved.so"],
        calls=["here", "more"],
        flags=[f"-Wl,-rpath,{lab.path('lib')}"],
    )
    compare(program, calls=["here", "more"])


def test_first_definition_wins(lab):
    lab.library("lib/libone.so", defines=["both"])
    lab.library("lib/libtwo.so", defines=["both"])
    for needs in (["lib/libone.so", "lib/libtwo.so"], ["lib/libtwo.so", "lib/libone.so"]):
        program = lab.program(needs=needs, calls=["both"], flags=[f"-Wl,-rpath,{lab.path('lib')}"])
        _, real = compare(program, calls=["both"])
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
    program = lab.program(
        needs=[base], calls=["here"], flags=[f"-Wl,-rpath,{lab.path('lib')}"], opens=True
    )
    closure, real = compare(program, plugin, calls=["here"])
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
    flags = [f"-Wl,-rpath,{lab.path('lib')}"]
    program = lab.program(needs=needs, calls=["wanted", "other"], flags=flags)
    closure, real = compare(program, calls=["wanted", "other"])
    if real.started:
        shown = [line.path for line in tree_of(closure, ()) if not line.again]
        assert shown.count(lab.path("lib/libbehind.so")) == (there != "missing")
        by = Path(Scope(closure).provider("wanted").path).name
        assert by == ("libfront.so" if there == "missing" else "libbehind.so")
