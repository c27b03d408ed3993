"""What a recipe expects of the machine: packages that are not built must be there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from stackproof.build.engines.spack.stackinator.cluster import ClusterConfig
from stackproof.build.engines.spack.stackinator.findings import mapping
from stackproof.build.engines.spack.stackinator.network import package_of

_EXACT = re.compile(r"[\w-]+@=?([\w.-]+)(?![\w.:,=-])")


def externals_of(packages: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return the specs of a package that the machine has.

    A spec of another package below this name is none: Spack never takes it.
    """
    return tuple(spec for spec in _entries(packages, name) if package_of(spec) == name)


def _entries(packages: Mapping[str, Any], name: str) -> tuple[str, ...]:
    entries = mapping(packages.get(name)).get("externals")
    specs = (mapping(e).get("spec") for e in (entries if isinstance(entries, list) else ()))
    return tuple(spec for spec in specs if isinstance(spec, str))


def missing_external(
    spec: str, packages: Mapping[str, Any], cluster: str
) -> tuple[str, str] | None:
    """Return what is wrong and what to do when a spec may not be built and is not there either."""
    name = package_of(spec)
    if mapping(packages.get(name)).get("buildable", True) is not False:
        return None
    there = externals_of(packages, name)
    if any(_fits(external, spec) for external in there):
        return None
    has = f"it has {', '.join(there)}" if there else "it has none"
    strangers = [text for text in _entries(packages, name) if package_of(text) != name]
    if strangers:
        has = (
            f"below `{name}` stands `{strangers[0]}`, which Spack never takes for it: move it "
            f"below `{package_of(strangers[0])}`"
        )
    return (
        f"`{spec}` may not be built on `{cluster}`, which does not have it either",
        f"{has}; change the spec, or `{name}` in a packages.yaml",
    )


def _fits(external: str, spec: str) -> bool:
    """Return whether an external can be what a spec asks for, as far as versions tell."""
    asked, has = _EXACT.match(spec), _EXACT.match(external)
    if asked is None or has is None:
        return True
    return f"{has[1]}.".startswith(f"{asked[1]}.")


def site_facts(cluster: ClusterConfig, packages: Mapping[str, Any]) -> dict[str, str]:
    """Return the facts of a cluster that a stack rests on: its name and what it has already."""
    facts = {"cluster": cluster.name}
    for name in sorted(packages):
        specs = externals_of(packages, name)
        if specs:
            facts[f"external.{name}"] = ", ".join(specs)
    return facts
