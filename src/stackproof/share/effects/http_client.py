"""Requests to a server and its answers: redirects, proxies, certificates, patience, lost bytes.

It stands on `http.client` because registries need what urllib hides: a secret that does not follow
a redirect to another host, an answer that ends early told from a whole one, and bytes read straight
into a buffer. See docs/decisions/009-registry-client.md.
"""

from __future__ import annotations

import contextlib
import email.message
import email.utils
import glob
import http.client
import json
import os
import socket
import ssl
import threading
import time
import urllib.parse
import urllib.request
import weakref
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from stackproof import __version__
from stackproof.core import limits
from stackproof.core.errors import Location, Reason, StackproofError, fail

_TIMEOUT_S = 60.0
_REDIRECTED_TIMES = 5
_ATTEMPTS = 4
_FIRST_WAIT_S = 0.25
_PATIENCE_S = 120.0
"""The longest that a server may ask to wait."""
_BLOCK = 1 << 20
_NO_ROOM = "no space left"
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_LATER = frozenset({429, 500, 502, 503, 504})
_CERTIFICATE_TIMES = {9: "not valid yet", 10: "expired"}
"""X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED of OpenSSL."""
_CERTIFICATE_FOLDERS = ("/etc/containers/certs.d", "/etc/docker/certs.d")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """What is asked; `secret` is the header Authorization, for the host of `url` alone.

    One that is not `again` is sent once: what it did is asked before it is repeated.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    secret: str = ""
    again: bool = True

    @property
    def place(self) -> str:
        """The address without its query, which may hold what is nobody's business."""
        return self.url.partition("?")[0]


class HttpAnswer:
    """An answer, to be read to its end or closed."""

    def __init__(self, client: HttpClient, origin: _Origin, connection: http.client.HTTPConnection,
                 response: http.client.HTTPResponse, url: str) -> None:  # fmt: skip
        self.status = response.status
        self.headers = response.headers
        self.url = url
        self._client, self._origin = client, origin
        self._connection, self._response = connection, response

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection, for the next request where the answer was read to its end."""
        whole = self._response.isclosed() and not self._response.length
        if whole and not self._response.will_close:
            self._client.keep(self._origin, self._connection)
        else:
            self._response.close()  # of a connection that the server closes it has the socket
            self._connection.close()

    def read_into(self, buffer: memoryview) -> int:
        """Read the next bytes, 0 at the end; raises ANSWER_TRUNCATED, NO_NETWORK."""
        try:
            count = self._response.readinto(buffer)
        except http.client.IncompleteRead:
            raise self.cut() from None
        except (OSError, http.client.HTTPException) as error:
            raise _unreachable(self.place, error) from error
        if count == 0 and len(buffer) and (self._response.length or 0) > 0:
            raise self.cut()
        return count

    def read(self, most: int) -> bytes:
        """Return all that there is; raises TOO_LARGE beyond `most` bytes, and as `read_into`."""
        content = bytearray()
        buffer = memoryview(bytearray(min(most + 1, _BLOCK)))
        while count := self.read_into(buffer):
            content += buffer[:count]
            if len(content) > most:
                raise fail(
                    Reason.TOO_LARGE,
                    f"the answer of `{self.place}` is longer than {most} bytes",
                    where=Location(file=self.place),
                )
        return bytes(content)

    def words(self) -> str:
        """Return what a server says of an error, in its own words; empty where it says nothing."""
        try:
            content = self.read(limits.SMALL_RECORD.bytes)
        except StackproofError:
            return ""
        try:
            errors = json.loads(content)["errors"]
            said = (
                f"{one['code']} {one.get('message', '')} {one.get('detail') or ''}"
                for one in errors
            )
            return "; ".join(" ".join(one.split()) for one in said)[:300]
        except (ValueError, KeyError, TypeError, AttributeError):
            # A server that wants TLS says so as plain text, without a header.
            plain = self.headers.get("Content-Type", "text/plain").startswith("text/plain")
            return " ".join(content.decode(errors="replace").split())[:300] if plain else ""

    @property
    def place(self) -> str:
        """The address that answered, without its query."""
        return self.url.partition("?")[0]

    def cut(self) -> StackproofError:
        """Return the error of an answer that ends too early."""
        return fail(
            Reason.ANSWER_TRUNCATED,
            f"the answer of `{self.place}` ends too early",
            where=Location(file=self.place),
            hint="run the command again: it goes on with what has come",
        )


_Origin = tuple[str, str]


class HttpClient:
    """Connections to servers, kept for the next request; several threads may use one client.

    `certificates` names a file of certificate authorities besides those of the system. Everything
    raises `StackproofError`: NO_NETWORK, CERTIFICATE, REDIRECT_REFUSED, REGISTRY_BUSY where a
    server asks for more patience than two minutes, REGISTRY_FAILED for errors of its own.
    """

    def __init__(self, *, certificates: str = "") -> None:
        self._certificates = certificates
        self._idle: dict[_Origin, list[http.client.HTTPConnection]] = {}
        self._lock = threading.Lock()
        self.close = weakref.finalize(self, _close_all, self._idle)
        """Close what is open; it is done when nobody has the client any more, too."""

    def keep(self, origin: _Origin, connection: http.client.HTTPConnection) -> None:
        """Take a connection back."""
        with self._lock:
            self._idle.setdefault(origin, []).append(connection)

    def send(self, request: HttpRequest) -> HttpAnswer:
        """Return the answer to a request, whatever its status, after redirects and patience."""
        waited = 0.0
        for attempt in range(1, _ATTEMPTS + 1):
            last = attempt == _ATTEMPTS or not request.again
            pause = _FIRST_WAIT_S * 2 ** (attempt - 1)
            try:
                answer = self._follow(request)
            except StackproofError as error:
                if last or error.reason is not Reason.NO_NETWORK:
                    raise
            else:
                if answer.status not in _LATER:
                    return answer
                asked = _wait_asked(answer.headers)
                said = answer.words()
                answer.close()
                pause = pause if asked is None else asked
                if last or waited + pause > _PATIENCE_S:
                    raise _too_busy(answer, asked, said)
            time.sleep(pause)
            waited += pause
        raise AssertionError  # the last attempt returns or raises

    def _follow(self, request: HttpRequest) -> HttpAnswer:
        url, secret = request.url, request.secret
        for _ in range(_REDIRECTED_TIMES + 1):
            answer = self._once(request, url, secret)
            target = answer.headers.get("Location", "")
            if answer.status not in _REDIRECTS or not target:
                return answer
            answer.close()
            if request.method not in {"GET", "HEAD"}:
                raise _redirected(url, "a change is not sent on to another address")
            new = urllib.parse.urljoin(url, target)
            before, after = urllib.parse.urlsplit(url), urllib.parse.urlsplit(new)
            if after.scheme not in {"http", "https"} or (before.scheme, after.scheme) == (
                "https",
                "http",
            ):
                raise _redirected(url, f"`{after.scheme}://{after.hostname}` is not encrypted")
            if _origin(before) != _origin(after):
                secret = ""  # another server has no business with it
            url = new
        raise _redirected(url, f"there are more than {_REDIRECTED_TIMES} one after another")

    def _once(self, request: HttpRequest, url: str, secret: str) -> HttpAnswer:
        parts = urllib.parse.urlsplit(url)
        origin = _origin(parts)
        proxy = _proxy_of(parts)
        target = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
        headers = {"User-Agent": f"stackproof/{__version__}", **request.headers}
        if secret:
            headers["Authorization"] = secret
        if proxy is not None and parts.scheme == "http":
            target = urllib.parse.urlunsplit(parts._replace(fragment=""))
            headers |= _proxy_headers(proxy)
        place = url.partition("?")[0]
        for used in (True, False):
            connection = self._idle_connection(origin) if used else self._new(parts, proxy)
            if connection is None:
                continue
            try:
                connection.request(request.method, target, body=request.body, headers=headers)
                response = connection.getresponse()
            except (OSError, http.client.HTTPException, ValueError) as error:
                connection.close()
                if (
                    used
                    and isinstance(error, (OSError, http.client.HTTPException))
                    and request.again
                ):
                    continue  # the server has closed it meanwhile
                raise _unreachable(place, error) from error
            return HttpAnswer(self, origin, connection, response, url)
        raise AssertionError  # a new connection answers or raises

    def _idle_connection(self, origin: _Origin) -> http.client.HTTPConnection | None:
        with self._lock:
            idle = self._idle.get(origin)
            return idle.pop() if idle else None

    def _new(
        self, parts: urllib.parse.SplitResult, proxy: urllib.parse.SplitResult | None
    ) -> http.client.HTTPConnection:
        host, port = parts.hostname or "", parts.port
        via, via_port = (
            (host, port) if proxy is None else (proxy.hostname or "", proxy.port or 3128)
        )
        if parts.scheme == "http":
            return http.client.HTTPConnection(via, via_port, timeout=_TIMEOUT_S, blocksize=_BLOCK)
        context = self._context(parts.netloc.rpartition("@")[2])
        connection = http.client.HTTPSConnection(
            via, via_port, timeout=_TIMEOUT_S, blocksize=_BLOCK, context=context
        )
        if proxy is not None:
            connection.set_tunnel(host, port, _proxy_headers(proxy))
        return connection

    def _context(self, host: str) -> ssl.SSLContext:
        """Return what certificates are checked against: the system's, a file's, and `certs.d`."""
        context = ssl.create_default_context()
        named = [self._certificates] if self._certificates else []
        for folder in _CERTIFICATE_FOLDERS:
            named += sorted(glob.glob(f"{glob.escape(folder)}/{glob.escape(host)}/*.crt"))
        for path in named:
            try:
                context.load_verify_locations(cafile=path)
            except (OSError, ssl.SSLError) as error:
                raise fail(
                    Reason.CERTIFICATE,
                    f"`{path}` holds no certificates that can be read: {error}",
                    where=Location(file=path),
                    hint="a file of certificate authorities is PEM",
                ) from error
        return context


def _close_all(idle: dict[_Origin, list[http.client.HTTPConnection]]) -> None:
    for connections in idle.values():
        for one in connections:
            one.close()
    idle.clear()


def _origin(parts: urllib.parse.SplitResult) -> _Origin:
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    return parts.scheme, f"{(parts.hostname or '').lower()}:{port}"


def _proxy_of(parts: urllib.parse.SplitResult) -> urllib.parse.SplitResult | None:
    """Return the proxy that the environment names for a server, as curl and Python read it."""
    proxies = urllib.request.getproxies_environment()
    text = proxies.get(parts.scheme) or proxies.get("all", "")
    host = parts.netloc.rpartition("@")[2]
    if not text or _bypassed(host, proxies):
        return None
    found = urllib.parse.urlsplit(text if "://" in text else f"http://{text}")
    if found.scheme != "http" or not found.hostname:
        raise fail(
            Reason.UNSUPPORTED,
            f"the proxy for `{parts.scheme}` is of the kind `{found.scheme}`",
            hint="name one with http://, or none for this server: NO_PROXY",
        )
    return found


def _bypassed(host: str, proxies: dict[str, str]) -> bool:
    return bool(urllib.request.proxy_bypass_environment(host, proxies))  # type: ignore[attr-defined]  # typeshed lacks it


def _proxy_headers(proxy: urllib.parse.SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    who = f"{urllib.parse.unquote(proxy.username)}:{urllib.parse.unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {b64encode(who.encode()).decode()}"}


def _wait_asked(headers: email.message.Message) -> float | None:
    """Return the seconds that a server asks to wait: a number, or a time by its own clock."""
    text = headers.get("Retry-After", "")
    if text.isdecimal():
        return float(text)
    with contextlib.suppress(TypeError, ValueError):
        until = email.utils.parsedate_to_datetime(text)
        now = email.utils.parsedate_to_datetime(headers.get("Date", ""))
        return max((until - now).total_seconds(), 0.0)
    return None


def _too_busy(answer: HttpAnswer, asked: float | None, said: str) -> StackproofError:
    place = answer.place
    if _NO_ROOM in said:
        return fail(
            Reason.DISK_FULL,
            f"the server of `{place}` has no space left: {said}",
            where=Location(file=place),
            hint="tell who keeps it; what was sent is gone on with",
        )
    if answer.status in {429, 503}:
        wait = f", and asks to wait {asked:.0f} s" if asked is not None else ""
        return fail(
            Reason.REGISTRY_BUSY,
            f"the server of `{place}` has too much to do ({answer.status}){wait}",
            where=Location(file=place),
            hint="try again later: what has come is kept",
        )
    return fail(
        Reason.REGISTRY_FAILED,
        f"the server of `{place}` failed by itself ({answer.status}): {said or 'no reason'}",
        where=Location(file=place),
        hint="try again later, or tell who keeps it: what has come is kept",
    )


def _redirected(url: str, why: str) -> StackproofError:
    place = url.partition("?")[0]
    return fail(
        Reason.REDIRECT_REFUSED,
        f"`{place}` sends to another address, which is not followed: {why}",
        where=Location(file=place),
        hint="tell who keeps the registry",
    )


def _unreachable(place: str, error: Exception) -> StackproofError:
    where = Location(file=place)
    if isinstance(error, ssl.SSLCertVerificationError):
        when = _CERTIFICATE_TIMES.get(error.verify_code, "")
        today = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
        return fail(
            Reason.CERTIFICATE,
            f"the certificate of `{place}` is not accepted: {when or error.verify_message}",
            where=where,
            hint=f"is the clock of this machine right? it says {today} UTC"
            if when
            else "name the site's certificate authority: --ca FILE, SSL_CERT_FILE, or "
            f"{_CERTIFICATE_FOLDERS[0]}/HOST/ca.crt",
        )
    name = os.path.basename(urllib.parse.urlsplit(place).netloc)
    text = str(error) or type(error).__name__
    if isinstance(error, socket.gaierror):
        text = f"there is no host of that name: {error.strerror}"
    elif isinstance(error, TimeoutError):
        text = f"no answer within {_TIMEOUT_S:.0f} s"
    return fail(
        Reason.NO_NETWORK,
        f"the server `{name}` cannot be reached: {text}",
        where=where,
        hint="check the address, the network, and the variables HTTPS_PROXY and NO_PROXY",
    )
