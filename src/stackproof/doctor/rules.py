"""Known problems on evidence: each one fires, does not fire, or cannot be told, and their order."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from stackproof.core.errors import Reason
from stackproof.core.value import Value, replace
from stackproof.doctor.conditions import Answer, Certainty, Outcome, evaluate
from stackproof.doctor.log.story import story_of
from stackproof.knowledge.evidence import Evidence
from stackproof.knowledge.model import Knowledge, Rule, Severity

# --------------------------------------------------------------------------------------------------
# The reasons for which `bench` discards launches, as known problems with its own hints.
#
# They are made from the reasons in the evidence, and rank by what explains what: doubts about the
# results first, ends without a word of why last.

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
    reasons = evidence.facts.get("discarded")
    if not reasons:
        return ()
    from stackproof.compare import launch_checks  # noqa: PLC0415 - a log needs no results

    known = {reason.value for reason in _TITLES}
    order = (Reason.NOT_TRUSTED, *launch_checks.ORDER)
    return tuple(
        _rule(reason, order.index(reason), launch_checks.HINTS.get(reason, _DOUBTED))
        for value in (reasons if isinstance(reasons, tuple | list) else (reasons,))
        if value in known and (reason := Reason(value))
    )


def _rule(reason: Reason, place: int, remedy: str) -> Rule:
    return Rule(
        id=f"L{_FIRST_NUMBER + place}",
        name=f"launches-{reason}",
        severity=_SEVERITIES.get(reason, Severity.FAILS),
        title=_TITLES[reason],
        when={"fact": {"discarded": reason.value}},
        cause="" if reason is Reason.NOT_TRUSTED else _CAUSE,
        remedy=remedy,
        evidence=("documented",),
        sources=(),
        outranks=_LATER,
        symptom=reason in _UNEXPLAINED,
    )


class RuleFinding(Value):
    """The outcome of one known problem; `supported` says whether it shows in results or logs."""

    rule: Rule
    outcome: Outcome
    support: Outcome | None = None

    @property
    def supported(self) -> bool:
        """Return whether what else shows the problem was seen."""
        return self.support is not None and self.support.answer is Answer.YES


def diagnose(knowledge: Knowledge, evidence: Evidence) -> tuple[RuleFinding, ...]:
    """Return the outcome of every known problem: those that fire first, wrong results before all.

    Then comes what shows in results or logs, the worst of it first, then what is known best; what
    another one explains comes after it.
    """
    findings = []
    went_on = evidence.facts.get("went-on") is True
    last_words = story_of(evidence).last_words
    for rule in (*knowledge.rules, *rules_of_launches(evidence)):
        outcome = evaluate(rule.when, evidence, knowledge.newest)
        if outcome.place is not None and went_on and _stops(rule):
            outcome = replace(outcome, answer=Answer.NO)
        if rule.symptom and outcome.place in last_words:
            outcome = replace(outcome, answer=Answer.NO)
        support = None
        if rule.supported_by is not None and outcome.answer is Answer.YES:
            support = evaluate(rule.supported_by, evidence, knowledge.newest)
        findings.append(RuleFinding(rule=rule, outcome=outcome, support=support))
    fired = [finding for finding in findings if finding.outcome.answer is Answer.YES]
    hushed = {
        identifier
        for finding in fired
        if finding.rule.severity is Severity.HARMLESS
        for identifier in finding.rule.outranks
    }
    speakers = {
        finding.rule.id for finding in fired if finding.outcome.certainty is Certainty.SPEAKER
    }
    rest = [finding.rule for finding in fired if finding.rule.id not in speakers | hushed]
    if any(_stops(rule) or rule.severity in _NAMED_ANYWAY for rule in rest):
        hushed |= speakers
    findings = [_silent(each) if each.rule.id in hushed else each for each in findings]
    later = {identifier for finding in fired for identifier in finding.rule.outranks}
    failed = evidence.facts.get("failed") is True
    return tuple(sorted(findings, key=lambda each: _order(each, later, failed=failed)))


_NAMED_ANYWAY = frozenset({Severity.WRONG, Severity.HARMLESS})
"""Problems beside which nobody needs to know who spoke first."""


def _stops(rule: Rule) -> bool:
    """Return true for a problem that a program cannot have had if it went on after the line.

    A slow program goes on. A warning that is only a symptom slows nothing down.
    """
    return rule.severity is Severity.FAILS or (rule.symptom and rule.severity is Severity.SLOW)


def _silent(finding: RuleFinding) -> RuleFinding:
    """Return a finding that is not there, as a harmless one explains what was printed."""
    outcome = replace(finding.outcome, answer=Answer.NO, missing=())
    return replace(finding, outcome=outcome, support=None)


def _order(finding: RuleFinding, later: AbstractSet[str], *, failed: bool) -> tuple[int, ...]:
    """Return the place of a finding: causes before symptoms, then what was printed first."""
    rule, outcome = finding.rule, finding.outcome
    no_sign = outcome.place is None and not finding.supported
    return (
        outcome.answer is not Answer.YES,
        rule.severity is Severity.HARMLESS,
        rule.id in later,
        failed and no_sign and rule.severity is Severity.SLOW,
        outcome.certainty is Certainty.SPEAKER,
        rule.symptom,
        rule.severity is not Severity.WRONG,
        no_sign,
        list(Severity).index(rule.severity),
        *_place(finding),
        "inferred" in rule.evidence,
        len(outcome.missing),
        rule.number,
    )


def _place(finding: RuleFinding) -> tuple[int, bool]:
    """Return the line that a finding rests on, and whether it rests on more than a line."""
    places = [finding.outcome.place, finding.support.place if finding.support else None]
    told = [place for place in places if place is not None]
    return min(told, default=sys.maxsize), not finding.supported
