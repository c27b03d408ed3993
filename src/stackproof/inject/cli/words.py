"""How the actions of `stackproof inject` end, and what they call that."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from stackproof.core.errors import ExitCode
from stackproof.inject.model import InjectionVerdict, Judgement, has_mpi_inside
from stackproof.inject.ways import ALIASES, ANY_FOLDER

EXIT_CODES = {
    InjectionVerdict.WORKS: ExitCode.DONE,
    InjectionVerdict.STEPS: ExitCode.STEPS,
    InjectionVerdict.UNKNOWN: ExitCode.UNKNOWN,
    InjectionVerdict.FAILS: ExitCode.WORSE,
}
VERDICT_WORDS = {
    InjectionVerdict.WORKS: "works",
    InjectionVerdict.STEPS: "works with these steps",
    InjectionVerdict.UNKNOWN: "cannot tell",
    InjectionVerdict.FAILS: "fails",
}
KEEPS = "its MPI cannot be exchanged"
"""In the place of the words for a failure where the program runs as it is."""


def words_of(judgement: Judgement) -> str:
    """Return the verdict of a judgement in words."""
    return KEEPS if has_mpi_inside(judgement) else VERDICT_WORDS[judgement.verdict]


def show_variables(environment: Mapping[str, str]) -> list[str]:
    """Return the lines that set variables in a shell."""
    shown = {name: value.replace(ALIASES, ANY_FOLDER) for name, value in environment.items()}
    return [f"{name}={shlex.quote(value)}" for name, value in shown.items()]
