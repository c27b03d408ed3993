"""Containers that others made and start: a distribution's Open MPI, Apptainer, SingularityCE."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import debianroot
from benchroom import mapped, measured
from containerlab import Store, root_with, store
from mpitrees import Trees
from need import installed_mpi, need
from refusals import refusal
from stackproof.bench.effects.kinds import container_arm
from stackproof.bench.spec import Arm
from stackproof.core.errors import Reason

pytestmark = pytest.mark.machine
DEBIANS = "/usr/lib/x86_64-linux-gnu/libmpi.so.40"


def mpis_of(room: Path, /, **arms: dict[str, object]) -> dict[str, str]:
    """Run two ranks of each arm, 64 KiB among the messages, and return the MPI that they had."""
    first, *others = ({"name": name, **entry} for name, entry in arms.items())
    found = mapped(measured(room, baseline=first, challengers=others))
    assert {*found} == {*arms}
    assert all(len(one) == 1 for one in found.values()), found
    return {name: one.pop() for name, one in found.items()}


# ----------------------------------------------------------------------------- of a distribution


@pytest.fixture(scope="module")
def debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, str]]:
    """Give a container with Debian 13's package `openmpi-bin`, which is Open MPI 5.0.7."""
    need("podman", "root", "runc", "debian-archive", "gcc", "installed-mpis")
    folder = tmp_path_factory.mktemp("debian")
    root = debianroot.bare(folder, "trixie", "openmpi-bin", whole=True)
    # A third of a gigabyte less, for UCX on AMD's GPUs alone.
    for path in (root / "usr/lib/x86_64-linux-gnu").glob("lib*.so*"):
        if path.is_file() and path.stat().st_size > 8_000_000:
            path.unlink()
    with store() as kept:
        yield kept, kept.add("debian", root)


def test_a_distribution_s_open_mpi(debian: tuple[Store, str], trees: Trees, tmp_path: Path) -> None:
    """Its own MPI answers, also to a program that Open MPI 4.1 compiled, or that of the machine."""
    kept, image = debian
    entry = {"container": image, "env": kept.env, "host-mpi": str(trees["openmpi"].prefix)}
    older = {**entry, "host-mpi": installed_mpi("openmpi")}
    got = mpis_of(tmp_path, own=entry, older=older, hybrid={**entry, "bind": "hybrid"})
    assert got["own"].startswith(DEBIANS)
    assert got["older"] == got["own"]
    assert got["hybrid"] == f"{trees['openmpi'].prefix}/lib/libmpi.so.40"
    arms = json.loads((tmp_path / "out" / "bench.json").read_text())["arms"]
    assert arms["own"]["mpi"] == arms["older"]["mpi"] == {"family": "openmpi", "version": "5.0.7"}
    assert arms["hybrid"]["mpi"]["version"] == trees["openmpi"].version
    error = refusal(
        container_arm.of_container,
        Arm(container=image, host_mpi=str(trees["mpich"].prefix), env=kept.env, name="x"),
        (),
    )
    assert error.reason is Reason.INJECTION_FAILS
    assert "compiled for the mpich ABI" in str(error)


# ---------------------------------------------------------------- started by Singularity's heirs

# A root user that lacks a capability cannot start them but in a namespace of users.
STARTED = {"options": ["--userns"]}


def test_apptainer_starts_ranks(trees: Trees, tmp_path: Path) -> None:
    """Out of a folder, a SIF file that it made itself, and a SquashFS file; MPICH copies by CMA."""
    need("apptainer", "mksquashfs", "gcc")
    mpich = trees["mpich"].prefix
    root = root_with(tmp_path / "root", mpich)
    sif, squashfs = tmp_path / "mpich.sif", tmp_path / "mpich.sqsh"
    for words in (["apptainer", "build", sif, root], ["mksquashfs", root, squashfs, "-quiet"]):
        subprocess.run(words, check=True, timeout=600, capture_output=True)
    entry = {"runtime": "apptainer", "host-mpi": str(mpich), **STARTED}
    got = mpis_of(
        tmp_path,
        folder={**entry, "container": str(root)},
        sif={**entry, "container": str(sif)},
        squashfs={**entry, "container": str(squashfs), "bind": "hybrid"},
    )
    own = "/opt/mpi/lib/libmpi.so.12"
    assert got == {"folder": own, "sif": own, "squashfs": f"{mpich}/lib/libmpi.so.12"}


def test_singularity_starts_ranks(trees: Trees, tmp_path: Path) -> None:
    """Each rank has a namespace of users to itself: Open MPI sees that, MPICH has to be told."""
    need("singularity", "gcc")
    arms = {}
    for name in ("openmpi", "mpich"):
        prefix = trees[name].prefix
        root = root_with(tmp_path / name, prefix)
        env = {"MPIR_CVAR_CH4_CMA_ENABLE": "0"} if name == "mpich" else {}
        arms[name] = {"container": str(root), "runtime": "singularity", "host-mpi": str(prefix),
                      "env": env, **STARTED}  # fmt: skip
    got = mpis_of(tmp_path, **arms, hybrid={**arms["openmpi"], "bind": "hybrid"})
    assert got == {
        "openmpi": "/opt/mpi/lib/libmpi.so.40",
        "mpich": "/opt/mpi/lib/libmpi.so.12",
        "hybrid": f"{trees['openmpi'].prefix}/lib/libmpi.so.40",
    }
