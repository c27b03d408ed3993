"""Registries for tests: docker-registry as it is packaged, and a server of our own that can fail.

`OwnRegistry` keeps what refers to a manifest (which docker-registry does not), asks for tokens,
redirects, and does wrong on demand: a `Fault` answers the requests that it fits, so many times. What
it was asked, and the bytes that it gave, are there to be looked at.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.server
import json
import os
import re
import socket
import subprocess
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest
from msgspec import Struct, field

from servers import QuietServer
from stackproof.core.value import Value

HttpReply = tuple[int, bytes] | tuple[int, bytes, dict[str, str]]
"""A status, a body, and headers."""
INDEX = "application/vnd.oci.image.index.v1+json"
_CONFIG = """version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage:
  filesystem: {{rootdirectory: {folder}}}
  delete: {{enabled: {delete}}}
http: {{addr: "127.0.0.1:{port}", secret: of-this-test}}
{auth}"""


def be_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have caches, images and logins in a folder, and no proxy, whatever this machine has."""
    monkeypatch.setenv("STACKPROOF_CACHE", str(folder / "cache"))
    monkeypatch.setenv("STACKPROOF_REPOSITORY", str(folder / "repo"))
    monkeypatch.setenv("HOME", str(folder))
    names = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
    for name in (
        "REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "DOCKER_CONFIG", "CLUSTER_NAME",
        *names, *map(str.upper, names),
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextlib.contextmanager
def docker_registry(
    folder: Path, *, auth: str = "", delete: bool = True, room: str = ""
) -> Iterator[str]:
    """Run docker-registry with its data in a folder; give its host and port.

    With `room`, such as `2m`, the folder is a file system of that size, which it alone sees.
    """
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "config.yml"
    config.write_text(
        _CONFIG.format(folder=folder / "data", port=port, auth=auth, delete=str(delete).lower())
    )
    with (folder / "log").open("wb") as log:
        argv = ["docker-registry", "serve", str(config)]
        if room:
            mount = f'mkdir "$0" && mount -t tmpfs -o size={room} none "$0" && exec "$@"'
            argv = ["unshare", "--mount", "sh", "-c", mount, str(folder / "data"), *argv]
        server = subprocess.Popen(argv, stdout=log, stderr=log)
    try:
        end = time.monotonic() + 600
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert server.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < end, (folder / "log").read_text()
            time.sleep(0.02)
        yield f"127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


class Fault(Struct):
    """What goes wrong: `cut` or `stall` after so many bytes, one `flip`ped, another `status`.

    It begins after so many requests that it leaves alone (`skip`).
    """

    match: str
    method: str = "GET"
    times: int = 1
    skip: int = 0
    cut: int | None = None
    stall: int | None = None
    flip: bool = False
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class Asked(Value, kw_only=False):
    method: str
    path: str
    headers: dict[str, str]
    sent: int = 0


class Reply(Struct):
    """An answer before it is bytes."""

    status: int | str
    headers: list[tuple[str, str]]
    body: bytes

    def raw(self) -> bytes:
        head = [f"HTTP/1.1 {self.status} so", *(f"{name}: {text}" for name, text in self.headers)]
        if not any(name.lower() in {"content-length", "transfer-encoding"}
                   for name, _ in self.headers) and self.status != 204:  # fmt: skip
            head.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join((*head, "", "")).encode(errors="surrogateescape") + self.body


class OwnRegistry:
    """A registry in this process; `address` is that of its server, without a scheme."""

    def __init__(
        self,
        *,
        referrers: bool = True,
        mounts: bool = True,
        ranges: bool = True,
        catalog: bool = True,
        login: str = "",
        token: bool = False,
        page: int = 1000,
    ) -> None:
        self.referrers, self.mounts, self.ranges, self.catalog = referrers, mounts, ranges, catalog
        self.login, self.token, self.page = login, token, page
        self.blobs: dict[tuple[str, str], bytes] = {}
        self.manifests: dict[tuple[str, str], tuple[str, bytes]] = {}
        self.tags: dict[str, dict[str, str]] = {}
        self.uploads: dict[str, bytearray] = {}
        self.faults: list[Fault] = []
        self.asked: list[Asked] = []
        self.lock = threading.RLock()
        self.release = threading.Event()
        self.rewrite: Callable[[Asked, Reply], bytes | None] | None = None
        """What gives the bytes of an answer in the place of the server, if any."""
        registry = self

        class Handler(_Handler):
            own = registry

        self.server = QuietServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def given(self, pattern: str = "/blobs/sha256:") -> int:
        """Return how many bytes of bodies were given to requests whose path fits."""
        return sum(one.sent for one in self.asked if re.search(pattern, one.path))

    def count(self, method: str, pattern: str) -> int:
        return sum(
            one.method == method and bool(re.search(pattern, one.path)) for one in self.asked
        )

    def fault(self, method: str, path: str) -> Fault | None:
        for one in self.faults:
            if one.times and one.method == method and re.search(one.match, path):
                if one.skip:
                    one.skip -= 1
                    continue
                one.times -= 1
                return one
        return None


class _Handler(http.server.BaseHTTPRequestHandler):
    own: OwnRegistry
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        pass

    def _any(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if len(body) < length:  # its client was killed: half a manifest is none
            self.close_connection = True
            return
        fault = self.own.fault(self.command, self.path)
        path, _, query = self.path.partition("?")
        fields = dict(urllib.parse.parse_qsl(query))
        if fault is not None and fault.status:
            self._answer(fault.status, fault.body, fault.headers)
        elif path == "/token":
            self._give_token(fields | dict(urllib.parse.parse_qsl(body.decode())))
        elif not self._is_known():
            self._challenge(path)
        else:
            with self.own.lock:
                answer = self._route(path, fields, body)
            headers = answer[2] if len(answer) == 3 else {}
            self._answer(answer[0], answer[1], headers, fault)

    do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = do_DELETE = _any  # noqa: N815

    def _is_known(self) -> bool:
        said = self.headers.get("Authorization", "")
        if self.own.token:
            return said == "Bearer of-this-test"
        return not self.own.login or said == self._basic()

    def _basic(self) -> str:
        return "Basic " + base64.b64encode(self.own.login.encode()).decode()

    def _give_token(self, fields: dict[str, str]) -> None:
        refresh = self.own.login.partition(":")[2] == fields.get("refresh_token")
        known = not self.own.login or refresh or self.headers.get("Authorization") == self._basic()
        fine = known and fields.get("service") == "test" and fields.get("scope")
        content = json.dumps({"token": "of-this-test", "expires_in": 300}).encode()
        self._answer(200 if fine else 401, content if fine else b"{}")

    def _challenge(self, path: str) -> None:
        kind = f'Bearer realm="http://{self.own.address}/token",service="test",scope="of:{path}"'
        self._answer(401, b"{}", {
            "WWW-Authenticate": kind if self.own.token else 'Basic realm="test"'
        })  # fmt: skip

    def _route(self, path: str, fields: dict[str, str], body: bytes) -> HttpReply:
        own, method = self.own, self.command
        if path == "/v2/_catalog":
            names = sorted({name for name, _ in own.manifests}) if own.catalog else None
            return _error(404) if names is None else self._page(path, fields, "repositories", names)
        match = re.fullmatch(r"/v2/(.+)/(manifests|blobs|tags|referrers)/(.*)", path)
        if not match:
            return (200, b"{}") if path == "/v2/" else _error(404)
        name, kind, rest = match.groups()
        if kind == "tags":
            names = sorted(own.tags.get(name, {}))
            return self._page(path, fields, "tags", names) if names else _error(404)
        if kind == "referrers":
            return self._referrers(name, rest) if own.referrers else _error(404)
        if kind == "manifests":
            return self._manifest(method, name, rest, body)
        if rest.startswith("uploads/"):
            return self._upload(method, name, rest.removeprefix("uploads/"), fields, body)
        return self._blob(name, rest)

    def _page(self, path: str, fields: dict[str, str], key: str, names: list[str]) -> HttpReply:
        left = [one for one in names if one > fields.get("last", "")]
        count = min(int(fields.get("n", 1000)), self.own.page)
        headers = {}
        if len(left) > count:
            link = f"{path}?n={count}&last={left[count - 1]}"
            headers["Link"] = f'<{link}>; rel="next"'
        return 200, json.dumps({key: left[:count]}).encode(), headers

    def _referrers(self, name: str, digest: str) -> HttpReply:
        found = []
        for (repository, its), (kind, content) in self.own.manifests.items():
            data = json.loads(content)
            if repository == name and data.get("subject", {}).get("digest") == digest:
                found.append({
                    "mediaType": kind, "digest": its, "size": len(content),
                    "artifactType": data.get("artifactType") or data["config"]["mediaType"],
                    "annotations": data.get("annotations"),
                })  # fmt: skip
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": found}
        return 200, json.dumps(index).encode(), {"Content-Type": INDEX}

    def _manifest(self, method: str, name: str, reference: str, body: bytes) -> HttpReply:
        own = self.own
        if method == "PUT":
            digest = _digest(body)
            own.manifests[name, digest] = (self.headers["Content-Type"], body)
            if not reference.startswith("sha256:"):
                own.tags.setdefault(name, {})[reference] = digest
            headers = {"Docker-Content-Digest": digest}
            subject = json.loads(body).get("subject")
            if subject and own.referrers:
                headers["OCI-Subject"] = subject["digest"]
            return 201, b"", headers
        digest = own.tags.get(name, {}).get(reference, reference)
        if (name, digest) not in own.manifests:
            return _error(404)
        if method == "DELETE":
            del own.manifests[name, digest]
            tags = own.tags.get(name, {})
            own.tags[name] = {tag: its for tag, its in tags.items() if its != digest}
            return 202, b""
        kind, content = own.manifests[name, digest]
        return 200, content, {"Content-Type": kind, "Docker-Content-Digest": digest}

    def _blob(self, name: str, digest: str) -> HttpReply:
        content = self.own.blobs.get((name, digest))
        if content is None:
            return _error(404)
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not asked or not self.own.ranges:
            return 200, content
        first, last = int(asked[1]), int(asked[2] or len(content) - 1)
        if first >= len(content):
            return _error(416)
        return 206, content[first : last + 1]

    def _upload(
        self, method: str, name: str, session: str, fields: dict[str, str], body: bytes
    ) -> HttpReply:
        own = self.own
        if method == "POST":
            source = (fields.get("from", ""), fields.get("mount", ""))
            if own.mounts and source in own.blobs:
                own.blobs[name, source[1]] = own.blobs[source]
                return 201, b"", {"Location": f"/v2/{name}/blobs/{source[1]}"}
            session = os.urandom(6).hex()
            own.uploads[session] = bytearray()
            return 202, b"", {"Location": f"/v2/{name}/blobs/uploads/{session}?state=a"}
        if session not in own.uploads:
            return _error(404)
        there = own.uploads[session]
        if method == "PATCH":
            first = int(self.headers["Content-Range"].partition("-")[0])
            if first != len(there):
                return _error(416)
            there += body
        elif method == "PUT":
            there += body
            if _digest(bytes(there)) != fields["digest"]:
                return _error(400)
            own.blobs[name, fields["digest"]] = bytes(own.uploads.pop(session))
            return 201, b"", {"Location": f"/v2/{name}/blobs/{fields['digest']}"}
        where = f"http://{own.address}/v2/{name}/blobs/uploads/{session}?state=b"
        headers = {"Location": where, "Range": f"0-{max(len(there) - 1, 0)}"}
        return (202 if method == "PATCH" else 204), b"", headers

    def _answer(
        self, status: int, body: bytes = b"", headers: dict[str, str] | None = None,
        fault: Fault | None = None,
    ) -> None:  # fmt: skip
        if fault is not None and fault.flip and body:
            body = body[:-1] + bytes([body[-1] ^ 1])
        sent = b"" if self.command == "HEAD" else body
        if fault is not None and fault.cut is not None:
            sent = sent[: fault.cut]
        asked = Asked(self.command, self.path, dict(self.headers), len(sent))
        self.own.asked.append(asked)
        if self.own.rewrite is not None:
            raw = self.own.rewrite(asked, Reply(status, list((headers or {}).items()), body))
            if raw is not None:
                with contextlib.suppress(OSError):
                    self.wfile.write(raw)
                self.close_connection = True
                return
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):
            if fault is not None and fault.stall is not None:
                self.wfile.write(sent[: fault.stall])
                self.own.release.wait(60)
                sent = sent[fault.stall :]
            self.wfile.write(sent)
        if len(sent) < len(body) and self.command != "HEAD":
            self.close_connection = True


def _error(status: int) -> HttpReply:
    return status, json.dumps(
        {"errors": [{"code": f"OF_{status}", "message": "so it is"}]}
    ).encode()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class CutLine:
    """A line to a server at an address, which can be cut: `address` is that of its near end.

    As long as there are `cuts`, each new connection takes one: after so many bytes for the client
    it ends. After `stop` pieces of uploads no more of a client is taken. `given` are the bytes that
    clients were given, `pieces` those of their uploads.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self.cuts: list[int] = []
        self.stop = self.given = self.pieces = 0
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def wait_stopped(self) -> None:
        assert self._stopped.wait(60)
        self._stopped.clear()

    def _serve(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            far = socket.create_connection(self._target)
            with self._lock:
                left = self.cuts.pop(0) if self.cuts else None
            for work in ((self._to_server, near, far), (self._to_client, far, near, left)):
                threading.Thread(target=work[0], args=work[1:], daemon=True).start()

    def _to_server(self, near: socket.socket, far: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while content := near.recv(65536):
                with self._lock:
                    self.pieces += content.startswith(b"PATCH ")
                    stopped = 0 < self.stop < self.pieces
                if stopped:
                    self._stopped.set()
                    # It waits until it is killed: a client that was cut off would try again.
                    while near.recv(65536):
                        pass
                    break
                far.sendall(content)
        self._end(far)

    def _to_client(self, far: socket.socket, near: socket.socket, left: int | None) -> None:
        with contextlib.suppress(OSError):
            while (left is None or left > 0) and (content := far.recv(65536)):
                content = content[:left]
                left = None if left is None else left - len(content)
                with self._lock:
                    self.given += len(content)
                near.sendall(content)
        self._end(near, far)

    @staticmethod
    def _end(*ends: socket.socket) -> None:
        for one in ends:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
