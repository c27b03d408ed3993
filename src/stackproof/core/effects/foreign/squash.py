"""Members and names of a SquashFS image, read without unpacking it.

This runs before every job of a user, so it imports little.
"""

from __future__ import annotations

import os

from stackproof.core.effects.foreign import parser
from stackproof.core.effects.foreign.parser import Bounds, Ended

PROGRAM = "unsquashfs"
NOT_THERE = 2  # unsquashfs(1): 1 is a fatal error, 2 is a file that it could not write
TOP = "squashfs-root"
"""The name that stands for the image's root in a listing."""


def can_read() -> bool:
    """Return true where this machine has unsquashfs, without which no image can be read here."""
    return bool(parser.find(PROGRAM))


def read(path: str, member: str, bounds: Bounds) -> Ended:
    """Write what a member holds; shell wildcards in its name, without `literal`, match others.

    Raises `OSError`: `parser.StartError`, or what opening the image raises.
    """
    return _run(path, bounds, ("-cat",), (member,))


def listed(path: str, bounds: Bounds) -> Ended:
    """Write the name of every entry of an image with its mode, owner, size and link; as `read`."""
    return _run(path, bounds, ("-dest", TOP, "-lls"), ())


def literal(member: str) -> str:
    """Return a name that unsquashfs takes as it is: it knows wildcards and backslashes."""
    return "".join(f"\\{one}" if one in "\\*?[]" else one for one in member)


def _run(path: str, bounds: Bounds, words: tuple[str, ...], members: tuple[str, ...]) -> Ended:
    image = parser.open_image(path)
    try:
        argv = (PROGRAM, "-processors", "1", *words, parser.IMAGE, *members)
        return parser.parse(argv, image, bounds)
    finally:
        os.close(image)
