"""The page of planted faults names a test for every row, and every one of them is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "planted-faults.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| ---")
]
NAMES = re.findall(r"`(test_\w+\.py)::(test_\w+)`", PAGE)
WAYS = {"real", "captured", "changed", "simulated", "written"}


def _functions(file: Path) -> set[str]:
    body = ast.parse(file.read_text()).body
    return {node.name for node in body if isinstance(node, ast.FunctionDef)}


def test_every_test_that_it_names_is_there():
    missing = [
        f"{file}::{test}"
        for file, test in dict.fromkeys(NAMES)
        if not any(test in _functions(path) for path in (ROOT / "tests").rglob(file))
    ]
    assert missing == []
    assert PAGE.count(".py::") == len(NAMES) > 70


def test_every_row_names_a_test_and_how_the_fault_was_made():
    heads = [row for row in ROWS if row[-1] == "by"]
    rows = [row for row in ROWS if row[-1] != "by"]
    assert len(heads) == 5
    assert len(rows) > 60
    assert [row[0] for row in rows if not re.search(r"`test_\w+\.py::test_\w+`", row[-1])] == []
    assert [row[0] for row in rows if row[-2].strip() not in WAYS] == []


def test_what_is_called_real_runs_ranks_or_programs():
    """One of its tests is among those that start something."""
    pretended = [
        row[0]
        for row in ROWS
        if row[-2] == "real"
        and not any(
            re.search(r"subprocess\.run|\bneed\(|mark\.(?:battery|machine)", path.read_text())
            for file, _ in re.findall(r"`(test_\w+\.py)::(test_\w+)`", row[-1])
            for path in (ROOT / "tests").rglob(file)
        )
    ]
    assert pretended == []
