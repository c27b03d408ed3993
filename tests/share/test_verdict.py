"""Verdicts beside an image, as they are written, and as somebody hostile writes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from refusing import refused
from stackproof.core import limits, noun
from stackproof.core.errors import Reason
from stackproof.share import verdict
from stackproof.share.verdict import AttestedVerdict

IMAGE = "ab" * 32
VERDICT = AttestedVerdict(
    image=IMAGE, verdict="INCONCLUSIVE", specification="12" * 32, arms=("mpich",), baseline="impi",
    baseline_image="34" * 32, date="2026-01-02T03:04:05Z", stackproof="1", trust="holds",
    machine={"cpu": "x"}, margins={"latency": 0.05}, passed=("a", "b"), open=("c",),
)  # fmt: skip


def test_a_verdict_goes_there_and_back() -> None:
    content = noun.to_json(VERDICT).encode()
    assert verdict.parse(content, IMAGE, file="x") == VERDICT
    assert verdict.name_of(VERDICT.specification) == "verdict-12121212.json"


def changed(**changes: Any) -> bytes:
    return json.dumps({**noun.to_data(VERDICT), **changes}).encode()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", Reason.YAML_SYNTAX),
        (b"\xff\xfe", Reason.YAML_SYNTAX),
        (b"[" * 100_000, Reason.YAML_SYNTAX),
        (b"[]", Reason.UNSUPPORTED),
        (changed(schema="https://in-toto.io/Statement/v1"), Reason.UNSUPPORTED),
        (changed(verdict="PASSED"), Reason.WRONG_TYPE),
        (changed(verdict=["PASS"]), Reason.WRONG_TYPE),
        (changed(passed="a"), Reason.WRONG_TYPE),
        (changed(machine={"cpu": 1}), Reason.WRONG_TYPE),
        (changed(image=""), Reason.DOCUMENT_OF_ANOTHER),
        (changed(image="ef" * 32), Reason.DOCUMENT_OF_ANOTHER),
        (b" " * (limits.VERDICT_FILE.bytes + 1), Reason.TOO_LARGE),
    ],
)
def test_what_is_no_verdict_on_the_image(content: bytes, reason: Reason) -> None:
    with refused(reason):
        verdict.parse(content, IMAGE, file="x")
