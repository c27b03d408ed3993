"""mirrors.yaml and cache.yaml to caches."""

from __future__ import annotations

import pytest

from stackinators import DOCUMENTS
from stackproof.build.engines.spack.stackinator.findings import FindingsList
from stackproof.build.engines.spack.stackinator.mirrors import read_mirrors
from stackproof.core.document import parse
from stackproof.core.errors import Reason


def understand(text: str | bytes, environment=None):
    findings = FindingsList()
    document = parse(text, file="mirrors.yaml")
    return read_mirrors(document, "/user-environment", environment or {}, findings), findings


def settings(text: str, **environment: str):
    found, findings = understand(text, environment)
    assert findings.problems == []
    return {m.name: (m.kind, m.settings) for m in found.caches.mirrors}


def test_every_key():
    text = (DOCUMENTS / "mirrors.yaml").read_bytes()
    found, findings = understand(text, {"FJORD": "/fjord"})
    assert findings.problems == []
    mirrors = {m.name: m for m in found.caches.mirrors}
    way = {
        "url": "s3://packages/spack/user-environment",
        "view": "all",
        "profile": "fjord",
        "endpoint_url": "https://s3.example.org",
        "access_token_variable": "CACHE_TOKEN",
        "access_pair": {"id_variable": "CACHE_ID", "secret_variable": "CACHE_SECRET"},
    }
    assert mirrors["fjord"].kind == "buildcache"
    assert mirrors["fjord"].settings == {
        "source": True, "binary": True, "fetch": way, "push": way, "signed": True, "autopush": True,
    }  # fmt: skip
    assert mirrors["bootstrap"].settings == {"url": "https://example.org/bootstrap"}
    assert mirrors["near"].settings["fetch"] == {"url": "file:///sources"}
    assert mirrors["near"].settings["push"]["access_pair"]["id"] == "me"
    assert mirrors["near"].settings["signed"] is False
    assert mirrors["far"].settings["fetch"] == {"url": "/fjord/sources"}
    assert [m.kind for m in found.caches.mirrors] == ["buildcache", "source", "source", "bootstrap"]
    assert found.caches.source_cache == "/fjord/cache"
    assert found.caches.concretizer_cache == "/scratch/solutions"
    assert found.named == {("buildcache", "private_key"): "keys/private.gpg"}


def test_smallest_build_cache():
    assert settings("buildcache: {url: 'file:///c/'}") == {
        "buildcache": (
            "buildcache",
            {
                "source": False,
                "binary": True,
                "fetch": {"url": "file:///c/"},
                "push": {"url": "file:///c/"},
            },
        )
    }


def test_only_one_way():
    found = settings("buildcache: {fetch: 'https://a/b', mount_specific: true}")
    assert found["buildcache"][1]["fetch"] == {"url": "https://a/b/user-environment"}
    assert "push" not in found["buildcache"][1]


def test_old_form():
    text = (DOCUMENTS / "cache.yaml").read_bytes()
    found, findings = understand(text, {"FJORD": "/fjord"})
    assert findings.problems == []
    assert len(findings.notes) == 1
    (mirror,) = found.caches.mirrors
    assert mirror.settings["push"] == {"url": "file:///fjord/cache/user-environment"}
    assert found.named == {("root",): "/fjord/cache"}
    found, _ = understand("root: /a\nkey: ${HOME}/k\n", {"HOME": "/me"})
    assert found.named["key",] == "/me/k"


def test_a_local_bootstrap_mirror_must_be_there():
    for url in ("/mirror", "file:///mirror"):
        found, _ = understand(f"bootstrap: {{url: '{url}'}}")
        assert found.named == {("bootstrap", "url"): "/mirror"}
        assert found.caches.mirrors[0].settings == {"url": "/mirror"}


def test_nothing():
    for text in ("", "{}", "# nothing\n"):
        found, findings = understand(text)
        assert (found.caches.mirrors, findings.problems) == ((), [])


@pytest.mark.parametrize(
    ("text", "reason", "line", "column"),
    [
        ("buildcache: {}", Reason.MISSING_KEY, 1, 1),
        ("sourcemirror: {a: {binary: true}}", Reason.MISSING_KEY, 1, 16),
        ("buildcache: {uri: x}", Reason.UNKNOWN_KEY, 1, 14),
        ("buildcache: {url: 7}", Reason.WRONG_TYPE, 1, 19),
        ("buildcache: {name: ../x, url: x}", Reason.INVALID_VALUE, 1, 20),
        ("sourcecache: {path: relative}", Reason.INVALID_VALUE, 1, 21),
        ("concretizer: {path: $NOWHERE/x}", Reason.INVALID_VALUE, 1, 21),
        ("concretizer: {}", Reason.MISSING_KEY, 1, 14),
        ("bootstrap: {}", Reason.MISSING_KEY, 1, 12),
        ("root: relative\n", Reason.INVALID_VALUE, 1, 7),
        ("root: 7\n", Reason.WRONG_TYPE, 1, 7),
        ("root: /a\nkey: relative\n", Reason.INVALID_VALUE, 2, 6),
        ("- a\n", Reason.WRONG_TYPE, 1, 1),
        ("buildcache: {url: x, access_pair: {id: a}}", Reason.MISSING_KEY, 1, 35),
    ],
)
def test_problems(text, reason, line, column):
    _, findings = understand(text)
    assert [(p.reason, p.where.line, p.where.column) for p in findings.problems] == [
        (reason, line, column)
    ]
