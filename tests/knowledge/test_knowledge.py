"""The knowledge that is shipped, and what its reader refuses."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from knowing import KNOWLEDGE
from stackproof.core import document as documents
from stackproof.core.errors import Reason, StackproofError
from stackproof.knowledge.model import (
    UNVERSIONED,
    KnowledgeFiles,
    Severity,
    find,
    parse_knowledge,
    words,
)

SOURCES = {
    "sources": {"news": {"title": "News", "url": "https://example.org/news"}},
    "newest": {"libfabric": "2.6.0"},
}
SETTING = {
    "names": ["FI_PROVIDER"],
    "when": "always",
    "effect": "some",
    "evidence": ["documented"],
    "sources": ["news"],
}
RULE = {
    "id": "K01",
    "name": "one",
    "severity": "slow",
    "title": "t",
    "when": {"version": {"libfabric": "2.2:"}},
    "cause": "c",
    "remedy": "r",
    "evidence": ["issue"],
    "sources": ["news"],
}


def parsed(name: str, data: Any) -> documents.Document:
    return documents.parse(yaml.safe_dump(data), file=f"{name}.yaml")


def read(
    setting: dict[str, Any] | None = None,
    rule: dict[str, Any] | None = None,
    sources: dict[str, Any] | None = None,
) -> Any:
    settings = {"component": "libfabric", "settings": [{**SETTING, **(setting or {})}]}
    return parse_knowledge(
        KnowledgeFiles(
            sources=parsed("sources", {**SOURCES, **(sources or {})}),
            settings=(parsed("settings", settings),),
            rules=(parsed("rules", {"rules": [{**RULE, **(rule or {})}]}),),
        )
    )


def refused(**changes: Any) -> StackproofError:
    with pytest.raises(StackproofError) as caught:
        read(**changes)
    return caught.value


def test_everything_that_is_shipped_is_read() -> None:
    assert len(KNOWLEDGE.settings) == 222
    numbers = {rule.number for rule in KNOWLEDGE.rules}
    assert set(range(1, 91)) <= numbers
    assert len(KNOWLEDGE.rules) == len(numbers) == 238


def test_every_entry_has_a_public_source_and_says_how_it_is_known() -> None:
    for entry in (*KNOWLEDGE.settings, *KNOWLEDGE.rules):
        assert entry.sources
        assert entry.evidence
        assert all(source.url.startswith("https://") for source in entry.sources)


def test_conclusions_that_nobody_confirmed_are_marked() -> None:
    guessed = {
        rule.id
        for rule in KNOWLEDGE.rules
        if "inferred" in rule.evidence and "speaker" not in rule.when  # which claims no cause
    }
    assert guessed == {
        "K04", "K16", "K17", "K26", "K34", "K49", "K53", "K90", "K95", "K102", "K105", "K106",
        "K112", "K116", "K118", "K121", "K123", "K125", "K126", "K134", "K136", "K137", "K143",
        "K150", "K152", "K156", "K157", "K159", "K161", "K162", "K163", "K164", "K168", "K170",
        "K171", "K177", "K178", "K184", "K189", "K190", "K193", "K194", "K195", "K196", "K198",
        "K199", "K205", "K226", "K235", "K239",
    }  # fmt: skip


def test_guesses_say_so_in_words() -> None:
    for rule in KNOWLEDGE.rules:
        if rule.severity is Severity.SLOW and "inferred" in rule.evidence:
            assert "guess" in rule.cause


def test_the_newest_releases_are_those_of_the_settings() -> None:
    components = {setting.component for setting in KNOWLEDGE.settings}
    assert components <= {*KNOWLEDGE.newest, *UNVERSIONED}


def test_a_small_knowledge_is_read() -> None:
    knowledge = read()
    assert knowledge.settings[0].names == ("FI_PROVIDER",)
    assert knowledge.settings[0].versions == ":"
    assert knowledge.rules[0].severity is Severity.SLOW
    assert knowledge.rules[0].sources[0].url == "https://example.org/news"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"rule": {"sources": []}}, Reason.INVALID_VALUE),
        ({"rule": {"sources": ["nws"]}}, Reason.INVALID_VALUE),
        ({"setting": {"sources": ["other"]}}, Reason.INVALID_VALUE),
        ({"rule": {"evidence": ["rumour"]}}, Reason.INVALID_VALUE),
        ({"rule": {"when": {}}}, Reason.INVALID_VALUE),
        ({"rule": {"when": {"version": {"libfabric": "2.3:2.1"}}}}, Reason.INVALID_VALUE),
        ({"rule": {"when": {"version": {"libfabrik": "2.1"}}}}, Reason.INVALID_VALUE),
        ({"rule": {"when": {"version": {"libfabric": "main"}}}}, Reason.INVALID_VALUE),
        ({"rule": {"when": {"fact": {"memroy": "device"}}}}, Reason.INVALID_VALUE),
        ({"rule": {"when": {"all": [{"above": {"nothing": 1}}]}}}, Reason.INVALID_VALUE),
        ({"rule": {"when": {"not": {"log": "("}}}}, Reason.INVALID_VALUE),
        ({"rule": {"supported-by": {"matches": {"X": "["}}}}, Reason.INVALID_VALUE),
        ({"rule": {"when": {"log": "x", "lag": "y"}}}, Reason.UNKNOWN_KEY),
        ({"setting": {"versions": "2.6:2.1"}}, Reason.INVALID_VALUE),
        (
            {"setting": {"defaults": [{"versions": "3:2", "value": "1"}]}},
            Reason.INVALID_VALUE,
        ),
        ({"setting": {"names": ["A", "A"]}}, Reason.INVALID_VALUE),
        ({"rule": {"outranks": ["K99"]}}, Reason.INVALID_VALUE),
        ({"rule": {"name": "K01"}}, Reason.INVALID_VALUE),
        (
            {"sources": {"sources": {"news": {"title": "t", "url": "http://x"}}}},
            Reason.INVALID_VALUE,
        ),
        ({"sources": {"newest": {"mpich": "4"}}}, Reason.INVALID_VALUE),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], reason: Reason) -> None:
    error = refused(**changes)
    assert error.reason is reason
    assert all(problem.where is not None for problem in error.problems)


def test_a_source_that_nothing_uses_is_refused() -> None:
    more = {**SOURCES["sources"], "more": {"title": "t", "url": "https://example.org"}}
    assert "more" in refused(sources={"sources": more}).problems[0].message


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("FI_CXI_RDZV_THRESHOLD", "FI_CXI_RDZV_THRESHOLD"),
        ("k01", "K01"),
        ("lnx-provider-renamed", "K01"),
    ],
)
def test_entries_are_found_by_name_or_id(name: str, found: str) -> None:
    (entry, *_) = find(KNOWLEDGE, name)
    assert found in getattr(entry, "names", ()) or found == getattr(entry, "id", "")


def test_a_name_that_is_not_known_has_a_guess() -> None:
    with pytest.raises(StackproofError) as caught:
        find(KNOWLEDGE, "FI_CXI_RDVZ_THRESHOLD")
    assert caught.value.reason is Reason.USAGE
    assert "FI_CXI_RDZV_THRESHOLD" in caught.value.problems[0].hint


def test_a_variable_that_two_components_know_has_two_entries() -> None:
    entries = find(KNOWLEDGE, "FI_CXI_RDZV_THRESHOLD")
    assert sorted(entry.component for entry in entries) == ["cray-mpich", "libfabric"]


def test_conditions_are_told_in_words() -> None:
    for rule in KNOWLEDGE.rules:
        assert words(rule.when)
    condition = {
        "version": {"libfabric": "2.2:"},
        "fact": {"transport": ["lnx", "shm"], "container": True},
        "any": [{"unset": ["A"]}, {"log": "x"}],
        "not": {"equals": {"B": "1"}},
    }
    assert words(condition) == (
        "libfabric 2.2: and transport is lnx or shm and container is true and "
        "(A is not set or the job printed `x`) and not (B=1)"
    )
