"""Results to a comparison: which challenger is as fast as the baseline, at which sizes.

One launch is one observation. Everything is judged in pairs: the launches of baseline and
challenger in one randomised block. docs/explanation/statistics.md says what is computed and why.
"""

from __future__ import annotations

from stackproof.compare import halo, integrity, overrule
from stackproof.compare.collect import CollectedResults, arm_launches, collect
from stackproof.compare.disturbance import disturbed
from stackproof.compare.judge import Rules
from stackproof.compare.margins import TAIL, TAIL_MARGIN, margin_problems
from stackproof.compare.model import (
    DEFAULT_MARGINS,
    Cell,
    CompareOptions,
    Comparison,
    Panel,
    Verdict,
    Why,
    change_cells,
)
from stackproof.compare.notes import Judged, list_notes
from stackproof.compare.panels import judged_panels
from stackproof.compare.ranking import rank
from stackproof.compare.verdicts import overall, overall_words, verdict_on
from stackproof.core.errors import Problem, Reason, StackproofError, fail
from stackproof.core.value import replace
from stackproof.results.model import Results


def compare(results: Results, options: CompareOptions | None = None) -> Comparison:
    """Return the comparison of every challenger, and of the null arm, with the baseline.

    Raises `StackproofError`: NO_RESULTS when nothing usable is there to compare, INVALID_VALUE for
    margins or other options that make no sense.
    """
    options = options or CompareOptions()
    results = halo.check_residuals(results)
    spec = results.spec
    rules = _rules(results, options)
    collected = collect(results)
    hurt = disturbed(results.measurements)
    panels = judged_panels(collected, results, rules, hurt)
    null = () if spec.null is None else (spec.null,)
    alone = not (spec.challengers or null)  # nothing to compare with: the curves are the result
    cells = any(judgement.cells for panel in panels for judgement in panel.judgements)
    corrupt = overrule.corrupted(results.measurements)
    if not panels or not (cells or alone or corrupt):
        raise _no_results(results, collected)
    verdicts = tuple(
        verdict_on(arm, panels, spec.baseline, is_null=arm in null, equal=spec.equal)
        for arm in (*spec.challengers, *null)
    )
    verdicts = overrule.overruled(verdicts, spec, results.measurements)
    silent = [v.arm for v in verdicts if v.overruled and v.verdict is not Verdict.FAIL]
    panels = overrule.without_answers(panels, silent, Why.WITHHELD)
    rotten = overrule.rotten(spec, results.measurements)
    trust = integrity.look(results)
    whole = Verdict.FAIL if rotten else overall(verdicts)
    found = Comparison(
        verdict=whole,
        words=overall_words(whole, verdicts),
        verdicts=verdicts,
        panels=panels,
        discarded=collected.discarded,
        launches=arm_launches(results.measurements),
        notes=list_notes(results, Judged(collected, rules, trust, hurt, panels, verdicts)),
        spec=spec,
        margins={TAIL: TAIL_MARGIN, **rules.margins},
        minimum_launches=rules.minimum_launches,
        confidence=rules.confidence,
        family_error=rules.family_error,
        paths=results.paths,
        rankings=() if silent or not trust.trusted else rank(panels, spec.baseline, spec.null),
        validated=collected.validated,
        read=len(results.measurements),
        disturbed=len(hurt),
        unfinished=integrity.find_gaps(results)[1],
    )
    if found.is_disturbed:  # more launches like these would decide nothing
        found = replace(found, panels=change_cells(panels, _without_estimate))
    return integrity.withheld(found, trust)


def _without_estimate(arm: str, cell: Cell) -> Cell:
    """Return a cell without an estimate of launches, but for the fewest of a verdict."""
    del arm
    return cell if cell.why is Why.TOO_FEW else replace(cell, launches_needed=None)


def panels_of(results: Results) -> tuple[Panel, ...]:
    """Return every curve as it is judged now, for whoever asks while launches are being made."""
    results = halo.check_residuals(results)
    hurt = disturbed(results.measurements)
    return judged_panels(collect(results), results, _rules(results, CompareOptions()), hurt)


def _rules(results: Results, options: CompareOptions) -> Rules:
    """Return the rules to judge by: options over specification over defaults."""
    margins = {**DEFAULT_MARGINS, **results.spec.margins, **options.margins}
    problems = [*margin_problems(margins)]
    if not (0.5 <= options.confidence < 1 and 0 < options.family_error < 1):
        problems.append(
            Problem(
                reason=Reason.INVALID_VALUE,
                message="confidence must be at least 0.5 and below 1, family error between 0 and 1",
            )
        )
    if problems:
        raise StackproofError(*problems)
    minimum = options.minimum_launches
    return Rules(
        both_ways=results.spec.equal,
        margins=margins,
        confidence=options.confidence,
        family_error=options.family_error,
        minimum_launches=results.spec.minimum_launches if minimum is None else minimum,
    )


def _no_results(results: Results, collected: CollectedResults) -> StackproofError:
    lines = [
        f"{entry.arm or entry.what}, block {entry.block}: {entry.reason}: {entry.evidence}"
        for entry in collected.discarded[:20]
    ]
    hint = "look at the reasons above; the logs of the launches are in the results folder"
    if not lines:
        hint = "launches that count are missing: the same `bench` command with `-o` makes them"
    return fail(
        Reason.NO_RESULTS,
        f"nothing can be compared: {len(results.measurements)} launches were read, and no "
        "benchmark has usable launches of the baseline and of a challenger",
        detail="\n".join(lines) or None,
        hint=hint,
    )
