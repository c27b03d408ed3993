"""Attestations as others write them, and hostile ones: what cannot be read has a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stackproof.core.errors import Reason, StackproofError
from stackproof.share.attested import attestation, kinds, verdict
from stackproof.share.attested.attestation import Attestation
from stackproof.share.attested.verdict import AttestedVerdict

IMAGE = "ab" * 32
ABOUT = (("tiny", IMAGE),)


def statement(**changes: Any) -> bytes:
    data = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "x", "digest": {"sha256": IMAGE}}],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {},
        **changes,
    }
    return json.dumps(data).encode()


@pytest.mark.parametrize(
    "text",
    [b"", b"\xff\xfe", b"nonsense", b"[" * 100_000, b"[]", b"1", b'{"_type": 1}', b'{"_type": []}'],
)
def test_what_is_no_statement(text: bytes) -> None:
    assert attestation.parse(text, file="x") is None
    assert kinds.media_type("x", text) == "application/octet-stream"


@pytest.mark.parametrize(
    "changes",
    [
        {"subject": None}, {"subject": {}}, {"subject": [1]}, {"subject": [{"digest": []}]},
        {"subject": [{"digest": {}, "name": 1}]}, {"predicateType": None},
    ],
)  # fmt: skip
def test_a_statement_that_is_not_as_the_format_has_it(changes: dict[str, Any]) -> None:
    with pytest.raises(StackproofError) as caught:
        attestation.parse(statement(**changes), file="x")
    assert caught.value.reason is Reason.WRONG_TYPE


def test_of_which_file_it_is() -> None:
    subjects = [{"digest": {"sha256": 3}}, {"digest": {"sha512": "a"}}, {"name": "y", "digest": {}}]
    found = attestation.parse(statement(subject=subjects, predicate=[]), file="x")
    assert found is not None
    assert not any(found.is_of(one) for one in (IMAGE, "", "3"))
    known = attestation.parse(statement(), file="x")
    assert known is not None
    assert known.is_of(IMAGE)


def test_an_empty_digest_is_that_of_no_file() -> None:
    assert not Attestation(about=(("x", ""),), predicate_type="", predicate={}).is_of("")


SAID = AttestedVerdict(
    verdict="INCONCLUSIVE", specification="12" * 32, arms=("mpich",), baseline="impi",
    baseline_image="34" * 32, date="2026-01-02T03:04:05Z", stackproof="1", trust="holds",
    machine={"cpu": "x"}, margins={"latency": 0.05}, passed=("a", "b"), open=("c",),
)  # fmt: skip


def test_a_verdict_goes_there_and_back() -> None:
    content = attestation.render(verdict.attest(SAID, ABOUT))
    data = json.loads(content)
    assert data["predicateType"] == "https://in-toto.io/attestation/test-result/v0.1"
    assert data["predicate"]["result"] == "WARNED"
    assert [len(data["predicate"][key]) for key in ("passedTests", "warnedTests", "failedTests")] == [
        2, 1, 0,
    ]  # fmt: skip
    assert data["predicate"]["configuration"][0]["digest"] == {"sha256": "12" * 32}
    found = attestation.parse(content, file="x")
    assert found is not None
    assert verdict.parse(found, file="x") == SAID
    assert kinds.media_type(verdict.name_of(SAID.specification), content) == kinds.IN_TOTO


@pytest.mark.parametrize(
    "predicate",
    [
        {}, {"result": "PASS", "configuration": []}, {"result": ["PASSED"], "configuration": []},
        {"result": "PASSED"}, {"result": "PASSED", "configuration": [], "passedTests": "a"},
    ],
)  # fmt: skip
def test_a_verdict_that_cannot_be_read(predicate: dict[str, Any]) -> None:
    found = Attestation(about=ABOUT, predicate_type=verdict.PREDICATE, predicate=predicate)
    with pytest.raises(StackproofError) as caught:
        verdict.parse(found, file="x")
    assert caught.value.reason is Reason.WRONG_TYPE


def test_the_result_of_other_tests() -> None:
    odd = {
        "name": 1,
        "digest": [],
        "annotations": {"machine": 1, "margins": {"a": "b"}, "arms": [2]},
    }
    predicate = {"result": "FAILED", "configuration": [odd], "failedTests": ["t", 1]}
    found = verdict.parse(
        Attestation(about=ABOUT, predicate_type=verdict.PREDICATE, predicate=predicate), file="x"
    )
    assert found == AttestedVerdict(verdict="FAIL", specification="", failed=("t",))


def test_types_of_documents() -> None:
    found = {
        name: kinds.media_type(name, content)
        for name, content in (
            ("a.json", b'{"bomFormat": "CycloneDX"}'), ("b.json", b'{"spdxVersion": "SPDX-2.3"}'),
            ("c.json", b'{"x": 1}'), ("d.html", b"<p>"), ("e", b"{"), ("f", statement()),
        )
    }  # fmt: skip
    assert found == {
        "a.json": kinds.CYCLONEDX, "b.json": kinds.SPDX, "c.json": "application/json",
        "d.html": "text/html", "e": "application/octet-stream", "f": kinds.IN_TOTO,
    }  # fmt: skip
    assert kinds.artefact_type("text/html") == kinds.DOCUMENT
    assert kinds.artefact_type(kinds.CYCLONEDX) == kinds.CYCLONEDX
