"""Results and their judgement to the notes that a reader must know to believe or doubt it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence

from stackproof.compare import halo, integrity, overrule
from stackproof.compare.collect import CollectedResults, curves_of
from stackproof.compare.disturbance import Disturbed, untold
from stackproof.compare.judge import Observations, Rules
from stackproof.compare.margins import planned_words
from stackproof.compare.model import ArmVerdict, Curve, Note, Panel, Verdict, Why
from stackproof.core.value import Value, replace
from stackproof.results.digests import Integrity
from stackproof.results.measurement import State
from stackproof.results.model import Results


class Judged(Value, kw_only=False):
    """The steps from results to verdicts that notes are made of."""

    collected: CollectedResults
    rules: Rules
    trust: Integrity
    hurt: Sequence[Disturbed]
    panels: Sequence[Panel]
    verdicts: Sequence[ArmVerdict]


_UNFINISHED = "the measuring ended early: not all planned launches were made"


def list_notes(results: Results, judged: Judged) -> tuple[Note, ...]:
    """Return the notes, warnings first: of each level in the order in which they came."""
    doubts = judged.trust.doubts
    gaps, is_unfinished = integrity.find_gaps(results)
    notes = [
        *_noted("warning", (f"not to be trusted, {one.kind}: {one.text}" for one in doubts)),
        *_noted("warning", planned_words(judged.rules.margins, results.spec.margins)),
        *_noted(
            "note" if judged.trust.digests else "warning",
            [judged.trust.sentence] if judged.trust.sentence else [],
        ),
        *_noted("warning", [_UNFINISHED] if is_unfinished else []),
        *_noted("note", gaps),
        *_noted("note", integrity.machine_words(results)),
        *_noted("warning", overrule.warnings(results.spec, results.measurements)),
        *_noted("warning", _arms(results, judged)),
        *_noted("note", _launches(results, judged)),
        *halo.describe_exchanges(judged.collected, results.spec.null, judged.hurt),
        *_disturbances(results, judged),
    ]
    return tuple(sorted(notes, key=lambda note: note.level != "warning"))


def _noted(level: str, texts: Iterable[str]) -> Iterator[Note]:
    return (Note(level=level, text=text) for text in texts)


def _arms(results: Results, judged: Judged) -> Iterator[str]:
    """Yield the reasons for which arms say little of each other, or nothing."""
    spec = results.spec
    if any(verdict.is_null and verdict.verdict is Verdict.FAIL for verdict in judged.verdicts):
        yield (
            f"the null arm FAILS: {spec.baseline} differs from itself, so this machine was too "
            "noisy (or the arms were not run alike) and no verdict is given; make the machine "
            "quiet, or use more launches, and measure again"
        )
    if not (spec.challengers or spec.null):
        yield "there is only one arm: nothing is compared, and there is no verdict"
    elif spec.null is None:
        yield (
            "there is no null arm (the baseline once more), so the noise floor of this machine is "
            "not known and a FAIL may be noise"
        )
    yield from machine_changes(judged.collected.table, curves_of(judged.collected))
    base = spec.arms.get(spec.baseline)
    for arm in spec.challengers:
        other = spec.arms.get(arm)
        if base and base.image_sha256 and other and replace(other, image=base.image) == base:
            yield (
                f"{arm} and {spec.baseline} are the same image with the same settings: comparing "
                "them says nothing about two stacks"
            )
    if not judged.panels:
        yield "no benchmark has usable launches of the baseline"


def _launches(results: Results, judged: Judged) -> Iterator[str]:
    """Yield how many launches there are, those that are missing, and what nobody looked at."""
    spec, minimum = results.spec, judged.rules.minimum_launches
    if spec.looks:
        yield (
            f"launches were made until enough was decided, with looks after {_listed(spec.looks)} "
            "per arm; the error rate of all looks together is that of a single one"
        )
    elif minimum < 10:
        yield (
            f"{minimum} launches per arm were accepted as enough; 10 are "
            "recommended, and with fewer than 5 nothing is judged"
        )
    for arm in (*spec.challengers, *(() if spec.null is None else (spec.null,))):
        yield from _absent(arm, judged.panels, results)
    yield from _alone(spec.baseline, judged.collected, judged.panels)
    for probe in results.paths:
        if probe.state is State.UNKNOWN and probe.arm != spec.null:
            yield f"which path {probe.arm} took at {probe.placement.name} could not be told"
    looked = {m.arm for m in results.measurements for s in m.output.series if s.validated}
    blind = sorted({m.arm for m in results.measurements if m.usable} - looked)
    if blind:
        yield f"nobody looked whether bytes arrived unchanged at {', '.join(blind)}"
    if judged.collected.warm_up:
        yield f"{judged.collected.warm_up} warm-up launches (block 0) are left out, as planned"


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


def _listed(numbers: Sequence[int]) -> str:
    return " and ".join(filter(None, (", ".join(map(str, numbers[:-1])), str(numbers[-1]))))


def _disturbances(results: Results, judged: Judged) -> Iterator[Note]:
    """Yield what other programs did to the launches, and what could not be said for it."""
    for program in untold(results.measurements):
        yield Note(
            level="note",
            text=f"{program} does not tell what else ran on its CPUs, nor what its interfaces "
            "sent: whether its launches were disturbed is not known",
        )
    hurt = judged.hurt
    if not hurt:
        return
    cells = [c for panel in judged.panels for one in panel.judgements for c in one.cells]
    count = sum(cell.why is Why.DISTURBED for cell in cells)
    worst = hurt[0]
    text = (
        f"in {len(hurt)} of {len(results.measurements)} launches something else was at a rank's "
        f"CPU: {worst.arm}, {worst.placement}, block {worst.block}: {worst.text}"
    )
    if count:
        points = f"{count} points" if count > 1 else "1 point"
        text += f"; the verdicts on {points} are withheld, as it may be their cause"
    yield Note(level="warning" if count else "note", text=text)


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
