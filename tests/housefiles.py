"""The files of the project as the rules of the house look at them.

from housefiles import MODULES, name, tree
"""

from __future__ import annotations

import ast
import functools
import shutil
import subprocess
from pathlib import Path

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
