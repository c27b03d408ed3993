"""What every engine holds, with one small stack of each; and the ids of its steps.

An id that changes means that everybody builds that step again: it is named in the changelog, and
STACKPROOF_WRITE_GOLDEN=1 python -m pytest tests/build/test_engine_contract.py writes it again.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import crayrelease
import easybuilds
import guixpacks
from spackstacks import locked, stack
from stackproof.build.effects import builders
from stackproof.build.engine import Sources
from stackproof.build.engines.easybuild import stack as easybuild_stack
from stackproof.build.engines.easybuild.recipe import parse_easybuild_recipe
from stackproof.build.engines.guix.engine import parse_guix_recipe
from stackproof.build.engines.spack.stackinator.cluster import ClusterConfig
from stackproof.build.engines.spack.stackinator.network import site_facts
from stackproof.build.engines.vendor.engine import parse_vendor_recipe
from stackproof.build.engines.wheel.engine import wants
from stackproof.build.engines.wheel.recipe import parse_recipe
from stackproof.build.engines.wheel.stack import Lock
from stackproof.build.plan import Plan
from stackproof.build.stack import Artefact
from stackproof.core import document, noun
from stackproof.core.errors import StackproofError
from stackproof.core.value import Value, replace

GOLDEN = Path(__file__).parents[1] / "golden" / "step-ids"
RECIPE = 'name: small\nmpi: {family: mpich, version: "5.0.2"}\nviews: {default: {description: a}}\n'
FACTS = {"architecture": "x86_64", "compiler": "gcc 12.2.0"}
SOURCES = Sources(recipe={"r.yaml": RECIPE}, csrc={"main.c": "int x;\n", "a.h": ""})


class Sample(Value, kw_only=False):
    """A stack with the lock that answers it, and a stack that needs another lock."""

    stack: Any
    lock: Any
    other: Any


def wheel() -> Sample:
    made = parse_recipe(document.parse(RECIPE, file="r.yaml"), FACTS)
    files = Artefact(
        name="mpich", version="5.0.2", filename="mpich-5.0.2-py3-none-manylinux_2_28_x86_64.whl",
        sha256="cd" * 32, licence="BSD",
    )  # fmt: skip
    other = parse_recipe(document.parse(RECIPE.replace("5.0.2", "4.3.1"), file="r.yaml"), FACTS)
    return Sample(made, Lock(engine="wheel", wants=wants(made), artefacts=(files,)), other)


def easybuild() -> Sample:
    made = easybuilds.stack()
    lock = replace(easybuilds.lock(), wants=easybuild_stack.wants(made))
    return Sample(made, lock, replace(made, easybuild="5.0.0"))


def of_spack() -> Sample:
    made = stack(2)
    return Sample(made, locked(made), replace(made, target="zen3"))


def vendor() -> Sample:
    text = (
        "engine: vendor\nname: small\nmpi: {family: cray-mpich, version: '8.1'}\ngtl: cuda\n"
        "xpmem: true\nlibraries: [/opt/cray/libfabric/1.22.0/lib64]\n"
    )
    made = parse_vendor_recipe(document.parse(text, file="r.yaml"), FACTS)
    return Sample(made, crayrelease.lock(made), replace(made, compiler="nvidia"))


def guix() -> Sample:
    made = parse_guix_recipe(document.parse(guixpacks.RECIPE, file="r.yaml"), FACTS)
    return Sample(made, guixpacks.lock(made), replace(made, packages=("hello-mpi@2",)))


MAKERS = {
    "wheel": wheel, "easybuild": easybuild, "spack": of_spack, "vendor": vendor, "guix": guix,
}  # fmt: skip


@cache
def sample(name: str) -> Sample:
    return MAKERS[name]()


def planned(name: str) -> Plan:
    made = sample(name)
    return builders.find(name).engine.plan(made.stack, made.lock, SOURCES)


def listed(name: str) -> str:
    return "".join(f"{step.id}  {step.name}\n" for step in planned(name).steps)


EVERY = pytest.mark.parametrize("name", builders.REGISTRY)


@EVERY
def test_a_lock_answers_its_stack_and_no_other(name: str) -> None:
    made, engine = sample(name), builders.find(name).engine
    assert engine.stale(made.stack, made.lock) == ""
    assert engine.stale(made.other, made.lock) != ""


@EVERY
def test_nothing_is_wrong_with_the_sample(name: str) -> None:
    made = sample(name)
    found = builders.find(name).engine.problems(made.stack, made.lock, lambda *_: None)
    assert found.problems == ()


@EVERY
def test_inputs_are_steps_before(name: str) -> None:
    before: set[str] = set()
    for step in planned(name).steps:
        assert set(step.inputs) <= before, step.name
        before.add(step.id)
    assert planned(name).steps[-1].name == "image"
    assert len(before) == len(planned(name).steps)


@EVERY
def test_a_plan_is_a_function_of_what_it_is_given(name: str) -> None:
    """Again after a trip of stack and lock through JSON: the same."""
    made, builder = sample(name), builders.find(name)
    again_stack = noun.from_json(type(made.stack), noun.to_json(made.stack))
    again_lock = noun.from_json(builder.lock_kind, noun.to_json(made.lock))
    assert (again_stack, again_lock) == (made.stack, made.lock)
    assert builder.engine.plan(again_stack, again_lock, SOURCES) == planned(name)
    written = noun.to_json(planned(name))
    assert not [one for one in ("/home/", "/root/", "site-packages", ".cache") if one in written]


@EVERY
def test_ids_are_those_of_any_machine(name: str, tmp_path: Path) -> None:
    """Another process, with another seed of hashes, folder, home, user's language and time zone."""
    env = {
        "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONHASHSEED": "77", "LC_ALL": "C",
        "TZ": "Asia/Tokyo", "USER": "somebody", "PYTHONPATH": os.pathsep.join(sys.path),
        "STACKPROOF_CACHE": str(tmp_path),
    }  # fmt: skip
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
    code += f"import test_engine_contract as t; print(t.listed({name!r}), end='')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, stdout=subprocess.PIPE, check=True
    )
    assert done.stdout.decode() == listed(name)


def test_ids_do_not_depend_on_the_order_of_facts() -> None:
    facts = {**FACTS, "packer": "mksquashfs 4.6", "fabric": "slingshot-11"}
    other = dict(reversed(facts.items()))
    recipe = document.parse(RECIPE, file="r.yaml")
    assert noun.to_json(parse_recipe(recipe, other)) == noun.to_json(parse_recipe(recipe, facts))
    text = "name: a\nengine: easybuild\nlibfabric: {version: 2.1.0, providers: [tcp]}\n"
    chain = document.parse(text, file="e.yaml")
    first, second = (parse_easybuild_recipe(chain, one) for one in (facts, other))
    assert noun.to_json(first) == noun.to_json(second)
    packages = {name: {"externals": [{"spec": f"{name}@1"}]} for name in ("slurm", "cuda")}
    found = [
        list(site_facts(ClusterConfig(name="c"), dict(one)))
        for one in (packages.items(), reversed(packages.items()))
    ]
    assert found == [["cluster", "external.cuda", "external.slurm"]] * 2


@EVERY
def test_ids_are_those_of_before(name: str) -> None:
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("STACKPROOF_WRITE_GOLDEN"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(listed(name))
    assert listed(name) == file.read_text()


@EVERY
def test_rows_and_container_say_something_of_every_stack(name: str) -> None:
    made, engine = sample(name), builders.find(name).engine
    rows = engine.rows(made.stack, made.lock)
    assert rows
    assert all(word and text for word, text in rows)
    assert engine.container(made.stack, made.lock).labels


@EVERY
def test_the_image_has_its_stack_its_lock_and_its_bill(name: str) -> None:
    written = {path for step in planned(name).steps for path in step.files}
    assert {"meta/stack.json", "meta/lock.json"} <= written
    assert any("bom" in path for path in written)


_REFUSED = [(name, option) for name in builders.REGISTRY for option in builders.find(name).refused]


def test_some_engines_refuse_options() -> None:
    assert {name for name, option in _REFUSED if option == "on"} == {
        "easybuild",
        "wheel",
        "vendor",
        "guix",
    }
    assert {name for name, option in _REFUSED if option == "from"} == {
        "easybuild",
        "wheel",
        "spack",
    }


@pytest.mark.parametrize(("name", "option"), _REFUSED)
def test_an_option_that_is_nothing_for_it_is_refused_with_a_reason(name: str, option: str) -> None:
    with pytest.raises(StackproofError) as caught:
        builders.refuse(builders.find(name), option)
    (problem,) = caught.value.problems
    assert problem.message
    assert problem.reason
