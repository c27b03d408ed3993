"""Arms of a bench with another MPI under their programs: judged, mounted and set."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from elflab import Lab
from images import MOUNT, env_json
from need import need
from refusals import refusal
from stackproof.bench.effects.arms import Arms, make_ready
from stackproof.bench.spec import Arm, BenchSpec
from stackproof.core.errors import Reason
from stackproof.core.value import replace
from stackproof.inject.effects import named as inject_named

USES_MPICH = "void MPI_Recv(int); void use(void) { MPI_Recv(0x4c000405); MPI_Recv(0x4c00080b); }\n"
EVERY = ["MPI_Init", "MPI_Recv", "MPI_Get_count", "MPII_Win_get_attr"]
NONE = {"default-view": None}
BILL = {"components": [{"name": "libfabric", "version": "2.1.0"}]}


class Site:
    """A folder with `app.squashfs`, which has a program and an MPICH, and what can be injected."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lab = Lab(folder)
        self.mpi("app/mpich")
        self.lab.program(
            "app/benchmarks/stackproof-bench", needs=["app/mpich/lib/libmpi.so.12"],
            calls=["MPI_Init", "MPI_Get_count"], declarations=USES_MPICH,
        )  # fmt: skip
        self.image("app", env_json(views={}, **NONE))

    def mpi(self, name: str, lacks: str = "", library: str = "libmpi.so.12") -> None:
        defines = [one for one in EVERY if one != lacks]
        self.lab.library(f"{name}/lib/{library}", defines=defines)

    def image(self, name: str, meta: dict[str, object]) -> None:
        tree = self.folder / name
        (tree / "meta").mkdir()
        (tree / "meta" / "env.json").write_text(json.dumps(meta))
        (tree / "meta" / "bom.cdx.json").write_text(json.dumps(BILL))
        argv = ["mksquashfs", tree, f"{tree}.squashfs", "-noappend", "-no-progress", "-quiet"]
        subprocess.run(argv, check=True, timeout=600, capture_output=True)

    def ready(self, inject: str, *, accept_unknown: bool = False) -> Arms:
        app = str(self.folder / "app.squashfs")
        arm = Arm(
            image=app, name="other", inject=f"{self.folder}/{inject}", accept_unknown=accept_unknown
        )  # fmt: skip
        return make_ready(BenchSpec(baseline=Arm(image=app), challengers=(arm,)))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    need("gcc", "mksquashfs")
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))
    return Site(tmp_path)


def test_an_image_takes_the_place_of_the_mpi(site: Site) -> None:
    site.mpi("new")
    mpi = {"family": "mpich", "version": "4.3.1", "prefix": "/built", "launcher": "hydra"}
    site.image("new", env_json(name="new", mount="/built", mpi=mpi, views={}, **NONE))
    arms = site.ready("new.squashfs:/user-other")
    own, other = arms.by_name["tiny"], arms.by_name["other"]
    assert own.deployment.mpi.version == "5.0.2"
    assert (other.deployment.mpi.version, other.deployment.mpi.prefix) == ("4.3.1", "/user-other")
    assert [mount.mount_point for mount in other.deployment.mounts] == [MOUNT, "/user-other"]
    assert other.deployment.env.apply({})["LD_LIBRARY_PATH"] == "/user-other/lib"
    assert other.libfabric.version == "2.1.0"
    assert other.image.sha256.startswith(f"{own.image.sha256}+")
    assert f"{site.folder}/new.squashfs" in arms.paths


def test_a_library_of_another_name_is_seen_by_every_node(site: Site) -> None:
    site.mpi("named", library="libmpich.so.12")
    mpi = {"family": "mpich", "version": "4.0.2", "prefix": "/built", "launcher": "hydra"}
    site.image("named", env_json(name="named", mount="/built", mpi=mpi, views={}, **NONE))
    arms = site.ready("named.squashfs")
    (links,) = arms.by_name["other"].folders
    assert links in arms.paths
    assert (Path(links) / "libmpi.so.12").readlink() == Path("/built/lib/libmpich.so.12")


@pytest.mark.parametrize("place", ["lib", "software/libfabric/2.1.0/lib"])
def test_a_libfabric_is_found_in_an_image(site: Site, place: str) -> None:
    site.lab.library(f"net/{place}/libfabric.so.1", defines=["fi_getinfo"])
    site.image("net", env_json(name="net", mount="/user-net", mpi=None, views={}, **NONE))
    prefix = str(Path("/user-net", place).parent)
    assert inject_named.load_place(f"{site.folder}/net.squashfs").prefix == prefix
    moved = inject_named.load_place(f"{site.folder}/net.squashfs:/opt/net")
    assert moved.prefix == prefix.replace("/user-net", "/opt/net")


def test_an_image_without_a_network_has_no_prefix(site: Site) -> None:
    site.lab.library("plain/lib/libother.so.1", defines=["other"])
    site.image("plain", env_json(name="plain", mount="/user-net", mpi=None, views={}, **NONE))
    assert inject_named.load_place(f"{site.folder}/plain.squashfs").prefix == ""


def test_what_fails_is_refused_with_its_reason(site: Site) -> None:
    site.mpi("gone", lacks="MPI_Get_count")
    for accept in (False, True):
        assert refusal(site.ready, "gone", accept_unknown=accept).reason is Reason.INJECTION_FAILS


def test_a_folder_does_not_say_which_mpi_it_is(site: Site) -> None:
    site.mpi("new")
    assert refusal(site.ready, "new").reason is Reason.UNSUPPORTED


def test_two_images_at_one_place(site: Site) -> None:
    assert refusal(site.ready, "app.squashfs").reason is Reason.MOUNT_POINT_CLASH


def named(site: Site, *arms: Arm) -> list[str]:
    ready = make_ready(BenchSpec(baseline=arms[0], challengers=arms[1:], null_arm=False))
    return list(ready.by_name)


def test_arms_that_nobody_named_are_told_apart(site: Site) -> None:
    mpi = {"family": "mpich", "prefix": f"{MOUNT}/mpich", "launcher": "hydra"}
    for folder, version in (("old", "4.3.1"), ("new", "5.0.2"), ("newer", "5.0.2")):
        site.mpi(f"{folder}/mpich")
        site.image(folder, env_json(name="mpich", mpi={**mpi, "version": version}, **NONE))
    old, new, newer = (
        Arm(image=f"{site.folder}/{name}.squashfs") for name in ("old", "new", "newer")
    )
    assert named(site, old) == ["mpich"]
    assert named(site, old, new) == ["mpich-4.3.1", "mpich-5.0.2"]
    assert named(site, old, new, newer) == ["mpich-4.3.1", "new", "newer"]
    assert named(site, old, replace(new, name="mine")) == ["mpich", "mine"]
    taken = replace(new, name="mpich-4.3.1")
    assert named(site, old, taken, new) == ["old", "mpich-4.3.1", "mpich-5.0.2"]
    error = refusal(named, site, new, new)
    assert error.reason is Reason.INVALID_VALUE
    assert "NAME=IMAGE" in str(error)
