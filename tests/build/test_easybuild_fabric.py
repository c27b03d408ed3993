"""libfabric from source by `recipes/libfabric.yaml`, as its users have it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fabric import PROVIDERS
from need import need
from stackproof.build.engines.easybuild.effects import builder
from stackproof.mpi.transports.profile import Libfabric, libfabric_of

pytestmark = pytest.mark.machine


def stackproof(*words: object) -> str:
    argv = [sys.executable, "-m", "stackproof", *map(str, words)]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=300).stdout


def content(image: Path, path: str) -> str:
    argv = ["unsquashfs", "-cat", str(image), path]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def test_it_has_the_providers_that_were_asked_for(fabric_image: Path) -> None:
    need("squashfuse", "fuse")
    listed = stackproof("run", fabric_image, "--", "fi_info", "-l")
    found = set(re.findall(r"^(\w+):$", listed, re.MULTILINE))
    assert {"tcp", "shm", "sm2", "lnx", "ofi_rxm"} <= found
    # What was found on the machine by chance would be here as well.
    assert found - {"tcp", "shm", "sm2", "lnx", "ofi_rxm"} <= {"ofi_hook_noop", "off_coll"}


def test_it_needs_the_c_library_alone(fabric_image: Path) -> None:
    need("squashfuse", "fuse")
    script = "readelf -d $(dirname $(dirname $(command -v fi_info)))/lib/libfabric.so.1"
    told = stackproof("run", fabric_image, "--", "sh", "-c", script)
    needed = set(re.findall(r"\(NEEDED\).*\[([^]]+)\]", told))
    base = {"libc.so.6", "libatomic.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1"}
    assert {name for name in needed if not name.startswith("ld-linux")} <= base


def test_it_says_what_it_is(fabric_image: Path) -> None:
    told = libfabric_of(content(fabric_image, "meta/bom.cdx.json"))
    assert told == Libfabric(version="2.1.0", providers=PROVIDERS)
    data = json.loads(content(fabric_image, "meta/env.json"))
    assert data["mount"] == "/user-tools"
    assert data["default-view"] == "default"
    assert "mpi" not in data
    assert {"default", "modules"} == set(data["views"])


def test_its_modules_load_with_both_syntaxes(fabric_image: Path) -> None:
    need("squashfuse", "fuse")
    program = builder.find_lmod()
    for kind in ("lua", "tcl"):
        script = (
            f"export MODULEPATH=/user-tools/modules/{kind}/all; "
            f'eval "$({program} bash load libfabric/2.1.0)"; '
            'echo "$EBROOTLIBFABRIC"; command -v fi_info'
        )
        told = stackproof("run", "--view", "modules", fabric_image, "--", "bash", "-c", script)
        root = "/user-tools/software/libfabric/2.1.0"
        assert told.split() == [root, f"{root}/bin/fi_info"], kind


def test_building_it_again_does_nothing(fabric_image: Path) -> None:
    recipe = Path(__file__).resolve().parents[2] / "recipes" / "libfabric.yaml"
    before = os.stat(fabric_image).st_mtime_ns
    told = json.loads(stackproof("build", "--locked", "--json", "-o", fabric_image, recipe))
    assert (told["steps_run"], told["written"]) == (0, False)
    assert os.stat(fabric_image).st_mtime_ns == before


def test_a_job_with_it_under_its_mpi_raises_no_alarm(fabric_image: Path, tmp_path: Path) -> None:
    """`doctor` has the environment of the job, and finds both images by what it says of mounts."""
    need("squashfuse", "fuse", "network")
    recipe = Path(__file__).resolve().parents[2] / "recipes" / "openmpi-5.0.8.yaml"
    mpi, variables, log = (tmp_path / name for name in ("mpi.squashfs", "job.env", "job.log"))
    stackproof("build", "--locked", "-o", mpi, recipe)
    under = ("run", mpi, "--inject", fabric_image, "--transport", "lnx", "--")
    variables.write_text(stackproof(*under, "env"))
    assert f"{fabric_image}:/user-tools" in variables.read_text()
    root = ("env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
    program = "/user-environment/benchmarks/stackproof-bench"
    words = ("--benchmarks", "latency", "--samples", "3", "--expect-ranks", "2", "--sizes", "8")
    launch = (*root, "mpiexec", "-n", "2", "--oversubscribe", program, *words)
    log.write_text(stackproof(*under, *launch))
    asked = ("doctor", "--env", variables, "--log", log, "--program", program, "--json")
    found = json.loads(stackproof(*asked))
    assert [one["rule"] for one in found["findings"] if one["answer"] == "fires"] == []
    assert found["evidence"]["versions"]["libfabric"] == "2.1.0"
    # What later releases call the provider; 2.1 has nothing of that name.
    renamed = "OMPI_MCA_opal_common_ofi_provider_include=lnx"
    variables.write_text(stackproof(*under, "env", renamed, "env"))
    argv = (*under, *root, renamed, "timeout", "20", *launch[len(root) :])
    done = subprocess.run(
        [sys.executable, "-m", "stackproof", *map(str, argv)], check=False, timeout=600,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    log.write_bytes(done.stdout)
    found = json.loads(stackproof(*asked))
    first, *_ = [one["rule"] for one in found["findings"] if one["answer"] == "fires"]
    assert first == "K02", done.stdout.decode(errors="replace")
