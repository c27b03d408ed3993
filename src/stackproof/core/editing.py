"""YAML text to the same text with more, or other, values in it: comments and forms stay.

PyYAML tells where each value stands, not how to write a document back as a person wrote it. So
what is new is put between the lines, and the result is read again: it says what was wanted, or is
refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from stackproof.core import document as documents
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value

Keys = tuple[str, ...]
_WIDTH = 100


class _Piece(Value):
    """Text that takes the place of a part of the document."""

    start: int
    end: int
    text: str


def edited(text: str, changes: Mapping[Keys, Any], *, file: str) -> str:
    """Return the text of a document in which the value at each path of keys is another one.

    Mappings that are not there are made. Raises `StackproofError`: what `documents.parse` raises,
    and UNSUPPORTED where the form of the document leaves no place for a change (an alias, say).
    """
    before = documents.parse(text, file=file).data
    wanted = _with(before or {}, changes)
    if wanted == before:
        return text
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    tree: dict[str, Any] = {}
    for path, value in changes.items():
        if _at(before, path) != (True, value):
            _put(tree, path, _Leaf(value))
    result = text
    if isinstance(root, yaml.MappingNode) and root.value:
        # From the end, and what is of an inner mapping comes before what follows that mapping.
        pieces = sorted(_pieces(text, root, tree), key=lambda piece: piece.start)
        for piece in pieces[::-1]:
            result = result[: piece.start] + piece.text + result[piece.end :]
    else:
        result = f"{text.rstrip()}\n".lstrip("\n") + _block(tree, 0)
    if not _says(result, wanted, file):
        raise fail(
            Reason.UNSUPPORTED,
            f"`{file}` is written in a form that cannot be added to without rewriting it",
            where=Location(file=file),
            hint="write its mappings as lines of `key: value`, without aliases",
        )
    return result


class _Leaf(Value, kw_only=False):
    """A value, told from the mappings above it."""

    value: Any


def _with(data: Any, changes: Mapping[Keys, Any]) -> Any:
    result = _copy(data)
    for path, value in changes.items():
        place = result
        for key in path[:-1]:
            if not isinstance(place.get(key), dict):
                place[key] = {}
            place = place[key]
        place[path[-1]] = value
    return result


def _copy(data: Any) -> Any:
    return {key: _copy(value) for key, value in data.items()} if isinstance(data, dict) else data


def _at(data: Any, path: Keys) -> tuple[bool, Any]:
    for key in path:
        if not isinstance(data, dict) or key not in data:
            return False, None
        data = data[key]
    return True, data


def _put(tree: dict[str, Any], path: Keys, leaf: _Leaf) -> None:
    for key in path[:-1]:
        tree = tree.setdefault(key, {})
    tree[path[-1]] = leaf


def _plain(tree: Any) -> Any:
    if isinstance(tree, _Leaf):
        return tree.value
    return {key: _plain(value) for key, value in tree.items()} if isinstance(tree, dict) else tree


def _says(text: str, wanted: Any, file: str) -> bool:
    try:
        return bool(documents.parse(text, file=file).data == wanted)
    except StackproofError:
        return False


def _pieces(text: str, node: yaml.MappingNode, tree: Mapping[str, Any]) -> Iterator[_Piece]:
    """Yield the changes of a mapping: values of its own keys, then all new keys at its end."""
    there = {key.value: value for key, value in node.value if isinstance(key, yaml.ScalarNode)}
    new = {key: value for key, value in tree.items() if key not in there}
    for key, value in tree.items():
        if key not in there:
            continue
        old = there[key]
        if isinstance(value, dict) and isinstance(old, yaml.MappingNode) and old.value:
            yield from _pieces(text, old, value)
        else:
            start, end = old.start_mark.index, _end(text, old)
            end = start + len(text[start:end].rstrip())
            # A value of its own line may stand in the column of its key, and one in a line may not.
            begin = " " if start == end or isinstance(old, yaml.SequenceNode) else ""
            yield _Piece(start=start, end=end, text=begin + _flow(_plain(value)))
    if new and node.flow_style:
        last = node.end_mark.index - 1
        body = ", ".join(f"{_flow(key)}: {_flow(_plain(value))}" for key, value in new.items())
        comma = "" if text[:last].rstrip().endswith((",", "{")) else ", "
        yield _Piece(start=last, end=last, text=f"{comma}{body}")
    elif new:
        last = _end(text, node)
        line = text.find("\n", last - 1) if text[last - 1 : last] == "\n" else text.find("\n", last)
        place = len(text) if line < 0 else line + 1
        begin = "" if text[:place].endswith("\n") else "\n"
        yield _Piece(start=place, end=place, text=begin + _block(new, node.start_mark.column))


def _end(text: str, node: yaml.Node) -> int:
    """Return the offset at which the text of a value ends, without the comments behind it."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(text, last[1] if isinstance(last, tuple) else last)
    return int(node.end_mark.index)


def _block(tree: Mapping[str, Any], indent: int) -> str:
    """Return keys and values as lines; a mapping without others in it in one, where it fits."""
    text = ""
    for key, value in tree.items():
        plain = _plain(value)
        line = f"{' ' * indent}{_flow(key)}: {_flow(plain)}\n"
        inner = isinstance(plain, dict) and any(isinstance(one, dict) for one in plain.values())
        if isinstance(plain, dict) and plain and (inner or len(line) > _WIDTH):
            text += f"{' ' * indent}{_flow(key)}:\n{_block(plain, indent + 2)}"
        else:
            text += line
    return text


def _flow(value: Any) -> str:
    """Return a value in one line, as `{a: [1, '2']}`."""
    shown: str = yaml.safe_dump(
        [value], sort_keys=False, allow_unicode=True, width=1 << 20, default_flow_style=True
    )
    return shown.strip().removeprefix("[").removesuffix("]")
