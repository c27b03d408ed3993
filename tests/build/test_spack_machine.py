"""What a machine offers to Spack, with programs that say what real ones say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from need import need
from stackproof.build.engines.spack.effects import machine as spack_machine
from stackproof.build.engines.spack.stack import Programs
from stackproof.build.engines.spack.stackinator import defaults
from stackproof.build.engines.spack.stackinator.cluster import read_cluster
from stackproof.build.engines.spack.stackinator.defaults import (
    MachineFacts,
    SystemPackage,
    default_cluster_config,
)
from stackproof.build.engines.spack.stackinator.findings import FindingsList, Folder
from stackproof.core.document import parse
from stackproof.core.effects import run
from stackproof.site.effects.probe import load_site
from stackproof.site.model import FabricType, parse_site

GCC = Programs(
    package="gcc", version="12.3.0", prefix="/usr", ours=False,
    paths={"c": "/usr/bin/gcc-12", "cxx": "/usr/bin/g++-12"},
)  # fmt: skip


def program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "usr" / "bin"
    folder.mkdir(parents=True)
    monkeypatch.setenv("PATH", f"{folder}:/bin")
    monkeypatch.setattr(spack_machine.shutil, "which", lambda name: which(folder, name))
    return folder


def which(folder: Path, name: str) -> str | None:
    return str(folder / name) if (folder / name).is_file() else None


def test_compilers_each_version_once(programs: Path):
    for suffix, version in (("", "12.3.0"), ("-12", "12.3.0"), ("-13", "13.2.1"), ("-14", "no")):
        program(programs, f"gcc{suffix}", f"echo {version}")
        program(programs, f"g++{suffix}", "exit 1")
    program(programs, "gfortran-13", "exit 1")
    program(programs, "gcc-11", "echo 11.4.0")  # without a C++ compiler
    found = list(spack_machine.find_compilers())
    assert [(c.version, Path(c.paths["c"]).name, "fortran" not in c.paths) for c in found] == [
        ("12.3.0", "gcc", True),
        ("13.2.1", "gcc-13", False),
    ]
    assert found[0].prefix == str(programs.parent)


def test_a_gcc_without_its_cxx_is_left_out_with_the_reason(programs: Path):
    """As Debian's package `gcc` is alone."""
    program(programs, "gcc", "echo 14.2.0")
    facts, left_out = spack_machine.facts_of(load_site("lumi-c"))
    assert facts.compilers == ()
    assert [line for line in left_out if line.startswith("gcc: ")] == [
        f"gcc: `{programs}/gcc` is here and its C++ compiler, g++, is not: install that too"
    ]
    program(programs, "g++", "exit 0")
    facts, left_out = spack_machine.facts_of(load_site("lumi-c"))
    assert [compiler.version for compiler in facts.compilers] == ["14.2.0"]
    assert not any(line.startswith("gcc: ") for line in left_out)


def test_a_machine_without_anything(programs: Path):
    assert list(spack_machine.find_compilers()) == []
    packages, _ = spack_machine.find_packages()
    assert {p.name for p in packages} <= {"cray-mpich", "libfabric"}


def test_packages(programs: Path, tmp_path: Path):
    prefix = tmp_path / "opt" / "fabric"
    (prefix / "include" / "rdma").mkdir(parents=True)
    (prefix / "include" / "rdma" / "fabric.h").write_text("")
    (prefix / "bin").mkdir()
    told = "psm9:\n    version: 1\ncxi:\n    version: 119.0\ntcp:\n    version: 119.0\nofi_rxm:\n"
    program(prefix / "bin", "fi_info", f"printf '{told}'")
    program(programs, "srun", "echo slurm 24.05.4")
    program(
        programs,
        "pkg-config",
        'case "$*" in\n'
        '"--modversion libfabric") echo 1.22.0;;\n'
        f'"--variable=prefix libfabric") echo {prefix};;\n'
        '"--modversion libibverbs") echo 1.14.44.0;;\n'
        '"--modversion cray-xpmem") echo 2.9.6;;\n'
        "--variable*) echo /usr;;\n*) exit 1;;\nesac",
    )
    found = {p.name: (p.spec, p.prefix) for p in spack_machine.find_packages()[0]}
    assert found["slurm"] == ("slurm@24-05-4", str(programs.parent))
    assert found["xpmem"] == ("xpmem@2.9.6", "/usr")
    assert found["rdma-core"] == ("rdma-core@44.0", "/usr")
    assert found["libfabric"] == ("libfabric@1.22.0 fabrics=cxi,rxm,tcp", str(prefix))


def test_slurm_that_does_not_answer_is_left_out_with_the_reason(programs: Path):
    program(programs, "srun", "exit 1")
    packages, left_out = spack_machine.find_packages()
    assert "slurm" not in {p.name for p in packages}
    assert any(line.startswith("slurm: ") for line in left_out)


def test_cray_mpich_with_the_newest_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for path in (
        "8.1.32/ofi/gnu/9.1",
        "8.1.32/ofi/gnu/12.3",
        "default",
        "8.1.30/ofi/crayclang/17.0",
    ):
        (tmp_path / path).mkdir(parents=True)
    monkeypatch.setattr(spack_machine, "_CRAY_MPICH", str(tmp_path))
    found = [p for p in spack_machine.find_packages()[0] if p.name == "cray-mpich"]
    assert [(p.spec, p.prefix) for p in found] == [
        ("cray-mpich@8.1.32", f"{tmp_path}/8.1.32/ofi/gnu/12.3")
    ]


def test_packages_of_a_site_file():
    text = (
        "name: fjord\nexternals:\n  libfabric: {version: '1.22.0', path: /opt/cray/libfabric}\n"
        "  xpmem: {}\n  slurm: {version: 24.05.4, path: /usr}\n"
        "vendor-mpi: {family: cray-mpich, version: '8.1.32'}\nfabric: {type: slingshot-11}\n"
        "sources: {a: {title: a}}\nfacts: {externals: a, vendor-mpi: a, fabric: a}\n"
    )
    site = parse_site(parse(text, file="fjord.yaml"))
    facts, left_out = spack_machine.facts_of(site)
    assert {p.name: p.prefix for p in facts.packages} == {
        "libfabric": "/opt/cray/libfabric/1.22.0",
        "slurm": "/usr",
    }
    assert facts.fabric is FabricType.SLINGSHOT_11
    assert sorted(line.partition(":")[0] for line in left_out) == ["cray-mpich", "xpmem"]


def offered(**options) -> dict:
    facts = MachineFacts(name="here", architecture="x86_64", compilers=(GCC,), **options)
    return {"facts": facts, "cluster": default_cluster_config(facts)}


@pytest.mark.parametrize("fabric", [None, *FabricType])
@pytest.mark.parametrize("gpu", [None, "cuda", "rocm"])
def test_what_is_generated_is_a_valid_cluster(fabric, gpu):
    packages = tuple(
        SystemPackage(name=name, spec=f"{name}@1.0", prefix="/usr")
        for name in ("slurm", "xpmem", "libfabric", "cray-mpich")
    )
    made = offered(fabric=fabric, gpu=gpu, packages=packages, operating_system="debian12")
    documents = defaults.cluster_documents(made["cluster"])
    assert set(documents) == set(defaults.comments(made["facts"]))
    texts = {name: yaml.safe_dump(data).encode() for name, data in documents.items()}
    for generation in (1, 2):
        findings = FindingsList()
        found = read_cluster(Folder(path="here", texts=texts), (), generation, findings)
        assert findings.problems == []
        assert found.mpis == made["cluster"].mpis
        assert found.merged_packages({}) == made["cluster"].merged_packages({})
        assert found.compilers == (made["cluster"].compilers if generation == 1 else ())


def test_the_fabric_decides_the_providers():
    cxi = offered(fabric=FabricType.SLINGSHOT_11)["cluster"].mpis
    assert "cxi" in cxi["openmpi"][0]
    assert "lnx" in cxi["openmpi"][0]
    assert "lnx" not in cxi["mpich"][0]
    verbs = offered(fabric=FabricType.INFINIBAND)["cluster"].mpis
    assert "verbs" in verbs["openmpi"][0]
    plain = offered()["cluster"].mpis
    assert plain["openmpi"] == plain["mpich"] == ("libfabric fabrics=rxm,shm,tcp",)
    assert "cray-mpich" not in plain


def test_what_is_not_known_is_not_required():
    packages = offered()["cluster"].merged_packages({})
    assert "schedulers=slurm" not in packages["openmpi"]["require"]
    assert not any("xpmem" in text for text in packages["openmpi"]["require"])
    assert "slurm" not in packages
    assert offered()["cluster"].compilers == ()


def test_the_gcc_of_this_machine_is_found_for_real():
    need("gcc", "g++")
    cluster = spack_machine.cluster_of(load_site("local"), run.run)
    compilers = cluster.packages["gcc"]["externals"][0]["extra_attributes"]["compilers"]
    assert os.access(compilers["c"], os.X_OK)
    assert cluster.name == "local"
    shipped = spack_machine.cluster_of(load_site("lumi-c"))
    assert shipped.packages["gcc"] == cluster.packages["gcc"]
    assert "cxi" in shipped.mpis["openmpi"][0]
