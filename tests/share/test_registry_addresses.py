"""Addresses and JSON of servers: what is read, in one way alone, and what is none."""

from __future__ import annotations

import msgspec
import pytest

from refusing import refused
from stackproof.core import limits
from stackproof.core.effects.patience import Budget
from stackproof.core.errors import Reason
from stackproof.share import answers, origins
from stackproof.share.manifests import FileSize
from stackproof.share.origins import Secret


@pytest.mark.parametrize(
    ("text", "origin", "target"),
    [
        ("https://A.org", "https://a.org", "/"),
        ("https://a.org:443/x?y#z", "https://a.org", "/x?y"),
        ("http://a.org:443/x;y", "http://a.org:443", "/x;y"),
        ("HTTP://127.0.0.1:80//x", "http://127.0.0.1", "//x"),
        ("http://[::0001]:5000/", "http://[::1]:5000", "/"),
        ("https://[::1]", "https://[::1]", "/"),
    ],
)
def test_one_server_has_one_origin(text: str, origin: str, target: str) -> None:
    address = origins.parse(text)
    assert (str(address.origin), address.target) == (origin, target)
    assert origins.parse(str(address)) == address


@pytest.mark.parametrize(
    ("base", "text", "whole"),
    [
        ("https://a.org/v2/x?y", "z?w=1", "https://a.org/v2/z?w=1"),
        ("https://a.org/v2/x", "/z", "https://a.org/z"),
        ("https://a.org/v2/x", "//b.org/z", "https://b.org/z"),
        ("https://a.org/v2/x", "https:z", "https://a.org/v2/z"),
        ("http://a.org/v2/x", "https://a.org/z", "https://a.org/z"),
        ("https://a.org/v2/x", "?y", "https://a.org/v2/x?y"),
    ],
)
def test_what_a_server_names(base: str, text: str, whole: str) -> None:
    assert str(origins.resolve(origins.parse(base), text)) == whole


@pytest.mark.parametrize("text", ["http://a.org", "HTTP://a.org:443/", "http://127.0.0.1/"])
def test_encrypted_stays_encrypted(text: str) -> None:
    with refused(Reason.REDIRECT_REFUSED) as caught:
        origins.resolve(origins.parse("https://a.org/"), text)
    assert caught.value.problems[0].hint


@pytest.mark.parametrize(
    "other",
    [
        "http://a.org", "https://a.org:444", "https://b.a.org", "https://a.org.b", "https://[::1]",
        "http://a.org:443", "https://aa.org",
    ],
)  # fmt: skip
def test_a_secret_is_for_its_origin(other: str) -> None:
    secret = Secret(header="Basic secret", origin=origins.parse("https://a.org/x").origin)
    assert secret.header_for(origins.parse("https://A.org:443/y").origin) == "Basic secret"
    assert secret.header_for(origins.parse(other).origin) == ""
    assert "Basic" not in repr(secret)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[1] x", b'{"a": 1, "a": 1}', b"NaN", b"Infinity", b'"\\ud800"', b'{"\\udfff": 1}',
        b"\xff", b"\xef\xbb\xbf{}", "{}".encode("utf-16"), b"[" * 100_000, b"9" * 5000,
    ],
)  # fmt: skip
def test_what_is_no_json(content: bytes) -> None:
    with pytest.raises(ValueError):
        answers.parse_json(content)


def test_json_and_its_numbers() -> None:
    assert answers.parse_object(b' {"a": [1, "\\ud83d\\ude00"]} ') == {"a": [1, "\U0001f600"]}
    with pytest.raises(ValueError):
        answers.parse_object(b"[]")
    times = [5, 2.5, 0, -1, True, "5", None, 10**400, float("inf"), float("nan")]
    assert [answers.seconds(one, 60.0) for one in times] == [
        5.0, 2.5, 60.0, 60.0, 60.0, 60.0, 60.0, 86400.0, 86400.0, 60.0,
    ]  # fmt: skip


@pytest.mark.parametrize("size", [2**63, -1, True, 5.5, "5", None, 10**400], ids=str)
def test_a_size_that_no_file_has(size: object) -> None:
    assert [msgspec.convert(one, FileSize) for one in (0, 5, 2**63 - 1)] == [0, 5, 2**63 - 1]
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(size, FileSize)


def test_a_budget_ends() -> None:
    budget = Budget(limits.PULL_META)
    for _ in range(limits.PULL_META.count):
        budget.spend("here")
    with refused(Reason.TOO_LARGE):
        budget.spend("here")
    slow = Budget(limits.PULL_META)
    slow.waited(limits.PULL_META.seconds + 1)
    with refused(Reason.REGISTRY_BUSY):
        slow.spend("here")
    slow.passed(1 << 20)  # what comes fast costs no time
    slow.spend("here")
