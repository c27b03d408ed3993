"""The metadata of an image built by Spack: the uenv contract, and what this project adds to it.

`meta/env.json.in` is written by the plan, `meta/env.json` by the worker: the same with what each
view changes (stackinator/etc/envvars.py writes them, src/uenv/meta.cpp of uenv2 reads them).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from stackproof import __version__
from stackproof.build import bom, tail, transport_views
from stackproof.build.engines.spack import compilers, locks
from stackproof.build.engines.spack.layout import ENVIRONMENTS, REPLACEMENTS
from stackproof.build.engines.spack.locks import SolvedPackage
from stackproof.build.engines.spack.mpis import FAMILIES
from stackproof.build.engines.spack.stack import (
    GitSource,
    SpackEnvironment,
    SpackLock,
    SpackStack,
)
from stackproof.core import ids, noun
from stackproof.image.model import MpiFacts
from stackproof.mpi import families
from stackproof.mpi.transports.profile import libfabric_of

_GPUS = {"cuda": "cuda", "hip": "rocm"}
"""The packages by which it shows for which GPUs an environment is."""


def files(stack: SpackStack, lock: SpackLock, programs: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata by path below the store; `programs` are benchmarks by name."""
    found = {
        "meta/env.json.in": _json(env_json(stack, lock, programs)),
        "meta/configure.json": _json(configure_json(stack, lock)),
        "meta/stack.json": noun.to_json(stack),
        "meta/lock.json": noun.to_json(lock),
    }
    if tail.REFRAME.removeprefix("meta/extra/") not in stack.extra_files:
        found[tail.REFRAME] = tail.reframe_yaml(*_of_views(stack, lock))
    for folder, content in lock.environments.items():
        found[f"meta/spack.lock/{folder}.json"] = _json(content)
    return found


def env_json(stack: SpackStack, lock: SpackLock, programs: Mapping[str, str]) -> dict[str, Any]:
    """Return `meta/env.json` as far as it is known before anything is installed."""
    has, _ = _of_views(stack, lock)
    views: dict[str, Any] = {
        view.name: _view(
            f"{stack.mount}/env/{view.name}",
            view.description,
            type="spack-view",
            features=list(has[view.name]),
        )
        for environment in stack.environments
        for view in environment.views
    }
    if stack.modules is not None:
        lists = {"MODULEPATH": [{"op": "prepend", "value": [f"{stack.mount}/modules"]}]}
        env = _env(lists, {})
        views["modules"] = _view(f"{stack.mount}/modules", "activate modules", "/dev/null", env=env)
    env = _env({}, _spack_variables(stack, lock))
    description = "configure spack upstream"
    views["spack"] = _view(f"{stack.mount}/config", description, "/dev/null", env=env)
    changes = transports_of(stack, lock).required()
    for name, change in changes.items():
        views[name] = _view(
            f"{stack.mount}/env/{name}",
            transport_views.description(name),
            type="augment",
            # The worker puts it on top of what this view changes, which is not known before.
            on=stack.default_view,
            set=dict(sorted(change.set.items())),
        )
    data: dict[str, Any] = {
        "name": stack.name,
        "description": stack.description,
        "mount": stack.mount,
        "default-view": stack.default_view,
        "modules": {"root": f"{stack.mount}/modules"} if stack.modules is not None else None,
        "views": dict(sorted(views.items())),
    }
    facts = mpi_facts(stack, lock)
    if facts:
        data["mpi"] = noun.to_data(facts)
    data["stackproof"] = {
        "stack": ids.content_id(noun.to_data(stack)),
        "lock": tail.lock_digest(lock),
        "benchmarks": dict(programs),
        "architecture": stack.architecture,
    }
    if changes:
        data["stackproof"]["transports"] = list(changes)
    return data


def _of_views(
    stack: SpackStack, lock: SpackLock
) -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """Return by view its features, with the packages that were asked for, and its compilers."""
    features_by_view: dict[str, tuple[str, ...]] = {}
    compilers_by_view: dict[str, tuple[str, ...]] = {}
    for environment in stack.environments:
        content = lock.environments[f"{ENVIRONMENTS}/{environment.name}"]
        nodes = locks.nodes(content, stack.mount)
        roots = locks.roots(content)
        packages = {node.name for node in locks.needed(roots, nodes)}
        gpu = next((name for package, name in _GPUS.items() if package in packages), "")
        names = {nodes[root].name for root in roots}
        facts = _facts(_mpi_node(stack, lock, environment))
        for view in environment.views:
            more = {*names, *environment.compilers, *([gpu] if gpu else [])}
            features_by_view[view.name] = tail.of_mpi(facts, more=more)
            compilers_by_view[view.name] = compilers.list_programs(environment.compilers[0])
    return features_by_view, compilers_by_view


def render_bom(stack: SpackStack, lock: SpackLock) -> str:
    """Return the bill of materials.

    Every package of the lock is a component with its version, Spack hash, variants, target and
    compiler; what only built others is of scope `excluded`, what the machine brings is marked as
    external. Licences are not in Spack's lock: `build/engines/spack/effects/worker.py` adds those
    that the packages state. Spack and the package repositories are there as the commits that were
    used.
    """
    known = locks.everything(lock, stack.mount)
    roots = tuple(key for c in lock.environments.values() for key in locks.roots(c))
    parts = (*_packages(known, roots), *_repositories(lock))
    needs = [_ref(known[key]) for key in roots]
    return bom.render(stack, lock, parts, needs=needs, facts=stack.site_facts)


def _packages(
    known: Mapping[str, SolvedPackage], roots: tuple[str, ...]
) -> Iterator[bom.BillEntry]:
    running = {node.hash for node in locks.needed(roots, known)}
    for key, node in known.items():
        needs = (*node.linked, *node.built_with)
        yield bom.BillEntry(
            name=node.name,
            version=node.version,
            ref=_ref(node),
            scope="required" if key in running else "excluded",
            properties={key: value for key, value in _properties(node).items() if value},
            needs=tuple(_ref(known[other]) for other in needs if other in known),
        )


def _ref(node: SolvedPackage) -> str:
    return f"spack:{node.name}@{node.version}/{node.hash}"


def _properties(node: SolvedPackage) -> dict[str, str]:
    return {
        "spack:hash": node.hash,
        "spack:namespace": node.namespace,
        "spack:package-hash": node.package_hash,
        "spack:target": f"{node.os}-{node.target}",
        "spack:compiler": node.compiler,
        "spack:external": node.prefix if node.external else "",
        **{
            f"spack:variant:{key}": ",".join(locks.list_values(value))
            for key, value in node.variants.items()
        },
    }


def _repositories(lock: SpackLock) -> Iterator[bom.BillEntry]:
    for clone in lock.clones:
        yield bom.BillEntry(
            name=clone.name,
            version=clone.commit,
            ref=f"git:{clone.name}@{clone.commit}",
            kind="application",
            scope="excluded",
            clone=clone.url,
        )


def transports_of(stack: SpackStack, lock: SpackLock) -> transport_views.TransportViews:
    """Return the changes by views of the recipe's transports, and those that cannot be views."""
    own = (view.name for environment in stack.environments for view in environment.views)
    libfabric = libfabric_of(render_bom(stack, lock) if stack.transports else "")
    taken = ("modules", "spack", *own)
    return transport_views.transport_views(stack, mpi_facts(stack, lock), libfabric, taken=taken)


def configure_json(stack: SpackStack, lock: SpackLock) -> dict[str, Any]:
    """Return `meta/configure.json`: what was asked for and where, without the time of it."""
    clones = {clone.name: clone for clone in lock.clones}
    return {
        "mount": stack.mount,
        "cluster": stack.site_facts.get("cluster"),
        "host": {"machine": stack.architecture},
        "site": dict(sorted(stack.site_facts.items())),
        "stackproof": {"version": __version__},
        "engine": stack.engine,
        "source": stack.source,
        "notes": list(stack.notes),
        "spack": {
            "repo": stack.spack.url,
            "ref": stack.spack.commit,
            "commit": clones["spack"].commit,
            "packages": {
                r.name: {
                    "repo": r.source.url,
                    "ref": r.source.commit,
                    "commit": clones[r.name].commit,
                    "path": r.path,
                }
                for r in stack.package_repositories
            },
        },
    }


def mpi_facts(stack: SpackStack, lock: SpackLock) -> MpiFacts | None:
    """Return what the image says about its MPI: that of its default view, else the first one."""
    for environment in _default_first(stack):
        facts = _facts(_mpi_node(stack, lock, environment))
        if facts:
            return facts
    return None


def _facts(node: SolvedPackage | None) -> MpiFacts | None:
    if node is None:
        return None
    family = FAMILIES[node.name]
    launcher = families.REGISTRY[family].launcher
    return MpiFacts(family=family, version=node.version, prefix=node.prefix, launcher=launcher)


def _default_first(stack: SpackStack) -> list[SpackEnvironment]:
    def is_other(environment: SpackEnvironment) -> bool:
        return stack.default_view not in {view.name for view in environment.views}

    return sorted(stack.environments, key=is_other)


def _mpi_node(
    stack: SpackStack, lock: SpackLock, environment: SpackEnvironment
) -> SolvedPackage | None:
    place = REPLACEMENTS if environment.splice else ENVIRONMENTS
    content = lock.environments[f"{place}/{environment.name}"]
    known = locks.nodes(content, stack.mount)
    wanted = {environment.mpi} if environment.mpi else set(FAMILIES)
    reachable = locks.needed(locks.roots(content), known)
    return next((n for n in reachable if n.name in wanted and n.name in FAMILIES), None)


def _spack_variables(stack: SpackStack, lock: SpackLock) -> dict[str, str]:
    commits = {clone.name: clone.commit for clone in lock.clones}
    found = {
        "UENV_SPACK_CONFIG_PATH": f"{stack.mount}/config",
        **_source_variables("UENV_SPACK", stack.spack, commits["spack"]),
    }
    for repository in stack.package_repositories:
        name = repository.name.upper().replace("-", "_")
        commit = commits[repository.name]
        found |= _source_variables(f"UENV_PACKAGE_REPO_{name}", repository.source, commit)
        if repository.name == "builtin":
            found |= _source_variables("UENV_SPACK_PACKAGES", repository.source, commit)
    if stack.package_repositories:
        found["UENV_PACKAGE_REPOS"] = ",".join(r.name for r in stack.package_repositories)
    return found


def _source_variables(prefix: str, source: GitSource, commit: str) -> dict[str, str]:
    return {
        f"{prefix}_URL": source.url,
        f"{prefix}_REF": source.commit or commit,
        f"{prefix}_COMMIT": commit,
    }


def _view(root: str, description: str, activate: str = "", **more: Any) -> dict[str, Any]:
    script = activate or f"{root}/activate.sh"
    return {"root": root, "activate": script, "description": description, **more}


def _env(lists: Mapping[str, Any], scalars: Mapping[str, str]) -> dict[str, Any]:
    values = {"list": lists, "scalar": dict(sorted(scalars.items()))}
    return {"version": 1, "type": "augment", "values": values}


def _json(data: Any) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"
