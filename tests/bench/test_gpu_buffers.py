"""Buffers in the memory of a GPU, by stand-ins for the drivers that this test compiles.

Nobody may touch the addresses that they give, as with a GPU's memory: what reads or writes them on
the host dies. `tests/csrc/gpuaware.c` stands for an MPI that takes them.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from ctypes.util import find_library
from pathlib import Path

import pytest

import mpitrees
from need import need
from stackproof.bench.path_verdict import gpu_path
from stackproof.bench.programs import imb, native
from stackproof.compare import launch_checks
from stackproof.core.command import Completed
from stackproof.core.errors import Reason
from stackproof.core.value import replace
from stackproof.results.case import Case, Placement, Rank
from stackproof.results.measurement import Check, Output, RankFacts, State
from stackproof.results.metrics import CORE
from stackproof.results.path import Statement, Topic

pytestmark = pytest.mark.battery

CSRC = Path(__file__).parents[1] / "csrc"
PAIR = Placement(name="pair", ranks=(Rank(node="localhost"), Rank(node="localhost")))
ONE_WAY = ("latency", "bandwidth", "bibandwidth", "message_rate")


def case(memory: tuple[str, ...], benchmarks: Sequence[str] = tuple(CORE)) -> Case:
    return Case(
        program="stackproof-bench", benchmarks=tuple(benchmarks), sizes=(0, 8, 4096, 70_000),
        placement=PAIR, samples=2, seconds_per_size=0.001, memory=memory, window=4,
    )  # fmt: skip


def completed(done: subprocess.CompletedProcess[bytes] | None = None) -> Completed:
    return Completed(
        argv=("mpiexec",), returncode=done.returncode if done else 0,
        stdout=done.stdout if done else b"", stderr=done.stderr if done else b"", seconds=1.0,
    )  # fmt: skip


def judged(output: Output, asked: Case, done: Completed | None = None) -> tuple[Check, ...]:
    return launch_checks.judge(
        output, asked, mpi_family="mpich", mpi_version="5.0", completed=done or completed()
    )


class Gpu:
    """A machine with the stand-ins: what a launch finds there."""

    def __init__(self, prefix: Path, folder: Path) -> None:
        self.prefix, self.folder = prefix, folder
        self.program = folder / "stackproof-bench"
        self.aware = folder / "gpuaware.so"

    def launch(self, asked: Case, *settings: str, aware: bool = True) -> Completed:
        preload = (f"LD_PRELOAD={self.aware}",) if aware else ()
        argv = native.BENCHMARK.argv(str(self.program), asked)
        done = subprocess.run(
            [self.prefix / "bin" / "mpiexec", "-n", "2", "env", *preload,
             f"LD_LIBRARY_PATH={self.folder / 'driver'}", *settings, *argv],
            capture_output=True, timeout=600, check=False,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder),
                 "MPIR_CVAR_ENABLE_HEAVY_YIELD": "1"},
        )  # fmt: skip
        return completed(done)

    def measure(self, asked: Case, *settings: str, aware: bool = True) -> tuple[int, Output]:
        done = self.launch(asked, *settings, aware=aware)
        return done.returncode, native.BENCHMARK.parse(done.stdout, asked)


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Gpu:
    need("gcc", "network")
    folder = tmp_path_factory.mktemp("gpu")
    prefix = mpitrees.Trees(folder)["mpich"].prefix
    found = Gpu(prefix, folder)
    (folder / "driver").mkdir()
    strict = ("-O2", "-Wall", "-Wextra", "-Werror")
    mpicc = (prefix / "bin" / "mpicc", *strict)
    driver = folder / "driver" / "libcuda.so.1"
    sources = sorted((Path(native.__file__).parent / "csrc").glob("*.c"))
    for line in (
        ("gcc", *strict, "-shared", "-fPIC", CSRC / "fakegpu.c", "-o", driver),
        (*mpicc, "-shared", "-fPIC", CSRC / "gpuaware.c", "-o", found.aware, "-ldl"),
        (*mpicc, "-std=c11", *sources, "-o", found.program, "-lm", "-ldl"),
    ):
        subprocess.run(line, check=True, timeout=600)
    shutil.copy(driver, folder / "driver" / "libamdhip64.so.6")
    return found


@pytest.mark.parametrize("kind", ["cuda", "rocm"])
def test_everything_is_measured_between_gpus_and_every_byte_is_looked_at(
    gpu: Gpu, kind: str
) -> None:
    """Although nobody asked for it: an MPI that knows nothing of GPUs may go on with wrong bytes."""
    asked = case((kind, kind))
    code, output = gpu.measure(asked)
    assert (code, output.complete, output.validation_errors) == (0, True, 0)
    assert {one.benchmark for one in output.series} == set(CORE)
    assert all(one.validated for one in output.series if one.size and one.benchmark != "barrier")
    for rank in output.ranks:
        assert rank.memory is not None
        assert rank.memory.text == (
            f"{kind} (`Stand-in for {'CUDA' if kind == 'cuda' else 'ROCm'}`, GPU 0 of 1); the MPI "
            "says that it takes them"
        )
        assert any("driver/lib" in path for path in rank.libraries)
    right, wrong = (
        next(one for one in judged(output, replace(asked, **change)) if one.name == "memory")
        for change in ({"spot_check": True}, {"memory": ("host", kind)})
    )
    assert right.state is State.OK
    assert "rank 0 had" in wrong.evidence


@pytest.mark.parametrize("memory", [("host", "cuda"), ("cuda", "host")])
def test_between_the_host_and_a_gpu(gpu: Gpu, memory: tuple[str, ...]) -> None:
    asked = case(memory, ONE_WAY)
    assert native.BENCHMARK.problems(asked) == ()
    code, output = gpu.measure(asked)
    assert (code, output.complete, output.validation_errors) == (0, True, 0)
    assert tuple(rank.memory.kind for rank in output.ranks if rank.memory) == memory
    _, output = gpu.measure(case(memory))
    assert output.skipped["allreduce 8"] == "mixed-memory"


def test_a_damaged_byte_is_found_on_the_gpu(gpu: Gpu) -> None:
    asked = case(("cuda", "cuda"), ("latency",))
    code, output = gpu.measure(asked, "STACKPROOF_GPUAWARE_WRONG=4096")
    assert code == native.EXIT_VALIDATION
    assert {(one.benchmark, one.size, one.offset) for one in output.wrong} == {
        ("latency", 4096, 4095)
    }
    # A GPU that does not keep what is written to it: found before anything is measured.
    _, output = gpu.measure(asked, "STACKPROOF_FAKE_GPU_FLIP=1")
    assert list(output.refused) == ["device-fault"]
    assert output.series == ()


@pytest.mark.parametrize(
    ("memory", "settings", "why", "words"),
    [
        ("cuda", ("CUDA_VISIBLE_DEVICES=",), "no-device", "CUDA_VISIBLE_DEVICES is ``"),
        ("rocm", ("HIP_VISIBLE_DEVICES=",), "no-device", "hipErrorNoDevice"),
        ("rocm", ("ROCR_VISIBLE_DEVICES=",), "no-device", "ROCR_VISIBLE_DEVICES is ``"),
        ("cuda", ("STACKPROOF_FAKE_GPU_MIB=0",), "out-of-memory", "CUDA_ERROR_OUT_OF_MEMORY"),
        ("rocm", ("STACKPROOF_FAKE_GPU_MIB=0",), "out-of-memory", "hipErrorOutOfMemory"),
        ("cuda", ("LD_LIBRARY_PATH=/nowhere",), "no-driver", "libcuda.so.1"),
        ("rocm", ("LD_LIBRARY_PATH=/nowhere",), "no-driver", "libamdhip64.so"),
    ],
)  # fmt: skip
def test_a_gpu_that_cannot_be_used(
    gpu: Gpu, memory: str, settings: tuple[str, ...], why: str, words: str
) -> None:
    # An Open MPI or a UCX of the machine may have brought it, as on Debian 13.
    if why == "no-driver" and find_library(words.removeprefix("lib").partition(".")[0]):
        pytest.skip(f"{words} is on this machine")
    asked = case((memory, memory))
    done = gpu.launch(asked, *settings)
    output = native.BENCHMARK.parse(done.stdout, asked)
    assert done.returncode == native.EXIT_MEMORY
    assert list(output.refused) == [why]
    assert words in output.refused[why]
    assert output.refused[why].startswith("rank 0 on ")
    assert output.series == ()
    problem = launch_checks.first_failure(judged(output, asked, done), done.stderr)
    assert problem is not None
    assert problem.reason is (Reason.NO_GPU if why.startswith("no-") else Reason.JOB_FAILED)
    assert words in problem.message


def test_an_mpi_that_takes_no_such_buffers_says_so_and_no_rank_dies(gpu: Gpu) -> None:
    for memory in (("cuda", "cuda"), ("host", "rocm")):
        asked = case(memory, ONE_WAY)
        done = gpu.launch(asked, aware=False)
        output = native.BENCHMARK.parse(done.stdout, asked)
        assert done.returncode == native.EXIT_MEMORY
        assert list(output.refused) == ["not-gpu-aware"]
        assert b"SIGSEGV" not in done.stdout + done.stderr
        problem = launch_checks.first_failure(judged(output, asked, done))
        assert problem is not None
        assert problem.reason is Reason.NO_GPU


def test_two_kinds_of_memory_are_for_two_ranks(gpu: Gpu) -> None:
    four = replace(case(("host", "cuda")), placement=replace(PAIR, ranks=PAIR.ranks * 2))
    problems = native.BENCHMARK.problems(four)
    assert any("two ranks" in text for text in problems)
    assert any("collective" in text for text in problems)
    done = subprocess.run(
        [gpu.prefix / "bin" / "mpiexec", "-n", "3", gpu.program, "--memory", "host,cuda"],
        capture_output=True, timeout=600, check=False,
        env={"PATH": "/usr/bin:/bin", "MPIR_CVAR_ENABLE_HEAVY_YIELD": "1"},
    )  # fmt: skip
    assert done.returncode == native.EXIT_WORLD
    assert b"two kinds of memory" in done.stderr


@pytest.mark.parametrize("value", ["gpu", "cuda,", ",cuda", "cuda,rocm,host", "", "hostcudarocm"])
def test_a_memory_that_there_is_none_of(gpu: Gpu, value: str) -> None:
    done = subprocess.run(
        [gpu.program, "--memory", value], capture_output=True, timeout=600, check=False
    )
    assert done.returncode == native.EXIT_USAGE
    assert b"is not a value of `--memory`" in done.stderr


def test_imb_has_buffers_of_the_host_alone() -> None:
    assert any("host's memory" in text for text in imb.BENCHMARK.problems(case(("cuda", "cuda"))))


def said(topic: Topic, value: str) -> Statement:
    return Statement(topic=topic, value=value)


@pytest.mark.parametrize(
    ("family", "env", "statements", "libraries", "way"),
    [
        ("mpich", {"MPIR_CVAR_CH4_OFI_ENABLE_HMEM": "1"}, (), (), "GPU-direct, as"),
        ("mpich", {}, (), (), "staged, as `MPIR_CVAR_CH4_OFI_ENABLE_HMEM` is not set"),
        ("openmpi", {}, (said(Topic.LAYER, "cm"),), (), "GPU-direct, as"),
        ("openmpi", {"OMPI_MCA_mtl_ofi_disable_hmem": "1"}, (said(Topic.LAYER, "cm"),), (),
         "staged, as `OMPI_MCA_mtl_ofi_disable_hmem` is `1`"),
        ("openmpi", {}, (said(Topic.CARRIER, "cuda_ipc/cuda rc/mlx5_0:1"),), (),
         "IPC (UCX says `cuda_ipc`)"),
        ("openmpi", {}, (said(Topic.LAYER, "ob1"),), (), "neither the MPI nor its settings"),
        ("cray-mpich", {}, (), ("/opt/libmpi_gtl_cuda.so.0",), "GPU-direct, as"),
        ("cray-mpich", {}, (), (), "neither the MPI nor its settings"),
        ("intel-mpi", {}, (), ("/usr/lib/libgdrapi.so.2",), "GDRCopy for small messages"),
        ("intel-mpi", {"FI_HMEM_CUDA_USE_GDRCOPY": "0"}, (), ("/usr/lib/libgdrapi.so.2",),
         "neither the MPI nor its settings"),
    ],
)  # fmt: skip
def test_the_way_is_named_from_evidence(
    family: str, env: dict[str, str], statements: tuple[Statement, ...],
    libraries: tuple[str, ...], way: str,
) -> None:  # fmt: skip
    ranks = (RankFacts(rank=0, host="a", libraries=libraries),)
    output = Output(program="stackproof-bench", ranks=ranks)
    apart = replace(PAIR, ranks=(Rank(node="a"), Rank(node="b")))
    asked = replace(case(("cuda", "cuda")), placement=apart)
    found = gpu_path(family, asked, env, output, statements)
    assert found.startswith(f"buffers in memory of cuda: {way}")
    assert gpu_path(family, replace(asked, memory=()), env, output, statements) == ""


def test_inside_a_node_cray_mpich_goes_by_ipc_unless_it_is_off() -> None:
    ranks = (RankFacts(rank=0, host="a", libraries=("/opt/libmpi_gtl_hsa.so.0",)),)
    output = Output(program="stackproof-bench", ranks=ranks)
    asked = case(("rocm", "rocm"))
    assert "IPC, as" in gpu_path("cray-mpich", asked, {}, output, ())
    off = gpu_path("cray-mpich", asked, {"MPICH_GPU_IPC_ENABLED": "0"}, output, ())
    assert "staged, as `MPICH_GPU_IPC_ENABLED` is `0`" in off
