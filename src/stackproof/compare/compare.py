"""Results to a comparison: which challenger is as fast as the baseline, at which sizes.

One launch is one observation. Everything is judged in pairs: the launches of baseline and
challenger in one randomised block. docs/explanation/statistics.md says what is computed and why.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from stackproof.compare import halo, integrity, overrule
from stackproof.compare.collect import CollectedResults, arm_launches, collect, curves_of
from stackproof.compare.disturbance import Disturbed, disturbed, untold
from stackproof.compare.judge import (
    Observations,
    Rules,
)
from stackproof.compare.margins import TAIL, TAIL_MARGIN, margin_problems, planned_words
from stackproof.compare.model import (
    DEFAULT_MARGINS,
    ArmVerdict,
    CompareOptions,
    Comparison,
    Curve,
    Note,
    Panel,
    Verdict,
    Why,
)
from stackproof.compare.panels import judged_panels
from stackproof.compare.ranking import rank
from stackproof.compare.verdicts import overall, overall_words, verdict_on
from stackproof.core.errors import Problem, Reason, StackproofError, fail
from stackproof.core.value import replace
from stackproof.results.digests import Integrity
from stackproof.results.measurement import State
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
        notes=_ranked(
            *_integrity_notes(results, trust, rules),
            *_notes(results, collected, panels, verdicts, rules),
            *halo.describe_exchanges(collected, spec.null, hurt),
            *_disturbance_notes(results, hurt, panels),
        ),
        spec=spec,
        margins={TAIL: TAIL_MARGIN, **rules.margins},
        minimum_launches=rules.minimum_launches,
        confidence=rules.confidence,
        family_error=rules.family_error,
        paths=results.paths,
        rankings=() if silent or not trust.trusted else rank(panels, spec.baseline, spec.null),
        validated=collected.validated,
    )
    return integrity.withheld(found, trust)


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
    return fail(
        Reason.NO_RESULTS,
        f"nothing can be compared: {len(results.measurements)} launches were read, and no "
        "benchmark has usable launches of the baseline and of a challenger",
        detail="\n".join(lines) or None,
        hint="look at the reasons above; the logs of the launches are in the results folder",
    )


def _absent(arm: str, panels: Sequence[Panel], results: Results) -> list[str]:
    """Return where an arm is missing: what it never ran, and curves where launches failed."""
    missing = [panel.curve for panel in panels if panel.judgement(arm) is None]
    ran = {(m.case.program, m.case.placement.name) for m in results.measurements if m.arm == arm}
    programs = {program for program, _ in ran}
    found = [
        f"{arm} was not measured with {program}"
        for program in dict.fromkeys(curve.program for curve in missing)
        if program not in programs
    ]
    found += [
        f"{arm} was not measured at {placement}" + (f" with {program}" if len(programs) > 1 else "")
        for program, placement in dict.fromkeys((c.program, c.placement) for c in missing)
        if program in programs and (program, placement) not in ran
    ]
    failed = [
        f"{curve.title} {curve.placement} ({curve.program})"
        for curve in missing
        if (curve.program, curve.placement) in ran
    ]
    if failed:
        found.append(f"{arm} has no usable launch of: {', '.join(failed)}")
    return found


def _alone(baseline: str, collected: CollectedResults, panels: Sequence[Panel]) -> list[str]:
    """Return the placements at which others were measured and the baseline was not."""
    shown = {panel.curve.placement for panel in panels}
    arms: dict[str, dict[str, None]] = {}
    for (placement, _, _), by_arm in collected.table.items():
        if placement not in shown:
            arms.setdefault(placement, {}).update(dict.fromkeys(by_arm))
    return [
        f"{baseline} has no usable launch at {placement}, so nothing is compared there: "
        f"{', '.join(names)} are left out"
        for placement, names in arms.items()
    ]


def _ranked(*notes: Note) -> tuple[Note, ...]:
    """Return the notes, warnings first: of each level in the order in which they came."""
    return tuple(sorted(notes, key=lambda note: note.level != "warning"))


def _notes(
    results: Results,
    collected: CollectedResults,
    panels: Sequence[Panel],
    verdicts: Sequence[ArmVerdict],
    rules: Rules,
) -> tuple[Note, ...]:
    spec = results.spec
    warnings = _warnings(results, collected, panels, verdicts)
    plain: list[str] = []
    if spec.looks:
        plain.append(
            f"launches were made until enough was decided, with looks after {_listed(spec.looks)} "
            "per arm; the error rate of all looks together is that of a single one"
        )
    elif rules.minimum_launches < 10:
        plain.append(
            f"{rules.minimum_launches} launches per arm were accepted as enough; 10 are "
            "recommended, and with fewer than 5 nothing is judged"
        )
    for arm in (*spec.challengers, *(() if spec.null is None else (spec.null,))):
        plain += _absent(arm, panels, results)
    plain += _alone(spec.baseline, collected, panels)
    plain += [
        f"which path {one.arm} took at {one.placement.name} could not be told"
        for one in results.paths
        if one.state is State.UNKNOWN and one.arm != spec.null
    ]
    looked = {m.arm for m in results.measurements for s in m.output.series if s.validated}
    made = {m.arm for m in results.measurements if m.usable}
    blind = sorted(made - looked)
    if blind:
        plain.append(f"nobody looked whether bytes arrived unchanged at {', '.join(blind)}")
    if collected.warm_up:
        plain.append(f"{collected.warm_up} warm-up launches (block 0) are left out, as planned")
    return (
        *(Note(level="warning", text=text) for text in warnings),
        *(Note(level="note", text=text) for text in plain),
    )


def _integrity_notes(results: Results, trust: Integrity, rules: Rules) -> tuple[Note, ...]:
    """Return what speaks against the results, and where they are not what was planned."""
    warnings = [f"not to be trusted, {one.kind}: {one.text}" for one in trust.doubts]
    warnings += planned_words(rules.margins, results.spec.margins)
    plain = [*integrity.presence_words(results), *integrity.machine_words(results)]
    if trust.sentence:
        plain.insert(0, trust.sentence)
    return (
        *(Note(level="warning", text=text) for text in warnings),
        *(Note(level="note", text=text) for text in plain),
    )


def _listed(numbers: Sequence[int]) -> str:
    return " and ".join(filter(None, (", ".join(map(str, numbers[:-1])), str(numbers[-1]))))


def _disturbance_notes(
    results: Results, hurt: Sequence[Disturbed], panels: Sequence[Panel]
) -> Iterator[Note]:
    """Yield what other programs did to the launches, and what could not be said for it."""
    for program in untold(results.measurements):
        yield Note(
            level="note",
            text=f"{program} does not tell what else ran on its CPUs, nor what its interfaces "
            "sent: whether its launches were disturbed is not known",
        )
    if not hurt:
        return
    cells = [cell for panel in panels for one in panel.judgements for cell in one.cells]
    count = sum(cell.why is Why.DISTURBED for cell in cells)
    worst = hurt[0]
    text = (
        f"in {len(hurt)} of {len(results.measurements)} launches something else was at a rank's "
        f"CPU: {worst.arm}, {worst.placement}, block {worst.block}: {worst.text}"
    )
    if count:
        text += f"; the verdicts on {count} points are withheld, as it may be their cause"
    yield Note(level="warning" if count else "note", text=text)


def _warnings(
    results: Results,
    collected: CollectedResults,
    panels: Sequence[Panel],
    verdicts: Sequence[ArmVerdict],
) -> list[str]:
    spec = results.spec
    found = overrule.warnings(spec, results.measurements)
    if any(verdict.is_null and verdict.verdict is Verdict.FAIL for verdict in verdicts):
        found.append(
            f"the null arm FAILS: {spec.baseline} differs from itself, so this machine was too "
            "noisy (or the arms were not run alike) and no verdict is given; make the machine "
            "quiet, or use more launches, and measure again"
        )
    if not (spec.challengers or spec.null):
        found.append("there is only one arm: nothing is compared, and there is no verdict")
    elif spec.null is None:
        found.append(
            "there is no null arm (the baseline once more), so the noise floor of this machine is "
            "not known and a FAIL may be noise"
        )
    base = spec.arms.get(spec.baseline)
    found += machine_changes(collected.table, curves_of(collected))
    found += [
        f"{arm} and {spec.baseline} are the same image with the same settings: comparing them "
        "says nothing about two stacks"
        for arm in spec.challengers
        if base
        and base.image_sha256
        and (other := spec.arms.get(arm))
        and replace(other, image=base.image) == base
    ]
    shown = {panel.curve.benchmark for panel in panels}
    if not shown:
        found.append("no benchmark has usable launches of the baseline")
    return found


_STEP = math.log(1.25)
"""By how much all launches after a change must differ from those before, by their medians."""

_SIDE = 3
"""Blocks that must be there on both sides of a change."""


def machine_changes(
    table: Mapping[tuple[str, str, str], Mapping[str, Observations]],
    curves: Mapping[tuple[str, str, str], Curve],
) -> Iterator[str]:
    """Yield a sentence for each curve on which all arms changed at one block, and stayed so.

    Each block after the change is beyond each block before it. Where nothing changes, orders of
    ten blocks do so at one place or another in 6 of 100 cases; that the step is a quarter besides
    leaves noise that is as large as that, which a reader should know of as well.
    """
    for key, by_arm in table.items():
        step = _step(_levels(by_arm))
        if step is None:
            continue
        block, log = step
        curve = curves[key]
        worse = (log > 0) is not curve.higher_is_better
        yield (
            f"{curve.title} {curve.placement}: every arm became {math.exp(abs(log)):.1f} times "
            f"{'slower' if worse else 'faster'} from block {block} on: the machine or its network "
            "changed while it was measured. Launches of one block are compared, so that the "
            "ratios hold; they are of two machines"
        )


def _levels(by_arm: Mapping[str, Observations]) -> dict[int, list[float]]:
    """Return by block how far each arm is from its own median, as a logarithm over all sizes."""
    found: dict[int, list[float]] = {}
    for observations in by_arm.values():
        own: dict[int, list[float]] = {}
        for by_block in observations.values():
            middle = statistics.median(by_block.values()) if by_block else 1.0
            for block, value in by_block.items():
                own.setdefault(block, []).append(math.log(value / middle))
        for block, logs in own.items():
            found.setdefault(block, []).append(statistics.median(logs))
    return found


def _step(levels: Mapping[int, Sequence[float]]) -> tuple[int, float] | None:
    """Return the first block after a change that all arms show, and by how much they changed."""
    blocks = sorted(levels)
    for at in range(_SIDE, len(blocks) - _SIDE + 1):
        before = [value for block in blocks[:at] for value in levels[block]]
        after = [value for block in blocks[at:] for value in levels[block]]
        apart = min(after) > max(before) or max(after) < min(before)
        log = statistics.median(after) - statistics.median(before)
        if apart and abs(log) >= _STEP:
            return blocks[at], log
    return None
