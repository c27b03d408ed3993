"""What this machine compiles with, and as what machine it runs."""

from __future__ import annotations

import os
import re
import shutil

from stackproof.command import Command
from stackproof.errors import Reason, fail
from stackproof.host.run import check
from stackproof.host.sandbox import package_hint


def architecture() -> str:
    """Return the machine's name as `uname -m` gives it."""
    return os.uname().machine


def compiler() -> str:
    """Return the system C compiler as `gcc 12.2.0 (Debian 12.2.0-14)`.

    It decides the bytes of compiled programs, so it is part of a stack's facts. Raises
    `StackproofError` (TOOL_MISSING) when there is none.
    """
    if shutil.which("gcc") is None:
        raise fail(
            Reason.TOOL_MISSING,
            "the MPI compiler wrappers need a C compiler, and `gcc` is not installed",
            hint=package_hint("gcc"),
        )
    line = check(Command(argv=("gcc", "--version"), timeout_s=20)).stdout.decode().splitlines()[0]
    match = re.match(r"gcc \(([^)]*)\) (\S+)", line)
    return f"gcc {match[2]} ({match[1]})" if match else line


def build_facts() -> dict[str, str]:
    """Return the facts of this machine that enter a stack built on it."""
    return {"architecture": architecture(), "compiler": compiler()}
