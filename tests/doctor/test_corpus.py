"""The corpus of logs whose cause is known: its form, how it is scored, and the score today.

The numbers at the top may only rise: raise them with the rules.
"""

from __future__ import annotations

import importlib
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from housefiles import ROOT
from stackproof.core.value import replace

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(ROOT / "tools"))
    corpus: Any = importlib.import_module("doctor_corpus")

RIGHT_AT_LEAST = 0.99
OTHER_AT_MOST = 0.003
SILENT_AT_MOST = 0.0
ALARMS_AT_MOST = 0
TOO_LARGE_AT_MOST = 0.0
OPEN_AT_LEAST = 300
HELD_AT_LEAST = 130
HEALTHY_AT_LEAST = 46

FILES = sorted(file for part in corpus.PARTS for file in (corpus.CORPUS / part).glob("*/*.txt"))
CAUSES = corpus.load_yaml(corpus.CORPUS / "causes.yaml")
CASE = corpus.Case(
    family="loader",
    name="planted",
    cause="library-missing",
    also=(),
    quote="libx.so.1 is not there",
    words=(),
    log="libx.so.1 is not there\n",
)
FINDING = {"rule": "K99", "name": "planted", "answer": "fires", "remedy": "see ldd ./app"}


@pytest.fixture(
    scope="module",
    params=[pytest.param(3, id="a third"), pytest.param(1, id="all", marks=pytest.mark.battery)],
)
def scores(request: pytest.FixtureRequest) -> list[Any]:
    """Return how cases ended: one of three in the gate, all in the battery."""
    mapping = corpus.load_yaml(corpus.CORPUS / "rules-to-causes.yaml")
    cases = list(corpus.load_cases(corpus.CORPUS / part for part in corpus.PARTS))
    return corpus.score_all(cases[:: request.param], mapping)


def test_there_are_enough_cases() -> None:
    parts = Counter(file.parts[-3] for file in FILES)
    assert parts["open"] >= OPEN_AT_LEAST
    assert parts["held"] >= HELD_AT_LEAST
    assert sum(corpus.load_case(file).cause == "healthy" for file in FILES) >= HEALTHY_AT_LEAST


@pytest.mark.parametrize("file", FILES, ids=lambda file: "/".join(file.parts[-3:])[:-4])
def test_a_case_is_whole(file: Path) -> None:
    head = file.read_text().partition("\n---\n")[0]
    case = corpus.load_case(file)
    assert re.search(r"^source: (https://|\"made up: )\S", head, re.MULTILINE)
    assert {case.cause, *case.also} <= set(CAUSES)
    assert case.log.strip()
    assert case.cause == "healthy" or (case.quote and case.quote in case.log)


def test_no_log_is_there_twice() -> None:
    logs = Counter(corpus.load_case(file).log for file in FILES)
    assert max(logs.values()) == 1


def test_rules_are_mapped_to_causes_that_there_are() -> None:
    mapping = corpus.load_yaml(corpus.CORPUS / "rules-to-causes.yaml")
    assert {cause for causes in mapping.values() for cause in causes} <= set(CAUSES)


@pytest.mark.parametrize(
    ("cause", "also", "findings", "text", "mapping", "end"),
    [
        ("library-missing", (), [FINDING], "", {"K99": ["library-missing"]}, "right"),
        ("library-missing", (), [FINDING], "", {}, "right"),
        ("library-missing", (), [FINDING], "", {"K99": ["munge"]}, "other"),
        ("munge", (), [FINDING], "", {"K99": ["munge"]}, "other"),
        ("munge", ("library-missing",), [FINDING], "", {}, "right"),
        ("munge", (), [], "libx.so.1 is\n   not there", {}, "silent, quoted"),
        ("munge", (), [], "", {}, "silent"),
        ("unknown", (), [], "libx.so.1 is not there", {}, "right"),
        ("unknown", (), [], "", {}, "silent"),
        ("unknown", (), [FINDING], "libx.so.1 is not there", {}, "other"),
        ("munge", ("unknown",), [], "libx.so.1 is not there", {}, "right"),
        ("healthy", (), [], "", {}, "right"),
        ("healthy", (), [FINDING], "", {}, "other"),
    ],
)
def test_planted_answers_are_judged(
    cause: str,
    also: tuple[str, ...],
    findings: list[dict[str, str]],
    text: str,
    mapping: dict[str, list[str]],
    end: str,
) -> None:
    case = replace(CASE, cause=cause, also=also)
    said = corpus.Said(findings=tuple(findings), text=text)
    assert corpus.judge(case, said, CAUSES, mapping).end == end


@pytest.mark.parametrize(
    ("text", "is_too_large"),
    [("a\n" * 12, False), ("a\n" * 13, True), ("a" * 100, False), ("a" * 101, True)],
)
def test_large_answers_are_counted(text: str, is_too_large: bool) -> None:
    assert (
        corpus.judge(CASE, corpus.Said(findings=(), text=text), CAUSES, {}).too_large
        is is_too_large
    )


def test_the_score_does_not_fall(scores: list[Any]) -> None:
    ends = Counter(score.end for score in scores)
    shown = corpus.render(scores)
    assert ends[corpus.End.RIGHT] >= RIGHT_AT_LEAST * len(scores), shown
    assert ends[corpus.End.OTHER] <= OTHER_AT_MOST * len(scores), shown
    assert ends[corpus.End.SILENT] <= SILENT_AT_MOST * len(scores), shown
    assert sum(score.too_large for score in scores) <= TOO_LARGE_AT_MOST * len(scores), shown


def test_jobs_that_ended_well_raise_no_alarm(scores: list[Any]) -> None:
    healthy = [score for score in scores if score.case.cause == "healthy"]
    alarms = [score.case.name for score in healthy if score.end is not corpus.End.RIGHT]
    assert len(alarms) <= ALARMS_AT_MOST, alarms


def test_the_table_has_every_family_and_every_miss(scores: list[Any]) -> None:
    shown = corpus.render(scores)
    assert {line.split()[0] for line in shown.splitlines() if line[:1].isalpha()} >= {
        score.case.family for score in scores
    }
    for score in scores:
        if score.end is not corpus.End.RIGHT:
            assert f"{score.case.family}/{score.case.name}: wanted" in shown
