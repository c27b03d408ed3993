"""Readers of arms: one module for each kind, loaded for arms of that kind alone."""

from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from images import env_json, make_image
from need import need
from refusals import refusal
from stackproof import bench
from stackproof.bench import arms
from stackproof.bench.effects import kinds
from stackproof.bench.effects.kinds import container_case, image_arm, injected
from stackproof.bench.ready import ReadyArm
from stackproof.bench.spec import Arm
from stackproof.core.errors import Reason
from stackproof.core.value import replace
from stackproof.image.model import Deployment, Image, MpiFacts

FACTS = MpiFacts(family="mpich", version="5.0.2", prefix="/x", launcher="hydra")
READY = ReadyArm(
    arm=Arm(image="/x"),
    image=Image(path="/x", name="x", mount="/x", size=0, sha256="0", mpi=FACTS),
    deployment=Deployment(name="x", mounts=(), mpi=FACTS, programs={"a": "/x/a"}, image_sha256="0"),
)

# Modules that are imported by a name are not in what `-X importtime` prints.
LISTED = """
import atexit, runpy, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
runpy.run_module("stackproof", run_name="__main__")
"""


def test_every_kind_has_a_reader() -> None:
    assert kinds.REGISTRY.keys() == arms.REGISTRY.keys()
    for name in kinds.REGISTRY.values():
        module = importlib.import_module(f"{kinds.__name__}.{name}")
        assert isinstance(module.READER, kinds.ArmReader)


def test_no_module_imports_one_kind_of_arm() -> None:
    """They ask the registries: `bench/arms.py` for what is written, `effects/kinds` for the rest."""
    root = Path(bench.__file__).parent
    kept = {root / "effects" / "kinds"}
    names = {f"stackproof.bench.effects.kinds.{name}" for name in kinds.REGISTRY.values()}
    for path in root.rglob("*.py"):
        if path.parent in kept:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                here = {node.module, *(f"{node.module}.{one.name}" for one in node.names)}
                assert not here & names, f"{path}:{node.lineno}"


def test_a_dry_run_of_images_loads_nothing_of_other_kinds(tmp_path: Path) -> None:
    need("mksquashfs")
    for name in ("a", "b"):
        make_image(tmp_path / f"{name}.squashfs", meta=env_json(name=name))
    entry = {"baseline": {"image": "a.squashfs"}, "challengers": [{"image": "b.squashfs"}]}
    (tmp_path / "spec.yaml").write_text(json.dumps({**entry, "placements": ["intra-node"]}))
    done = subprocess.run(
        [sys.executable, "-c", LISTED, "bench", "spec.yaml", "--dry-run"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    names = set(done.stderr.split())
    others = ("stackproof.inject", "stackproof.pack", "stackproof.image.container", "numpy",
              "stackproof.build.effects", "stackproof.linking")  # fmt: skip
    assert [name for name in sorted(names) if f"{name}.".startswith(others)] == []
    loaded = {name for name in names if name.startswith(f"{kinds.__name__}.")}
    assert loaded == {"stackproof.bench.effects.kinds.image_arm"}


def test_a_ready_arm_carries_more_programs() -> None:
    more = READY.carrying("/made", {"b": "/made/b"})
    assert more.deployment.programs == {"a": "/x/a", "b": "/made/b"}
    assert (more.folders, more.carrying("/made", {}).folders) == (("/made",), ("/made",))
    assert READY.hidden(["libcuda.so.1"]) is None
    assert (READY.contained, READY.foreign) == (False, False)


def test_paths_are_what_they_are_and_labels_are_looked_up(tmp_path: Path) -> None:
    (tmp_path / "a.squashfs").touch()
    arm = Arm(image=f"{tmp_path}/a.squashfs:/x", inject=f"{tmp_path}/a.squashfs")
    assert image_arm.locate(arm, str(tmp_path), pytest.fail) == replace(arm, name="")
    other = Arm(prefix="/opt/mpi")
    assert kinds.reader_of(other).locate(other, str(tmp_path), pytest.fail) is other


def test_two_images_at_one_place_are_not_injected(tmp_path: Path) -> None:
    need("mksquashfs")
    image = make_image(tmp_path / "a.squashfs")
    ready = image_arm.READER.read(Arm(image=os.fspath(image)), ("stackproof-bench",))
    error = refusal(injected.with_injection, ready, os.fspath(image), ())
    assert error.reason is Reason.MOUNT_POINT_CLASH


def test_an_archive_that_is_not_there_is_named(tmp_path: Path) -> None:
    arm = Arm(container=f"oci-archive:{tmp_path}/none.tar", runtime="podman")
    assert refusal(container_case.find_archive, arm).reason is Reason.FILE_MISSING
