"""What the worker in the sandbox is told about the views of a stack."""

from __future__ import annotations

import json
from typing import Any

from stackproof.build.engines.spack import compilers
from stackproof.build.engines.spack.compilers import Programs
from stackproof.build.engines.spack.stack import SpackEnvironment, SpackLock, SpackStack, SpackView

FILE = "views.json"
"""Where the worker finds it, below the build."""
_GCC = {"c": "gcc", "cxx": "g++", "fortran": "gfortran"}
# The variables that uenv images take for lists of paths, whatever sets them
# (stackinator/etc/envvars.py).
LISTS = (
    "ACLOCAL_PATH", "CMAKE_PREFIX_PATH", "CPATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "MANPATH",
    "MODULEPATH", "PATH", "PKG_CONFIG_PATH", "PYTHONPATH",
)  # fmt: skip


def job(stack: SpackStack, lock: SpackLock) -> str:
    """Return what the worker has to know about every view, as JSON text."""
    data = {
        "mount": stack.mount,
        "lists": list(LISTS),
        "environments": {
            environment.name: {
                view.name: _view(stack, lock, environment, view) for view in environment.views
            }
            for environment in stack.environments
        },
    }
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def _view(
    stack: SpackStack, lock: SpackLock, environment: SpackEnvironment, view: SpackView
) -> dict[str, Any]:
    return {
        "links": links(stack, lock, environment) if view.add_compilers else {},
        "prefix_paths": {name: list(folders) for name, folders in view.prefix_paths.items()},
        "changes": [
            {"op": change.op, "variable": change.variable, "value": change.value}
            for change in view.changes
        ],
    }


def links(stack: SpackStack, lock: SpackLock, environment: SpackEnvironment) -> dict[str, str]:
    """Return the compilers' programs by the name that a view's `bin` gives them."""
    found: dict[str, str] = {}
    for name in environment.compilers:
        brought = compilers.programs(stack, lock, compilers.named(stack, name))
        for one in compilers.matching(brought, environment.compiler_specs):
            for language, path in sorted(one.paths.items()):
                # Several versions of one compiler: the first is the default.
                found.setdefault(_link_name(one, language, path), path)
    return dict(sorted(found.items()))


def _link_name(one: Programs, language: str, path: str) -> str:
    """Return a program's usual name: a site's gcc may be called gcc-13, users say gcc."""
    return _GCC[language] if one.package == "gcc" else path.rpartition("/")[2]
