"""What jobs printed when something was wrong with them, and whether its cause comes first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from stackproof.core.noun import from_json, to_json
from stackproof.doctor.conditions import Answer
from stackproof.doctor.evidence.log import of_log
from stackproof.doctor.evidence.places import implied
from stackproof.doctor.evidence.variables import of_environment
from stackproof.doctor.rules import diagnose
from stackproof.knowledge.effects.load import load_knowledge
from stackproof.knowledge.evidence import Evidence, merged, redacted

FOLDER = Path(__file__).parents[1] / "captures" / "doctor"
CASES = yaml.safe_load((FOLDER / "index.yaml").read_text())
KNOWLEDGE = load_knowledge()


def evidence(name: str, case: dict[str, Any]) -> Evidence:
    text = (FOLDER / f"{name}.log").read_text()
    found = merged(of_log(text, name), of_environment(case.get("env", {}), "its environment"))
    given_too = Evidence(
        versions=case.get("have", {}), facts=case.get("facts", {}), logs={name: redacted(text)}
    )
    found = merged(found, given_too)
    return merged(found, implied(found))


def fired(name: str) -> list[str]:
    findings = diagnose(KNOWLEDGE, evidence(name, CASES[name]))
    return [one.rule.id for one in findings if one.outcome.answer is Answer.YES]


def test_every_log_has_a_cause_and_every_cause_a_log() -> None:
    assert {path.stem for path in FOLDER.glob("*.log")} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_the_cause_is_the_first_finding(name: str) -> None:
    wanted = CASES[name]["first"]
    assert fired(name)[:1] == ([wanted] if wanted else [])


def test_launches_one_after_another_are_no_singletons() -> None:
    text = "".join((FOLDER / f"good-{name}.log").read_text() for name in ("openmpi", "srun"))
    found = of_log(text, "job.out")
    assert found.facts["worlds"] == 1.0
    assert (found.facts["ended"], found.facts["cut-short"]) == ("ok", False)
    assert found.versions == {"openmpi": "5.0.11"}


def test_labels_of_srun_are_passed_over() -> None:
    plain = (FOLDER / "wrong-bytes.log").read_text()
    labelled = "".join(f"0: {line}\n" for line in plain.splitlines())
    assert of_log(labelled, "x").facts["wrong-bytes"] == 6.0


def test_osu_tells_of_worlds_and_of_wrong_bytes() -> None:
    alone = of_log("This test requires exactly two processes\n" * 4, "x")
    assert alone.facts["worlds"] == 4.0
    text = "# Size          Latency (us)        Validation\n8   1.25   Pass\n16   1.30   Fail\n"
    assert of_log(text, "x").facts["wrong-bytes"] == 1.0
    assert of_log(text.replace("Fail", "Pass"), "x").facts["wrong-bytes"] == 0.0


def test_an_output_that_stops_is_cut_short() -> None:
    whole = (FOLDER / "good-openmpi.log").read_text()
    assert whole.splitlines()[-1].startswith('{"kind":"end"')
    part = whole.rsplit('{"kind":"end"', 1)[0]
    assert of_log(part, "x").facts["cut-short"] is True
    assert "ended" not in of_log(part, "x").facts


@pytest.mark.parametrize(
    ("text", "ended"),
    [
        ("slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-21T19:05:33 DUE TO TIME LIMIT ***", "hang"),
        ("srun: error: node1: task 1: Segmentation fault\nsrun: error: node1: task 0: Killed", "crash"),
        ("srun: error: node1: task 1: Killed", "killed"),
        ("a line about nothing", None),
    ],
)  # fmt: skip
def test_how_a_job_ended_is_read_from_the_launchers_words(text: str, ended: str | None) -> None:
    assert of_log(text, "x").facts.get("ended") == ended


@pytest.mark.battery
@pytest.mark.timeout(120)  # where the cost is the square of the length it takes hours
@pytest.mark.parametrize("word", ["Executable: ", '{"kind":"', "Process name: [ ", "\n", "12 1.5 "])
def test_a_hostile_log_costs_no_more_than_a_long_one(word: str) -> None:
    evidence = of_log(word * ((1 << 20) // len(word)), "x")
    assert "wrong-bytes" not in evidence.facts


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    wrapped = f'{{"kind":"start","run":{text!r}}}\n{{"kind":"end","run":"a","ok":1}}'
    for log in (text, wrapped):
        evidence = of_log(log, "x")
        assert from_json(Evidence, to_json(evidence)) == evidence


@given(st.integers(0, 5), st.integers(0, 400))
def test_a_log_with_a_piece_lost_invents_no_wrong_bytes(line: int, length: int) -> None:
    lines = (FOLDER / "good-openmpi.log").read_text().splitlines()
    lines[line % len(lines)] = lines[line % len(lines)][:length]
    assert not of_log("\n".join(lines), "x").facts.get("wrong-bytes")
