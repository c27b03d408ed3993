"""The knowledge that is shipped: its files are right, and are read as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from knowing import KNOWLEDGE
from stackproof.core import document as documents
from stackproof.core.effects import shipped
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.versions import versions
from stackproof.knowledge.effects import load
from stackproof.knowledge.evidence import FACTS
from stackproof.knowledge.model import OTHERS, UNVERSIONED, Severity, find, words

FOLDER = shipped.root("knowledge")
FILES = {
    path: documents.parse(path.read_bytes(), file=str(path))
    for path in (
        FOLDER / "sources.yaml", *FOLDER.glob("settings/*.yaml"), *FOLDER.glob("rules/*.yaml"),
        FOLDER / "reference-curves" / "index.yaml",
    )
}  # fmt: skip
NEWEST = FILES[FOLDER / "sources.yaml"].data["newest"]
SCHEMAS = {"sources.yaml": "knowledge-sources", "index.yaml": "reference-curves"}


def conditions(part: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a condition and those inside it."""
    yield part
    without = (part[key] for key in ("not", "unless") if key in part)
    for condition in (*part.get("all", ()), *part.get("any", ()), *without):
        yield from conditions(condition)


CONDITIONS = [
    (rule.id, condition)
    for rule in KNOWLEDGE.rules
    for condition in (*conditions(rule.when), *conditions(rule.supported_by or {}))
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_file_fits_its_schema_and_is_read_as_any_document(path: Path) -> None:
    schema = SCHEMAS.get(path.name, path.parent.name)
    assert documents.problems(FILES[path], schema) == ()
    assert load.data_of(path) == FILES[path].data


def test_all_names_of_rules_are_there_and_stand_once() -> None:
    names = [name for rule in KNOWLEDGE.rules for name in (rule.id, rule.name)]
    assert len(names) == len(set(names))
    assert {name for rule in KNOWLEDGE.rules for name in rule.outranks} <= set(names)
    for component in {setting.component for setting in KNOWLEDGE.settings}:
        own = [one for one in KNOWLEDGE.settings if one.component == component]
        names = [name for setting in own for name in setting.names]
        assert len(names) == len(set(names)), component
        assert component in {*NEWEST, *UNVERSIONED}


def test_conditions_ask_for_what_can_be() -> None:
    for rule, condition in CONDITIONS:
        asked = {name for key in ("fact", "above", "below") for name in condition.get(key, ())}
        assert asked <= FACTS.keys(), rule
        assert condition.get("version", {}).keys() <= {*NEWEST, *OTHERS}, rule
        patterns = [condition[key] for key in ("log", "named") if key in condition]
        for pattern in (*patterns, *condition.get("matches", {}).values()):
            re.compile(pattern)


def test_every_range_of_versions_holds_one() -> None:
    texts = [text for _, one in CONDITIONS for text in one.get("version", {}).values()]
    texts += [
        text
        for setting in KNOWLEDGE.settings
        for text in (setting.versions, *(default.versions for default in setting.defaults))
    ]
    for text in texts:
        asked = versions(text)
        assert asked.known, text
        for one in asked.ranges:
            open_end = one.low is None or one.high is None
            assert open_end or one.low[: len(one.high)] <= one.high, text


def test_every_source_is_used() -> None:
    used = {one.id for entry in (*KNOWLEDGE.settings, *KNOWLEDGE.rules) for one in entry.sources}
    assert used == FILES[FOLDER / "sources.yaml"].data["sources"].keys()


def test_everything_that_is_shipped_is_read() -> None:
    assert len(KNOWLEDGE.settings) == 222
    numbers = {rule.number for rule in KNOWLEDGE.rules}
    assert set(range(1, 91)) <= numbers
    assert len(KNOWLEDGE.rules) == len(numbers) == 243


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
        "K199", "K205", "K226", "K235", "K239", "K244",
    }  # fmt: skip


def test_guesses_say_so_in_words() -> None:
    for rule in KNOWLEDGE.rules:
        if rule.severity is Severity.SLOW and "inferred" in rule.evidence:
            assert "guess" in rule.cause


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
        "unless": {"set": ["C"]},
    }
    assert words(condition) == (
        "libfabric 2.2: and transport is lnx or shm and container is true and "
        "(A is not set or the job printed `x`) and not (B=1) and not known to be (C is set)"
    )
