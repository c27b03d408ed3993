"""The MPI of an environment and what it reaches the network with, in both forms."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from stackproof.build.engines.spack.stack import SpackStack
from stackproof.build.engines.spack.stackinator.cluster import ClusterConfig
from stackproof.build.engines.spack.stackinator.findings import (
    DocumentPart,
    externals,
    mapping,
    strings,
)
from stackproof.core.errors import Reason, did_you_mean
from stackproof.core.value import Value
from stackproof.mpi import families

# ----------------- What a recipe expects of the machine: packages that are not built must be there

_EXACT = re.compile(r"[\w-]+@=?([\w.-]+)(?![\w.:,=-])")


def externals_of(packages: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return the specs of a package that the machine has.

    A spec of another package below this name is none: Spack never takes it.
    """
    return tuple(spec for spec in _entries(packages, name) if package_of(spec) == name)


def _entries(packages: Mapping[str, Any], name: str) -> tuple[str, ...]:
    specs = (external.get("spec") for external in externals(packages.get(name)))
    return tuple(spec for spec in specs if isinstance(spec, str))


def missing_external(
    spec: str, packages: Mapping[str, Any], cluster: str, where: str = "in a packages.yaml"
) -> tuple[str, str] | None:
    """Return what is wrong and what to do when a spec may not be built and is not there either.

    `where` are the words for where packages are set.
    """
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
        f"{has}; change the spec, or `{name}` {where}",
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


_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")

# Version 1: the MPIs of the language, with the version and options they have when none is named.
# Source: recipe.py (valid_mpi_specs) of Stackinator's branch releases/v5.
_FIRST_MPIS: Mapping[str, tuple[str, str]] = {
    "cray-mpich": ("", ""),
    "mpich": ("4.1", "device=ch4 netmod=ofi +slurm"),
    "mvapich2": ("3.0a", "+xpmem fabrics=ch4ofi ch4_max_vcis=4 process_managers=slurm"),
    "openmpi": (
        "5",
        "+internal-pmix +legacylaunchers +orterunprefix fabrics=cma,ofi,xpmem schedulers=slurm",
    ),
}


class Network(Value):
    """What an environment gets for its MPI: root specs, the provider, what is required of it."""

    specs: tuple[str, ...] = ()
    mpi: str | None = None
    requirement: str | None = None


VENDOR_MPIS = frozenset(
    package for family in families.REGISTRY.values() if family.vendor for package in family.spack
)
"""Packages that Spack's own repository cannot build: a site has them, or nobody."""


def not_stated(spec: str, cluster: ClusterConfig) -> tuple[str, str]:
    """Return what is wrong and what to do where a site does not say that it has a vendor's MPI."""
    name, exact = package_of(spec), _EXACT.match(spec)
    message = f"`{cluster.name}` does not state where it has `{name}`, which nobody can build"
    if cluster.site_file:
        from stackproof.site import missing  # noqa: PLC0415 - slow, and for what is missing

        asking = missing.command(cluster.site_file)
        entry = f'{name}: {{version: "{exact[1] if exact else "VERSION"}", path: DIR}}'
        file = cluster.site_file
        copying = f"mine.yaml, which `stackproof site show {file} --yaml > mine.yaml` makes"
        own = file if file.endswith((".yaml", ".yml", ".json")) else copying
        hint = f"or write `{entry}` below `externals:` of {own}"
        return message, f"`{asking}` on a login node asks the machine; {hint}"
    hint = "name it under `mpi:` of its network.yaml, and its place in its packages.yaml"
    has = f"; else it has: {', '.join(cluster.mpis)}" if cluster.mpis else ""
    return message, f"{hint}{has}"


def unstated_vendors(stack: SpackStack) -> Iterator[tuple[str, str]]:
    """Yield environments and specs of what a site must have: Spack's packages cannot build it."""
    own = {
        path.split("/")[1].replace("_", "-")
        for repository in stack.local_repositories
        for path in repository.files
        if "/" in path
    }
    # Other repositories of packages, as sites have them, may repackage it.
    if own & VENDOR_MPIS or any(one.name != "builtin" for one in stack.package_repositories):
        return
    for environment in stack.environments:
        for spec in sorted(environment.specs):
            name = package_of(spec)
            if name in VENDOR_MPIS and not mapping(stack.packages.get(name)).get("externals"):
                yield environment.name, spec


def package_of(spec: str) -> str:
    """Return the name of the package that a spec begins with, empty when there is none."""
    found = _PACKAGE.match(spec.strip())
    return found[0] if found else ""


def first_network(entry: DocumentPart, mpi: Mapping[str, Any]) -> Network:
    """Return what `mpi:` of version 1 asks for: `spec`, and `gpu` as a variant."""
    spec = (mpi.get("spec") or "").strip()
    if not spec:
        return Network()
    name = package_of(spec)
    if name not in _FIRST_MPIS:
        message = f"`{name or spec}` is no MPI that version 1 of the recipe language knows"
        entry.problem(("spec",), message, f"it knows: {', '.join(_FIRST_MPIS)}")
        return Network()
    version, options = _FIRST_MPIS[name]
    rest = spec.removeprefix(name)
    if not rest.startswith("@") and version:
        rest = f"@{version}{rest}"
    full = f"{name}{rest} {options}".strip()
    if mpi.get("gpu"):
        full = f"{full} +{mpi['gpu']}"
    return Network(specs=(full,), mpi=name, requirement=spec)


def is_there(entry: DocumentPart, spec: str, cluster: ClusterConfig) -> bool:
    """Return whether a cluster has the MPI of a spec; where it has not, that is found."""
    name = package_of(spec)
    if name in cluster.mpis:
        return True
    if name in VENDOR_MPIS:
        entry.problem((), *not_stated(spec, cluster), Reason.SITE_INCOMPLETE)
        return False
    has = f"{did_you_mean(name, cluster.mpis)}it has: {', '.join(cluster.mpis)}"
    hint = has if cluster.mpis else "it has none: name them under `mpi:` of its network.yaml"
    entry.problem((), f"`{name or spec}` is no MPI that `{cluster.name}` has", hint)
    return False


def network(entry: DocumentPart, asked: Mapping[str, Any], cluster: ClusterConfig) -> Network:
    """Return what `network:` asks for; its `specs` take the place of the cluster's defaults."""
    spec, own = (asked.get("mpi") or "").strip(), strings(asked.get("specs"))
    if not spec:
        if own:
            message = "`network: specs` is for an MPI, and `network: mpi` names none"
            hint = "name an MPI, or write them under `specs` of the environment"
            entry.problem(("specs",), message, hint, Reason.MISSING_KEY)
        return Network()
    name = package_of(spec)
    if not is_there(entry.below("mpi"), spec, cluster):
        return Network()
    if asked.get("specs") == []:
        message = f"an empty list stands for the defaults of `{cluster.name}`, not for nothing"
        entry.note(("specs",), message)
    return Network(specs=(spec, *(own or cluster.mpis[name])), mpi=name, requirement=name)
