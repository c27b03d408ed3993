"""Words that swap a package of a recipe for Spack: its MPI, or the release of a package."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from stackproof.build.engines.spack import mpis
from stackproof.build.engines.spack.recipe import generation_of
from stackproof.build.engines.spack.stackinator.findings import mapping
from stackproof.build.engines.spack.stackinator.network import package_of
from stackproof.build.swap import MPI, Depth, RecipeOverlay, SwapKind, SwapWord
from stackproof.core.document import Document
from stackproof.core.errors import Problem, Reason, StackproofError, did_you_mean
from stackproof.mpi import families

_VERSION = re.compile(r"@=?[A-Za-z0-9][A-Za-z0-9._:,=-]*")
_INSIDE = re.compile(r"\^\s*([A-Za-z0-9][A-Za-z0-9_-]*)")


def swap(document: Document, word: SwapWord) -> RecipeOverlay:
    """See `Swapper`; that a version is there, Spack says when it makes the lock."""
    if word.kind is not SwapKind.WITH:
        what = "from another source" if word.kind is SwapKind.SOURCE else "with a patch"
        hint = "give the package a recipe of its own in `spack: packages:`, or take EasyBuild"
        raise StackproofError(word.problem(f"the Spack engine builds nothing {what} yet", hint))
    data = mapping(document.data.get("environments"))
    if word.package == MPI:
        return _mpi(document, data, word)
    if any(package_of(name) != name for name in (word.package, word.name)):
        raise StackproofError(word.problem("this is no name of a package of Spack"))
    if word.name in {"", word.package}:
        found = _released(data, word)
        if found:
            return RecipeOverlay(data={"environments": found}, why=_why(word.package))
    wanted = f"{word.name or word.package}{f'@{word.version}' if word.version else ''}"
    return RecipeOverlay(
        data={"packages": {word.package: {"require": [wanted]}}},
        depth=Depth.REBUILD,
        why=_why(word.package),
    )


def _why(name: str) -> str:
    return f"Spack builds {name} and what needs it; what has the same hash comes from its caches"


def _mpi(document: Document, environments: Mapping[str, Any], word: SwapWord) -> RecipeOverlay:
    """Return another MPI for every environment that has one."""
    known = (*families.REGISTRY, *mpis.OTHERS)
    if word.name and word.name not in known and did_you_mean(word.name, known):
        hint = f"{did_you_mean(word.name, known)}there are: {', '.join(known)}"
        message = f"there is no MPI `{word.name}`"
        raise StackproofError(word.problem(message, hint, reason=Reason.INVALID_VALUE))
    rebuilt: dict[str, Any] = {}
    spliced: dict[str, str] = {}
    olds: set[str] = set()
    problems: list[Problem] = []
    obstacles: list[str] = []
    for name, body in environments.items():
        at, spec = _mpi_of(body)
        if not spec:
            continue
        old = package_of(spec)
        olds.add(old)
        new = mpis.PACKAGES.get(word.name, word.name) or old
        if (new, word.version) == (old, _version_of(spec)):
            message = f"environment `{name}` has `{spec}` already"
            raise StackproofError(word.problem(message, reason=Reason.INVALID_VALUE))
        wanted = f"@{word.version}" if word.version else ""
        text = _VERSION.sub("", spec, count=1) if new == old else new
        spliced[name] = f"{new}{wanted}{text[len(new) :]}"
        rebuilt[name] = {at: {"mpi" if at == "network" else "spec": spliced[name]}}
        if new != old:
            problems += _conflicts(document, name, body, old, word)
        obstacles.append(_no_splice(document, mpis.release(spec), f"{new}{wanted}"))
    if not olds:
        problems.append(word.problem("no environment has an MPI", reason=Reason.INVALID_VALUE))
    if problems:
        raise StackproofError(*problems)
    named = ", ".join(sorted(olds))
    if not any(obstacles):
        other = mpis.release(next(iter(spliced.values())))
        why = f"Spack links what {named} compiled with {other}, as both have one ABI"
        return RecipeOverlay(data={"splice": spliced}, depth=Depth.SPLICE, why=why)
    reason = next(filter(None, obstacles))
    return RecipeOverlay(
        data={"environments": rebuilt},
        depth=Depth.REBUILD,
        why=f"{reason}: {_why(word.name or named)}",
    )


def _no_splice(document: Document, old: str, new: str) -> str:
    commit = mapping(document.data.get("spack")).get("commit")
    return mpis.no_splice(generation_of(document.data), commit, old, new)


def _mpi_of(body: Any) -> tuple[str, str]:
    """Return the key of an environment that names its MPI, and the spec; empty without one."""
    for key, inner in (("network", "mpi"), ("mpi", "spec")):
        spec = mapping(mapping(body).get(key)).get(inner)
        if isinstance(spec, str):
            return key, spec.strip()
    return "", ""


def _conflicts(
    document: Document, name: str, body: Mapping[str, Any], old: str, word: SwapWord
) -> Iterator[Problem]:
    """Yield specs of an environment that are about the MPI that goes."""
    for at, specs in _spec_lists(body):
        for index, spec in enumerate(specs):
            if isinstance(spec, str) and old in {package_of(spec), *_INSIDE.findall(spec)}:
                yield document.problem(
                    ("environments", name, *at, index),
                    f"`{spec}` is about the MPI that `{word.text}` takes out",
                    "leave it out where another MPI is asked for, for example by a matrix",
                )


def _released(environments: Mapping[str, Any], word: SwapWord) -> dict[str, Any]:
    """Return the lists of specs that name a package, with another version of it."""
    found: dict[str, Any] = {}
    for name, body in environments.items():
        for at, specs in _spec_lists(body):
            changed = [
                _with_version(spec, word.version or "")
                if isinstance(spec, str) and package_of(spec) == word.package
                else spec
                for spec in specs
            ]
            if changed != specs:
                inner: dict[str, Any] = found.setdefault(name, {})
                for key in at[:-1]:
                    inner = inner.setdefault(key, {})
                inner[at[-1]] = changed
    return found


def _spec_lists(body: Any) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    network = mapping(mapping(body).get("network"))
    for at, there in ((("specs",), mapping(body)), (("network", "specs"), network)):
        if isinstance(there.get("specs"), list):
            yield at, there["specs"]


def _with_version(spec: str, version: str) -> str:
    name = package_of(spec)
    rest = _VERSION.sub("", spec.strip()[len(name) :], count=1)
    return f"{name}{f'@{version}' if version else ''}{rest}"


def _version_of(spec: str) -> str:
    match = _VERSION.match(spec[len(package_of(spec)) :])
    return match[0].lstrip("@=") if match else ""
