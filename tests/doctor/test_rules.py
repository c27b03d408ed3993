"""Every known problem on evidence of its own, and what the logic does with what is not known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from knowing import KNOWLEDGE
from stackproof.core import noun
from stackproof.doctor.conditions import Answer, evaluate
from stackproof.doctor.rules import diagnose
from stackproof.knowledge.evidence import Evidence, merged, relevant

FOLDER = Path(__file__).parents[1] / "captures" / "rules"
CAPTURES = sorted(FOLDER.glob("K*.yaml"))
LINES = yaml.safe_load((FOLDER / "lines.yaml").read_text())
RULES = {rule.id: rule for rule in KNOWLEDGE.rules}
LONGEST_COMMAND = 84
EXPECTED = {"fires": Answer.YES, "silent": Answer.NO, "unknown": Answer.UNKNOWN}


def evidence(data: Any) -> Evidence:
    return noun.from_data(Evidence, {"schema": Evidence.SCHEMA, **data})


def outcome(condition: dict[str, Any], **data: Any) -> Any:
    return evaluate(condition, evidence(data), KNOWLEDGE.newest)


def test_every_rule_has_evidence() -> None:
    assert sorted((*(path.stem for path in CAPTURES), *LINES)) == sorted(RULES)


@pytest.mark.parametrize(
    ("rule", "line"), [(k, line) for k, lines in LINES.items() for line in lines]
)
def test_a_line_makes_its_rule_the_first_finding(rule: str, line: str) -> None:
    """As it is, with labels of a launcher, with colours and with line breaks of another system."""
    labelled = "".join(f"3: {part}\n" for part in line.split("\n"))
    for text in (line, labelled, f"\x1b[31m{line}\x1b[0m".replace("\n", "\r\n")):
        found = diagnose(KNOWLEDGE, Evidence(logs={"job.err": text}))
        fired = [one.rule.id for one in found if one.outcome.answer is Answer.YES]
        assert fired[:1] == [rule], text
    healthy = evaluate(RULES[rule].when, Evidence(logs={"x": "all is well\n"}), KNOWLEDGE.newest)
    assert healthy.answer is Answer.NO


@pytest.mark.parametrize(
    "line",
    [
        "[n1:831] plm:ssh: Warning: setpgid(834,834) failed in parent with errno=Permission denied(13)",
        "sched_setaffinity(0, 128): Operation not permitted",
        "setrlimit(RLIMIT_MEMLOCK): Operation not permitted",
        "perf_event_open: Permission denied",
    ],
)
def test_a_refused_call_that_takes_no_file_is_no_matter_of_a_files_mode(line: str) -> None:
    outcome_of_line = evaluate(RULES["K169"].when, Evidence(logs={"x": line}), KNOWLEDGE.newest)
    assert outcome_of_line.answer is Answer.NO


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_a_remedy_fits_a_line(rule: Any) -> None:
    assert max((len(command) for command in rule.commands), default=0) <= LONGEST_COMMAND


@pytest.mark.parametrize("case", EXPECTED)
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_a_rule_answers_as_its_evidence_says(path: Path, case: str) -> None:
    rule = RULES[path.stem]
    found = evaluate(rule.when, evidence(yaml.safe_load(path.read_text())[case]), KNOWLEDGE.newest)
    assert found.answer is EXPECTED[case]
    assert bool(found.quotes) or case == "unknown"
    assert bool(found.missing) is (case == "unknown")


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_what_fires_is_the_first_finding(path: Path) -> None:
    findings = diagnose(KNOWLEDGE, evidence(yaml.safe_load(path.read_text())["fires"]))
    fired = [finding.rule.id for finding in findings if finding.outcome.answer is Answer.YES]
    # Evidence may show a second problem, which is then as bad or worse.
    assert path.stem in fired
    severities = list(type(RULES["K01"].severity))
    first, own = RULES[fired[0]], RULES[path.stem]
    assert severities.index(first.severity) <= severities.index(own.severity)
    assert len(fired) <= 3


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_without_evidence_no_rule_decides(rule: Any) -> None:
    assert evaluate(rule.when, Evidence(), KNOWLEDGE.newest).answer is Answer.UNKNOWN


YES, NO, UNKNOWN = Answer.YES, Answer.NO, Answer.UNKNOWN
CUDA, ROCM, DEVICE = {"gpu": "cuda"}, {"fact": {"gpu": "rocm"}}, {"fact": {"memory": "device"}}
PROBES = {"facts": {"uses": ["probe"]}, "partial": ["fact uses"]}


def of(text: str) -> dict[str, Any]:
    return {"version": {"libfabric": text}}


@pytest.mark.parametrize(
    ("condition", "data", "answer"),
    [
        # Versions are compared by their numbers; none is claimed of a release that nobody looked at.
        *((of(text), {"versions": {"libfabric": version}}, answer) for text, version, answer in (
            ("2.2:", "2.6.0", YES), ("2.2:", "2.7.0", UNKNOWN), (":2.1", "2.7.0", NO),
            ("2.4.0", "2.4.0", YES), ("2.4.0", "2.4.1", NO), (":2.1", "2.1.5", YES),
            (":2.1", "2.10.0", NO), ("1.0.0:1.0.7", "1.0.7", YES), ("1.0.0:1.0.7", "1.0.10", NO),
            ("1.22,2.3.1", "1.22.0", YES), ("1.15.2", "1.15.2.0", YES),
            ("2.2:", "main", UNKNOWN), ("2.2:", "2.4.0rc1", UNKNOWN), ("2.2:", "", UNKNOWN),
            ("2.2:", "2..1", UNKNOWN),
        )),
        # What is not known decides nothing, but something else may.
        ({"all": [ROCM, DEVICE]}, {"facts": CUDA}, NO),
        ({"any": [ROCM, DEVICE]}, {"facts": CUDA}, UNKNOWN),
        ({"any": [{"not": ROCM}, DEVICE]}, {"facts": CUDA}, YES),
        ({"not": DEVICE}, {"facts": CUDA}, UNKNOWN),
        # Part of a fact does not say what is not there, and an unset variable is not an unknown one.
        ({"fact": {"uses": "probe"}}, PROBES, YES), ({"fact": {"uses": "any-source"}}, PROBES, UNKNOWN),
        ({"unset": ["FI_PROVIDER"]}, {"variables": {}}, YES), ({"unset": ["FI_PROVIDER"]}, {}, UNKNOWN),
        ({"set": ["FI_PROVIDER"]}, {"variables": {}}, NO),
        ({"above": {"nodes": 2}}, {"facts": {"nodes": "many"}}, UNKNOWN),
        ({"above": {"nodes": 2}}, {"facts": {"nodes": True}}, UNKNOWN),
    ],
)  # fmt: skip
def test_what_is_known_decides(condition: Any, data: Any, answer: Answer) -> None:
    found = outcome(condition, **data)
    assert found.answer is answer
    assert bool(found.missing) is (answer is UNKNOWN)


@pytest.mark.parametrize(
    ("mpi", "name", "answer"),
    [
        ("mpich", "OMPI_MCA_bml_base_verbose", Answer.NO),
        ("mpich", "OMPI_MCA_pml", Answer.YES),
        ("openmpi", "MPIR_CVAR_DEBUG_SUMMARY", Answer.NO),
        ("openmpi", "MPICH_OFI_VERBOSE", Answer.NO),
        ("openmpi", "I_MPI_DEBUG", Answer.NO),
        ("openmpi", "I_MPI_FABRICS", Answer.YES),
        ("openmpi", "MPIR_CVAR_CH4_NETMOD", Answer.YES),
        ("mvapich", "OMPI_MCA_btl_base_verbose", Answer.NO),
    ],
)
def test_a_variable_that_only_makes_another_mpi_say_more_is_no_cause(
    mpi: str, name: str, answer: Answer
) -> None:
    told = outcome(RULES["K72"].when, facts={"mpi": mpi}, variables={name: "100"})
    assert told.answer is answer


def test_a_fact_that_is_whole_says_what_is_not_there() -> None:
    said = merged(evidence(PROBES), evidence({"facts": {"uses": ["probe"]}}))
    assert said.partial == ()
    assert evaluate({"fact": {"uses": "any-source"}}, said, {}).answer is NO
    assert "2.6.0" in outcome(of("2.2:"), versions={"libfabric": "2.7.0"}).missing[0]


def test_a_log_is_quoted_by_its_line() -> None:
    text = "first\ncxil_map: write error (12)\nlast\n"
    found = outcome({"log": "write error"}, logs={"job.err": text})
    assert found.quotes == ("job.err:2: cxil_map: write error (12)",)
    assert found.place == 2


def test_supported_findings_come_before_others_of_their_kind() -> None:
    data = {
        "versions": {"openmpi": "5.0.7", "libfabric": "2.2.0"},
        "variables": {"OMPI_MCA_mtl_ofi_av": "map"},
        "facts": {"mpi": "openmpi", "transport": "lnx", "memory": "device"},
        "logs": {"err": "Open MPI failed to register your buffer"},
    }
    findings = diagnose(KNOWLEDGE, evidence(data))
    assert [f.rule.id for f in findings if f.outcome.answer is Answer.YES][:1] == ["K03"]
    assert findings[0].supported


def test_wrong_bytes_come_before_what_is_slow_and_supported() -> None:
    slow = {"fabric": "slingshot-11", "cxi-provider": False, "share-of-link": 0.1}
    evidence = Evidence(facts={"wrong-bytes": 6.0, **slow})
    first, second = diagnose(KNOWLEDGE, evidence)[:2]
    assert (first.rule.id, second.rule.id) == ("K71", "K29")
    assert not first.supported
    assert second.supported


def test_variables_with_secrets_are_not_kept() -> None:
    given = {
        "FI_PROVIDER": "cxi", "OMPI_MCA_pml": "cm", "HOME": "/root", "GITHUB_TOKEN": "x",
        "SLINGSHOT_AUTH_KEY": "x", "PMIX_SECURITY_CREDENTIAL": "y", "SLURM_JOB_USER": "anna",
        "FI_CRED": "x", "SLURM_MPI_KEY": "x", "PMIX_KEY_FILE": "x", "MPIR_CVAR_KEYVALS": "4",
    }  # fmt: skip
    kept = {"FI_PROVIDER": "cxi", "OMPI_MCA_pml": "cm", "MPIR_CVAR_KEYVALS": "4"}
    assert relevant(given) == kept


def test_what_comes_later_counts() -> None:
    first = evidence({"versions": {"a": "1", "b": "2"}, "variables": {"X": "1"}})
    both = merged(first, evidence({"versions": {"a": "3"}}))
    assert both.versions == {"a": "3", "b": "2"}
    assert both.variables == {"X": "1"}
    assert merged(Evidence(), first).variables == {"X": "1"}


def test_evidence_goes_through_json_and_gives_the_same_answers() -> None:
    for path in CAPTURES:
        before = evidence(yaml.safe_load(path.read_text())["fires"])
        after = noun.from_json(Evidence, noun.to_json(before))
        assert diagnose(KNOWLEDGE, after) == diagnose(KNOWLEDGE, before)
