"""Requests for chains from source: what they mean, and everything that is wrong with one at once."""

from __future__ import annotations

import ast
import re
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


MPICH = {"mpi": ("mpich", "4.3.2")}
GPU = {"gpu": Gpu.CUDA, "gpu_at": CUDA}


@pytest.mark.parametrize(
    ("request_", "changes", "component", "words"),
    [
        (SMALL, {}, "libfabric", ["--enable-only --enable-shm --enable-tcp ", "--with-cuda=no"]),
        (SMALL, {"libfabric": "2.6.0", "providers": ("sm2",)}, "libfabric", ["--enable-sm2"]),
        (CXI, {"shs": "12.0.0"}, "libcxi", ["library=libcxi.so.1.5.0 "]),
        (CXI, {"shs": "13.1.0"}, "libcxi", ["library=libcxi.so.1.5.0 "]),
        (CXI, {"shs": "14.0.0"}, "libcxi", ["library=libcxi.so.1.6.0 "]),
        (CXI, {"libcxi_tools": True}, "libcxi", ["easyblock = 'ConfigureMake'"]),
        (CXI, GPU, "libfabric", ["--with-cuda=/opt/cuda/12.8 "]),
        (SMALL, {"toolchain": Toolchain(name="SystemCompilerGCC", version="12.2.0")}, "libfabric",
         ["toolchain = {'name': 'GCC', 'version': '12.2.0'}"]),
        # EasyBuild's own code for Open MPI looks for loaded modules; MPICH is told the folder.
        (SMALL, {**MPICH, "externals": {"hwloc": replace(CUDA, prefix="/usr/local")}}, "mpich",
         ["--with-hwloc=/usr/local", "--enable-mpi-abi",
          """modluafooter = 'conflict("OpenMPI", "impi", "cray-mpich")'""",
          "modtclfooter = 'conflict OpenMPI impi cray-mpich'"]),
        (SMALL, {**MPI, "bundled": True}, "openmpi", ["--with-pmix=internal"]),
        (SMALL, {**MPI, "bundled_parts": ("prrte",)}, "openmpi", ["--with-prrte=internal"]),
    ],
)  # fmt: skip
def test_what_easybuild_is_told(
    request_: ChainRequest, changes: dict[str, Any], component: str, words: list[str]
) -> None:
    text = one(made(request_, **changes), component).text
    assert [word for word in words if word not in text] == []


def test_what_easybuild_is_not_told() -> None:
    assert "cxi" not in one(made(SMALL), "libfabric").text
    assert "--enable-mpi-abi" not in one(made(SMALL, mpi=("mpich", "4.2.1")), "mpich").text
    assert "./configure" not in one(made(CXI, libcxi_tools=True), "libcxi").text


@pytest.mark.parametrize(
    ("request_", "changes", "modules", "left_out"),
    [
        (CXI, {}, "cassini-headers/13.0.0 cxi-driver/13.0.0 libnl/.* libcxi/13.0.0 .*", "libuv libconfig libfuse lm-sensors numactl libpdap"),
        (CXI, {"libcxi_tools": True}, "cassini-headers/.*(libuv|libfuse|lm-sensors|numactl)/.*", ""),
        (CXI, GPU, ".* libcxi/13.0.0 .* libfabric/2.1.0-CUDA-12.8.0", ""),
        (SMALL, {"toolchain": Toolchain(name="SystemCompilerGCC", version="12.2.0")},
         "GCC/12.2.0 libfabric/2.1.0-GCC-12.2.0", ""),
        (SMALL, MPI, "libfabric/.* hwloc/.* libevent/.* PMIx/.* PRRTE/.* OpenMPI/5.0.8", ""),
        (SMALL, {**MPI, "bundled": True}, "libfabric/2.1.0 OpenMPI/5.0.8",
         "hwloc libevent pmix prrte"),
        (SMALL, {**MPI, "bundled_parts": ("prrte",)},
         "libfabric/.* hwloc/.* libevent/.* PMIx/[^ ]* OpenMPI/5.0.8", "prrte"),
        (SMALL, {**MPICH, "versions": {"hwloc": "2.13.0"}},
         "libfabric/2.1.0 hwloc/2.13.0 MPICH/4.3.2", ""),
        (SMALL, {"mpi": ("mpich", "4.2.1")}, ".* MPICH/4.2.1", ""),
        (CXI, {"libfabric": "2.5.0", "shs": "14.0.0"}, ".* libfabric/2.5.0", ""),
    ],
)  # fmt: skip
def test_what_is_built_in_this_order_and_what_is_left_out(
    request_: ChainRequest, changes: dict[str, Any], modules: str, left_out: str
) -> None:
    found = made(request_, **changes)
    built = " ".join(entry.module for entry in found.easyconfigs)
    assert re.fullmatch(modules, built), built
    left = {entry.component for entry in found.left_out}
    assert left >= set(left_out.split())
    assert not left & set(names(found))


@pytest.mark.parametrize(
    ("request_", "changes", "note"),
    [
        (CXI, GPU, "GDRCopy"),
        (SMALL, {"providers": ("shm", "tcp", "lnx")}, "rxm"),
        (SMALL, {"versions": {"hwloc": "2.13.0"}}, "`hwloc`"),
        (SMALL, {"shs": "13.0.0"}, "13.0.0"),
    ],
)
def test_what_should_be_known(request_: ChainRequest, changes: dict[str, Any], note: str) -> None:
    assert any(note in text for text in made(request_, **changes).notes)


def test_what_need_not_be_known() -> None:
    assert not any(
        "rxm" in note for note in made(SMALL, providers=("shm", "tcp", "rxm", "lnx")).notes
    )
    assert made(CXI).headers == ("rdma/rdma_netlink.h", "curl/curl.h")


@pytest.mark.parametrize("name", REQUESTS)
def test_everything_comes_after_what_it_needs(name: str) -> None:
    found = chain(REQUESTS[name], CATALOGUE)
    before: set[str] = set()
    for entry in found.easyconfigs:
        assert set(entry.needs) <= before
        before.add(entry.module)
    assert len(before) == len(found.easyconfigs)


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


def test_sources_of_the_operating_system() -> None:
    (source,) = one(made(SMALL, origins=OS_SOURCES), "libfabric").sources
    assert source.os_package is not None
    assert (source.os_package.name, source.os_package.suite) == ("libfabric", "trixie")
    assert "./autogen.sh && " in one(made(SMALL, origins=OS_SOURCES), "libfabric").text
    (upstream,) = one(made(SMALL), "libfabric").sources
    assert upstream.address.endswith("/libfabric-2.1.0.tar.bz2")
    assert upstream.accepted[0].provenance.startswith("easybuild-easyconfigs")


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


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"shs": "14.1.0"}, "newer than any that is known here (14.0.0)"),
        ({"mpi": ("openmpi", "5.0.7"), "gpu": Gpu.ROCM, "gpu_at": CUDA},
         "accept `openmpi-lnx-device-registration-rocm`"),
    ],
)  # fmt: skip
def test_a_refusal_says_what_to_do_and_once(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(StackproofError) as caught:
        made(CXI, **changes)
    (problem,) = caught.value.problems
    assert said in str(problem)


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
