"""Which file set a value, and what it took the place of: a recipe, a condition, the site.

Keys are those of our recipes, for every format; `facts` holds what conditions may ask for.
"""

from __future__ import annotations

import difflib
import json
import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from stackproof.core.document import Document
from stackproof.core.errors import Location, Reason, fail
from stackproof.core.value import Value, replace
from stackproof.mpi.families.cray_mpich import CRAY_MPICH
from stackproof.recipe.composition import PlacedValue, tree
from stackproof.recipe.conditions import FACTS

# What counts where nobody says anything; `*` is any name. Keys are those of our recipes.
_Defaults = Mapping[tuple[str, ...], str]
_WHEEL: _Defaults = {
    ("version",): "0",
    ("description",): "(none)",
    ("engine",): "auto",
    ("mount",): "/user-environment",
    ("mpi", "version"): "the newest",
    ("transports",): "shm, tcp",
    ("packages",): "(none)",
    ("views",): "one view `default` that makes the MPI ready to use",
    ("default-view",): "default, where there is such a view",
    ("benchmarks",): "stackproof-bench",
    ("image", "compression"): "zstd",
    ("image", "level"): "6",
}
_SPACK: _Defaults = {
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
_REPLACED = "removed: the whole entry was replaced"
_GIVEN = "--fact on the command line"
# Where a site's documents show a fact: document and path, the best first; `*` is the first name.
_FACTS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "site": (("site", "name"),),
    "architecture": (
        ("site", "partitions", "*", "architecture"),
        ("packages.yaml", "packages", "all"),
    ),
    "microarchitecture": (
        ("site", "partitions", "*", "microarchitecture"),
        ("packages.yaml", "packages", "all"),
    ),
    "gpu": (("site", "partitions", "*", "gpu"), ("network.yaml", "mpi")),
    "gpu-architecture": (("site", "partitions", "*", "gpu"),),
    "fabric": (
        ("site", "fabric", "type"),
        ("network.yaml", "packages", "libcxi"),
        ("packages.yaml", "packages", "libcxi"),
        ("network.yaml", "packages", "cxi-driver"),
        ("packages.yaml", "packages", "cxi-driver"),
        ("network.yaml", "mpi", CRAY_MPICH.name),
        ("packages.yaml", "packages", CRAY_MPICH.name),
    ),
    "vendor-mpi": (
        ("site", "vendor-mpi", "family"),
        ("network.yaml", "mpi", CRAY_MPICH.name),
        ("packages.yaml", "packages", CRAY_MPICH.name),
    ),
}


class ValueOrigin(Value):
    """A value with where it was set; `why` is empty where it just stands there.

    `where` is None for what no file says. `before` is what it took the place of, the nearest first.
    """

    key: str
    value: Any
    where: Location | None
    why: str
    before: tuple[ValueOrigin, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield what people read of it: the value, where it is from, and all that it replaced."""
        yield f"{self.key}: {self.shown()}"
        yield f"    {self.place()}"
        for older in self.before:
            yield f"    instead of {older.shown()}"
            yield f"        {older.place()}"

    def shown(self) -> str:
        """Return a value on one line; a default is words, all else is what YAML would hold."""
        if self.where is None:
            return str(self.value)
        return json.dumps(self.value, ensure_ascii=False)

    def place(self) -> str:
        """Return where it was set, and why it counts."""
        place = str(self.where) if self.where else "set nowhere"
        return f"{place}  {self.why}".rstrip()


def recipe_tree(documents: Mapping[str, Document]) -> PlacedValue:
    """Return the documents of a Stackinator recipe as one tree, under the keys of our recipes."""
    inner: dict[str, PlacedValue] = {}
    config = documents.get("config.yaml")
    if config is not None and isinstance(config.data, dict):
        for name in map(str, config.data):
            inner[_RENAMED.get(name, name)] = tree(config, name)
    for file, (key, path) in _DOCUMENTS.items():
        document = documents.get(file)
        if document is not None and isinstance(document.data, dict):
            inner[key] = tree(document, *path)
    first = next(iter(documents.values()))
    return PlacedValue(inner, first.where())


def with_site(root: PlacedValue, site: Mapping[str, Document], name: str) -> PlacedValue:
    """Return a recipe's tree with what the site says for packages and MPIs below it.

    `site` has `packages.yaml` and `network.yaml` of a cluster configuration, or a site file under
    `site`. A package's entry takes the place of the whole entry before it.
    """
    packages: dict[str, PlacedValue] = {}
    mpis: dict[str, PlacedValue] = {}
    for file, path in (
        ("packages.yaml", ("packages",)), ("network.yaml", ("packages",)),
        ("site", ("spack", "packages")),
    ):  # fmt: skip
        for key, node in _below(site.get(file), path, f"the site {name}").items():
            packages[key] = replace(node, before=packages.get(key))
    for file, path in (("network.yaml", ("mpi",)), ("site", ("spack", "mpi"))):
        mpis |= _below(site.get(file), path, f"the site {name}, with this MPI")
    own = root.value.get("packages")
    for key, node in (own.value if own is not None and not own.gone else {}).items():
        packages[key] = replace(node, before=node.before or packages.get(key))
    inner = dict(root.value)
    if packages:
        inner["packages"] = PlacedValue(packages, own.where if own is not None else root.where)
    environments = inner.get("environments")
    if environments is not None and isinstance(environments.value, dict):
        named = {key: _with_network(node, mpis) for key, node in environments.value.items()}
        inner["environments"] = replace(environments, value=named)
    return replace(root, value=inner)


def _below(document: Document | None, path: tuple[str, ...], why: str) -> dict[str, PlacedValue]:
    data = document.data if document is not None else None
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    if document is None or not isinstance(data, dict):
        return {}
    return dict(tree(document, *path, why=why).value)


def _with_network(environment: PlacedValue, mpis: Mapping[str, PlacedValue]) -> PlacedValue:
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
    extended = replace(network, value={**network.value, "specs": specs})
    return replace(environment, value={**body, "network": extended})


def with_facts(
    root: PlacedValue,
    facts: Mapping[str, str],
    given: Mapping[str, str],
    site: Mapping[str, Document],
) -> PlacedValue:
    """Return a recipe's tree with the facts of the site under `facts`.

    `given` are those of the command line, which count most; `site` is as for `with_site`. A fact
    that no document shows is one of this machine.
    """
    inner = {name: PlacedValue(value, _place_of_fact(name, site)) for name, value in facts.items()}
    for name, value in given.items():
        command = Location(file="the command line")
        inner[name] = PlacedValue(value, command, why=_GIVEN, before=inner.get(name))
    return replace(root, value={**root.value, "facts": PlacedValue(inner, root.where)})


def _place_of_fact(name: str, site: Mapping[str, Document]) -> Location:
    """Return where a site's documents show a fact; a cluster configuration's name is its folder."""
    if name == "site" and site and "site" not in site:
        folder = posixpath.dirname(next(iter(site.values())).file)
        return Location(file=folder or "this machine")
    for file, *pattern in _FACTS.get(name, ()):
        document = site.get(file)
        data, path = (document.data if document else None), []
        for key in pattern:
            here = next(iter(data), "") if key == "*" and isinstance(data, dict) else key
            data = data.get(here) if isinstance(data, dict) else None
            path.append(here)
        if document is not None and data is not None:
            return document.where(*path)
    return Location(file="this machine")


def explain(root: PlacedValue, key: str, *, spack: bool = True) -> tuple[ValueOrigin, ...]:
    """Return every value under a key (`environments.gcc-env.network`) and where it was set.

    Names may hold dots themselves. Without `spack` it is a recipe for wheels. Raises
    `StackproofError` (USAGE) for a key that is neither set nor has a default, with the keys that
    are there.
    """
    words = key.split(".")
    path: list[str] = []
    node = root
    while words:
        step = _step(node, words)
        if step is None:
            return _default(node, tuple(path), tuple(words), _SPACK if spack else _WHEEL)
        taken, node = step
        path.append(".".join(words[:taken]))
        words = words[taken:]
    return tuple(_settings(node, key))


def _step(node: PlacedValue, words: list[str]) -> tuple[int, PlacedValue] | None:
    """Return the node below that the first words name, and how many they are: the most that fit."""
    if isinstance(node.value, dict):
        for taken in range(len(words), 0, -1):
            found = _entry(node, ".".join(words[:taken]))
            if found is not None:
                return taken, found
    if isinstance(node.value, tuple) and words[0].isdecimal() and int(words[0]) < len(node.value):
        return 1, node.value[int(words[0])]
    return None


def _entry(node: PlacedValue, name: str) -> PlacedValue | None:
    """Return what stands at a key of a mapping, with what the mapping before it had there."""
    found, older = node.value.get(name), _before(node, name)
    if isinstance(found, PlacedValue):
        return replace(found, before=found.before or older)
    return _lost(node, older) if older is not None else None


def _lost(node: PlacedValue, older: PlacedValue) -> PlacedValue:
    """Return what stands for an entry that went with the mapping it was in."""
    return PlacedValue(None, node.where, why=_REPLACED, before=older)


def _default(
    node: PlacedValue, path: tuple[str, ...], words: tuple[str, ...], defaults: _Defaults
) -> tuple[ValueOrigin, ...]:
    """Return what counts where nothing is set; `path` leads to `node`, `words` on from there."""
    whole, depth = (*path, *words), len(path)
    found = []
    for pattern, value in defaults.items():
        begins = all(want in {"*", have} for want, have in zip(pattern, whole, strict=False))
        # Below a name that is not there, such as that of an environment, nothing has a default.
        named = "*" not in pattern[depth : max(len(whole), len(pattern) - 1)]
        if begins and named and len(pattern) >= len(whole):
            key = ".".join((*whole, *pattern[len(whole) :]))
            found.append(ValueOrigin(key=key, value=value, where=None, why="the default"))
    if found:
        return tuple(found)
    raise fail(
        Reason.USAGE,
        f"nothing is set at `{'.'.join(whole)}`",
        hint=_what_there_is(node, path, words),
    )


def _what_there_is(node: PlacedValue, path: tuple[str, ...], words: tuple[str, ...]) -> str:
    start = ".".join(path)
    if start == "facts" and words[0] in FACTS:
        return f"the site does not say it; state it there or with `--fact {words[0]}=VALUE`"
    if isinstance(node.value, tuple):
        return f"`{start}` is a list of {len(node.value)}, counted from 0"
    below = node.value if isinstance(node.value, dict) else {}
    there = [str(key) for key, inner in below.items() if not inner.gone]
    if not there:
        return f"`{start}` is a value, with nothing below it" if path else "the recipe is empty"
    close = difflib.get_close_matches(words[0], there, n=1)
    other = close[0] if close else (_RENAMED.get(words[0]) if not path else None)
    guess = f"did you mean `{'.'.join((*path, other))}`? " if other else ""
    return f"{guess}{f'`{start}`' if path else 'the recipe'} has: {', '.join(there)}"


def _settings(node: PlacedValue, key: str) -> Iterator[ValueOrigin]:
    """Yield the values under a node; a list is one value unless its items are from many places."""
    if isinstance(node.value, dict):
        if not node.value:
            yield _setting(node, key)
        for name, inner in node.value.items():
            shown = replace(inner, before=inner.before or _before(node, name))
            yield from _settings(shown, f"{key}.{name}")
        yield from _gone(node, key)
    elif isinstance(node.value, tuple) and _mixed(node):
        for index, item in enumerate(node.value):
            yield from _settings(item, f"{key}.{index}")
    else:
        yield _setting(node, key)


def _gone(node: PlacedValue, key: str) -> Iterator[ValueOrigin]:
    """Yield what an entry had before another one took its place as a whole."""
    if node.before is not None and isinstance(node.before.value, dict):
        for name, older in node.before.value.items():
            if name not in node.value:
                yield _setting(_lost(node, older), f"{key}.{name}")


def _before(node: PlacedValue, name: str) -> PlacedValue | None:
    """Return what stood at a key of the mapping that this one took the place of."""
    if node.before is None or not isinstance(node.before.value, dict):
        return None
    found = node.before.value.get(name)
    return found if isinstance(found, PlacedValue) else None


def _mixed(node: PlacedValue) -> bool:
    return (
        len({(item.why, item.where.file) for item in node.value} | {(node.why, node.where.file)})
        > 1
    )


def _setting(node: PlacedValue, key: str) -> ValueOrigin:
    history = []
    older = node.before
    while older is not None:
        history.append(ValueOrigin(key=key, value=plain(older), where=older.where, why=_why(older)))
        older = older.before
    return ValueOrigin(
        key=key, value=plain(node), where=node.where, why=_why(node), before=tuple(history)
    )


def _why(node: PlacedValue) -> str:
    return ", ".join(word for word in ("removed" if node.gone else "", node.why) if word)


def plain(node: PlacedValue) -> Any:
    """Return the data of a node."""
    if isinstance(node.value, dict):
        return {key: plain(value) for key, value in node.value.items() if not value.gone}
    if isinstance(node.value, tuple):
        return [plain(item) for item in node.value]
    return node.value
