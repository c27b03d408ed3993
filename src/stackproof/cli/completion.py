"""`stackproof completion SHELL`: the script that completes command lines in a shell."""

from __future__ import annotations

from stackproof.cli import commandtree, completing
from stackproof.cli.options import ScriptOptions
from stackproof.core.effects import shipped


def run(options: ScriptOptions) -> int:
    """Print the script, with the verbs and the names of this installation."""
    print(completing.SHELLS[options.shell](commandtree.load(), names()), end="")
    return 0


def names() -> dict[str, tuple[str, ...]]:
    """Return the names of what comes with stackproof, by the word that stands for one in help."""
    return {"SITE": shipped.names("sites"), "RECIPE": shipped.names("recipes")}
