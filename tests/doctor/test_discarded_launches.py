"""Results with planted faults: what bench itself saw is the first cause, whatever else is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from doctoring import told
from inprocess import stackproof
from knowing import KNOWLEDGE
from stackproof.compare import launch_checks
from stackproof.core import noun
from stackproof.core.errors import Reason
from stackproof.core.value import replace
from stackproof.doctor.rules import diagnose, rules_of_launches
from stackproof.knowledge.evidence import Evidence
from stackproof.results.measurement import Check, Disturbance, State
from stackproof.results.model import Results
from stackproof.results.path import MessagePaths
from synthetic import Plan, simulate, write_results

PLAIN = simulate(Plan(challengers=("mpich",), benchmarks=("latency",), sizes=(8, 1024), blocks=3))
LARGE = simulate(Plan(challengers=("mpich",), benchmarks=("latency",), blocks=2))
BUSY = Disturbance(wall_s=1.0, other_load=0.5)
SEGFAULT = """\
===================================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 4711 RUNNING AT n1
=   EXIT CODE: 139
===================================================================================
YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)
[mpiexec@n1] HYDT_dmxu_poll_wait_for_event (tools/demux/demux_poll.c:75): callback returned error status
"""
NO_PROVIDER = """\
Abort(2139535) on node 0 (rank 0 in comm 0): Fatal error in PMPI_Init: Other MPI error, error stack:
find_provider(2683)..........: OFI fi_getinfo() failed (ofi_init.c:2683:find_provider:No data available)
"""
# MPICH 5.0.2 over libfabric's tcp, with FI_TCP_IFACE=hsn0 on a machine that has no hsn0.
NO_INTERFACE = """\
Abort(337790095): Fatal error in internal_Init: Other MPI error, error stack:
MPIDI_OFI_create_vci_context(1058): OFI call ep_enable failed (default nic=tcp: Bad file descriptor)
"""


def bad(name: str, reason: Reason, evidence: str) -> Check:
    return Check(name=name, state=State.BAD, reason=reason.value, evidence=evidence)


def faulty(*checks: Check, **output: Any) -> Results:
    """Return results, of a busy machine, whose challenger's launches have such checks."""
    measurements = []
    for one in PLAIN.measurements:
        ranks = tuple(replace(rank, disturbance=BUSY) for rank in one.output.ranks)
        told, checked = replace(one.output, ranks=ranks), one.checks
        if one.arm == "mpich":
            told = replace(told, **output)
            checked = (*one.checks, *checks)
        measurements.append(replace(one, output=told, checks=checked))
    return replace(PLAIN, measurements=tuple(measurements))


def written(results: Results, folder: Path) -> Path:
    write_results(results, folder)
    (folder / "logs").mkdir()
    return folder


def printed(folder: Path, results: Results, text: str) -> None:
    """Write what a discarded launch printed where bench keeps it."""
    number = next(i for i, one in enumerate(results.measurements) if not one.usable)
    (folder / "logs" / f"{number:04}-1.log").write_text(f"$ mpiexec -n 2 x\n# stderr\n{text}")


def first_cause(folder: Path) -> str:
    said = " ".join(stackproof("doctor", "--results", folder).stdout.split())
    match = re.search(r"Most likely cause: (.*?)(?: seen | cause | remedy |$)", said)
    return match[1] if match else said


END, CUT = "end", "the output stops after 3 series, before its end"
FAULTS = {
    "a busy machine, and nothing failed": (faulty(), "", "ranks share their core"),
    "wrong bytes": (
        faulty(bad("validation", Reason.VALIDATION_FAILED, "6 received bytes were wrong"),
               validation_errors=6), "", "messages arrive changed"),
    "MPI_Abort": (
        faulty(bad(END, Reason.RANK_CRASHED, "a rank ended badly: application called "
                   "MPI_Abort(MPI_COMM_WORLD, 3) - process 0")), "", "the program itself ended the job"),
    "killed by 9": (
        faulty(bad(END, Reason.RANK_CRASHED, "a rank ended badly: EXIT CODE: 9"),
               bad("output", Reason.TRUNCATED_OUTPUT, CUT), worlds=1),
        "", "a rank was ended from outside"),
    "singletons": (
        faulty(bad("world", Reason.SINGLETONS, "2 programs ran as rank 0"), worlds=2),
        "", "every rank thinks that it is alone"),
    "half a world": (
        faulty(bad("world", Reason.SINGLETONS, "the program has 1 ranks, not 2")),
        "", "ranks did not find each other"),
    "segfault, its words kept": (
        faulty(bad(END, Reason.RANK_CRASHED, "the program did not reach its end; the launcher "
                   "exited with 139"), bad("output", Reason.TRUNCATED_OUTPUT, CUT), worlds=1),
        SEGFAULT, "the program crashed in its own code"),
    "segfault, without words": (
        faulty(bad(END, Reason.RANK_CRASHED, "the program did not reach its end; the launcher "
                   "exited with 139"), bad("output", Reason.TRUNCATED_OUTPUT, CUT), worlds=1),
        "", "a rank crashed, or left before its end"),
    "wrong transport": (
        faulty(bad("transport", Reason.WRONG_TRANSPORT, "eth0 sent 1 GB")),
        "", "messages took another path than was asked for"),
    "hang": (
        faulty(bad(END, Reason.JOB_TIMEOUT, "the job did not end within 5 s, after its ranks had "
                   "started"), bad("output", Reason.TRUNCATED_OUTPUT, CUT), worlds=1),
        "", "launches did not end within their time limit"),
    "a rank leaves by _exit(0)": (
        faulty(bad("output", Reason.TRUNCATED_OUTPUT, CUT), worlds=1),
        "", "the output stops before the end of the program"),
    "a preload that is not there": (
        faulty(bad("libraries", Reason.JOB_FAILED, "LD_PRELOAD names /x/libtrace.so, which no "
                   "rank has loaded")), "", "launches ended with an error"),
    "another MPI": (
        faulty(bad("mpi", Reason.WRONG_MPI, "`Open MPI v5.0.8` answered, not MPICH 4.2.3")),
        "", "another MPI answered than the one under test"),
    "wrong placement": (
        faulty(bad("placement", Reason.WRONG_PLACEMENT, "rank 1 ran on CPU 0, not 1")),
        "", "ranks ran elsewhere than they were asked to"),
    "clock": (
        faulty(bad("clock", Reason.CLOCK_JUMPED, "the clock of rank 1 jumped by 300 µs")),
        "", "a clock jumped"),
    "node lost": (
        faulty(bad("nodes", Reason.NODE_UNREACHABLE, "a node could not be reached: n2"),
               bad("output", Reason.TRUNCATED_OUTPUT, CUT), worlds=1),
        "", "a node does not answer"),
    "wrong physics": (
        faulty(bad("validation", Reason.VALIDATION_FAILED, "the residual grows")),
        "", "what was received is not what was sent"),
    "no program": (
        faulty(bad(END, Reason.COMMAND_NOT_FOUND, "the program cannot be started: x"),
               bad("output", Reason.TRUNCATED_OUTPUT, "the program printed nothing")),
        "", "the program cannot be started"),
    "a provider that is not there": (
        faulty(bad(END, Reason.JOB_FAILED, "the MPI could not start; exited with 15")),
        NO_PROVIDER, "libfabric offers no provider that the MPI takes"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_the_first_cause(fault: str, tmp_path: Path) -> None:
    results, text, cause = FAULTS[fault]
    folder = written(results, tmp_path / "r")
    if text:
        printed(folder, results, text)
    assert first_cause(folder).startswith(cause)


@pytest.mark.parametrize("content", ['{"schema": "x', "[]", "", "\0"])
def test_a_launch_file_that_cannot_be_read_is_said_first(content: str, tmp_path: Path) -> None:
    results, _, _ = FAULTS["clock"]
    folder = written(results, tmp_path / "r")
    (folder / "launches" / "0002.json").write_text(content)
    assert first_cause(folder).startswith("these results are not what they say")


def test_results_that_hold_a_launch_twice_are_said_first(tmp_path: Path) -> None:
    first, *_, last = (one for one in LARGE.measurements if one.arm == "mpich")
    copied = replace(last, output=first.output)
    rest = tuple(one for one in LARGE.measurements if one is not last)
    folder = written(replace(LARGE, measurements=(*rest, copied)), tmp_path / "r")
    assert first_cause(folder).startswith("these results are not what they say")


# --- results that ended at the probe -------------------------------------------------------------


def probed(folder: Path, log: str, *checks: Check) -> Path:
    """Write what bench leaves where the probe of an arm failed: no launch, a probe, its log."""
    (folder / "probes").mkdir(parents=True)
    (folder / "logs").mkdir()
    (folder / "bench.json").write_text(noun.to_json(PLAIN.spec))
    case = PLAIN.measurements[0].case
    probe = MessagePaths(
        arm="mpich", placement=case.placement, transport="tcp", family="mpich", version="4.2.3",
        launcher="hydra", identity="", started="2026-11-28T13:00:00Z", seconds=1.0, checks=checks,
        env={"FI_TCP_IFACE": "hsn0"},
    )  # fmt: skip
    name = f"mpich-{case.placement.name}"
    (folder / "probes" / f"{name}-0.json").write_text(noun.to_json(probe))
    (folder / "logs" / f"probe-{name}.log").write_text(f"$ mpiexec -n 2 x\n# stderr\n{log}")
    return folder


PROBES = {
    "wrong provider": (
        NO_PROVIDER, bad(END, Reason.JOB_FAILED, "the MPI could not start; exited with 15"),
        "libfabric offers no provider that the MPI takes"),
    "wrong interface": (
        NO_INTERFACE, bad(END, Reason.JOB_FAILED, "the MPI could not start; exited with 15"),
        "a setting names an interface or a device that is not there"),
    "clock": (
        "", bad("clock", Reason.CLOCK_JUMPED, "the clock of rank 1 is 294 µs from that of rank 0"),
        "a clock jumped, or the clocks of ranks disagree"),
    "another library": (
        "", bad("mpi", Reason.WRONG_MPI, "`Open MPI v5.0.8` answered, not MPICH 4.2.3"),
        "another MPI answered than the one under test"),
}  # fmt: skip


@pytest.mark.parametrize("fault", PROBES)
def test_what_ended_a_probe_is_the_first_cause(fault: str, tmp_path: Path) -> None:
    log, check, cause = PROBES[fault]
    said = first_cause(probed(tmp_path / "r", log, check))
    assert said.startswith(cause)
    assert "No known problem" not in said


def test_the_error_of_bench_names_its_variable(tmp_path: Path) -> None:
    check = bad(END, Reason.JOB_FAILED, "the MPI could not start; exited with 15")
    folder = probed(tmp_path / "r", NO_PROVIDER, check)
    answer = told("--results", folder)
    assert answer["evidence"]["variables"]["FI_TCP_IFACE"] == "hsn0"
    assert "set is FI_TCP_IFACE=hsn0" in answer["evidence"]["origins"]["fact discarded"]
    assert answer["evidence"]["facts"]["discarded"] == ["job-failed"]


def test_other_verbs_lead_to_doctor(tmp_path: Path) -> None:
    folder = probed(tmp_path / "r", "", bad(END, Reason.JOB_FAILED, "x"))
    done = stackproof("compare", folder)
    assert done.returncode == Reason.NO_RESULTS.exit_code
    assert f"doctor --results {folder}" in done.stderr


# --- the rules themselves -------------------------------------------------------------------------


@pytest.mark.parametrize("reason", [Reason.NOT_TRUSTED, *launch_checks.ORDER])
def test_every_reason_of_bench_is_a_rule_and_first_of_all(reason: Reason) -> None:
    evidence = Evidence(facts={"discarded": (reason.value,), "core-shared": True})
    (rule,) = rules_of_launches(evidence)
    assert rule.remedy == launch_checks.HINTS.get(reason, rule.remedy)
    assert diagnose(KNOWLEDGE, evidence)[0].rule == rule
    assert rules_of_launches(Evidence()) == ()
