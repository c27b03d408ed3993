"""`stackproof image containerfile` as a user meets it; nothing is built and nothing downloaded."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import inprocess
from images import env_json, make_image
from need import need

COVERS = ("build/cli/image.py", "build/cli/image_edf.py")

RECIPES = Path(__file__).parents[2] / "recipes"
BASE = "registry.example.org/debian:bookworm-slim@sha256:" + "ab" * 32
ETHERNET = ("--site", RECIPES / "spack" / "sites" / "ethernet.yaml")


def containerfile(recipe: object, *words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    given = {"STACKPROOF_CACHE": str(cwd / "cache")}
    return inprocess.stackproof("image", "containerfile", recipe, *words, cwd=cwd, **given)


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


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.yaml")), ids=lambda path: str(path.name))
def test_every_recipe_for_one_machine(path: Path, tmp_path: Path) -> None:
    """Every recipe that comes with stackproof, whatever its engine."""
    done = containerfile(path, "--base", BASE, cwd=tmp_path)
    if path.name == "cray-mpich.yaml":
        assert (done.returncode, done.stdout) == (3, "")
        assert "HPE lets nobody hand on what its RPMs hold" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(f"\nFROM {BASE}") == 2
    assert "sha256sum -c -" in done.stdout
    assert "ENTRYPOINT" not in done.stdout


def test_a_recipe_for_easybuild(tmp_path: Path) -> None:
    done = containerfile(RECIPES / "openmpi-lnx.yaml", "--base", BASE, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    builder, result = done.stdout.split("\n\nFROM ")
    assert " gfortran " in builder
    assert " libtool " in builder
    assert "easyconfigs/OpenMPI-5.0.7.eb" in builder
    assert "stackproof-bench" in builder
    assert " libgfortran5 " in result
    assert 'LABEL stackproof.mpi="openmpi 5.0.7"' in result
    assert 'LABEL stackproof.libfabric="2.1.0"' in result
    assert 'ENV PATH="/user-environment/software/OpenMPI/5.0.7/bin:' in result
    words = (RECIPES / "openmpi-lnx.yaml", "--base", BASE, "--view")
    assert "ENV MODULEPATH=" in containerfile(*words, "modules", cwd=tmp_path).stdout
    done = containerfile(*words, "warp", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (6, "")
    assert "modules" in done.stderr


SLINGSHOT = """\
name: slingshot
engine: easybuild
mpi: {family: openmpi, version: "5.0.9"}
libfabric: {version: "2.1.0", providers: [shm, cxi, lnx]}
slingshot: "13.0.0"
xpmem: true
benchmarks: [osu]
bundled: true
gpu: cuda
gpu-at: {version: "12.8.1", prefix: /usr/local/cuda}
"""


def test_a_chain_for_slingshot_with_cuda(tmp_path: Path) -> None:
    (tmp_path / "slingshot.yaml").write_text(SLINGSHOT)
    done = containerfile("slingshot.yaml", "--base", BASE, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert "--stop-after lock" in done.stderr
    lock = [sys.executable, "-m", "stackproof", "build", "--stop-after", "lock", "slingshot.yaml"]
    given = {**os.environ, "STACKPROOF_CACHE": str(tmp_path / "cache")}
    subprocess.run(lock, cwd=tmp_path, env=given, check=True, capture_output=True, timeout=600)
    devel = BASE.replace("ab", "cd")
    words = ("slingshot.yaml", "--base", BASE, "--builder-base", devel)
    done = containerfile(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "/usr/local/cuda" in done.stderr
    builder, result = done.stdout.split("\n\nFROM ")
    assert f"FROM {devel} AS builder" in builder
    assert "RUN test -d /usr/local/cuda ||" in builder
    assert " libcurl4-openssl-dev " in builder
    assert " libcurl4 " in result
    for name in ("xpmem", "libcxi-13.0.0", "osu-micro-benchmarks", "openmpi-5.0.9"):
        assert name in builder
    (tmp_path / "slingshot.yaml").write_text(SLINGSHOT.replace("xpmem: true\n", ""))
    done = containerfile(*words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert "does not answer" in done.stderr
    assert (
        "this makes it: stackproof build --update --stop-after lock slingshot.yaml" in done.stderr
    )


def test_no_lock(folder: Path) -> None:
    (folder / "mpich.lock.json").unlink()
    done = containerfile("mpich.yaml", "--base", BASE, cwd=folder)
    assert (done.returncode, done.stdout) == (3, "")
    assert "--stop-after lock" in done.stderr
    recipe = RECIPES / "spack" / "openmpi.yaml"
    words = (*ETHERNET, "--fact", "microarchitecture=haswell")
    done = containerfile(recipe, *words, "--base", BASE, cwd=folder)
    assert (done.returncode, done.stdout) == (3, "")
    line = shlex.join(("build", *map(str, words), "--update", "--stop-after", "lock", str(recipe)))
    assert f"hint: this makes it: stackproof {line}\n" in done.stderr


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


def definition(*words: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    given = {"STACKPROOF_CACHE": str(cwd / "cache")}
    return inprocess.stackproof("image", "edf", *words, cwd=cwd, **given)


def test_a_job_in_the_container_of_a_recipe(tmp_path: Path) -> None:
    recipe = RECIPES / "container-mpich.yaml"
    words = (
        "--image",
        "reg.example.org#mpich:1",
        "--mount",
        "${SCRATCH}:/scratch",
        "--workdir",
        "/scratch",
    )
    done = definition(recipe, "--fact", "gpu=cuda", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert tomllib.loads(done.stdout) == {
        "image": "reg.example.org#mpich:1",
        "workdir": "/scratch",
        "mounts": ["${SCRATCH}:/scratch"],
        "devices": ["nvidia.com/gpu=all"],
        "env": {"MPIR_CVAR_CH4_OFI_ENABLE_HMEM": "1", "NVIDIA_VISIBLE_DEVICES": "all"},
        "annotations": {"com": {"hooks": {"cxi": {"enabled": "true"}}}},
    }
    done = definition(recipe, *words, cwd=tmp_path)
    assert "devices" not in tomllib.loads(done.stdout)
    written = definition(recipe, *words, "-o", "mpich.toml", cwd=tmp_path)
    assert (written.returncode, written.stdout) == (0, "")
    assert (tmp_path / "mpich.toml").read_text() == done.stdout
    assert f"--environment={tmp_path}/mpich.toml" in written.stderr
    done = definition(recipe, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--image" in done.stderr


def test_a_job_in_an_image_of_a_container(tmp_path: Path) -> None:
    done = definition("reg.example.org#mpich:1", "--gpu", "rocm", cwd=tmp_path)
    data = tomllib.loads(done.stdout)
    assert (data["image"], data["devices"]) == ("reg.example.org#mpich:1", ["amd.com/gpu=all"])
    assert definition("reg.example.org#mpich:1", "--view", "x", cwd=tmp_path).returncode == 6
    need("mksquashfs")
    (tmp_path / "root" / "bin").mkdir(parents=True)
    squash = ["mksquashfs", "root", "a$b.sqsh", "-quiet", "-no-progress"]
    subprocess.run(squash, cwd=tmp_path, check=True, capture_output=True, timeout=600)
    done = definition("a$b.sqsh", cwd=tmp_path)
    assert tomllib.loads(done.stdout)["image"] == f"{tmp_path}/a$$b.sqsh", done.stderr


def test_a_stack_mounted_into_a_container(tmp_path: Path) -> None:
    need("mksquashfs")
    image = tmp_path / "mpi.squashfs"
    make_image(image)
    done = definition(image, "--image", "ubuntu:24.04", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    data = tomllib.loads(done.stdout)
    assert data["mounts"] == [f"{image}:/user-environment:sqsh"]
    assert data["env"]["PATH"].endswith(":${PATH}")
    assert "MPIR_CVAR_CH4_OFI_ENABLE_HMEM" not in data["env"]
    done = definition(image, "--image", "ubuntu:24.04", "--gpu", "rocm", cwd=tmp_path)
    assert tomllib.loads(done.stdout)["env"]["MPIR_CVAR_CH4_OFI_ENABLE_HMEM"] == "1"


def test_a_variable_that_replaces_the_containers_own_is_named(tmp_path: Path) -> None:
    need("mksquashfs")
    lists = {"LD_LIBRARY_PATH": [{"op": "prepend", "value": ["/user-environment/lib"]}]}
    values = {"list": lists, "scalar": {}}
    view = {"root": "/user-environment", "env": {"version": 1, "type": "augment", "values": values}}
    image = make_image(tmp_path / "mpi.squashfs", meta=env_json(views={"default": view}))
    words = (image, "--image", "ubuntu:24.04")
    done = definition(*words, cwd=tmp_path)
    assert "note: `LD_LIBRARY_PATH` takes the place of the container's own" in done.stderr
    both = "/user-environment/lib:/own"
    done = definition(*words, "--env", f"LD_LIBRARY_PATH={both}", cwd=tmp_path)
    assert (tomllib.loads(done.stdout)["env"], done.stderr) == ({"LD_LIBRARY_PATH": both}, "")
