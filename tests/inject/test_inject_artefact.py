"""Network-stack artefacts of compiled libraries, loaded by the real loader."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from eessilab import EVERY, USES_MPICH, inject
from elflab import Lab, run
from need import need
from stackproof.core.errors import ExitCode, Reason, StackproofError
from stackproof.inject import hook_manifest
from stackproof.inject.effects import artefact as inject_artefact
from stackproof.inject.levels import ArtefactMetadata, Variant, choose_variant

COVERS = ("inject/artefact.py", "inject/cli/artefact.py")

NODES = {
    "12": "LIBCXI_1.8 { global: cxil_open; local: *; };\n",
    "13": "LIBCXI_1.8 { global: cxil_open; local: *; };\n"
    "LIBCXI_1.9 { global: cxil_modify_cp; } LIBCXI_1.8;\n",
}


class Site(Lab):
    """A program with its MPI and libfabric, and prefixes of other network stacks."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.stack("own", defines=["fi_getinfo"], nodes="12")
        self.library(
            "own/lib/libmpi.so.12",
            defines=EVERY,
            imports=["fi_getinfo"],
            needs=["own/lib/libfabric.so.1"],
            flags=["-Wl,--enable-new-dtags,-rpath,$ORIGIN"],
        )
        self.app = self.program(
            "app",
            needs=["own/lib/libmpi.so.12", "own/lib/libz.so.1"],
            calls=["MPI_Init", "via_fi_getinfo", "inflate"],
            declarations=USES_MPICH,
            flags=[f"-Wl,--enable-new-dtags,-rpath,{self.path('own/lib')}"],
        )

    def stack(self, name, *, defines, nodes, fabric="FABRIC_1.8"):
        """Compile libfabric with a plug-in, libcxi, xpmem and a libz that only it knows."""
        rpath = ["-Wl,--enable-new-dtags,-rpath,$ORIGIN:$ORIGIN/.."]
        calls = ["cxil_open"] if nodes == "12" else ["cxil_open", "cxil_modify_cp"]
        self.library(f"{name}/lib/libcxi.so.1", defines=calls, script=NODES[nodes])
        self.library(f"{name}/lib/libxpmem.so.0", defines=["xpmem_make"])
        self.library(f"{name}/lib/libz.so.1", defines=["inflate"])
        needs = [f"{name}/lib/{word}" for word in ("libcxi.so.1", "libz.so.1")]
        self.library(
            f"{name}/lib/libfabric.so.1",
            defines=[*defines, "fi_log"],
            imports=["inflate", *calls],
            needs=needs,
            script=f"FABRIC_1.0 {{ global: fi_log; }};\n{fabric} {{ global: *; }} FABRIC_1.0;\n",
            flags=rpath,
        )
        self.library(
            f"{name}/lib/libfabric/libtoy-fi.so",
            defines=["fi_prov_ini"],
            imports=["cxil_open", "fi_log"],
            needs=[needs[0], f"{name}/lib/libfabric.so.1"],
            flags=rpath,
        )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    need("gcc", "patchelf")
    site = Site(tmp_path)
    site.stack("new", defines=["fi_getinfo"], nodes="13")
    return site


def made(capsys, site, *words):
    code, out, err = inject(capsys, "artefact", *words, "--json")
    assert (code, err) == (ExitCode.DONE, ""), err
    return json.loads(out)


def read_path(library):
    """Return the DT_RPATH of a library."""
    argv = ["patchelf", "--print-rpath", library]
    return subprocess.run(argv, capture_output=True, text=True, timeout=600, check=True).stdout


def loaded(program, **env):
    outcome = run(program, env=env)
    assert outcome.done, outcome.error
    return outcome, {os.path.basename(path): path for path in outcome.loaded}


def test_only_what_is_injected_comes_from_an_artefact(site, capsys):
    """Its libz and libcxi have names of their own; the program keeps its libz."""
    net = site.path("net")
    data = made(capsys, site, site.path("new"), "-o", net)
    (variant,) = data["variants"]
    assert variant["variant"]["levels"] == ["provider", "libcxi", "libfabric"]
    tags = {
        re.sub(r"-sp[0-9a-f]{8}", "-TAG", path)
        for path in variant["files"]
        if path.startswith("private")
    }
    assert tags == {"private/libcxi-TAG.so.1", "private/libz-TAG.so.1"}
    shutil.rmtree(site.path("new"))  # nothing leads back to the prefix
    outcome, files = loaded(site.app, LD_LIBRARY_PATH=f"{net}/default/libfabric")
    assert outcome.answers["via_fi_getinfo"] == "new/lib/libfabric.so.1"
    assert outcome.answers["inflate"] == "own/lib/libz.so.1"
    assert files["libfabric.so.1"] == f"{net}/default/libfabric/libfabric.so.1"
    assert files["libz.so.1"] == site.path("own/lib/libz.so.1")
    private = [name for name in files if "-sp" in name]
    assert len(private) == 2
    for name in private:
        assert os.path.realpath(files[name]) == f"{net}/default/private/{name}"


def test_versions_survive_the_new_names(site, capsys):
    net = site.path("net")
    made(capsys, site, site.path("new"), "-o", net)
    said = subprocess.run(
        ["readelf", "--wide", "--version-info", f"{net}/default/libfabric/libfabric.so.1"],
        check=True, capture_output=True, text=True, timeout=600,
    ).stdout  # fmt: skip
    assert re.search(r"File: libcxi-sp[0-9a-f]{8}\.so\.1", said)
    assert "LIBCXI_1.9" in said
    assert "FABRIC_1.8" in said


def test_levels_are_ranked(site, capsys):
    """All work: what touches least comes first."""
    net = site.path("net")
    made(capsys, site, site.path("new"), "-o", net)
    code, out, err = inject(capsys, "check", site.app, "--with", net, "--json")
    assert (code, err) == (ExitCode.DONE, "")
    (levels,) = json.loads(out)["programs"].values()
    assert [(one["name"], one["verdict"]) for one in levels] == [
        ("provider", "works"),
        ("libcxi", "works"),
        ("libfabric", "works"),
    ]
    assert levels[0]["environment"] == {"FI_PROVIDER_PATH": f"{net}/default/provider"}
    plugin = f"{net}/default/provider/libtoy-fi.so"
    opener = site.program(
        "opener", needs=["own/lib/libmpi.so.12"], calls=["via_fi_getinfo"], opens=True,
        flags=[f"-Wl,--enable-new-dtags,-rpath,{site.path('own/lib')}"],
    )  # fmt: skip
    assert run(opener, plugin).opened == (True,)
    opened = run(opener, plugin, env={"LD_DEBUG": "files"}).error
    assert len(set(re.findall(r"calling init: (\S*libfabric\S*)", opened))) == 1
    text = inject(capsys, "check", site.app, "--with", net)[1]
    assert "inject at the level of provider" in text


def test_a_level_that_fails_comes_last(site, capsys):
    """The program's libfabric is older than the plug-in's; its MPI asks for another node."""
    site.stack("old", defines=["fi_getinfo"], nodes="12", fabric="FABRIC_1.5")
    site.stack("newer", defines=["fi_getinfo"], nodes="13", fabric="FABRIC_1.9")
    expected = {
        "old": {"provider": "works", "libcxi": "works", "libfabric": "fails"},
        "newer": {"provider": "cannot-tell", "libcxi": "works", "libfabric": "fails"},
    }
    for name, verdicts in expected.items():
        net = site.path(f"net-{name}")
        made(capsys, site, site.path(name), "-o", net)
        out = inject(capsys, "check", site.app, "--with", net, "--json")[1]
        (levels,) = json.loads(out)["programs"].values()
        assert {one["name"]: one["verdict"] for one in levels} == verdicts
        assert levels[-1]["name"] == "libfabric"
        outcome = run(site.app, env={"LD_LIBRARY_PATH": f"{net}/default/libfabric"})
        assert not outcome.done
        assert "FABRIC_1.8" in outcome.error


def test_a_search_path_that_no_variable_comes_before(site, capsys):
    """A program without MPI, whose DT_RPATH leads to its own libfabric: a variable does nothing."""
    site.program(
        "info",
        needs=["own/lib/libfabric.so.1"],
        calls=["fi_getinfo"],
        flags=[f"-Wl,--disable-new-dtags,-rpath,{site.path('own/lib')}"],
    )
    net = site.path("net")
    made(capsys, site, site.path("new"), "-o", net)
    out = inject(capsys, "check", site.path("info"), "--with", net, "--json")[1]
    (levels,) = json.loads(out)["programs"].values()
    (level,) = [one for one in levels if one["name"] == "libfabric"]
    assert level["verdict"] == "works-with-steps"
    assert [one["cause"] for one in level["findings"]] == ["rpath"]
    outcome = run(site.path("info"), env={"LD_LIBRARY_PATH": f"{net}/default/libfabric"})
    assert outcome.answers["fi_getinfo"] == "own/lib/libfabric.so.1"


def test_an_mpi_becomes_an_artefact(site, capsys):
    """Its libfabric is private then: the name stays free for the program's own."""
    net = site.path("mpi")
    data = made(capsys, site, site.path("own"), "-o", net)
    (variant,) = data["variants"]
    assert "mpi" in variant["variant"]["levels"]
    compact = hook_manifest.parse(
        Path(net, "default", hook_manifest.NAME).read_text(), file="abi.manifest"
    )
    assert compact.abis == {"libmpi.so.12": "mpich", "libmpich.so.12": "mpich"}
    assert "MPI_Psend_init" in compact.lacks["libmpi.so.12"]
    _, files = loaded(site.app, LD_LIBRARY_PATH=f"{net}/default/mpi")
    assert files["libmpi.so.12"] == f"{net}/default/mpi/libmpi.so.12"
    assert "libfabric.so.1" not in files


def test_parts_of_an_mpi_without_a_search_path(site, capsys):
    """Intel's libmpicxx finds libmpi by LD_LIBRARY_PATH alone; its copy finds it by itself."""
    site.library("intel/lib/libmpi.so.12", defines=EVERY)
    site.library(
        "intel/lib/libmpicxx.so.12", defines=["MPIX_Dummy"], needs=["intel/lib/libmpi.so.12"]
    )
    (variant,) = made(capsys, site, site.path("intel"), "-o", site.path("net"))["variants"]
    assert variant["files"] == ["mpi/libmpi.so.12", "mpi/libmpicxx.so.12"]
    assert "$ORIGIN" in read_path(site.path("net/default/mpi/libmpicxx.so.12"))


def test_what_no_folder_has_is_refused(site, capsys):
    """The folders of the prefix are looked at, and no others."""
    site.library("half/lib/libmpi.so.12", defines=EVERY)
    site.library("elsewhere/libgone.so.1", defines=["gone"])
    needs = ["half/lib/libmpi.so.12", "elsewhere/libgone.so.1"]
    site.library("half/lib/libmpicxx.so.12", defines=["MPIX_Dummy"], needs=needs)
    words = ("artefact", site.path("half"), "-o", site.path("net"))
    code, out, err = inject(capsys, *words)
    assert (code, out) == (ExitCode.WORSE, "")
    assert "`libgone.so.1` is not found" in err
    assert "`libmpi.so.12` is not found" not in err


def test_what_belongs_to_the_drivers_stays(site, capsys):
    """libibverbs finds its drivers by a name that they ask for, too."""
    site.library("rdma/lib/libibverbs.so.1", defines=["ibv_open"])
    site.library(
        "rdma/lib/libfabric.so.1",
        defines=["fi_getinfo"],
        needs=["rdma/lib/libibverbs.so.1"],
        flags=["-Wl,--enable-new-dtags,-rpath,$ORIGIN"],
    )
    (variant,) = made(capsys, site, site.path("rdma"), "-o", site.path("net"))["variants"]
    assert variant["files"] == ["libfabric/libfabric.so.1"]
    assert "libibverbs.so.1" in variant["left"]
    assert variant["compact"]["needs"]["libibverbs.so.1"] == []


def test_an_image_is_the_same_artefact(site, capsys):
    need("mksquashfs")
    image = site.path("net.squashfs")
    made(capsys, site, site.path("new"), "-o", image, "--place", "/opt/net")
    code, out, _ = inject(capsys, "check", site.app, "--with", image, "--json")
    assert code == ExitCode.DONE
    (levels,) = json.loads(out)["programs"].values()
    assert levels[0]["environment"] == {"FI_PROVIDER_PATH": "/opt/net/default/provider"}


def test_variants_for_releases_of_slingshot(site, capsys):
    net = site.path("net")
    site.stack("old", defines=["fi_getinfo"], nodes="12")
    words = [site.path("old"), site.path("new"), "--shs", "12.0.2", "--shs", "13.1.0"]
    made(capsys, site, *words, "-o", net)
    artefact = inject_artefact.load(net).artefact
    assert [(one.shs, one.libcxi) for one in artefact.variants] == [
        ("12.0.2", "LIBCXI_1.8"),
        ("13.1.0", "LIBCXI_1.9"),
    ]
    for shs in ("12.0.2", "13.1.0"):
        out = inject(capsys, "check", site.app, "--with", net, "--shs", shs, "--json")[1]
        assert json.loads(out)["variant"] == f"shs-{shs}"
    code, _, err = inject(capsys, "check", site.app, "--with", net, "--shs", "14")
    assert code == ExitCode.USAGE
    assert "12.0.2, 13.1.0" in err


@pytest.mark.parametrize(
    ("node", "release"),
    [("LIBCXI_1.8", "12.0.2"), ("LIBCXI_1.9", "13.1.0"), ("LIBCXI_1.10", "13.1.0")],
)
def test_the_newest_variant_that_the_machine_knows(node, release):
    assert choose_variant(_TWO, "", node).shs == release


@pytest.mark.parametrize("node", ["", "LIBCXI_1.7"])
def test_no_variant_for_an_unknown_or_older_machine(node):
    with pytest.raises(StackproofError) as caught:
        choose_variant(_TWO, "", node)
    assert caught.value.reason is Reason.USAGE


_TWO = ArtefactMetadata(
    name="net",
    place="/opt/net",
    variants=(
        Variant(folder="shs-12.0.2", shs="12.0.2", libcxi="LIBCXI_1.8"),
        Variant(folder="shs-13.1.0", shs="13.1.0", libcxi="LIBCXI_1.9"),
    ),
)


def test_what_is_refused(site, capsys, tmp_path):
    """Nothing is left behind where something is in the way."""
    before = sorted(os.listdir(tmp_path))
    site.library("broken/lib/libcxi.so.1", defines=["cxil_open"])
    site.library(
        "broken/lib/libfabric.so.1", defines=["fi_getinfo"], needs=["broken/lib/libcxi.so.1"]
    )
    os.unlink(site.path("broken/lib/libcxi.so.1"))
    site.library("none/lib/libz.so.1", defines=["inflate"])
    cases = [
        (("broken",), ExitCode.WORSE, "libcxi.so.1"),
        (("none",), None, "neither an MPI nor libfabric"),
        (("new", "--place", "/opt/a b"), ExitCode.USAGE, "/opt/a b"),
        (("new", "--shs", "twelve"), ExitCode.USAGE, "twelve"),
        (("new", "own"), ExitCode.USAGE, "variants"),
        (("new", "own", "--shs", "1", "--shs", "1"), ExitCode.USAGE, "once"),
        (("new", "-o", site.path("new")), ExitCode.USAGE, "exists"),
    ]
    for words, code, text in cases:
        places = [site.path(word) if word in {"broken", "none", "new", "own"} else word
                  for word in words]  # fmt: skip
        done = inject(capsys, "artefact", "-o", site.path("net"), *places)
        assert done[0] == (code or done[0]) != ExitCode.DONE
        assert text in done[2]
        assert done[1] == ""
    new = [name for name in sorted(os.listdir(tmp_path)) if name not in before]
    assert [name for name in new if "artefact" in name or name == "net"] == []


def test_a_damaged_manifest_is_refused(site, capsys):
    net = site.path("net")
    made(capsys, site, site.path("new"), "-o", net)
    path = Path(net, "default", hook_manifest.NAME)
    path.write_text(path.read_text().replace("FABRIC_1.8", "FABRIC_1.9"))
    code, out, err = inject(capsys, "check", site.app, "--with", net)
    assert (code, out) == (ExitCode.INVALID, "")
    assert "checksum" in err


def test_without_a_program_nothing_is_answered(site, capsys):
    net = site.path("net")
    made(capsys, site, site.path("new"), "-o", net)
    code, out, err = inject(capsys, "check", "--with", net)
    assert (code, out) == (ExitCode.USAGE, "")
    assert err.startswith("error: ")
