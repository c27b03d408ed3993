"""Options of `completion`."""

from __future__ import annotations

from stackproof.core import choices
from stackproof.core.options import Options, argument


class ScriptOptions(Options, run="cli.completing:run"):
    """The shell whose command lines are completed."""

    shell: str = argument("SHELL", "your shell", choices=choices.SHELLS)
