"""The text of a Spack package to what it says of its versions, without running it.

A package is a Python class whose `version(...)` calls name versions and digests. Nearly all of
Spack's packages write them as literals; a package that computes them is said to be incomplete,
and then nothing can be told from a version that is not found.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from stackproof.core.errors import Location, Reason, fail
from stackproof.core.value import Value

_AUTOTOOLS = "AutotoolsPackage"


class PackageFacts(Value):
    """What a package says: its versions with the SHA-256 of their sources ("": none is stated).

    `complete` is False when versions are computed, so that there may be more. `autotools` says
    whether a `configure` script builds it.
    """

    versions: Mapping[str, str]
    complete: bool = True
    autotools: bool = False


def read_package(text: str, file: str) -> PackageFacts:
    """Return the facts of a `package.py`; raises `StackproofError` (INVALID_VALUE)."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        raise fail(
            Reason.INVALID_VALUE, f"this is no package of Spack: {error}", where=Location(file=file)
        ) from None
    versions: dict[str, str] = {}
    complete = True
    autotools = False
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            autotools |= _AUTOTOOLS in {ast.unparse(base) for base in node.bases}
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        if node.func.id == "build_system":
            autotools |= "autotools" in _literals(node.args)
        if node.func.id == "version":
            literals = _literals(node.args[:1])
            complete &= bool(literals)
            digests = _literals([word.value for word in node.keywords if word.arg == "sha256"])
            versions |= dict.fromkeys(literals, next(iter(digests), ""))
    return PackageFacts(versions=versions, complete=complete, autotools=autotools)


def _literals(nodes: list[ast.expr]) -> list[str]:
    return [
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
