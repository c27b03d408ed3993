"""`stackproof image containerfile` as a user meets it; nothing is built and nothing downloaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stackproof import noun
from stackproof.inject.manifest import Manifest, Provided
from stackproof.loader import Machine

RECIPES = Path(__file__).parents[2] / "recipes"
BASE = "docker.io/library/debian:bookworm-slim@sha256:" + "ab" * 32
ETHERNET = ("--site", RECIPES / "spack" / "sites" / "ethernet.yaml")


def containerfile(recipe: object, *words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable, "-m", "stackproof", "image", "containerfile", str(recipe),
            *map(str, words),
        ],
        cwd=cwd,
        env={**os.environ, "STACKPROOF_CACHE": str(cwd / "cache")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("mpich.yaml", "mpich.lock.json"):
        (tmp_path / name).write_bytes((RECIPES / name).read_bytes())
    return tmp_path


def test_a_recipe_for_wheels(folder: Path) -> None:
    done = containerfile("mpich.yaml", "--base", BASE, "--site", "lumi-c", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert f"FROM {BASE} AS builder" in done.stdout
    assert "sha256sum -c -" in done.stdout
    assert 'LABEL stackproof.mpi="mpich 5.0.2"' in done.stdout
    written = containerfile(
        "mpich.yaml", "--base", BASE, "--site", "lumi-c", "-o", "Containerfile", cwd=folder
    )
    assert (written.returncode, written.stdout) == (0, "")
    assert (folder / "Containerfile").read_text() == done.stdout


def test_a_recipe_for_spack(tmp_path: Path) -> None:
    fact = ("--fact", "microarchitecture=zen3")
    recipe = RECIPES / "spack" / "openmpi.yaml"
    done = containerfile(recipe, *ETHERNET, *fact, "--base", BASE, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "rev-parse HEAD" in done.stdout
    assert "install --only-concrete" in done.stdout
    assert "activate.sh" in done.stdout.split("ENTRYPOINT")[1]
    assert "slurm" in done.stderr


def test_no_lock(folder: Path) -> None:
    (folder / "mpich.lock.json").unlink()
    done = containerfile("mpich.yaml", "--base", BASE, cwd=folder)
    assert (done.returncode, done.stdout) == (3, "")
    assert "--stop-after lock" in done.stderr
    recipe = RECIPES / "spack" / "openmpi.yaml"
    words = (*ETHERNET, "--fact", "microarchitecture=haswell", "--base", BASE)
    done = containerfile(recipe, *words, cwd=folder)
    assert (done.returncode, done.stdout) == (3, "")
    assert "--stop-after lock" in done.stderr


def test_all_wrong_options_at_once(folder: Path) -> None:
    done = containerfile(
        "mpich.yaml", "--base", "debian", "--builder-base", "debian:13", "--package", "a;b",
        cwd=folder,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("error:") == 3
    assert containerfile("mpich.yaml", cwd=folder).returncode == 2
    done = containerfile("mpich.yaml", "--base", BASE, "--view", "none", cwd=folder)
    assert done.returncode != 0
    assert "default" in done.stderr


def test_the_label_of_a_manifest(folder: Path) -> None:
    manifest = Manifest(
        prefix="/user-environment/mpich-5.0.2",
        machine=Machine(architecture="x86_64", level="x86-64-v2"),
        mpis=(Provided(path="/x", soname="libmpi.so.12", family="mpich", shown="it does"),),
        needs={"GLIBC": "GLIBC_2.27"},
    )
    file = folder / "abi.json"
    file.write_text(noun.to_json(manifest))
    words = ("mpich.yaml", "--base", BASE, "--manifest", "abi.json")
    done = containerfile(*words, cwd=folder)
    line = next(
        line for line in done.stdout.split("\n") if line.startswith("LABEL stackproof.abi=")
    )
    label = json.loads(json.loads(line.partition("=")[2]))
    assert label["mpis"] == [{"soname": "libmpi.so.12", "family": "mpich"}]
    assert label["needs"] == {"GLIBC": "GLIBC_2.27"}
    file.write_text(file.read_text().replace("/user-environment/", "/elsewhere/"))
    done = containerfile(*words, cwd=folder)
    assert done.returncode == 3
    assert "abi.json" in done.stderr
    file.unlink()
    assert containerfile(*words, cwd=folder).returncode == 3
