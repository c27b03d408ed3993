"""What other people packed is taken apart in one place: `core/effects/foreign`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "stackproof"
FOREIGN = "core/effects/foreign/"
NAMES = {"unsquashfs", "debugfs"}
COMMANDS = {"cpio", "bsdtar", "rpm2cpio", "prlimit"}
CALLS = {"extractall", "unpack_archive"}
ALLOWED = {
    # The packages that programs are in: nothing is started there.
    ("core/effects/sandbox.py", "unsquashfs"), ("core/effects/sandbox.py", "debugfs"),
    # What apt downloads has a limit.
    ("build/engines/easybuild/effects/sources.py", "prlimit"),
}  # fmt: skip
"""Where such a word may stand, because nothing is taken apart there."""


def uses(path: Path) -> Iterator[str]:
    """Yield what takes archives apart: names of programs, first words of commands, and calls.

    Who reads an archive in memory, name by name, takes nothing apart (`tarfile.extractfile`).
    """
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and node.value in NAMES:
            yield node.value
        elif isinstance(node, ast.Tuple | ast.List):
            words = [getattr(one, "value", None) for one in node.elts]
            names = [str(word).rpartition("/")[2] for word in words]
            if names[:1] and (names[0] in COMMANDS | NAMES or names[:2] == ["zstd", "-d"]):
                yield names[0]
        elif isinstance(node, ast.Attribute) and node.attr in CALLS:
            yield node.attr


@pytest.mark.battery
def test_nothing_else_takes_a_foreign_tree_apart():
    found = {
        (name, word)
        for path in SOURCE.rglob("*.py")
        if not (name := str(path.relative_to(SOURCE))).startswith(FOREIGN)
        for word in uses(path)
    }
    assert sorted(found - ALLOWED) == []
    assert sorted(ALLOWED - found) == [], "no longer needed"


def test_such_a_use_is_seen(tmp_path):
    module = tmp_path / "a.py"
    module.write_text('run(("/usr/bin/unsquashfs", "x"))\narchive.extractall(".")\n')
    assert set(uses(module)) == {"extractall", "unsquashfs"}
