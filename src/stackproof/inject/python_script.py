"""Scripts of Python to the libraries that they open with ctypes, where their text says so."""

from __future__ import annotations

import ast
import sys
import warnings

_OPENERS = frozenset({"CDLL", "PyDLL", "LoadLibrary"})
# What may open, import or start anything.
_UNKNOWN = frozenset(
    {
        "__import__", "_dlopen", "compile", "dlopen", "eval", "exec", "fork", "getattr", "globals",
        "popen", "system", "vars",
    }
)  # fmt: skip
_STARTERS = ("exec", "spawn", "posix_spawn")
_MODULES = sys.stdlib_module_names - {
    "_ctypes", "asyncio", "code", "imp", "importlib", "multiprocessing", "pty", "runpy",
    "subprocess",
}  # fmt: skip


def imports(text: str, package: str) -> bool:
    """Return True for a script that imports a package, or a module of it."""
    for node in _nodes(text):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        if any(name.partition(".")[0] == package for name in names):
            return True
    return False


def _nodes(text: str) -> list[ast.AST]:
    """Return all parts of a script, none where it is no Python."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return [*ast.walk(ast.parse(text))]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def opened_by(text: str) -> tuple[str, ...]:
    """Return the libraries that a script opens, none where it may open or start others too.

    Modules that are none of Python's own may open any, and so may a name that is put together.
    """
    nodes = _nodes(text)
    calls = [node for node in nodes if isinstance(node, ast.Call) and _word(node.func) in _OPENERS]
    plain = {id(node.func) for node in calls} | {
        id(node.func.value) for node in calls if isinstance(node.func, ast.Attribute)
    }
    if any(_is_unknown(node) for node in nodes if id(node) not in plain):
        return ()
    names = [_first(node) for node in calls]
    return tuple(dict.fromkeys(name for name in names if name)) if None not in names else ()


def _word(node: ast.AST) -> str:
    """Return the last name of an expression, empty where it has none."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _is_unknown(node: ast.AST) -> bool:
    """Return True for what may open a library without saying so."""
    if isinstance(node, ast.Import):
        return any(name.name.partition(".")[0] not in _MODULES for name in node.names)
    if isinstance(node, ast.ImportFrom):
        renamed = any(name.asname and name.name in _OPENERS | {"cdll"} for name in node.names)
        own = (node.module or "").partition(".")[0] in _MODULES and not node.level
        return renamed or not own
    word = _word(node)
    return word in _UNKNOWN | _OPENERS | {"cdll", "pydll"} or word.startswith(_STARTERS)


def _first(call: ast.Call) -> str | None:
    """Return the library that a call opens, empty for the program itself, None for any."""
    first = call.args[0] if call.args else None
    if not isinstance(first, ast.Constant):
        return None
    return first.value if isinstance(first.value, str) else "" if first.value is None else None
