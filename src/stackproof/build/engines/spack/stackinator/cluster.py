"""A cluster's configuration: what Spack does not build there, its MPIs, and its own packages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import field

from stackproof.build.engines.spack.stack import LocalRepository
from stackproof.build.engines.spack.stackinator.findings import (
    FindingsList,
    Folder,
    externals,
    mapping,
    strings,
)
from stackproof.build.plan import Copy
from stackproof.core.errors import Location, Reason
from stackproof.core.value import Value

# ---------------------- Packages that travel with a recipe or a site, and whether they hide others

RECIPE = "recipe"
SITE = "alps"


def packages_of(folder: Folder, prefix: str = "") -> dict[str, Copy]:
    """Return the files of the packages in a repository's folder, by `<package>/<path>`.

    A file that lies beside the folders of packages belongs to none, and is left out, as what
    Python leaves behind is.
    """
    return {
        path: entry
        for path, entry in folder.below(f"{prefix}packages").items()
        if "/" in path and "__pycache__" not in path.split("/") and not path.endswith(".pyc")
    }


def local_repositories(
    recipe: Folder, site: dict[str, Copy], generation: int, findings: FindingsList
) -> tuple[LocalRepository, ...]:
    """Return the repositories of recipe and site, the one that counts most first.

    Spack up to 0.23 gets them as one, as Stackinator made it then: a package of the recipe takes
    the place of the site's.
    """
    own = packages_of(recipe, "repo/")
    for name in sorted({path.partition("/")[0] for path in own}):
        if f"{name}/package.py" not in own:
            findings.note(
                f"`{name}` has no package.py: it is no package",
                where=Location(file=recipe.place(f"repo/packages/{name}")),
            )
    if generation == 1:
        names = {path.partition("/")[0] for path in own}
        rest = {p: entry for p, entry in site.items() if p.partition("/")[0] not in names}
        named = {SITE: {**own, **rest}}
    else:
        named = {RECIPE: own, SITE: site}
    return tuple(
        LocalRepository(
            namespace=namespace,
            files={f"packages/{path}": files[path] for path in sorted(files)},
        )
        for namespace, files in named.items()
        if files
    )


def shadowed(local_names: Iterable[str], builtin_names: Iterable[str]) -> tuple[str, ...]:
    """Return the packages of a recipe or site that hide one of the same name, sorted.

    Spack's folders have `_` where package names have `-`, and `_` in front of a digit; both
    spellings are one name here.
    """
    known = {_canonical(name) for name in builtin_names}
    return tuple(sorted({name for name in local_names if _canonical(name) in known}))


def package_names(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the folders that are packages, sorted, of the files of a repository."""
    parts = (path.split("/") for path in paths)
    return tuple(sorted({p[1] for p in parts if len(p) == 3 and p[2] == "package.py"}))


def _canonical(name: str) -> str:
    plain = name.replace("_", "-").lower()
    return plain.removeprefix("-") if plain[1:2].isdigit() else plain


# What a cluster's folder may hold that is read.
DOCUMENTS = (
    "packages.yaml",
    "network.yaml",
    "repos.yaml",
    "compilers.yaml",
    "concretizer.yaml",
    "mirrors.yaml",
)


class ClusterConfig(Value):
    """What a cluster offers to Spack.

    `packages` are of its packages.yaml, `network_packages` of its network.yaml, each by package
    name in Spack's form; `mpis` maps the MPIs to the specs that are installed with each.
    `repositories` are the site's own packages: files by their path below `packages/`, the folders
    that count most first and merged. `compilers` and `concretizer` are for Spack up to 0.23.
    `site_file` is the site that this is of, by its file or its name, empty for a cluster's folder.
    """

    name: str
    site_file: str = ""
    packages: Mapping[str, Any] = field(default_factory=dict)
    network_packages: Mapping[str, Any] = field(default_factory=dict)
    mpis: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    repository: Mapping[str, Copy] = field(default_factory=dict)
    compilers: tuple[Mapping[str, Any], ...] = ()
    concretizer: Mapping[str, Any] = field(default_factory=dict)

    def merged_packages(self, recipe: Mapping[str, Any]) -> dict[str, Any]:
        """Return `packages:` for Spack: a recipe's entry replaces the cluster's whole entry."""
        return {**self.packages, **self.network_packages, **recipe}


def repository_paths(folder: Folder, findings: FindingsList) -> tuple[tuple[str, Location], ...]:
    """Return the folders that `repos.yaml` names, relative to the cluster's, and their places."""
    document = findings.read(folder, "repos.yaml", "stackinator-repos")
    if document is None:
        return ()
    return tuple(
        (path, document.where("repos", index)) for index, path in enumerate(document.data["repos"])
    )


def read_cluster(
    folder: Folder,
    repositories: tuple[Folder, ...],
    generation: int,
    findings: FindingsList,
) -> ClusterConfig:
    """Return a cluster's configuration from its folder and those that `repos.yaml` names."""
    if "mirrors.yaml" in folder.texts:
        findings.problem(
            Reason.UNSUPPORTED,
            "a cluster's configuration has no mirrors: the person who builds names them",
            where=Location(file=folder.place("mirrors.yaml")),
            hint="name the file on the command line (`--mirror`)",
        )
    packages = _packages(folder, generation, findings)
    merged: dict[str, Copy] = {}
    for repository in repositories:
        found = packages_of(repository)
        known = {path.partition("/")[0] for path in merged}
        merged |= {p: entry for p, entry in found.items() if p.partition("/")[0] not in known}
    network = findings.read(folder, "network.yaml", "stackinator-network")
    data = mapping(network.data) if network else {}
    compilers = concretizer = None
    if generation == 1:
        if not folder.has("compilers.yaml"):
            findings.note(
                "the cluster has no compilers.yaml: Spack looks for compilers itself",
                where=Location(file=folder.path),
                hint="version 1 of the recipe language is for clusters that have one",
            )
        compilers = findings.read(folder, "compilers.yaml", "stackinator-site-compilers")
        concretizer = findings.read(folder, "concretizer.yaml", "stackinator-concretizer")
    return ClusterConfig(
        name=folder.path.rstrip("/").rpartition("/")[2] or folder.path,
        packages=packages,
        network_packages=mapping(data.get("packages")),
        mpis={
            name: strings(mapping(body).get("specs"))
            for name, body in mapping(data.get("mpi")).items()
        },
        repository=merged,
        compilers=tuple(compilers.data["compilers"]) if compilers else (),
        concretizer=concretizer.data["concretizer"] if concretizer else {},
    )


def _packages(folder: Folder, generation: int, findings: FindingsList) -> dict[str, Any]:
    """Return the packages of a cluster; since Spack 1.0 its gcc is among them."""
    document = findings.read(
        folder,
        "packages.yaml",
        "stackinator-packages",
        needed_by="a cluster's configuration" if generation > 1 else "",
        hint="a site that is a folder has packages.yaml, network.yaml and repos.yaml; "
        "`stackproof site spack-config -o FOLDER` writes them for this machine",
    )
    if document is None:
        return {}
    packages: dict[str, Any] = document.data["packages"]
    fault = _fault_of_gcc(mapping(packages.get("gcc"))) if generation > 1 else ""
    if fault:
        hint = (
            "add an external of gcc with its `extra_attributes: compilers:`, as "
            "`stackproof site spack-config` writes it"
        )
        where = document.where("packages", "gcc")
        findings.problem(Reason.MISSING_KEY, fault, where=where, hint=hint)
    return packages


def _fault_of_gcc(gcc: Mapping[str, Any]) -> str:
    """Return what a cluster does not say of its gcc and of the paths of its programs."""
    if not gcc:
        return "the cluster does not say which gcc it has"
    for external in externals(gcc):
        compilers = mapping(mapping(external.get("extra_attributes")).get("compilers"))
        if {"c", "cxx"} <= compilers.keys():
            return ""
    return "the cluster's gcc has no external that names its `c` and `cxx` programs"
