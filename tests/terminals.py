"""Pseudo-terminals: a program at one, and what it shows there."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
from collections.abc import Iterator, Mapping, Sequence

_TIMEOUT_S = 600


@contextlib.contextmanager
def terminal() -> Iterator[tuple[int, int]]:
    """Give a terminal: the descriptor of whoever looks at it, and that of programs at it."""
    ours, theirs = pty.openpty()
    try:
        yield ours, theirs
    finally:
        os.close(ours)
        os.close(theirs)


def read_until(descriptor: int, end: bytes | None = None) -> bytes:
    """Return what is shown until some bytes have come, or until nobody is left at the terminal."""
    seen = b""
    with contextlib.suppress(OSError):  # EIO is how Linux says that nobody is left
        while end is None or end not in seen:
            data = os.read(descriptor, 65536)
            if not data:
                break
            seen += data
    return seen


def shown(argv: Sequence[str], env: Mapping[str, str], *, errors: bool = False) -> tuple[int, str]:
    """Run a program at a terminal; return its exit code and what it prints there.

    Its messages on standard error are left out, unless they are wanted.
    """
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            argv, stdin=theirs if errors else None, stdout=theirs,
            stderr=theirs if errors else subprocess.DEVNULL, env=env,
        )  # fmt: skip
        os.close(theirs)
        text = read_until(ours).decode(errors="surrogateescape")
        return process.wait(timeout=_TIMEOUT_S), text.replace("\r\n", "\n")
    finally:
        os.close(ours)
