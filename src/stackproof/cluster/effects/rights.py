"""What root may do alone, as a command for a hint."""

from __future__ import annotations

import os
import shlex
import sys


def as_root(*words: str) -> str:
    """Return the command line that calls stackproof with these words as root.

    It has the program's whole path, as sudo(8) does not look into a virtual environment.
    """
    program = os.path.join(sys.prefix, "bin", "stackproof")
    known = shlex.quote(program) if os.access(program, os.X_OK) else "stackproof"
    return " ".join(("sudo", known, *words))
