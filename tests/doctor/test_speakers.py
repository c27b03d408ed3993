"""Who printed a line counts: an error number means another thing from each speaker, and the last
words of a job, which follow any failure, change nothing."""

from __future__ import annotations

import errno
import importlib
import json
import os
from typing import Any

import pytest

from housefiles import ROOT
from knowing import KNOWLEDGE
from stackproof.doctor.conditions import Answer, Certainty, evaluate
from stackproof.doctor.evidence.log import of_log
from stackproof.doctor.log.grammar import COMPONENTS, SPEAKERS
from stackproof.doctor.log.patterns import is_error_number
from stackproof.doctor.log.story import component_of
from stackproof.doctor.rules import RuleFinding, diagnose
from stackproof.knowledge.evidence import Evidence, merged

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(ROOT / "tools"))
    corpus: Any = importlib.import_module("doctor_corpus")

NUMBERS = sorted(
    {text for number, name in errno.errorcode.items() for text in (os.strerror(number), name)}
)
OF_ANYBODY = {
    "K95": "the kernel refuses a file, whoever started it",
    "K128": "the limit is one of the whole process",
}
LAST_WORDS = """\
srun: error: node1: task 0: Aborted
srun: Job step aborted: Waiting up to 32 seconds for job step to finish.
slurmstepd: error: *** STEP 4711.0 ON node1 CANCELLED AT 2026-01-02T03:04:05 ***
srun: error: node1: task 0: Exited with exit code 1
srun: launch/slurm: _step_signal: Terminating StepId=4711.0
srun: error: node2: tasks 1-3: Terminated
make: *** [Makefile:7: run] Error 1
"""
CASES = [
    case
    for case in corpus.load_cases(corpus.CORPUS / part for part in corpus.PARTS)
    if case.cause != "healthy"
]


def diagnosed(log: str) -> tuple[Evidence, list[RuleFinding]]:
    """Return the facts in a log, and the known problems in it."""
    evidence = merged(Evidence(logs={"job.log": log}), of_log(log, "job.log"))
    findings = diagnose(KNOWLEDGE, evidence)
    return evidence, [one for one in findings if one.outcome.answer is Answer.YES]


# --- error numbers ----------------------------------------------------------------------------


def test_a_rule_of_error_numbers_says_who_does_not_count() -> None:
    """Otherwise a NIC's "Input/output error" is one of a network file system."""
    log = "".join(f"it: {text}\n" for text in NUMBERS)
    fires = {
        rule.id
        for rule in KNOWLEDGE.rules
        if "speaker" not in rule.when
        and evaluate(rule.when, Evidence(logs={"x": log}), {}).answer is Answer.YES
    }
    bare = {
        rule.id
        for rule in KNOWLEDGE.rules
        if rule.id in fires and "not-by" not in json.dumps(rule.when)
    }
    assert bare == {*OF_ANYBODY}
    assert len(fires) > len(bare)


FORMS = {
    "fabric": [
        "MPIDI_OFI_handle_cq_error(789): OFI poll failed (default nic=cxi0: {})",
        "MPICH ERROR [Rank 0] [job id 1.0] [nid1] - Abort(1): fi_close: {}",
        "[n1:7:0:7] ib_md.c:9 UCX ERROR a call on mlx5_0: {}",
        "n1:7:7 [0] NCCL WARN a call of the plug-in: {}",
        "[PE_3]:_pmi_something:a call: {}",
        "libfabric:77:cxi:ep_ctrl:cxip_something():12<warn> n1: {}",
    ],
    "container": ["pyxis: a request of the registry: {}", "[ERROR] enroot: {}"],
    "scheduler": ["srun: error: a request of the step: {}"],
}  # fmt: skip
NOT_FROM = {
    "fabric": ("K168", "K169", "K127", "K125"),
    "container": ("K136", "K137", "K138"),
    "scheduler": ("K136", "K137"),
}


@pytest.mark.parametrize(
    ("group", "form"), [(k, form) for k, forms in FORMS.items() for form in forms]
)
def test_an_error_number_of_another_speaker_is_another_problem(group: str, form: str) -> None:
    assert component_of(form) in SPEAKERS[group]
    log = "".join(f"{form.format(text)}\n" for text in NUMBERS)
    others = [rule for rule in KNOWLEDGE.rules if rule.id in NOT_FROM[group]]
    for rule in others:
        assert evaluate(rule.when, Evidence(logs={"x": log}), {}).answer is Answer.NO, rule.id


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("cp: error reading 'mesh.h5': Input/output error", "K168"),
        ("./solver: cannot open case.in: Permission denied", "K169"),
        ("write(7): No space left on device", "K127"),
        ("orterun: send to n2: Connection reset by peer", "K136"),
    ],
)
def test_an_error_number_of_a_program_is_a_cause_and_called_one(line: str, rule: str) -> None:
    _, fired = diagnosed(f"{line}\n")
    assert fired[0].rule.id == rule
    assert fired[0].outcome.certainty is Certainty.NUMBER


@pytest.mark.parametrize(
    ("text", "bare"),
    [("Input/output error", True), ("EIO", True), (": Connection refused (111)", True),
     ("socket: Connection refused", False), ("Stale NFS file handle", False)],
)  # fmt: skip
def test_words_of_errno_are_known(text: str, bare: bool) -> None:
    assert is_error_number(text) is bare


def test_speakers_are_components() -> None:
    known = {name for name, _ in COMPONENTS} | {"program"}
    assert {name for names in SPEAKERS.values() for name in names} <= known
    named = [rule.when["speaker"] for rule in KNOWLEDGE.rules if "speaker" in rule.when]
    assert {name for names in named for name in names} == known


# --- who spoke first ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "rule"),
    [
        ("[PE_0]:_pmi_new_word:it went away\nMPICH ERROR [Rank 0] - Abort(1): Fatal error in PMPI_Init\n",
         "K211"),
        ("srun: error: switch plug-in says a new word\nsrun: Job step aborted\n", "K212"),
        ("./app: error: bad mesh\nsrun: error: n1: task 0: Exited with exit code 1\n", "K224"),
    ],
)  # fmt: skip
def test_lines_that_no_rule_knows_have_a_speaker_and_a_next_step(log: str, rule: str) -> None:
    _, fired = diagnosed(log)
    assert fired[0].rule.id == rule
    assert fired[0].outcome.certainty is Certainty.SPEAKER
    assert len(fired) == 1


def test_a_job_that_goes_on_has_no_first_speaker() -> None:
    log = "./app: error: cannot find a table, using the default\nstep 1\nstep 2\nstep 3\nfinished\n"
    assert diagnosed(log)[1] == []


# --- last words -----------------------------------------------------------------------------------


def unchanged(case: Any) -> None:
    (before, first), (after, last) = diagnosed(case.log), diagnosed(f"{case.log}\n{LAST_WORDS}")
    for name in ("mpi", "provider", "worlds", "wrong-bytes", "cut-short"):
        assert before.facts.get(name) == after.facts.get(name), name
    assert before.versions == after.versions
    if first:
        assert last[0].rule.id == first[0].rule.id


@pytest.mark.parametrize("case", CASES[::6], ids=lambda case: f"{case.family}/{case.name}")
def test_last_words_of_a_job_change_nothing(case: Any) -> None:
    unchanged(case)


@pytest.mark.battery
def test_last_words_change_nothing_in_the_whole_corpus() -> None:
    for case in CASES:
        unchanged(case)
