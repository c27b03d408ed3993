"""Spack's configuration, and its YAML: what belongs to the stack, to the machine, to users."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

import yaml
from msgspec import field

from stackproof.build.engines.spack import compilers, layout
from stackproof.build.engines.spack.stack import (
    Caches,
    Mirror,
    Programs,
    SpackLock,
    SpackStack,
)
from stackproof.build.engines.spack.stackinator.findings import externals
from stackproof.build.plan import BUILD
from stackproof.core.command import Bind, EnvPatch
from stackproof.core.value import Value

SITE_NAMESPACE = "alps"
"""The namespace of the site's packages in a uenv image; the name is Stackinator's."""
_CORES_PER_PACKAGE = 8
# Spack gives up what waits for a lock. The index of all packages is made under one, by whichever
# environment is solved first, and takes minutes; a lock is let go of however its holder ends.
_LOCK_TIMEOUT_S = 3600
_KEYS = "keys"
# Spack's own place for its keyring is in its clone, which nobody can write to.
_GPG = "gpg"
_MIRRORS = "mirrors"
_CONCRETIZATIONS = "concretizations"
_SOURCES = f"{layout.CACHE}/source"


class CacheSettings(Value):
    """What a machine and its user add to a build; no id depends on it.

    `build_files` are below `plan.BUILD`, `binds` lead into the sandbox, `environment` is for
    every command. With `network` the installation needs the network too: packages come from a
    cache that is not a folder of this machine.
    """

    build_files: Mapping[str, str]
    binds: tuple[Bind, ...] = ()
    environment: EnvPatch = field(default_factory=EnvPatch)
    network: bool = False


def files(stack: SpackStack) -> dict[str, str]:
    """Return the configuration of the stack, by path below the build."""
    found = {
        f"{layout.CONFIG}/config.yaml": render(_config(stack)),
        f"{layout.CONFIG}/concretizer.yaml": render(_concretizer(stack)),
        f"{layout.CONFIG}/packages.yaml": render({"packages": stack.packages}),
        f"{layout.CONFIG}/repos.yaml": repos_yaml(stack),
    }
    if stack.generation == 1 and stack.compilers_yaml:
        found[f"{layout.CONFIG}/compilers.yaml"] = render({"compilers": stack.compilers_yaml})
    return found


def module_files(stack: SpackStack) -> dict[str, str]:
    """Return the configuration of the modules, by path below the build; empty without modules."""
    if stack.modules is None:
        return {}
    default = dict(stack.modules.get("default") or {})
    kinds = module_kinds(stack)
    default |= {
        "roots": dict.fromkeys(kinds, f"{stack.mount}/modules"),
        "enable": list(kinds),
        "arch_folder": False,
    }
    modules = {**stack.modules, "default": default}
    return {f"{layout.MODULES}/modules.yaml": render({"modules": modules})}


def module_kinds(stack: SpackStack) -> tuple[str, ...]:
    """Return the kinds of modules (`tcl`, `lmod`): with a root, else enabled, else tcl."""
    if stack.modules is None:
        return ()
    default = stack.modules.get("default") or {}
    return tuple(default.get("roots") or default.get("enable") or ("tcl",))


def repos_yaml(stack: SpackStack) -> str:
    """Return `repos.yaml`: where packages are looked for, the recipe's own first.

    Spack before 1.0 brings its packages itself and takes a list of folders.
    """
    root = f"{stack.mount}/{layout.REPOSITORIES}"
    folders = {name: f"{root}/{name}" for name in repository_names(stack)}
    return render({"repos": list(folders.values()) if stack.generation == 1 else folders})


def repository_names(stack: SpackStack) -> tuple[str, ...]:
    """Return the names of the package repositories in the image, in order of precedence.

    There is always one of the site's namespace, if only an empty one: tools look for it.
    """
    local = {repository.namespace for repository in stack.local_repositories}
    first = [r.namespace for r in stack.local_repositories if r.namespace != SITE_NAMESPACE]
    assert SITE_NAMESPACE not in {r.name for r in stack.package_repositories} or local  # noqa: S101 - `problems` refuses it
    return (*first, SITE_NAMESPACE, *(r.name for r in stack.package_repositories))


def user_files(stack: SpackStack, lock: SpackLock) -> dict[str, str]:
    """Return the configuration in the image, by path below the store.

    It makes the image an upstream: users build on top of it with the stack's compilers.
    """
    every = tuple(
        one for compiler in stack.compilers for one in compilers.programs(stack, lock, compiler)
    )
    found = {
        "config/upstreams.yaml": render({"upstreams": {"system": {"install_tree": stack.mount}}}),
        "config/repos.yaml": repos_yaml(stack),
    }
    if stack.generation == 1:
        ours = tuple(one for one in every if one.ours)
        found["config/compilers.yaml"] = render(
            {"compilers": compilers.as_compilers(ours, stack.architecture)}
        )
        found["config/packages.yaml"] = render({"packages": stack.packages})
        return found
    found["config/packages.yaml"] = render({"packages": _user_packages(stack, every)})
    return found


def cache_settings(stack: SpackStack, caches: Caches, *, jobs: int | None = None) -> CacheSettings:
    """Return what a user's caches, and a machine of `jobs` cores, add to the build of a stack."""
    content: dict[str, Any] = {f"{layout.LOCAL}/config.yaml": _local_config(stack, jobs)}
    binds: list[Bind] = []
    if caches.source_cache:
        binds.append(Bind(source=caches.source_cache, target=f"{BUILD}/{_SOURCES}", writable=True))
    if caches.concretizer_cache and stack.generation > 1:
        target = f"{BUILD}/{_CONCRETIZATIONS}"
        binds.append(Bind(source=caches.concretizer_cache, target=target, writable=True))
        content[f"{layout.LOCAL}/concretizer.yaml"] = {
            "concretizer": {"concretization_cache": {"enable": True, "url": target}}
        }
    mirrors, more = _mirrors(caches)
    if mirrors:
        content[f"{layout.LOCAL}/mirrors.yaml"] = {"mirrors": mirrors}
    binds += more
    for mirror in caches.mirrors:
        if mirror.kind == "bootstrap":
            content[f"{layout.LOCAL}/bootstrap.yaml"], more = _bootstrap(mirror)
            binds += more
    keys = key_files(caches)
    binds += [Bind(source=path, target=target) for path, target in keys.items()]
    return CacheSettings(
        build_files={path: render(data) for path, data in content.items()},
        binds=tuple(binds),
        environment=EnvPatch(set={"SPACK_GNUPGHOME": f"{BUILD}/{_GPG}"}),
        network=any(m.kind == "buildcache" and not _folder(_url(m)) for m in caches.mirrors),
    )


def key_files(caches: Caches) -> dict[str, str]:
    """Return where each GPG key of this machine is in the sandbox, the private one first."""
    unique = dict.fromkeys(path for path in (caches.private_key, *caches.public_keys) if path)
    return {path: f"{BUILD}/{_KEYS}/{number}.gpg" for number, path in enumerate(unique)}


def _config(stack: SpackStack) -> dict[str, Any]:
    return {
        "config": {
            "install_tree": {"root": stack.mount, "projections": {"all": layout.PROJECTION}},
            "build_stage": [layout.STAGE],
            "test_stage": f"{BUILD}/test",
            "source_cache": f"{BUILD}/{_SOURCES}",
            "misc_cache": f"{BUILD}/{layout.CACHE}/misc",
            "install_hash_length": 32,
            "db_lock_timeout": 120,
            "url_fetch_method": "urllib",
        }
    }


def external_prefixes(stack: SpackStack) -> tuple[str, ...]:
    """Return the folders outside of /usr with software that the stack does not build."""
    prefixes = {
        posixpath.normpath(str(external["prefix"]))
        for body in stack.packages.values()
        for external in externals(body)
        if str(external.get("prefix", "")).startswith("/")
    }
    return tuple(sorted(prefix for prefix in prefixes if not f"{prefix}/".startswith("/usr/")))


def _concretizer(stack: SpackStack) -> dict[str, Any]:
    """Return the site's settings of the concretizer, without what would make it look around.

    Nothing is taken from what happens to be installed or cached, so that the same recipe gives
    the same solution everywhere.
    """
    return {"concretizer": {**stack.concretizer, "reuse": False}}


def _user_packages(stack: SpackStack, every: tuple[Programs, ...]) -> dict[str, Any]:
    """Return what users of the image see: the stack's compilers, not what built them."""
    section = {key: value for key, value in stack.packages.items() if key != "gcc"}
    for name, entry in compilers.as_externals(every).items():
        section[name] = {**(section.get(name) or {}), **entry}
    return section


def _local_config(stack: SpackStack, jobs: int | None) -> dict[str, Any]:
    config: dict[str, Any] = {}
    if jobs:
        config["build_jobs"] = jobs
        config["db_lock_timeout"] = _LOCK_TIMEOUT_S
    if jobs and stack.generation > 1:
        config["concurrent_packages"] = max(1, jobs // _CORES_PER_PACKAGE)
    return {"config": config}


def _mirrors(caches: Caches) -> tuple[dict[str, Any], list[Bind]]:
    section: dict[str, Any] = {}
    binds = []
    for mirror in caches.mirrors:
        if mirror.kind == "bootstrap":
            continue
        settings = dict(mirror.settings)
        for key in ("url", "fetch", "push"):
            if key not in settings:
                continue
            value = settings[key]
            address = value["url"] if isinstance(value, Mapping) else value
            folder = _folder(str(address))
            if folder is None:
                continue
            inside = f"{BUILD}/{_MIRRORS}/{mirror.name}" + (f"-{key}" if key != "url" else "")
            writable = key != "fetch" and mirror.kind == "buildcache"
            binds.append(Bind(source=folder, target=inside, writable=writable))
            new = f"file://{inside}"
            settings[key] = {**value, "url": new} if isinstance(value, Mapping) else new
        section[mirror.name] = settings
    return section, binds


def _bootstrap(mirror: Mirror) -> tuple[dict[str, Any], list[Bind]]:
    """Return where Spack finds its own tools: folders of a mirror that `spack bootstrap` made."""
    folder = _folder(base := _url(mirror))
    binds = []
    if folder is not None:
        base = f"{BUILD}/{_MIRRORS}/{mirror.name}"
        binds = [Bind(source=folder, target=base)]
    sources = [
        {"name": f"{mirror.name}-{kind}", "metadata": f"{base}/metadata/{kind}"}
        for kind in ("binaries", "sources")
    ]
    trusted = {source["name"]: True for source in sources}
    return {"bootstrap": {"sources": sources, "trusted": trusted}}, binds


def _url(mirror: Mirror) -> str:
    for key in ("url", "fetch"):
        value = mirror.settings.get(key)
        if value:
            return str(value["url"] if isinstance(value, Mapping) else value)
    return ""


def _folder(url: str) -> str | None:
    """Return the folder of this machine that an address names, None for one elsewhere."""
    if url.startswith("file://"):
        return url.removeprefix("file://")
    return url if url.startswith("/") else None


_WIDTH = 1000  # one spec, one line: Spack's messages then name the line of the spec


def render(data: Any) -> str:
    """Return data as block-style YAML with its own order of keys.

    A text that YAML would take for something else (`true`, `1.10`) is quoted.
    """
    return yaml.safe_dump(
        plain(data), sort_keys=False, default_flow_style=False, width=_WIDTH, allow_unicode=True
    )


def plain(data: Any) -> Any:
    """Return data as dictionaries and lists without sharing, so that YAML needs no anchors."""
    if isinstance(data, dict) or hasattr(data, "items"):
        return {key: plain(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [plain(value) for value in data]
    return data
