"""Stackinator recipes to one recipe of stackproof's own format.

Several recipes that differ by what they are built for become one: what they share is written once,
the rest under conditions on facts that tell their sites apart. Values of lists are compared item
by item, so that a list with a few differing items stays one list.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml
from msgspec import field

from stackproof.build.engines.spack.stack import FileEntry
from stackproof.build.engines.spack.stackinator.folder import Folder
from stackproof.build.engines.spack.stackinator.reader import DOCUMENTS, HOOKS
from stackproof.core.errors import Problem, Reason, StackproofError
from stackproof.core.value import Value
from stackproof.recipe.conditions import FACTS

# Facts in the order in which they say best what a part is for.
_PREFERRED = ("gpu", "architecture", "gpu-architecture", "microarchitecture", "fabric", "site")
# Mappings whose order of keys means something, besides all `projections`: `*` is any name.
_ORDERED = (
    ("environments",), ("environments", "*", "views"), ("spack", "packages"), ("compilers",),
)  # fmt: skip
_CONFIG = ("name", "description", "spack", "default-view", "cleanup")
_KEYS = (
    "name", "description", "engine", "generation", "mount", "default-view", "spack", "compilers",
    "environments", "packages", "modules", "hooks", "repo", "extra", "files", "cleanup", "when",
)  # fmt: skip

# Lists of words up to this length are written on one line, as long as the line is not longer.
_SHORT = 24
_LINE = 60

Path = tuple[str, ...]
Wholes = frozenset[int]


class _Missing:
    """Stands for a key that a recipe does not have."""


_MISSING: Any = _Missing()


class SourceRecipe(Value):
    """One of the recipes: its documents' data by file name, its files, the facts of its site.

    `name` is how people call it, `path` the path of its folder relative to the new recipe.
    """

    name: str
    path: str
    folder: Folder
    data: Mapping[str, Any]
    facts: Mapping[str, str] = field(default_factory=dict)


def convert(variants: Sequence[SourceRecipe]) -> dict[str, Any]:
    """Return the data of one recipe that means each variant where its facts hold.

    Raises `StackproofError` (INVALID_VALUE) when no fact tells variants apart that differ.
    """
    bodies = [_body(variant) for variant in variants]
    _share_files(variants, bodies)
    merger = _Merger(variants)
    common = merger.mapping(bodies, ())
    if merger.problems:
        raise StackproofError(*merger.problems)
    blocks = merger.blocks()
    if blocks:
        common["when"] = blocks
    return {key: common[key] for key in _KEYS if key in common}


def _body(variant: SourceRecipe) -> dict[str, Any]:
    """Return a recipe's documents as one, in our words; files are named by their path."""
    config = variant.data["config.yaml"]
    generation = int(config.get("version", 1))
    body: dict[str, Any] = {key: config[key] for key in _CONFIG if config.get(key) is not None}
    body |= {"engine": "spack", "generation": generation}
    if "store" in config:
        body["mount"] = config["store"]
    for key in ("compilers", "environments"):
        body[key] = variant.data[f"{key}.yaml"]
    if "packages.yaml" in variant.data:
        body["packages"] = variant.data["packages.yaml"]["packages"]
    modules = variant.data.get("modules.yaml", {}).get("modules")
    if config.get("modules", True) if generation == 1 else modules is not None:
        body["modules"] = modules or True
    hooks = {name: {"file": name} for name in HOOKS if name in variant.folder.files}
    if hooks:
        body["hooks"] = hooks
    tops = dict.fromkeys(path.partition("/")[0] for path in variant.folder.files)
    for top in ("repo", "extra"):
        if top in tops:
            body[top] = top
    rest = {top: top for top in tops if top not in {*DOCUMENTS, *HOOKS, "repo", "extra"}}
    if rest:
        body["files"] = rest
    return body


def _share_files(variants: Sequence[SourceRecipe], bodies: Sequence[dict[str, Any]]) -> None:
    """Name each file or folder relative to the new recipe; equal ones by the first one's path."""
    known: list[tuple[dict[str, FileEntry], str]] = []

    def named(variant: SourceRecipe, top: str) -> str:
        files = variant.folder.files
        tree = {"": files[top]} if top in files else variant.folder.below(top)
        for other, path in known:
            if other == tree:
                return path
        path = "/".join(part for part in (variant.path, top) if part not in {"", "."})
        known.append((tree, path))
        return path

    for variant, body in zip(variants, bodies, strict=True):
        for top in ("repo", "extra"):
            if top in body:
                body[top] = named(variant, top)
        body_files = body.get("files", {})
        for top in body_files:
            body_files[top] = named(variant, top)
        for hook in body.get("hooks", {}).values():
            hook["file"] = named(variant, hook["file"])


class _Merger:
    """Merges data of several recipes; what differs is collected by the recipes it is for."""

    def __init__(self, variants: Sequence[SourceRecipe]) -> None:
        self.problems: list[Problem] = []
        self._variants = variants
        self._all = frozenset(range(len(variants)))
        self._parts: dict[Wholes, dict[str, Any]] = {}

    def mapping(self, values: Sequence[Any], path: Path) -> dict[str, Any]:
        """Return what mappings share; their differences go to the parts."""
        keys = list(dict.fromkeys(key for value in values for key in value))
        result: dict[str, Any] = {}
        for key in keys:
            inner = [value.get(key, _MISSING) for value in values]
            shared = self._value(inner, (*path, key))
            if shared is not _MISSING:
                result[key] = shared
        return result

    def _value(self, values: Sequence[Any], path: Path) -> Any:
        first = values[0]
        if all(_equal(value, first) for value in values):
            return (
                first
                if not isinstance(first, dict) or _same_order(values)
                else self._apart(values, path)
            )
        if all(isinstance(value, dict) for value in values) and self._may_merge(values, path):
            merged = self.mapping(values, path)
            # One that is empty everywhere but in conditions must still be there for who has it so.
            return merged if merged or not all(values) else _MISSING
        if all(isinstance(value, list) for value in values):
            return self._list(values)
        return self._apart(values, path)

    @staticmethod
    def _may_merge(values: Sequence[dict[str, Any]], path: Path) -> bool:
        """Return whether merging key by key keeps the order of the keys where it matters."""
        if path[-1] != "projections" and not any(_matches(known, path) for known in _ORDERED):
            return True
        shared = [key for key in values[0] if all(key in value for value in values)]
        return bool(shared) and all(
            [*shared, *(key for key in value if key not in shared)] == list(value)
            for value in values
        ) and sum(len(value) > len(shared) for value in values) <= 1  # fmt: skip

    def _apart(self, values: Sequence[Any], path: Path) -> Any:
        """Put differing values into the parts of those recipes that have them."""
        groups: list[tuple[Any, set[int]]] = []
        for index, value in enumerate(values):
            if value is _MISSING:
                continue
            for known, members in groups:
                if _equal(known, value) and _same_order([known, value]):
                    members.add(index)
                    break
            else:
                groups.append((value, {index}))
        for value, members in groups:
            part = self._parts.setdefault(frozenset(members), {})
            for key in path[:-1]:
                part = part.setdefault(key, {})
            part[path[-1]] = value
        return _MISSING

    def _list(self, values: Sequence[list[Any]]) -> list[Any]:
        """Return one list whose differing items are conditional; every recipe's order is kept."""
        merged: list[tuple[Any, set[int]]] = [(item, {0}) for item in values[0]]
        for index, items in enumerate(values[1:], 1):
            merged = _woven(merged, items, index)
        result: list[Any] = []
        for members, run in itertools.groupby(merged, key=lambda pair: frozenset(pair[1])):
            plain = [item for item, _ in run]
            if members == self._all:
                result += plain
            else:
                result.append({**self._condition(members), "then": plain})
        return result

    def blocks(self) -> list[dict[str, Any]]:
        """Return the parts as `when` blocks."""
        order = sorted(self._parts, key=lambda members: (len(members), sorted(members)))
        return [{**self._condition(m), "then": self._parts[m]} for m in order]

    def _condition(self, members: Wholes) -> dict[str, Any]:
        """Return the condition that holds for these recipes' sites and no other's."""
        inside = [self._variants[index].facts for index in sorted(members)]
        outside = [self._variants[index].facts for index in sorted(self._all - members)]
        for names in _combinations():
            wants = _wants(names, inside)
            if wants is not None and not any(_fits(wants, facts) for facts in outside):
                return {"if": Flow({n: v[0] if len(v) == 1 else v for n, v in wants.items()})}
        for names in _combinations():
            wants = _wants(names, outside)
            if wants is not None and not any(_fits(wants, facts) for facts in inside):
                return {"unless": Flow({n: v[0] if len(v) == 1 else v for n, v in wants.items()})}
        called = ", ".join(self._variants[index].name for index in sorted(members))
        self.problems.append(
            Problem(
                reason=Reason.INVALID_VALUE,
                message=f"no fact tells {called} from the other recipes",
                hint="name each recipe's site (`--site`, once for each), or a fact of it: "
                "--fact RECIPE:gpu-architecture=gfx942",
            )
        )
        return {"if": Flow({"site": "?"})}


class Flow(dict[str, Any]):
    """A mapping that is written on one line."""


def _matches(pattern: Path, path: Path) -> bool:
    return len(pattern) == len(path) and all(
        want in {"*", have} for want, have in zip(pattern, path, strict=True)
    )


def _equal(one: Any, other: Any) -> bool:
    """Return whether two values are the same in YAML too: true is not 1, and 1 is not 1.0."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return type(one) is type(other) and bool(one == other)


def _same_order(values: Sequence[Any]) -> bool:
    """Return whether equal values have their keys in the same order too."""
    first = values[0]
    if isinstance(first, dict):
        return all(list(value) == list(first) for value in values) and all(
            _same_order([value[key] for value in values]) for key in first
        )
    if isinstance(first, list):
        return all(_same_order(column) for column in zip(*values, strict=True))
    return True


def _woven(
    merged: list[tuple[Any, set[int]]], items: list[Any], index: int
) -> list[tuple[Any, set[int]]]:
    """Return a list with the items of one more recipe woven in, both orders kept."""
    left, right = [_key(item) for item, _ in merged], [_key(item) for item in items]
    result: list[tuple[Any, set[int]]] = []
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
    for kind, low, high, start, end in matcher.get_opcodes():
        if kind == "equal":
            result += [(item, members | {index}) for item, members in merged[low:high]]
        else:
            result += merged[low:high]
            result += [(item, {index}) for item in items[start:end]]
    return result


def _key(item: Any) -> str:
    return f"{type(item).__name__}:{item!r}"


def _combinations() -> Iterator[tuple[str, ...]]:
    names = [name for name in _PREFERRED if name in FACTS]
    yield from ((name,) for name in names)
    yield from itertools.combinations(names, 2)


def _wants(names: tuple[str, ...], of: Sequence[Mapping[str, str]]) -> dict[str, list[str]] | None:
    """Return the values that facts have on some sites; None when one of them is not known."""
    if not all(name in facts for name in names for facts in of):
        return None
    return {name: list(dict.fromkeys(facts[name] for facts in of)) for name in names}


def _fits(wants: Mapping[str, list[str]], facts: Mapping[str, str]) -> bool:
    """Return whether a condition may hold on a site: an unknown fact does not rule it out."""
    return all(name not in facts or facts[name] in values for name, values in wants.items())


class _Dumper(yaml.SafeDumper):
    """Writes YAML without anchors, conditions on one line."""

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


def _flow(dumper: yaml.SafeDumper, data: Flow) -> yaml.Node:
    return dumper.represent_mapping("tag:yaml.org,2002:map", data, flow_style=True)


def _items(dumper: yaml.SafeDumper, data: list[Any]) -> yaml.Node:
    """Write a short list of words on one line."""
    short = all(isinstance(item, str) and len(item) <= _SHORT for item in data)
    flow = short and sum(len(item) + 2 for item in data) <= _LINE
    return dumper.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=flow)


def _text(dumper: yaml.SafeDumper, data: str) -> yaml.Node:
    style = "|" if "\n" in data else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Dumper.add_representer(Flow, _flow)
_Dumper.add_representer(list, _items)
_Dumper.add_representer(str, _text)


def render(data: Mapping[str, Any]) -> str:
    """Return a recipe's data as YAML, keys in the order they have."""
    return yaml.dump(
        dict(data), Dumper=_Dumper, sort_keys=False, width=10_000, allow_unicode=True,
        default_flow_style=False,
    )  # fmt: skip


def lines_that_count(text: str) -> int:
    """Return how many lines of a YAML text say something: no comments, nothing empty."""
    lines = (line.strip() for line in text.splitlines())
    return sum(1 for line in lines if line and not line.startswith("#"))
