"""The rule of the house on families: what an MPI is called stands in its own folder.

Rooms ask `stackproof.mpi.families` for what they need to know of an MPI, so that a new one is its
folder and a line in the registry. The places that may name one are listed with their reasons.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from housefiles import MODULES, PACKAGE, tree
from stackproof.mpi import families

FOLDER = PACKAGE / "mpi" / "families"
NAMES = frozenset(families.REGISTRY) | {
    "mvapich", "mvapich2", "intel-oneapi-mpi", "impi", "impi-rt", "OpenMPI", "MPICH",
}  # fmt: skip
"""What families are called here and elsewhere."""

LEFT: dict[str, int] = {
    "bench/effects/kinds/vendor.py": 2,
    "bench/effects/modules.py": 1,
    "build/engines/easybuild/components.py": 2,
    "build/engines/easybuild/selection.py": 4,
    "build/engines/easybuild/swap.py": 2,
    "build/engines/easybuild/wishes.py": 2,
    "build/engines/spack/conflicts.py": 5,
    "build/engines/spack/effects/machine.py": 4,
    "build/engines/spack/mpis.py": 15,
    "build/engines/spack/stackinator/defaults.py": 6,
    "build/engines/spack/stackinator/facts.py": 7,
    "build/engines/spack/stackinator/network.py": 5,
    "build/engines/vendor/selection.py": 5,
    "build/engines/vendor/stack.py": 1,
    "build/engines/wheel/recipe.py": 1,
    "doctor/log/grammar.py": 2,
    "inject/artefact.py": 2,
    "inject/eessi.py": 6,
    "inject/findings/abi.py": 2,
    "inject/findings/constants.py": 15,
    "inject/findings/launcher.py": 4,
    "inject/findings/symbols.py": 8,
    "inject/job.py": 1,
    "inject/replacement.py": 1,
    "inject/site_hook.py": 1,
    "knowledge/evidence.py": 5,
    "mpi/abi/__init__.py": 2,
    "mpi/abi/mpich.py": 2,
    "mpi/abi/openmpi.py": 2,
    "mpi/abi/openmpi6.py": 1,
    "prove/effects/mpi.py": 5,
    "recipe/conditions.py": 4,
    "recipe/origins.py": 4,
    "site/capture.py": 4,
    "site/completion.py": 1,
}
"""How many names still stand in each file; a number may only fall."""


def literals(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Constant) and node.value in NAMES:
            yield node.value


def test_no_room_names_an_mpi() -> None:
    named = {
        path.relative_to(PACKAGE).as_posix(): len([*literals(path)])
        for path in MODULES
        if FOLDER not in path.parents
    }
    assert {place: count for place, count in named.items() if count} == LEFT


def test_the_rule_sees_names() -> None:
    assert [*literals(FOLDER / "openmpi" / "__init__.py")]
