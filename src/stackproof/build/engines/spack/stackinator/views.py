"""The views of an environment: which packages they link, which variables they change."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any

from stackproof.build.engines.spack.stack import SpackView, ViewChange
from stackproof.build.engines.spack.stackinator.findings import (
    FindingsList,
    KeyPath,
    mapping,
    strings,
)
from stackproof.core.document import Document
from stackproof.core.errors import Location, Reason

# Variables that hold a list of paths; only these can be extended.
# Source: docs/recipes.md of Stackinator, "the hard-coded prefix paths".
PREFIX_VARIABLES = frozenset(
    {
        "ACLOCAL_PATH",
        "CMAKE_PREFIX_PATH",
        "CPATH",
        "LD_LIBRARY_PATH",
        "LIBRARY_PATH",
        "MANPATH",
        "MODULEPATH",
        "PATH",
        "PKG_CONFIG_PATH",
        "PYTHONPATH",
    }
)
# Views that every image has besides the recipe's.
OWN_VIEWS = ("modules", "spack")
_PLACEHOLDER = re.compile(r"\$@(\w+)@")


def read_views(
    document: Document, at: KeyPath, views: Mapping[str, Any], mount: str, findings: FindingsList
) -> tuple[SpackView, ...]:
    """Return the views of one environment; `at` is the path of its `views`."""
    return tuple(
        _view(document, (*at, name), name, mapping(body), f"{mount}/env/{name}", findings)
        for name, body in views.items()
    )


def _view(
    document: Document,
    at: KeyPath,
    name: str,
    body: Mapping[str, Any],
    root: str,
    findings: FindingsList,
) -> SpackView:
    where = document.where_key(*at)
    findings.check_name(name, "a view", where)
    if name in OWN_VIEWS:
        findings.problem(
            Reason.INVALID_VALUE,
            f"`{name}` cannot be the name of a view: every image has its own view `{name}`",
            where=where,
            hint="give the view another name",
        )
    extra = mapping(body.get("uenv"))
    return SpackView(
        name=name,
        link=body.get("link", "roots"),
        select=strings(body.get("select")),
        exclude=strings(body.get("exclude")),
        projections=mapping(body.get("projections")),
        add_compilers=extra.get("add_compilers", True),
        prefix_paths=_prefix_paths(document, (*at, "uenv", "prefix_paths"), extra, findings),
        changes=_changes(
            document, (*at, "uenv", "env_vars"), mapping(extra.get("env_vars")), root, findings
        ),
    )


def _prefix_paths(
    document: Document, at: KeyPath, extra: Mapping[str, Any], findings: FindingsList
) -> dict[str, tuple[str, ...]]:
    result = {}
    for variable, folders in mapping(extra.get("prefix_paths")).items():
        if variable not in PREFIX_VARIABLES:
            findings.note(
                f"`{variable}` is none of the variables that are known to hold paths",
                where=document.where_key(*at, variable),
                hint=f"known are: {', '.join(sorted(PREFIX_VARIABLES))}",
            )
        for index, folder in enumerate(folders):
            where = document.where(*at, variable, index)
            if findings.check_relative(folder, "the view", where) and set(folder) & set(":,="):
                findings.problem(
                    Reason.INVALID_VALUE,
                    f"`{folder}` is not one folder of the view",
                    where=where,
                    hint="write each folder as an entry of its own",
                )
        result[variable] = tuple(folders)
    return result


def _changes(
    document: Document, at: KeyPath, env_vars: Mapping[str, Any], root: str, findings: FindingsList
) -> tuple[ViewChange, ...]:
    """Return the changes of variables: those that set, then those that extend.

    The last of several that set one variable counts. A path-like variable can only be unset, which
    is what Stackinator's documentation promises (its images empty the variable instead).
    """
    mount, _, view = root.partition("/env/")
    known = {"mount": mount, "view_name": view, "view_path": root}
    set_: dict[str, ViewChange] = {}
    for index, entry in enumerate(env_vars.get("set", [])):
        ((variable, value),) = entry.items()
        where = document.where(*at, "set", index, variable)
        set_.pop(variable, None)
        if value is None:
            set_[variable] = ViewChange(op="unset", variable=variable)
            continue
        text = _filled(value, known, where, findings)
        set_[variable] = ViewChange(op="set", variable=variable, value=text)
        if variable in PREFIX_VARIABLES:
            findings.problem(
                Reason.INVALID_VALUE,
                f"`{variable}` holds a list of paths and cannot be set to a value",
                where=where,
                hint="set it to null to start from nothing, then add entries under `prepend_path` "
                "or `append_path`",
            )
    changes = list(set_.values())
    for key, op in (("prepend_path", "prepend"), ("append_path", "append")):
        for index, entry in enumerate(env_vars.get(key, [])):
            ((variable, value),) = entry.items()
            where = document.where(*at, key, index, variable)
            if variable not in PREFIX_VARIABLES:
                findings.problem(
                    Reason.INVALID_VALUE,
                    f"`{variable}` is none of the variables that hold a list of paths",
                    where=document.where_key(*at, key, index, variable),
                    hint=f"`set` it, or use one of: {', '.join(sorted(PREFIX_VARIABLES))}",
                )
            path = posixpath.normpath(_filled(value, known, where, findings))
            changes.append(ViewChange(op=op, variable=variable, value=path))
    return tuple(changes)


def _filled(text: str, known: Mapping[str, str], where: Location, findings: FindingsList) -> str:
    """Return a text with `$@mount@` and the like replaced; an unknown one is a problem."""
    for name in _PLACEHOLDER.findall(text):
        if name not in known:
            findings.problem(
                Reason.INVALID_VALUE,
                f"`$@{name}@` stands for nothing",
                where=where,
                hint=f"there are: {', '.join(f'$@{key}@' for key in known)}; a variable of the "
                f"user is ${{@{name}@}}",
            )
    return _PLACEHOLDER.sub(lambda found: known.get(found[1], found[0]), text)
