"""How long a server is waited for, and how often it is asked: budgets, and sockets read by a time.

The time limit of a socket is for one read, so that a server which sends a byte a second is waited
for without an end. Here all reads of an answer's head, and of each piece of its body, have one end.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import math
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any, cast

from stackproof.core.errors import Location, Reason, fail
from stackproof.core.limits import Limit

TIMEOUT_S = 60.0
"""The longest that the head of an answer, or a piece of its body, may take."""
_SLOW = 256 << 10
"""Bytes a second of a slow network: what comes as fast costs none of a budget's time."""


class Budget:
    """What one operation may ask of servers: requests, and seconds of waiting for all of them.

    Several threads may use it. Zero in the limit is none.
    """

    def __init__(self, limit: Limit) -> None:
        self._requests = limit.count or math.inf
        self._seconds = float(limit.seconds or math.inf)
        self._limit = limit
        self._lock = threading.Lock()

    def spend(self, place: str) -> None:
        """Take a request; raises TOO_LARGE where there is none left, and as `check`."""
        with self._lock:
            self._requests -= 1
        if self._requests < 0:
            raise fail(
                Reason.TOO_LARGE,
                f"this takes more than {self._limit.count} requests",
                where=Location(file=place),
                hint="too much is attached to the image, or the server answers in circles: ask who "
                "keeps it",
            )
        self.check(place)

    def check(self, place: str) -> None:
        """Raise REGISTRY_BUSY where there is no time left."""
        if self._seconds <= 0:
            raise fail(
                Reason.REGISTRY_BUSY,
                f"the server of `{place}` takes too long: more than {self._limit.seconds} s",
                where=Location(file=place),
                hint="try again later, or tell who keeps it",
            )

    def allows(self, seconds: float) -> bool:
        """Return true where there is time to wait for so long."""
        return seconds <= self._seconds

    @contextlib.contextmanager
    def waiting(self) -> Iterator[float]:
        """Give the time by which an answer must be there, and count how long that took."""
        begun = time.monotonic()
        try:
            yield begun + min(TIMEOUT_S, max(self._seconds, 0.0))
        finally:
            self.waited(time.monotonic() - begun)

    def waited(self, seconds: float) -> None:
        """Count seconds of waiting."""
        with self._lock:
            self._seconds -= seconds

    def passed(self, count: int) -> None:
        """Give back the time that so many bytes, sent or received, take on a slow network."""
        self.waited(-count / _SLOW)


class TimedResponse(http.client.HTTPResponse):
    """An answer that is read until a time, `until`, which is set again for each piece of it."""

    def __init__(self, sock: socket.socket, *args: Any, until: float, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self._timed = _TimedReader(sock, self.fp.detach(), until)
        self.fp = io.BufferedReader(self._timed)

    def read_until(self, until: float, buffer: memoryview) -> int:
        """Read the next bytes, which must be there at a time; raises `TimeoutError`."""
        self._timed.until = until
        return self.readinto(buffer)


class _TimedReader(io.RawIOBase):
    """What a socket gives until a time."""

    def __init__(self, sock: socket.socket, raw: io.RawIOBase, until: float) -> None:
        self._sock, self._raw, self.until = sock, raw, until

    def readable(self) -> bool:
        """Return true: there is something to read."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read what comes; raises `TimeoutError` when the time is over."""
        set_until(self._sock, self.until)
        return cast("int | None", self._raw.readinto(buffer))

    def close(self) -> None:
        """Close the socket's file as well."""
        with contextlib.suppress(OSError):
            self._raw.close()
        super().close()


def set_until(sock: socket.socket, until: float) -> None:
    """Have the next thing that a socket does end at a time; raises `TimeoutError` after it."""
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    sock.settimeout(left)


def connect(
    place: tuple[str, int], timeout: float, source: tuple[str, int] | None = None
) -> socket.socket:
    """Return a connection to the first address of a host that answers, all of them in one time."""
    until = time.monotonic() + timeout
    error: OSError | None = None
    for *_, address in socket.getaddrinfo(*place, type=socket.SOCK_STREAM):
        left = until - time.monotonic()
        if left <= 0:
            break
        try:
            return socket.create_connection((str(address[0]), place[1]), left, source)
        except OSError as caught:
            error = caught
    raise error or TimeoutError
