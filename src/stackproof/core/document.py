"""YAML text to data with positions, validated against a JSON Schema, all problems at once.

Only plain YAML is accepted: mappings with string keys, sequences, strings, numbers, booleans and
null. Tags that would build objects, duplicate keys, anchors that expand without end and files
larger than a document can sensibly be are errors with file, line and column.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import yaml

from stackproof.core import fitting, limits
from stackproof.core.errors import Location, Problem, Reason, StackproofError, did_you_mean, fail
from stackproof.core.value import Value

_YAML = "tag:yaml.org,2002:"
_MERGE_TAG = f"{_YAML}merge"
_PLAIN_TAGS: dict[type[yaml.Node], set[str]] = {
    yaml.MappingNode: {f"{_YAML}map"},
    yaml.SequenceNode: {f"{_YAML}seq"},
    yaml.ScalarNode: {
        f"{_YAML}{name}" for name in ("str", "int", "float", "bool", "null", "timestamp")
    },
}

# No key is like this: texts with NUL are refused.
KEY = "\0key"

Path = tuple[str | int, ...]
Noun = TypeVar("Noun", bound=Value)


class Document(Value):
    """Parsed data of one file and where each value stands.

    `positions` maps a path of keys and indexes to the place of the value; the place of a key is
    under its path with `KEY` behind it.
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
        return self.positions.get((*path, KEY), self.where(*path))

    def problem(
        self, path: Path, message: str, hint: str | None = None, *,
        reason: Reason = Reason.INVALID_VALUE,
    ) -> Problem:  # fmt: skip
        """Return a problem of the value at a path, or of the nearest one around it."""
        return Problem(reason=reason, message=message, hint=hint, where=self.where(*path))


def shaped(kind: type[Noun], data: Mapping[str, Any], **made: Any) -> Noun:
    """Return a noun of data that fit their schema: each field from the key of its name.

    Keys have `-` where names have `_`; lists become tuples, what is left out has the field's own
    default, and `made` are fields that are more than their key.
    """
    keys = {name: name.replace("_", "-") for name in kind.__struct_fields__}
    found = {name: data[key] for name, key in keys.items() if key in data and name not in made}
    listed = {name: tuple(one) if isinstance(one, list) else one for name, one in found.items()}
    return kind(**listed, **made)


def parse(
    text: str | bytes, *, file: str, repeated: list[Problem] | None = None, ours: bool = False
) -> Document:
    """Parse a YAML document.

    One that comes with stackproof (`ours`) is read by libyaml where PyYAML has it, in a tenth of
    the time: it reads a little more as YAML, and words what it refuses in another way.

    A key that stands twice is an error, unless a list `repeated` is given: then it goes there, and
    the last value counts, as other readers of YAML have it. Raises `StackproofError` with reason
    TOO_LARGE, YAML_SYNTAX, UNSAFE_TAG, DUPLICATE_KEY or WRONG_TYPE; problems of the last three
    kinds are reported all at once.
    """
    if len(text) > limits.DOCUMENT.bytes:
        raise fail(
            Reason.TOO_LARGE,
            f"the file has {len(text)} bytes; a document may have {limits.DOCUMENT.bytes}",
            where=Location(file=file),
            hint="check that this is the file you meant",
        )
    root = _compose(_decode(text, file), file, ours=ours)
    builder = _Builder(file)
    data = None if root is None else builder.build(root, ())
    if repeated is not None:
        repeated += [p for p in builder.problems if p.reason is Reason.DUPLICATE_KEY]
        builder.problems = [p for p in builder.problems if p.reason is not Reason.DUPLICATE_KEY]
    if builder.problems:
        raise StackproofError(*_told(builder.problems))
    return Document(file=file, data=data, positions=builder.positions)


def _told(found: Sequence[Problem]) -> tuple[Problem, ...]:
    """Return as many problems as one person reads, and one that says that there are more."""
    most = limits.PROBLEMS.count
    more = (
        Problem(
            reason=one.reason,
            message=f"there are more than {most} problems: those from here on are not listed",
            where=one.where,
            hint="check that this is the file you meant",
        )
        for one in found[most : most + 1]
    )
    return (*found[:most], *more)


def _decode(text: str | bytes, file: str) -> str:
    if isinstance(text, str):
        return text
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        where = _place_of(text[: error.start].decode(errors="replace"), file)
        raise fail(
            Reason.YAML_SYNTAX, "not UTF-8 text", where=where, hint="save the file as UTF-8"
        ) from None


def _compose(text: str, file: str, *, ours: bool) -> yaml.Node | None:
    """Return the root node of a text; every way in which it is not YAML is one error of ours."""
    where = Location(file=file)
    try:
        by_libyaml = ours and yaml.__with_libyaml__
        return yaml.compose(text, Loader=yaml.CSafeLoader if by_libyaml else _loader(file))
    except yaml.MarkedYAMLError as error:
        from stackproof.core import yaml_faults  # noqa: PLC0415 - for failures only

        raise StackproofError(yaml_faults.problem_of(error, text, file)) from None
    except yaml.reader.ReaderError as error:
        where = _place_of(text[: error.position], file)
        message = f"not YAML: the character U+{ord(text[error.position]):04X} may not stand here"
    except RecursionError:
        message = "nested too deeply"
    except (ValueError, OverflowError, yaml.YAMLError) as error:
        # PyYAML leaks these from escapes such as "\\UFFFFFFFF" and from `%YAML` with huge numbers.
        message = f"not YAML: {_one_line(str(error))}"
    raise fail(Reason.YAML_SYNTAX, message, where=where)


def _place_of(before: str, file: str) -> Location:
    """Return the place that comes after the text `before`."""
    line_start = before.rfind("\n") + 1
    return Location(file=file, line=before.count("\n") + 1, column=len(before) - line_start + 1)


def _loader(file: str) -> type[yaml.SafeLoader]:
    """Return a loader that stops at the node after which a document would be refused anyway."""
    left = itertools.count(2 * limits.DOCUMENT.count, -1)  # keys are nodes, too

    class Bounded(yaml.SafeLoader):
        def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
            if next(left) <= 0:
                raise _too_many(Location(file=file))
            return super().compose_node(parent, index)

    return Bounded


def _too_many(where: Location) -> StackproofError:
    return fail(
        Reason.TOO_LARGE,
        "the document expands to more values than it may hold",
        where=where,
        hint="do not nest YAML aliases",
    )


class _Builder:
    """Turns YAML nodes into data; the node count is bounded, so aliases cannot blow it up."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.positions: dict[Path, Location] = {}
        self.problems: list[Problem] = []
        self._nodes = 0
        self._counts: Counter[Reason] = Counter()
        self._constructor = yaml.constructor.SafeConstructor()

    def _at(self, node: yaml.Node) -> Location:
        mark = node.start_mark
        return Location(file=self.file, line=mark.line + 1, column=mark.column + 1)

    def build(self, node: yaml.Node, path: Path) -> Any:
        self._nodes += 1
        where = self._at(node)
        if self._nodes > limits.DOCUMENT.count or len(path) > limits.DOCUMENT.depth:
            raise _too_many(where)
        self.positions[path] = where
        if not self._is_plain(node):
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(child, (*path, i)) for i, child in enumerate(node.value)]
        return self._scalar(node)

    def _is_plain(self, node: yaml.Node) -> bool:
        """Return True for a node with the tag that its kind has by itself; report any other."""
        if node.tag in _PLAIN_TAGS[type(node)]:
            return True
        self._problem(
            Reason.UNSAFE_TAG,
            f"the YAML tag `{_short_tag(node.tag)}` is not allowed here",
            node,
            hint="write a plain value without a tag",
        )
        return False

    def _problem(
        self, reason: Reason, message: str, node: yaml.Node, *, hint: str | None = None
    ) -> None:
        self._counts[reason] += 1
        if self._counts[reason] <= limits.PROBLEMS.count + 1:  # one more tells that there are
            problem = Problem(reason=reason, message=message, hint=hint, where=self._at(node))
            self.problems.append(problem)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node)
            if key is None:
                continue
            if key in result:
                first = self.positions[(*path, key, KEY)]
                self._problem(
                    Reason.DUPLICATE_KEY,
                    f"the key `{key}` stands here twice",
                    key_node,
                    hint=f"remove one of them; the first is at line {first.line}",
                )
            self.positions[(*path, key, KEY)] = self._at(key_node)
            result[key] = self.build(value_node, (*path, key))
        return result

    def _key(self, node: yaml.Node) -> str | None:
        if not isinstance(node, yaml.ScalarNode) or node.tag == _MERGE_TAG:
            self._problem(Reason.WRONG_TYPE, "a key must be a plain word", node)
            return None
        if not self._is_plain(node):
            return None
        return self._text(node)

    def _scalar(self, node: yaml.Node) -> Any:
        if node.tag.endswith((":timestamp", ":str")):
            return self._text(node)  # a date is kept as the text that was written
        what = f"not a value of `{_short_tag(node.tag)}`"
        if len(node.value) > limits.NUMBER.bytes:  # one of many `:` would take minutes
            self._problem(Reason.WRONG_TYPE, what, node)
            return None
        try:
            value = self._constructor.construct_object(node)
        except (ValueError, LookupError, ArithmeticError, yaml.YAMLError):
            # PyYAML checks plain values only; `!!int ""` makes it look past the end of a text.
            self._problem(Reason.WRONG_TYPE, what, node)
            return None
        if isinstance(value, float) and not math.isfinite(value):
            self._problem(Reason.WRONG_TYPE, "a number must be finite", node)
            return None
        return value

    def _text(self, node: yaml.Node) -> str:
        """Return the text of a scalar: one that a path or an environment variable can hold."""
        text = str(node.value)
        if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
            self._problem(
                Reason.WRONG_TYPE, "a text may hold neither NUL nor half a character", node
            )
        return text


def _short_tag(tag: str) -> str:
    return tag.replace(_YAML, "!!")


schema = fitting.schema


def problems(document: Document, kind: str) -> tuple[Problem, ...]:
    """Return everything that is wrong with a document by the schema of its kind."""
    with contextlib.suppress(fitting.UnknownError):
        if fitting.fits(schema(kind), document.data):
            return ()
    import jsonschema  # noqa: PLC0415 - slow to import, and needed only where something is wrong

    validator = jsonschema.Draft202012Validator(schema(kind))
    found: list[Problem] = []
    for error in validator.iter_errors(document.data):
        found += _explain(error, document)
        if len(found) > limits.PROBLEMS.count:
            break
    unique = {(p.reason, p.message, p.where): p for p in found}
    return _told(sorted(unique.values(), key=_place))


def _place(problem: Problem) -> tuple[int, int]:
    return (problem.where.line, problem.where.column) if problem.where else (0, 0)


def _explain(error: Any, document: Document) -> list[Problem]:
    """Turn one jsonschema error into problems in our own words."""
    explain = _EXPLAIN.get(error.validator, _other)
    return explain(error, document, tuple(error.absolute_path))


def _named(path: Path) -> str:
    return f"`{'.'.join(str(part) for part in path)}`" if path else "the document"


def _unknown_keys(error: Any, document: Document, path: Path) -> list[Problem]:
    keys = error.schema.get("properties", {})
    known = sorted(keys)
    patterns = error.schema.get("patternProperties", {})
    unknown = (
        key
        for key in error.instance
        if key not in known and not any(re.search(pattern, key) for pattern in patterns)
    )
    told = itertools.islice(unknown, limits.PROBLEMS.count + 1)
    empty = [name for name in known if error.instance.get(name, "") is None]
    below = {key: name for name in empty for key in keys[name].get("properties", ())}
    return [_unknown_key(document, path, key, known, below.get(key)) for key in told]


def _missing_keys(error: Any, document: Document, path: Path) -> list[Problem]:
    return [
        document.problem(
            path,
            f"the key `{key}` is missing in {_named(path)}",
            _hint_of(error.schema.get("properties", {}).get(key, {})),
            reason=Reason.MISSING_KEY,
        )
        for key in error.validator_value
        if key not in error.instance
    ]


def _wrong_type(error: Any, document: Document, path: Path) -> list[Problem]:
    allowed = error.validator_value
    names = [allowed] if isinstance(allowed, str) else allowed
    forms = " or ".join(_TYPES[name] for name in names)
    found = _TYPES[_PYTHON_TYPES[type(error.instance)]]
    hint = _hint_of(error.schema)
    if "string" in names and not isinstance(error.instance, (list, dict)):
        # YAML reads `5.0`, `null`, `yes` as other than text.
        hint = f"put it in quotes if it is meant as text. {hint}" if hint else "put it in quotes"
    return [
        document.problem(
            path, f"{_named(path)} must be {forms}, not {found}", hint, reason=Reason.WRONG_TYPE
        )
    ]


def _not_a_choice(error: Any, document: Document, path: Path) -> list[Problem]:
    choices = [_as_written(value) for value in error.validator_value]
    hint = did_you_mean(_as_written(error.instance), choices)
    return [
        document.problem(
            path,
            f"`{_one_line(_as_written(error.instance))}` is not a value of {_named(path)}",
            f"{hint}it is one of: {', '.join(choices)}",
        )
    ]


def _as_written(value: Any) -> str:
    """Return a value as YAML has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _no_form(error: Any, document: Document, path: Path) -> list[Problem]:
    """Explain `anyOf` and `oneOf`: by the one form that was meant, when the type tells which."""
    branches: dict[Any, list[Any]] = {}
    for inner in error.context:
        branches.setdefault(inner.schema_path[0], []).append(inner)
    meant = [
        inners
        for inners in branches.values()
        if not any(inner.validator == "type" and not inner.path for inner in inners)
    ]
    if len(meant) == 1:
        return [problem for inner in meant[0] for problem in _explain(inner, document)]
    return [
        document.problem(
            path,
            f"{_named(path)} has none of the forms it may have",
            _hint_of(error.schema),
            reason=Reason.WRONG_TYPE,
        )
    ]


def _other(error: Any, document: Document, path: Path) -> list[Problem]:
    return [
        document.problem(
            path, f"{_named(path)} is not valid: {_one_line(error.message)}", _hint_of(error.schema)
        )
    ]


_EXPLAIN = {
    "additionalProperties": _unknown_keys,
    "required": _missing_keys,
    "type": _wrong_type,
    "enum": _not_a_choice,
    "anyOf": _no_form,
    "oneOf": _no_form,
}

_TYPES = {
    "string": "text",
    "object": "a mapping",
    "array": "a list",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "null": "empty",
}


_PYTHON_TYPES: dict[type, str] = {
    str: "string",
    dict: "object",
    list: "array",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


def _one_line(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= 160 else f"{line[:160]}…"


def _hint_of(node: Mapping[str, Any]) -> str | None:
    text = node.get("description")
    return str(text) if text else None


def _unknown_key(
    document: Document, path: Path, key: str, known: list[str], above: str | None
) -> Problem:
    hint = did_you_mean(key, known).strip() or f"known keys are: {', '.join(known)}"
    if above:
        hint = f"indent it below `{above}:`, which is empty and has this key"
    return Problem(
        reason=Reason.UNKNOWN_KEY,
        message=f"unknown key `{_one_line(key)}`" + (f" in {_named(path)}" if path else ""),
        hint=hint,
        where=document.where_key(*path, key),
    )
