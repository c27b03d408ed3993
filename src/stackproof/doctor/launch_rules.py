"""The reasons for which `bench` discards launches, as known problems with its own hints.

They are made from the reasons in the evidence, and rank by what explains what: doubts about the
results first, ends without a word of why last.
"""

from __future__ import annotations

from collections.abc import Mapping

from stackproof.compare import launch_checks
from stackproof.core.errors import Reason
from stackproof.knowledge.evidence import Evidence
from stackproof.knowledge.model import Rule, Severity

_TITLES: Mapping[Reason, str] = {
    Reason.NOT_TRUSTED: "these results are not what they say: changed, incomplete or unreadable",
    Reason.UNSUPPORTED: "the benchmark in the image is of another version than this stackproof",
    Reason.INVALID_VALUE: "the benchmark refuses the options that it was given",
    Reason.NO_GPU: "a rank has no GPU for its buffers, or its MPI takes no such buffers",
    Reason.NODE_UNREACHABLE: "a node does not answer",
    Reason.SINGLETONS: "ranks did not find each other: some or all are alone",
    Reason.WRONG_PLACEMENT: "ranks ran elsewhere than they were asked to",
    Reason.COMMAND_NOT_FOUND: "the program cannot be started on the nodes",
    Reason.JOB_TIMEOUT: "launches did not end within their time limit",
    Reason.VALIDATION_FAILED: "what was received is not what was sent, or a result is wrong",
    Reason.RANK_CRASHED: "a rank crashed, or left before its end",
    Reason.JOB_FAILED: "launches ended with an error",
    Reason.GARBAGE_OUTPUT: "what was printed is no result of this benchmark",
    Reason.TRUNCATED_OUTPUT: "the output stops before the end of the program",
    Reason.NOT_LOADED: "ranks lack a library that their arm preloads, or the folder it puts first",
    Reason.WRONG_MPI: "another MPI answered than the one under test",
    Reason.WRONG_TRANSPORT: "messages took another path than was asked for",
    Reason.CLOCK_JUMPED: "a clock jumped, or the clocks of ranks disagree",
    Reason.NO_RESULTS: "results that were asked for are missing",
}
_UNEXPLAINED = frozenset({
    Reason.RANK_CRASHED, Reason.JOB_FAILED, Reason.GARBAGE_OUTPUT, Reason.TRUNCATED_OUTPUT,
    Reason.NO_RESULTS,
})  # fmt: skip
"""Reasons that say that it ended, not why: a known problem in the log says more."""

_SEVERITIES = {
    Reason.NOT_TRUSTED: Severity.WRONG,
    Reason.VALIDATION_FAILED: Severity.WRONG,
    Reason.WRONG_TRANSPORT: Severity.SLOW,
}
_LATER = ("K15", "K16", "K70", "K83")
"""Small defaults, output that is cut short and busy cores are no reason for a failure."""

_FIRST_NUMBER = 900
"""Past the numbers of all other rules, so that one of equal rank and more detail is named first."""

_DOUBTED = (
    "measure again, or take the folder as `bench` left it: `stackproof compare` names each file"
)
_CAUSE = "`bench` saw it and discarded the launches; they count in no comparison"


def rules_of_launches(evidence: Evidence) -> tuple[Rule, ...]:
    """Return a rule for each reason in the fact `discarded`."""
    reasons = evidence.facts.get("discarded", ())
    known = {reason.value for reason in _TITLES}
    order = (Reason.NOT_TRUSTED, *launch_checks.ORDER)
    return tuple(
        _rule(Reason(value), order.index(Reason(value)))
        for value in (reasons if isinstance(reasons, tuple | list) else (reasons,))
        if value in known
    )


def _rule(reason: Reason, place: int) -> Rule:
    return Rule(
        id=f"L{_FIRST_NUMBER + place}",
        name=f"launches-{reason}",
        severity=_SEVERITIES.get(reason, Severity.FAILS),
        title=_TITLES[reason],
        when={"fact": {"discarded": reason.value}},
        cause="" if reason is Reason.NOT_TRUSTED else _CAUSE,
        remedy=launch_checks.HINTS.get(reason, _DOUBTED),
        evidence=("documented",),
        sources=(),
        outranks=_LATER,
        symptom=reason in _UNEXPLAINED,
    )
