"""Each field of each answer of a registry, changed: success or a reason, and nobody learns a secret.

A whole exchange (`image pull`, `find`, `push`, `copy`, `history`) is carried out with a registry that
gives tokens. One answer of it is changed by a seeded generator: its status, a header, a field of its
JSON, its length, its framing. `STACKPROOF_FUZZ_CASES` says how many (left out: 250).
"""

from __future__ import annotations

import base64
import copy
import gc
import gzip
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, field

from images import env_json, make_image
from need import need
from registries import Asked, OwnRegistry, Reply, be_alone
from signers import Signer
from stackproof import cli
from stackproof.core import noun
from stackproof.core.effects import files
from stackproof.share import addresses
from stackproof.share.effects import attachments, carrying, oci, pulling, pushing, signing
from stackproof.share.effects.repository import ImageRepository
from stackproof.share.options import RemoteOptions
from stackproof.share.verdict import AttestedVerdict
from wires import Wire

pytestmark = [
    pytest.mark.battery,
    pytest.mark.guarantee(
        "Registries",
        "Each malformed answer is one clear error, and no answer is waited for without an end.",
        "A pull by a whole label asks at most 50 times and waits at most 30 s before the "
        "image itself comes. Tried: one field of one answer changed at random, a thousand "
        "attached manifests, a server that drips.",
    ),
]

CASES = int(os.environ.get("STACKPROOF_FUZZ_CASES") or 250)
BATCHES = 10
LABEL = "build::tiny/1:v1@here%zen2"
MOST_ASKED = {"pull": 50, "find": 50, "history": 50, "push": 200, "copy": 200}
"""A pull is held to its budget; what changes a registry asks more, and waits for others."""
WORDS = {
    "pull": ["pull", LABEL], "find": ["find", "--fresh", "build::"], "history": ["history", LABEL],
    "push": ["push", "IMAGE", "build::other/2:v1@here%zen2"], "copy": ["copy", LABEL, "deploy::"],
}  # fmt: skip
_STATUSES: tuple[int | str, ...] = (
    100, 101, 103, 200, 201, 202, 203, 204, 205, 206, 300, 301, 302, 303, 304, 307, 308, 400, 401,
    402, 403, 404, 405, 409, 410, 413, 416, 418, 429, 431, 500, 501, 502, 503, 504, 507, 599, 600,
    999, 0, 1000, -1, "abc", "", "2 00", "\u00b2\u2070\u2070",
)  # fmt: skip
_ADDRESSES = (
    "http://[x", "http://a:99999999/", "http://a:b/", "http://EVIL/x", "https://EVIL/x", "//EVIL/x",
    "\\\\EVIL\\x", "http://OWN@EVIL/", "http://OWN\\@EVIL/", "http://u:p@OWN/", "", " ", "#", "?", "/",
    "..", "/v2/", "javascript:1", "file:///etc/passwd", "http://OWN/" + "a" * 60_000, "\r\n /x",
    "http://EVIL:0/", "http://OWN./", "HTTP://own", "/\x00", "/\u00e9", "http://[::ffff:127.0.0.1]:1/",
)  # fmt: skip
_CHALLENGES = (
    'Bearer realm="http://EVIL/token",service="test"', 'Bearer realm="https://EVIL/token"',
    'Bearer realm="//EVIL/token"', 'Bearer realm="http://OWN@EVIL/"', "Basic", 'Basic realm="a"',
    "Bearer", "Negotiate", 'Bearer realm="http://[x"', 'Bearer realm="http://a:99999999/"',
    'Bearer realm="token",scope="' + "a" * 50_000 + '"', "=" * 1000, 'Bearer realm="\\"',
)  # fmt: skip
_NUMBERS = (
    "-1", "0", "1", "5", "+5", " 7", "5_0", "0x10", "1" + "0" * 30, "9" * 5000, "NaN", "", "5, 6",
    "5;6", "1e3", "\u0665",
)  # fmt: skip
_VALUES = (
    "null", "true", "false", "0", "-1", "1", "2", "9223372036854775807", "9223372036854775808", "1.5",
    "1" + "0" * 400, "1e999", "NaN", "-Infinity", "9" * 5000, '""', '"x"', '"\\ud800"', '"\\u0000"',
    '"\\r\\nX: y"', '"../../x"', '"sha256:"', '"sha256:' + "0" * 64 + '"', "[]", "{}", "[[]]", "[null]",
    '[""]', '{"a": 1}', '"' + "a" * 100_000 + '"', "[" * 50_000, '"EVIL"', '"http://EVIL/"',
)  # fmt: skip
_HEADERS = (
    "Content-Type", "Docker-Content-Digest", "OCI-Subject", "Range", "Retry-After", "Date", "ETag",
    "Connection", "Content-Encoding", "Content-Range", "Keep-Alive", "Set-Cookie", "Upgrade", "X" * 70_000,
)  # fmt: skip
_TEXTS = (
    "", "close", "keep-alive", "gzip", "identity", "sha256:" + "0" * 64, "sha512:0", "bytes=0-0", "0-0",
    "0-99999999", "Mon, 01 Jan 2035 01:00:00 GMT", "Mon, 01 Jan 2035 01:00:00 +99999999999", "\u00e9",
    "a" * 70_000, "a\r\n b", "120", "99999999999",
)  # fmt: skip


class Change(Struct):
    """What is done to the answer of one number: by whom it is drawn says what is drawn."""

    number: int
    draw: random.Random
    own: str
    evil: str
    said: list[str] = field(default_factory=list)

    def __call__(self, asked: Asked, reply: Reply) -> bytes | None:
        self.number -= 1
        if self.number != -1:
            return None
        reply = Reply(reply.status, list(reply.headers), reply.body)
        change = self.draw.choice(
            (_status, _address, _number, _header, _json, _json, _json, _body, _framing)
        )
        raw = change(self, reply)
        self.said.append(f"{asked.method} {asked.path}: {change.__name__} {raw[:300]!r}")
        return b"" if asked.method == "HEAD" and raw.startswith(b"{") else raw

    def text(self, choices: tuple[str, ...]) -> str:
        text = self.draw.choice(choices)
        return text.replace("EVIL", self.evil).replace("OWN", self.own)

    def put(self, reply: Reply, name: str, text: str) -> None:
        """Give an answer a header, most often in the place of the one that it has."""
        if self.draw.random() < 0.9:
            reply.headers[:] = [one for one in reply.headers if one[0].lower() != name.lower()]
        reply.headers.append((name, text))


def _status(change: Change, reply: Reply) -> bytes:
    reply.status = change.draw.choice(_STATUSES)
    if change.draw.random() < 0.5:
        change.put(reply, "Location", change.text(_ADDRESSES))
    if reply.status == 401:
        change.put(reply, "WWW-Authenticate", change.text(_CHALLENGES))
    return reply.raw()


def _address(change: Change, reply: Reply) -> bytes:
    name = change.draw.choice(("Location", "Link", "WWW-Authenticate"))
    text = change.text(_CHALLENGES if name == "WWW-Authenticate" else _ADDRESSES)
    change.put(reply, name, f'<{text}>; rel="next"' if name == "Link" else text)
    if name == "Location" and change.draw.random() < 0.5:
        reply.status = change.draw.choice((301, 302, 307))
    if name == "WWW-Authenticate" and change.draw.random() < 0.5:
        reply.status = 401
    return reply.raw()


def _number(change: Change, reply: Reply) -> bytes:
    change.put(reply, "Content-Length", change.text(_NUMBERS))
    return reply.raw()


def _header(change: Change, reply: Reply) -> bytes:
    for _ in range(change.draw.choice((1, 1, 1, 2, 200))):
        change.put(reply, change.draw.choice(_HEADERS), change.text(_TEXTS))
    return reply.raw()


def _json(change: Change, reply: Reply) -> bytes:
    """Put another value in the place of one, leave it out, or have it twice."""
    try:
        data = json.loads(reply.body)
    except ValueError:
        return _body(change, reply)
    places = list(_places(data))
    if not places:
        return _body(change, reply)
    holder, key = change.draw.choice(places)
    how = change.draw.random()
    if how < 0.1:
        del holder[key]
        reply.body = json.dumps(data).encode()
    elif how < 0.2 and isinstance(holder, dict):
        text = json.dumps(holder[key])
        holder[key] = "MARK"
        reply.body = json.dumps(data).replace('"MARK"', f'{text}, "{key}": {text}', 1).encode()
    else:
        holder[key] = "MARK"
        reply.body = json.dumps(data).replace('"MARK"', change.text(_VALUES), 1).encode()
    return reply.raw()


def _places(data: Any) -> Iterator[tuple[Any, Any]]:
    for key in list(data) if isinstance(data, dict) else range(len(data)):
        yield data, key
        if isinstance(data[key], dict | list):
            yield from _places(data[key])


def _body(change: Change, reply: Reply) -> bytes:
    length, body = len(reply.body), reply.body
    at = change.draw.randrange(length + 1)
    changes: tuple[Callable[[], bytes], ...] = (
        lambda: body[:at], lambda: b"", lambda: body + b"x", lambda: change.draw.randbytes(100),
        lambda: body[:at] + b"\xff" + body[at + 1 :], lambda: b"[" * 200_000, lambda: b" " * 5_000_000,
        lambda: b"\xef\xbb\xbf" + body, lambda: body.decode(errors="replace").encode("utf-16"),
        lambda: gzip.compress(body),
    )  # fmt: skip
    reply.body = change.draw.choice(changes)()
    if change.draw.random() < 0.3:  # says another length than it has
        reply.headers.append(("Content-Length", str(length)))
    return reply.raw()


def _framing(change: Change, reply: Reply) -> bytes:
    body, size = reply.body, f"{len(reply.body):x}".encode()
    reply.headers.append(
        ("Transfer-Encoding", change.draw.choice(("chunked", "gzip", "a", "chunked, a")))
    )
    reply.body = change.draw.choice((
        size + b"\r\n" + body + b"\r\n0\r\n\r\n", size + b"\r\n" + body, b"-5\r\n" + body,
        b"ffffffffffffffffff\r\n" + body, b"zz\r\n" + body, b"\r\n", b"0\r\n" + b"A: b\r\n" * 1000,
        size + b";" + b"a" * 70_000 + b"\r\n" + body + b"\r\n0\r\n\r\n", body, b"",
        b"0x" + size + b"\r\n" + body + b"\r\n0\r\n\r\n", b"1_0\r\n" + body,
    ))  # fmt: skip
    raw = reply.raw()
    return (
        raw
        if change.draw.random() < 0.9
        else change.draw.choice((b"", b"\r\n", b"HTTP/1.1\r\n", b"SSH-2.0", raw[:20]))
    )


class Exchange(Struct):
    """A registry with an image, its signature and a verdict; its state; and a server of others."""

    folder: Path
    own: OwnRegistry
    evil: Wire
    image: Path
    sha256: str
    state: tuple[Any, Any, Any]

    def restore(self) -> None:
        blobs, made, tags = copy.deepcopy(self.state)
        self.own.blobs, self.own.manifests, self.own.tags = blobs, made, tags
        self.own.uploads, self.own.rewrite = {}, None
        self.own.asked.clear()
        self.evil.asked.clear()
        for name in ("repo", "cache"):
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def run(self, verb: str) -> int:
        words = [str(self.image) if word == "IMAGE" else word for word in WORDS[verb]]
        with pytest.raises(SystemExit) as ended:
            cli.main(["image", *words])
        gc.collect()
        return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def exchange(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exchange]:
    need("mksquashfs", "ssh-keygen")
    folder = tmp_path_factory.mktemp("exchange")
    image = make_image(folder / "a.squashfs", meta=env_json(name="tiny"))
    signer = Signer(folder, "me@site", folder / "allowed")
    said = signing.state(str(image), "tiny/1:v1@here%zen2")
    signing.sign(str(image), said, signer.key)
    verdict = AttestedVerdict(image=files.sha256(image), verdict="PASS", specification="0123abcd")
    attachments.put_verdict(str(image), "verdict-0123abcd.json", noun.to_json(verdict).encode())

    def evil(asked: Asked) -> bytes:
        """Ask whoever comes for a name and password."""
        realm = f'Bearer realm="http://{asked.headers["Host"]}/token",service="test"'
        if asked.path.startswith("/token"):
            return Reply(200, [], b'{"token": "of-evil"}').raw()
        return Reply(401, [("WWW-Authenticate", realm)], b"{}").raw()

    with OwnRegistry() as own, Wire(evil) as other:
        registry = oci.opened(RemoteOptions(registry=own.address))
        meant = addresses.parse_remote(LABEL)
        pushing.push(registry, str(image), meant)
        carrying.send(registry, pulling.look(registry, meant), str(image))
        registry.client.close()
        own.token, own.login = True, "who:secret"
        state = copy.deepcopy((own.blobs, own.manifests, own.tags))
        gc.freeze()  # what is there already is not looked at after each case
        yield Exchange(folder, own, other, image, files.sha256(image), state)
        gc.unfreeze()


@pytest.fixture(autouse=True)
def _user(exchange: Exchange, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {"auth": base64.b64encode(b"who:secret").decode()}
    (exchange.folder / ".docker").mkdir(exist_ok=True)
    logins = exchange.folder / ".docker/config.json"
    logins.write_text(json.dumps({"auths": {exchange.own.address: entry}}))
    be_alone(exchange.folder, monkeypatch)
    monkeypatch.setenv("STACKPROOF_REGISTRY", exchange.own.address)
    for name in ("catalogue._SETTLES_S", "attaching._SETTLES_S", "http_client._FIRST_WAIT_S"):
        monkeypatch.setattr(f"stackproof.share.effects.{name}", 0.0)
    monkeypatch.setattr("stackproof.share.effects.http_client._PATIENCE_S", 0.5)


@pytest.mark.parametrize("verb", sorted(WORDS))
def test_nothing_is_changed(verb: str, exchange: Exchange) -> None:
    exchange.restore()
    assert exchange.run(verb) == 0
    assert len(exchange.own.asked) <= MOST_ASKED[verb]


@pytest.mark.parametrize("batch", range(BATCHES))
def test_one_field_is_changed(
    batch: int,
    exchange: Exchange,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts = {}
    for verb in WORDS:
        exchange.restore()
        exchange.run(verb)
        counts[verb] = len(exchange.own.asked)
    monkeypatch.setattr("stackproof.core.effects.patience.TIMEOUT_S", 0.2)
    for case in range(batch, CASES, BATCHES):
        draw = random.Random(case)
        verb = draw.choice(["pull", "pull", *WORDS])
        exchange.restore()
        change = Change(
            draw.randrange(counts[verb]), draw, exchange.own.address, exchange.evil.address
        )
        exchange.own.rewrite = change
        capfd.readouterr()
        code = exchange.run(verb)
        said = capfd.readouterr().err
        what = f"case {case}, {verb}: {change.said}\n{said[-2000:]}"
        assert code not in {1, 130}, what
        assert code == 0 or "error: " in said, what
        assert "bug" not in said, what
        assert len(exchange.own.asked) + len(exchange.evil.asked) <= MOST_ASKED[verb], what
        assert exchange.evil.secrets() == [], what
        _check_repository(exchange, verb, code, what)


def _check_repository(exchange: Exchange, verb: str, code: int, what: str) -> None:
    """An image is there as a whole and by its digest, or not at all; bytes that came may wait."""
    here = ImageRepository(exchange.folder / "repo")
    images = exchange.folder / "repo/images"
    left = sorted(os.listdir(images)) if images.is_dir() else []
    if verb == "pull" and code == 0:
        (record,) = here.records()
        assert files.sha256(record.file) == record.digest == exchange.sha256, what
        assert left == [record.digest], what
        return
    assert here.records() == (), what
    assert [name for name in left if not name.startswith(".part-")] == [], what
