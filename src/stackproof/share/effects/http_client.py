"""Requests to a server and its answers: redirects, proxies, certificates, patience, lost bytes.

It stands on `http.client` because registries need what urllib hides: a secret that does not follow
a redirect to another host, an answer that ends early told from a whole one, and bytes read straight
into a buffer. See docs/decisions/009-registry-client.md.
"""

from __future__ import annotations

import contextlib
import email.message
import email.utils
import functools
import glob
import http.client
import os
import re
import socket
import ssl
import threading
import time
import urllib.parse
import urllib.request
import weakref
from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Self, cast

from msgspec import field

from stackproof import __version__
from stackproof.core import limits
from stackproof.core.effects import patience
from stackproof.core.effects.patience import TIMEOUT_S, Budget, TimedResponse
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.limits import Limit
from stackproof.core.value import Value, replace
from stackproof.share import answers, origins
from stackproof.share.origins import Secret, WebAddress, WebOrigin

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


class HttpRequest(Value):
    """What is asked; `secret` goes to the server that it is for, and by no redirect to another.

    One that is not `again` is sent once: what it did is asked before it is repeated.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    secret: Secret | None = None
    again: bool = True


class HttpAnswer:
    """An answer, to be read to its end or closed; `address` is where it came from in the end."""

    def __init__(
        self, client: HttpClient, address: WebAddress, connection: http.client.HTTPConnection,
        response: TimedResponse,
    ) -> None:  # fmt: skip
        self.status = response.status
        self.headers = response.headers
        self.address = address
        self._client, self._budget = client, client.budget
        self._connection, self._response = connection, response

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection, for the next request where the answer was read to its end."""
        whole = self._response.isclosed() and not self._response.length
        if whole and not self._response.will_close:
            self._client.keep(self.address.origin, self._connection)
        else:
            self.discard()

    def discard(self) -> None:
        """Close the connection, whatever of the answer is still to come."""
        self._response.close()  # of a connection that the server closes it has the socket
        self._connection.close()

    def read_into(self, buffer: memoryview) -> int:
        """Read the next bytes, 0 at the end; raises ANSWER_TRUNCATED, NO_NETWORK."""
        try:
            with self._budget.waiting() as until:
                count = self._response.read_until(until, buffer)
        except http.client.IncompleteRead:
            raise self.cut() from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise _unreachable(self.place, error) from error
        self._budget.passed(count)
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
        """Return a server's own words on an error; empty where it says nothing."""
        try:
            content = self.read(limits.SMALL_RECORD.bytes)
        except StackproofError:
            return ""
        try:
            errors = answers.parse_object(content)["errors"]
            said = (
                f"{one['code']} {one.get('message', '')} {one.get('detail') or ''}"
                for one in errors
            )
            return "; ".join(" ".join(one.split()) for one in said)[:300]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            # A server that wants TLS says so as plain text, without a header.
            plain = self.headers.get("Content-Type", "text/plain").startswith("text/plain")
            return " ".join(content.decode(errors="replace").split())[:300] if plain else ""

    @property
    def place(self) -> str:
        """The address that answered, without its query."""
        return self.address.place

    def location(self) -> str:
        """Return the whole address that the header Location names; empty without one.

        Raises `StackproofError` for one that is none, or not to be followed: `origins.resolve`.
        """
        text = self.headers.get("Location", "")
        return str(origins.resolve(self.address, text)) if text else ""

    def cut(self) -> StackproofError:
        """Return the error of an answer that ends too early."""
        return fail(
            Reason.ANSWER_TRUNCATED,
            f"the answer of `{self.place}` ends too early",
            where=Location(file=self.place),
            hint="run the command again: it goes on with what has come",
        )


class HttpClient:
    """Connections to servers, kept for the next request; several threads may use one client.

    `certificates` names a file of certificate authorities besides those of the system. Everything
    raises `StackproofError`: NO_NETWORK, CERTIFICATE, REDIRECT_REFUSED, REGISTRY_BUSY where a
    server asks for more patience than two minutes, REGISTRY_FAILED for errors of its own,
    REGISTRY_ANSWER for addresses and lengths that are none, and what a `budget` does.
    """

    def __init__(self, *, certificates: str = "") -> None:
        self._certificates = certificates
        self.budget = Budget(limits.REQUESTS)
        self._idle: dict[WebOrigin, list[http.client.HTTPConnection]] = {}
        self._lock = threading.Lock()
        self.close = weakref.finalize(self, _close_all, self._idle)
        """Close what is open; it is done when nobody has the client any more, too."""

    @contextlib.contextmanager
    def within(self, limit: Limit) -> Iterator[None]:
        """Let what is done meanwhile ask for no more than a limit has."""
        before, self.budget = self.budget, Budget(limit)
        try:
            yield
        finally:
            self.budget = before

    def keep(self, origin: WebOrigin, connection: http.client.HTTPConnection) -> None:
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
                if last or waited + pause > _PATIENCE_S or not self.budget.allows(pause):
                    raise _too_busy(answer, asked, said)
            time.sleep(pause)
            waited += pause
            self.budget.waited(pause)
        raise AssertionError  # the last attempt returns or raises

    def _follow(self, request: HttpRequest) -> HttpAnswer:
        address = origins.parse(request.url)
        for _ in range(_REDIRECTED_TIMES + 1):
            answer = self._once(request, address)
            if answer.status not in _REDIRECTS or not answer.headers.get("Location"):
                return answer
            answer.close()
            if request.method not in {"GET", "HEAD"}:
                raise _redirected(address, "a change is not sent on to another address")
            before, address = address.origin, origins.parse(answer.location())
            if address.origin != before:  # also where that one leads back: it has chosen the path
                request = replace(request, secret=None)
        raise _redirected(address, f"there are more than {_REDIRECTED_TIMES} one after another")

    def _once(self, request: HttpRequest, address: WebAddress) -> HttpAnswer:
        proxy = _proxy_of(address.origin)
        target = address.target
        headers = {"User-Agent": f"stackproof/{__version__}", **request.headers}
        if request.secret is not None and (secret := request.secret.header_for(address.origin)):
            headers["Authorization"] = secret
        if proxy is not None and address.origin.scheme == "http":
            target = str(address)
            headers |= _proxy_headers(proxy)
        for used in (True, False):
            connection = self._idle_connection(address.origin) if used else None
            if connection is None and used:
                continue
            self.budget.spend(address.place)
            try:
                if connection is None:
                    connection = self._new(address.origin, proxy)
                with self.budget.waiting() as until:
                    _send(connection, request, target, headers, until)
                self.budget.passed(len(request.body or b""))
                with self.budget.waiting() as until:
                    response = _head(connection, until)
            except (OSError, http.client.HTTPException, ValueError) as error:
                if connection is not None:
                    connection.close()
                if (
                    used
                    and isinstance(error, (OSError, http.client.HTTPException))
                    and request.again
                ):
                    continue  # the server has closed it meanwhile
                raise _unreachable(address.place, error) from error
            answer = HttpAnswer(self, address, connection, response)
            _check_framing(answer)
            return answer
        raise AssertionError  # a new connection answers or raises

    def _idle_connection(self, origin: WebOrigin) -> http.client.HTTPConnection | None:
        with self._lock:
            idle = self._idle.get(origin)
            return idle.pop() if idle else None

    def _new(
        self, origin: WebOrigin, proxy: urllib.parse.SplitResult | None
    ) -> http.client.HTTPConnection:
        via, via_port = (
            (origin.host, origin.port)
            if proxy is None
            else (proxy.hostname or "", proxy.port or 3128)
        )
        if origin.scheme == "http":
            return http.client.HTTPConnection(via, via_port, blocksize=_BLOCK)
        context = self._context(origin)
        connection = http.client.HTTPSConnection(via, via_port, blocksize=_BLOCK, context=context)
        if proxy is not None:
            connection.set_tunnel(origin.host, origin.port, _proxy_headers(proxy))
        return connection

    def _context(self, origin: WebOrigin) -> ssl.SSLContext:
        """Return the context that checks certificates: by the system's, a file's, and `certs.d`."""
        context = ssl.create_default_context()
        named = [self._certificates] if self._certificates else []
        for folder in _CERTIFICATE_FOLDERS:
            for host in sorted({origin.netloc, origin.with_port}):
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


def _send(
    connection: http.client.HTTPConnection, request: HttpRequest, target: str,
    headers: Mapping[str, str], until: float,
) -> None:  # fmt: skip
    """Send a request by a time, which connecting has as well."""
    if connection.sock is not None:
        patience.set_until(connection.sock, until)
    connection.timeout = max(until - time.monotonic(), 0.001)
    connection._create_connection = patience.connect  # type: ignore[attr-defined]  # noqa: SLF001 - theirs gives each address of a host the whole time
    connection.response_class = functools.partial(TimedResponse, until=until)  # type: ignore[assignment]  # a proxy's answer
    connection.request(request.method, target, body=request.body, headers=dict(headers))


def _head(connection: http.client.HTTPConnection, until: float) -> TimedResponse:
    """Return the answer, of which the head has come by a time."""
    connection.response_class = functools.partial(TimedResponse, until=until)  # type: ignore[assignment]  # it is called, and no more
    return cast("TimedResponse", connection.getresponse())


def _check_framing(answer: HttpAnswer) -> None:
    """Check what an answer says of its length, which http.client takes as it likes."""
    lengths = set(answer.headers.get_all("Content-Length", []))
    coding = answer.headers.get("Transfer-Encoding", "chunked").lower()
    length = next(iter(lengths), "0")
    fine = re.fullmatch("[0-9]{1,19}", length) and int(length) <= answers.LARGEST
    if len(lengths) > 1 or not fine or coding != "chunked":
        answer.discard()
        raise fail(
            Reason.REGISTRY_ANSWER,
            f"the answer of `{answer.place}` has no length that can be understood",
            where=Location(file=answer.place),
            hint="is this the address of a registry?",
        )


def _close_all(idle: dict[WebOrigin, list[http.client.HTTPConnection]]) -> None:
    for connections in idle.values():
        for one in connections:
            one.close()
    idle.clear()


def _proxy_of(origin: WebOrigin) -> urllib.parse.SplitResult | None:
    """Return the proxy that the environment names for a server; none for this machine.

    It is read as curl and Python do, but what is for this machine, passwords too, stays on it.
    """
    proxies = urllib.request.getproxies_environment()
    text = proxies.get(origin.scheme) or proxies.get("all", "")
    if not text or origin.is_this_machine or _bypassed(origin.netloc, proxies):
        return None
    try:
        proxy = urllib.parse.urlsplit(text if "://" in text else f"http://{text}")
        fine = proxy.scheme == "http" and proxy.hostname and proxy.port != 0
    except ValueError:
        fine = False
    if not fine:
        raise fail(
            Reason.UNSUPPORTED,
            f"the proxy for `{origin.scheme}` cannot be used: it is of another kind, or no address",
            hint="name one with http://, or none for this server: NO_PROXY",
        )
    return proxy


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
    if re.fullmatch("[0-9]{1,9}", text):
        return float(text)
    with contextlib.suppress(TypeError, ValueError, OverflowError):
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
            hint="tell its administrator; the next try goes on where this one stopped",
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


def _redirected(address: WebAddress, why: str) -> StackproofError:
    place = address.place
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
        text = f"no answer in time, {TIMEOUT_S:.0f} s at most"
    return fail(
        Reason.NO_NETWORK,
        f"the server `{name}` cannot be reached: {text}",
        where=where,
        hint="check the address, the network, and the variables HTTPS_PROXY and NO_PROXY",
    )
