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


def test_a_release_that_nobody_looked_at_is_not_claimed() -> None:
    condition = {"version": {"libfabric": "2.2:"}}
    assert outcome(condition, versions={"libfabric": "2.6.0"}).answer is Answer.YES
    newer = outcome(condition, versions={"libfabric": "2.7.0"})
    assert newer.answer is Answer.UNKNOWN
    assert "2.6.0" in newer.missing[0]
    ended = {"version": {"libfabric": ":2.1"}}
    assert outcome(ended, versions={"libfabric": "2.7.0"}).answer is Answer.NO


@pytest.mark.parametrize("version", ["main", "2.4.0rc1", "", "2..1"])
def test_a_version_that_cannot_be_compared_decides_nothing(version: str) -> None:
    found = outcome({"version": {"libfabric": "2.2:"}}, versions={"libfabric": version})
    assert found.answer is Answer.UNKNOWN


@pytest.mark.parametrize(
    ("text", "version", "answer"),
    [
        ("2.4.0", "2.4.0", Answer.YES),
        ("2.4.0", "2.4.1", Answer.NO),
        (":2.1", "2.1.5", Answer.YES),
        (":2.1", "2.10.0", Answer.NO),
        ("5.0.0:5.0.7", "5.0.7", Answer.YES),
        ("5.0.0:5.0.7", "5.0.10", Answer.NO),
        ("1.22,2.3.1", "1.22.0", Answer.YES),
        ("1.15.2", "1.15.2.0", Answer.YES),
    ],
)
def test_versions_are_compared_by_their_numbers(text: str, version: str, answer: Answer) -> None:
    assert outcome({"version": {"x": text}}, versions={"x": version}).answer is answer


def test_what_is_not_known_decides_nothing_but_something_else_may() -> None:
    no, unknown = {"fact": {"gpu": "rocm"}}, {"fact": {"memory": "device"}}
    facts = {"gpu": "cuda"}
    assert outcome({"all": [no, unknown]}, facts=facts).answer is Answer.NO
    assert outcome({"any": [no, unknown]}, facts=facts).answer is Answer.UNKNOWN
    assert outcome({"any": [{"not": no}, unknown]}, facts=facts).answer is Answer.YES
    assert outcome({"not": unknown}, facts=facts).answer is Answer.UNKNOWN


def test_part_of_a_fact_does_not_say_what_is_not_there() -> None:
    part = {"facts": {"uses": ["probe"]}, "partial": ["fact uses"]}
    assert outcome({"fact": {"uses": "probe"}}, **part).answer is Answer.YES
    assert outcome({"fact": {"uses": "any-source"}}, **part).answer is Answer.UNKNOWN
    said = merged(evidence(part), evidence({"facts": {"uses": ["probe"]}}))
    assert said.partial == ()
    found = evaluate({"fact": {"uses": "any-source"}}, said, {})
    assert found.answer is Answer.NO


def test_an_unset_variable_is_not_an_unknown_one() -> None:
    condition = {"unset": ["FI_PROVIDER"]}
    assert outcome(condition, variables={}).answer is Answer.YES
    assert outcome(condition).answer is Answer.UNKNOWN
    assert outcome({"set": ["FI_PROVIDER"]}, variables={}).answer is Answer.NO


def test_a_log_is_quoted_by_its_line() -> None:
    text = "first\ncxil_map: write error (12)\nlast\n"
    found = outcome({"log": "write error"}, logs={"job.err": text})
    assert found.quotes == ("job.err:2: cxil_map: write error (12)",)
    assert found.place == 2


def test_a_fact_that_is_no_number_decides_no_number() -> None:
    assert outcome({"above": {"nodes": 2}}, facts={"nodes": "many"}).answer is Answer.UNKNOWN
    assert outcome({"above": {"nodes": 2}}, facts={"nodes": True}).answer is Answer.UNKNOWN


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
