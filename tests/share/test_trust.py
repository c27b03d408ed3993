"""Policies, statements, records and measures as values: what they decide, and what is no such text."""

from __future__ import annotations

import hashlib
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from refusing import refused
from stackproof.core.errors import Reason, StackproofError
from stackproof.share.effects import measuring
from stackproof.share.trust import policy, records, sshsig, statement
from stackproof.share.trust.policy import SignedLabel
from stackproof.share.trust.records import FileIdentity, TrustRecord
from stackproof.share.trust.statement import ImageStatement

CASES = yaml.safe_load((Path(__file__).parents[1] / "documents" / "trust.yaml").read_text())
SAID = ImageStatement(
    label="deploy::a/1:v@s%u", image="1" * 64, verity="2" * 64, size=4096, date=1_700_000_000,
    meta="3" * 64, attached={"bom.cdx.json": "4" * 64},
)  # fmt: skip


def decided(case: dict[str, Any]) -> str:
    """Return what a policy makes of a case, in the words of the document."""
    try:
        rules = policy.parse(case["policy"])
    except StackproofError as error:
        return f"policy {error.reason}"
    signed = [SignedLabel(until=u, signer=s, label=label) for u, s, label in case["signed"]]
    found = policy.decide(rules, signed, now=case.get("now", 0), asked=case.get("asked", ""))
    return f"{found.action} {'signed' if found.reason is None else found.reason}"


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_what_a_policy_decides(case: dict[str, Any]) -> None:
    assert decided(case) == case["then"]


def test_all_problems_of_a_policy_at_once() -> None:
    with pytest.raises(StackproofError) as caught:
        policy.parse("image = *\n\nimage = * allow *\nnonsense\n", file="trust.conf")
    assert [str(one.where) for one in caught.value.problems] == ["trust.conf:1:1", "trust.conf:4:1"]
    with pytest.raises(StackproofError):
        policy.parse("image = * allow *\n" * (policy.MOST_RULES + 1))


def test_a_statement_and_back() -> None:
    content = statement.render(SAID)
    assert statement.parse(content, file="f") == SAID
    assert statement.render(statement.parse(content, file="f")) == content
    data = json.loads(content)
    assert data["_type"] == "https://in-toto.io/Statement/v1"
    assert data["subject"][0] == {"name": SAID.label, "digest": {"sha256": SAID.image}}
    assert data["predicate"]["date"] == "2023-11-14T22:13:20Z"


def _changed(**changes: Any) -> bytes:
    data = json.loads(statement.render(SAID))
    for key, value in changes.items():
        place, _, name = key.rpartition("__")
        (data[place] if place else data)[name] = value
    return json.dumps(data).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{}", b"[]", b"nonsense", b"\xff", b"[" * 100_000, b"null",
        _changed(_type="other"), _changed(predicateType="https://slsa.dev/provenance/v1"),
        _changed(subject=[]), _changed(subject=[{"name": "x", "digest": {"sha256": "1" * 64}}]),
        _changed(predicate={}), _changed(predicate__label="b/1:v@s%u"), _changed(predicate__size="1"),
        _changed(predicate__size=True), _changed(predicate__date="yesterday"),
        _changed(predicate__label="a b"),
        statement.render(SAID).replace(b"1" * 64, b"1" * 63),
        statement.render(SAID).replace(b'"bom.cdx.json"', b'"../bom"'),
        statement.render(SAID).replace(b'"bom.cdx.json"', b'"meta"'),
    ],
)  # fmt: skip
def test_a_text_that_is_no_statement(content: bytes) -> None:
    with refused(Reason.SIGNATURE_INVALID):
        statement.parse(content, file="f")


def test_a_record_and_back() -> None:
    file = FileIdentity(inode=7, size=4096, modified=1_700_000_000_123_456_789, changed=5)
    signed = (
        SignedLabel(label="a/1:v@s%u", signer="me", until=9),
        SignedLabel(label="b", signer="x"),
    )
    for one in (file, None):
        record = TrustRecord(image="1" * 64, path="/a b/ü", signed=signed, file=one)
        assert records.parse(records.render(record), file="f") == record
    assert file.name == "file-7-4096"
    for signer in ("a b", "a\nsigned 0 me x", ""):
        bad = TrustRecord(
            image="1" * 64, path="/a", signed=(SignedLabel(label="x", signer=signer),)
        )
        with pytest.raises(StackproofError):
            records.parse(records.render(bad), file="f")
    with pytest.raises(StackproofError):
        records.render(TrustRecord(image="1" * 64, path="/a\nsigned 0 me x", signed=signed))


@pytest.mark.parametrize(
    ("size", "measure"),
    [
        (0, "3d248ca542a24fc62d1c43b916eae5016878e2533c88238480b26128a1f1af95"),
        (1, "0edb82071407a15a5898b90f1e04344c59919fe110d15b66d62d9c56525687f5"),
        (4095, "28c1a7d948e415b82109f8370b08e612dac53ebda3d026e27527e17f84e95d9e"),
        (4096, "16ad3fec8e3a330a6ab76a2a77e8887aeca515b046846b723551dae7c76c5141"),
        (4097, "c018eb3d709b7668cc72283bb7f1a785b039f549de3d5526581b08599dc5f128"),
        (524288, "9c1ebb6258016ce42ece00219bcce631c6bb8804c70bf4b135e9a3b1a92c1dd2"),
        (524289, "cf3292ef2a818091a16cd982644cd686831129d9f6d4a661201b294c01bef00c"),
        (528384, "71894cb20fa1656a8f004c61e3a19150f379061e539c1fd14e70d733cbff7236"),
        (5000000, "28599e9cd53094b1b4534561beff5393a91214e2ca3a66265b728f7890ce5619"),
        (67108869, "dac07cd6e3087d2fb24d36589add29387a231cc2e6364398c7ff4ec050a46d2c"),
    ],
)
def test_the_measure_is_that_of_linux(
    size: int, measure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `fsverity digest` of fsverity-utils 1.5 says of the same content."""
    chance = random.Random(size)
    content = memoryview(chance.randbytes(size))
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda a, _, b: real(a, chance.randint(1, 300_000), b))
    file = tmp_path / "file"
    file.write_bytes(content)
    found = measuring.measure(str(file))
    assert (found.sha256, found.size) == (hashlib.sha256(content).hexdigest(), size)
    assert found.verity == measure


def test_until_when_a_key_is_good() -> None:
    key = "AAAAC3NzaC1lZDI1NTE5AAAAIA"
    lines = (
        f'me valid-before="20300101Z" ssh-ed25519 {key}\n'
        f'you valid-before="203001010000Z",namespaces="stackproof-image" ssh-ed25519 {key}x\n'
        f'#old valid-before="20100101Z" ssh-ed25519 {key}\n'
    )
    assert sshsig.until(lines, key) == 1_893_456_000
    assert sshsig.until(lines, f"{key}x") == 1_893_456_000
    assert sshsig.until(lines, "other") == 0
    assert sshsig.until(f"me valid-before=20309999Z ssh-ed25519 {key}", key) == 1
    assert sshsig.until(f"me ssh-ed25519 {key}", key) == 0
    for damaged in (
        b"",
        b"-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----",
        b"\xff",
    ):
        assert not sshsig.key_of(damaged)
