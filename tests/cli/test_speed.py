"""What everyday commands may import: that decides how long they take, and can be held."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from elflab import Lab
from need import need
from stackproof import case, cli, comparison, curves, transports
from stackproof import cluster as clusters
from stackproof.benchmarks.metrics import METRICS
from stackproof.cli import commandtree
from stackproof.cli.arguments import choices
from stackproof.cluster_slurm import SlurmSpec
from stackproof.host import cachekinds, injecthook, injectlevels
from stackproof.inject import containing, starting
from stackproof.loader import machine
from stackproof.schedulers import REGISTRY

RECIPES = Path(__file__).parents[2] / "recipes"
LEAVES = [command for command in commandtree.load().all() if not command.commands]
# Libraries that take longer to import than a command may take, and modules of ours likewise.
HEAVY = {
    "asyncio", "attr", "http", "jinja2", "jsonschema", "msgspec", "numpy", "packaging",
    "pip", "referencing", "rpds", "urllib.request", "yaml",
}  # fmt: skip


def imported(*argv: str, cwd: Path | None = None) -> set[str]:
    """Return every module that a command imports, by its full name; it must succeed."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "stackproof", *argv],
        capture_output=True, text=True, check=False, cwd=cwd,
    )  # fmt: skip
    lines = done.stderr.splitlines()
    assert done.returncode == 0, "\n".join(x for x in lines if not x.startswith("import time:"))
    return {x.rpartition("|")[2].strip() for x in lines if x.startswith("import time:")}


def among(listed: set[str], names: set[str]) -> set[str]:
    return {name for name in listed if any(f"{one}.".startswith(f"{name}.") for one in names)}


@pytest.mark.parametrize("command", LEAVES, ids=lambda command: "-".join(command.words))
def test_help_imports_the_arguments_of_its_verb_only(command: commandtree.Command) -> None:
    names = imported(*command.words, "--help")
    ours = {name for name in names if name.startswith("stackproof.")}
    allowed = ("stackproof.cli.arguments", "stackproof.cli.parsing", "stackproof.cli.examples")
    others = {name for name in ours if not name.startswith(allowed)}
    assert others <= {
        "stackproof.cli",
        "stackproof.cli.streams",
        "stackproof.host",
        "stackproof.harmless",
        "stackproof.host.userlocale",
    }
    assert not among(HEAVY, names)
    assert not {"dataclasses", "inspect", "typing", "subprocess", "pathlib"} & names


@pytest.mark.parametrize(
    ("words", "source"),
    [
        (choices.PLACEMENTS, case.Locality),
        (choices.CACHE_KINDS, [kind.name for kind in cachekinds.KINDS]),
        (choices.BUFFERS, curves.BufferPlace),
        (choices.SCHEDULERS, REGISTRY),
        (choices.TRANSPORTS, transports.REGISTRY),
        (choices.BENCHMARKS, METRICS),
        (choices.MARGINS, comparison.DEFAULT_MARGINS),
        (choices.LAUNCHERS, starting.OFFERS),
        (choices.NAMESPACES, starting.NAMESPACES),
        (choices.CONTAINER_FORMS, (*containing.FORMS, *containing.HOOKS)),
        (choices.LEVELS, machine.LEVELS),
        ((choices.HOOK,), (injecthook.HOOK,)),
        ((choices.ARTEFACT_FOLDER,), (injectlevels.ARTEFACT_FOLDER,)),
        ((choices.MOST_NODES,), (clusters.MAX_NODES,)),
        ((choices.NODE_CPUS,), (SlurmSpec().cpus,)),
    ],
)
def test_choices_are_those_of_the_code(words: tuple[object, ...], source: object) -> None:
    assert words == tuple(source)  # type: ignore[arg-type, call-overload]


def test_every_command_calls_a_function_that_there_is() -> None:
    for command in LEAVES:
        run = command.run
        module, _, name = run.partition(":")
        assert callable(getattr(importlib.import_module(f"stackproof.cli.{module}"), name))
    assert {command.words[0] for command in LEAVES} == set(cli.VERBS)


# What a recipe for wheels that is right, and has its lock, needs nothing of.
NOT_FOR_WHEELS = {
    "attr", "http", "installer", "jinja2", "jsonschema",
    "logging", "numpy", "packageurl", "packaging", "pip", "referencing", "rpds",
    "tarfile", "urllib.request", "stackproof.benchmarks", "stackproof.cli.easybuild",
    "stackproof.cli.known", "stackproof.cli.spack", "stackproof.easybuild_recipe",
    "stackproof.engines.easybuild.chain", "stackproof.engines.easybuild.stack",
    "stackproof.engines.spack", "stackproof.host.git", "stackproof.host.recipes",
    "stackproof.host.stackinator", "stackproof.site", "stackproof.spack_build",
    "stackproof.spack_recipe", "stackproof.spackstack", "stackproof.stackinator",
}  # fmt: skip


@pytest.mark.parametrize("command", ["check --offline", "check", "plan", "build --stop-after lock"])
def test_a_recipe_for_wheels_imports_no_other_engine(command: str, tmp_path: Path) -> None:
    for name in ("mpich.yaml", "mpich.lock.json"):
        shutil.copy(RECIPES / name, tmp_path)
    names = imported(*command.split(), "mpich.yaml", cwd=tmp_path)
    assert "stackproof.recipe" in names
    assert not among(NOT_FOR_WHEELS, names)


def test_an_unchanged_build_imports_no_other_engine(tmp_path: Path) -> None:
    need("network", "gcc", "bubblewrap", "mksquashfs")
    for name in ("mpich.yaml", "mpich.lock.json"):
        shutil.copy(RECIPES / name, tmp_path)
    argv = [sys.executable, "-m", "stackproof", "build", "mpich.yaml"]
    subprocess.run(argv, cwd=tmp_path, check=True)
    names = imported("build", "mpich.yaml", cwd=tmp_path)
    assert "stackproof.executor" in names
    assert not among(NOT_FOR_WHEELS, names)


# What a judgement of a program on this machine needs nothing of: what makes artefacts, wrappers and
# containers, and what knows of transports.
NOT_FOR_JUDGING = {
    *HEAVY - {"msgspec"}, "ctypes", "stackproof.document", "stackproof.host.artefacting",
    "stackproof.host.fabric", "stackproof.host.injecting", "stackproof.inject.artefact",
    "stackproof.inject.containing", "stackproof.inject.wrapping", "stackproof.mpis",
    "stackproof.plan", "stackproof.site", "stackproof.stack", "stackproof.transports",
}  # fmt: skip


def test_a_judgement_imports_nothing_that_makes_something(tmp_path: Path) -> None:
    need("gcc")
    lab = Lab(tmp_path)
    for folder in ("old", "new"):
        lab.library(f"{folder}/lib/libmpi.so.12", defines=["MPI_Init"], texts=["PMI_FD"])
    lab.program("app", needs=["old/lib/libmpi.so.12"], calls=["MPI_Init"])
    names = imported("inject", "check", str(lab.path("app")), "--with", str(lab.path("new")))
    assert "stackproof.inject.judge" in names
    assert not among(NOT_FOR_JUDGING, names)
