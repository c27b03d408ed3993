"""Addresses on servers, strictly read, and the one place that says where a credential may go.

    text --parse--> WebAddress        an address that a user or a file of this machine names
    text --resolve--> WebAddress      one that a server names: a redirect, a next page, an upload

An origin is a scheme, a host and a port. A secret is for one origin, and `Secret.header_for` gives
it to no other. What two programs could read in two ways (blanks, backslashes, letters that are not
ASCII, names and passwords in front of a host) is no address here.
"""

from __future__ import annotations

import ipaddress
import re
import urllib.parse
from collections.abc import Mapping

from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.value import Value, replace

_PORTS = {"http": 80, "https": 443}
_TEXT = re.compile(r"[!-\[\]-~]+")
"""Printable ASCII without the blank and the backslash."""
_NAME = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")


class WebOrigin(Value):
    """A server: `host` has small letters, and no brackets around an address of IPv6."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.scheme}://{self.netloc}"

    @property
    def netloc(self) -> str:
        """Host and port, without the port that the scheme has by itself."""
        usual = self.port == _PORTS[self.scheme]
        return self.with_port.rpartition(":")[0] if usual else self.with_port

    @property
    def with_port(self) -> str:
        """Host and port, always with both."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def is_this_machine(self) -> bool:
        """True for the machine itself by its very name."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def is_private(self) -> bool:
        """True where nobody on the way can read what is sent."""
        return self.scheme == "https" or self.is_this_machine


class WebAddress(Value):
    """An address on a server: `target` is its path with its query."""

    origin: WebOrigin
    target: str

    def __str__(self) -> str:
        return f"{self.origin}{self.target}"

    @property
    def place(self) -> str:
        """The address without its query, which may hold what is nobody's business."""
        return str(self).partition("?")[0]

    def with_query(self, fields: Mapping[str, str]) -> WebAddress:
        """Return the address with more fields in its query."""
        separator = "&" if "?" in self.target else "?"
        return replace(self, target=f"{self.target}{separator}{urllib.parse.urlencode(fields)}")


class Secret(Value):
    """A header `Authorization`, and the only server that it is for."""

    header: str
    origin: WebOrigin

    def __repr__(self) -> str:
        return f"Secret(origin={self.origin!r})"

    def header_for(self, origin: WebOrigin) -> str:
        """Return the header for a server; empty for every other than its own."""
        return self.header if origin == self.origin else ""


def parse(text: str) -> WebAddress:
    """Return the parts of an address; raises `StackproofError` (REGISTRY_ANSWER) for what is none.

    Its fragment, which is never sent, is left out.
    """
    if not _TEXT.fullmatch(text):
        raise _no_address(text, "it has signs that no address has")
    try:
        parts = urllib.parse.urlsplit(text)
        host, port = parts.hostname or "", parts.port
        if ":" in host and "%" not in host:
            host = str(ipaddress.IPv6Address(host))
    except ValueError:
        raise _no_address(text, "its host or port is none") from None
    if parts.scheme not in _PORTS:
        raise _refused(text, f"`{parts.scheme[:20]}` is not spoken here, only http and https")
    if "@" in parts.netloc:
        raise _no_address("", "it has a name or password in front of the host")
    if port == 0 or "%" in host or not (":" in host or (_NAME.fullmatch(host) and len(host) < 254)):
        raise _no_address(text, "its host or port is none")
    origin = WebOrigin(scheme=parts.scheme, host=host, port=port or _PORTS[parts.scheme])
    query = f"?{parts.query}" if parts.query else ""
    return WebAddress(origin=origin, target=f"{parts.path or '/'}{query}")


def resolve(base: WebAddress, text: str) -> WebAddress:
    """Return the address that a server names, whole or relative to the one that it answered at.

    Raises `StackproofError`: REGISTRY_ANSWER as `parse`, REDIRECT_REFUSED for one that is not
    encrypted where the server's own is, and for other schemes.
    """
    if not _TEXT.fullmatch(text):
        raise _no_address(text, "it has signs that no address has")
    try:
        joined = urllib.parse.urljoin(str(base), text)
    except ValueError:
        raise _no_address(text, "its host or port is none") from None
    address = parse(joined)
    if (base.origin.scheme, address.origin.scheme) == ("https", "http"):
        raise _refused(
            base.place,
            f"`{address.origin}` is not encrypted",
            hint="a registry behind a proxy that ends TLS must know it: have the proxy send "
            "`X-Forwarded-Proto: https`, or tell the registry its own address",
        )
    return address


def check_credential(registry: WebOrigin, receiver: WebOrigin) -> None:
    """Check that a name and password for a registry may be sent to a server that it named.

    Both must be encrypted, or this machine; a registry that is asked in clear can name no other
    server than itself. Raises `StackproofError` (NOT_PERMITTED).
    """
    for each in (registry, receiver):
        if not each.is_private:
            raise fail(
                Reason.NOT_PERMITTED,
                f"no password is sent to `{receiver}`: `{each}` is not encrypted",
                hint="give the address with https://, or log out of it: `podman logout`",
            )
    if registry.scheme == "http" and receiver != registry:
        raise fail(
            Reason.NOT_PERMITTED,
            f"no password is sent to `{receiver}`, which `{registry}` names: who is asked in clear "
            "can name no other server",
            hint="give the address with https://, or log out of it: `podman logout`",
        )


def _no_address(text: str, why: str) -> StackproofError:
    shown = f"`{text[:200]}` is no address" if text else "there is an address that is not taken"
    return fail(
        Reason.REGISTRY_ANSWER,
        f"{shown}: {why}",
        hint="if a registry gave it, tell who keeps it",
    )


def _refused(place: str, why: str, hint: str = "tell who keeps the registry") -> StackproofError:
    return fail(
        Reason.REDIRECT_REFUSED,
        f"`{place[:200]}` leads to an address that is not followed: {why}",
        where=Location(file=place[:200]),
        hint=hint,
    )
