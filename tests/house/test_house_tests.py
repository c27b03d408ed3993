"""The rules of the house about tests: each is collected, has its place, and none is missing."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

import needs
from housefiles import MODULES, PACKAGE, ROOT, TEST_FILES, Function, broken, tool, tree


def cases_without_order(path: Path) -> Iterator[str]:
    """Yield where tests are made of a set: each process that shares the work has another order."""
    for call in ast.walk(tree(path)):
        if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "parametrize":
            for cases in call.args[1:2]:
                made = cases
                while isinstance(made, ast.BinOp):
                    made = made.left
                of_set = isinstance(made, ast.Call) and ast.unparse(made.func).endswith("set")
                if of_set or isinstance(made, ast.Set | ast.SetComp):
                    yield f"{call.lineno}: a set as cases, which `sorted()` puts in order"


def test_cases_have_an_order(tmp_path):
    assert broken(cases_without_order, TEST_FILES) == []
    texts = ("{*A} - {'b'}", "set(A)", "{a for a in A}", "frozenset(A) | B")
    for number, cases in enumerate(texts):
        file = tmp_path / f"{number}.py"
        file.write_text(f"@pytest.mark.parametrize('name', {cases})\ndef test(): ...\n")
        assert len(list(cases_without_order(file))) == 1


def uncollected(path: Path) -> Iterator[str]:
    """Yield what is wrong: no test where pytest looks, one where it does not, or a hidden one."""
    names = [f.name for f in tree(path).body if isinstance(f, Function)]
    tests = [word for word in names if word.startswith("test_")]
    if bool(tests) != path.name.startswith("test_"):
        yield f"{len(tests)} tests"
    if len(tests) != len(set(tests)):
        yield "two tests of one name: the first one never runs"


def test_every_test_is_collected():
    assert broken(uncollected, TEST_FILES) == []


def test_pytest_looks_everywhere(pytestconfig):
    assert pytestconfig.getini("testpaths") == ["tests"]
    hidden = set(pytestconfig.getini("norecursedirs"))
    folders = {path.parent for path in TEST_FILES}
    assert not any(folder.name in hidden for folder in folders)


def test_every_test_is_of_the_gate_or_of_the_battery():
    """Those with a marker and those without it are all."""
    assert 'GATE = ("-m", "not battery and not machine")\n' in (ROOT / "noxfile.py").read_text()
    assert tool("battery").CHOICE.startswith("battery or machine or ")


def test_a_file_is_passed_over_where_none_of_its_tests_is_asked_for():
    whole, listed, one, none = (
        "pytestmark = pytest.mark.machine\n",
        "pytestmark = [pytest.mark.battery, pytest.mark.timeout(9)]\n",
        "@pytest.mark.machine\ndef test(): ...\n",
        "def test(): ...\n",
    )
    passed_over = {
        "": [], "machine": [], "not machine": [whole], "not battery and not machine": [whole, listed],
        "not needs and not battery and not machine": [whole, listed], "not machine or needs": [],
        "needs": [], "not battery": [listed],
    }  # fmt: skip
    for expression, expected in passed_over.items():
        texts = (whole, listed, one, none)
        assert [one for one in texts if needs.none_asked_for(one, expression)] == expected


def test_tests_stand_where_the_code_stands():
    """Below tests/ is a folder for each room, one for native/ and one for the whole project."""
    rooms = {path.parent.name for path in MODULES if path.parent.parent == PACKAGE}
    tests = [path for path in TEST_FILES if path.name.startswith("test_")]
    assert {path.parent.parent for path in tests} == {ROOT / "tests"}
    assert {path.parent.name for path in tests} <= {*rooms, "native", "house"}
    names = [path.name for path in tests]
    assert len(names) == len(set(names)), "a page names a test by its file alone"


@pytest.mark.battery
def test_no_module_is_without_a_test():
    """A test imports it, or is of its verb and says so; what is said is there and is tested there."""
    untested = tool("untested")
    assert untested.untested() == []
    said = [path for file in TEST_FILES for path in untested.covers(tree(file))]
    assert sorted(set(said) - untested.modules()) == []
    assert len(said) == len(set(said)), "two files say that they cover one module"


@functools.cache
def own_names(module: str) -> set[str] | None:
    """Return the names that a module of this package has, or none where there is no such module."""
    place = PACKAGE.parent / module.replace(".", "/")
    file = place.with_suffix(".py") if place.with_suffix(".py").exists() else place / "__init__.py"
    if not file.exists():
        return None if not place.is_dir() else {each.stem for each in place.iterdir()}
    names = {each.stem for each in place.iterdir()} if place.is_dir() else set()
    for node in ast.walk(tree(file)):
        if isinstance(node, Function | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {each.asname or each.name.partition(".")[0] for each in node.names}
    return names


def missing_names(path: Path) -> Iterator[str]:
    """Yield what a file takes from a module of this package that has no such name."""
    taken: dict[str, str] = {}
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("stackproof"):
            for each in node.names:
                whole = f"{node.module}.{each.name}"
                if each.name not in (own_names(str(node.module)) or ()):
                    yield f"{node.lineno}: {whole}"
                if own_names(whole) is not None:
                    taken[each.asname or each.name] = whole
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = taken.get(node.value.id)
            if module and node.attr not in (own_names(module) or ()) and node.attr[:2] != "__":
                yield f"{node.lineno}: {module}.{node.attr}"


@pytest.mark.battery
def test_what_tests_take_from_modules_exists(tmp_path):
    """A name that only a slow test asks for is missed here first."""
    assert broken(missing_names, TEST_FILES) == []
    head = "from stackproof.core import limits\n"
    lines = ("limits.NO_SUCH_LIMIT", "from stackproof.core import no_such_module",
             "from stackproof.core.limits import NO_SUCH_LIMIT")  # fmt: skip
    for number, line in enumerate(lines):
        file = tmp_path / f"{number}.py"
        file.write_text(f"{head}{line}\n")
        assert len(list(missing_names(file))) == 1


CLOCKS = {"sleep", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time",
          "process_time_ns", "thread_time", "getrusage", "ru_maxrss", "getloadavg"}  # fmt: skip
KILLS = {"kill", "killpg", "terminate", "SIGKILL", "send_signal"}
CHANCES = {"choice", "gauss", "randint", "random", "randrange", "sample", "shuffle", "uniform"}
WAITS = {"run", "communicate", "wait", "check_output", "check_call", "call"}
LEAST_DEADLINE_S = 60


def is_of_the_battery(node: ast.AST) -> bool:
    """Return whether a test, or the `pytestmark` of a file, has a marker that the gate leaves out."""
    text = " ".join(map(ast.unparse, getattr(node, "decorator_list", [node])))
    return "mark.battery" in text or "mark.machine" in text


def gate_code(path: Path) -> list[ast.AST]:
    """Return the tests of a file that the gate runs, and what they use of the same file."""
    tops = {n.name: n for n in tree(path).body if isinstance(n, Function | ast.ClassDef)}
    marks = [n for n in tree(path).body if ast.unparse(n).startswith("pytestmark")]
    if any(map(is_of_the_battery, marks)):
        return []
    used: dict[str, ast.AST] = {}
    waiting = [n for n, top in tops.items() if n[:5] == "test_" and not is_of_the_battery(top)]
    while waiting:
        word = waiting.pop()
        if word in tops and word not in used:
            used[word] = tops[word]
            nodes = list(ast.walk(tops[word]))
            waiting += [node.id for node in nodes if isinstance(node, ast.Name)]
            waiting += [node.arg for node in nodes if isinstance(node, ast.arg)]
    return list(used.values())


def luck(path: Path) -> Iterator[str]:
    """Yield where a test of the gate looks at a clock, kills, takes a chance, or waits too shortly."""
    code = gate_code(path)
    # To end a child in the end, however it went, is no matter of luck.
    ends = [n for top in code for t in ast.walk(top) if isinstance(t, ast.Try) for n in t.finalbody]
    harmless = {node for end in ends for node in ast.walk(end)}
    modules = {a.name for n in tree(path).body if isinstance(n, ast.Import) for a in n.names}
    for node in (node for top in code for node in ast.walk(top)):
        if isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value)
            if (
                (node.attr in CLOCKS and (owner in {"time", "os", "resource"} or "(" in owner))
                or (node.attr in KILLS and node not in harmless)
                or (node.attr in CHANCES and owner == "random" and owner in modules)
            ):
                yield f"{node.lineno}: {owner}.{node.attr}"
        elif isinstance(node, ast.Call):
            word = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if word in {"listdir", "scandir"} and ast.unparse(node).endswith("('/tmp')"):
                yield f"{node.lineno}: a folder that others use"
            if word in {"default_rng", "Random"} and not node.args:
                yield f"{node.lineno}: {word} without a seed"
            for option in node.keywords:
                is_short = (
                    isinstance(option.value, ast.Constant)
                    and isinstance(option.value.value, int | float)
                    and option.value.value < LEAST_DEADLINE_S
                )
                if word in WAITS and option.arg == "timeout" and is_short:
                    yield f"{node.lineno}: a deadline of less than {LEAST_DEADLINE_S} s"


def test_nothing_in_the_gate_depends_on_luck(tmp_path):
    assert broken(luck, [path for path in TEST_FILES if path.name.startswith("test_")]) == []
    wrong = ("time.sleep(1)", "assert time.monotonic() < 3", "process.kill()", "random.choice('ab')",
             "numpy.random.default_rng()", "process.wait(timeout=5)", "helper()",
             "os.listdir('/tmp')")  # fmt: skip
    for number, line in enumerate(wrong):
        file = tmp_path / f"{number}.py"
        text = (
            f"import random\n\n\ndef helper():\n    os.kill(1, 9)\n\n\ndef test_a():\n    {line}\n"
        )
        file.write_text(text)
        assert len(list(luck(file))) == 1, line
        for mark in ("battery", "machine"):
            file = tmp_path / f"{mark}-{number}.py"
            file.write_text(text.replace("def test_a", f"@pytest.mark.{mark}\ndef test_a"))
            assert list(luck(file)) == []


def test_the_list_of_the_unsteady_is_short_and_names_tests_of_the_battery():
    battery = tool("battery")
    known = battery.load_unsteady()
    assert len(known) <= battery.MOST_UNSTEADY
    for name, line in known.items():
        test, since, symptom, suspicion = line.split("\t")
        file, _, function = test.partition("::")
        assert (name, len(since)) == (test, 10)
        assert symptom
        assert suspicion
        (node,) = (
            n for n in tree(ROOT / f"tests/{file}.py").body if getattr(n, "name", "") == function
        )
        marks = [n for n in tree(ROOT / f"tests/{file}.py").body if "pytestmark" in ast.unparse(n)]
        assert any(map(is_of_the_battery, (node, *marks))), name
