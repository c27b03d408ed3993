from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from stackproof.core import document, ids, limits
from stackproof.core.effects import shipped
from stackproof.core.errors import Location, Problem, Reason, StackproofError

TEXT = """\
# a comment
name: ünï
list:
  - one
  - {two: 2, "three": 3.5}
empty:
nested:
  deeper: {deepest: yes}
"""

COVERS = ("core/document.py", "core/yaml_faults.py")


def at(line: int, column: int) -> Location:
    return Location(file="a.yaml", line=line, column=column)


def refused(text: str | bytes) -> StackproofError:
    with pytest.raises(StackproofError) as caught:
        document.parse(text, file="a.yaml")
    return caught.value


def test_values():
    assert document.parse(TEXT, file="a.yaml").data == {
        "name": "ünï",
        "list": ["one", {"two": 2, "three": 3.5}],
        "empty": None,
        "nested": {"deeper": {"deepest": True}},
    }


@pytest.mark.parametrize(
    ("path", "key", "value"),
    [
        (("name",), at(2, 1), at(2, 7)),
        (("list",), at(3, 1), at(4, 3)),
        (("list", 0), at(4, 5), at(4, 5)),
        (("list", 1), at(5, 5), at(5, 5)),
        (("list", 1, "two"), at(5, 6), at(5, 11)),
        (("list", 1, "three"), at(5, 14), at(5, 23)),
        (("empty",), at(6, 1), at(6, 7)),
        (("nested", "deeper", "deepest"), at(8, 12), at(8, 21)),
        (("nested", "not", "there"), at(8, 3), at(8, 3)),
        ((), at(2, 1), at(2, 1)),
    ],
)
def test_positions(path, key, value):
    parsed = document.parse(TEXT, file="a.yaml")
    assert parsed.where(*path) == value
    assert parsed.where_key(*path) == key


def test_the_place_in_nothing_is_the_file():
    parsed = document.parse("", file="a.yaml")
    assert parsed.data is None
    assert parsed.where("x") == Location(file="a.yaml")


def test_a_byte_order_mark_is_no_part_of_the_first_key():
    assert document.parse("\ufeffa: 1".encode(), file="a.yaml").data == {"a": 1}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2024-01-01", "2024-01-01"),
        ("12345678901234567890123", 12345678901234567890123),
        ("'1'", "1"),
        ("~", None),
        ("[a, &x b, *x]", ["a", "b", "b"]),
        ('"<<"', "<<"),
        ("!!str 1", "1"),
    ],
)
def test_scalars(text, value):
    assert document.parse(text, file="a.yaml").data == value


@pytest.mark.parametrize(
    ("text", "reason", "line", "column"),
    [
        ("a: [1, 2", Reason.YAML_SYNTAX, 1, 4),
        ("a: 1\n b: 2", Reason.YAML_SYNTAX, 2, 3),
        ("a: 1\n---\nb: 2", Reason.YAML_SYNTAX, 2, 1),
        ("a: *nowhere", Reason.YAML_SYNTAX, 1, 4),
        ("\ta: 1", Reason.YAML_SYNTAX, 1, 1),
        ("a: 1\nb: \x07", Reason.YAML_SYNTAX, 2, 4),
        ("a: 1\nb: \x00", Reason.YAML_SYNTAX, 2, 4),
        (b"a: 1\nb: \xff\xfe", Reason.YAML_SYNTAX, 2, 4),
        ("a: 1\n".encode("utf-16"), Reason.YAML_SYNTAX, 1, 1),
        ('a: "\\UFFFFFFFF"', Reason.YAML_SYNTAX, 0, 0),
        ("%YAML " + "9" * 5000 + ".1\n---\na: 1", Reason.YAML_SYNTAX, 0, 0),
        ("[" * 50_000, Reason.YAML_SYNTAX, 0, 0),
        ("a: " * 1000, Reason.YAML_SYNTAX, 1, 5),
        ("a: !!python/object/apply:os.system [true]", Reason.UNSAFE_TAG, 1, 4),
        ("!!python/name:os.system : 1", Reason.UNSAFE_TAG, 1, 1),
        ("a: !mine 1", Reason.UNSAFE_TAG, 1, 4),
        ("a: !!binary aGk=", Reason.UNSAFE_TAG, 1, 4),
        ("a: !!set {x}", Reason.UNSAFE_TAG, 1, 4),
        ("a: !!map word", Reason.UNSAFE_TAG, 1, 4),
        ("a: !!str [b]", Reason.UNSAFE_TAG, 1, 4),
        ("a: !!int {b: 1}", Reason.UNSAFE_TAG, 1, 4),
        ("a: 1\nb: 2\na: 3", Reason.DUPLICATE_KEY, 3, 1),
        ("a: {b: 1, 'b': 2}", Reason.DUPLICATE_KEY, 1, 11),
        ("1: a\n'1': b", Reason.DUPLICATE_KEY, 2, 1),
        ("? [a]\n: 1", Reason.WRONG_TYPE, 1, 3),
        ("x: &x {a: 1}\ny: {<<: *x}", Reason.WRONG_TYPE, 2, 5),
        ("a: " + "9" * 5000, Reason.WRONG_TYPE, 1, 4),
        ("a: !!int ''", Reason.WRONG_TYPE, 1, 4),
        ("a: !!float ''", Reason.WRONG_TYPE, 1, 4),
        ("a: !!bool maybe", Reason.WRONG_TYPE, 1, 4),
        ("a: .inf", Reason.WRONG_TYPE, 1, 4),
        ("a: .nan", Reason.WRONG_TYPE, 1, 4),
        ("a: 1.0e+999", Reason.WRONG_TYPE, 1, 4),
        ("a: 1" + ":59" * 400 + ".5", Reason.WRONG_TYPE, 1, 4),
        ('a: "x\\0y"', Reason.WRONG_TYPE, 1, 4),
        ('"x\\0y": 1', Reason.WRONG_TYPE, 1, 1),
        ('a: "\\ud800"', Reason.WRONG_TYPE, 1, 4),
        ("&a [*a]", Reason.TOO_LARGE, 1, 1),
        ("&a {b: *a}", Reason.TOO_LARGE, 1, 1),
        ("[" * 66 + "]" * 66, Reason.TOO_LARGE, 1, 66),
        ("a" * (limits.DOCUMENT.bytes + 1), Reason.TOO_LARGE, 0, 0),
    ],
    ids=lambda value: ascii(value[:30]) if isinstance(value, str | bytes) else "",
)
def test_refused(text, reason, line, column):
    problem = refused(text).problems[0]
    assert problem.reason is reason
    assert problem.where == Location(file="a.yaml", line=line, column=column)


def test_a_bomb_of_aliases_is_refused():
    layers = [f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]" for i in range(1, 12)]
    bomb = "\n".join(["l0: &l0 [lol, lol]", *layers])
    assert refused(bomb).reason is Reason.TOO_LARGE


def test_a_hundred_megabytes_are_refused_before_they_are_parsed(monkeypatch):
    monkeypatch.delattr(yaml, "compose")
    assert refused(b"a: 1\n" * 20_000_000).reason is Reason.TOO_LARGE


def test_problems_of_a_document_come_all_at_once():
    error = refused("a: !x 1\nb: 2\nb: 3\nc: .inf\n? [d]\n: 4")
    assert [problem.reason for problem in error.problems] == [
        Reason.UNSAFE_TAG, Reason.DUPLICATE_KEY, Reason.WRONG_TYPE, Reason.WRONG_TYPE,
    ]  # fmt: skip


# Characters that mean something in YAML come often.
PIECES = st.sampled_from([
    "a", "b", ": ", "- ", "\n", "  ", "[", "]", "{", "}", ",", "&a ", "*a", "!", "!!int ", "!!map ",
    "!!float ", "!!bool ", "!!python/object:x ", "|", ">", "'", '"', "\\", "\\u", "#", "%", "---",
    "...", "? ", "<<", "0x", "1", ".", ":", "e", "~", "\t", "\x00", "é", "\ud800", "😀", "2024-01-01",
])  # fmt: skip


def _one_of_both(text: str | bytes) -> None:
    try:
        parsed = document.parse(text, file="a.yaml")
    except StackproofError as error:
        places = [problem.where for problem in error.problems]
    else:
        places = list(parsed.positions.values())
        json.loads(ids.canonical_json(parsed.data))
    assert all(place and place.file == "a.yaml" for place in places)


@given(st.lists(PIECES, max_size=30).map("".join))
def test_anything_like_yaml_is_a_document_or_an_error_of_ours(text):
    _one_of_both(text)


@given(st.text() | st.binary())
def test_anything_is_a_document_or_an_error_of_ours(text):
    _one_of_both(text)


# Line ends other than newline are folded into spaces by YAML.
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0\x85\u2028\u2029"), max_size=8)
DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=15,
)


@given(DATA, st.booleans())
def test_what_pyyaml_writes_is_read_back_and_every_value_has_a_place(data, flow):
    text = yaml.safe_dump(data, allow_unicode=True, default_flow_style=flow)
    parsed = document.parse(text, file="a.yaml")
    assert parsed.data == data

    def visit(value: Any, path: document.Path) -> None:
        assert path in parsed.positions
        if isinstance(value, dict):
            for key, inner in value.items():
                assert parsed.where_key(*path, key).line
                visit(inner, (*path, key))
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                visit(inner, (*path, index))

    visit(data, ())


SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "size"],
    "properties": {
        "name": {"type": "string", "description": "what it is called"},
        "size": {"type": ["integer", "null"], "minimum": 1, "description": "how large"},
        "kind": {"enum": ["shm", "cxi", 3]},
        "form": {
            "description": "a word or a mapping",
            "oneOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {"inner": {"type": "integer"}},
                },
            ],
        },
        "two": {"anyOf": [{"type": "object", "required": ["a"]}, {"required": ["b"]}]},
        "free": {
            "type": "object",
            "additionalProperties": False,
            "patternProperties": {"^x-": {"type": "string"}},
        },
        "many": {"type": "array", "items": {"type": "number"}, "uniqueItems": True},
    },
}


@pytest.fixture
def schema(monkeypatch):
    monkeypatch.setattr(document, "schema", lambda _: SCHEMA)


def found(text: str) -> list[tuple[Reason, int, int]]:
    problems = document.problems(document.parse(text, file="a.yaml"), "test")
    places = [problem.where or Location(file="") for problem in problems]
    return [(p.reason, w.line, w.column) for p, w in zip(problems, places, strict=True)]


@pytest.mark.usefixtures("schema")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: a\nsize: 1", []),
        ("name: a\nsize:", []),
        ("name: a\nsize: 1\nform: b", []),
        ("name: a\nsize: 1\nform: {inner: 3}", []),
        ("name: a\nsize: 1\nfree: {x-a: b}", []),
        ("", [(Reason.WRONG_TYPE, 0, 0)]),
        ("[a]", [(Reason.WRONG_TYPE, 1, 1)]),
        ("name: a", [(Reason.MISSING_KEY, 1, 1)]),
        ("{}", [(Reason.MISSING_KEY, 1, 1), (Reason.MISSING_KEY, 1, 1)]),
        ("name: 1\nsize: a", [(Reason.WRONG_TYPE, 1, 7), (Reason.WRONG_TYPE, 2, 7)]),
        ("name: a\nsize: 1\nnaem: b\nzzz: c", [(Reason.UNKNOWN_KEY, 3, 1), (Reason.UNKNOWN_KEY, 4, 1)]),
        ("name: a\nsize: 0", [(Reason.INVALID_VALUE, 2, 7)]),
        ("name: a\nsize: 1\nkind: cxii", [(Reason.INVALID_VALUE, 3, 7)]),
        ("name: a\nsize: 1\nkind: [1]", [(Reason.INVALID_VALUE, 3, 7)]),
        ("name: a\nsize: 1\nform: 1", [(Reason.WRONG_TYPE, 3, 7)]),
        ("name: a\nsize: 1\nform: {inner: b}", [(Reason.WRONG_TYPE, 3, 15)]),
        ("name: a\nsize: 1\nform: {iner: 1}", [(Reason.UNKNOWN_KEY, 3, 8)]),
        ("name: a\nsize: 1\ntwo: {}", [(Reason.WRONG_TYPE, 3, 6)]),
        ("name: a\nsize: 1\nfree: {x-a: 1, y: b}", [(Reason.WRONG_TYPE, 3, 13), (Reason.UNKNOWN_KEY, 3, 16)]),
        ("name: a\nsize: 1\nmany: [1, true, 1]", [(Reason.INVALID_VALUE, 3, 7), (Reason.WRONG_TYPE, 3, 11)]),
    ],
)  # fmt: skip
def test_schema_problems(text, expected):
    assert sorted(found(text)) == sorted(expected)


@pytest.mark.usefixtures("schema")
@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("nmae: a\nname: a\nsize: 1", "`name`"),
        ("qqqqq: a\nname: a\nsize: 1", "size"),
        ("name: a\nsize: 1\nkind: cxii", "`cxi`"),
        ("name: a\nsize: 1\nkind: 7", "shm, cxi, 3"),
        ("name: a", "how large"),
        ("name: 1\nsize: 1", "put it in quotes if it is meant as text. "),
        ("name: 1\nsize: 1", "what it is called"),
        ("name: a\nsize: 1\nform: 1", "a word or a mapping"),
    ],
)
def test_hints_say_what_to_do(text, hint):
    (problem,) = document.problems(document.parse(text, file="a.yaml"), "test")
    assert hint in (problem.hint or "")


@pytest.mark.usefixtures("schema")
@given(DATA)
def test_whatever_the_data_the_schema_problems_have_places(data):
    text = yaml.safe_dump(data, allow_unicode=True)
    for problem in document.problems(document.parse(text, file="a.yaml"), "test"):
        assert problem.where
        assert "\n" not in problem.message


def test_schemas_are_read_from_the_package():
    assert document.schema("recipe")["type"] == "object"


def test_a_tab_has_a_hint():
    for text in ("name: x\n\tversion: 1\n", "a:\n\t- b\n"):
        with pytest.raises(StackproofError) as caught:
            document.parse(text, file="x.yaml")
        (problem,) = caught.value.problems
        assert problem.reason is Reason.YAML_SYNTAX
        assert "write two in the place of the tab" in str(problem.hint)


@pytest.mark.parametrize(
    ("text", "line", "words", "hint"),
    [
        ("a: 1\nsome words\nb: 2\n", 2, "no `: ` behind a key", "write `key: value`"),
        ("a: 1\nsome words\n", 2, "no `: ` behind a key", "write `key: value`"),
        ("a: 1\nb:c\nd: e\n", 2, "no `: ` behind a key", "put a blank behind `b:`"),
        ("a: @b\n", 1, "a value cannot begin like this", "the whole value in quotes"),
        ("a: %b  # c\n", 1, "a value cannot begin like this", "the whole value in quotes"),
        ("a: *b\n", 1, "a value cannot begin like this", "the whole value in quotes"),
        ("a: b: c\n", 1, "a `: ` stands where none may be", "the whole value in quotes"),
        ("a: - b\n", 1, "a `- ` stands where none may be", "its own line"),
        ('a: 1\nb: "c\nd: e\n', 2, "the quote that begins here", "put the same at its end"),
        ("a: 1\nb: [c\nd: e\n", 2, "the bracket that begins here", "put `]`"),
        ("a: {b: c\nd: e\n", 1, "the bracket that begins here", "put `}`"),
        ('a: "b" c\n', 1, "behind a value in quotes", "the whole value in quotes"),
        ("a:\n  b: c\n  - d\n", 3, "does not go on with", "begin in one column"),
        ("a:\n  - b\n  c: d\n", 3, "does not go on with", "begin in one column"),
    ],
)
def test_what_is_no_yaml_is_said_in_words_with_its_line(text, line, words, hint):
    (problem,) = refused(text).problems
    assert problem.reason is Reason.YAML_SYNTAX
    assert problem.where is not None
    assert problem.where.line == line
    assert problem.detail == text.split("\n")[line - 1].strip()
    assert words in problem.message
    assert hint in str(problem.hint)


def test_a_line_with_a_secret_is_not_shown():
    for text in ("a: 1\npassword: hush: hush\n", "private_key: |\n  AB\n CD: EF\n"):
        shown = str(refused(text))
        assert "hush" not in shown
        assert "EF" not in shown
    many = "".join(f"  - word{number}\n" for number in range(40))
    assert refused(f"password:\n{many}  - hush: a: b\n").problems[0].detail is None
    assert len(str(refused("a: b: " + "c" * 5000).problems[0].detail)) < 100


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("name: x\n  mpi: y\n", "line 2 is indented differently from line 1"),
        ("mpi:\n   a: 1\n\n  b: 2\n", "line 4 is indented differently from line 2"),
        ("name: x\nmpi: a: b\n", "put the whole value in quotes"),
    ],
)
def test_an_odd_indent_has_a_hint(text, hint):
    with pytest.raises(StackproofError) as caught:
        document.parse(text, file="x.yaml")
    assert (caught.value.problems[0].hint or "").partition(":")[0] == (hint or "")


def test_choices_are_named_as_yaml_writes_them():
    text = "tools: {compiler: [gcc], specs: [], unify: maybe}\n"
    found = document.problems(document.parse(text, file="x"), "stackinator-environments-2")
    assert [p.hint for p in found] == ["it is one of: when_possible, true, false"]


@pytest.mark.battery
def test_what_comes_with_stackproof_is_the_same_by_libyaml():
    """Its texts are read in a tenth of the time, and say the same at the same places."""
    paths = [path for kind in shipped.KINDS for path in sorted(shipped.root(kind).rglob("*.yaml"))]
    assert len(paths) > 40
    for path in paths:
        text = path.read_bytes()
        ours = document.parse(text, file=path.name, ours=True)
        assert ours == document.parse(text, file=path.name), path


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("".join(f"namex{number}: 1\n" for number in range(500)), Reason.UNKNOWN_KEY),
        ("mount-points:\n" + "  - 5\n" * 500, Reason.WRONG_TYPE),
    ],
)
def test_no_more_problems_are_listed_than_somebody_reads(text, reason):
    found = document.problems(document.parse(text, file="a.yaml"), "site")
    assert len(found) == limits.PROBLEMS.count + 1
    assert reason in {one.reason for one in found}
    assert "not listed" in found[-1].message


def test_of_keys_that_stand_twice_no_more_are_listed_either():
    text = "name: a\n" * 500 + "other: !!python/object:os.system x\n"
    with pytest.raises(StackproofError) as caught:
        document.parse(text, file="a.yaml")
    assert len(caught.value.problems) == limits.PROBLEMS.count + 1
    repeated: list[Problem] = []
    with pytest.raises(StackproofError) as caught:
        document.parse(text, file="a.yaml", repeated=repeated)
    assert [one.reason for one in caught.value.problems] == [Reason.UNSAFE_TAG]
    assert len(repeated) == limits.PROBLEMS.count + 1


@pytest.mark.parametrize(
    ("text", "mark"),
    [
        ("packages: {}\n  mpich: {version: [4]}\n", "take off `{}`: it says that `packages`"),
        ("a:\n- b: []  # none\n\n    # more\n    - c\n", "take off `[]`: it says that `b`"),
        ("a: {}\nb:\n  c: [\n", ""),
        ("a: 1\n  b: 2\n", "line 2 is indented differently from line 1"),
    ],
)
def test_keys_below_a_value_that_is_empty(text, mark):
    (problem,) = refused(text).problems
    assert problem.reason is Reason.YAML_SYNTAX
    assert str(problem.hint or "").startswith(mark)
    assert bool(problem.hint) == bool(mark)
