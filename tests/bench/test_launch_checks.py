import json
from pathlib import Path

import pytest

from stackproof.compare import launch_checks, rank_places
from stackproof.core.command import Completed
from stackproof.core.errors import Reason
from stackproof.core.value import replace
from stackproof.results.case import Case, Placement, Rank
from stackproof.results.measurement import (
    Check,
    Output,
    RankClock,
    RankFacts,
    Series,
    State,
    WrongBytes,
)

CAPTURES = Path(__file__).parents[1] / "captures" / "launch"
OPENMPI = (CAPTURES / "library-version-openmpi-5.0.11.txt").read_text()

CASE = Case(
    program="stackproof-bench",
    benchmarks=("latency", "allreduce", "barrier"),
    sizes=(0, 8, 1 << 20),
    placement=Placement(
        name="inter",
        ranks=(Rank(node="node1", cpu=0), Rank(node="node2", cpu=1)),
        interface="eth0",
    ),
    transport="tcp",
    validate=True,
    timeout_s=30,
)
DONE = Completed(argv=("mpiexec",), returncode=0, stdout=b"lines\n", stderr=b"", seconds=1.0)


def series(benchmark: str, size: int) -> Series:
    return Series(
        benchmark=benchmark, size=size, unit="us", values=(1.0, 1.1), iterations=10, validated=size
    )


GOOD = Output(
    program="stackproof-bench",
    mpi_library=OPENMPI,
    world_size=2,
    worlds=1,
    ranks=(
        RankFacts(rank=0, host="node1", cpus=(0,), tx_bytes={"lo": 0, "eth0": 50_000_000}),
        RankFacts(rank=1, host="node2", cpus=(1,), tx_bytes={"lo": 0, "eth0": 50_000_000}),
    ),
    series=(
        *(series("latency", size) for size in CASE.sizes),
        series("allreduce", 8),
        series("allreduce", 1 << 20),
        series("barrier", 0),
    ),
    complete=True,
    skipped={"allreduce 0": "too-small"},
)
SILENT = Output(program="stackproof-bench")


def judge(output=GOOD, case=CASE, completed=DONE, *, mpi=("openmpi", "5.0.11")):
    return launch_checks.judge(
        output, case, mpi_family=mpi[0], mpi_version=mpi[1], completed=completed
    )


def bad(*arguments, **named) -> dict[str, str]:
    found = judge(*arguments, **named)
    return {check.name: check.reason for check in found if check.state is State.BAD}


def state(name: str, *arguments, **named) -> State:
    return next(check.state for check in judge(*arguments, **named) if check.name == name)


def test_a_good_launch_passes_every_check_with_evidence():
    found = judge()
    assert [check.name for check in found if check.state is not State.OK] == []
    assert all(check.evidence for check in found)
    assert len({check.name for check in found}) == len(found)
    assert launch_checks.first_failure(found) is None


@pytest.mark.parametrize(
    ("name", "changes", "reason"),
    [
        ("world", {"worlds": 2, "world_size": 1}, Reason.SINGLETONS),
        ("world", {"world_size": 1}, Reason.SINGLETONS),
        ("validation", {"validation_errors": 3}, Reason.VALIDATION_FAILED),
        ("output", {"complete": False}, Reason.TRUNCATED_OUTPUT),
        ("mpi", {"mpi_library": "MPICH Version:      5.0.2"}, Reason.WRONG_MPI),
        ("mpi", {"mpi_library": "Open MPI v5.0.8, x"}, Reason.WRONG_MPI),
        ("mpi", {"mpi_library": "an MPI nobody knows"}, Reason.WRONG_MPI),
        ("results", {"series": GOOD.series[1:]}, Reason.NO_RESULTS),
        ("results", {"series": GOOD.series[:-1]}, Reason.NO_RESULTS),
    ],
)
def test_one_fault_fails_its_own_check_alone(name, changes, reason):
    assert bad(replace(GOOD, **changes)) == {name: reason.value}


TOOL = "/tmp/tool/libtool.so"
IGNORED = (
    f"ERROR: ld.so: object '{TOOL}' from LD_PRELOAD cannot be preloaded (cannot open shared object "
    "file): ignored.\n"
).encode()


@pytest.mark.parametrize(
    ("loader", "ranks", "stderr", "state", "words"),
    [
        ({}, {}, IGNORED, None, ""),
        ({"LD_PRELOAD": TOOL}, {"preloads": {TOOL: 1}}, b"", State.OK, "every rank has"),
        # What the launcher's own programs say of it is not said of the ranks.
        ({"LD_PRELOAD": TOOL}, {"preloads": {TOOL: 1}}, IGNORED, State.OK, "every rank has"),
        ({"LD_PRELOAD": TOOL}, {"preloads": {TOOL: 0}}, b"", State.BAD, "could not open it"),
        ({"LD_PRELOAD": TOOL}, {"preloads": {}}, b"", State.BAD, "was unset there"),
        (
            {"LD_PRELOAD": f"liba.so {TOOL}"}, {"preloads": {"liba.so": 1, TOOL: 0}}, b"",
            State.BAD, f"without `{TOOL}`",
        ),
        ({"LD_PRELOAD": f":{TOOL}:"}, {}, IGNORED, State.BAD, "the loader of a rank ignored"),
        ({"LD_PRELOAD": TOOL}, {}, b"", State.UNKNOWN, "no rank tells"),
        ({"LD_LIBRARY_PATH": "/a:/b"}, {"folders": {"/a": 0, "/b": 3}}, b"", None, ""),
        ({"LD_LIBRARY_PATH": "/a"}, {"folders": {"/a": 0}}, b"", State.BAD, "no library from"),
        ({"LD_LIBRARY_PATH": "/a"}, {"folders": {}}, b"", State.BAD, "no library from"),
        ({"LD_LIBRARY_PATH": "/a"}, {}, b"", None, ""),
        ({}, {"folders": {"/a": 0}}, b"", None, ""),
    ],
)  # fmt: skip
def test_the_loader_must_have_done_what_an_arm_asks_for(loader, ranks, stderr, state, words):
    facts = (GOOD.ranks[0], replace(GOOD.ranks[1], **ranks))
    checks = launch_checks.judge(
        replace(GOOD, ranks=facts), CASE, mpi_family="openmpi", mpi_version="5.0.11",
        completed=replace(DONE, stderr=stderr), loader=loader,
    )  # fmt: skip
    found = [one for one in checks if one.name in {"preload", "library path"}]
    assert [one.state for one in found] == ([] if state is None else [state])
    assert all(words in one.evidence for one in found)
    problem = launch_checks.first_failure(checks)
    assert (problem is None) is (state is not State.BAD)
    if problem is not None:
        assert problem.reason is Reason.NOT_LOADED
        assert "folder that every node has" in problem.hint


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(("node2", (0,)), ("node2", (1,)), id="host"),
        pytest.param(("node1", (0, 1)), ("node2", (1,)), id="not-pinned"),
        pytest.param(("node1", (1,)), ("node2", (1,)), id="other-cpu"),
    ],
)
def test_a_rank_elsewhere_is_a_wrong_placement(first, second):
    ranks = tuple(
        replace(facts, host=host, cpus=cpus)
        for facts, (host, cpus) in zip(GOOD.ranks, (first, second), strict=True)
    )
    assert bad(replace(GOOD, ranks=ranks))["placement"] == Reason.WRONG_PLACEMENT.value


def test_a_domain_after_the_host_name_is_the_same_node():
    ranks = tuple(replace(facts, host=f"{facts.host}.cluster.example") for facts in GOOD.ranks)
    assert bad(replace(GOOD, ranks=ranks)) == {}


def test_localhost_is_any_one_machine():
    here = replace(CASE, placement=Placement(name="p", ranks=(Rank(node="localhost"),) * 2))
    assert state("placement", case=replace(here, transport="auto")) is State.OK


def test_a_wrong_interface_is_a_wrong_transport():
    ranks = tuple(replace(facts, tx_bytes={"eth1": 50_000_000}) for facts in GOOD.ranks)
    assert bad(replace(GOOD, ranks=ranks)) == {"transport": Reason.WRONG_TRANSPORT.value}


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("world", {"world_size": 0, "worlds": 0}),
        ("placement", {"ranks": ()}),
        ("nodes", {"ranks": ()}),
        ("transport", {"ranks": ()}),
        ("mpi", {"mpi_library": ""}),
        ("validation", {"series": tuple(replace(s, validated=None) for s in GOOD.series)}),
    ],
)
def test_what_the_program_did_not_tell_cannot_be_told(name, changes):
    output = replace(GOOD, **changes)
    assert state(name, output) is State.UNKNOWN
    assert bad(output) == {}


def test_validation_that_nobody_asked_for_cannot_be_told():
    assert state("validation", case=replace(CASE, validate=False)) is State.UNKNOWN


def test_a_size_may_be_left_out_only_with_a_reason():
    def lost(key: str) -> bool:
        kept = tuple(s for s in GOOD.series if f"{s.benchmark} {s.size}" != key)
        return "results" in bad(replace(GOOD, series=kept))

    assert lost("allreduce 1048576")
    assert lost("latency 0")
    told = replace(GOOD, series=GOOD.series[:4], skipped={
        "allreduce 0": "too-small", "allreduce 1048576": "memory-limit", "barrier 0": "clock"
    })  # fmt: skip
    assert "results" not in bad(told)


@pytest.mark.parametrize(
    ("stdout", "garbage", "reason"),
    [
        (b"", (), Reason.TRUNCATED_OUTPUT),
        (b"  \n", (), Reason.TRUNCATED_OUTPUT),
        (b"\x00\xff\x13", (), Reason.GARBAGE_OUTPUT),
        (b"hello\nworld\n", ("hello", "world"), Reason.GARBAGE_OUTPUT),
    ],
)
def test_output_of_another_program(stdout, garbage, reason):
    completed = replace(DONE, stdout=stdout)
    found = judge(replace(SILENT, garbage=garbage), completed=completed)
    assert next(c.reason for c in found if c.name == "output") == reason.value


def test_a_job_that_hangs_is_a_timeout_whether_or_not_it_spoke():
    hung = replace(DONE, returncode=-15, timed_out=True)
    assert bad(completed=hung) == {"end": Reason.JOB_TIMEOUT.value}
    assert launch_checks.first_failure(judge(SILENT, completed=hung)).reason is Reason.JOB_TIMEOUT


def failed(name: str) -> Completed:
    data = json.loads((CAPTURES / f"{name}.json").read_text())
    return replace(
        DONE,
        returncode=data["returncode"],
        stdout=data["stdout"].encode(),
        stderr=data["stderr"].encode(),
    )


BEGUN = replace(GOOD, complete=False, series=(), ranks=(), skipped={})
EXPECTED = {
    "unreachable": (SILENT, Reason.NODE_UNREACHABLE),
    "node-lost": (BEGUN, Reason.NODE_UNREACHABLE),
    "crash": (BEGUN, Reason.RANK_CRASHED),
    "crash-one-node": (BEGUN, Reason.RANK_CRASHED),
    "exit-7": (BEGUN, Reason.RANK_CRASHED),
    "abort": (BEGUN, Reason.RANK_CRASHED),
    "no-program": (SILENT, Reason.COMMAND_NOT_FOUND),
    "no-program-pinned": (SILENT, Reason.COMMAND_NOT_FOUND),
    "no-cpu": (SILENT, Reason.WRONG_PLACEMENT),
    "no-start": (SILENT, Reason.JOB_FAILED),
    "singletons": (replace(GOOD, worlds=2, world_size=1, series=(), ranks=()), Reason.SINGLETONS),
}


@pytest.mark.parametrize("name", sorted(path.stem for path in CAPTURES.glob("*.json")))
def test_the_failure_that_explains_the_others_comes_first(name):
    what = max((w for w in EXPECTED if name.endswith(f"-{w}")), key=len)
    output, reason = EXPECTED[what]
    completed = failed(name)
    problem = launch_checks.first_failure(judge(output, completed=completed), completed.stderr)
    assert problem.reason is reason
    assert problem.hint
    assert problem.message
    if completed.stderr.strip():
        assert problem.detail
        assert (
            problem.detail.splitlines()[-1]
            == completed.stderr.decode().rstrip("\0\n ").splitlines()[-1]
        )


def test_a_launcher_that_says_zero_when_it_lost_a_node_is_not_believed():
    lost = failed("prte-node-lost")
    assert lost.returncode == 0
    assert bad(GOOD, completed=lost) == {"nodes": Reason.NODE_UNREACHABLE.value}


def test_every_reason_of_a_check_has_its_place_and_a_hint():
    for reason in launch_checks.ORDER:
        check = Check(name="x", state=State.BAD, reason=reason.value, evidence="why")
        problem = launch_checks.first_failure((check,), "words\n")
        assert problem.reason is reason
        assert problem.hint
        assert problem.detail == "words"


def test_a_launcher_killed_by_a_signal_is_a_crash():
    assert bad(BEGUN, completed=replace(DONE, returncode=-9))["end"] == Reason.RANK_CRASHED.value


def test_a_failure_of_another_kind_is_told_too():
    check = Check(name="x", state=State.BAD, reason=Reason.DISK_FULL.value, evidence="full")
    assert launch_checks.first_failure((check,)).reason is Reason.DISK_FULL


def test_an_exit_code_that_means_a_fault_is_a_crash_though_nobody_spoke():
    silent = judge(SILENT, completed=replace(DONE, returncode=139, stdout=b""))
    problem = launch_checks.first_failure(silent)
    assert problem.reason is Reason.RANK_CRASHED
    assert "SIGSEGV" in problem.message
    # Hydra ends with 143 when it stopped the ranks itself.
    assert "end" in bad(SILENT, completed=replace(DONE, returncode=143))
    assert bad(SILENT, completed=replace(DONE, returncode=143))["end"] == Reason.JOB_FAILED.value


def check(name: str, *arguments, **named) -> Check:
    return next(one for one in judge(*arguments, **named) if one.name == name)


def test_wrong_bytes_are_told_with_where_they_were():
    wrong = WrongBytes(
        benchmark="latency", size=4096, rank=1, bytes=2, source=0, round=3, message=0,
        offset=4095, expected=0x41, seen=0x51,
    )  # fmt: skip
    found = check("validation", replace(GOOD, validation_errors=2, wrong=(wrong,)))
    assert found.state is State.BAD
    assert (
        "latency of 4096 B, in sample 4: rank 1 received 2 wrong bytes from rank 0, the first at "
        "offset 4095: 0x51 where 0x41 was sent" in found.evidence
    )


def test_a_sample_is_called_one_and_what_it_took_is_told():
    measured = tuple(replace(one, check_s=0.25) for one in GOOD.series)
    sampled = replace(CASE, validate=False, spot_check=True)
    found = check("validation", replace(GOOD, series=measured), sampled)
    assert found.state is State.OK
    assert "a sample" in found.evidence
    assert f"took {0.25 * len(measured):.2g} s" in found.evidence


def test_a_benchmark_of_another_version_is_told_with_what_to_do():
    """An image keeps the program that was compiled into it."""
    said = b"stackproof-bench: unknown option `--check`\nusage: mpiexec -n RANKS stackproof-bench"
    done = replace(DONE, returncode=2, stdout=b"", stderr=said)
    problem = launch_checks.first_failure(judge(SILENT, completed=done), said)
    assert problem is not None
    assert problem.reason is Reason.UNSUPPORTED
    assert "unknown option `--check`" in problem.message
    assert "build the image again" in problem.hint


CHOSEN = replace(
    CASE,
    placement=replace(
        CASE.placement,
        gpus="cuda",
        ranks=(
            Rank(node="node1", cpu=0, numa=3, nic="cxi3", gpu=3),
            Rank(node="node2", cpu=1, numa=0, nic="cxi0", gpu=0),
        ),
    ),
)


FREE = replace(CASE.placement, ranks=(Rank(node="node1"), Rank(node="node2")))


def told(**changes) -> Output:
    """Return what ranks tell that are where they were asked to be, but for the first one."""
    right = {"CUDA_VISIBLE_DEVICES": "3", "FI_CXI_DEVICE_NAME": "cxi3"}
    first = replace(GOOD.ranks[0], **{"numa": 3, "devices": right, **changes})
    other = {"CUDA_VISIBLE_DEVICES": "0", "FI_CXI_DEVICE_NAME": "cxi0"}
    return replace(GOOD, ranks=(first, replace(GOOD.ranks[1], numa=0, devices=other)))


@pytest.mark.parametrize(("membind", "wrong"), [(None, False), (3, False), (-1, True), (0, True)])
def test_memory_is_bound_as_the_placement_wants(membind, wrong):
    bound = replace(CHOSEN, placement=replace(CHOSEN.placement, membind=True))
    output = told(membind=membind)
    output = replace(output, ranks=(output.ranks[0], replace(output.ranks[1], membind=0)))
    check = next(one for one in judge(output, bound) if one.name == "placement")
    assert (check.reason == Reason.WRONG_PLACEMENT) == wrong
    assert ("memory of rank 0 is not bound to NUMA node 3" in check.evidence) == wrong
    place = rank_places.place_of(output.ranks[0], bound)
    assert ("memory" in place.verified) == (membind == 3)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        ({"devices": None, "numa": None}, ""),  # another program, which does not tell
        ({"devices": {"CUDA_VISIBLE_DEVICES": "3", "MPICH_OFI_NIC_MAPPING": "3:0"}}, ""),
        ({"numa": 1}, "rank 0 is at NUMA node 1, not 3"),
        ({"membind": -1}, ""),  # nobody asked for that
        ({"devices": {"FI_CXI_DEVICE_NAME": "cxi3"}}, "rank 0 sees the GPUs `all`, not 3"),
        ({"devices": {"CUDA_VISIBLE_DEVICES": "0,1", "FI_CXI_DEVICE_NAME": "cxi3"}},
         "rank 0 sees the GPUs `0,1`, not 3"),
        ({"devices": {"CUDA_VISIBLE_DEVICES": "3", "FI_CXI_DEVICE_NAME": "cxi0"}},
         "rank 0 was told the NIC `cxi0`, not cxi3"),
        ({"devices": {"CUDA_VISIBLE_DEVICES": "3"}}, "rank 0 was told the NIC `any`, not cxi3"),
    ],
)  # fmt: skip
def test_the_numa_node_nic_and_gpu_of_a_rank_are_those_of_its_placement(changes, said):
    check = next(one for one in judge(told(**changes), CHOSEN) if one.name == "placement")
    assert (check.state is State.BAD) == bool(said)
    assert said in check.evidence
    assert (check.reason == Reason.WRONG_PLACEMENT) == bool(said)
    place = rank_places.place_of(told(**changes).ranks[0], CHOSEN)
    assert (place.numa, place.nic, place.gpu) == (changes.get("numa") or 3, "cxi3", 3)
    assert [one in check.evidence for one in place.wrong] == [True] * bool(said)
    assert not (said and place.verified)


def test_what_each_rank_says_itself_of_its_place():
    first, second = (rank_places.place_of(one, CHOSEN) for one in told().ranks)
    assert first.verified == second.verified == ("node", "core", "NUMA", "NIC", "GPU")
    silent = rank_places.place_of(told(devices=None, numa=None).ranks[0], CHOSEN)
    assert silent.verified == ("node", "core")
    anywhere = rank_places.place_of(GOOD.ranks[0], replace(CASE, placement=FREE))
    assert anywhere.verified == ("node",)
    stranger = rank_places.place_of(replace(GOOD.ranks[0], rank=9), CHOSEN)
    assert (stranger.verified, stranger.wrong) == ((), ("rank 9 was not asked for",))


STEADY = {
    "shared": True, "skew_us": 0.1, "skew_bound_us": 2.5, "moved_us": -0.2, "moved_bound_us": 3.0,
    "jump_us": 0.0,
}  # fmt: skip


def clocked(**change) -> Output:
    """Return a good launch in which the clock of rank 1 differs from a steady one."""
    clocks = (RankClock(**STEADY), RankClock(**{**STEADY, **change}))
    ranks = tuple(
        replace(rank, clock=clock) for rank, clock in zip(GOOD.ranks, clocks, strict=True)
    )
    return replace(GOOD, ranks=ranks)


def test_clocks_that_ran_steadily_are_evidence():
    assert "clock" not in {one.name for one in judge()}  # of a program that does not look
    found = check("clock", clocked())
    assert (found.state, found.evidence) == (
        State.OK, "no clock jumped; a change of 3 µs would have shown"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"jump_us": 300.0}, "the clock of rank 1 jumped by 300 µs during the launch"),
        ({"jump_us": -2500.0}, "the clock of rank 1 jumped by 2.5 ms during the launch"),
        # One that jumped is named; that it moved from rank 0's as well says nothing more.
        (
            {"jump_us": 300.0, "moved_us": 300.0},
            "the clock of rank 1 jumped by 300 µs during the launch",
        ),
        (
            {"moved_us": -3.5},
            "the clocks of rank 0 and rank 1 moved apart by 3.5 µs during the launch",
        ),
        (
            {"skew_us": 2.6},
            "the clock of rank 1 is 2.6 µs from that of rank 0, with which it should be one",
        ),
    ],
)
def test_a_clock_that_jumped_keeps_its_launch_out_and_is_named(change, said):
    output = clocked(**change)
    assert bad(output) == {"clock": Reason.CLOCK_JUMPED}
    assert check("clock", output).evidence == said


@pytest.mark.parametrize(
    "change", [{"moved_us": 2.9}, {"skew_us": -2.4}, {"shared": False, "skew_us": 5e6}]
)
def test_what_measurement_and_drift_explain_is_no_jump(change):
    assert bad(clocked(**change)) == {}


def test_many_ranks_with_a_jump_are_counted():
    ranks = tuple(
        RankFacts(rank=n, host="a", clock=RankClock(**{**STEADY, "jump_us": 300.0}))
        for n in range(9)
    )
    found = launch_checks.clock_check(replace(GOOD, ranks=ranks))
    assert found.evidence.endswith("; and 6 more")
