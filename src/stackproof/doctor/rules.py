"""Known problems on evidence: each one fires, does not fire, or cannot be told, and their order."""

from __future__ import annotations

import sys
from collections.abc import Set as AbstractSet

from stackproof.core.value import Value, replace
from stackproof.doctor.conditions import Answer, Certainty, Outcome, evaluate
from stackproof.doctor.launch_rules import rules_of_launches
from stackproof.doctor.log.story import story_of
from stackproof.knowledge.evidence import Evidence
from stackproof.knowledge.model import Knowledge, Rule, Severity


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
    found = []
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
        found.append(RuleFinding(rule=rule, outcome=outcome, support=support))
    fired = [one for one in found if one.outcome.answer is Answer.YES]
    hushed = {
        identifier
        for one in fired
        if one.rule.severity is Severity.HARMLESS
        for identifier in one.rule.outranks
    }
    speakers = {
        finding.rule.id for finding in fired if finding.outcome.certainty is Certainty.SPEAKER
    }
    rest = [finding.rule for finding in fired if finding.rule.id not in speakers | hushed]
    if any(_stops(rule) or rule.severity in _NAMED_ANYWAY for rule in rest):
        hushed |= speakers
    found = [_silent(one) if one.rule.id in hushed else one for one in found]
    later = {identifier for one in fired for identifier in one.rule.outranks}
    failed = evidence.facts.get("failed") is True
    return tuple(sorted(found, key=lambda one: _order(one, later, failed=failed)))


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
