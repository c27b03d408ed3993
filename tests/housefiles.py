"""The files of the project as the rules of the house look at them.

from housefiles import MODULES, name, tree
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "stackproof"
MODULES = sorted(PACKAGE.rglob("*.py"))
PROGRAMS = sorted(
    [
        *MODULES,
        ROOT / "noxfile.py",
        *(ROOT / "tools").glob("*.py"),
        *(ROOT / "benchmarks").glob("*.py"),
    ]
)
TEST_FILES = sorted((ROOT / "tests").rglob("*.py"))
C_FILES = sorted(
    path for part in ("native", "src", "tests", "tools") for path in (ROOT / part).rglob("*.[ch]")
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def name(path: Path) -> str:
    """Return a file's path in the project."""
    return path.relative_to(ROOT).as_posix()


@functools.cache
def tree(path: Path) -> ast.Module:
    """Return what a file of Python says."""
    return ast.parse(path.read_text())


def tracked() -> list[Path]:
    """Return the files of the project, or skip where this is no checkout."""
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    paths = [ROOT / word for word in listed.stdout.decode().split("\0") if word]
    return [path for path in paths if path.is_file()]


def broken(rule: Callable[[Path], Iterable[str]], paths: Iterable[Path]) -> list[str]:
    """Return each place of files that breaks a rule; a rule has something to look at."""
    paths = list(paths)
    assert len(paths) > 30
    return [f"{name(path)}: {fault}" for path in paths for fault in rule(path)]


def tool(name: str) -> ModuleType:
    """Return a module of `tools/`, which is no part of the package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
