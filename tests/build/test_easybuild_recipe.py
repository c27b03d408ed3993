"""A recipe for EasyBuild to the stack it means; every mistake has its place and its remedy."""

from __future__ import annotations

import pytest

from stackproof.build.engines.easybuild.chain import chain
from stackproof.build.engines.easybuild.components import (
    ChainRequest,
    ExternalComponent,
    Gpu,
    OwnPatch,
    Toolchain,
)
from stackproof.build.engines.easybuild.effects import builder
from stackproof.build.engines.easybuild.recipe import parse_easybuild_recipe
from stackproof.build.engines.easybuild.stack import (
    Below,
    EasyBuildLock,
    EasyBuildStack,
    make_lock,
    wants,
)
from stackproof.core.document import parse
from stackproof.core.effects import shipped
from stackproof.core.effects.documents import load, load_noun
from stackproof.core.errors import Reason, StackproofError

FACTS = {"architecture": "x86_64", "compiler": "gcc 12.2.0 (Debian 12.2.0-14)"}
LEAST = "name: x\nengine: easybuild\nlibfabric: {version: '2.1.0', providers: [tcp, shm]}\n"


def read(text: str, **facts: str) -> EasyBuildStack:
    return parse_easybuild_recipe(parse(text, file="x.yaml"), {**FACTS, **facts})


def test_the_least_that_a_recipe_can_say() -> None:
    stack = read(LEAST)
    assert stack.request == ChainRequest(libfabric="2.1.0", providers=("tcp", "shm"))
    assert (stack.mount, stack.optarch, stack.benchmarks) == ("/user-environment", "GENERIC", ())
    assert [view.name for view in stack.views] == ["default"]
    assert stack.default_view == "default"
    assert stack.site_facts == {"compiler": FACTS["compiler"]}


def test_everything_that_a_recipe_can_say() -> None:
    stack = read(
        """
name: whole
version: "2"
description: everything
engine: easybuild
easybuild: {version: "5.4.1", optarch: march=znver3}
mpi: {family: openmpi, version: "5.0.8"}
libfabric: {version: "2.1.0", providers: [cxi, lnx, shm]}
slingshot: "13.0.0"
libcxi-tools: true
gpu: cuda
gpu-at: {version: "12.6", prefix: /opt/cuda, module: cuda/12.6}
xpmem: true
toolchain: {name: GCC, version: "14.3.0"}
externals:
  libcxi: {version: "1.0", prefix: /opt/cxi}
versions: {hwloc: "2.12.0"}
bundled: [prrte]
ucx: true
ucc: true
options: {openmpi: [--with-slurm, CFLAGS=-O3]}
patches: {hwloc: [{filename: fix.patch, sha256: SUM}]}
accept: [some-conflict]
sources: [debian-trixie, upstream]
on: {path: /cvmfs/eessi/2025.06, modules: [/cvmfs/eessi/2025.06/modules/all]}
mount: /user-tools
views:
  mpi: {description: the MPI, set: {ROOT: "@prefix@"}}
default-view: modules
benchmarks: [osu]
image: {compression: lz4}
""".replace("SUM", "ab" * 32)
    )
    assert stack.request == ChainRequest(
        libfabric="2.1.0",
        providers=("cxi", "lnx", "shm"),
        mpi=("openmpi", "5.0.8"),
        gpu=Gpu.CUDA,
        gpu_at=ExternalComponent(version="12.6", prefix="/opt/cuda", module="cuda/12.6"),
        toolchain=Toolchain(name="GCC", version="14.3.0"),
        xpmem=True,
        shs="13.0.0",
        externals={"libcxi": ExternalComponent(version="1.0", prefix="/opt/cxi")},
        benchmarks=("osu",),
        versions={"hwloc": "2.12.0"},
        origins=("debian-trixie", "upstream"),
        libcxi_tools=True,
        accept=("some-conflict",),
        bundled_parts=("prrte",),
        ucx=True,
        ucc=True,
        options={"openmpi": ("--with-slurm", "CFLAGS=-O3")},
        patches={"hwloc": (OwnPatch(filename="fix.patch", sha256="ab" * 32),)},
    )
    assert stack.below == Below(
        path="/cvmfs/eessi/2025.06", modules=("/cvmfs/eessi/2025.06/modules/all",)
    )
    assert (stack.optarch, stack.mount, stack.compression) == ("march=znver3", "/user-tools", "lz4")
    assert (stack.default_view, stack.benchmarks) == ("modules", ())


def test_what_a_patch_mends_changes_no_lock() -> None:
    recipe = LEAST + "patches: {hwloc: [{filename: a.patch, sha256: %s%s}]}\n"
    plain = read(recipe % ("ab" * 32, ""))
    mending = read(recipe % ("ab" * 32, ", mends: [some-conflict]"))
    assert mending.request.patches["hwloc"][0].mends == ("some-conflict",)
    assert wants(mending) == wants(plain)


def test_an_mpi_comes_with_the_benchmark_and_the_toolchain_with_this_compiler() -> None:
    stack = read(LEAST + "mpi: {family: mpich, version: '4.3.0'}\ntoolchain: SystemCompilerGCC\n")
    assert stack.benchmarks == ("stackproof-bench",)
    assert stack.request.toolchain == Toolchain(name="SystemCompilerGCC", version="12.2.0")


@pytest.mark.parametrize(
    ("text", "reason", "place"),
    [
        ("name: x\nengine: easybuild\n", Reason.MISSING_KEY, "x.yaml:1:1"),
        (LEAST + "libfabrik: 1\n", Reason.UNKNOWN_KEY, "x.yaml:4:1"),
        (LEAST.replace("'2.1.0'", "2.1"), Reason.WRONG_TYPE, "x.yaml:3:22"),
        (LEAST.replace("[tcp, shm]", "[]"), Reason.INVALID_VALUE, "x.yaml:3:42"),
        (LEAST + "mount: /usr\n", Reason.BAD_MOUNT_POINT, "x.yaml:4:8"),
        (
            LEAST + "mpi: {family: intel-mpi, version: '2021'}\n",
            Reason.INVALID_VALUE,
            "x.yaml:4:15",
        ),
        (LEAST + "mpi: {family: mpich}\n", Reason.MISSING_KEY, "x.yaml:4:6"),
        (LEAST + "gpu-at: {version: '1', prefix: /opt/x}\n", Reason.INVALID_VALUE, "x.yaml:4:9"),
        (LEAST + "views: {modules: {}}\n", Reason.INVALID_VALUE, "x.yaml:4:18"),
        (LEAST + "default-view: mpi\n", Reason.INVALID_VALUE, "x.yaml:4:15"),
        (LEAST + "benchmarks: [stackproof-bench]\n", Reason.UNSUPPORTED, "x.yaml:4:13"),
        (LEAST + "easybuild: {optarch: -march=native}\n", Reason.INVALID_VALUE, "x.yaml:4:22"),
        (LEAST + "on: {path: /usr, modules: [/usr/m]}\n", Reason.INVALID_VALUE, "x.yaml:4:12"),
        (LEAST + "on: {path: eessi, modules: [/m]}\n", Reason.INVALID_VALUE, "x.yaml:4:12"),
        (LEAST + "image: {level: 40}\n", Reason.INVALID_VALUE, "x.yaml:4:16"),
        (LEAST + "sources: [ubuntu]\n", Reason.INVALID_VALUE, "x.yaml:4:11"),
        (LEAST + "bundled: []\n", Reason.INVALID_VALUE, "x.yaml:4:10"),
        (LEAST + "ucx: with\n", Reason.WRONG_TYPE, "x.yaml:4:6"),
        (LEAST + "options: {hwloc: --x}\n", Reason.WRONG_TYPE, "x.yaml:4:18"),
        (LEAST + "options: {hwloc: ['--x; rm']}\n", Reason.INVALID_VALUE, "x.yaml:4:19"),
        (LEAST + "options: {hwloc: ['--x=$(id)']}\n", Reason.INVALID_VALUE, "x.yaml:4:19"),
        (LEAST + "patches: {hwloc: [{filename: a}]}\n", Reason.MISSING_KEY, "x.yaml:4:19"),
    ],
)
def test_mistakes(text: str, reason: Reason, place: str) -> None:
    with pytest.raises(StackproofError) as caught:
        read(text)
    found = {(problem.reason, str(problem.where)) for problem in caught.value.problems}
    assert (reason, place) in found
    assert all(problem.hint for problem in caught.value.problems)


WISHES = """\
mpi: {family: openmpi, version: "5.0.8"}
bundled: [pmix]
options: {openmpi: [--with-x], hwlok: [--x]}
patches: {libcxi: [{filename: a.patch, sha256: SUM}]}
"""


def test_wishes_that_come_to_nothing_have_their_place() -> None:
    """A patch of what is not in the chain would be passed over: it is refused."""
    document = parse(LEAST + WISHES.replace("SUM", "ab" * 32), file="x.yaml")
    stack = parse_easybuild_recipe(document, FACTS)
    with pytest.raises(StackproofError) as caught:
        chain(stack.request, builder.load(), document.where)
    places = {str(problem.where): problem.message for problem in caught.value.problems}
    assert list(places) == ["x.yaml:5:10", "x.yaml:6:39"]
    assert (
        "that of `libevent`" in places["x.yaml:5:10"] or "that of `prrte`" in places["x.yaml:5:10"]
    )
    mended = parse(
        LEAST
        + WISHES.replace("SUM", "ab" * 32).replace("[pmix]", "true").replace("hwlok", "libfabric"),
        file="x.yaml",
    )
    with pytest.raises(StackproofError) as caught:
        chain(parse_easybuild_recipe(mended, FACTS).request, builder.load(), mended.where)
    (problem,) = caught.value.problems
    assert str(problem.where) == "x.yaml:7:19"
    assert "`libcxi`, which is not in this chain" in problem.message


def test_all_mistakes_come_at_once() -> None:
    with pytest.raises(StackproofError) as caught:
        read(LEAST + "mount: /usr\nlibfabrik: 1\ngpu-at: {version: '1', prefix: /opt/x}\n")
    assert len(caught.value.problems) == 3


def test_a_compiler_that_is_not_known() -> None:
    with pytest.raises(StackproofError) as caught:
        read(LEAST + "toolchain: SystemCompilerGCC\n", compiler="")
    assert caught.value.reason is Reason.TOOL_MISSING


def test_the_shipped_recipe() -> None:
    document = load(str(shipped.find("recipes", "libfabric")))
    stack = parse_easybuild_recipe(document, FACTS)
    assert stack.request.providers == ("tcp", "shm", "sm2", "rxm", "lnx")


@pytest.mark.parametrize("name", ["libfabric", "openmpi-lnx"])
def test_the_shipped_lock_answers_the_shipped_recipe_and_the_catalogue(name: str) -> None:
    """After a change of the catalogue: `stackproof build --update --stop-after lock` writes it."""
    path = shipped.find("recipes", name)
    stack = parse_easybuild_recipe(load(str(path)), FACTS)
    lock = load_noun(EasyBuildLock, path.with_name(f"{name}.lock.json"))
    assert lock is not None
    made = chain(stack.request, builder.load())
    digests = {s.filename: s.accepted[0].sha256 for one in lock.components for s in one.sources}
    assert make_lock(stack, made, lock.tool, digests) == lock
