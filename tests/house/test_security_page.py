"""SECURITY.md promises nothing that no test holds."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text()
NAMES = re.findall(r"`(test_\w+\.py)(?:::(test_\w+))?`", PAGE)
# Sections whose every point is a promise.
PROMISES = (
    "Foreign trees",
    "Folders of several users",
    "Registries",
    "Signatures",
    "What it guarantees",
    "The sandbox of build steps",
    "The hook for containers",
    "The plug-in for Slurm",
    "What others wrote, on this side",
)
# Sections whose every point says what was tried.
ATTACKED = ("Foreign trees", "Folders of several users")


def _functions(file: Path) -> set[str]:
    body = ast.parse(file.read_text()).body
    return {node.name for node in body if isinstance(node, ast.FunctionDef)}


def _points(title: str) -> list[str]:
    """Return the points of a section's list."""
    rest = PAGE.partition(f"# {title}\n")[2]
    section = re.split(r"^#+ ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    return re.split(r"^(?:- |\d+\. )(?=\*\*)", section, flags=re.MULTILINE)[1:]


@pytest.mark.battery
def test_every_test_that_it_names_is_there() -> None:
    missing = []
    for file, test in NAMES:
        found = list((ROOT / "tests").rglob(file))
        if not found or (test and not any(test in _functions(path) for path in found)):
            missing.append(f"{file}::{test}")
    assert missing == []
    assert len(NAMES) > 40


def test_every_guarantee_names_a_test() -> None:
    bare = []
    for title in PROMISES:
        points = _points(title)
        assert len(points) >= 4, title
        bare += [point for point in points if not re.search(r"`test_\w+\.py", point)]
    # What is not promised, said where it would be looked for.
    assert [point.split("**")[1] for point in bare] == ["No-new-privileges is not set"]


def test_every_guarantee_about_foreign_content_says_what_was_tried() -> None:
    points = [point for title in ATTACKED for point in _points(title)]
    assert len(points) > 15
    assert [point.split("**")[1] for point in points if "Tried" not in point] == []
