"""Words that swap a package of a recipe of wheels: another MPI, or another Python package."""

from __future__ import annotations

import re
from typing import Any

from stackproof.build.swap import LIBFABRIC, MPI, Depth, RecipeOverlay, SwapKind, SwapWord
from stackproof.core.document import Document
from stackproof.core.errors import Problem, Reason, StackproofError, did_you_mean
from stackproof.mpi import families

_REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+")


def swap(document: Document, word: SwapWord) -> RecipeOverlay:
    """See `Swapper`: an MPI of the same ABI is put under what the recipe's own MPI compiles."""
    data = document.data
    packages = {_name(text): text for text in data.get("packages") or ()}
    if word.kind is not SwapKind.WITH:
        what = "patched" if word.kind is SwapKind.PATCH else "built from another source"
        hint = "take a recipe with `engine: easybuild` or `engine: spack`"
        raise StackproofError(word.problem(f"wheels are not compiled here, nor {what}", hint))
    if word.package == LIBFABRIC:
        message = "the wheel of an MPI brings its own libfabric along"
        hint = (
            "put another one under the image where it runs: `run --inject`, or take a recipe with "
            "`engine: easybuild`"
        )
        raise StackproofError(word.problem(message, hint))
    if word.package == MPI:
        return _mpi(data, word)
    if _name(word.package) not in packages:
        raise StackproofError(word.unknown((MPI, *packages)))
    version = f"=={word.version}" if word.version else ""
    wanted = f"{word.name or word.package}{version}"
    kept = [wanted if _name(text) == _name(word.package) else text for text in packages.values()]
    return RecipeOverlay(
        data={"packages": kept}, why="the package index is asked for another wheel"
    )


def _mpi(data: dict[str, Any], word: SwapWord) -> RecipeOverlay:
    old, name = data["mpi"]["family"], word.name or data["mpi"]["family"]
    if name not in families.REGISTRY:
        raise StackproofError(_no_family(word, name))
    before, after = families.REGISTRY[old], families.REGISTRY[name]
    was = data["mpi"].get("version")
    if (old, was) == (name, word.version):
        message = f"the recipe has {after.title} {was or ''}".rstrip() + " already"
        raise StackproofError(word.problem(message, reason=Reason.INVALID_VALUE))
    wanted = {"family": name, **({"version": word.version} if word.version else {})}
    if families.abi_of(old, was) == families.abi_of(name, word.version):
        why = (
            f"programs for {before.title} run on {after.title}, as both have the ABI of "
            f"{families.REGISTRY[after.abi].title}"
            if old != name
            else f"programs for one release of {after.title} run on the other one"
        )
        return RecipeOverlay(data={"replacement": wanted}, depth=Depth.INJECT, why=why)
    why = (
        f"{before.title} and {after.title} have different ABIs: what calls MPI is compiled with "
        "the new one"
        if before.abi != after.abi
        else f"the ABI of {after.title} changed with release {after.new_abi_from}"
    )
    gone = {"version": None} if was and not word.version else {}
    return RecipeOverlay(data={"mpi": {**wanted, **gone}}, depth=Depth.REBUILD, why=why)


def _no_family(word: SwapWord, name: str) -> Problem:
    known = [one for one, family in families.REGISTRY.items() if family.wheels(None)]
    hint = f"{did_you_mean(name, known)}there are wheels of: {', '.join(known)}"
    return word.problem(f"there is no MPI `{name}`", hint, reason=Reason.INVALID_VALUE)


def _name(text: str) -> str:
    """Return the plain name of a requirement."""
    match = _REQUIREMENT.match(text)
    return re.sub(r"[-_.]+", "-", match[0] if match else text).lower()
