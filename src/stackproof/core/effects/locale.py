"""The locale of the user, which Python changes for itself and for what it starts."""

from __future__ import annotations

import os


def forget_coercion() -> None:
    """Take back the LC_CTYPE that Python has set where none was given (PEP 538).

    Commands of the user get the environment that they would have without us.
    """
    if "LC_CTYPE" not in os.environ:
        return
    try:
        with open("/proc/self/environ", "rb") as stream:
            given = stream.read().split(b"\0")
    except OSError:
        return
    if not any(entry.startswith(b"LC_CTYPE=") for entry in given):
        del os.environ["LC_CTYPE"]
