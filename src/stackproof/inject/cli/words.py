"""How the actions of `stackproof inject` end, and what they call that."""

from __future__ import annotations

from stackproof.core.errors import ExitCode
from stackproof.inject.model import InjectionVerdict

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
