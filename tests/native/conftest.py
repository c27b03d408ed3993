"""The native parts, built once for all tests of this folder, and a machine to install them on."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import once
from images import make_image
from machine import SOMEBODY, Machine
from need import need
from stackproof.core.value import replace

NATIVE = Path(__file__).parents[2] / "native"
_BUILD_TIMEOUT_S = 1500


def build(folder: Path, *options: str, compiler: str = "gcc") -> Path:
    """Configure and compile native/, with the Slurm plug-in where its headers are.

    Warnings are errors.
    """
    for argv in (
        ["meson", "setup", folder, NATIVE, "--prefix=/usr", *options],
        ["ninja", "-C", folder],
    ):
        done = subprocess.run(
            argv,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_BUILD_TIMEOUT_S,
            check=False,
            env={"CC": compiler, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"},
        )
        assert done.returncode == 0, done.stdout[-4000:]
    return folder


@pytest.fixture(scope="session")
def builder():
    """Return `build`, for tests that want a build of their own."""
    need("meson", "gcc")
    return build


def _of_the_run(factory: pytest.TempPathFactory, name: str, *options: str) -> Path:
    """Build in a folder that all processes of the test run have."""
    need("meson", "gcc")
    with once.folder(factory, name) as folder:
        whole = folder / "whole"
        if not whole.is_file():
            build(folder / "build", *options)
            whole.touch()
        return folder / "build"


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Return a folder with the helper and the test programs as a distribution would build them."""
    return _of_the_run(tmp_path_factory, "native")


@pytest.fixture(scope="session")
def sanitized(tmp_path_factory):
    """Return the same with AddressSanitizer and UndefinedBehaviourSanitizer."""
    return _of_the_run(tmp_path_factory, "sanitized", "-Db_sanitize=address,undefined")


@pytest.fixture
def machine(built, tmp_path):
    """Return a machine with the helper setuid root and the built-in policy, and `a.squashfs`."""
    need("root", "mksquashfs", "kernel-mount", "unprivileged-user")
    tmp_path.chmod(0o755)
    make_image(tmp_path / "a.squashfs")
    return Machine(folder=tmp_path, program=built / "helper" / "stackproof-mount")


@pytest.fixture(params=["setuid", "capabilities"])
def helper(request, machine):
    """Return a machine whose helper has rights, in both ways in which it can."""
    return replace(machine, capabilities=request.param == "capabilities")


@pytest.fixture
def private(machine):
    """Return an image that belongs to another user and is for nobody else."""
    image = make_image(machine.folder / "private.squashfs")
    image.chmod(0o600)
    os.chown(image, SOMEBODY, SOMEBODY)
    return image
