"""YAML text to data with positions, validated against a JSON Schema, all problems at once.

Only plain YAML is accepted: mappings with string keys, sequences, strings, numbers, booleans and
null. Tags that would build objects, duplicate keys, anchors that expand without end and files
larger than a document can sensibly be are errors with file, line and column.
"""

from __future__ import annotations

import difflib
import functools
import importlib.resources
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from stackproof.errors import Location, Problem, Reason, StackproofError, fail

MAX_BYTES = 1 << 20
_MAX_NODES = 100_000
_MAX_DEPTH = 64
_PLAIN_TAGS = {
    f"tag:yaml.org,2002:{name}"
    for name in ("map", "seq", "str", "int", "float", "bool", "null", "timestamp")
}

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """Parsed data of one file and where each value stands.

    `positions` maps a path of keys and indexes to the place of the value; the place of a key is
    under its path with a trailing `"#key"`.
    """

    file: str
    data: Any
    positions: Mapping[Path, Location]

    def where(self, *path: str | int) -> Location:
        """Return the place of a value, or of the nearest one around it."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.positions:
                return self.positions[path[:length]]
        return Location(file=self.file)

    def where_key(self, *path: str | int) -> Location:
        """Return the place of the key that `path` ends in."""
        return self.positions.get((*path, "#key"), self.where(*path))


def parse(text: str | bytes, *, file: str) -> Document:
    """Parse a YAML document.

    Raises `StackproofError` with reason TOO_LARGE, YAML_SYNTAX, UNSAFE_TAG, DUPLICATE_KEY or
    WRONG_TYPE; problems of the last three kinds are reported all at once.
    """
    if len(text) > MAX_BYTES:
        raise fail(
            Reason.TOO_LARGE,
            f"the file has {len(text)} bytes; a document may have {MAX_BYTES}",
            where=Location(file=file),
            hint="check that this is the file you meant",
        )
    try:
        decoded = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        root = yaml.compose(decoded, Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        raise fail(
            Reason.YAML_SYNTAX, f"not UTF-8 text (byte {error.start})", where=Location(file=file)
        ) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = (
            Location(file=file, line=mark.line + 1, column=mark.column + 1)
            if mark
            else Location(file=file)
        )
        context = f" {error.context}" if error.context else ""
        raise fail(
            Reason.YAML_SYNTAX, f"not YAML: {error.problem}{context}", where=where
        ) from None
    except yaml.YAMLError as error:
        message = str(error).splitlines()[0]
        raise fail(Reason.YAML_SYNTAX, f"not YAML: {message}", where=Location(file=file)) from None
    except RecursionError:
        raise fail(
            Reason.YAML_SYNTAX, "nested too deeply", where=Location(file=file)
        ) from None
    builder = _Builder(file)
    data = None if root is None else builder.build(root, ())
    if builder.problems:
        raise StackproofError(*builder.problems)
    return Document(file=file, data=data, positions=builder.positions)


class _Builder:
    """Turns YAML nodes into data; the node count is bounded, so aliases cannot blow it up."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.positions: dict[Path, Location] = {}
        self.problems: list[Problem] = []
        self._nodes = 0
        self._constructor = yaml.constructor.SafeConstructor()

    def _at(self, node: yaml.Node) -> Location:
        mark = node.start_mark
        return Location(file=self.file, line=mark.line + 1, column=mark.column + 1)

    def build(self, node: yaml.Node, path: Path) -> Any:
        self._nodes += 1
        where = self._at(node)
        if self._nodes > _MAX_NODES or len(path) > _MAX_DEPTH:
            raise fail(
                Reason.TOO_LARGE,
                "the document expands to more values than it may hold",
                where=where,
                hint="do not nest YAML aliases",
            )
        self.positions[path] = where
        if node.tag not in _PLAIN_TAGS:
            self.problems.append(
                Problem(
                    reason=Reason.UNSAFE_TAG,
                    message=f"the YAML tag `{_short_tag(node.tag)}` is not allowed",
                    hint="write a plain value without a tag",
                    where=where,
                )
            )
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(child, (*path, i)) for i, child in enumerate(node.value)]
        return self._scalar(node, where)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            where = self._at(key_node)
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag not in _PLAIN_TAGS:
                self.problems.append(
                    Problem(
                        reason=Reason.WRONG_TYPE, message="a key must be a plain word", where=where
                    )
                )
                continue
            key = str(key_node.value)
            if key in result:
                first = self.positions[(*path, key, "#key")]
                self.problems.append(
                    Problem(
                        reason=Reason.DUPLICATE_KEY,
                        message=f"the key `{key}` stands here twice",
                        hint=f"remove one of them; the first is at line {first.line}",
                        where=where,
                    )
                )
                continue
            self.positions[(*path, key, "#key")] = where
            result[key] = self.build(value_node, (*path, key))
        return result

    def _scalar(self, node: yaml.Node, where: Location) -> Any:
        if node.tag.endswith((":timestamp", ":str")):
            return node.value  # a date is kept as the text that was written
        try:
            return self._constructor.construct_object(node)  # type: ignore[no-untyped-call]
        except (ValueError, yaml.YAMLError) as error:
            self.problems.append(
                Problem(reason=Reason.WRONG_TYPE, message=f"not a value: {error}", where=where)
            )
            return None


def _short_tag(tag: str) -> str:
    return tag.replace("tag:yaml.org,2002:", "!!")


@functools.cache
def schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of a document kind (`recipe`, `site`, `bench`, …)."""
    text = importlib.resources.files("stackproof.schemas").joinpath(f"{kind}.json").read_text()
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def problems(document: Document, kind: str) -> tuple[Problem, ...]:
    """Return everything that is wrong with a document by the schema of its kind."""
    import jsonschema  # noqa: PLC0415 - slow to import, and only needed here

    validator = jsonschema.Draft202012Validator(schema(kind))
    found: list[Problem] = []
    for error in validator.iter_errors(document.data):
        found += _explain(error, document)
    unique = {(p.reason, p.message, p.where): p for p in found}
    return tuple(sorted(unique.values(), key=_place))


def _place(problem: Problem) -> tuple[int, int]:
    return (problem.where.line, problem.where.column) if problem.where else (0, 0)


def _explain(error: Any, document: Document) -> list[Problem]:
    """Turn one jsonschema error into problems in our own words."""
    path: Path = tuple(error.absolute_path)
    where = document.where(*path)
    name = ".".join(str(part) for part in path) or "the document"
    match error.validator:
        case "additionalProperties":
            known = sorted(error.schema.get("properties", {}))
            extra = [key for key in error.instance if key not in known]
            return [_unknown_key(document, path, key, known) for key in extra]
        case "required":
            missing = [key for key in error.validator_value if key not in error.instance]
            return [
                Problem(
                    reason=Reason.MISSING_KEY,
                    message=f"the key `{key}` is missing in {_quoted(name)}",
                    hint=_describe(error.schema, key),
                    where=where,
                )
                for key in missing
            ]
        case "type":
            wanted = error.validator_value
            wanted = wanted if isinstance(wanted, str) else " or ".join(wanted)
            return [
                Problem(
                    reason=Reason.WRONG_TYPE,
                    message=f"{_quoted(name)} must be {_TYPES.get(wanted, wanted)}, "
                    f"not {_TYPES.get(_type_name(error.instance), 'this')}",
                    hint=_hint_of(error.schema),
                    where=where,
                )
            ]
        case "enum":
            choices = [str(value) for value in error.validator_value]
            close = difflib.get_close_matches(str(error.instance), choices, n=1)
            hint = f"did you mean `{close[0]}`? " if close else ""
            return [
                Problem(
                    reason=Reason.INVALID_VALUE,
                    message=f"`{error.instance}` is not a value of {_quoted(name)}",
                    hint=f"{hint}it is one of: {', '.join(choices)}",
                    where=where,
                )
            ]
        case "anyOf" | "oneOf":
            return [
                Problem(
                    reason=Reason.WRONG_TYPE,
                    message=f"{_quoted(name)} has none of the forms it may have",
                    hint=_hint_of(error.schema),
                    where=where,
                )
            ]
        case _:
            return [
                Problem(
                    reason=Reason.INVALID_VALUE,
                    message=f"{_quoted(name)} is not valid: {_one_line(error.message)}",
                    hint=_hint_of(error.schema),
                    where=where,
                )
            ]


_TYPES = {
    "string": "text",
    "object": "a mapping",
    "array": "a list",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "empty",
}


def _type_name(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _quoted(name: str) -> str:
    return name if name == "the document" else f"`{name}`"


def _one_line(message: str, limit: int = 160) -> str:
    line = " ".join(message.split())
    return line if len(line) <= limit else f"{line[:limit]}…"


def _hint_of(node: Mapping[str, Any]) -> str | None:
    text = node.get("description")
    return str(text) if text else None


def _describe(node: Mapping[str, Any], key: str) -> str | None:
    return _hint_of(node.get("properties", {}).get(key, {}))


def _unknown_key(document: Document, path: Path, key: str, known: list[str]) -> Problem:
    close = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean `{close[0]}`?" if close else f"known keys are: {', '.join(known)}"
    place = ".".join(str(part) for part in path)
    return Problem(
        reason=Reason.UNKNOWN_KEY,
        message=f"unknown key `{key}`" + (f" in `{place}`" if place else ""),
        hint=hint,
        where=document.where_key(*path, key),
    )
