"""Print the modules that no test knows: none imports them, none says that it covers them.

python tools/untested.py

A test of a verb runs the program and imports nothing; its file then says what it is for, by paths
below src/stackproof: `COVERS = ("build/cli/cache.py",)`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "stackproof"


def modules() -> set[str]:
    """Return the modules that hold code, by their paths below the package."""
    return {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if any(not isinstance(node, ast.Expr) for node in ast.parse(path.read_text()).body)
    }


def _imported(tree: ast.Module) -> Iterator[str]:
    """Yield what a file imports, with dots; of `from a import b` both `a` and `a.b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)


def covers(tree: ast.Module) -> tuple[str, ...]:
    """Return the paths that a test file says it covers."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="COVERS")], value=value):
                return tuple(ast.literal_eval(value))
    return ()


def known() -> set[str]:
    """Return the paths, below the package, that test files import or say that they cover."""
    found: set[str] = set()
    for path in (ROOT / "tests").glob("*/test_*.py"):
        tree = ast.parse(path.read_text())
        found.update(covers(tree))
        for name in _imported(tree):
            package, _, inner = name.partition(".")
            if package == "stackproof" and inner:
                place = inner.replace(".", "/")
                found.update((f"{place}.py", f"{place}/__init__.py"))
    return found


def untested() -> list[str]:
    """Return the modules that no test file imports or says that it covers."""
    return sorted(modules() - known())


def main() -> None:
    """Print them; exit with 1 when there is one."""
    left = untested()
    print("\n".join(left) or "no module is without a test")
    sys.exit(bool(left))


if __name__ == "__main__":
    main()
