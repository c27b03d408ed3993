"""The Containerfile of a stack of each engine, but for the texts of files.

After a wanted change write it again:
STACKPROOF_WRITE_GOLDEN=1 python -m pytest tests/build/test_containerfile_golden.py
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import easybuilds
from easybuildchains import REQUESTS
from spackstacks import locked, stack
from stackproof.build import containerfile
from stackproof.build.containerfile import ContainerfileRequest, Files
from stackproof.build.effects import builders
from stackproof.build.engine import Container, Sources
from stackproof.build.engines.easybuild import engine as easybuild_engine
from stackproof.build.engines.easybuild import tool
from stackproof.build.engines.easybuild.chain import chain
from stackproof.build.engines.easybuild.effects import builder
from stackproof.build.engines.easybuild.stack import make_lock
from stackproof.build.engines.spack import buildplan
from stackproof.build.engines.spack import engine as spack_engine
from stackproof.build.engines.spack.stack import Caches
from stackproof.build.engines.wheel.engine import ENGINE, plan, wants
from stackproof.build.engines.wheel.recipe import parse_recipe
from stackproof.build.engines.wheel.stack import Lock
from stackproof.build.plan import Plan
from stackproof.build.stack import Artefact
from stackproof.core import document
from stackproof.core.command import EnvPatch
from stackproof.core.value import replace

FOLDER = Path(__file__).parents[1] / "golden" / "containerfile"
BASE = "registry.example.org/debian:bookworm-slim@sha256:" + "ab" * 32
RECIPE = """\
name: small
mpi: {family: mpich, version: "5.0.2"}
views: {default: {description: all}}
"""


def wheel() -> tuple[Plan, EnvPatch, Container]:
    facts = {"architecture": "x86_64", "compiler": "gcc 12.2.0"}
    made = parse_recipe(document.parse(RECIPE, file="r.yaml"), facts)
    artefacts = (
        Artefact(
            name="mpich",
            version="5.0.2",
            filename="mpich-5.0.2-py3-none-manylinux_2_28_x86_64.whl",
            sha256="cd" * 32,
            licence="BSD",
        ),
    )
    lock = Lock(engine="wheel", wants=wants(made), artefacts=artefacts)
    sources = Sources(recipe={"r.yaml": RECIPE}, csrc={"main.c": "int x;\n"})
    needs = ENGINE.container(made, lock)
    return plan(made, lock, sources), needs.environments["default"], needs


def of_wheel() -> str:
    made, environment, needs = wheel()
    wish = ContainerfileRequest(
        base=BASE,
        builder=BASE,
        architecture="x86_64",
        environment=environment,
        labels={"org.opencontainers.image.title": "small", "note": 'a "quote", $HOME and \\'},
    )
    files = Files(programs={"wheel_worker.py": "pass\n"})
    return containerfile.render(made, wish, needs, files)


def of_spack() -> str:
    wanted = stack(3)
    lock = locked(wanted)
    made = buildplan.build_plan(wanted, lock, Caches(), csrc={"bench.c": "int x;\n"})
    digests = {copy.sha256 for step in made.steps for copy in step.copies.values()}
    wish = ContainerfileRequest(
        base=BASE,
        builder=BASE.replace("-slim", ""),
        architecture="aarch64",
        packages=("libnl-3-200",),
        builder_packages=("libnl-3-dev",),
        activate="/user-environment/env/default/activate.sh",
    )
    blobs = dict.fromkeys(digests, b"text\n")
    files = Files(programs={"spack_worker.py": "pass\n"}, blobs=blobs)
    return containerfile.render(made, wish, spack_engine.ENGINE.container(wanted, lock), files)


def of_easybuild() -> str:
    wanted = easybuilds.stack(request=REQUESTS["tools"])
    found = chain(wanted.request, builder.load())
    sources = [source for one in found.easyconfigs for source in one.sources]
    digests = {source.filename: source.accepted[0].sha256 for source in sources}
    brought = tuple(tool.artefact(name, tool.VERSION) for name in tool.PACKAGES)
    lock = make_lock(wanted, found, brought, digests)
    wish = ContainerfileRequest(
        base=BASE,
        builder=BASE.replace("-slim", ""),
        architecture="x86_64",
        packages=("libcurl4",),
        builder_packages=("libcurl4-openssl-dev",),
    )
    tools = {"easybuild_worker.py": "pass\n", "easybuild_hooks.py": "pass\n"}
    needs = replace(
        easybuild_engine.ENGINE.container(wanted, lock),
        packages=(),
        builder_packages=easybuild_engine._PACKAGES,
        outside=("/usr/local/cuda", "/opt/it's"),
    )
    made = easybuilds.plan(wanted, lock)
    return containerfile.render(made, wish, needs, Files(programs=tools))


MAKERS = {"easybuild": of_easybuild, "spack": of_spack, "wheel": of_wheel}


def test_every_engine_that_makes_one_is_here() -> None:
    refuse = {name for name in builders.REGISTRY if "containerfile" in builders.find(name).refused}
    assert set(MAKERS) == set(builders.REGISTRY) - refuse
    # Nobody may hand the vendor's files on, and Guix packs containers itself.
    assert refuse == {"vendor", "guix"}


@pytest.mark.parametrize(("name", "make"), MAKERS.items())
def test_containerfile(name: str, make: Callable[[], str]) -> None:
    text = re.sub(r"(?m)^      '.*\n", "", make())
    text = re.sub(r"\b(plan )[0-9a-f]{64}", r"\1(its id)", text)
    file = FOLDER / f"{name}.txt"
    if os.environ.get("STACKPROOF_WRITE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text()


def test_a_container_is_the_tree_of_the_plan_and_no_image_file() -> None:
    made, *_ = wheel()
    assert made.steps[-1].name == "image"
    text = of_wheel()
    assert "mksquashfs" not in text
    assert text.count("\nFROM ") == 2
