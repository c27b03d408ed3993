"""Several documents to one: what is inherited, what a condition adds, what a matrix chooses.

A recipe file may name another one (`inherit`), hold parts that depend on facts of the site
(`when`, and list items with `if` or `unless`) and choices to combine (`matrix`). The order is
fixed, and what comes later wins: the inherited file as a whole, then the file's own keys, then the
matrix' choices from the first axis to the last, then the `when` blocks from top to bottom.
Mappings are merged key by key; a list takes the place of the one before it, unless an item `...`
stands for that list's items; null over something removes it.

Everything keeps its place, so that errors and `plan --explain` name the file, line and column that
set a value.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import field

from stackproof.core import document as documents
from stackproof.core.document import Document
from stackproof.core.errors import Location, Problem, Reason, StackproofError
from stackproof.core.value import Value, replace
from stackproof.recipe.conditions import Condition, Truth, is_conditional, read_condition

KEYS = ("inherit", "when", "matrix")
"""The keys that are used up by composing; the composed document has none of them."""
REST = "..."
"""The list item that stands for the items that the list had before."""

Path = tuple[str | int, ...]
Choice = Mapping[str, str]


class PlacedValue(Value, kw_only=False):
    """A value with its place; `value` is a scalar, a mapping of nodes or a tuple of nodes.

    `why` says in words what made it count (empty: it just stands there), `before` is the value
    that it took the place of. With `gone` it is a null that removed `before`: nothing is there.
    """

    value: Any
    where: Location
    key: Location | None = None
    why: str = ""
    before: PlacedValue | None = None
    gone: bool = False


class Decision(Value):
    """A condition of the documents and how it turned out on a site."""

    where: Location
    condition: Condition
    verdict: Truth


class Composed(Value):
    """One document made of several; `root` holds where each value is from and what it replaced.

    `decisions` are the conditions as they turned out on `facts`, the choices of the matrix among
    them.
    """

    document: Document
    root: PlacedValue
    decisions: tuple[Decision, ...] = ()
    choice: Choice = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def tested(self) -> tuple[str, ...]:
        """Return the facts that conditions asked for, each once, in the order of asking."""
        return tuple(dict.fromkeys(f for d in self.decisions for f in d.condition.facts))


def compose(chain: Sequence[Document], facts: Mapping[str, str], choice: Choice) -> Composed:
    """Return the document that a chain of files means on a site; the first file is the base.

    `facts` are what the site says, by name; a fact that it does not say is left out. `choice`
    names one choice for each axis of the matrix. Raises `StackproofError` with every problem of
    the conditions and the matrix at once.
    """
    axes = matrix(chain)
    found = [problem for one in chain for problem in _shape_problems(one)]
    found += (
        [problem for one in chain for problem in _exclude_problems(one, axes)] if not found else []
    )
    known = {**facts, **{f"matrix.{axis}": name for axis, name in choice.items()}}
    reader = _Reader(known, tuple(axes))
    root = PlacedValue({}, Location(file=chain[-1].file))
    if not found:
        for one in chain:
            root = _relabelled(root, one)
            inherited = f"inherited from {one.file}" if one is not chain[-1] else ""
            for part in reader.parts(one, choice, inherited):
                root = _merge(root, part)
    found += reader.problems
    if found:
        raise StackproofError(*_unique(found))
    root = replace(root, where=chain[-1].where())
    positions: dict[Path, Location] = {}
    data = _flatten(root, (), positions)
    if isinstance(data.get("name"), str):
        data["name"] += suffix(choice)
    return Composed(
        document=Document(file=chain[-1].file, data=data, positions=positions),
        root=root,
        decisions=tuple(reader.decisions),
        choice=choice,
        facts=known,
    )


def _relabelled(root: PlacedValue, heir: Document) -> PlacedValue:
    """Return the inherited values; a label that is the MPI's version follows the MPI of the heir.

    The description of the other release goes then, too.
    """
    label, mpi = root.value.get("version"), root.value.get("mpi")
    wish = heir.data.get("mpi") if isinstance(heir.data, dict) else None
    number = wish.get("version") if isinstance(wish, dict) else None
    old = mpi.value.get("version") if mpi and isinstance(mpi.value, dict) else None
    if not (label and old and isinstance(number, str)) or label.value != old.value:
        return root
    if number == label.value:
        return root
    where = heir.where("mpi", "version")
    new = PlacedValue(number, where, why="as the MPI that is named here", before=label)
    kept = {key: value for key, value in root.value.items() if key != "description"}
    return replace(root, value={**kept, "version": new})


def tree(document: Document, *path: str, why: str = "") -> PlacedValue:
    """Return a part of a document as nodes, as it stands there; nothing in it is a condition."""
    data = document.data
    for key in path:
        data = data[key]
    return _Reader({}, (), plain=True).node(document, data, path, why)


def has_conditions(chain: Sequence[Document]) -> bool:
    """Return whether anything in the files depends on facts of the site."""
    return any(_holds_condition(one.data) for one in chain)


def _holds_condition(data: Any) -> bool:
    if isinstance(data, dict):
        return "when" in data or any(map(_holds_condition, data.values()))
    if isinstance(data, list):
        return any(is_conditional(item) or _holds_condition(item) for item in data)
    return False


def matrix(chain: Sequence[Document]) -> dict[str, tuple[str, ...]]:
    """Return the axes of the matrix and their choices, in the order in which they were named."""
    axes: dict[str, tuple[str, ...]] = {}
    for one in chain:
        for axis, choices in _axes(one).items():
            axes[axis] = tuple(dict.fromkeys((*axes.get(axis, ()), *choices)))
    return axes


def expand(chain: Sequence[Document]) -> tuple[Choice, ...]:
    """Return every combination of the matrix that is not excluded; one empty one without it."""
    axes = matrix(chain)
    excluded = [entry for one in chain for entry in _matrix(one, "exclude", list)]
    combinations = (
        dict(zip(axes, names, strict=True)) for names in itertools.product(*axes.values())
    )
    return tuple(
        one
        for one in combinations
        if not any(all(one.get(axis) == name for axis, name in bad.items()) for bad in excluded)
    )


def suffix(choice: Choice) -> str:
    """Return what the name of a stack gets for a combination: `-openmpi-cuda`, or nothing."""
    return "".join(f"-{name}" for name in choice.values())


def parts(document: Document) -> tuple[Document, ...]:
    """Return the file's own keys, each choice and each `when` body as documents of their own.

    Each of them can be checked for unknown keys and wrong types, whether or not its condition
    holds; conditional list items are taken in, `...` is left out.
    """
    reader = _Reader({}, tuple(matrix((document,))), everything=True)
    found = []
    for part in reader.all_parts(document):
        positions: dict[Path, Location] = {}
        data = _flatten(part, (), positions)
        found.append(Document(file=document.file, data=data, positions=positions))
    return tuple(found)


def _matrix(document: Document, key: str, kind: type[Any]) -> Any:
    """Return the part of a file's matrix at a key, empty where it is of another kind."""
    table = document.data.get("matrix") if isinstance(document.data, dict) else None
    found = table.get(key) if isinstance(table, dict) else None
    return found if isinstance(found, kind) else kind()


def _axes(document: Document) -> dict[str, tuple[str, ...]]:
    return {
        axis: tuple(map(str, choices))
        for axis, choices in _matrix(document, "axes", dict).items()
        if isinstance(choices, dict | list)
    }


def _shape_problems(document: Document) -> list[Problem]:
    """Return what is wrong with the form of the keys that compose."""
    if not isinstance(document.data, dict):
        return [
            document.problem(
                (),
                "the document must be a mapping",
                "a recipe begins with `name:`",
                reason=Reason.WRONG_TYPE,
            )
        ]
    own = {key: document.data[key] for key in KEYS if key in document.data}
    if not own:
        return []
    return list(documents.problems(replace(document, data=own), "recipe-targets"))


def _exclude_problems(document: Document, axes: Mapping[str, tuple[str, ...]]) -> Iterator[Problem]:
    """Yield excluded combinations that name an axis or a choice that is not there."""
    for index, entry in enumerate(_matrix(document, "exclude", list)):
        for axis, name in entry.items():
            path = ("matrix", "exclude", index, axis)
            if axis not in axes:
                yield Problem(
                    reason=Reason.UNKNOWN_KEY,
                    message=f"the matrix has no axis `{axis}`",
                    hint=f"it has: {', '.join(axes)}",
                    where=document.where_key(*path),
                )
            elif name not in axes[axis]:
                yield document.problem(
                    path,
                    f"the axis `{axis}` has no choice `{name}`",
                    f"it has: {', '.join(axes[axis])}",
                )


def _unique(problems: Sequence[Problem]) -> list[Problem]:
    return list({(p.reason, p.message, p.where): p for p in problems}.values())


class _Reader:
    """Turns documents into nodes; decides conditions and collects what is wrong with them."""

    def __init__(
        self, facts: Mapping[str, str], axes: tuple[str, ...], *, everything: bool = False,
        plain: bool = False,
    ) -> None:  # fmt: skip
        self.problems: list[Problem] = []
        self.decisions: list[Decision] = []
        self._facts = facts
        self._axes = axes
        self._everything = everything
        self._plain = plain

    def parts(self, document: Document, choice: Choice, why: str) -> Iterator[PlacedValue]:
        """Yield what counts of a file, in the order in which it is merged."""
        yield self._body(document, why)
        for axis, table in self._choice_bodies(document):
            name = choice.get(axis)
            if name in table:
                reason = _join(why, f"matrix {axis}={name}")
                yield self.node(document, table[name], ("matrix", "axes", axis, name), reason)
        for path, block in self._blocks(document):
            condition, holds = self._decide(document, block, path)
            if holds:
                reason = _join(why, str(condition))
                yield self.node(document, block["then"], (*path, "then"), reason)

    def all_parts(self, document: Document) -> Iterator[PlacedValue]:
        """Yield every part of a file, whatever its condition."""
        if not isinstance(document.data, dict):
            return
        yield self._body(document, "")
        for axis, table in self._choice_bodies(document):
            for name, body in table.items():
                yield self.node(document, body, ("matrix", "axes", axis, name), "")
        for path, block in self._blocks(document):
            if isinstance(block, dict) and isinstance(block.get("then"), dict):
                yield self.node(document, block["then"], (*path, "then"), "")

    def _body(self, document: Document, why: str) -> PlacedValue:
        own = {key: value for key, value in document.data.items() if key not in KEYS}
        return self.node(document, own, (), why)

    @staticmethod
    def _choice_bodies(document: Document) -> Iterator[tuple[str, dict[str, Any]]]:
        for axis, choices in _matrix(document, "axes", dict).items():
            if isinstance(choices, dict):
                yield axis, {name: body for name, body in choices.items() if body is not None}

    @staticmethod
    def _blocks(document: Document) -> Iterator[tuple[Path, Any]]:
        blocks = document.data.get("when")
        for index, block in enumerate(blocks if isinstance(blocks, list) else ()):
            yield ("when", index), block

    def node(self, document: Document, data: Any, path: Path, why: str) -> PlacedValue:
        """Return a value of a document as a node; conditional list items are decided."""
        where = document.where(*path)
        key = document.where_key(*path) if path and isinstance(path[-1], str) else None
        if isinstance(data, dict):
            inner = {k: self.node(document, v, (*path, k), why) for k, v in data.items()}
            return PlacedValue(inner, where, key, why)
        if isinstance(data, list):
            return PlacedValue(tuple(self._items(document, data, path, why)), where, key, why)
        return PlacedValue(data, where, key, why)

    def _items(
        self, document: Document, data: list[Any], path: Path, why: str
    ) -> Iterator[PlacedValue]:
        for index, item in enumerate(data):
            here = (*path, index)
            if self._plain or not is_conditional(item):
                yield self.node(document, item, here, why)
                continue
            condition, holds = self._decide(document, item, here)
            if holds and isinstance(item["then"], list):
                reason = _join(why, str(condition))
                yield from self._items(document, item["then"], (*here, "then"), reason)
            elif not isinstance(item["then"], list):
                self.problems.append(
                    document.problem(
                        (*here, "then"),
                        "`then` of a conditional item must be a list of items",
                        "write `then: [ITEM, …]`",
                        reason=Reason.WRONG_TYPE,
                    )
                )

    def _decide(
        self, document: Document, block: Mapping[str, Any], path: Path
    ) -> tuple[Condition, bool]:
        condition, found = read_condition(document, block, path, self._axes)
        if self._everything:
            return condition, True
        self.problems += found
        verdict = condition.verdict(self._facts)
        self.decisions.append(
            Decision(where=document.where(*path), condition=condition, verdict=verdict)
        )
        return condition, verdict is Truth.HOLDS


def _join(why: str, more: str) -> str:
    return f"{why}, {more}" if why else more


def _merge(old: PlacedValue | None, new: PlacedValue) -> PlacedValue:
    """Return a node with another one laid over it."""
    there = None if old is None or old.gone else old
    if isinstance(new.value, dict):
        below = there.value if there is not None and isinstance(there.value, dict) else {}
        merged = dict(below)
        for key, node in new.value.items():
            merged[key] = _merge(below.get(key), node)
        if there is not None and isinstance(there.value, dict):
            return replace(there, value=merged)
        return replace(new, value=merged, before=old)
    if isinstance(new.value, tuple):
        items = there.value if there is not None and isinstance(there.value, tuple) else ()
        spliced = (items if node.value == REST else (node,) for node in new.value)
        return replace(new, value=tuple(itertools.chain(*spliced)), before=old)
    return replace(new, before=old, gone=new.value is None and there is not None)


def _flatten(node: PlacedValue, path: Path, positions: dict[Path, Location]) -> Any:
    """Return a node's plain data; the places of all values are put into `positions`."""
    positions[path] = node.where
    if node.key is not None:
        positions[(*path, documents.KEY)] = node.key
    if isinstance(node.value, dict):
        return {
            key: _flatten(value, (*path, key), positions)
            for key, value in node.value.items()
            if not value.gone
        }
    if isinstance(node.value, tuple):
        plain = (item for item in node.value if item.value != REST)
        return [_flatten(item, (*path, index), positions) for index, item in enumerate(plain)]
    return node.value
