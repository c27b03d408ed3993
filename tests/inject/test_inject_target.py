"""`inject check --target`: the verdict for a machine that is known by facts only."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import archspec.cpu
import pytest

from eessilab import EVERY, USES_MPICH, Eessi, inject
from need import need
from stackproof.core.errors import ExitCode
from stackproof.inject import target
from stackproof.inject.effects import known_releases, named
from stackproof.inject.target import target_of_site
from stackproof.linking.loader.machine import LEVELS
from stackproof.site.model import External, Partition, Site

COVERS = ("inject/effects/target.py",)


@pytest.fixture
def lab(tmp_path: Path) -> Eessi:
    """A program for the system's own MPI, and a replacement that needs more of the system."""
    need("gcc")
    lab = Eessi(tmp_path)
    lab.library(
        "system/libcxi.so.1",
        defines=["cxil_new", "cxil_old"],
        script="LIBCXI_1.8 { cxil_old; }; LIBCXI_1.10 { cxil_new; } LIBCXI_1.8;",
    )
    lab.library(
        "mpi/lib/libmpi.so.12", defines=EVERY, imports=["cxil_new"], needs=["system/libcxi.so.1"]
    )
    lab.program(
        "app", needs=["eessi/lib/libmpi.so.12"], calls=["MPI_Init"], declarations=USES_MPICH
    )
    return lab


def site(place: Path, **facts) -> Path:
    """Write a site file by hand, as JSON, which is YAML too."""
    words = ["partitions", "glibc", "launchers", "externals"]
    data = {
        "name": "big",
        "partitions": {"cpu": {"architecture": "x86_64", "microarchitecture": "zen2"}},
        **facts,
        "sources": {"me": {"title": "by hand", "date": "2026"}},
    }
    data["facts"] = dict.fromkeys([word for word in words if word in data], "me")
    place.write_text(json.dumps(data))
    return place


def check(capsys, lab, *words):
    code, out, err = inject(capsys, "check", lab.path("app"), "--json", *words)
    assert err == ""
    (one,) = json.loads(out)["programs"]
    return code, {finding["cause"]: finding for finding in one["findings"]}


@pytest.mark.parametrize(
    ("facts", "code", "cause"),
    [
        ({"glibc": "2.99"}, ExitCode.DONE, None),
        ({"glibc": "2.2.5"}, ExitCode.WORSE, "version-missing"),
        ({}, ExitCode.UNKNOWN, "target-unknown"),
        ({"glibc": "2.99", "launchers": {"srun": {"pmi": ["pmix"]}}}, ExitCode.WORSE, "launcher"),
        ({"glibc": "2.99", "launchers": {"srun": {"pmi": ["pmix", "pmi2"]}}}, ExitCode.DONE, None),
        ({"glibc": "2.99", "partitions": {"cpu": {"architecture": "aarch64"}}}, ExitCode.WORSE, "other-machine"),
    ],
)  # fmt: skip
def test_facts_of_a_site(lab, capsys, tmp_path, facts, code, cause):
    place = site(tmp_path / "big.yaml", **facts)
    found = check(capsys, lab, "--with", lab.path("host"), "--target", place)
    assert (found[0], set(found[1])) == (code, {cause} - {None})


@pytest.mark.parametrize(
    ("release", "code", "causes"),
    [
        ("14.0.0", ExitCode.UNKNOWN, {"target-unknown"}),  # its symbols are not known here
        ("12.0.2", ExitCode.WORSE, {"version-missing", "target-unknown"}),
    ],
)
def test_a_library_that_only_the_target_has(lab, capsys, tmp_path, release, code, causes):
    externals = {"slingshot-host-software": {"version": release}}
    place = site(tmp_path / "big.yaml", glibc="2.99", externals=externals)
    found = check(capsys, lab, "--with", lab.path("mpi"), "--target", place)
    assert (found[0], set(found[1])) == (code, causes)


def test_a_driver_older_than_the_library(lab, capsys, tmp_path):
    """A libcxi that is brought along finds the driver that the target has."""
    shutil.copy(lab.path("system/libcxi.so.1"), lab.path("mpi/lib/libcxi.so.1"))
    for release, code in (("14.0.0", ExitCode.DONE), ("12.0.2", ExitCode.UNKNOWN)):
        externals = {"slingshot-host-software": {"version": release}}
        place = site(tmp_path / "big.yaml", glibc="2.99", externals=externals)
        found = check(capsys, lab, "--with", lab.path("mpi"), "--target", place)
        assert found[0] == code
        assert set(found[1]) == ({"driver"} if code else set())


def test_the_files_of_the_target(lab, capsys, tmp_path):
    """A manifest from there holds its C library: what that one lacks, the target lacks."""
    place = tmp_path / "there.json"
    assert inject(capsys, "manifest", lab.path("host"), "-o", place)[0] == ExitCode.DONE
    assert check(capsys, lab, "--with", lab.path("host"), "--target", place)[0] == ExitCode.DONE
    data = json.loads(place.read_text())
    libc = next(path for path in data["files"] if path.rpartition("/")[2] == "libc.so.6")
    nodes = data["files"][libc]["version_definitions"]
    data["files"][libc]["version_definitions"] = [n for n in nodes if n[0] != "GLIBC_2.34"]
    place.write_text(json.dumps(data))
    code, found = check(capsys, lab, "--with", lab.path("host"), "--target", place)
    assert code == ExitCode.WORSE
    assert found["version-missing"]["version"] == "GLIBC_2.34"


def test_a_container_brings_its_own_system(lab, capsys, tmp_path):
    root = tmp_path / "root"
    (root / "srv").mkdir(parents=True)
    shutil.copy(lab.path("app"), root / "srv" / "app")
    listed = subprocess.run(
        ["ldd", lab.path("app")], capture_output=True, text=True, check=False, timeout=600
    )
    libc = next(line.split()[2] for line in listed.stdout.splitlines() if "libc.so.6" in line)
    view = named.RootView()
    loader = view.elf(view.look(lab.path("app"))).interpreter
    for path in (libc, loader):
        (root / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, root / path[1:])
    place = site(tmp_path / "big.yaml", glibc="2.2.5")
    words = ["check", "/srv/app", "--root", root, "--with", lab.path("host"), "--target", place]
    assert inject(capsys, *words)[0] == ExitCode.DONE


def test_wrong_input(lab, capsys, tmp_path):
    for name in ("nowhere", tmp_path / "missing.yaml", tmp_path / "missing.json"):
        code, out, err = inject(
            capsys, "check", lab.path("app"), "--with", lab.path("host"), "--target", name
        )
        assert (code, out) == (ExitCode.INVALID, "")
        assert str(name) in err


def test_releases_become_nodes():
    releases = known_releases.load_releases()
    every = {"libfabric": "1.15.2.0", "slingshot-host-software": "13.1", "gcc": "12.3"}
    externals = {name: External(version=version) for name, version in every.items()}
    found = target_of_site(Site(name="x", glibc="2.31", externals=externals), releases)
    assert found.nodes == {
        "FABRIC": "FABRIC_1.6", "LIBCXI": "LIBCXI_1.9", "GLIBC": "GLIBC_2.31", "GCC": "GCC_12.3",
        "GFORTRAN": "GFORTRAN_12.3", "GLIBCXX": "GLIBCXX_3.4.30", "CXXABI": "CXXABI_1.3.13",
    }  # fmt: skip
    assert releases.nodes_of("libfabric", "2.0") == {"FABRIC": "FABRIC_1.8"}
    assert releases.nodes_of("libfabric", "2.6.0") == {"FABRIC": "FABRIC_1.9"}


def test_the_weakest_of_several_partitions():
    partitions = {
        name: Partition(architecture="x86_64", microarchitecture=name) for name in ("zen4", "zen2")
    }
    found = target_of_site(Site(name="x", partitions=partitions), known_releases.load_releases())
    assert found.level == "x86-64-v3"
    partitions["unknown"] = Partition(architecture="x86_64")
    assert not target_of_site(
        Site(name="x", partitions=partitions), known_releases.load_releases()
    ).level


def test_levels_are_those_of_archspec():
    for name, level in target._LEVELS.items():
        names = {name, *(one.name for one in archspec.cpu.TARGETS[name].ancestors)}
        found = [
            one for one in LEVELS if one.replace("-", "_").replace("x86_64_v1", "x86_64") in names
        ]
        assert found[-1] == level
