"""Injection: whether a program would work with another MPI, decided from files alone.

Nothing is run. The loader's model says what would be loaded with and without the replacement; the
checks compare both; the judgement names the way to do it and every reason with its evidence.
"""

from stackproof.inject.judge import Question, judge
from stackproof.inject.model import Cause, Effect, Finding, Judgement, Verdict, Way, worst
from stackproof.inject.releases import Releases, nothing_known, parse_releases
from stackproof.inject.replacement import Replacement, find_replacement

__all__ = [
    "Cause",
    "Effect",
    "Finding",
    "Judgement",
    "Question",
    "Releases",
    "Replacement",
    "Verdict",
    "Way",
    "find_replacement",
    "judge",
    "nothing_known",
    "parse_releases",
    "worst",
]
