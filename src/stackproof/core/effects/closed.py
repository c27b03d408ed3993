"""A path to the folder on its way that this user may not enter; imports `os` alone, as `libc`."""

from __future__ import annotations

import os


def hint_at_closed(path: str) -> str:
    """Return the hint for a path below a folder that this user may not enter, empty for another."""
    place = "/" if path.startswith("/") else "."
    for word in path.split("/")[:-1]:
        place = os.path.normpath(f"{place}/{word}")
        if os.path.isdir(place) and not os.access(place, os.X_OK):
            return f"you may not enter the folder `{place}`: its owner can let you in"
    return ""
