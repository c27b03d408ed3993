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
from stackproof import cli
from stackproof.bench import import_places
from stackproof.cli import commandtree
from stackproof.cluster import model as cluster_model
from stackproof.cluster.slurm import SlurmSpec
from stackproof.compare import model as compare_model
from stackproof.core import choices
from stackproof.core.document import schema
from stackproof.inject import container as inject_container
from stackproof.inject.effects import artefact
from stackproof.inject.effects import container as containers
from stackproof.inject.findings import launcher
from stackproof.knowledge import reference_curves
from stackproof.linking.loader import machine
from stackproof.mpi import transports
from stackproof.results import case
from stackproof.results.metrics import CORE

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
def test_help_imports_the_arguments_of_its_verb_only(command):
    names = imported(*command.words, "--help")
    ours = {name for name in names if name.startswith("stackproof.")}
    rooms = {name for name in ours if name.endswith((".cli", ".effects")) or name.count(".") == 1}
    others = {name for name in ours - rooms if not name.endswith(".options")}
    assert others <= {
        "stackproof.core.choices",
        "stackproof.core.cli.examples",
        "stackproof.core.cli.parsing",
        "stackproof.core.cli.streams",
        "stackproof.core.harmless",
        "stackproof.core.effects.locale",
    }
    assert not among(HEAVY, names)
    assert not {"dataclasses", "inspect", "typing", "subprocess", "pathlib"} & names


@pytest.mark.parametrize(
    ("words", "source"),
    [
        (choices.PLACEMENTS, case.Locality),
        (choices.BUFFERS, reference_curves.BufferPlace),
        (choices.DISTRIBUTIONS, import_places.Distribution),
        (choices.BENCH_ON, schema("bench")["properties"]["on"]["enum"]),
        (choices.SCHEDULERS, [name for name in choices.BENCH_ON if name != "allocation"]),
        (choices.TRANSPORTS, transports.REGISTRY),
        (choices.BENCHMARKS, CORE),
        (choices.MARGINS, compare_model.DEFAULT_MARGINS),
        (choices.LAUNCHERS, launcher.OFFERS),
        (choices.NAMESPACES, launcher.NAMESPACES),
        (choices.CONTAINER_FORMS, (*inject_container.FORMS, *inject_container.HOOKS)),
        (choices.LEVELS, machine.LEVELS),
        ((choices.HOOK,), (containers.HOOK,)),
        ((choices.ARTEFACT_FOLDER,), (artefact.ARTEFACT_FOLDER,)),
        ((choices.MOST_NODES,), (cluster_model.MAX_NODES,)),
        ((choices.NODE_CPUS,), (SlurmSpec().cpus,)),
    ],
)
def test_choices_are_those_of_the_code(words, source):
    assert words == tuple(source)  # type: ignore[arg-type, call-overload]


def test_every_command_calls_a_function_that_there_is():
    for command in LEAVES:
        run = command.run
        module, _, name = run.partition(":")
        assert callable(getattr(importlib.import_module(f"stackproof.{module}"), name))
    assert {command.words[0] for command in LEAVES} == set(cli.VERBS)


# What a recipe for wheels that is right, and has its lock, needs nothing of.
NOT_FOR_WHEELS = {
    "attr", "http", "installer", "jinja2", "jsonschema",
    "logging", "numpy", "packageurl", "packaging", "pip", "referencing", "rpds",
    "tarfile", "urllib.request", "stackproof.bench.programs", "stackproof.build.engines.easybuild.effects.builder",
    "stackproof.build.engines.spack.effects.known", "stackproof.build.engines.spack.effects.builder", "stackproof.build.engines.easybuild.recipe",
    "stackproof.build.engines.easybuild.chain", "stackproof.build.engines.easybuild.stack",
    "stackproof.build.engines.spack", "stackproof.build.effects.git", "stackproof.build.engines.spack.effects.recipe_files",
    "stackproof.build.engines.spack.effects.stackinator", "stackproof.site.model", "stackproof.build.engines.spack.effects.build",
    "stackproof.build.engines.spack.recipe", "stackproof.build.engines.spack.stack", "stackproof.build.engines.spack.stackinator",
}  # fmt: skip


@pytest.mark.parametrize("command", ["check --offline", "check", "plan", "build --stop-after lock"])
def test_a_recipe_for_wheels_imports_no_other_engine(command, tmp_path):
    for name in ("mpich.yaml", "mpich.lock.json"):
        shutil.copy(RECIPES / name, tmp_path)
    names = imported(*command.split(), "mpich.yaml", cwd=tmp_path)
    assert "stackproof.build.engines.wheel.recipe" in names
    assert not among(NOT_FOR_WHEELS, names)


@pytest.mark.battery
def test_an_unchanged_build_imports_no_other_engine(tmp_path):
    need("network", "gcc", "bubblewrap", "mksquashfs")
    for name in ("mpich.yaml", "mpich.lock.json"):
        shutil.copy(RECIPES / name, tmp_path)
    argv = [sys.executable, "-m", "stackproof", "build", "mpich.yaml"]
    subprocess.run(argv, cwd=tmp_path, check=True)
    names = imported("build", "mpich.yaml", cwd=tmp_path)
    assert "stackproof.build.effects.executor" in names
    assert not among(NOT_FOR_WHEELS, names)


# What a judgement of a program on this machine needs nothing of: what makes artefacts, wrappers and
# containers, and what knows of transports.
NOT_FOR_JUDGING = {
    *HEAVY - {"msgspec"}, "ctypes", "stackproof.core.document", "stackproof.inject.effects.artefact",
    "stackproof.mpi.effects.fabric", "stackproof.inject.effects.staging", "stackproof.inject.artefact",
    "stackproof.inject.container", "stackproof.mpi.families",
    "stackproof.build.plan", "stackproof.site.model", "stackproof.build.stack", "stackproof.mpi.transports",
}  # fmt: skip


def test_a_judgement_imports_nothing_that_makes_something(tmp_path):
    need("gcc")
    lab = Lab(tmp_path)
    for folder in ("old", "new"):
        lab.library(
            f"{folder}/lib/libmpi.so.12",
            defines=["MPI_Init", "MPII_Win_get_attr"],
            texts=["PMI_FD"],
        )
    lab.program("app", needs=["old/lib/libmpi.so.12"], calls=["MPI_Init"])
    names = imported("inject", "check", str(lab.path("app")), "--with", str(lab.path("new")))
    assert "stackproof.inject.judge" in names
    assert not among(NOT_FOR_JUDGING, names)


# What a log needs nothing of: results, images, programs, and places of values in shipped knowledge.
NOT_FOR_LOGS = {
    *HEAVY - {"msgspec", "yaml"}, "csv", "logging", "socket", "sqlite3", "statistics",
    "stackproof.bench", "stackproof.compare", "stackproof.linking", "stackproof.share",
    "stackproof.knowledge.reference_curves", "stackproof.results.model",
}  # fmt: skip


def test_a_log_is_diagnosed_without_results_images_and_programs(tmp_path: Path):
    log = tmp_path / "job.log"
    log.write_text("PMIX ERROR: UNREACHABLE in file ptl.c at line 500\n")
    names = imported("doctor", "--log", str(log))
    assert "stackproof.doctor.rules" in names
    assert not among(NOT_FOR_LOGS, names)


def test_only_a_page_imports_what_makes_it():
    """`compare` and `bench` judge with the modules that also make the report."""
    program = "import sys, stackproof.report.cli.report; print('jinja2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"False\n"
