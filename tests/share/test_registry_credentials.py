"""Who a user is at a registry: files of docker and containers, helpers, tokens; nothing leaks."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from refusing import refused
from registries import OwnRegistry
from stackproof.core.errors import Reason, StackproofError
from stackproof.share import origins
from stackproof.share.effects import credentials, oci
from stackproof.share.effects.credentials import Credential
from stackproof.share.options import RemoteOptions

COVERS = ("share/effects/credentials.py",)
_SECRET = "secret-of-this-test"
_HOST = "registry.example.org"


def _auth(user: str = "who", secret: str = _SECRET) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:{secret}".encode()).decode()}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "DOCKER_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def _write(path: Path, data: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data))


def _found(host: str = _HOST, repository: str = "a/b") -> Credential | None:
    return credentials.find(host, repository)


def test_files_in_their_order(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _found() is None
    _write(home / ".docker/config.json", {"auths": {_HOST: _auth("docker")}})
    assert _found() == Credential(username="docker", password=_SECRET)
    _write(home / ".config/containers/auth.json", {"auths": {_HOST: _auth("containers")}})
    assert _found() == Credential(username="containers", password=_SECRET)
    _write(home / "run/containers/auth.json", {"auths": {_HOST: _auth("run")}})
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home / "run"))
    assert _found() == Credential(username="run", password=_SECRET)
    _write(home / "named", {"auths": {_HOST: _auth("named", "a:b")}})
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(home / "named"))
    assert _found() == Credential(username="named", password="a:b")
    assert _found("other.example.org") is None


def test_logins_without_a_runtime_folder(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under sudo and in jobs podman puts them below TMPDIR; there each folder has an owner."""
    monkeypatch.setenv("TMPDIR", str(home / "tmp"))
    place = home / f"tmp/podman-run-{os.geteuid()}"
    _write(place / "containers/auth.json", {"auths": {_HOST: _auth("podman")}})
    assert _found() == Credential(username="podman", password=_SECRET)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home / "run"))
    assert _found() is None
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    place.rename(home / "others")
    place.symlink_to(home / "others")
    assert _found() is None


@pytest.mark.parametrize(
    "key", [f"https://{_HOST}", f"https://{_HOST}/v1/", f"{_HOST}/a", f"{_HOST}/a/b"]
)
def test_keys_of_old_and_of_longer_names(home: Path, key: str) -> None:
    _write(home / ".docker/config.json", {"auths": {key: _auth()}})
    assert _found() == Credential(username="who", password=_SECRET)
    assert (_found(repository="c") is None) is key.endswith(("/a", "/b"))


def test_the_longest_key_counts(home: Path) -> None:
    auths = {_HOST: _auth("host"), f"{_HOST}/a": _auth("a"), f"{_HOST}/a/b": _auth("b")}
    _write(home / ".docker/config.json", {"auths": auths})
    names = [(_found(repository=one) or Credential()).username for one in ("a/b/c", "a/c", "c")]
    assert names == ["b", "a", "host"]


def test_a_helper_is_asked_by_its_input(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper = home / "bin/docker-credential-test"
    helper.parent.mkdir()
    helper.write_text(
        f"#!/bin/sh\nread -r host; echo \"$@\" > '{home}/argv'\n"
        f'printf \'{{"ServerURL":"%s","Username":"who","Secret":"{_SECRET}"}}\' "$host"\n'
    )
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{helper.parent}:{os.environ['PATH']}")
    _write(home / ".docker/config.json", {"credHelpers": {_HOST: "test"}})
    assert _found() == Credential(username="who", password=_SECRET)
    assert (home / "argv").read_text() == "get\n"
    _write(home / ".docker/config.json", {"credsStore": "test"})
    assert _found() == Credential(username="who", password=_SECRET)
    helper.write_text("#!/bin/sh\necho credentials not found in native keychain; exit 1\n")
    assert _found() is None
    helper.write_text(f"#!/bin/sh\necho {_SECRET}; exit 1\n")
    with refused(Reason.LOGIN_NEEDED) as caught:
        _found()
    assert _SECRET not in str(caught.value)


@pytest.mark.parametrize(("helper", "reason"), [
    ("not-installed", Reason.TOOL_MISSING), ("../a", Reason.INVALID_VALUE)])  # fmt: skip
def test_helpers_that_cannot_be(home: Path, helper: str, reason: Reason) -> None:
    _write(home / ".docker/config.json", {"credsStore": helper})
    with refused(reason):
        _found()


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"auths": 1}', json.dumps({"auths": {_HOST: {"auth": "%"}}})]
)
def test_files_that_are_none(home: Path, text: str) -> None:
    (home / ".docker").mkdir()
    (home / ".docker/config.json").write_text(text)
    if text.startswith('{"'):
        assert _found() is None
        return
    with refused(Reason.YAML_SYNTAX):
        _found()


def test_a_token_of_uenv(home: Path) -> None:
    (home / "TOKEN").write_text(f"{_SECRET}\n")
    for path in (home, home / "TOKEN"):
        found = credentials.from_token(str(path), "who")
        assert found == Credential(username="who", password=_SECRET)
        assert _SECRET not in repr(found)
    with refused(Reason.FILE_MISSING):
        credentials.from_token(str(home / "none"))


@pytest.fixture(params=["basic", "token", "refresh"])
def server(request: pytest.FixtureRequest, home: Path) -> Iterator[OwnRegistry]:
    with OwnRegistry(login=f"who:{_SECRET}", token=request.param != "basic") as own:
        own.tags["a"] = {"v1": "sha256:" + "1" * 64}
        entry = {"identitytoken": _SECRET} if request.param == "refresh" else _auth()
        _write(home / ".docker/config.json", {"auths": {own.address: entry}})
        yield own


def test_who_is_known_is_let_in(server: OwnRegistry) -> None:
    registry = oci.opened(RemoteOptions(registry=server.address))
    assert registry.tags("a") == ("v1",)
    assert registry.tags("a") == ("v1",)  # and needs no further token
    assert server.count("GET", "/token") + server.count("POST", "/token") <= 1
    registry.client.close()


def test_who_is_not_known_is_told(server: OwnRegistry, home: Path) -> None:
    _write(home / ".docker/config.json", {"auths": {server.address: _auth("who", "wrong-secret")}})
    for known in (True, False):
        if not known:
            (home / ".docker/config.json").unlink()
        registry = oci.opened(RemoteOptions(registry=server.address))
        with refused(Reason.LOGIN_NEEDED) as caught:
            registry.tags("a")
        assert "wrong-secret" not in str(caught.value)
        registry.client.close()


@pytest.mark.parametrize(
    ("registry", "receiver", "fine"),
    [
        ("https://a.org", "https://a.org", True),
        ("https://a.org", "https://b.org", True),  # who gives tokens is often another server
        ("http://127.0.0.1:5000", "http://127.0.0.1:5000", True),
        ("http://[::1]:5000", "http://[0:0::1]:5000", True),
        ("http://[::1]:5000", "http://[::1]:5001", False),
        ("http://[::1]:5000", "https://[::1]:5000", False),
        ("http://a.org", "http://a.org", False),
        ("http://a.org", "https://a.org", False),
        ("http://a.org", "https://b.org", False),
        ("http://127.0.0.1:5000", "https://b.org", False),
        ("http://127.1", "https://127.0.0.1", False),
    ],
)
def test_no_password_without_encryption(registry: str, receiver: str, fine: bool) -> None:
    named = [origins.parse(text).origin for text in (registry, receiver)]
    with contextlib.nullcontext() if fine else pytest.raises(StackproofError) as caught:
        origins.check_credential(*named)
    assert fine or caught.value.reason is Reason.NOT_PERMITTED


def test_no_secret_is_said(home: Path) -> None:
    """Nor in what a user sees with everything that is told of an error; nor in arguments."""
    with OwnRegistry(login=f"other:{_SECRET}") as own:
        (home / "TOKEN").write_text(_SECRET)
        argv = [sys.executable, "-m", "stackproof", "--debug", "image", "find", "--registry",
                own.address, "--token", str(home), "--username", "who", "--json"]  # fmt: skip
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 4
        assert "[login-needed]" in done.stderr
        encoded = base64.b64encode(f"who:{_SECRET}".encode()).decode()
        for text in (_SECRET, encoded):
            assert text not in done.stdout + done.stderr
        assert any(encoded in one.headers.get("Authorization", "") for one in own.asked)


def test_no_secret_in_an_address() -> None:
    with refused(Reason.USAGE) as caught:
        oci.opened(RemoteOptions(registry=f"https://who:{_SECRET}@{_HOST}/a"))
    assert _SECRET not in str(caught.value)
