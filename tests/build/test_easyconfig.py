"""Texts of easyconfigs: whatever a value holds, EasyBuild reads that value and nothing else."""

from __future__ import annotations

import ast
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stackproof.build.engines.easybuild.chain import (
    EXTERNAL_MODULE,
    SYSTEM,
    Template,
    literal,
    render,
)

VALUES = st.recursive(
    st.text() | st.booleans() | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=8,
)


def parsed(text: str) -> dict[str, object]:
    """Return the assignments of a text, which must consist of them alone."""
    module = ast.parse(text)
    found = {}
    for statement in module.body:
        assert isinstance(statement, ast.Assign)
        (target,) = statement.targets
        assert isinstance(target, ast.Name)
        found[target.id] = ast.literal_eval(statement.value)
    return found


def filled(value: object) -> object:
    """Return a value as EasyBuild has it after it filled in its own values (here: none known).

    An odd number of `%` before `(name)s` would be filled in; an even one is halved.
    """
    if isinstance(value, str):
        for marks in re.findall(r"(%+)\(\w+\)\w", value):
            assert len(marks) % 2 == 0, "EasyBuild would put something in"
        return re.sub(r"%+(?=\(\w+\)\w)", lambda found: found[0][: len(found[0]) // 2], value)
    if isinstance(value, dict):
        return {filled(key): filled(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(filled(inner) for inner in value)
    return value


@given(VALUES)
def test_a_value_comes_back_as_it_was(value: object) -> None:
    if value in ("", [], (), {}) and not isinstance(value, bool | int):
        assert parsed(render({"x": value})) == {}
    else:
        assert filled(parsed(render({"x": value}))["x"]) == value


@pytest.mark.parametrize(
    "text",
    [
        "'; import os; os.system('x') #",
        "a\nimport os",
        '"""',
        "\\",
        "x\\' + open('/etc/passwd').read() + \\'",
        "\u2028y = 2",
    ],
)
def test_no_text_becomes_code(text: str) -> None:
    assert parsed(render({"description": text})) == {"description": text}


def test_what_looks_like_a_template_is_none() -> None:
    assert literal("%(installdir)s and 10%") == "'%%(installdir)s and 10%'"
    assert literal(Template("%(installdir)s/lib")) == "'%(installdir)s/lib'"


def test_constants_of_easybuild_stand_bare() -> None:
    text = render({"toolchain": SYSTEM, "dependencies": [("cuda/12.8", EXTERNAL_MODULE)]})
    assert text == "toolchain = SYSTEM\ndependencies = [('cuda/12.8', EXTERNAL_MODULE)]\n"


def test_a_long_list_has_an_item_a_line() -> None:
    items = [f"item number {number}" for number in range(9)]
    text = render({"x": items})
    assert text.count("\n") == 11
    assert parsed(text) == {"x": items}


def test_empty_parameters_are_left_out_and_false_is_not_empty() -> None:
    assert render({"a": None, "b": "", "c": [], "runtest": False}) == "runtest = False\n"


def test_a_parameter_has_a_name_of_python() -> None:
    with pytest.raises(ValueError, match="no name"):
        render({"a = 1; b": 2})
    with pytest.raises(TypeError):
        literal(1.5)
