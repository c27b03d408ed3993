"""Stack and lock to plan: ids pin what is done, and nothing of this machine's paths is in it."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from stackproof.build.engine import Sources
from stackproof.build.engines.wheel.engine import describe_image, plan, render_bom, wants
from stackproof.build.engines.wheel.recipe import parse_recipe
from stackproof.build.engines.wheel.stack import Lock, Stack
from stackproof.build.plan import Plan
from stackproof.build.stack import Artefact
from stackproof.core import document, noun
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.value import replace

FACTS = {"architecture": "x86_64", "compiler": "gcc 12.2.0 (Debian 12.2.0-14)"}
SOURCES = Sources(recipe={"r.yaml": "name: x\n"}, csrc={"main.c": "int x;", "a.h": ""})


def stack_of(text: str) -> Stack:
    return parse_recipe(document.parse(text, file="r.yaml"), FACTS)


def lock_of(stack: Stack, version: str = "5.0.2") -> Lock:
    artefacts = tuple(
        Artefact(
            name=requirement.name,
            version=version,
            filename=f"{requirement.name}-{version}-py3-none-any.whl",
            sha256="ab" * 32,
            licence="BSD",
        )
        for requirement in stack.requirements
    )
    return Lock(engine="wheel", wants=wants(stack), artefacts=artefacts)


MPICH = "name: x\nversion: '1'\nmpi: {family: mpich, version: '5.0.2'}\n"


def made(text: str = MPICH) -> Plan:
    stack = stack_of(text)
    return plan(stack, lock_of(stack), SOURCES)


def test_steps_in_order_and_chained() -> None:
    steps = made().steps
    assert [step.name for step in steps] == ["install", "benchmark", "metadata", "image"]
    for before, after in pairwise(steps):
        assert before.id in after.inputs


def test_a_plan_is_the_same_everywhere() -> None:
    """No path of this machine, no interpreter, no time: the id repeats."""
    assert made().id == made().id
    text = noun.to_json(made())
    assert "@python@" in text
    for trace in ("/home", "/root", "site-packages", ".cache"):
        assert trace not in text


@pytest.mark.parametrize(
    "other",
    [
        MPICH.replace("name: x", "name: y"),
        MPICH + "mount: /opt/other\n",
        MPICH + "image: {level: 19}\n",
        MPICH + "benchmarks: []\n",
        MPICH + "views: {default: {set: {A: b}}}\n",
    ],
)
def test_whatever_decides_the_image_changes_the_id(other: str) -> None:
    assert made(other).id != made().id


def test_an_early_step_keeps_its_id_when_only_later_ones_change() -> None:
    first, other = made(), made(MPICH + "views: {default: {set: {A: b}}}\n")
    assert [s.id for s in first.steps[:2]] == [s.id for s in other.steps[:2]]


def test_another_digest_is_another_plan() -> None:
    stack = stack_of(MPICH)
    lock = lock_of(stack)
    other = replace(lock, artefacts=(replace(lock.artefacts[0], sha256="cd" * 32),))
    assert plan(stack, lock, SOURCES).id != plan(stack, other, SOURCES).id


def test_without_the_native_program_nothing_is_compiled() -> None:
    assert "benchmark" not in [step.name for step in made(MPICH + "benchmarks: []\n").steps]


def test_the_image_describes_itself() -> None:
    stack = stack_of(MPICH + "views: {default: {set: {HERE: '@mount@/a', P: '@prefix@/b'}}}\n")
    image = describe_image(stack, lock_of(stack))
    assert image.mpi is not None
    assert image.mpi.prefix == "/user-environment/mpich-5.0.2"
    env = image.views["default"].env
    assert env.set["HERE"] == "/user-environment/a"
    assert env.set["P"] == "/user-environment/mpich-5.0.2/b"
    assert env.prepend["PATH"] == ("/user-environment/mpich-5.0.2/bin",)
    assert image.benchmarks[0].path == "/user-environment/benchmarks/stackproof-bench"


def test_bill_of_materials_is_valid_cyclonedx_and_repeats() -> None:
    stack = stack_of(MPICH)
    lock = lock_of(stack)
    text = render_bom(stack, lock)
    assert text == render_bom(stack, lock)
    data = json.loads(text)
    assert data["bomFormat"] == "CycloneDX"
    assert "timestamp" not in data["metadata"]
    part = data["components"][0]
    assert part["hashes"] == [{"alg": "SHA-256", "content": "ab" * 32}]
    assert part["purl"].startswith("pkg:pypi/mpich@5.0.2")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("name: x\nmpi: {family: cray-mpich}\n", 1),
        ("name: x\nmpi: {family: mpich}\nbenchmarks: [IMB-MPI1]\n", 1),
        ("name: x\nmpi: {family: cray-mpich}\nbenchmarks: [IMB-MPI1]\n", 2),
    ],
)
def test_what_cannot_be_had(text: str, count: int) -> None:
    with pytest.raises(StackproofError) as caught:
        stack_of(text)
    assert [p.reason for p in caught.value.problems] == [Reason.UNSUPPORTED] * count
    assert all(problem.hint for problem in caught.value.problems)
