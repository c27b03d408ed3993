"""Words that swap a component of a chain from source: release, MPI, source file, patch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stackproof.build.engines.easybuild.components import Catalogue, Component
from stackproof.build.swap import LIBFABRIC, MPI, Depth, RecipeOverlay, SwapKind, SwapWord
from stackproof.core.document import Document
from stackproof.core.errors import Reason, StackproofError, did_you_mean
from stackproof.mpi import families

SOURCE_FILES, PATCHES = "source-files", "patches"
"""Keys of recipes for files of one's own, by component."""


def swap(
    document: Document, word: SwapWord, catalogue: Catalogue, file: Mapping[str, str] | None = None
) -> RecipeOverlay:
    """Return what a word lays over a recipe; `file` is that of a source or a patch.

    It has `filename` and `sha256`, and `address` for a source that is downloaded. Raises
    `StackproofError`.
    """
    data = document.data
    own = data.get("mpi", {}).get("family", "")
    name = own if word.package == MPI else word.package
    if word.package == MPI and not own:
        raise StackproofError(word.problem("the recipe has no MPI", reason=Reason.INVALID_VALUE))
    component = catalogue.components.get(name)
    if component is None or not component.releases or (name in families.REGISTRY and name != own):
        known = [one for one, what in catalogue.components.items() if what.releases]
        mine = [one for one in known if one not in families.REGISTRY or one == own]
        raise StackproofError(word.unknown((*([MPI] if own else []), *mine)))
    if word.kind is not SwapKind.WITH:
        return _of_file(data, word, component, file or {})
    if name == own:
        return _of_mpi(data, word, catalogue)
    if word.name not in {"", name}:
        message = f"{component.software} has no replacement `{word.name}`"
        hint = f"another release of it is {word.package}=VERSION: {_releases(component)}"
        raise StackproofError(word.problem(message, hint, reason=Reason.INVALID_VALUE))
    version = _version(data, word, component)
    at = "libfabric" if name == LIBFABRIC else "versions"
    wanted = {"version": version} if name == LIBFABRIC else {name: version}
    return RecipeOverlay(data={at: wanted}, depth=Depth.REBUILD, why=_why(component))


def _of_mpi(data: Mapping[str, Any], word: SwapWord, catalogue: Catalogue) -> RecipeOverlay:
    was = data["mpi"]
    name = word.name or was["family"]
    mpis = [one for one in families.REGISTRY if one in catalogue.components]
    if name not in mpis:
        hint = f"{did_you_mean(name, mpis)}there are: {', '.join(mpis)}"
        message = f"EasyBuild's chains have no MPI `{name}`"
        raise StackproofError(word.problem(message, hint, reason=Reason.INVALID_VALUE))
    component = catalogue.components[name]
    version = _version(data, word, component)
    if (name, version) == (was["family"], was.get("version")):
        message = f"the recipe has {component.software} {version} already"
        raise StackproofError(word.problem(message, reason=Reason.INVALID_VALUE))
    same = families.REGISTRY[name].abi == families.REGISTRY[was["family"]].abi
    why = _why(component)
    if same:
        why += "; both have one ABI, so `run --inject` would put it under an image that is there"
    return RecipeOverlay(data={"mpi": {"family": name, "version": version}}, why=why)


def _of_file(
    data: Mapping[str, Any], word: SwapWord, component: Component, file: Mapping[str, str]
) -> RecipeOverlay:
    if word.kind is SwapKind.SOURCE:
        return RecipeOverlay(data={SOURCE_FILES: {component.name: dict(file)}}, why=_why(component))
    there = data.get(PATCHES, {}).get(component.name, [])
    return RecipeOverlay(
        data={PATCHES: {component.name: [*there, dict(file)]}}, why=_why(component)
    )


def _why(component: Component) -> str:
    return (
        f"EasyBuild compiles {component.software} and what needs it; other components are "
        "taken as they were built before"
    )


def _version(data: Mapping[str, Any], word: SwapWord, component: Component) -> str:
    """Return the version that is asked for, else the first that the recipe's sources have."""
    known = [one.version for one in component.releases]
    if word.version is None:
        origins = set(data.get("sources", ("upstream",)))
        had = (
            one.version
            for one in component.releases
            if origins & {source.origin for source in one.sources}
        )
        return next(had, known[0])
    if word.version not in known:
        message = f"{component.software} {word.version} is not known here"
        hint = f"known are: {_releases(component)}"
        raise StackproofError(word.problem(message, hint, reason=Reason.UNKNOWN_VERSION))
    return word.version


def _releases(component: Component) -> str:
    return ", ".join(one.version for one in component.releases)
