"""Hooks: Jinja2 as Stackinator has it, bash as it is written, and nothing of the machine."""

from __future__ import annotations

import pytest

from stackinators import understand
from stackproof.core import limits
from stackproof.core.errors import Reason

COVERS = ("build/engines/spack/stackinator/reader.py",)


def rendered(text: str | bytes, **others: str) -> str:
    stack, findings = understand({"post-install": text, **others})
    assert findings.problems == []
    return stack.post_install


def problem(text: str | bytes, **others: str):
    _, findings = understand({"post-install": text, **others})
    (only,) = findings.problems
    assert only.where.file == "recipe/post-install"
    return only


@pytest.mark.parametrize("version", [1, 2, 3])
def test_variables(version):
    text = "{{ env.mount }} {{env.config}} {{ env['build'] }} {{ env.spack }} {{ verbose }}\n"
    stack, _ = understand({"pre-install": text}, version=version)
    mount = "/user-environment"
    assert stack.pre_install == f"{mount} {mount}/config /build /build/spack False\n"
    assert stack.post_install is None


def test_the_last_line_ends_once():
    assert rendered("true") == rendered("true\n") == "true\n"
    assert rendered("true\n\n") == "true\n\n"


def test_the_language_of_templates():
    assert rendered("{# gone #}{% for n in range(3) %}{{ n }}{% endfor %}") == "012\n"
    assert rendered("{% raw %}{{ env.mount }}{% endraw %}") == "{{ env.mount }}\n"


def test_other_files_of_the_recipe_can_be_included():
    assert rendered("{% include 'more.sh' %}", **{"more.sh": "{{ env.build }}"}) == "/build\n"


@pytest.mark.parametrize(
    "text",
    ["${#names[@]}", "${#name}", "${#names[$i]}", "${#}", "${#@}", "${#1}", "${#names[*]} ${#x}"],
)
def test_lengths_of_bash(text):
    assert rendered(f"echo {text} {{{{ env.build }}}}") == f"echo {text} /build\n"
    assert rendered(f"{{% raw %}}{text}{{% endraw %}}") == f"{text}\n"


def test_an_unknown_variable_is_empty_and_noted():
    stack, findings = understand({"post-install": "true\na {{ env.nothing }} b{{ other }}"})
    assert stack.post_install == "true\na  b\n"
    places = [(n.where.line, n.where.column) for n in findings.notes]
    assert places == [(2, 10), (2, 25)]


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("true\n  {# never closed", 2, 3),
        ("a ${#names[@]} {# b", 1, 16),
        ("{{ a b }}", 1, 1),
        ("true\n{% nothing %}", 2, 1),
        ("{% if true %}", 1, 1),
        ("awk '{{print $1}}'", 1, 6),
    ],
)
def test_syntax(text, line, column):
    found = problem(text)
    assert found.reason is Reason.INVALID_VALUE
    assert (found.where.line, found.where.column) == (line, column)
    assert "raw" in found.hint


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__.__mro__ }}", "{{ env.__init__.__globals__['os'] }}",
        "{{ 'a' * 10000000000 }}", "{{ 9 ** 9 ** 9 }}", "{{ 1 / 0 }}", "{{ nothing.more }}",
        "{% include '/etc/passwd' %}", "{% include '../config.yaml' %}", "{% include 'post-install' %}",
        "{% for a in range(99999) %}{{ 'x' * 1 }}xxxxxxxxxxxx{% endfor %}", "{{ range(10000000) }}",
        "{{ env.update({}) }}",
    ],
)  # fmt: skip
def test_templates_reach_nothing(text):
    assert problem(text).reason is Reason.INVALID_VALUE


def test_what_is_hidden_is_empty():
    assert rendered("{{ self.__dict__ }}{{ env.__class__ }}") == "\n"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"#!/bin/sh\n\xff\xfe", Reason.WRONG_TYPE),
        (b"\x7fELF\0\0", Reason.WRONG_TYPE),
        (b"x" * (limits.DOCUMENT.bytes + 1), Reason.TOO_LARGE),
        ("\ue000".encode(), Reason.WRONG_TYPE),
    ],
    ids=["latin", "binary", "long", "private"],
)
def test_hooks_are_text(raw, reason):
    assert problem(raw).reason is reason
