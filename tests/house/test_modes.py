"""A mode is given to what is open, or when it is made: a path may lead elsewhere by then."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from housefiles import MODULES, PACKAGE, tree

ALLOWED = {
    "bench/effects/compile_program.py": "a temporary folder of its own",
    "bench/effects/kinds/container_arm.py": "a temporary folder of its own",
    "build/cli/image.py": "the workspace of a build",
    "build/effects/sdist.py": "the workspace of a build",
    "build/effects/workspace.py": "the workspace of a build",
    "build/engines/spack/effects/worker.py": "inside of a build step",
    "build/engines/vendor/effects/worker.py": "inside of a build step",
    "cluster/effects/node.py": "a node's own file systems",
    "cluster/effects/slurm.py": "a node's own root",
    "core/effects/foreign/tree.py": "by a descriptor",
    "core/effects/files.py": "by a descriptor",
    "inject/effects/staging.py": "a folder that nobody else can enter",
    "inject/effects/versions.py": "a folder that nobody else can enter",
    "pack/effects/deliver.py": "a folder that nobody else can enter",
    "pack/effects/entry_files.py": "a folder that nobody else can enter",
    "pack/effects/interpreters.py": "a folder that nobody else can enter",
    "pack/effects/relocate.py": "a folder that nobody else can enter",
    "share/effects/storing.py": "by a descriptor",
    "share/effects/uploading.py": "a note in the user's cache",
}
"""The files that give a mode by a path, and where that path lies."""


def modes_by_path(module: ast.Module) -> Iterator[int]:
    """Yield the lines where a mode is given by a path: `os.chmod`, `Path.chmod`."""
    for call in ast.walk(module):
        function = getattr(call, "func", None)
        if isinstance(function, ast.Attribute) and function.attr in {"chmod", "lchmod"}:
            yield function.lineno


def test_modes_are_given_by_descriptors():
    found = {
        path.relative_to(PACKAGE).as_posix() for path in MODULES if any(modes_by_path(tree(path)))
    }
    assert sorted(found - ALLOWED.keys()) == []
    assert sorted(ALLOWED.keys() - found) == [], "no longer needed"


def test_a_mode_by_a_path_is_seen():
    code = "os.fchmod(1, 0)\nos.chmod(a, 0)\nPath(a).chmod(0)\nfolder.set_mode(0)\n"
    assert list(modes_by_path(ast.parse(code))) == [2, 3]
