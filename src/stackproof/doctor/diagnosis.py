"""A diagnosis: findings of known problems, paths of arms and what a job printed; as data."""

from __future__ import annotations

from collections.abc import Mapping

from stackproof.core import harmless, noun
from stackproof.core.value import Value
from stackproof.doctor.conditions import Answer, Certainty
from stackproof.doctor.log.story import LogStory, story_of
from stackproof.doctor.rules import RuleFinding
from stackproof.knowledge.evidence import Evidence

_SCHEMA = "stackproof/diagnosis/1"


class Diagnosis(Value):
    """Evidence, every known problem decided on it, and what paths of arms show.

    `fallbacks` are launches that took another transport than was asked for, `slower` the arms that
    are, by `compare`. `named` are the names for words of remedies (PROGRAM, IMAGE, RESULTS), as
    they were given.
    """

    evidence: Evidence
    findings: tuple[RuleFinding, ...]
    paths: tuple[str, ...] = ()
    fallbacks: tuple[str, ...] = ()
    slower: tuple[str, ...] = ()
    named: Mapping[str, str] = {}

    @property
    def story(self) -> LogStory:
        """Return the story of the logs of the evidence."""
        return story_of(self.evidence)

    @property
    def problems(self) -> tuple[RuleFinding, ...]:
        """Return the known problems that are there, the worst first."""
        return tuple(one for one in self.findings if one.outcome.answer is Answer.YES)

    @property
    def explained(self) -> bool:
        """Return true where the first known problem claims a cause, not only who spoke first."""
        certainty = self.problems[0].outcome.certainty if self.problems else Certainty.SPEAKER
        return certainty is not Certainty.SPEAKER

    @property
    def undecided(self) -> bool:
        """Return true where something failed and no known problem explains it."""
        return self.evidence.facts.get("failed") is True and not self.explained


def data_of(diagnosis: Diagnosis) -> dict[str, object]:
    """Return a diagnosis as data for JSON, with its evidence."""
    return {
        "schema": _SCHEMA,
        "findings": [
            {
                "rule": one.rule.id,
                "name": one.rule.name,
                "severity": one.rule.severity,
                "answer": one.outcome.answer,
                "supported": one.supported,
                "evidence": one.outcome.quotes,
                "line": one.outcome.place,
                "certainty": one.outcome.certainty,
                "would-tell": one.outcome.missing,
                "title": one.rule.title,
                "remedy": one.rule.remedy,
                "commands": one.rule.commands,
                "sources": [source.url for source in one.rule.sources],
            }
            for one in diagnosis.findings
        ],
        "evidence": noun.to_data(diagnosis.evidence),
        "paths": diagnosis.paths,
        "fallbacks": diagnosis.fallbacks,
        "slower": diagnosis.slower,
        "printed": [
            {**noun.to_data(event), "text": harmless.line(event.text)}
            for event in diagnosis.story.events
        ],
        "endings": diagnosis.story.endings,
    }
