"""Cells to verdicts: of a challenger, of the whole, and the sentence that says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stackproof.comparison import ArmVerdict, Judgement, Panel, Verdict, Why
from stackproof.quantities import ranges_text

_WORST_SHOWN = 3


def verdict_on(arm: str, panels: Sequence[Panel], baseline: str, *, is_null: bool) -> ArmVerdict:
    """Return the verdict on one challenger over all its cells, and the sentence that says it."""
    judged = [(panel, j) for panel in panels if (j := panel.judgement(arm)) is not None]
    found = [cell.verdict for _, judgement in judged for cell in judgement.cells]
    counts = {verdict: found.count(verdict) for verdict in Verdict}
    if counts[Verdict.FAIL]:
        verdict = Verdict.FAIL
    elif found and counts[Verdict.PASS] == len(found):
        verdict = Verdict.PASS
    else:
        verdict = Verdict.INCONCLUSIVE
    return ArmVerdict(
        arm=arm,
        verdict=verdict,
        is_null=is_null,
        passed=counts[Verdict.PASS],
        failed=counts[Verdict.FAIL],
        inconclusive=counts[Verdict.INCONCLUSIVE],
        sentence=_sentence(arm, baseline, judged, counts, is_null=is_null),
    )


def _sentence(
    arm: str,
    baseline: str,
    judged: Sequence[tuple[Panel, Judgement]],
    counts: Mapping[Verdict, int],
    *,
    is_null: bool,
) -> str:
    total = sum(counts.values())
    if not total:
        return f"{arm} has no usable launch to compare with {baseline}."
    passed, failed, unclear = (
        counts[verdict] for verdict in (Verdict.PASS, Verdict.FAIL, Verdict.INCONCLUSIVE)
    )
    who = f"{baseline} against itself (arm {arm})" if is_null else arm
    few = sum(c.why in {Why.TOO_FEW, Why.NO_PAIRS} for _, one in judged for c in one.cells)
    reason = f", {'all' if few == unclear else few} for too few launches" if few else ""
    if unclear == total:
        return f"{who} is undecided at all {total} points{reason}."
    at = f"all {total} points" if passed == total else f"{passed} of {total} points"
    equal = "is the same" if is_null else f"is as fast as {baseline}"
    parts = [f"{who} {equal} within the margins at {at}"]
    if failed:
        parts.append(f"slower at {failed}: {_where(judged)}")
    if unclear:
        parts.append(f"undecided at {unclear}{reason}")
    return "; ".join(parts) + "."


def _where(judged: Sequence[tuple[Panel, Judgement]]) -> str:
    """Return where a challenger fails, worst first: `latency pair 1 B-64 B (ratio 0.80)`."""
    places: list[tuple[float, str]] = []
    for panel, judgement in judged:
        bad = [c for c in judgement.cells if c.verdict is Verdict.FAIL and c.ratio is not None]
        if bad:
            worst = min(c.ratio for c in bad if c.ratio is not None)
            curve = panel.curve
            sizes = ranges_text((c.size for c in bad), (c.size for c in judgement.cells))
            size = f" {sizes}" if curve.sized else ""
            places.append((worst, f"{curve.title} {curve.placement}{size} (ratio {worst:.2f})"))
    places.sort()
    text = ", ".join(place for _, place in places[:_WORST_SHOWN])
    rest = len(places) - _WORST_SHOWN
    more = f"{rest} more curve{'s' if rest > 1 else ''}"
    return f"{text} and on {more}" if rest > 0 else text


def overall(verdicts: Sequence[ArmVerdict]) -> Verdict:
    """Return FAIL when any arm fails, PASS when all challengers pass.

    The null arm cannot make a PASS of the challengers less certain by being INCONCLUSIVE, but its
    FAIL shows that the experiment itself is not to be trusted.
    """
    if any(verdict.verdict is Verdict.FAIL for verdict in verdicts):
        return Verdict.FAIL
    challengers = [verdict for verdict in verdicts if not verdict.is_null]
    if challengers and all(verdict.verdict is Verdict.PASS for verdict in challengers):
        return Verdict.PASS
    return Verdict.INCONCLUSIVE
