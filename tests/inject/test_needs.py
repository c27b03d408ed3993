"""What an image needs of a machine, held against sites that have it, lack it, or do not say."""

from __future__ import annotations

import json
from pathlib import Path

import archspec.cpu
import pytest

from need import need
from packs import CALLS_ANSWER, Stack
from stackproof import cli
from stackproof.core.errors import ExitCode
from stackproof.inject import target
from stackproof.inject.effects import known_releases
from stackproof.inject.needs import TreeNeeds, lacks
from stackproof.inject.releases import Releases
from stackproof.inject.target import Target, target_of_site
from stackproof.linking.loader.machine import LEVELS
from stackproof.site.model import External, Partition, Site

COVERS = ("mount/cli/needs.py",)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an image whose program needs a library that is not in it."""
    need("gcc", "mksquashfs")
    stack = Stack(tmp_path_factory.mktemp("image"))
    stack.library("libanswer", "int answer(void) { return 42; }")
    gone = stack.library("libxpmem", "int xpmem(void) { return 0; }")
    stack.program("hello", CALLS_ANSWER, "-Wl,--no-as-needed", needs=("answer", "xpmem"))
    gone.unlink()
    gone.with_name("libxpmem.so").unlink()
    return stack.image()


def asked(capsys, image: Path, *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        cli.main(["inspect", str(image), *words])
    said = capsys.readouterr()
    return int(stop.value.code or 0), said.out, said.err


def site(folder: Path, text: str, facts: str) -> str:
    path = folder / "site.yaml"
    path.write_text(f"name: there\n{text}\nsources: {{a: {{title: b}}}}\nfacts: {facts}\n")
    return str(path)


def test_what_an_image_needs(image, tmp_path, capsys):
    code, out, _ = asked(capsys, image, "--needs")
    assert (code, "libanswer" in out) == (0, False)
    assert "GLIBC_2." in out
    assert "libxpmem.so.1  /user-environment/bin/hello" in out
    old = site(tmp_path, 'glibc: "2.1"', "{glibc: a}")
    code, out, _ = asked(capsys, image, "--needs", "--site", old)
    assert code == ExitCode.WORSE
    assert "there has `GLIBC_2.1`" in out
    system = site(tmp_path, "os: CentOS Linux 7 (Core)", "{os: a}")
    code, out, _ = asked(capsys, image, "--needs", "--site", system)
    assert code == ExitCode.WORSE
    assert "there has `GLIBC_2.17`, as CentOS Linux 7 (Core) has" in out
    new = site(tmp_path, 'glibc: "2.99"', "{glibc: a}")
    code, out, _ = asked(capsys, image, "--needs", "--site", new)
    assert (code, "not known: `libxpmem.so.1`" in out) == (ExitCode.UNKNOWN, True)
    data = json.loads(asked(capsys, image, "--needs", "--site", new, "--json")[1])
    assert data["lacks"] == []
    assert list(data["libraries"]) == ["libxpmem.so.1"]


def test_a_site_alone_is_nothing_to_show(image, capsys):
    code, _, err = asked(capsys, image, "--site", "local")
    assert (code, "`--needs`" in err) == (ExitCode.USAGE, True)


def test_what_facts_tell():
    """Another machine, an older processor; a node of no known release is left to its library."""
    needs = TreeNeeds(
        machine="x86_64", level="x86-64-v4", nodes={"LIBCXI": "LIBCXI_1.10", "EFA": "EFA_1.2"},
        asks={"LIBCXI": "/a", "EFA": "/b"}, libraries={"libcxi.so.1": "/a", "libefa.so.1": "/b"},
    )  # fmt: skip
    releases = Releases(meanings={"LIBCXI_1.10": "Slingshot host software 14.0.0"})
    known = Target(name="s", architecture="x86_64", level="x86-64-v3",
                   nodes={"LIBCXI": "LIBCXI_1.8"}, present=frozenset({"libcxi.so.1"}))  # fmt: skip
    found = lacks(needs, known, releases)
    assert found.lacks == (
        "it needs processors of x86-64-v4, and s has x86-64-v3",
        "`LIBCXI_1.10` (Slingshot host software 14.0.0), for /a: s has `LIBCXI_1.8`",
    )
    assert found.unknown == ("`libefa.so.1`, for /b: s does not say that it has it",)
    other = lacks(needs, Target(name="s", architecture="aarch64"), releases)
    assert other.lacks == ("it is for x86_64, and s is aarch64",)
    assert len(other.unknown) == 3


@pytest.mark.parametrize(
    ("name", "glibc"),
    [
        ("lumi-c", "2.31"), ("frontier", "2.38"), ("aurora", "2.31"), ("el-capitan", "2.28"),
    ],
)  # fmt: skip
def test_shipped_sites_say_yes_or_no(capsys, image, name, glibc):
    """What this machine compiles asks for its C library: an older one there is told, a newer not."""
    data = json.loads(asked(capsys, image, "--needs", "--site", name, "--json")[1])
    asks = data["nodes"]["GLIBC"].removeprefix("GLIBC_")
    told = [line for line in data["lacks"] if f"{name} has `GLIBC_{glibc}`" in line]
    older = tuple(map(int, glibc.split("."))) < tuple(map(int, asks.split(".")))
    assert bool(told) == older, (asks, data)
    assert not any("GLIBC" in line for line in data["unknown"])


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
