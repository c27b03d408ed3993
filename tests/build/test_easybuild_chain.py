"""Requests for chains from source: what they mean, and everything that is wrong with one at once."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easybuildchains import OS_SOURCES, PATCH, REQUESTS
from stackproof.build.engines.easybuild.chain import Chain, Easyconfig, chain
from stackproof.build.engines.easybuild.components import (
    ChainRequest,
    ExternalComponent,
    Gpu,
    OwnPatch,
    Toolchain,
)
from stackproof.build.engines.easybuild.effects import builder
from stackproof.core import document as documents
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.value import replace

COVERS = ("build/engines/easybuild/selection.py", "build/engines/easybuild/wishes.py")

CATALOGUE = builder.load()
SMALL = ChainRequest(libfabric="2.1.0", providers=("shm", "tcp"))
CXI = ChainRequest(libfabric="2.1.0", providers=("shm", "cxi", "lnx"), shs="13.0.0")
MPI = {"mpi": ("openmpi", "5.0.8")}
CUDA = ExternalComponent(version="12.8.0", prefix="/opt/cuda/12.8")


def made(request: ChainRequest, **changes: Any) -> Chain:
    return chain(replace(request, **changes), CATALOGUE)


def names(found: Chain) -> list[str]:
    return [one.component for one in found.easyconfigs]


def one(found: Chain, component: str) -> Easyconfig:
    (only,) = [entry for entry in found.easyconfigs if entry.component == component]
    return only


def reasons(request: ChainRequest, **changes: Any) -> list[Reason]:
    with pytest.raises(StackproofError) as caught:
        made(request, **changes)
    return [problem.reason for problem in caught.value.problems]


# --- what is built --------------------------------------------------------------------------


def test_only_the_providers_that_are_asked_for() -> None:
    text = one(made(SMALL), "libfabric").text
    assert "--enable-only --enable-shm --enable-tcp " in text
    assert "cxi" not in text
    assert "--with-cuda=no" in text


@pytest.mark.parametrize("name", REQUESTS)
def test_everything_comes_after_what_it_needs(name: str) -> None:
    found = chain(REQUESTS[name], CATALOGUE)
    before: set[str] = set()
    for entry in found.easyconfigs:
        assert set(entry.needs) <= before
        before.add(entry.module)
    assert len(before) == len(found.easyconfigs)


@pytest.mark.parametrize("name", REQUESTS)
def test_every_source_has_digests_or_a_commit_and_a_place(name: str) -> None:
    for entry in chain(REQUESTS[name], CATALOGUE).easyconfigs:
        for source in entry.sources:
            assert source.accepted
            assert bool(source.address) is not bool(source.os_package)
            assert f"'{source.filename}'" in entry.text
            assert all(digest.sha256 in entry.text for digest in source.accepted)


def test_cxi_brings_the_host_software_of_one_release() -> None:
    found = made(CXI)
    assert names(found)[:4] == ["cassini-headers", "cxi-driver", "libnl", "libcxi"]
    assert {one(found, name).version for name in ("libcxi", "cxi-driver")} == {"13.0.0"}
    left = {entry.component for entry in found.left_out}
    assert left >= {"libuv", "libconfig", "libfuse", "lm-sensors", "numactl", "libpdap"}
    assert found.headers == ("rdma/rdma_netlink.h", "curl/curl.h")


def test_what_is_built_is_not_left_out() -> None:
    found = made(CXI, libcxi_tools=True)
    left = {entry.component for entry in found.left_out}
    assert set(names(found)) >= {"libuv", "libconfig", "libfuse", "lm-sensors", "numactl"}
    assert not left & set(names(found))
    assert "./configure" not in one(found, "libcxi").text
    assert "easyblock = 'ConfigureMake'" in one(found, "libcxi").text


@pytest.mark.parametrize(
    ("release", "library"),
    [("12.0.0", "1.5.0"), ("13.1.0", "1.5.0"), ("14.0.0", "1.6.0")],
)
def test_libcxi_has_the_name_of_its_release(release: str, library: str) -> None:
    assert f"library=libcxi.so.{library} " in one(made(CXI, shs=release), "libcxi").text


def test_what_the_machine_has_is_not_built() -> None:
    machine = {
        "libcxi": ExternalComponent(version="2.1.1", prefix="/opt/cray/libcxi"),
        "cassini-headers": ExternalComponent(version="2.1.1", prefix="/usr"),
        "cxi-driver": ExternalComponent(version="2.1.1", prefix="/usr", module="cxi/2"),
    }
    found = made(CXI, shs="", externals=machine)
    assert names(found) == ["json-c", "libfabric"]
    text = one(found, "libfabric").text
    assert "--enable-cxi=/opt/cray/libcxi " in text
    assert "dependencies = [('cxi/2', EXTERNAL_MODULE), ('json-c', '0.18')]" in text
    assert found.metadata == "[cxi/2]\nname = cxi-driver\nversion = 2.1.1\nprefix = /usr\n"


def test_builds_for_a_gpu_have_a_name_of_their_own() -> None:
    found = made(CXI, gpu=Gpu.CUDA, gpu_at=CUDA)
    libfabric = one(found, "libfabric")
    assert libfabric.module == "libfabric/2.1.0-CUDA-12.8.0"
    assert libfabric.filename == "libfabric-2.1.0-CUDA-12.8.0.eb"
    assert "--with-cuda=/opt/cuda/12.8 " in libfabric.text
    assert one(found, "libcxi").module == "libcxi/13.0.0"
    assert any("GDRCopy" in note for note in found.notes)


def test_a_wrapped_compiler_comes_first_and_names_everything() -> None:
    found = made(SMALL, toolchain=Toolchain(name="SystemCompilerGCC", version="12.2.0"))
    assert [entry.module for entry in found.easyconfigs] == [
        "GCC/12.2.0",
        "libfabric/2.1.0-GCC-12.2.0",
    ]
    assert "toolchain = {'name': 'GCC', 'version': '12.2.0'}" in found.easyconfigs[1].text


def test_copies_that_an_mpi_brings_along() -> None:
    mpi = ("openmpi", "5.0.7")
    assert names(made(SMALL, mpi=mpi)) == [
        "libfabric", "hwloc", "libevent", "pmix", "prrte", "openmpi",
    ]  # fmt: skip
    bundled = made(SMALL, mpi=mpi, bundled=True)
    assert names(bundled) == ["libfabric", "openmpi"]
    assert "--with-pmix=internal" in one(bundled, "openmpi").text
    assert {"hwloc", "pmix"} <= {entry.component for entry in bundled.left_out}


def test_sources_of_the_operating_system() -> None:
    (source,) = one(made(SMALL, origins=OS_SOURCES), "libfabric").sources
    assert source.os_package is not None
    assert (source.os_package.name, source.os_package.suite) == ("libfabric", "trixie")
    assert "./autogen.sh && " in one(made(SMALL, origins=OS_SOURCES), "libfabric").text
    (upstream,) = one(made(SMALL), "libfabric").sources
    assert upstream.address.endswith("/libfabric-2.1.0.tar.bz2")
    assert upstream.accepted[0].provenance.startswith("easybuild-easyconfigs")


def test_the_machines_hwloc_needs_a_module_for_open_mpi_alone() -> None:
    """EasyBuild's own code for Open MPI looks for loaded modules; MPICH is told the folder."""
    hwloc = ExternalComponent(version="2.9.0", prefix="/usr/local")
    found = made(SMALL, mpi=("mpich", "4.3.2"), externals={"hwloc": hwloc})
    assert "--with-hwloc=/usr/local" in one(found, "mpich").text


def test_wishes_for_versions_of_what_is_needed() -> None:
    mpi = ("mpich", "4.3.2")
    found = made(SMALL, mpi=mpi, versions={"hwloc": "2.13.0"})
    assert one(found, "hwloc").version == "2.13.0"
    assert "--enable-mpi-abi" in one(found, "mpich").text
    assert "--enable-mpi-abi" not in one(made(SMALL, mpi=("mpich", "4.2.1")), "mpich").text


def test_sm2_by_itself_since_2_6() -> None:
    assert (
        "--enable-sm2" in one(made(SMALL, libfabric="2.6.0", providers=("sm2",)), "libfabric").text
    )


def test_what_lnx_cannot_join_is_said() -> None:
    assert any("rxm" in note for note in made(SMALL, providers=("shm", "tcp", "lnx")).notes)
    with_rxm = made(SMALL, providers=("shm", "tcp", "rxm", "lnx"))
    assert not any("rxm" in note for note in with_rxm.notes)


def test_one_mpi_at_a_time() -> None:
    text = one(made(SMALL, mpi=("mpich", "4.3.2")), "mpich").text
    assert """modluafooter = 'conflict("OpenMPI", "impi", "cray-mpich")'""" in text
    assert "modtclfooter = 'conflict OpenMPI impi cray-mpich'" in text


# --- what is refused ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"libfabric": "2.7.0"}, Reason.UNSUPPORTED),
        ({"libfabric": "2.1.9"}, Reason.UNKNOWN_VERSION),
        ({"libfabric": "x'y"}, Reason.UNKNOWN_VERSION),
        ({"providers": ()}, Reason.INVALID_VALUE),
        ({"providers": ("shm", "shm")}, Reason.INVALID_VALUE),
        ({"providers": ("tcp", "sm2")}, Reason.INVALID_VALUE),
        ({"providers": ("usnic",)}, Reason.UNSUPPORTED),
        ({"libfabric": "1.22.0", "providers": ("lnx",)}, Reason.UNSUPPORTED),
        ({"providers": ("cxi",)}, Reason.MISSING_KEY),
        ({"providers": ("cxi", "verbs"), "shs": "13.0.0"}, Reason.UNSUPPORTED),
        ({"providers": ("efa", "cxi"), "shs": "13.0.0"}, Reason.UNSUPPORTED),
        ({"providers": ("cxi",), "shs": "15.0.0"}, Reason.UNSUPPORTED),
        ({"providers": ("cxi",), "shs": "11.0.0"}, Reason.UNKNOWN_VERSION),
        ({"mpi": ("openmpi", "6.0.0")}, Reason.UNSUPPORTED),
        ({"mpi": ("lam", "7.1")}, Reason.INVALID_VALUE),
        ({"mpi": ("libfabric", "2.1.0")}, Reason.INVALID_VALUE),
        ({"benchmarks": ("osu",)}, Reason.INVALID_VALUE),
        ({"benchmarks": ("x",), "mpi": ("mpich", "4.3.2")}, Reason.INVALID_VALUE),
        ({"gpu": Gpu.CUDA}, Reason.MISSING_KEY),
        ({"gpu": Gpu.CUDA, "gpu_at": replace(CUDA, prefix="cuda")}, Reason.INVALID_VALUE),
        ({"gpu": Gpu.CUDA, "gpu_at": replace(CUDA, prefix="/x; rm")}, Reason.INVALID_VALUE),
        ({"gpu": Gpu.CUDA, "gpu_at": replace(CUDA, prefix="/x/../y")}, Reason.INVALID_VALUE),
        ({"gpu": Gpu.CUDA, "gpu_at": replace(CUDA, version="$(x)")}, Reason.INVALID_VALUE),
        ({"gpu": Gpu.CUDA, "gpu_at": replace(CUDA, module="a]\nb")}, Reason.INVALID_VALUE),
        ({"toolchain": Toolchain(name="icc", version="1")}, Reason.INVALID_VALUE),
        ({"toolchain": Toolchain(name="system", version="1")}, Reason.INVALID_VALUE),
        ({"toolchain": Toolchain(name="SystemCompilerGCC")}, Reason.INVALID_VALUE),
        ({"toolchain": Toolchain(name="GCC", version="1'")}, Reason.INVALID_VALUE),
        ({"externals": {"libfabrik": CUDA}}, Reason.INVALID_VALUE),
        ({"versions": {"cuda-gdb": "1"}}, Reason.INVALID_VALUE),
        ({"accept": ("nothing",)}, Reason.INVALID_VALUE),
        ({"origins": ("sid",)}, Reason.INVALID_VALUE),
        ({"libfabric": "2.2.0", "origins": ("debian-trixie",)}, Reason.UNSUPPORTED),
        (
            {"mpi": ("openmpi", "5.0.8"), "versions": {"pmix": "6.1.0"}},
            Reason.INVALID_VALUE,
        ),
        ({**MPI, "externals": {"hwloc": CUDA}}, Reason.INVALID_VALUE),
        (
            {"mpi": ("openmpi", "5.0.7"), "bundled": True, "externals": {"pmix": CUDA}},
            Reason.INVALID_VALUE,
        ),
        ({**MPI, "bundled_parts": ("hwlock",)}, Reason.INVALID_VALUE),
        ({**MPI, "bundled_parts": ("hwloc",)}, Reason.INVALID_VALUE),
        ({**MPI, "bundled_parts": ("pmix", "prrte")}, Reason.INVALID_VALUE),
        ({**MPI, "bundled_parts": ("libevent", "pmix")}, Reason.INVALID_VALUE),
        ({"mpi": ("mpich", "4.3.2"), "bundled_parts": ("hwloc",)}, Reason.INVALID_VALUE),
        ({**MPI, "ucc": True}, Reason.MISSING_KEY),
        ({"ucx": True}, Reason.UNSUPPORTED),
        ({"mpi": ("mpich", "4.3.2"), "ucx": True}, Reason.UNSUPPORTED),
        ({"options": {"libfabrik": ("--x",)}}, Reason.INVALID_VALUE),
        ({"options": {"libfabric": ("--x; rm",)}}, Reason.INVALID_VALUE),
        ({"options": {"hwloc": ("--x",)}}, Reason.INVALID_VALUE),
        ({"patches": {"hwloc": (PATCH,)}}, Reason.INVALID_VALUE),
        ({"source_files": {"openmpi": PATCH}}, Reason.INVALID_VALUE),
        ({"patches": {"xpmem": (PATCH,)}, "xpmem": True, "externals": {"xpmem": CUDA}},
         Reason.INVALID_VALUE),
        ({"providers": ("cxi",), "shs": "13.0.0", "options": {"libcxi": ("--x",)}},
         Reason.UNSUPPORTED),
    ],
)  # fmt: skip
def test_what_cannot_be(changes: dict[str, Any], expected: Reason) -> None:
    found = reasons(SMALL, **changes)
    assert found[0] is expected
    assert set(found) == {expected}


def test_newer_than_known_is_said() -> None:
    with pytest.raises(StackproofError) as caught:
        made(CXI, shs="14.1.0")
    (problem,) = caught.value.problems  # once, and not for each of the three components
    assert "newer than any that is known here (14.0.0)" in problem.message


def test_options_of_a_recipe_come_last_and_say_what_they_replace() -> None:
    found = made(SMALL, **MPI, options={"openmpi": ("--with-xpmem=/opt/x", "--with-slurm")})
    text = one(found, "openmpi").text
    assert "--without-psm2 --with-xpmem=/opt/x --with-slurm'" in text
    told = [note for note in found.notes if "takes the place of" in note]
    (note,) = told
    assert "`--without-xpmem`" in note


def test_the_same_file_of_another_origin_is_its_second_place() -> None:
    both = made(SMALL, **MPI, origins=("debian-trixie", "upstream"), accept=())
    (file,) = one(both, "hwloc").sources
    assert file.os_package
    assert [place.address.rpartition("/")[2] for place in file.elsewhere] == [
        "hwloc-2.12.0.tar.bz2"
    ]
    (file,) = one(made(SMALL, **MPI), "hwloc").sources
    assert not file.elsewhere  # the recipe allows one kind


def test_a_part_that_is_bundled_is_not_built_and_the_others_are() -> None:
    found = made(SMALL, **MPI, bundled_parts=("prrte",))
    assert {"hwloc", "libevent", "pmix"} <= set(names(found))
    assert "prrte" not in names(found)
    assert "--with-prrte=internal" in one(found, "openmpi").text
    assert [entry.component for entry in found.left_out if "own sources" in entry.reason] == [
        "prrte"
    ]


def test_what_configure_might_leave_out_is_looked_for(tmp_path: Path) -> None:
    """The commands before `make`, on logs of a configure script that took all, and not all."""
    found = made(SMALL, providers=("shm", "verbs"), xpmem=True)
    (line,) = (x for x in one(found, "libfabric").text.splitlines() if x.startswith("prebuildopts"))
    command = ast.literal_eval(line.partition(" = ")[2]) + "echo made"
    log = tmp_path / "config.log"
    for lacking in ((), ("HAVE_VERBS",), ("HAVE_VERBS", "HAVE_XPMEM")):
        log.write_text(
            "".join(
                f"| #define {name} 1\n#define {name} {int(name not in lacking)}\n"
                for name in ("HAVE_SHM", "HAVE_VERBS", "HAVE_XPMEM")
            )
        )
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        if lacking:
            assert (done.returncode, done.stdout) == (1, "")
            assert "error: configure left out what was asked for: the provider verbs" in done.stderr
            assert (", xpmem" in done.stderr) is (len(lacking) == 2)
        else:
            assert (done.returncode, done.stdout) == (0, "made\n")


RECIPE = """\
mpi: {family: openmpi, version: "5.0.12"}
libfabric:
  version: "2.9.0"
  providers: [shm, nope]
externals:
  hwloc: {version: "1", prefix: x}
accept: [libfabric-lnx-prob]
"""


def test_problems_have_their_place_in_a_recipe() -> None:
    recipe = documents.parse(RECIPE, file="r.yaml")
    request = replace(
        SMALL,
        mpi=("openmpi", "5.0.12"),
        libfabric="2.9.0",
        providers=("shm", "nope"),
        externals={"hwloc": ExternalComponent(version="1", prefix="x")},
        accept=("libfabric-lnx-prob",),
    )
    with pytest.raises(StackproofError) as caught:
        chain(request, CATALOGUE, recipe.where)
    places = sorted(str(problem.where) for problem in caught.value.problems)
    assert places == ["r.yaml:1:33", "r.yaml:3:12", "r.yaml:4:20", "r.yaml:6:33", "r.yaml:7:10"]


def test_what_plays_no_part_is_said() -> None:
    found = made(SMALL, versions={"hwloc": "2.13.0"}, shs="13.0.0")
    assert any("`hwloc`" in note for note in found.notes)
    assert any("13.0.0" in note for note in found.notes)


def test_everything_at_once() -> None:
    found = reasons(
        SMALL,
        libfabric="9.0",
        providers=("cxi", "nope"),
        gpu=Gpu.ROCM,
        toolchain=Toolchain(name="GCC"),
        mpi=("mpich", "9.9"),
        benchmarks=("nope",),
    )
    assert len(found) >= 7


@pytest.mark.parametrize(
    ("changes", "accept"),
    [
        ({"mpi": ("mpich", "4.2.1")}, "mpich-cxi-any-source"),
        ({"libfabric": "2.0.0"}, "libfabric-2.0-libcxi-new"),
        ({"libfabric": "2.5.0"}, "libfabric-2.5.0-libcxi"),
        ({"libfabric": "2.4.0"}, "libfabric-2.4.0-lnx-cxi"),
    ],
)
def test_known_conflicts(changes: dict[str, Any], accept: str) -> None:
    assert reasons(CXI, **changes) == [Reason.INVALID_VALUE]
    accepted = made(CXI, **changes, accept=(accept,))
    assert any(f"`{accept}`" in note for note in accepted.notes)


def test_a_conflict_names_its_way_out() -> None:
    with pytest.raises(StackproofError) as caught:
        made(CXI, mpi=("openmpi", "5.0.7"), gpu=Gpu.ROCM, gpu_at=CUDA)
    assert "accept `openmpi-lnx-device-registration-rocm`" in str(caught.value)


LNX = {"mpi": ("openmpi", "5.0.7"), "gpu": Gpu.ROCM, "gpu_at": CUDA}
LNX_CONFLICT = "openmpi-lnx-device-registration-rocm"


def test_a_patch_and_the_conflict_that_it_mends_know_each_other() -> None:
    patch = OwnPatch(filename="g2g.patch", sha256="ab" * 32)
    with pytest.raises(StackproofError) as caught:
        made(CXI, **LNX, patches={"openmpi": (patch,)})
    assert f"or write `mends: [{LNX_CONFLICT}]` beside g2g.patch" in str(caught.value)
    mending = {"openmpi": (replace(patch, mends=(LNX_CONFLICT,)),)}
    notes = made(CXI, **LNX, patches=mending).notes
    assert any(
        note.startswith("mended by g2g.patch: ") and f"`{LNX_CONFLICT}`" in note for note in notes
    )
    assert one(made(CXI, **LNX, patches=mending), "openmpi").version == "5.0.7"


@pytest.mark.parametrize(
    ("name", "conflict", "words"),
    [
        ("openmpi", "openmpi-lnx-device-registration-rocn", "did you mean"),
        ("openmpi", "libfabric-lnx-probe", "is no conflict of `openmpi`"),
        ("hwloc", LNX_CONFLICT, "is no conflict of `hwloc`"),
    ],
)
def test_a_patch_mends_a_conflict_of_its_component(name: str, conflict: str, words: str) -> None:
    patch = OwnPatch(filename="a.patch", sha256="ab" * 32, mends=(conflict,))
    with pytest.raises(StackproofError) as caught:
        made(SMALL, **MPI, patches={name: (patch,)})
    assert words in str(caught.value)


def test_a_version_that_cannot_be_compared_is_a_note() -> None:
    machine = {
        name: ExternalComponent(version="SSHOT2.1.3", prefix="/usr")
        for name in ("libcxi", "cassini-headers", "cxi-driver")
    }
    notes = made(CXI, libfabric="2.5.0", shs="", externals=machine).notes
    (note,) = [note for note in notes if "`libfabric-2.5.0-libcxi`" in note]
    assert "does not tell" in note


def test_a_conflict_of_other_providers_is_none() -> None:
    mpich = one(made(SMALL, mpi=("mpich", "4.2.1")), "mpich")
    libfabric = one(made(CXI, libfabric="2.5.0", shs="14.0.0"), "libfabric")
    assert (mpich.version, libfabric.version) == ("4.2.1", "2.5.0")


TEXTS = st.text(max_size=12) | st.sampled_from(["system", "13.0.0", "2.1.0", "/usr", "shm", "osu"])


@given(
    st.builds(
        ChainRequest,
        libfabric=TEXTS,
        providers=st.lists(TEXTS, max_size=3).map(tuple),
        mpi=st.none() | st.tuples(TEXTS | st.just("openmpi"), TEXTS | st.just("5.0.7")),
        gpu=st.sampled_from(Gpu),
        gpu_at=st.none() | st.builds(ExternalComponent, version=TEXTS, prefix=TEXTS, module=TEXTS),
        toolchain=st.builds(Toolchain, name=TEXTS, version=TEXTS),
        xpmem=st.booleans(),
        shs=TEXTS,
        externals=st.dictionaries(
            TEXTS | st.just("libnl"),
            st.builds(ExternalComponent, version=TEXTS, prefix=TEXTS, module=TEXTS),
            max_size=2,
        ),
        benchmarks=st.lists(TEXTS, max_size=2).map(tuple),
        versions=st.dictionaries(TEXTS | st.just("hwloc"), TEXTS, max_size=2),
        origins=st.lists(TEXTS | st.just("upstream"), max_size=2).map(tuple),
        bundled=st.booleans(),
        bundled_parts=st.lists(TEXTS | st.just("pmix"), max_size=2).map(tuple),
        ucx=st.booleans(),
        ucc=st.booleans(),
        options=st.dictionaries(
            TEXTS | st.sampled_from(["openmpi", "libfabric"]),
            st.lists(TEXTS | st.just("--with-x"), max_size=2).map(tuple),
            max_size=2,
        ),
        patches=st.dictionaries(TEXTS | st.just("openmpi"), st.just((PATCH,)), max_size=2),
    )
)
def test_any_request_is_made_or_refused(request: ChainRequest) -> None:
    try:
        chain(request, CATALOGUE)
        problems = ()
    except StackproofError as error:
        problems = error.problems
    assert all(problem.hint for problem in problems)


def test_cxi_and_verbs_go_together_with_the_libnl_of_the_machine() -> None:
    libnl = {"libnl": ExternalComponent(version="3.7.0", prefix="/usr")}
    together = made(CXI, providers=("shm", "cxi", "verbs"), externals=libnl)
    assert "libnl" not in names(together)
    with pytest.raises(StackproofError, match="does not link") as caught:
        made(CXI, providers=("shm", "cxi", "verbs"))
    assert "externals: {libnl: " in (caught.value.problems[0].hint or "")
