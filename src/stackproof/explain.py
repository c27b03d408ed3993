"""Which file set a value, and what it took the place of: a recipe, a condition, the site."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stackproof.composition import Node, tree
from stackproof.document import Document
from stackproof.errors import Location, Reason, fail

# What counts where nobody says anything; `*` is any name. Keys are those of our recipes.
_DEFAULTS: Mapping[tuple[str, ...], str] = {
    ("version",): "0",
    ("description",): "(none)",
    ("generation",): "2",
    ("mount",): "/user-environment",
    ("default-view",): "(none)",
    ("target",): "the machine that builds",
    ("cleanup",): "none",
    ("modules",): "no module files",
    ("image", "compression"): "zstd",
    ("image", "level"): "6",
    ("spack", "commit"): "the default branch",
    ("spack", "packages", "commit"): "the default branch",
    ("spack", "packages", "path"): "repos/spack_repo/builtin",
    ("environments", "*", "unify"): "true",
    ("environments", "*", "deprecated"): "false",
    ("environments", "*", "duplicates", "strategy"): "minimal",
    ("environments", "*", "variants"): "(none)",
    ("environments", "*", "prefer"): "the first compiler, in every language",
    ("environments", "*", "packages"): "(none)",
    ("environments", "*", "views"): "(none)",
    ("environments", "*", "network", "mpi"): "no MPI",
    ("environments", "*", "views", "*", "link"): "roots",
    ("environments", "*", "views", "*", "select"): "(everything)",
    ("environments", "*", "views", "*", "exclude"): "(nothing)",
    ("environments", "*", "views", "*", "uenv", "add_compilers"): "true",
}
# Documents of a Stackinator recipe: file -> path below the key of ours that they are.
_DOCUMENTS = {
    "compilers.yaml": ("compilers", ()),
    "environments.yaml": ("environments", ()),
    "packages.yaml": ("packages", ("packages",)),
    "modules.yaml": ("modules", ("modules",)),
}
_RENAMED = {"store": "mount", "version": "generation"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A value with where it was set; `why` is empty where it just stands there.

    `where` is None for what no file says. `before` is what it took the place of, the nearest first.
    """

    key: str
    value: Any
    where: Location | None
    why: str
    before: tuple[Setting, ...] = ()


def recipe_tree(documents: Mapping[str, Document]) -> Node:
    """Return the documents of a Stackinator recipe as one tree, under the keys of our recipes."""
    inner: dict[str, Node] = {}
    config = documents.get("config.yaml")
    if config is not None and isinstance(config.data, dict):
        for name in map(str, config.data):
            inner[_RENAMED.get(name, name)] = tree(config, name)
    for file, (key, path) in _DOCUMENTS.items():
        document = documents.get(file)
        if document is not None and isinstance(document.data, dict):
            inner[key] = tree(document, *path)
    first = next(iter(documents.values()))
    return Node(inner, first.where())


def with_site(root: Node, site: Mapping[str, Document], name: str) -> Node:
    """Return a recipe's tree with what the site says for packages and MPIs below it.

    `site` has `packages.yaml` and `network.yaml` of a cluster configuration, or a site file under
    `site`. A package's entry takes the place of the whole entry before it.
    """
    packages: dict[str, Node] = {}
    mpis: dict[str, Node] = {}
    for file, path in (
        ("packages.yaml", ("packages",)), ("network.yaml", ("packages",)),
        ("site", ("spack", "packages")),
    ):  # fmt: skip
        for key, node in _below(site.get(file), path, f"the site {name}").items():
            packages[key] = dataclasses.replace(node, before=packages.get(key))
    for file, path in (("network.yaml", ("mpi",)), ("site", ("spack", "mpi"))):
        mpis |= _below(site.get(file), path, f"the site {name}, with this MPI")
    own = root.value.get("packages")
    for key, node in (own.value if own is not None else {}).items():
        packages[key] = dataclasses.replace(node, before=node.before or packages.get(key))
    inner = dict(root.value)
    if packages:
        inner["packages"] = Node(packages, own.where if own is not None else root.where)
    environments = inner.get("environments")
    if environments is not None and isinstance(environments.value, dict):
        named = {key: _with_network(node, mpis) for key, node in environments.value.items()}
        inner["environments"] = dataclasses.replace(environments, value=named)
    return dataclasses.replace(root, value=inner)


def _below(document: Document | None, path: tuple[str, ...], why: str) -> dict[str, Node]:
    data = document.data if document is not None else None
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    if document is None or not isinstance(data, dict):
        return {}
    return dict(tree(document, *path, why=why).value)


def _with_network(environment: Node, mpis: Mapping[str, Node]) -> Node:
    """Return an environment with the specs that come with its MPI, where it names none itself."""
    body = environment.value if isinstance(environment.value, dict) else {}
    network = body.get("network")
    if network is None or not isinstance(network.value, dict):
        return environment
    mpi = network.value.get("mpi")
    own = network.value.get("specs")
    if mpi is None or not isinstance(mpi.value, str) or (own is not None and own.value):
        return environment
    words = mpi.value.replace("@", " ").replace("+", " ").replace("~", " ").split()
    found = mpis.get(words[0]) if words else None
    if found is None:
        return environment
    specs = found.value.get("specs") if isinstance(found.value, dict) else found
    if specs is None:
        return environment
    extended = dataclasses.replace(network, value={**network.value, "specs": specs})
    return dataclasses.replace(environment, value={**body, "network": extended})


def explain(root: Node, key: str) -> tuple[Setting, ...]:
    """Return every value under a key (`environments.gcc-env.network`) and where it was set.

    Raises `StackproofError` (USAGE) for a key that is neither set nor has a default, with the
    keys that are there.
    """
    path = tuple(key.split("."))
    node = root
    for depth, part in enumerate(path):
        inner = _child(node, part)
        if inner is None:
            return (_default(node, path, depth),)
        node = inner
    return tuple(_settings(node, key))


def _child(node: Node, part: str) -> Node | None:
    if isinstance(node.value, dict):
        found = node.value.get(part)
        return found if isinstance(found, Node) else None
    if isinstance(node.value, tuple) and part.isdigit() and int(part) < len(node.value):
        found = node.value[int(part)]
        return found if isinstance(found, Node) else None
    return None


def _default(node: Node, path: tuple[str, ...], depth: int) -> Setting:
    for pattern, value in _DEFAULTS.items():
        matches = len(pattern) == len(path) and all(
            want in {"*", have} for want, have in zip(pattern, path, strict=True)
        )
        # Below a name that is not there, such as that of an environment, nothing has a default.
        if matches and "*" not in pattern[depth : len(pattern) - 1]:
            return Setting(key=".".join(path), value=value, where=None, why="the default")
    there = [str(key) for key in node.value] if isinstance(node.value, dict) else []
    close = difflib.get_close_matches(path[depth], there, n=1)
    around = f"`{'.'.join(path[:depth])}`" if depth else "the recipe"
    guess = f"did you mean `{'.'.join((*path[:depth], close[0]))}`? " if close else ""
    raise fail(
        Reason.USAGE,
        f"nothing is set at `{'.'.join(path)}`",
        hint=f"{guess}{around} has: {', '.join(there) or 'no keys'}",
    )


def _settings(node: Node, key: str) -> Iterator[Setting]:
    """Yield the values under a node; a list is one value unless its items are from many places."""
    if isinstance(node.value, dict):
        if not node.value:
            yield _setting(node, key)
        for name, inner in node.value.items():
            shown = dataclasses.replace(inner, before=inner.before or _before(node, name))
            yield from _settings(shown, f"{key}.{name}")
    elif isinstance(node.value, tuple) and _mixed(node):
        for index, item in enumerate(node.value):
            yield from _settings(item, f"{key}.{index}")
    else:
        yield _setting(node, key)


def _before(node: Node, name: str) -> Node | None:
    """Return what stood at a key of the mapping that this one took the place of."""
    if node.before is None or not isinstance(node.before.value, dict):
        return None
    found = node.before.value.get(name)
    return found if isinstance(found, Node) else None


def _mixed(node: Node) -> bool:
    return (
        len({(item.why, item.where.file) for item in node.value} | {(node.why, node.where.file)})
        > 1
    )


def _setting(node: Node, key: str) -> Setting:
    history = []
    older = node.before
    while older is not None:
        history.append(Setting(key=key, value=plain(older), where=older.where, why=older.why))
        older = older.before
    return Setting(
        key=key, value=plain(node), where=node.where, why=node.why, before=tuple(history)
    )


def plain(node: Node) -> Any:
    """Return the data of a node."""
    if isinstance(node.value, dict):
        return {key: plain(value) for key, value in node.value.items()}
    if isinstance(node.value, tuple):
        return [plain(item) for item in node.value]
    return node.value
