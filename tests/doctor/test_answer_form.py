"""The form of an answer: twelve lines, no line twice, commands of the MPI at hand, and its exit code."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from inprocess import stackproof
from knowing import KNOWLEDGE
from stackproof.core.errors import ExitCode, Reason
from stackproof.doctor.answer import MOST_LINES, text_of
from stackproof.doctor.commands import fill_names, fitting_commands
from stackproof.doctor.diagnosis import Diagnosis
from stackproof.doctor.evidence.log import of_log
from stackproof.doctor.evidence.variables import of_spelling
from stackproof.doctor.rules import diagnose
from stackproof.knowledge.evidence import Evidence, merged

RULES = {rule.id: rule for rule in KNOWLEDGE.rules}
LONG = "x" * 300


def answered(log: str, width: int = 96, **facts: str) -> str:
    evidence = merged(Evidence(logs={"job.log": log}), of_log(log, "job.log"))
    evidence = merged(evidence, Evidence(facts=dict(facts)))
    return text_of(Diagnosis(evidence=evidence, findings=diagnose(KNOWLEDGE, evidence)), width)


LOGS = {
    "message": "[n1:7] PMIX ERROR: UNPACK-PAST-END in file unpack.c at line 206\n",
    "number": "cp: error reading 'mesh.h5': Input/output error\n",
    "speaker": "srun: error: switch plug-in says a new word\nsrun: Job step aborted\n",
    "long": f"MPIDI_OFI_handle_cq_error(1): OFI poll failed (x: {LONG} Input/output error)\n"
    f"slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***\n"
    f"ssh: connect to host {LONG} port 22: Connection refused\n{LONG} No space left on device\n",
    "many": "".join(
        f"n{k}: error: thing {chr(97 + k)} failed to open {' '.join(f'w{k}of{i}' for i in range(60))}\n"
        for k in range(20)
    )
    + "srun: error: n1: task 0: Aborted\n",
    "healthy": "step 1\nstep 2\nfinished\n",
}


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("width", [60, 96])
def test_an_answer_has_twelve_lines_and_none_twice(name: str, width: int) -> None:
    lines = answered(LOGS[name], width).splitlines()
    assert len(lines) <= MOST_LINES == 12
    assert len({*lines}) == len(lines)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("message", "[this message]"), ("number", "[only an error number]"),
        ("speaker", "[speaker and stage only]"),
    ],
)  # fmt: skip
def test_an_answer_says_how_sure_it_is(name: str, words: str) -> None:
    text = " ".join(answered(LOGS[name]).split())
    assert words in text
    assert "remedy" in text


def test_the_line_that_matters_is_printed_once() -> None:
    text = answered(LOGS["message"])
    assert " ".join(text.split()).count("UNPACK-PAST-END") == 1
    assert "  seen " not in text


def test_what_would_tell_more_is_left_out_where_it_cannot_change_the_cause() -> None:
    assert "To check more" not in answered(LOGS["message"])
    assert "To check more" in answered(LOGS["healthy"])


@pytest.mark.parametrize(
    ("rule", "facts", "first", "gone"),
    [
        ("K25", {"mpi": "openmpi"}, "srun --mpi=pmix", "pmi2"),
        ("K25", {"mpi": "mpich"}, "srun --mpi=pmi2", "pmix"),
        ("K25", {"mpi": "openmpi", "pmix-loads": False}, "mpirun", "--mpi=pmix"),
        ("K25", {"pmix-loads": False}, "mpirun", "--mpi=pmix"),
        ("K112", {"mpi": "openmpi"}, "ssh -o BatchMode", "I_MPI_"),
        ("K112", {"mpi": "intel-mpi"}, "ssh -o BatchMode", "OMPI_"),
        ("K67", {"mpi": "mpich"}, "stackproof run", "OMPI_MCA"),
        ("K138", {"mpi": "openmpi"}, "export OMPI_MCA", "I_MPI_"),
    ],
)
def test_commands_are_those_of_the_mpi_at_hand(
    rule: str, facts: dict[str, str | bool], first: str, gone: str
) -> None:
    commands = fitting_commands(RULES[rule], Evidence(facts={"scheduler": "slurm", **facts}))
    assert commands[0].startswith(first)
    assert not any(gone in command for command in commands)


def test_a_rule_never_loses_all_its_commands_where_slurm_is() -> None:
    for rule in KNOWLEDGE.rules:
        for mpi in ("openmpi", "mpich", "cray-mpich", "intel-mpi", "mvapich", "of nobody"):
            found = fitting_commands(rule, Evidence(facts={"mpi": mpi, "pmix-loads": False}))
            assert bool(found) is bool(rule.commands)


OF_SLURM = re.compile(r"\b(?:srun|sbatch|salloc|sacct|scontrol|sinfo)\b|\bSLURM_")


def test_without_slurm_no_command_asks_for_it() -> None:
    """A rule whose title names Slurm has been told that it is there."""
    for rule in KNOWLEDGE.rules:
        for launcher in ("mpirun", "mpiexec"):
            for command in fitting_commands(rule, Evidence(facts={"launcher": launcher})):
                line = re.sub(r"'[^']*'", "", command)
                about_slurm = re.search(r"[Ss]lurm|srun", rule.title)
                assert not OF_SLURM.search(line) or about_slurm, command


@pytest.mark.parametrize(
    ("rule", "facts", "command"),
    [
        ("K213", {"launcher": "mpirun"}, "mpirun -n 1 ./program; mpirun -n 2 ./program"),
        ("K82", {"mpi": "mpich"}, "mpiexec -n 1 sh -c 'ulimit -l'"),
        ("K208", {}, "ssh NODE hostname"),
        ("K25", {"launcher": "mpiexec"}, "ldd PROGRAM | grep libmpi; which mpirun"),
        ("K124", {}, "free -g; dmesg -T | grep -i 'killed process'"),
        ("K117", {}, "srun --overlap …"),
    ],
)
def test_a_command_is_that_of_the_launcher_at_hand(
    rule: str, facts: dict[str, str | bool], command: str
) -> None:
    assert command in fitting_commands(RULES[rule], Evidence(facts=facts))
    of_slurm = fitting_commands(RULES[rule], Evidence(logs={"job.log": "srun: done"}))
    assert any("srun" in text or "sbatch" in text for text in of_slurm)


def test_a_remedy_names_the_program_the_node_and_the_job() -> None:
    log = (
        "./my app: error while loading shared libraries: libx.so: cannot open\n"
        "/a/b: error while loading shared libraries: libx.so: cannot open shared object file\n"
        "slurmstepd: error: *** STEP 77.0 ON n3 CANCELLED AT x ***\n"
        "srun: error: n3: task 0: Killed\n"
    )
    evidence = Evidence(logs={"job.log": log})
    assert fill_names("ldd PROGRAM; ssh NODE true", evidence, {}) == "ldd /a/b; ssh n3 true"
    assert fill_names("sacct -j JOB", evidence, {}) == "sacct -j 77"
    given = {"PROGRAM": "./my app", "IMAGE": "a.squashfs"}
    assert fill_names("ldd ./program", evidence, given) == "ldd './my app'"
    assert fill_names("stackproof run IMAGE -- PROGRAM", Evidence(), given) == (
        "stackproof run a.squashfs -- './my app'"
    )
    assert fill_names("podman run IMAGE", Evidence(), given) == "podman run IMAGE"
    assert fill_names("ldd PROGRAM", Evidence(), {"PROGRAM": ""}) == "ldd PROGRAM"


def test_a_name_in_a_remedy_stays_one_word_of_the_shell() -> None:
    """No name is put between quotes that it could end, filled in again, or taken for an option."""
    inner = "srun sh -c 'A=$B exec PROGRAM'"
    assert fill_names(inner, Evidence(), {"PROGRAM": "./a;touch b;"}) == inner
    assert fill_names(inner, Evidence(), {"PROGRAM": "./a"}) == "srun sh -c 'A=$B exec ./a'"
    given = {"PROGRAM": "IMAGE;touch b;#", "IMAGE": "c d"}
    line = fill_names("stackproof inject check PROGRAM --with IMAGE", Evidence(), given)
    assert shlex.split(line)[3:] == ["IMAGE;touch b;#", "--with", "c d"]
    log = "-xfile: error while loading shared libraries: a\nError: Node failure on -Ffile\n"
    remedy = "gdb PROGRAM core; ssh NODE true"
    assert fill_names(remedy, Evidence(logs={"job.log": log}), {}) == remedy
    assert fill_names("ldd PROGRAM", Evidence(), {"PROGRAM": "-v"}) == "ldd ./-v"


def test_only_variables_that_are_set_are_unset() -> None:
    variables = {"OMPI_MCA_pml": "ucx"}
    evidence = Evidence(variables=variables)
    assert fitting_commands(RULES["K27"], evidence) == ("unset OMPI_MCA_pml",)
    assert fitting_commands(RULES["K27"], Evidence()) == RULES["K27"].commands
    assert fitting_commands(RULES["K27"], Evidence(variables={"A": "b"})) == RULES["K27"].commands
    intel = Evidence(variables={"I_MPI_FABRICS": "ofi", "FI_PROVIDER": "tcp"})
    (command,) = fitting_commands(RULES["K245"], intel)
    assert command.startswith("unset I_MPI_FABRICS")


@pytest.mark.parametrize(
    ("value", "quoted"),
    [
        ('"AWS Libfabric"', True), ("'AWS Libfabric'", True), ("\"'AWS Libfabric'\"", True),
        ("'cxi", False), ('"cxi', True), ("AWS Libfabric", False), ("", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["NCCL_NET", "FI_PROVIDER", "OMPI_MCA_pml", "UCX_TLS"])
def test_quotes_are_no_part_of_a_value(name: str, value: str, quoted: bool) -> None:
    assert of_spelling({name: value}, KNOWLEDGE).facts["values-quoted"] is quoted


@pytest.mark.parametrize(
    ("name", "code"),
    [("message", ExitCode.DONE), ("number", ExitCode.DONE), ("speaker", ExitCode.UNKNOWN),
     ("healthy", ExitCode.DONE), ("", Reason.INVALID_VALUE.exit_code)],
)  # fmt: skip
def test_the_exit_code_tells_a_cause_from_none(name: str, code: int, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(LOGS.get(name, ""))
    assert stackproof("doctor", "--log", log, "--site", "frontier").returncode == code


def test_a_launcher_in_a_launcher_is_seen_in_the_line_that_was_typed(tmp_path: Path) -> None:
    failed = "Host key verification failed.\nsrun: error: n1: task 0: Exited with exit code 1\n"
    for typed in ("+ srun -n 8 mpirun -np 8 ./a", "$ srun --mpi=none /opt/x/bin/mpiexec -n 2 ./a"):
        text = answered(f"{typed}\n{failed}")
        assert "mpirun runs inside of srun" in text
    for typed in (
        "+ mpirun -np 8 ./a",
        "+ srun ./mpirun_check",
        "+ srun -n 2 ./a; mpirun -n 2 ./b",
    ):
        assert "mpirun runs inside of srun" not in answered(f"{typed}\n{failed}")


@pytest.mark.parametrize("site", ["lumi-c", "lumi-g", "helios-cpu", "adastra"])
def test_a_site_whose_slurm_lacks_pmix_is_not_told_to_use_it(site: str, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(
        "No PMIx server was reachable, but a PMI1/2 was detected.\n"
        "If srun is being used to launch application,  4 singletons will be started.\n"
    )
    for name, advised in ((site, False), ("alps-gh200", True)):
        text = stackproof("doctor", "--log", log, "--site", name).stdout
        assert "every rank thinks that it is alone" in text
        assert ("$ srun --mpi=pmix" in text) is advised
        assert ("$ mpirun" in text) is not advised


BOX = """rank 0 of 2 starts
sending to the neighbour

=====================================================================
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 12345 RUNNING AT node1
=   EXIT CODE: 15
=====================================================================
YOUR APPLICATION TERMINATED WITH THE EXIT STRING: Terminated (signal 15)
"""
ENDED = "rank 0 of 2 starts\nmpirun noticed that process rank 0 exited on signal 15 (Terminated).\n"


OF_SRUN = "rank 0 of 2 starts\nsrun: error: n1: tasks 0-1: Terminated\n"


@pytest.mark.parametrize("log", [BOX, BOX.replace("EXIT CODE", "BY SIGNAL"), ENDED, OF_SRUN])
@pytest.mark.parametrize("facts", [{}, {"ended": "hang"}])
def test_an_end_from_outside_is_no_fault_of_the_program(log: str, facts: dict[str, str]) -> None:
    text = " ".join(answered(log, **facts).split())
    assert "Most likely cause: something ended it from outside: signal 15 (timeout" in text
    assert "gdb -p PID" in text
    assert "failed first" not in text


def test_who_complained_before_signal_15_is_named_first() -> None:
    for log in (BOX, ENDED):
        text = answered(f"ERROR: cannot open mesh.inp: No such file or directory\n{log}")
        assert "from outside" not in text
        assert "failed first" in text


def test_srun_mounts_an_image_itself() -> None:
    missing = "./app: error while loading shared libraries: libmpi.so.12: cannot open shared object file\n"
    text = answered(f"{missing}srun: error: n1: task 0: Exited with exit code 127\n")
    assert "$ srun --image=IMAGE ./app\n" in text
    assert "stackproof run" not in text
    assert "$ stackproof run IMAGE -- ./app\n" in answered(missing)
