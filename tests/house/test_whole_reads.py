"""A file is read whole only where its size is known to be small: a limit after the cost is none."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from housefiles import MODULES, PACKAGE, tree

OWN = "a file that stackproof or its step wrote, in a folder of the user's own"
KERNEL = "a file of the kernel"
SHIPPED = "a file that comes with stackproof"
STEP = "inside of a build step, in the sandbox"
ALLOWED = {
    "bench/effects/deciding.py": OWN,
    "bench/effects/kinds/container_rank.py": KERNEL,
    "bench/effects/modules.py": OWN,
    "build/cli/image.py": "files of the recipe, which its limits have let in",
    "build/effects/cache_entries.py": OWN,
    "build/effects/executor.py": OWN,
    "build/effects/loaded.py": "files of the recipe, which its limits have let in",
    "build/effects/sdist.py": STEP,
    "build/effects/shell.py": OWN,
    "build/effects/workspace.py": OWN,
    "build/engines/easybuild/effects/builder.py": "what is shipped, and the log of a step, which has a limit",
    "build/engines/easybuild/effects/hooks.py": STEP,
    "build/engines/guix/effects/packs.py": OWN,
    "build/engines/spack/effects/build.py": "the log of a step, which has a limit",
    "build/engines/spack/effects/folders.py": "its size was added up before",
    "build/engines/spack/effects/machine.py": "/etc/os-release",
    "build/engines/spack/effects/nodes.py": OWN,
    "build/engines/spack/effects/progress.py": "the log of a step, which has a limit",
    "build/engines/spack/effects/together.py": STEP,
    "build/engines/spack/effects/worker.py": STEP,
    "build/engines/vendor/effects/folder.py": OWN,
    "build/engines/vendor/effects/worker.py": STEP,
    "build/engines/wheel/effects/worker.py": STEP,
    "cli/completing.py": SHIPPED,
    "cluster/effects/agent.py": KERNEL,
    "cluster/effects/cgroups.py": KERNEL,
    "cluster/effects/link.py": SHIPPED,
    "cluster/effects/plugin.py": SHIPPED,
    "cluster/effects/slurm.py": KERNEL,
    "cluster/effects/state.py": OWN,
    "cluster/effects/up.py": OWN,
    "core/cli/examples.py": SHIPPED,
    "core/effects/documents.py": SHIPPED,
    "core/effects/foreign/index_file.py": "a copy of this process, for an old SQLite",
    "core/effects/locale.py": KERNEL,
    "core/effects/quiet.py": KERNEL,
    "core/effects/shipped.py": SHIPPED,
    "image/container/effects/layers.py": OWN,
    "launch/effects/leftovers.py": KERNEL,
    "launch/effects/neighbours.py": KERNEL,
    "launch/effects/task.py": KERNEL,
    "mount/effects/join.py": KERNEL,
    "mpi/effects/fabric.py": KERNEL,
    "pack/effects/entry_files.py": "in an unpacked tree, whose sum has a limit",
    "pack/effects/relocate.py": "in an unpacked tree, whose sum has a limit",
    "prove/effects/arms.py": OWN,
    "recipe/cli/recipe.py": SHIPPED,
    "report/render.py": SHIPPED,
    "share/effects/signing.py": OWN,
    "share/effects/uploading.py": OWN,
}
"""The files that read a file whole, and why it is small."""
_WHOLE = {"read_bytes", "read_text", "readlines", "read", "communicate"}


def whole_reads(module: ast.Module) -> Iterator[int]:
    """Yield the lines where a file is read to its end, however far that is."""
    for call in ast.walk(module):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        ours = ast.unparse(call.func.value).startswith(("_Read", "FunctionReading", "self.read"))
        if call.func.attr in _WHOLE and not call.args and not ours:
            yield call.lineno


def test_files_are_read_with_a_limit():
    places = {
        path.relative_to(PACKAGE).as_posix() for path in MODULES if any(whole_reads(tree(path)))
    }
    assert sorted(places - ALLOWED.keys()) == [], "use files.read_bounded"
    assert sorted(ALLOWED.keys() - places) == [], "no longer needed"


def test_a_whole_read_is_seen():
    code = "a.read(5)\na.read()\nPath(x).read_bytes()\nfiles.read_bounded(x, y)\nf.read_text(b=1)\n"
    assert list(whole_reads(ast.parse(code))) == [2, 3, 5]
