"""stackproof-bench compiled by the mpicc of real MPIs, run with two ranks on this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nativempis import (
    LIMIT_S,
    PRELOADS,
    VERSIONS,
    WARNINGS,
    WHEELS,
    Mpi,
    case,
    environment_of,
    install,
    placement,
)
from need import need
from stackproof.bench.programs import imb, native
from stackproof.compare.launch_checks import clock_check
from stackproof.core.errors import Reason
from stackproof.mpi import families
from stackproof.results.measurement import State
from stackproof.results.metrics import CORE

pytestmark = pytest.mark.machine

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src" / "stackproof" / "bench" / "programs" / "csrc"


@pytest.fixture(scope="module", params=list(VERSIONS))
def mpi(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mpi:
    need("gcc", "network")
    family = str(request.param)
    prefix = install(family, *WHEELS.get(family, ()))
    folder = tmp_path_factory.mktemp(family)
    built = Mpi(
        family=family,
        prefix=prefix,
        environment=environment_of(family, prefix),
        program=folder / "stackproof-bench",
        slowsend=folder / "slowsend.so",
        wrongbyte=folder / "wrongbyte.so",
        latecoll=folder / "latecoll.so",
        fastclock=folder / "fastclock.so",
        jumpclock=folder / "jumpclock.so",
    )
    mpicc = (str(prefix / "bin" / "mpicc"), "-std=c11", "-O2", *WARNINGS)
    sources = [str(path) for path in sorted(SOURCES.glob("*.c"))]
    lines = [
        (*mpicc, *sources, "-o", str(built.program)),
        *(
            (*mpicc, "-Wno-missing-prototypes", "-shared", "-fPIC", str(PRELOADS / f"{name}.c"),
             "-o", str(folder / f"{name}.so"), "-ldl")
            for name in ("slowsend", "wrongbyte", "latecoll", "fastclock", "jumpclock")
        ),
    ]  # fmt: skip
    for line in lines:
        done = built.run(*line)
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        assert done.stderr == b""
    return built


def test_everything_is_measured_and_every_byte_is_right(mpi: Mpi) -> None:
    asked = case()
    assert native.BENCHMARK.problems(asked) == ()
    code, output = mpi.measure(asked)
    assert code == 0
    assert output.complete
    assert output.validation_errors == 0
    assert families.identify(output.mpi_library) == (mpi.family, VERSIONS[mpi.family])
    measured = {(s.benchmark, s.size): s for s in output.series}
    assert len(measured) + len(output.skipped) == 8 * len(asked.sizes) + 1
    assert output.skipped["bandwidth 0"] == "too-small"
    assert output.skipped["allreduce 3"] == "too-small"
    assert all(s.validated is not None for s in output.series)
    assert all(s.check_s is not None for s in output.series)
    # After each sample and in two more exchanges, there in a slot for each message of a window.
    latency, rate = measured["latency", 100_000], measured["message_rate", 3]
    assert latency.validated == 2 * 100_000 * (len(latency.values) + 2)
    assert rate.validated == 3 * (len(rate.values) + 2 * 64)


def test_ranks_tell_where_they_are_and_what_they_have_loaded(mpi: Mpi) -> None:
    own = sorted(os.sched_getaffinity(0))
    cpus = (own[0], own[-1])
    _, output = mpi.measure(case(benchmarks=("latency",), placement=placement(cpus)))
    assert [rank.rank for rank in output.ranks] == [0, 1]
    assert [rank.cpus for rank in output.ranks] == [(cpus[0],), (cpus[1],)]
    assert [rank.cpu for rank in output.ranks] == list(cpus)
    assert {rank.host for rank in output.ranks} == {os.uname().nodename}
    library = str(mpi.prefix.resolve() / "lib" / "libmpi.so")
    assert all(any(p.startswith(library) for p in rank.libraries) for rank in output.ranks)
    # Wheels of MPICH and Open MPI were linked without build-ids, Intel's libraries have them.
    assert all(set(rank.build_ids) <= set(rank.libraries) for rank in output.ranks)
    # What the machine has for InfiniBand, which their libfabric loads, has build-ids of its own.
    for rank in output.ranks:
        own_ids = [path for path in rank.build_ids if path.startswith(str(mpi.prefix.resolve()))]
        assert bool(own_ids) == (mpi.family == "intel-mpi")
    assert all(any("/dev/shm/" in path for path in rank.shared) for rank in output.ranks)
    assert all("lo" in rank.tx_bytes for rank in output.ranks)
    assert 0 < output.clock["resolution_s"] < 1e-4


def test_ranks_tell_what_of_the_loader_s_variables_they_have(mpi: Mpi, tmp_path: Path) -> None:
    link, folder = tmp_path / "a-tool.so", str(mpi.prefix / "lib")
    link.symlink_to(mpi.slowsend)
    gone, nowhere = str(tmp_path / "gone.so"), str(tmp_path / "nowhere")
    paths = f"{nowhere}:{folder}:{mpi.environment.get('LD_LIBRARY_PATH', '')}"
    _, output = mpi.measure(
        case(benchmarks=("latency",), sizes=(8,)),
        LD_PRELOAD=f"{link}:{gone} {mpi.wrongbyte}", LD_LIBRARY_PATH=paths,
    )  # fmt: skip
    for rank in output.ranks:
        assert rank.preloads == {str(link): 1, gone: 0, str(mpi.wrongbyte): 1}
        assert rank.folders is not None
        assert rank.folders[nowhere] == 0
        assert rank.folders[folder] > 0


def test_four_ranks_have_two_pairs(mpi: Mpi) -> None:
    benchmarks = ("latency", "message_rate", "alltoall", "allgather", "allreduce", "bcast")
    four = case(benchmarks=benchmarks, sizes=(8, 1000), placement=placement((None,) * 4))
    code, output = mpi.measure(four)
    assert code == 0
    assert output.complete
    assert output.world_size == 4
    found = {(s.benchmark, s.size): s for s in output.series}
    samples = {key: len(series.values) for key, series in found.items()}
    checked = {key: series.validated for key, series in found.items()}
    assert checked["latency", 1000] == 2 * 1000 * (samples["latency", 1000] + 2)
    assert checked["message_rate", 1000] == 2 * 1000 * (samples["message_rate", 1000] + 2 * 64)
    assert checked["alltoall", 1000] == 4 * 4 * 1000 * (samples["alltoall", 1000] + 2)
    assert checked["bcast", 1000] == 3 * 1000 * (samples["bcast", 1000] + 2)


@pytest.mark.parametrize("everything", [True, False], ids=["all", "sample"])
def test_a_wrong_byte_is_found_in_every_kind_of_exchange(mpi: Mpi, everything: bool) -> None:
    """Also where only a sample is looked at: messages of 4 KiB are wholly in it."""
    wrong = {"LD_PRELOAD": str(mpi.wrongbyte), "STACKPROOF_WRONGBYTE_SIZE": "4096"}
    checks = {"validate": everything, "spot_check": not everything}
    for name in CORE:
        if name == "barrier":
            continue
        asked = case(benchmarks=(name,), sizes=(2048, 4096), **checks)
        code, output = mpi.measure(asked, **wrong)
        # One byte in each exchange of each receiver: those after the samples, and one or two more.
        receivers = 1 if name in {"bandwidth", "message_rate", "bcast"} else 2
        (series,) = [one for one in output.series if one.size == 4096]
        if everything:
            assert output.validation_errors == (len(series.values) + 2) * receivers, name
        else:
            # Of the blocks of all ranks one is looked at, and only that of rank 0 is damaged.
            least = 1 if name in {"alltoall", "allgather"} else len(series.values) + 1
            assert least <= output.validation_errors <= (len(series.values) + 1) * receivers, name
        assert code == native.EXIT_VALIDATION
        assert output.complete
        assert {(one.benchmark, one.size) for one in output.wrong} == {(name, 4096)}
        assert len(output.wrong) == receivers
        for one in output.wrong:
            assert (one.offset, one.seen ^ one.expected) == (4095, 0x10)
            assert one.source == (-1 if name == "allreduce" else one.source)
    code, output = mpi.measure(case(benchmarks=("latency",), sizes=(2048,), **checks), **wrong)
    assert (code, output.validation_errors, output.wrong) == (0, 0, ())


def test_a_wait_in_sends_shows_where_it_applies_and_only_there(mpi: Mpi) -> None:
    wait_us = 20_000.0  # far above what a busy machine adds to the fastest of some samples
    slow = {
        "LD_PRELOAD": str(mpi.slowsend),
        "STACKPROOF_SLOWSEND_NS": str(int(1000 * wait_us)),
        "STACKPROOF_SLOWSEND_MIN": "4096",
    }
    asked = case(benchmarks=("latency",), sizes=(8, 4095, 4096, 65536), samples=10)
    _, output = mpi.measure(asked, **slow)
    fastest = {s.size: min(s.values) for s in output.series}
    assert fastest[4096] >= wait_us
    assert fastest[65536] >= wait_us
    assert fastest[8] < wait_us
    assert fastest[4095] < wait_us


LATE_US = 100_000.0
"""A planted wait, far above what a busy machine adds to the fastest of some samples."""


def fastest(mpi: Mpi, benchmark: str, timing: str, **preload: str) -> float:
    """Return the fastest sample of a collective of 8 bytes, us."""
    asked = case(
        benchmarks=(benchmark,), sizes=(8,), samples=5, validate=False, timing=timing,
        seconds_per_size=0.5,
    )  # fmt: skip
    code, output = mpi.measure(asked, **preload)
    assert code == 0
    (series,) = output.series
    assert series.timing == timing
    assert len(series.mean) == len(series.values)
    return min(series.values)


def test_a_slow_barrier_is_not_judged_as_a_slow_allreduce(mpi: Mpi) -> None:
    """One rank leaves each barrier late: the next allreduce of the others waits for it."""
    late = {
        "LD_PRELOAD": str(mpi.latecoll), "STACKPROOF_LATE_IN": "barrier",
        "STACKPROOF_LATE_NS": str(int(1000 * LATE_US)),
    }  # fmt: skip
    # Of two ranks one waits: half, less what the other is late by itself on a busy machine.
    assert fastest(mpi, "allreduce", "osu", **late) > 0.2 * LATE_US
    # Asked again where every sample of one run lost its core; a judged barrier is in all of them.
    assert any(fastest(mpi, "allreduce", "synchronised", **late) < 0.2 * LATE_US for _ in range(4))
    assert fastest(mpi, "barrier", "synchronised", **late) >= LATE_US


def test_a_straggler_counts_whole(mpi: Mpi) -> None:
    """One of two ranks leaves the broadcast late: the mean over the ranks shows half of it."""
    late = {
        "LD_PRELOAD": str(mpi.latecoll), "STACKPROOF_LATE_IN": "bcast",
        "STACKPROOF_LATE_NS": str(int(1000 * LATE_US)),
    }  # fmt: skip
    assert fastest(mpi, "bcast", "synchronised", **late) >= LATE_US
    assert fastest(mpi, "bcast", "imb", **late) < LATE_US


@pytest.mark.parametrize("ppm", ["0", "200"])
def test_ranks_with_clocks_of_their_own_start_together(mpi: Mpi, ppm: str) -> None:
    """Rank 1's clock is 12 s ahead, and runs too fast: both are found by asking."""
    asked = case(benchmarks=("allreduce", "bcast"), sizes=(8,), samples=10, timing="synchronised")
    argv = (*native.BENCHMARK.argv(str(mpi.program), asked), "--own-clocks")
    ahead = (
        "env", f"LD_PRELOAD={mpi.fastclock}", "STACKPROOF_CLOCK_OFFSET_NS=12000000000",
        f"STACKPROOF_CLOCK_PPM={ppm}",
    )  # fmt: skip
    output = native.BENCHMARK.parse(mpi.launch(argv, (*ahead, *argv)).stdout, asked)
    assert output.complete
    for series in output.series:
        # Without what was found an operation would seem to take 12 s, or less than nothing.
        assert 0 < min(series.values) < 1e6
        assert series.clock_error_us is not None
        assert 0 < series.clock_error_us < 1e6
    if ppm == "0":
        shared = native.BENCHMARK.parse(mpi.launch(argv[:-1], argv[:-1]).stdout, asked)
        assert all(one.clock_error_us == 0 for one in shared.series)


def test_a_rank_in_a_time_namespace_has_a_clock_of_its_own(mpi: Mpi) -> None:
    need("root")
    asked = case(benchmarks=("allreduce",), sizes=(8,), samples=10, timing="synchronised")
    argv = native.BENCHMARK.argv(str(mpi.program), asked)
    later = ("unshare", "--time", "--monotonic", "1000", "--fork", *argv)
    output = native.BENCHMARK.parse(mpi.launch(argv, later).stdout, asked)
    assert output.complete
    (series,) = output.series
    assert 0 < min(series.values) < 1e6
    assert series.clock_error_us is not None
    assert series.clock_error_us > 0


@pytest.mark.parametrize("jump_ms", [30, -30])
@pytest.mark.parametrize(
    ("name", "rank"),
    [("latency", 0), ("latency", 1), ("bandwidth", 1), ("allreduce", 0), ("allreduce", 1)],
)
def test_a_jump_of_a_clock_is_told_by_the_rank_whose_it_is(
    mpi: Mpi, name: str, rank: int, jump_ms: int
) -> None:
    """Far more than clocks may drift while a busy machine lets no rank look at its own."""
    planted = {
        "LD_PRELOAD": str(mpi.jumpclock), "STACKPROOF_JUMP_RANK": str(rank),
        "STACKPROOF_JUMP_BARRIER": "3", "STACKPROOF_JUMP_NS": str(1_000_000 * jump_ms),
    }  # fmt: skip
    asked = case(benchmarks=(name,), sizes=(8, 4096), samples=5, seconds_per_size=0.01)
    argv = native.BENCHMARK.argv(str(mpi.program), asked)
    jumping = ("env", *(f"{key}={value}" for key, value in planted.items()), *argv)
    done = mpi.launch(*((jumping if one == rank else argv) for one in (0, 1)))
    output = native.BENCHMARK.parse(done.stdout, asked)
    check = clock_check(output)
    assert (check.state, check.reason) == (State.BAD, Reason.CLOCK_JUMPED), (check, output.ranks)
    assert check.evidence.startswith(f"the clock of rank {rank} jumped by "), check
    clocks = [one.clock for one in output.ranks if one.clock is not None]
    assert clocks[rank].jump_us == pytest.approx(1000 * jump_ms, rel=0.1)
    assert clocks[1 - rank].jump_us == 0
    # A clock that went back shows as no time or less, which is no sample.
    assert all(value > 0 for series in output.series for value in series.values)


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_clock_that_runs_steadily_is_no_alarm(mpi: Mpi, ranks: int) -> None:
    asked = case(
        benchmarks=("latency", "allreduce"), sizes=(8, 100_000),
        placement=placement((None,) * ranks), samples=5, seconds_per_size=0.01,
    )  # fmt: skip
    for _ in range(3):
        _, output = mpi.measure(asked)
        check = clock_check(output)
        assert check.state is State.OK, (check, output.ranks)
        assert all(one.clock is not None and one.clock.shared for one in output.ranks)


def test_another_process_on_a_rank_s_cpu_is_told(mpi: Mpi) -> None:
    own = sorted(os.sched_getaffinity(0))
    busy = subprocess.Popen(
        ["taskset", "-c", str(own[0]), sys.executable, "-c", "while True: pass"]
    )
    try:
        asked = case(
            benchmarks=("latency",), sizes=(8,), placement=placement((own[0], own[-1])),
            seconds_per_size=0.3, samples=5, validate=False,
        )  # fmt: skip
        _, output = mpi.measure(asked)
    finally:
        busy.kill()
        busy.wait()
    found = output.ranks[0].disturbance
    assert found is not None
    assert found.wall_s is not None
    assert found.run_queue_wait_s is not None
    assert found.other_load is not None
    assert found.other_load > 0.1
    # MPICH sleeps here until its socket has something, and is then let in front of the other
    # process; what spins must share the CPU with it.
    assert found.run_queue_wait_s > (0 if mpi.family == "mpich" else 0.1 * found.wall_s)
    assert found.involuntary_switches is not None
    (series,) = output.series
    assert series.disturbance is not None
    assert series.disturbance.run_queue_wait_s is not None
    assert series.disturbance.run_queue_wait_s >= found.run_queue_wait_s * 0.99


def test_a_node_tells_its_interfaces_and_what_each_part_sent(mpi: Mpi) -> None:
    asked = case(benchmarks=("latency", "bandwidth"), sizes=(8, 65536))
    _, output = mpi.measure(asked)
    first, second = output.ranks
    assert first.interfaces["lo"].up
    assert "127.0.0.1" in first.interfaces["lo"].addresses
    assert set(first.interfaces) == set(first.tx_bytes)
    assert set(first.parts) == {
        f"{name} {size}" for name in asked.benchmarks for size in (8, 65536)
    }
    assert (second.interfaces, second.parts) == ({}, {})


def test_singletons_are_told_apart(mpi: Mpi) -> None:
    asked = case(benchmarks=("latency",))
    argv = native.BENCHMARK.argv(str(mpi.program), asked)
    first, second = mpi.run(*argv), mpi.run(*argv)
    assert (first.returncode, second.returncode) == (native.EXIT_WORLD, native.EXIT_WORLD)
    output = native.BENCHMARK.parse(first.stdout + second.stdout, asked)
    assert output.worlds == 2
    assert output.world_size == 1
    assert not output.complete
    assert output.series == ()
    assert b"number of ranks is 1" in first.stderr


def test_one_rank_alone_measures_nothing(mpi: Mpi) -> None:
    done = mpi.run(str(mpi.program), "--sizes", "8")
    assert done.returncode == native.EXIT_WORLD
    assert b'"kind":"series"' not in done.stdout


def test_too_much_memory_is_refused_with_a_reason(mpi: Mpi) -> None:
    argv = (str(mpi.program), "--benchmarks", "alltoall,latency", "--sizes", "8,4096")
    limited = (*argv, "--memory-limit", "1000", "--samples", "2", "--seconds-per-size", "0.001")
    done = mpi.launch(limited, limited)
    asked = case(benchmarks=("alltoall", "latency"), sizes=(8, 4096))
    output = native.BENCHMARK.parse(done.stdout, asked)
    assert output.complete
    assert output.skipped == {"alltoall 4096": "memory-limit", "latency 4096": "memory-limit"}
    assert len(output.series) == 2


def ranks_of(program: Path) -> list[int]:
    """Return the processes that run a program."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and (entry / "exe").readlink() == program:
                found.append(int(entry.name))
    return sorted(found)


def test_a_crash_leaves_whole_lines_and_no_end(mpi: Mpi) -> None:
    asked = case(benchmarks=("message_rate",), sizes=tuple(range(1000)), seconds_per_size=0.5)
    argv = native.BENCHMARK.argv(str(mpi.program), asked)
    process = mpi.start(str(mpi.prefix / "bin" / "mpiexec"), "-n", "2", *argv)
    told = b""
    try:
        assert process.stdout
        while b'"kind":"series"' not in told:
            line = process.stdout.readline()
            assert line, "the program ended before its first result"
            told += line
        os.kill(ranks_of(mpi.program)[-1], signal.SIGSEGV)
        told += process.communicate(timeout=LIMIT_S)[0]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    output = native.BENCHMARK.parse(told, asked)
    assert process.returncode != 0
    assert not output.complete
    assert output.world_size == 2
    assert output.series
    assert output.series[0].size == 0
    assert ranks_of(mpi.program) == []


def test_output_that_cannot_be_written_is_a_fault(mpi: Mpi) -> None:
    argv = native.BENCHMARK.argv(str(mpi.program), case(benchmarks=("barrier",), sizes=()))
    full = ("sh", "-c", 'exec "$0" "$@" > /dev/full', *argv)
    assert mpi.launch(full, full).returncode != 0


@pytest.mark.parametrize(
    "options",
    [
        ["--speed"],
        ["--benchmarks", "latency,speed"],
        ["--benchmarks", "latency,latency"],
        ["--benchmarks", ""],
        ["--benchmarks"],
        ["--sizes", "8,"],
        ["--sizes", "8,8"],
        ["--sizes", "-1"],
        ["--sizes", "+1"],
        ["--sizes", "1k"],
        ["--sizes", "2147483648"],
        ["--sizes", "99999999999999999999"],
        ["--sizes=" + ",".join(map(str, range(1025)))],
        ["--samples", "0"],
        ["--samples", "1.5"],
        ["--seconds-per-size", "0"],
        ["--seconds-per-size", "nan"],
        ["--seconds-per-size", "inf"],
        ["--seconds-per-size", "1s"],
        ["--window", "0"],
        ["--window", "65537"],
        ["--memory-limit", "0"],
        ["--expect-ranks", "two"],
        ["--validate"],
        ["--check"],
        ["--check", "some"],
        ["--timing", "fast"],
        ["-h"],
        ["x" * 5000],
    ],
    ids=lambda options: " ".join(options)[:30],
)
def test_bad_options_cost_nothing(mpi: Mpi, options: list[str]) -> None:
    began = time.monotonic()
    done = mpi.run(str(mpi.program), *options)
    assert done.returncode == native.EXIT_USAGE
    assert done.stdout == b""
    assert done.stderr.startswith(b"stackproof-bench: ")
    assert time.monotonic() - began < LIMIT_S / 2


def test_help_and_version_need_no_launcher(mpi: Mpi) -> None:
    asked = mpi.run(str(mpi.program), "--help")
    assert asked.returncode == 0
    assert all(name.encode() in asked.stdout for name in CORE)
    version = mpi.run(str(mpi.program), "--version")
    assert version.returncode == 0
    assert families.get(mpi.family).title.encode() in version.stdout
    assert VERSIONS[mpi.family].encode() in version.stdout


@pytest.mark.parametrize("family", ["intel-mpi", "mpich"])
def test_imb_runs_on_two_mpis_of_its_abi_and_is_read(family: str) -> None:
    need("network")
    intel = install("intel-mpi", *WHEELS["intel-mpi"])
    prefix = intel if family == "intel-mpi" else install(family)
    asked = case(
        program="IMB-MPI1",
        benchmarks=tuple(CORE),
        sizes=(0, 3, 8, 4096),
        validate=False,
        timeout_s=60.0,
    )
    assert imb.BENCHMARK.problems(asked) == ()
    argv = imb.BENCHMARK.argv(str(intel / "bin" / "IMB-MPI1"), asked)
    done = subprocess.run(
        [str(prefix / "bin" / "mpiexec"), "-n", "2", *argv],
        env=environment_of(family, prefix),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    output = imb.BENCHMARK.parse(done.stdout, asked)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    assert output.complete, output.garbage
    assert output.world_size == 2
    found = {(s.benchmark, s.size) for s in output.series}
    assert {("latency", 0), ("bandwidth", 3), ("allreduce", 8), ("barrier", 0)} <= found
    assert output.skipped["allreduce 3"] == "granularity"
