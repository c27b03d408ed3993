"""What a `spack.lock` says, in every generation: roots, nodes, where each one is installed.

The file is written by Spack (lib/spack/spack/environment/environment.py): `roots` are pairs of
`hash` and `spec`, `concrete_specs` maps a hash to its node. A node has name, version, `arch`,
`parameters` (variants and flags), and its dependencies: `dependencies` with `parameters.deptypes`
and `virtuals` since lock file version 5 (Spack 0.21), where the compiler of Spack before 1.0 is
`compiler: {name, version}` and a dependency of type `build` later.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import field

from stackproof.build.engines.spack.layout import (
    BUILT,
    COMPILERS,
    ENVIRONMENTS,
    REPLACEMENTS,
)
from stackproof.build.engines.spack.stack import SpackEnvironment, SpackLock, SpackStack
from stackproof.build.plan import BUILD
from stackproof.core.errors import Location, Reason, fail
from stackproof.core.value import Value

_FLAGS = frozenset(("cflags", "cppflags", "cxxflags", "fflags", "ldflags", "ldlibs"))
_VERSIONS = range(5, 8)
_UNFIT = re.compile(r"[^A-Za-z0-9_.-]")


class SolvedPackage(Value):
    """One package of a solution.

    `prefix` is where it is or will be installed; `dependencies` are the hashes of what it is
    linked with or needs to run (`linked`) and of what builds it (`built_with`). `compiler` is
    the C compiler, or that of any language, as `name@version`, "" when none compiles it.
    """

    hash: str
    name: str
    version: str
    prefix: str
    target: str
    os: str
    namespace: str = ""
    external: bool = False
    variants: Mapping[str, Any] = field(default_factory=dict)
    linked: tuple[str, ...] = ()
    built_with: tuple[str, ...] = ()
    compiler: str = ""
    virtuals: frozenset[str] = frozenset()
    package_hash: str = ""


def lock_files(stack: SpackStack) -> tuple[str, ...]:
    """Return the paths below the build of the lock files that the stack needs, in order."""
    return tuple(f"{folder}/spack.lock" for folder in folders(stack))


def folders(stack: SpackStack) -> tuple[str, ...]:
    """Return the folders of the stack's Spack environments, compilers that are built first."""
    return (
        *(f"{COMPILERS}/{c.name}" for c in stack.compilers if not c.external),
        *(f for e in stack.environments for f in (*spliced_from(e), f"{ENVIRONMENTS}/{e.name}")),
    )


def spliced_from(environment: SpackEnvironment) -> tuple[str, ...]:
    """Return the folders that a spliced environment is put together of, none for another one."""
    if environment.splice is None:
        return ()
    return f"{BUILT}/{environment.name}", f"{REPLACEMENTS}/{environment.name}"


def nodes(content: Mapping[str, Any], mount: str) -> dict[str, SolvedPackage]:
    """Return the nodes of a lock file's content by hash, in an order that is always the same."""
    raw: Mapping[str, Mapping[str, Any]] = content["concrete_specs"]
    for included in content.get("include_concrete", {}).values():
        raw = {**included.get("concrete_specs", {}), **raw}
    return {
        key: _node(key, node, raw, mount)
        for key, node in sorted(raw.items(), key=lambda item: (item[1]["name"], item[0]))
    }


def roots(content: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the hashes of the root packages, in the order of the specs."""
    return tuple(root["hash"] for root in content["roots"])


def everything(lock: SpackLock, mount: str) -> dict[str, SolvedPackage]:
    """Return every node of every environment of a lock, by hash."""
    found: dict[str, SolvedPackage] = {}
    for _, content in sorted(lock.environments.items()):
        found |= nodes(content, mount)
    return dict(sorted(found.items(), key=lambda item: (item[1].name, item[0])))


def systems(lock: SpackLock) -> tuple[str, ...]:
    """Return the operating systems that a lock's packages are for, as Spack names them, sorted."""
    every = (nodes(content, "/").values() for content in lock.environments.values())
    return tuple(sorted({node.os for found in every for node in found if not node.external}))


def list_values(variant: Any) -> list[str]:
    """Return the values of a variant as Spack writes them in specs."""
    if isinstance(variant, (list, tuple)):
        return [str(value) for value in variant]
    return [str(variant).lower() if isinstance(variant, bool) else str(variant)]


def needed(start: tuple[str, ...], known: Mapping[str, SolvedPackage]) -> Iterator[SolvedPackage]:
    """Return the nodes that `start` is linked with or needs to run, `start` first, each once."""
    seen = set()
    waiting = list(start)
    for key in waiting:  # which grows
        if key in known and key not in seen:
            seen.add(key)
            yield known[key]
            waiting += known[key].linked


def content_of(path: str, data: bytes | None) -> dict[str, Any]:
    """Return the content of one lock file.

    Raises `StackproofError`: GARBAGE_OUTPUT for a file that is missing or is no lock file of Spack,
    UNSUPPORTED.
    """
    where = Location(file=f"{BUILD}/{path}")
    if data is None:
        raise fail(Reason.GARBAGE_OUTPUT, "Spack left no lock file", where=where)
    try:
        content = json.loads(data)
        version = content["_meta"]["lockfile-version"]
        if version not in _VERSIONS:
            raise fail(
                Reason.UNSUPPORTED,
                f"Spack's lock file is of version {version}",
                where=where,
                hint=f"versions {_VERSIONS[0]} to {_VERSIONS[-1]} can be read",
            )
        nodes(content, "/")
        roots(content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise fail(
            Reason.GARBAGE_OUTPUT, f"this is no lock file of Spack: {error!r}", where=where
        ) from None
    return dict(content)


def _node(key: str, node: Mapping[str, Any], raw: Mapping[str, Any], mount: str) -> SolvedPackage:
    arch = node["arch"]
    target = arch["target"]
    outside = node.get("external") or {}
    linked, built_with, virtuals = [], [], set()
    for edge in node.get("dependencies", ()):
        types = set(edge["parameters"]["deptypes"])
        if types & {"link", "run"}:
            linked.append(edge["hash"])
        if "build" in types:
            built_with.append(edge["hash"])
        virtuals.update(edge["parameters"].get("virtuals", ()))
    if "build_spec" in node:  # a spliced package: what it is a relinked copy of
        built_with.append(node["build_spec"]["hash"])
    name, version = node["name"], str(node["version"])
    target = target if isinstance(target, str) else target["name"]
    # As `layout.PROJECTION` has it. Spack writes anything but letters, digits and a few signs as
    # `_` (`Spec.format_path`, lib/spack/spack/spec.py): a version from git may hold a `/`.
    folder = f"{arch['platform']}-{arch['platform_os']}-{target}"
    own = f"{mount}/{folder}/{name}-{_UNFIT.sub('_', version)}-{key}"
    return SolvedPackage(
        hash=key,
        name=name,
        version=version,
        prefix=(outside.get("path") or "") if outside else own,
        target=target,
        os=arch["platform_os"],
        namespace=node.get("namespace", ""),
        external=bool(outside),
        variants={k: v for k, v in node.get("parameters", {}).items() if v or k not in _FLAGS},
        linked=tuple(linked),
        built_with=tuple(built_with),
        compiler=_compiler(node, raw),
        virtuals=frozenset(virtuals),
        package_hash=node.get("package_hash", ""),
    )


def _compiler(node: Mapping[str, Any], raw: Mapping[str, Any]) -> str:
    old = node.get("compiler")
    if old:
        return f"{old['name']}@{old['version']}"
    languages: dict[str, str] = {}
    for edge in node.get("dependencies", ()):
        for virtual in edge["parameters"].get("virtuals", ()):
            if virtual in {"c", "cxx", "fortran"} and edge["hash"] in raw:
                other = raw[edge["hash"]]
                languages[virtual] = f"{other['name']}@{other['version']}"
    return next((languages[key] for key in ("c", "cxx", "fortran") if key in languages), "")
