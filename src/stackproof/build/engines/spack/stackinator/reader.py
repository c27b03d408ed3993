"""A recipe's folder and a cluster's configuration to a Spack stack."""

from __future__ import annotations

from typing import Any

from stackproof.build.engines.spack.stack import FileEntry, SpackEnvironment, SpackStack
from stackproof.build.engines.spack.stackinator.cluster import ClusterConfig
from stackproof.build.engines.spack.stackinator.compilers import read_compilers
from stackproof.build.engines.spack.stackinator.config import Config
from stackproof.build.engines.spack.stackinator.environments import Offer, read_environments
from stackproof.build.engines.spack.stackinator.externals import site_facts
from stackproof.build.engines.spack.stackinator.findings import FindingsList, mapping
from stackproof.build.engines.spack.stackinator.folder import Folder
from stackproof.build.engines.spack.stackinator.hooks import read_hook
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
    _check_reframe(folder, findings)
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


REFRAME = "extra/reframe.yaml"
"""What tests by ReFrame read; the image has it as `build.features.REFRAME`."""


def _sorted(files: dict[str, FileEntry]) -> dict[str, FileEntry]:
    return {path: files[path] for path in sorted(files)}


def _check_reframe(folder: Folder, findings: FindingsList) -> None:
    """Find out whether the recipe's own file for ReFrame can be read by those who use it."""
    document = findings.parse(folder, REFRAME)
    if document is None:
        return
    whole = document.data if isinstance(document.data, dict) else {"": None}
    for name, environment in whole.items():
        if not isinstance(environment, dict):
            findings.problem(
                Reason.WRONG_TYPE,
                "an environment for ReFrame is a mapping",
                where=document.where(name),
                hint="write `NAME: {features: [mpi], cc: mpicc, views: [default]}`, or leave the "
                "file out: it is made then",
            )


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


_MODULES = "modules.yaml"


def read_modules(folder: Folder, config: Config, findings: FindingsList) -> dict[str, Any] | None:
    """Return `modules:` for Spack, None when no module files are made.

    They always lie in `<mount>/modules`, whatever the file says. Since version 2 the file decides;
    in version 1 `modules: false` does, and Spack's own settings hold where there is no file.
    """
    there = _MODULES in folder.texts
    document = findings.parse(folder, _MODULES)
    if document is not None and not findings.check(document, "stackinator-modules"):
        document = None
    if config.language.version == 1:
        if config.modules is False:
            return None
        if not there:
            return {"default": {"roots": {"tcl": f"{config.mount}/modules"}}}
    else:
        _check_agreement(config, there, findings)
    if document is None:
        return None
    modules: dict[str, Any] = document.data["modules"]
    default = mapping(modules.get("default"))
    kinds = list(mapping(default.get("roots"))) or default.get("enable") or ["tcl"]
    if config.language.version == 1:
        kinds = ["tcl"]
    elif mapping(default.get("roots")):
        findings.note(
            f"modules are always made in `{config.mount}/modules`: the paths of `roots` have no "
            "effect",
            where=document.where("modules", "default", "roots"),
        )
    roots = dict.fromkeys(kinds, f"{config.mount}/modules")
    fixed = {**default, "roots": roots}
    if config.language.version > 1:
        fixed["arch_folder"] = False
    return {**modules, "default": fixed}


def _check_agreement(config: Config, there: bool, findings: FindingsList) -> None:  # noqa: FBT001 - a fact
    """Compare the old `modules:` of config.yaml with the presence of modules.yaml."""
    if config.modules is None:
        return
    if config.modules == there:
        findings.note(
            "`modules` is not needed: the presence of modules.yaml decides",
            where=config.modules_at,
        )
        return
    message = (
        "`modules: true` asks for module files, and there is no modules.yaml"
        if config.modules
        else "`modules: false` forbids module files, and there is a modules.yaml"
    )
    hint = "remove `modules`: the presence of modules.yaml decides"
    if config.language.version == 2:
        findings.problem(Reason.INVALID_VALUE, message, where=config.modules_at, hint=hint)
    else:
        findings.note(f"{message}: the file decides", where=config.modules_at, hint=hint)
