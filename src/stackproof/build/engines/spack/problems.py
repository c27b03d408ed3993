"""Why a Spack stack cannot be built, whatever it was written as; all reasons at once."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping

from stackproof.build.engines.spack import compilers
from stackproof.build.engines.spack.stack import SpackEnvironment, SpackStack
from stackproof.build.engines.spack.stackinator.cluster import ClusterConfig
from stackproof.build.engines.spack.stackinator.network import VENDOR_MPIS, not_stated
from stackproof.core.errors import Problem, Reason

_GENERATIONS = {1: "Spack 0.23", 2: "Spack 1.0 or 1.1", 3: "Spack 1.2"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")
_RESERVED_VIEWS = ("modules", "spack")
_STAGES = frozenset(("bootstrap", "gcc", "llvm"))
"""Packages of Spack that are only ever found, never built."""
_UPSTREAM = "builtin"
_OPERATIONS = frozenset(("set", "unset", "prepend", "append"))


def problems(stack: SpackStack) -> tuple[Problem, ...]:
    """Return why the stack cannot be built; empty when it can."""
    if stack.generation not in _GENERATIONS:
        text = f"there is no generation {stack.generation} of Spack"
        return (_problem(Reason.UNSUPPORTED, text, _list(_GENERATIONS.values())),)
    return tuple(
        problem
        for part in (_names, _repositories, _compilers, _environments, _vendors, _views, _paths)
        for problem in part(stack)
    )


def _names(stack: SpackStack) -> Iterator[Problem]:
    for kind, names in (
        ("environment", [e.name for e in stack.environments]),
        ("view", [v.name for e in stack.environments for v in e.views]),
        ("package repository", [r.name for r in stack.package_repositories]),
        ("namespace", [r.namespace for r in stack.local_repositories]),
    ):
        for name in dict.fromkeys(names):
            if not _NAME.match(name):
                yield _problem(
                    Reason.INVALID_VALUE,
                    f"`{name}` cannot be the name of a {kind}",
                    "use letters, digits, `_`, `-` and `.`",
                )
            if names.count(name) > 1:
                yield _problem(
                    Reason.DUPLICATE_KEY, f"there are {names.count(name)} {kind}s called `{name}`"
                )


def _repositories(stack: SpackStack) -> Iterator[Problem]:
    if stack.generation > 1 and not stack.package_repositories:
        yield _problem(
            Reason.MISSING_KEY,
            f"{_GENERATIONS[stack.generation]} has no packages of its own",
            "name a repository of packages: https://github.com/spack/spack-packages",
        )
    local = {r.namespace for r in stack.local_repositories}
    for repository in stack.package_repositories:
        if repository.name in {*local, "alps", "recipe"}:
            yield _problem(
                Reason.INVALID_VALUE,
                f"no cloned repository of packages can be called `{repository.name}`",
                "`alps` holds the site's packages and `recipe` the recipe's",
            )


def _compilers(stack: SpackStack) -> Iterator[Problem]:
    known = {compiler.name for compiler in stack.compilers}
    allowed = _STAGES if stack.generation == 1 else compilers.PACKAGES
    for compiler in stack.compilers:
        if compiler.name not in allowed:
            yield _problem(
                Reason.UNSUPPORTED,
                f"`{compiler.name}` is not a compiler that stacks can have",
                _list(sorted(allowed)),
            )
        if compiler.needs is not None and compiler.needs not in known:
            yield _problem(
                Reason.INVALID_VALUE,
                f"compiler `{compiler.name}` is built by `{compiler.needs}`, which is not there",
            )
        if compiler.external and not compilers.outside(stack, compiler.name):
            yield _problem(
                Reason.INVALID_VALUE,
                f"the site has no `{compiler.name}` of its own that could be used",
                "its `packages.yaml` needs an external with `extra_attributes: compilers:`",
            )
        if not compiler.external and not compiler.specs:
            yield _problem(Reason.INVALID_VALUE, f"compiler `{compiler.name}` has no spec")


def _environments(stack: SpackStack) -> Iterator[Problem]:
    if not stack.environments:
        yield _problem(Reason.MISSING_KEY, "the stack has no environment", "add one with specs")
    known = [compiler.name for compiler in stack.compilers]
    for environment in stack.environments:
        if not environment.compilers:
            yield _problem(
                Reason.MISSING_KEY,
                f"environment `{environment.name}` has no compiler",
                _list(known),
            )
        for name in environment.compilers:
            if name not in known:
                yield _problem(
                    Reason.INVALID_VALUE,
                    f"environment `{environment.name}` wants compiler `{name}`, which is not there",
                    _list(known),
                )
        if not environment.specs:
            yield _problem(
                Reason.INVALID_VALUE, f"environment `{environment.name}` has nothing to install"
            )


def _vendors(stack: SpackStack) -> Iterator[Problem]:
    cluster = ClusterConfig(name=stack.site_facts.get("cluster", "the site"))
    for _, name in unstated_vendors(stack):
        message, hint = not_stated(name, cluster)
        yield _problem(Reason.SITE_INCOMPLETE, message, hint)


def unstated_vendors(stack: SpackStack) -> Iterator[tuple[str, str]]:
    """Yield environments and what a site would have to have: Spack's packages cannot build it."""
    own = {
        path.split("/")[1].replace("_", "-")
        for repository in stack.local_repositories
        for path in repository.files
        if "/" in path
    }
    # Other repositories of packages, as sites have them, may repackage it.
    if own & VENDOR_MPIS or any(one.name != _UPSTREAM for one in stack.package_repositories):
        return
    for environment in stack.environments:
        named = {spec.split("@")[0].split()[0] for spec in environment.specs if spec.split()}
        for name in sorted(VENDOR_MPIS & named):
            body = stack.packages.get(name)
            if not (isinstance(body, Mapping) and body.get("externals")):
                yield environment.name, name


def _views(stack: SpackStack) -> Iterator[Problem]:
    views = [(e, v) for e in stack.environments for v in e.views]
    for environment, view in views:
        if view.name in _RESERVED_VIEWS:
            yield _problem(
                Reason.INVALID_VALUE,
                f"no view can be called `{view.name}`: every image may have one",
                f"rename it in environment `{environment.name}`",
            )
        yield from _changes(environment, view.name, [change.op for change in view.changes])
    names = [*(view.name for _, view in views), "spack"]
    if stack.modules is not None:
        names.append("modules")
    if stack.default_view is not None and stack.default_view not in names:
        yield _problem(
            Reason.UNKNOWN_VIEW,
            f"the default view `{stack.default_view}` is not a view of the stack",
            _list(names),
        )


def _changes(environment: SpackEnvironment, view: str, operations: list[str]) -> Iterator[Problem]:
    for operation in operations:
        if operation not in _OPERATIONS:
            yield _problem(
                Reason.INVALID_VALUE,
                f"view `{view}` of environment `{environment.name}` has a change `{operation}`",
                _list(sorted(_OPERATIONS)),
            )


def _paths(stack: SpackStack) -> Iterator[Problem]:
    trees = [
        *(("a package", r.files) for r in stack.local_repositories),
        ("the recipe", stack.recipe_files),
        ("the extra files", stack.extra_files),
        ("a package repository", {r.path: None for r in stack.package_repositories}),
    ]
    for what, tree in trees:
        for path in tree:
            if path.startswith("/") or posixpath.normpath(path).split("/")[0] == "..":
                yield _problem(
                    Reason.INVALID_VALUE, f"path `{path}` of {what} leads out of its folder"
                )


def _problem(reason: Reason, message: str, hint: str = "") -> Problem:
    return Problem(reason=reason, message=message, hint=hint)


def _list(names: object) -> str:
    words = [str(name) for name in names]  # type: ignore[attr-defined]
    return f"there are: {', '.join(words)}" if words else "there is none"
