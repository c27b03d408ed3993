"""A hostile registry: it gets no secret of another, costs little, and each lie of it is one error."""

from __future__ import annotations

import base64
import gc
import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from images import env_json, make_image
from need import need
from refusing import refused
from registries import INDEX, Asked, OwnRegistry, Reply, be_alone
from stackproof import cli
from stackproof.core import limits
from stackproof.core.errors import Reason
from stackproof.share import addresses, manifests
from stackproof.share.effects import carrying, credentials, oci, pulling, pushing, uploading
from stackproof.share.effects.oci import OciRegistry
from stackproof.share.effects.uploading import FileBlob
from stackproof.share.manifests import OciDescriptor
from stackproof.share.options import RemoteOptions
from wires import Wire, certificate

LABEL = addresses.parse_remote("build::tiny/1:v1@here%zen2")
REPOSITORY = "build/here/zen2/tiny/1"
BASIC = "Basic " + base64.b64encode(b"who:secret").decode()
ONE = "sha256:" + "1" * 64
CHALLENGE = Reply(401, [("WWW-Authenticate", 'Basic realm="a"')], b"{}").raw()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    be_alone(tmp_path, monkeypatch)
    monkeypatch.setattr("stackproof.share.effects.http_client._FIRST_WAIT_S", 0.0)
    (tmp_path / "token").write_text("secret")
    return tmp_path


def opened(address: str, home: Path, **options: str) -> OciRegistry:
    return oci.opened(
        RemoteOptions(registry=address, token=str(home / "token"), username="who", **options)
    )


def nothing(_: Asked) -> bytes:
    return Reply(200, [], b"{}").raw()


def known(then: Callable[[Asked], Reply]) -> Callable[[Asked], bytes]:
    """Return a server that wants a name and password, and then answers so."""
    return lambda one: then(one).raw() if "Authorization" in one.headers else CHALLENGE


# ---- where credentials go


@pytest.mark.guarantee(
    "Registries",
    "A name and password go to the scheme, host and port that they are for.",
    "Redirects, next pages and uploads elsewhere get none. Tried: `Link`, `Location`, a "
    "401 after a redirect, redirects that lead back. A registry that is asked by https "
    "may name another https server for its tokens, as many do.",
)
@pytest.mark.parametrize("to", ["http://{}/v2/a/tags/list?last=a", "//{}/v2/x", "http://who@{}/"])
def test_a_next_page_elsewhere_gets_no_secret(to: str, home: Path) -> None:
    with Wire(nothing) as evil:
        link = ("Link", f'<{to.format(evil.address)}>; rel="next"')
        with Wire(known(lambda _: Reply(200, [link], b'{"tags": ["a"]}'))) as server:
            with refused(Reason.REGISTRY_ANSWER):
                opened(server.address, home).tags("a")
            assert server.secrets() == [BASIC]
        assert evil.asked == []


@pytest.mark.guarantee(
    "Registries",
    "What began with https does not go on with http.",
    "Tried, with real TLS: next pages, uploads.",
)
def test_a_next_page_in_clear_is_not_asked_for(home: Path) -> None:
    """Also not at the same port: a proxy that ends TLS lets a registry say so by mistake."""
    own = certificate(home)

    def page(asked: Asked) -> Reply:
        link = f"<http://{asked.headers['Host']}/v2/a/tags/list?last=a>; rel=next"
        return Reply(200, [("Link", link)], b'{"tags": ["a"]}')

    with Wire(known(page), tls=own) as server:
        with refused(Reason.REDIRECT_REFUSED):
            opened(f"https://{server.address}", home, certificates=str(own)).tags("a")
        assert server.secrets("https") == [BASIC]
        assert server.secrets("http") == []


@pytest.mark.guarantee("Registries", "What began with https does not go on with http.")
@pytest.mark.parametrize("kind", ["upload", "piece"])
def test_an_upload_in_clear_is_not_sent(kind: str, home: Path) -> None:
    own = certificate(home)

    def take(asked: Asked) -> Reply:
        scheme = "http" if kind == "upload" or asked.method == "PATCH" else "https"
        if asked.method == "HEAD":
            return Reply(404, [], b"")
        where = f"{scheme}://{asked.headers['Host']}/v2/up?x=1"
        return Reply(202, [("Location", where)], b"")

    (home / "file").write_bytes(b"abc")
    blob = FileBlob(path=str(home / "file"), digest=manifests.digest_of(b"abc"), size=3)
    with Wire(known(take), tls=own) as server:
        registry = opened(f"https://{server.address}", home, certificates=str(own))
        with refused(Reason.REDIRECT_REFUSED):
            uploading.upload_file(registry, "a", blob, _Silent())
        assert set(server.secrets("https")) == {BASIC}
        assert [one for one in server.asked if one.headers["by"] == "http"] == []


class _Silent:
    def at(self, _: int, __: int) -> None:
        pass


@pytest.mark.guarantee(
    "Registries",
    "A name and password go to the scheme, host and port that they are for.",
)
def test_an_upload_elsewhere_gets_no_secret(home: Path) -> None:
    """Storage on another server is sent to, as registries want it, by nobody's name."""
    with Wire(lambda _: Reply(201, [], b"").raw()) as evil:
        where = ("Location", f"http://{evil.address}/up")

        def take(asked: Asked) -> Reply:
            return Reply(404, [], b"") if asked.method == "HEAD" else Reply(202, [where], b"")

        with Wire(known(take)) as server:
            assert uploading.upload_bytes(opened(server.address, home), "a", b"abc")
        assert [one.method for one in evil.asked] == ["PUT"]
        assert evil.secrets() == []


@pytest.mark.guarantee(
    "Registries",
    "A registry that is asked in clear gets a password only on this machine,",
    "never by a proxy, and names no other server that gets it.",
)
def test_a_registry_in_clear_names_nobody_who_gets_a_secret(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who sits on the wire could name any server, encrypted or not."""
    own = certificate(home)
    with Wire(nothing, tls=own) as evil:
        realm = f'Bearer realm="https://{evil.address}/token",service="a"'
        with Wire(lambda _: Reply(401, [("WWW-Authenticate", realm)], b"{}").raw()) as server:
            monkeypatch.setenv("http_proxy", f"http://{server.address}")
            registry = opened("http://registry.invalid", home, certificates=str(own))
            with refused(Reason.NOT_PERMITTED):
                registry.tags("a")
            assert server.secrets() == []
        assert evil.asked == []


@pytest.mark.guarantee(
    "Registries",
    "A name and password go to the scheme, host and port that they are for.",
)
@pytest.mark.parametrize("identity", [False, True], ids=["password", "refresh"])
@pytest.mark.parametrize("tls", [False, True])
def test_who_is_redirected_to_gets_no_secret_by_asking(
    tls: bool, identity: bool, home: Path
) -> None:
    """A server that a blob lies on may say 401: that names nobody who is told a password."""
    own = certificate(home)
    scheme = "https" if tls else "http"

    def ask(asked: Asked) -> bytes:
        realm = f'Bearer realm="{scheme}://{asked.headers["Host"]}/token",service="a"'
        return Reply(401, [("WWW-Authenticate", realm)], b"{}").raw()

    entry = {"identitytoken": "secret"} if identity else {"auth": BASIC.split()[1]}
    with Wire(ask, tls=own) as evil:
        to = Reply(307, [("Location", f"{scheme}://{evil.address}/blob")], b"")
        with Wire(lambda _: to.raw(), tls=own) as server:
            (home / ".docker").mkdir()
            logins = {"auths": {server.address: entry}}
            (home / ".docker/config.json").write_text(json.dumps(logins))
            address = f"{scheme}://{server.address}"
            registry = oci.opened(RemoteOptions(registry=address, certificates=str(own)))
            with refused():
                registry.has_blob("a", ONE)
        assert evil.secrets() == []
        assert len(evil.asked) == 1


def test_who_is_redirected_to_does_not_choose_what_is_asked_with_a_secret(home: Path) -> None:
    """It may lead back, and then the path is one of its choice: nobody's name goes along."""
    there: list[str] = []

    def back(_: Asked) -> bytes:
        return Reply(302, [("Location", f"http://{there[0]}/delete-all")], b"").raw()

    with Wire(back) as evil:
        to = ("Location", f"http://{evil.address}/")
        with Wire(known(lambda _: Reply(307, [to], b""))) as server:
            there.append(server.address)
            with refused():
                opened(server.address, home).has_blob("a", ONE)
            chosen = [one for one in server.asked if one.path == "/delete-all"]
        assert len(chosen) == 1
        assert "Authorization" not in chosen[0].headers


@pytest.mark.guarantee(
    "Registries",
    "A registry that is asked in clear gets a password only on this machine,",
)
def test_what_is_for_this_machine_goes_to_no_proxy(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Wire(known(lambda _: Reply(200, [], b'{"tags": ["a"]}'))) as server, Wire(nothing) as evil:
        monkeypatch.setenv("http_proxy", f"http://{evil.address}")
        monkeypatch.setenv("all_proxy", f"http://{evil.address}")
        assert opened(server.address, home).tags("a") == ("a",)
        assert evil.asked == []


@pytest.mark.parametrize(
    "to",
    [
        "http://[x", "http://a:99999999/", "http://a:b/", "http://a:0/", "http://{0}@{1}/",
        "http://{0}\\@{1}/", "http:\\\\{1}/", "\\\\{1}/", "http://{1}\t/", "ftp://{1}/",
        "http://\uff11\uff12\uff17.0.0.1/", "http://a b/", "http://[::1%25lo]:1/", "http://a..b/",
        "http://%31/", "javascript:1", "http://\r\n {1}/", "http://.",
    ],
)  # fmt: skip
@pytest.mark.parametrize("where", ["Location", "Link", "realm", "upload"])
def test_addresses_that_are_none(where: str, to: str, home: Path) -> None:
    with Wire(nothing) as evil:

        def answer(asked: Asked) -> bytes:
            text = to.format(asked.headers["Host"], evil.address)
            header = {
                "Location": (307, "Location", text), "upload": (202, "Location", text),
                "Link": (200, "Link", f"<{text}>; rel=next"),
                "realm": (401, "WWW-Authenticate", f'Bearer realm="{text}"'),
            }[where]  # fmt: skip
            return Reply(header[0], [header[1:]], b'{"tags": ["a"]}').raw()

        with Wire(answer) as server:
            registry = opened(server.address, home)
            with refused(Reason.REGISTRY_ANSWER, Reason.REDIRECT_REFUSED):
                if where == "upload":
                    uploading.mount(registry, "a", ONE, "b")
                else:
                    registry.tags("a")
        assert evil.asked == []


@pytest.mark.guarantee(
    "Registries",
    "Files of logins are believed if they are yours or root's,",
    "and nobody else may write to them or their folder.",
)
def test_logins_that_another_user_put_there_are_not_believed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They name accounts of others, and a program that is started."""
    need("root")
    helper = home / "docker-credential-evil"
    helper.write_text(f"#!/bin/sh\ntouch {home}/started\nexit 1\n")
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{home}:/usr/bin:/bin")
    file = home / "run/containers/auth.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"credsStore": "evil"}')
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(home / "run"))
    for path, owner in ((file, 12345), (file.parent, 12345), (file.parent, 0)):
        os.chown(path, owner, owner)
        with refused(Reason.NOT_PERMITTED if owner else Reason.LOGIN_NEEDED):
            credentials.find("a.org", "a")
        assert (home / "started").exists() is (not owner)
        os.chown(path, 0, 0)


@pytest.mark.guarantee("Registries", "Files of logins are believed if they are yours or root's,")
@pytest.mark.parametrize(
    ("what", "mode"),
    [("file", 0o666), ("file", 0o662), ("folder", 0o777), ("folder", 0o757), ("link", 0o777),
     ("pipe", 0o600), ("device", 0o600)],
)  # fmt: skip
def test_logins_that_others_may_change_are_not_believed(what: str, mode: int, home: Path) -> None:
    folder, real = home / ".docker", home / "real"
    folder.mkdir()
    real.mkdir()
    file = folder / "config.json"
    if what == "pipe":
        os.mkfifo(file)
    elif what == "device":
        file.symlink_to("/dev/zero")
    else:
        (real / "a").write_text("{}")
        file.symlink_to(real / "a") if what == "link" else (real / "a").rename(file)
    {"file": file, "folder": folder, "link": real}.get(what, folder).chmod(mode)
    with refused(Reason.NOT_PERMITTED):
        credentials.find("a.org", "a")


@pytest.mark.parametrize(
    "name", ["../evil", "-evil", "a/evil", "a evil", "evil\n", ".", "$(id)", "é"]
)
def test_helpers_are_names(name: str, home: Path) -> None:
    (home / ".docker").mkdir()
    (home / ".docker/config.json").write_text(json.dumps({"credsStore": name}))
    with refused(Reason.INVALID_VALUE):
        credentials.find("a.org", "a")


@pytest.mark.parametrize(
    "said", ["[]", "[" * 50_000, '{"Username": "\\ud800", "Secret": "a"}', "1"]
)
def test_helpers_that_say_what_is_none(
    said: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = home / "docker-credential-odd"
    (home / "said").write_text(said)
    helper.write_text(f"#!/bin/sh\nexec cat {home}/said\n")
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{home}:/usr/bin:/bin")
    (home / ".docker").mkdir()
    (home / ".docker/config.json").write_text('{"credsStore": "odd"}')
    with refused(Reason.LOGIN_NEEDED):
        credentials.find("a.org", "a")


# ---- answers that are none


@pytest.mark.parametrize(
    "token",
    [
        '"expires_in": 1' + "0" * 400, '"expires_in": -1', '"expires_in": 1e999',
        '"expires_in": [1]', '"expires_in": null', '"expires_in": true',
    ],
)  # fmt: skip
def test_a_token_that_is_good_for_no_time(token: str, home: Path) -> None:
    """What a server says of how long is a hint, whatever it is: the token is taken."""

    def answer(asked: Asked) -> bytes:
        if asked.path.startswith("/token"):
            return Reply(200, [], b'{"token": "abc", %s}' % token.encode()).raw()
        realm = f'Bearer realm="http://{asked.headers["Host"]}/token"'
        fine = asked.headers.get("Authorization") == "Bearer abc"
        no = Reply(401, [("WWW-Authenticate", realm)], b"{}")
        return Reply(200, [], b'{"tags": ["a"]}').raw() if fine else no.raw()

    with Wire(answer) as server:
        assert opened(server.address, home).tags("a") == ("a",)


@pytest.mark.parametrize("token", ['"\\r\\nX: y"', '"\\u2028"', '"\\ud800"', "1", '""', "[]"])
def test_tokens_that_are_none(token: str, home: Path) -> None:
    def answer(asked: Asked) -> bytes:
        if asked.path.startswith("/token"):
            return Reply(200, [], b'{"token": %s}' % token.encode()).raw()
        realm = f'Bearer realm="http://{asked.headers["Host"]}/token"'
        return Reply(401, [("WWW-Authenticate", realm)], b"{}").raw()

    with Wire(answer) as server, refused(Reason.REGISTRY_ANSWER):
        opened(server.address, home).tags("a")


_DEEP = "[" * 60_000
_MANIFEST = manifests.render(manifests.image_manifest(digest=ONE, size=5, created="2026")).decode()


@pytest.mark.parametrize(
    "change",
    [
        ('"size":5', '"size":1' + "0" * 400), ('"size":5', '"size":9223372036854775808'),
        ('"size":5', '"size":-5'), ('"size":5', '"size":5.0'), ('"size":5', '"size":NaN'),
        ('"size":5', '"size":5,"size":6'), (f'"{manifests.MANIFEST}"', "[]"),
        (f'"{manifests.MANIFEST}"', "{}"), (f'"{manifests.MANIFEST}"', _DEEP),
        (f'"{ONE}"', "[]"), ('"2026"', '"\\ud800"'), ('"2026"', "7"), ("2026", "\udcff"),
        ('{"schema', '\ufeff{"schema'),
    ],
    ids=lambda pair: pair[1][:20].encode(errors="replace").decode(),
)  # fmt: skip
def test_manifests_that_are_none(change: tuple[str, str], home: Path) -> None:
    content = _MANIFEST.replace(*change).encode(errors="surrogateescape")
    assert content != _MANIFEST.encode()
    index = manifests.render(manifests.OciIndex(manifests=()))

    def answer(asked: Asked) -> bytes:
        return Reply(200, [], index if "/referrers/" in asked.path else content).raw()

    with Wire(answer) as server, refused(Reason.REGISTRY_ANSWER):
        pulling.look(opened(server.address, home), LABEL)


@pytest.mark.parametrize(
    "headers",
    [
        [("Content-Length", "-1")], [("Content-Length", "0x5")], [("Content-Length", "+5")],
        [("Content-Length", "1" + "0" * 30)], [("Content-Length", "5_0")],
        [("Content-Length", "5"), ("Content-Length", "6")], [("Transfer-Encoding", "gzip")],
    ],
    ids=str,
)  # fmt: skip
def test_lengths_that_are_none(headers: list[tuple[str, str]], home: Path) -> None:
    with Wire(lambda _: Reply(200, headers, b"{}").raw()) as server:
        with refused(Reason.REGISTRY_ANSWER):
            opened(server.address, home).tags("a")
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    "body", [_DEEP, '{"errors": [{"code": ' + "[" * 900 + "]" * 900 + "}]}", '{"errors": "a"}', "{"]
)
def test_reasons_without_an_end(body: str, home: Path) -> None:
    with Wire(lambda _: Reply(403, [], body.encode()).raw()) as server:
        with refused(Reason.REGISTRY_DENIED):
            opened(server.address, home).tags("a")
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    "name", ["../../v2/other/x", "a b", "v1.until-\\r\\nX: y", "a?b", "..", ""]
)
def test_names_that_mean_another_place(name: str, home: Path) -> None:
    with Wire(lambda _: Reply(200, [], b'{"tags": ["%s"]}' % name.encode()).raw()) as server:
        with refused(Reason.REGISTRY_ANSWER):
            pushing.history(opened(server.address, home), LABEL)
        assert len(server.asked) == 1


# ---- answers without an end


@pytest.fixture
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a second in the place of a minute, so that a test of waiting is none of patience."""
    monkeypatch.setattr("stackproof.core.effects.patience.TIMEOUT_S", 1.0)
    monkeypatch.setattr("stackproof.share.effects.http_client._ATTEMPTS", 1)


def _drip(begin: bytes, piece: bytes, wait: float = 0.0) -> Callable[[Asked], Iterator[bytes]]:
    import time  # noqa: PLC0415

    def drip(_: Asked) -> Iterator[bytes]:
        yield begin
        for _ in range(60_000):
            yield piece
            time.sleep(wait or 0.0005)

    return drip


_OK = b"HTTP/1.1 200 so\r\n"
_CHUNKED = _OK + b"Transfer-Encoding: chunked\r\n\r\n"


@pytest.mark.guarantee(
    "Registries",
    "Each malformed answer is one clear error, and no answer is waited for without an end.",
)
@pytest.mark.battery
@pytest.mark.parametrize(
    ("begin", "piece", "wait"),
    [
        (_OK + b"Content-Length: 4000000\r\n\r\n", b" ", 0.2), (_OK, b"A", 0.2), (b"H", b"T", 0.2),
        (b"", b"HTTP/1.1 100 go on\r\n\r\n", 0.0), (_CHUNKED + b"0\r\n", b"A: b\r\n", 0.0),
        (_CHUNKED, b"1;" + b"a" * 1000 + b"\r\n \r\n", 0.0), (_OK + b"\r\n", b" ", 0.2),
    ],
    ids=["body", "header", "status", "continue", "trailers", "extensions", "no length"],
)  # fmt: skip
@pytest.mark.usefixtures("hurry")
def test_who_drips_is_not_waited_for(begin: bytes, piece: bytes, wait: float, home: Path) -> None:
    with Wire(_drip(begin, piece, wait)) as server:  # type: ignore[arg-type]
        with refused(Reason.NO_NETWORK, Reason.ANSWER_TRUNCATED, Reason.REGISTRY_ANSWER):
            opened(server.address, home).tags("a")
        assert len(server.asked) == 1


def test_pages_without_an_end(home: Path) -> None:
    def page(asked: Asked) -> bytes:
        return Reply(200, [("Link", f"<{asked.path}>; rel=next")], b'{"tags": ["a"]}').raw()

    with Wire(page) as server:
        with refused(Reason.REGISTRY_ANSWER):
            opened(server.address, home).tags("a")
        assert len(server.asked) == 2


def test_redirects_without_an_end(home: Path) -> None:
    count = itertools.count()
    with Wire(lambda _: Reply(307, [("Location", f"/{next(count)}")], b"").raw()) as server:
        with refused(Reason.REDIRECT_REFUSED):
            opened(server.address, home).tags("a")
        assert len(server.asked) == 6


@pytest.mark.parametrize("there", ["0-0", "0-99999999", "0-" + "9" * 5000, "0-1"])
def test_an_upload_that_never_gets_on(there: str, home: Path) -> None:
    def take(asked: Asked) -> bytes:
        if asked.method in {"HEAD", "PUT"}:
            return Reply(404, [], b"").raw()
        headers = [("Location", "/v2/up"), ("Range", there)]
        return Reply(204 if asked.method == "GET" else 202, headers, b"").raw()

    (home / "file").write_bytes(b"abcd")
    blob = FileBlob(path=str(home / "file"), digest=manifests.digest_of(b"abcd"), size=4)
    with Wire(take) as server:
        with refused():
            uploading.upload_file(opened(server.address, home), "a", blob, _Silent())
        assert len(server.asked) < 20


@pytest.mark.battery
def test_what_is_attached_without_an_end(home: Path) -> None:
    """To each manifest another is attached, and to that another: `copy` and `delete` end."""
    own: dict[str, bytes] = {}

    def keep(content: bytes) -> str:
        digest = manifests.digest_of(content)
        own[digest] = content
        return digest

    def answer(asked: Asked) -> bytes:
        last = asked.path.rpartition("/")[2]
        if "/tags/" in asked.path:
            return Reply(200, [], b'{"tags": ["v1"]}').raw()
        if "/referrers/" in asked.path:
            subject = OciDescriptor(media_type=manifests.MANIFEST, digest=last, size=5)
            one = manifests.referrer("a/b", [], subject=subject, annotations={})
            keep(manifests.render(one))
            index = manifests.OciIndex(manifests=(manifests.descriptor_of(one),))
            return Reply(200, [], manifests.render(index)).raw()
        content = own.get(last, _MANIFEST.encode())
        return Reply(200, [("Docker-Content-Digest", keep(content))], content).raw()

    with Wire(answer) as server:
        with refused(Reason.TOO_LARGE):
            pushing.delete(opened(server.address, home), LABEL)
        assert not any(one.method == "DELETE" for one in server.asked)


@pytest.fixture
def pushed(home: Path) -> Iterator[OwnRegistry]:
    need("mksquashfs")
    image = make_image(home / "a.squashfs", meta=env_json(name="tiny"))
    with OwnRegistry() as own:
        pushing.push(opened(own.address, home), str(image), LABEL)
        own.asked.clear()
        yield own


def attach(own: OwnRegistry, kind: str, count: int) -> None:
    """Attach manifests of a kind, with two blobs each, as somebody does who may push."""
    subject = OciDescriptor(
        media_type=manifests.MANIFEST, digest=own.tags[REPOSITORY]["v1"], size=5
    )
    for number in range(count):
        layers = []
        for content in (b"{}", f"seal {kind} {number}".encode()):
            digest = manifests.digest_of(content)
            own.blobs[REPOSITORY, digest] = content
            one = OciDescriptor(
                media_type="a/b", digest=digest, size=len(content),
                annotations={manifests.TITLE: f"document-{number}"},
            )  # fmt: skip
            layers.append(one)
        made = {manifests.CREATED: f"2027-01-01T00:{number // 60:02}:{number % 60:02}Z"}
        content = manifests.render(
            manifests.referrer(kind, layers, subject=subject, annotations=made)
        )
        own.manifests[REPOSITORY, manifests.digest_of(content)] = (manifests.MANIFEST, content)


def pull(own: OwnRegistry, capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main(["image", "pull", "--registry", own.address, str(LABEL)])
    gc.collect()
    return int(str(ended.value.code or 0)), capfd.readouterr().err


@pytest.mark.guarantee(
    "Registries",
    "Each malformed answer is one clear error, and no answer is waited for without an end.",
)
@pytest.mark.parametrize(
    "kind", [carrying.SIGNATURE, "application/spdx+json", "x/y", manifests.META]
)
def test_a_thousand_attached_manifests(
    kind: str, pushed: OwnRegistry, capfd: pytest.CaptureFixture[str]
) -> None:
    attach(pushed, kind, 990)
    code, said = pull(pushed, capfd)
    assert "bug" not in said
    assert len(pushed.asked) <= 50
    if kind == manifests.META:  # the image's own is not among those that are looked at
        assert "[meta-mismatch]" in said
        return
    assert code == 0, said
    assert "more that are attached" in said


def test_signatures_are_looked_at_before_other_things(
    pushed: OwnRegistry, capfd: pytest.CaptureFixture[str]
) -> None:
    attach(pushed, "x/y", 100)
    attach(pushed, carrying.SIGNATURE, 2)
    code, said = pull(pushed, capfd)
    assert code == 0, said
    for number in range(2):
        seal = manifests.digest_of(f"seal {carrying.SIGNATURE} {number}".encode())
        assert pushed.count("GET", f"/blobs/{seal}") == 1


def test_a_pull_that_is_given_a_byte_at_a_time(
    pushed: OwnRegistry, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each answer is of the next byte alone, and is cut: there is an end to asking."""
    (digest,) = {one for (_, one), content in pushed.blobs.items() if content[:4] == b"hsqs"}

    def one_byte(asked: Asked, reply: Reply) -> bytes | None:
        if digest not in asked.path:
            return None
        short = Reply(reply.status, [("Content-Length", str(len(reply.body)))], reply.body[:1])
        return short.raw()

    pushed.rewrite = one_byte
    code, said = pull(pushed, capfd)
    assert code != 0
    assert "[answer-truncated]" in said
    assert pushed.count("GET", f"/blobs/{digest}") < 100


@pytest.mark.battery
def test_a_pull_within_thirty_seconds(
    pushed: OwnRegistry, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them together: a server is not waited for once more with each request."""
    limit: Any = getattr(limits, "PULL_METADATA", None)
    monkeypatch.setattr(limit, "seconds", 1)
    attach(pushed, carrying.SIGNATURE, 8)

    def slow(asked: Asked, reply: Reply) -> bytes | None:
        import time  # noqa: PLC0415

        time.sleep(0.3)
        return None

    pushed.rewrite = slow
    code, said = pull(pushed, capfd)
    assert code == 4
    assert "takes too long" in said
    assert len(pushed.asked) < 8


def test_a_list_of_an_image_of_all_memory(home: Path) -> None:
    """Sizes that no file has are no error of Python: rows with them are passed over."""
    row = {"path": "build/here/zen2/tiny/1/v1", "sha256": "1" * 64, "created": "x", "size": 10**400}
    content = json.dumps({"results": [row]}).encode()
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    index: dict[str, Any] = {
        "schemaVersion": 2, "artifactType": "application/vnd.stackproof.index.v1+json",
        "config": {"mediaType": "a", "digest": ONE, "size": 2},
        "layers": [{"mediaType": "a", "digest": digest, "size": len(content),
                    "annotations": {manifests.TITLE: "index.json"}}],
    }  # fmt: skip

    def answer(asked: Asked) -> bytes:
        body = content if "/blobs/" in asked.path else json.dumps(index).encode()
        return Reply(200, [("Content-Type", INDEX)], body).raw()

    with Wire(answer) as server, pytest.raises(SystemExit) as ended:
        cli.main(["image", "find", "--registry", server.address, "build::"])
    assert not ended.value.code
