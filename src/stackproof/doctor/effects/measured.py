"""Results of `bench` that are looked at: launches, probes, and logs of discarded ones."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from pathlib import Path

from stackproof.bench import path_verdict
from stackproof.compare import path_words
from stackproof.compare.compare import compare
from stackproof.compare.effects.results import load_results
from stackproof.core.errors import Reason, StackproofError, did_you_mean, fail
from stackproof.core.value import Value
from stackproof.doctor.effects.logs import evidence_of
from stackproof.doctor.evidence import results as evidence_results
from stackproof.knowledge.evidence import Evidence, merged
from stackproof.results.model import Results

_LOGS_READ = 3
"""Logs of discarded launches that are read; the others mostly say the same."""


class ResultsEvidence(Value):
    """Evidence of one arm of results, the paths that arms took, and which are slower."""

    results: Results
    evidence: Evidence
    paths: tuple[str, ...] = ()
    fallbacks: tuple[str, ...] = ()
    slower: tuple[str, ...] = ()


def examine(folder: str, arm: str | None) -> ResultsEvidence:
    """Return the evidence of a folder of results; raises as `load_results`."""
    results = load_results(Path(folder), probes=True)
    slower: tuple[str, ...] = ()
    with contextlib.suppress(StackproofError):  # nothing is there to compare
        slower = evidence_results.slower_arms(compare(results), arm)
    return ResultsEvidence(
        results=results,
        evidence=_of_arm(results, _chosen(results, arm), folder),
        paths=path_words.differences(results),
        fallbacks=evidence_results.fallbacks(results, arm),
        slower=slower,
    )


def _chosen(results: Results, name: str | None) -> str:
    """Return the arm that is meant: the first that failed, else the first challenger."""
    spec = results.spec
    arms = (*spec.challengers, spec.baseline)
    if name is None:
        return next((arm for arm in arms if evidence_results.find_failures(results, arm)), arms[0])
    if name not in arms:
        raise fail(
            Reason.USAGE,
            f"the results have no arm `{name}`",
            hint=f"{did_you_mean(name, arms)}arms are: {', '.join(arms)}",
        )
    return name


def _of_arm(results: Results, arm: str, folder: str) -> Evidence:
    """Return the evidence of the probes and the launches of an arm."""
    pieces = (
        *(path_verdict.evidence_of_run(path) for path in results.paths if path.arm == arm),
        *_of_logs(Path(folder), results, arm),
        evidence_results.of_results(results, arm),
        evidence_results.of_discarded(results, arm),
        evidence_results.of_nodes(results, arm),
    )
    return functools.reduce(merged, pieces)


def _of_logs(folder: Path, results: Results, arm: str) -> Iterator[Evidence]:
    """Yield the output of failed launches of an arm, or of its probes where no launch was made."""
    failed = evidence_results.find_failures(results, arm)
    stems = [
        Path(file).stem + end
        for failure in failed
        for file in failure.files
        if file
        for end in "-."
    ]
    files_of_logs = sorted(
        path
        for path in (folder / "logs").glob("*.log")
        if path.name.startswith(tuple(stems)) and path.is_file() and path.stat().st_size
    )
    for path in files_of_logs[:_LOGS_READ]:
        yield evidence_of(os.fspath(path), f"logs/{path.name}")
