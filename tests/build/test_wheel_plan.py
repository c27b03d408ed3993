"""Stack and lock to plan: ids pin what is done, and nothing of this machine's paths is in it."""

from __future__ import annotations

import json

import pytest

from stackproof.build.engine import Sources
from stackproof.build.engines.wheel.engine import describe_image, plan, render_bom, wants
from stackproof.build.engines.wheel.recipe import parse_recipe
from stackproof.build.engines.wheel.stack import Lock, Stack
from stackproof.build.plan import Plan
from stackproof.build.stack import Artefact
from stackproof.core import document
from stackproof.core.errors import Reason, StackproofError

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


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (MPICH.replace("name: x", "name: y"), 2),
        (MPICH + "mount: /opt/other\n", 0),
        (MPICH + "image: {level: 19}\n", 2),
        (MPICH + "benchmarks: []\n", 1),  # nothing is compiled
        (MPICH + "views: {default: {set: {A: b}}}\n", 2),
    ],
)
def test_whatever_decides_the_image_changes_the_id(other: str, same: int) -> None:
    before, after = made(), made(other)
    assert before.id != after.id
    assert len({step.id for step in before.steps} & {step.id for step in after.steps}) == same


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
