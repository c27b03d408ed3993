"""Which things of the machine a test may ask for by `need(...)`, found by reading, not by running.

A test gets the marker `needs`, and one for each thing (`needs_slurm`), when it, a fixture that it
uses, or a function of a test file that one of these calls, names it. So `pytest -m "not needs"` is
what runs on any machine, and `pytest -m needs_slurm` what a machine with Slurm is for.

Files of which no test is asked for are not imported at all: with all of them a run takes a quarter
of a minute to begin.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from need import PROBES
from stackproof.core.value import Value

TESTS = Path(__file__).parent
NEED = "need"
_IMPORTED = re.compile(r"^\s*(?:from|import) (\w+)", re.MULTILINE)
_OF_FILE = re.compile(r"^pytestmark = .*\bpytest\.mark\.(battery|machine)\b", re.MULTILINE)
_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class _Uses(Value, kw_only=False):
    """What a function names: things of the machine, and other names, with what is behind a dot."""

    things: frozenset[str]
    names: frozenset[tuple[str, str]]


class _File(Value, kw_only=False):
    """The functions and classes of a file, and the names that it has from other test files."""

    functions: dict[str, _Uses]
    imports: dict[str, tuple[str, str]]


def marker(thing: str) -> str:
    """Return the marker of a thing."""
    return f"{NEED}s_{thing.replace('-', '_').replace('+', 'x')}"


def markers() -> Iterator[str]:
    """Yield the lines that pytest wants to know of its markers."""
    yield f"{NEED}s: asks for something of the machine by `need(...)` (tests/need.py)"
    for thing in PROBES:
        yield f"{marker(thing)}: asks for {thing}"


def none_asked_for(text: str, expression: str) -> bool:
    """Return whether `-m expression` leaves out every test of a file with this text, for sure."""
    asked = expression.split(" and ")
    return any(f"not {mark}" in asked for mark in _OF_FILE.findall(text))


def of(item: pytest.Item) -> frozenset[str]:
    """Return what a test asks for."""
    info = getattr(item, "_fixtureinfo", None)
    fixtures = info.name2fixturedefs if info else {}
    functions = [one.func for defs in fixtures.values() for one in defs]
    found: set[str] = set()
    for function in (getattr(item, "function", None), *functions):
        code = getattr(inspect.unwrap(function), "__code__", None) if function else None
        if code is not None:
            found |= _behind(Path(code.co_filename), code.co_name)
    return frozenset(found)


@functools.cache
def _asks(file: Path) -> bool:
    """Return whether a file asks for anything, or one that it has names from.

    Most do not, and to look at their letters takes a hundredth of reading them as Python.
    """
    seen: set[Path] = set()
    left = [file]
    while left:
        here = left.pop()
        if here in seen or not here.is_relative_to(TESTS):
            continue
        seen.add(here)
        text = here.read_text(encoding="utf-8")
        if f"{NEED}(" in text:
            return True
        left += [TESTS / f"{name}.py" for name in _IMPORTED.findall(text) if _is_ours(name)]
    return False


@functools.cache
def _behind(file: Path, function: str) -> frozenset[str]:
    """Return what a function and everything that it calls asks for."""
    if not _asks(file):
        return frozenset()
    found: set[str] = set()
    seen: set[tuple[Path, str]] = set()
    left = [(file, function)]
    while left:
        here = left.pop()
        if here in seen or not here[0].is_relative_to(TESTS):
            continue
        seen.add(here)
        parsed = _read(here[0])
        uses = parsed.functions.get(here[1])
        if uses is None:
            continue
        found |= uses.things
        for name, attribute in uses.names:
            if name in parsed.functions:
                left.append((here[0], name))
            elif name in parsed.imports:
                module, inner = parsed.imports[name]
                left.append((TESTS / f"{module}.py", inner or attribute))
    return frozenset(found)


@functools.cache
def _read(file: Path) -> _File:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    functions: dict[str, _Uses] = {}
    imports: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, _Function):
            functions[node.name] = _uses(node)
        elif isinstance(node, ast.ImportFrom) and node.module and _is_ours(node.module):
            imports |= {one.asname or one.name: (node.module, one.name) for one in node.names}
        elif isinstance(node, ast.Import):
            ours = (one for one in node.names if _is_ours(one.name))
            imports |= {one.asname or one.name: (one.name, "") for one in ours}
    return _File(functions, imports)


def _is_ours(module: str) -> bool:
    return module != NEED and (TESTS / f"{module}.py").is_file()


def _uses(function: _Function) -> _Uses:
    things: set[str] = set()
    names: set[tuple[str, str]] = set()
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Name(id="need") | ast.Attribute(attr="need"), args=words):
                things |= {str(word.value) for word in words if isinstance(word, ast.Constant)}
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                names.add((name, attribute))
            case ast.Name(id=name):
                names.add((name, ""))
    return _Uses(frozenset(things), frozenset(names))
