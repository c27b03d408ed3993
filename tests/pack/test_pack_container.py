"""A pack as a container image: read by our own reader of layouts, loaded and run by podman."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest

import containerlab
import packs
from need import need
from packs import pack
from stackproof.core.value import replace
from stackproof.image.model import MpiFacts
from stackproof.pack.cli.pack import describe_start
from stackproof.pack.effects import deliver
from stackproof.pack.model import Origin, Pack

PODMAN_S = 600


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("gcc", "mksquashfs", "patchelf")
    return packs.small(tmp_path_factory.mktemp("small"))


def described(name: str = "stack", main: str = "") -> Pack:
    origin = Origin(
        image=name, image_sha256="0" * 64, stack="", lock="", tree="", glibc="2.36", stackproof="1"
    )
    return Pack(
        name=name, tier=0, origin=origin, floor=17, programs={"a": "stack/bin/a"}, main=main,
        libraries={}, tree="1" * 64,
    )  # fmt: skip


def test_the_only_program_is_what_a_container_starts() -> None:
    alone = json.loads(deliver.render_config(described(main="a"), "2" * 64))
    assert alone["config"]["Entrypoint"] == ["/opt/stack/bin/a"]
    several = json.loads(deliver.render_config(described(), "2" * 64))
    assert "Entrypoint" not in several["config"]
    assert several["config"]["Env"][0].startswith("PATH=/opt/stack/bin:")
    assert several["rootfs"]["diff_ids"] == ["sha256:" + "2" * 64]


@pytest.mark.parametrize(("family", "pmi"), [("openmpi", "pmix"), ("mpich", "pmi2")])
def test_a_pack_says_how_its_ranks_start(family: str, pmi: str) -> None:
    """Ranks that srun starts by another interface are each alone in a world."""
    mpi = MpiFacts(family=family, version="5", prefix="stack/mpi", launcher="hydra")
    programs = {"a": "stack/bin/a", "mpiexec": "stack/mpi/bin/mpiexec"}
    asked = replace(described(main="a"), mpi=mpi, programs=programs)
    start = f"start: bin/mpiexec -n 2 bin/a, or in Slurm srun --mpi={pmi} bin/a"
    assert describe_start(asked).strip() == start
    assert describe_start(described(main="a")) == ""


def test_a_layout_has_the_same_bytes_whoever_writes_it(tmp_path: Path) -> None:
    sums = set()
    for number, umask in enumerate((0o022, 0o077)):
        tree = tmp_path / str(number) / "pack"
        (tree / "bin").mkdir(parents=True)
        (tree / "bin/a").write_text("a")
        os.utime(tree / "bin/a", (number, number))
        for path in (tree, tree / "bin", tree / "bin/a"):
            path.chmod(0o755)
        before = os.umask(umask)
        try:
            deliver.write_layout(tree, tmp_path / f"{number}.oci.tar", described())
        finally:
            os.umask(before)
        sums.add(hashlib.sha256((tmp_path / f"{number}.oci.tar").read_bytes()).hexdigest())
    assert len(sums) == 1


@pytest.mark.battery
def test_every_part_has_the_digest_that_names_it(tmp_path: Path, image: Path) -> None:
    done = pack(image, "hello", "-o", "p.oci", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    blobs = tmp_path / "p.oci/blobs/sha256"
    for blob in blobs.iterdir():
        assert hashlib.sha256(blob.read_bytes()).hexdigest() == blob.name
    (entry,) = json.loads((tmp_path / "p.oci/index.json").read_text())["manifests"]
    manifest = json.loads((blobs / entry["digest"][7:]).read_text())
    for one in (entry, manifest["config"], *manifest["layers"]):
        assert (blobs / one["digest"][7:]).stat().st_size == one["size"]
    again = pack(image, "hello", "-o", "p.oci", cwd=tmp_path)
    assert (again.returncode, "is a folder" in again.stderr) == (2, True)


@pytest.mark.battery
def test_podman_loads_and_runs_it(tmp_path: Path, image: Path) -> None:
    """As a folder and as an archive, for a user without rights, on a read-only root."""
    assert pack(image, "hello", "-o", "p.oci", cwd=tmp_path).returncode == 0
    assert pack(image, "-o", "p.oci.tar", cwd=tmp_path).returncode == 0
    with containerlab.store() as store:

        def podman(*words: str) -> str:
            done = subprocess.run(
                ["podman", *words], env={**os.environ, **store.env}, cwd=tmp_path,
                capture_output=True, text=True, timeout=PODMAN_S, check=False,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            return done.stdout

        plain = ("run", "--rm", "--network", "none", "--read-only", "--cap-drop", "all")
        said = podman(*plain, "--user", "12345", "oci:p.oci", "y z")
        assert said == "/opt/stack/bin/hello 42 /opt/stack/stack/lib\ny z\n"
        assert "localhost/stack:latest" in podman("load", "-i", "p.oci.tar")
        said = podman(*plain, "localhost/stack:latest", "hello", "x")
        assert said == "hello 42 /opt/stack/stack/lib\nx\n"
