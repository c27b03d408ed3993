"""Words that swap a package of a recipe for Guix: its transformation `with-input`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from stackproof.build.swap import MPI, RecipeOverlay, SwapKind, SwapWord
from stackproof.core.document import Document
from stackproof.core.errors import Reason, StackproofError
from stackproof.mpi import families

_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]*")


def swap(document: Document, word: SwapWord) -> RecipeOverlay:
    """See `Swapper`: Guix builds again what needs a package, with another in its place."""
    if word.kind is not SwapKind.WITH:
        message = "Guix builds from what its channels define"
        raise StackproofError(word.problem(message, "put the package into a channel of yours"))
    mpi = document.data["mpi"]
    is_mpi = word.package == MPI
    old = mpi.get("package", mpi["family"]) if is_mpi else word.package
    new = word.name or old
    if not all(map(_PACKAGE.fullmatch, (old, new, word.version or new))):
        message = f"`{word.value}` is no name of a package of Guix"
        raise StackproofError(word.problem(message, reason=Reason.INVALID_VALUE))
    replacement = f"{new}@{word.version}" if word.version else new
    inputs = _replace_input(document.data.get("with-input") or {}, old, replacement)
    why = f"Guix builds what needs {old} again, with {replacement} (--with-input)"
    if not is_mpi:
        return RecipeOverlay(data={"with-input": inputs}, why=why)
    family = next((name for name in families.REGISTRY if f"{new}-".startswith(f"{name}-")), "")
    if not family:
        message = f"`{new}` is the package of no MPI that is known here"
        hint = "its name begins with that of its family: openmpi, mpich-ofi"
        raise StackproofError(word.problem(message, hint, reason=Reason.INVALID_VALUE))
    version = {"version": word.version} if word.version or "version" in mpi else {}
    data = {"mpi": {"family": family, "package": new, **version}, "with-input": inputs}
    return RecipeOverlay(data=data, why=why)


def _replace_input(given: Mapping[str, str], old: str, replacement: str) -> dict[str, str]:
    """Return the inputs with `replacement` in the place of `old`, or of what replaced that."""
    replaced = [key for key, value in given.items() if value.partition("@")[0] == old]
    return dict.fromkeys(replaced or [old], replacement)
