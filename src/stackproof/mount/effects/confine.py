"""Walls around squashfuse, which parses what a stranger made: `native/helper/confine.c` in Python.

They are those of the other parsers (`core.effects.foreign.walls`), for a process that answers the
kernel. Imports nothing else: see `mount_exec`.
"""

from __future__ import annotations

import os

from stackproof.core.effects.foreign import walls


def confine(program: str, image: int) -> None:
    """Put the walls around this process, for good; `image` is open. Raises `OSError`."""
    walls.no_new_rights()
    walls.restrict_files(program, image)
    walls.restrict_calls(walls.reading_filter(os.uname().machine))
