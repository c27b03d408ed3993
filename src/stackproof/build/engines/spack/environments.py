"""The `spack.yaml` of every compiler and environment of a stack.

One method serves all generations: a Spack environment for each compiler that is built and one for
each environment of the recipe. What a compiler is for later environments is said differently:

- Spack 1.0 and newer (generations 2 and 3) takes it from the other environment's lock file
  (`concretizer:reuse:from`, lib/spack/spack/solver/reuse.py), installed or not. Only the compiler
  itself is taken, so that packages are built with it, and none with what built it. The spec
  groups of Spack 1.2 mean the same with `needs`.
- Spack 0.23 (generation 1) knows compilers by `compilers.yaml`, which stands beside `spack.yaml`
  once the compiler's lock tells its prefix.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from stackproof.build.engines.spack import compilers, layout, locks
from stackproof.build.engines.spack.configuration import render
from stackproof.build.engines.spack.stack import (
    Compiler,
    SpackEnvironment,
    SpackStack,
    SpackView,
    Splice,
)
from stackproof.build.engines.spack.stackinator.network import package_of
from stackproof.build.plan import BUILD
from stackproof.core.value import replace

FOUND = "found"
"""The folder of an environment where Spack writes the packages that it finds on the machine."""


def spack_yaml(
    stack: SpackStack,
    folder: str,
    contents: Mapping[str, Any] | None = None,
    *,
    views: bool = False,
) -> str:
    """Return the `spack.yaml` of one of the stack's folders (`locks.folders`).

    `contents` are the lock files' contents by folder, as far as they are known: a splice names its
    replacement by its hash. With `views` it has the environment's views. They are left out until
    everything is installed: each `spack install` would make them again, and several
    may run at once.
    """
    environment = _of_folder(stack, folder)
    if isinstance(environment, Compiler):
        return render({"spack": _compiler(stack, environment, folder)})
    data = _environment(stack, environment, folder)
    if environment.splice and contents:
        _splice(data, environment.name, environment.splice, contents)
    if views and environment.views:
        data["view"] = {view.name: _view(stack, view) for view in environment.views}
    return render({"spack": data})


def _spliced(stack: SpackStack, folder: str, contents: Mapping[str, Any]) -> dict[str, str]:
    """Return the `spack.yaml` of a folder by its path, where lock files make it another one."""
    text = spack_yaml(stack, folder, contents)
    return {f"{folder}/spack.yaml": text} if text != spack_yaml(stack, folder) else {}


def solved_files(stack: SpackStack, folder: str, contents: Mapping[str, Any]) -> dict[str, str]:
    """Return the files that a folder needs besides lock files, where some of these are there."""
    files = _spliced(stack, folder, contents)
    if find_external(stack, folder):
        # Once the lock names them itself nothing stands for the packages found on the machine.
        files[f"{folder}/{FOUND}/packages.yaml"] = render({"packages": {}})
    text = compilers_yaml(stack, folder, contents)
    if text is not None:
        files[f"{folder}/compilers.yaml"] = text
    return files


def find_external(stack: SpackStack, folder: str) -> tuple[str, ...]:
    """Return the packages that Spack is to search on the machine for a folder's environment."""
    return _of_folder(stack, folder).find_external


def needed_folders(stack: SpackStack, folder: str) -> tuple[str, ...]:
    """Return the folders of the compilers whose locks this folder's solution depends on."""
    return tuple(f"{layout.COMPILERS}/{c.name}" for c in _builders(stack, folder) if not c.external)


def compilers_yaml(stack: SpackStack, folder: str, contents: Mapping[str, Any]) -> str | None:
    """Return the `compilers.yaml` beside a folder's `spack.yaml`, None where there is none.

    `contents` are the lock files' contents of at least `needed_folders`. Generation 1 only.
    """
    needed = needed_folders(stack, folder)
    if stack.generation != 1 or not needed:
        return None
    found = tuple(one for name in needed for one in compilers.from_content(stack, contents[name]))
    found = compilers.matching(found, _compiler_specs(stack, folder))
    return render({"compilers": compilers.as_compilers(found, stack.architecture)})


def _compiler_specs(stack: SpackStack, folder: str) -> tuple[str, ...]:
    """Return which compilers of the needed stages a folder wants; all of them without any."""
    part = _of_folder(stack, folder)
    if isinstance(part, Compiler):
        return (part.needs_spec,) if part.needs_spec else ()
    return part.compiler_specs


def _builders(stack: SpackStack, folder: str) -> tuple[Compiler, ...]:
    part = _of_folder(stack, folder)
    if isinstance(part, Compiler):
        return (compilers.named(stack, part.needs),) if part.needs else ()
    if stack.generation == 1:
        return tuple(compilers.named(stack, name) for name in part.compilers)
    return compilers.behind(stack, part)


def _compiler(stack: SpackStack, compiler: Compiler, folder: str) -> dict[str, Any]:
    unify: bool | str = True if stack.generation == 1 and not compiler.needs else "when_possible"
    data = _includes(stack, folder)
    data["specs"] = list(compiler.specs)
    data["view"] = False
    data["concretizer"] = {"unify": unify, "reuse": _reuse(stack, folder)}
    packages: dict[str, Any] = {}
    if compiler.needs_spec and stack.generation == 1:
        packages["all"] = {"compiler": [compiler.needs_spec]}
    # Generation 1 calls its first stage `bootstrap`.
    own = "gcc" if compiler.name == "bootstrap" else compiler.name
    for name, variants in ((own, compiler.variants), *sorted(compiler.package_variants.items())):
        if variants:
            packages.setdefault(name, {})["variants"] = list(variants)
    _pin(stack, folder, packages)
    if packages:
        data["packages"] = packages
    return data


def _of_folder(stack: SpackStack, folder: str) -> Compiler | SpackEnvironment:
    """Return the compiler or the environment that is solved in a folder.

    Of one that is spliced there are the environment as it would be without, and the MPI alone.
    """
    for compiler in stack.compilers:
        if not compiler.external and f"{layout.COMPILERS}/{compiler.name}" == folder:
            return compiler
    for environment in stack.environments:
        name, splice = environment.name, environment.splice
        if folder == f"{layout.ENVIRONMENTS}/{name}":
            return environment
        if splice and folder == f"{layout.BUILT}/{name}":
            specs = (*environment.specs, *splice.built_with)
            return replace(environment, specs=specs, mpi=splice.mpi, splice=None, views=())
        if splice and folder == f"{layout.REPLACEMENTS}/{name}":
            return replace(environment, specs=splice.specs, splice=None, views=())
    raise ValueError(f"{folder} is no folder of the stack")


def _splice(data: dict[str, Any], name: str, splice: Splice, contents: Mapping[str, Any]) -> None:
    """Add what makes Spack exchange the MPI of a solution, where both solutions are known.

    The replacement is named by its hash, which Spack looks for in environments that are included
    as they were solved. Sources: https://spack.readthedocs.io/en/latest/build_settings.html
    (splicing), https://spack.readthedocs.io/en/latest/environments.html (include_concrete).
    """
    folder = f"{layout.REPLACEMENTS}/{name}"
    if folder not in contents:
        return
    known = locks.nodes(contents[folder], "/")
    mpi = package_of(splice.specs[0])
    chosen = next(key for key in locks.roots(contents[folder]) if known[key].name == mpi)
    data["include_concrete"] = [f"{BUILD}/{folder}"]
    # Without `transitive`, what both MPIs need stays what the programs were compiled with.
    explicit = {"target": "mpi", "replacement": f"{mpi}/{chosen}", "transitive": False}
    data["concretizer"]["splice"] = {"explicit": [explicit]}


def _environment(stack: SpackStack, environment: SpackEnvironment, folder: str) -> dict[str, Any]:
    data = _includes(stack, folder)
    data["specs"] = list(environment.specs)
    data["view"] = False
    data["config"] = {"deprecated": environment.deprecated}
    unify = {"true": True, "false": False}.get(environment.unify, environment.unify)
    data["concretizer"] = {"unify": unify, "reuse": _reuse(stack, folder)}
    if stack.generation > 1:
        data["concretizer"]["duplicates"] = {"strategy": environment.duplicates}
    one_of = list(environment.require_one_of)
    every = {
        "compiler": list(environment.compiler_specs),
        "require": [{"one_of": one_of}] if one_of else [],
        "prefer": list(environment.prefer),
        "variants": list(environment.variants),
    }
    every = {key: wishes for key, wishes in every.items() if wishes}
    packages: dict[str, Any] = {"all": every} if every else {}
    splice = environment.splice
    requirement = list(splice.built_with) if splice else environment.mpi_requirement
    if requirement or environment.mpi:
        packages["mpi"] = {"require": requirement or environment.mpi}
    _pin(stack, folder, packages)
    if packages:
        data["packages"] = packages
    return data


def _includes(stack: SpackStack, folder: str) -> dict[str, Any]:
    files = [f"{FOUND}/packages.yaml"] if find_external(stack, folder) else []
    if stack.generation == 1 and needed_folders(stack, folder):
        files.append("compilers.yaml")
    return {"include": files} if files else {}


def _reuse(stack: SpackStack, folder: str) -> Any:
    """Return where solved packages may be taken from: the compilers of this stack, nothing else.

    For what is spliced also the solution that it is built as: only its MPI is to be another one.
    """
    needed = needed_folders(stack, folder)
    built = [
        f"{layout.BUILT}/{e.name}"
        for e in stack.environments
        if e.splice and f"{layout.ENVIRONMENTS}/{e.name}" == folder
    ]
    if stack.generation == 1 or not (needed or built):
        return False
    sources: list[dict[str, Any]] = [
        {"type": "environment", "path": f"{BUILD}/{name}"} for name in (*needed, *built)
    ]
    for source, name in zip(sources, needed, strict=False):
        source["include"] = [name.rpartition("/")[2]]
    return {"from": [*sources, {"type": "external"}]}


def _pin(stack: SpackStack, folder: str, packages: dict[str, Any]) -> None:
    """Require the version of gcc that the stack builds, so that the site's own is not taken."""
    if stack.generation == 1:
        return
    for compiler in _builders(stack, folder):
        if compiler.name == "gcc" and not compiler.external:
            version = re.search(r"@[^\s+~%^/-]*", compiler.specs[0])
            if version:
                packages.setdefault("gcc", {})["require"] = [version[0]]


def _view(stack: SpackStack, view: SpackView) -> dict[str, Any]:
    data: dict[str, Any] = {"root": f"{stack.mount}/env/{view.name}", "link": view.link}
    more = {"select": view.select, "exclude": view.exclude, "projections": view.projections}
    return data | {key: choice for key, choice in more.items() if choice}
