"""How the actions of `stackproof inject` end, and what they call that."""

from __future__ import annotations

from stackproof.core.errors import ExitCode
from stackproof.inject.model import Verdict

EXIT_CODES = {
    Verdict.WORKS: ExitCode.DONE,
    Verdict.STEPS: ExitCode.STEPS,
    Verdict.UNKNOWN: ExitCode.UNKNOWN,
    Verdict.FAILS: ExitCode.WORSE,
}
VERDICT_WORDS = {
    Verdict.WORKS: "works",
    Verdict.STEPS: "works with these steps",
    Verdict.UNKNOWN: "cannot tell",
    Verdict.FAILS: "fails",
}
