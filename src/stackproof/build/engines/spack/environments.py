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

from collections.abc import Mapping
from typing import Any

from stackproof.build.engines.spack import compilers
from stackproof.build.engines.spack.configuration import render
from stackproof.build.engines.spack.layout import compiler_folder, environment_folder
from stackproof.build.engines.spack.stack import Compiler, SpackEnvironment, SpackStack, SpackView
from stackproof.build.plan import BUILD

FOUND = "found"
"""The folder of an environment where Spack writes the packages that it finds on the machine."""


def spack_yaml(stack: SpackStack, folder: str, *, views: bool = False) -> str:
    """Return the `spack.yaml` of one of the stack's folders (`locks.folders`).

    With `views` it has the environment's views. They are left out until everything is installed:
    each `spack install` would make them anew, and several may run at once.
    """
    for compiler in compilers.built(stack):
        if compiler_folder(compiler.name) == folder:
            return render({"spack": _compiler(stack, compiler)})
    environment = next(e for e in stack.environments if environment_folder(e.name) == folder)
    data = _environment(stack, environment)
    if views and environment.views:
        data["view"] = {view.name: _view(stack, view) for view in environment.views}
    return render({"spack": data})


def find_external(stack: SpackStack, folder: str) -> tuple[str, ...]:
    """Return the packages that Spack is to search on the machine for a folder's environment."""
    for compiler in compilers.built(stack):
        if compiler_folder(compiler.name) == folder:
            return compiler.find_external
    environment = next(e for e in stack.environments if environment_folder(e.name) == folder)
    return environment.find_external


def needed_folders(stack: SpackStack, folder: str) -> tuple[str, ...]:
    """Return the folders of the compilers whose locks this folder's solution depends on."""
    return tuple(compiler_folder(c.name) for c in _builders(stack, folder) if not c.external)


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
    for compiler in compilers.built(stack):
        if compiler_folder(compiler.name) == folder:
            return (compiler.needs_spec,) if compiler.needs_spec else ()
    return next(
        e.compiler_specs for e in stack.environments if environment_folder(e.name) == folder
    )


def _builders(stack: SpackStack, folder: str) -> tuple[Compiler, ...]:
    for compiler in compilers.built(stack):
        if compiler_folder(compiler.name) == folder:
            return (compilers.named(stack, compiler.needs),) if compiler.needs else ()
    environment = next(e for e in stack.environments if environment_folder(e.name) == folder)
    if stack.generation == 1:
        return tuple(compilers.named(stack, name) for name in environment.compilers)
    return compilers.behind(stack, environment)


def _compiler(stack: SpackStack, compiler: Compiler) -> dict[str, Any]:
    folder = compiler_folder(compiler.name)
    unify: bool | str = True if stack.generation == 1 and not compiler.needs else "when_possible"
    data = _includes(stack, folder)
    data["specs"] = list(compiler.specs)
    data["view"] = False
    data["concretizer"] = {"unify": unify, "reuse": _reuse(stack, folder)}
    packages: dict[str, Any] = {}
    if compiler.needs_spec and stack.generation == 1:
        packages["all"] = {"compiler": [compiler.needs_spec]}
    for name, variants in (
        (_package(compiler), compiler.variants), *sorted(compiler.package_variants.items()),
    ):  # fmt: skip
        if variants:
            packages.setdefault(name, {})["variants"] = list(variants)
    _pin(stack, folder, packages)
    if packages:
        data["packages"] = packages
    return data


def _package(compiler: Compiler) -> str:
    """Return the package of a compiler; generation 1 calls its first stage `bootstrap`."""
    return "gcc" if compiler.name == "bootstrap" else compiler.name


def _environment(stack: SpackStack, environment: SpackEnvironment) -> dict[str, Any]:
    folder = environment_folder(environment.name)
    data = _includes(stack, folder)
    data["specs"] = list(environment.specs)
    data["view"] = False
    data["config"] = {"deprecated": environment.deprecated}
    concretizer: dict[str, Any] = {
        "unify": {"true": True, "false": False}.get(environment.unify, environment.unify),
        "reuse": _reuse(stack, folder),
    }
    if stack.generation > 1:
        concretizer["duplicates"] = {"strategy": environment.duplicates}
    data["concretizer"] = concretizer
    every: dict[str, Any] = {}
    if environment.compiler_specs:
        every["compiler"] = list(environment.compiler_specs)
    if environment.require_one_of:
        every["require"] = [{"one_of": list(environment.require_one_of)}]
    if environment.prefer:
        every["prefer"] = list(environment.prefer)
    if environment.variants:
        every["variants"] = list(environment.variants)
    packages: dict[str, Any] = {"all": every} if every else {}
    requirement = environment.mpi_requirement or environment.mpi
    if requirement:
        packages["mpi"] = {"require": requirement}
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
    """Return where solved packages may be taken from: the compilers of this stack, nothing else."""
    needed = needed_folders(stack, folder)
    if stack.generation == 1 or not needed:
        return False
    sources: list[dict[str, Any]] = [
        {
            "type": "environment",
            "path": f"{BUILD}/{name}",
            "include": [name.rpartition("/")[2]],
        }
        for name in needed
    ]
    return {"from": [*sources, {"type": "external"}]}


def _pin(stack: SpackStack, folder: str, packages: dict[str, Any]) -> None:
    """Require the version of gcc that the stack builds, so that the site's own is not taken."""
    if stack.generation == 1:
        return
    for compiler in _builders(stack, folder):
        if compiler.name == "gcc" and not compiler.external:
            version = _version(compiler)
            if version:
                packages.setdefault("gcc", {})["require"] = [version]


def _version(compiler: Compiler) -> str:
    """Return `@…` of a compiler's first spec, "" without one."""
    _, at, rest = compiler.specs[0].partition("@")
    end = next((i for i, sign in enumerate(rest) if sign in " +~%^/-" or sign.isspace()), len(rest))
    return f"@{rest[:end]}" if at else ""


def _view(stack: SpackStack, view: SpackView) -> dict[str, Any]:
    data: dict[str, Any] = {"root": f"{stack.mount}/env/{view.name}", "link": view.link}
    if view.select:
        data["select"] = list(view.select)
    if view.exclude:
        data["exclude"] = list(view.exclude)
    if view.projections:
        data["projections"] = dict(view.projections)
    return data
