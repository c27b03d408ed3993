"""A recipe's folder and a cluster's configuration to a Spack stack."""

from __future__ import annotations

from typing import Any

from stackproof.build.engines.spack.stack import FileEntry, SpackEnvironment, SpackStack
from stackproof.build.engines.spack.stackinator.cluster import ClusterConfig
from stackproof.build.engines.spack.stackinator.compilers import read_compilers
from stackproof.build.engines.spack.stackinator.config import Config
from stackproof.build.engines.spack.stackinator.environments import Offer, read_environments
from stackproof.build.engines.spack.stackinator.externals import site_facts
from stackproof.build.engines.spack.stackinator.findings import FindingsList
from stackproof.build.engines.spack.stackinator.folder import Folder
from stackproof.build.engines.spack.stackinator.hooks import read_hook
from stackproof.build.engines.spack.stackinator.modules import read_modules
from stackproof.build.engines.spack.stackinator.repositories import local_repositories
from stackproof.core.errors import Location, Reason

# Documents and hooks of a recipe; everything else is only copied.
DOCUMENTS = (
    "config.yaml",
    "compilers.yaml",
    "environments.yaml",
    "modules.yaml",
    "packages.yaml",
    "mirrors.yaml",
)
HOOKS = ("pre-install", "post-install")


def read_recipe(
    folder: Folder,
    config: Config,
    cluster: ClusterConfig,
    architecture: str,
    findings: FindingsList,
) -> SpackStack:
    """Return the stack that a recipe means on a cluster.

    `config` is what `read_config` returned for the folder; `architecture` is as `uname -m` gives
    it. Problems go to `findings`: with any of them the stack is not to be used.
    """
    compilers = read_compilers(folder, config.language, findings)
    packages = cluster.merged_packages(_packages(folder, findings))
    offer = Offer(compilers=compilers, cluster=cluster, packages=packages)
    environments = read_environments(folder, config, offer, findings)
    modules = read_modules(folder, config, findings)
    generation = config.language.version
    if generation == 1 and "mirrors.yaml" in folder.texts:
        findings.problem(
            Reason.UNSUPPORTED,
            "a recipe has no mirrors: they belong to whoever builds",
            where=Location(file=folder.place("mirrors.yaml")),
            hint="name the file on the command line (`--mirror`)",
        )
    _check_default_view(config, environments, modules, findings)
    return SpackStack(
        name=config.name,
        generation=generation,
        mount=config.mount,
        spack=config.spack,
        architecture=architecture,
        description=config.description,
        default_view=config.default_view,
        package_repositories=config.repositories,
        local_repositories=local_repositories(
            folder, dict(cluster.repository), generation, findings
        ),
        compilers=compilers or (),
        environments=environments,
        packages=packages,
        compilers_yaml=cluster.compilers if generation == 1 else (),
        concretizer=cluster.concretizer if generation == 1 else {},
        modules=modules,
        cleanup=config.cleanup,
        pre_install=read_hook(folder, "pre-install", config.mount, findings),
        post_install=read_hook(folder, "post-install", config.mount, findings),
        recipe_files=_sorted(dict(folder.files)),
        extra_files=_sorted(folder.below("extra")),
        site_facts=site_facts(cluster, packages),
        source=f"Stackinator recipe, version {generation}",
    )


def _sorted(files: dict[str, FileEntry]) -> dict[str, FileEntry]:
    return {path: files[path] for path in sorted(files)}


def _packages(folder: Folder, findings: FindingsList) -> dict[str, Any]:
    """Return the recipe's own `packages:`."""
    document = findings.parse(folder, "packages.yaml")
    if document is None or not findings.check(document, "stackinator-packages"):
        return {}
    packages: dict[str, Any] = document.data["packages"]
    return packages


def _check_default_view(
    config: Config,
    environments: tuple[SpackEnvironment, ...],
    modules: dict[str, Any] | None,
    findings: FindingsList,
) -> None:
    """Find out whether the default view is one of the recipe's or of every image's."""
    if config.default_view is None:
        return
    names = [view.name for environment in environments for view in environment.views]
    names += [*(["modules"] if modules is not None else []), "spack"]
    if environments and config.default_view not in names:
        findings.problem(
            Reason.UNKNOWN_VIEW,
            f"the default view `{config.default_view}` is no view of this recipe",
            where=config.default_view_at,
            hint=f"it has: {', '.join(names)}",
        )
