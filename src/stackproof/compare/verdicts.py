"""Cells to verdicts: of a challenger, of the whole, and the sentence that says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stackproof.compare.model import ArmJudgement, ArmVerdict, Cell, Panel, Verdict, Why
from stackproof.compare.tails import NO_TAIL_MEASURED, TAIL_UNDECIDED, pass_words

_OPEN_TAILS = (TAIL_UNDECIDED, NO_TAIL_MEASURED)


def verdict_on(
    arm: str,
    panels: Sequence[Panel],
    baseline: str,
    *,
    is_null: bool,
    equal: bool = False,
) -> ArmVerdict:
    """Return the verdict on one challenger over all its cells, and the sentence that says it.

    With `equal` it was asked whether the challenger is neither slower nor faster.
    """
    judged = [(panel, j) for panel in panels if (j := panel.judgement(arm)) is not None]
    found = [cell.verdict for _, judgement in judged for cell in judgement.cells]
    counts = {verdict: found.count(verdict) for verdict in Verdict}
    if counts[Verdict.FAIL]:
        verdict = Verdict.FAIL
    elif found and counts[Verdict.PASS] == len(found):
        verdict = Verdict.PASS
    else:
        verdict = Verdict.INCONCLUSIVE
    words = (cell.reads for _, judgement in judged for cell in judgement.cells)
    return ArmVerdict(
        arm=arm,
        verdict=verdict,
        words=pass_words(words) if verdict is Verdict.PASS else verdict.value,
        is_null=is_null,
        passed=counts[Verdict.PASS],
        failed=counts[Verdict.FAIL],
        inconclusive=counts[Verdict.INCONCLUSIVE],
        unproven=_unproven(judged),
        sentence=_outcome(verdict, judged, equal=equal and not is_null)
        + _sentence(arm, baseline, judged, counts, is_null=is_null, equal=equal),
    )


def _outcome(verdict: Verdict, judged: Sequence[tuple[Panel, ArmJudgement]], *, equal: bool) -> str:
    """Return the answer to whether two arms are equal, empty where that was not asked."""
    if not equal:
        return ""
    ratios = [
        ratio
        for _, judgement in judged
        for cell in judgement.cells
        if cell.verdict is Verdict.FAIL and (ratio := _ratio(cell)) is not None
    ]
    slower = sum(ratio < 1 for ratio in ratios)
    parts = (("slower", slower), ("faster", len(ratios) - slower))
    how = " and ".join(f"{word} at {number}" for word, number in parts if number)
    return {
        Verdict.PASS: "Equal: ",
        Verdict.FAIL: f"Not equal, {how or 'as launches failed'}: ",
        Verdict.INCONCLUSIVE: "Equal or not is open: ",
    }[verdict]


def _sentence(
    arm: str,
    baseline: str,
    judged: Sequence[tuple[Panel, ArmJudgement]],
    counts: Mapping[Verdict, int],
    *,
    is_null: bool,
    equal: bool,
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
    unproven = 0 if is_null or equal else _unproven(judged)
    unclear -= unproven
    if unclear == total:
        return f"{who} is undecided at all {total} points{reason}."
    at = f"all {total} points" if passed == total else f"{passed} of {total} points"
    same = f"is as fast as {baseline}, and no faster," if equal else f"is as fast as {baseline}"
    same = "is the same" if is_null else same
    reads = [cell.reads for _, one in judged for cell in one.cells]
    parts = [f"{who} {same} within the margins at {at}{_tails(reads, passed)}"]
    if failed:
        worse = "differs" if equal else "slower"
        worse = "differs from itself" if is_null else worse
        parts.append(f"{worse} at {failed}")
    if unproven:
        parts.append(f"slower but not proven at {unproven}")
    if unclear:
        parts.append(f"undecided at {unclear}{reason}")
    return "; ".join(parts) + "."


def _tails(reads: Sequence[str], passed: int) -> str:
    """Return at how many of the points that pass the tail is open or was not measured."""
    counts = [(words.partition(", ")[2], reads.count(words)) for words in _OPEN_TAILS]
    return "".join(
        f", {words} at {'all ' if count == passed else ''}{count} of them"
        for words, count in counts
        if count
    )


def _unproven(judged: Sequence[tuple[Panel, ArmJudgement]]) -> int:
    return sum(cell.seems_slower for _, one in judged for cell in one.cells)


def _ratio(cell: Cell) -> float | None:
    """Return the ratio that a verdict is by: that of the median, or of the tail where it FAILs."""
    return cell.by_tail.ratio if cell.by_tail else cell.ratio


def overall(verdicts: Sequence[ArmVerdict]) -> Verdict:
    """Return FAIL when any challenger fails, PASS when all pass.

    The null arm cannot make a PASS of the challengers less certain by being INCONCLUSIVE. Where it
    FAILs (it differs from itself, either way) nothing is judged, see `overrule`.
    """
    challengers = [verdict for verdict in verdicts if not verdict.is_null]
    if any(verdict.verdict is Verdict.FAIL for verdict in challengers):
        return Verdict.FAIL
    if challengers and all(verdict.verdict is Verdict.PASS for verdict in challengers):
        return Verdict.PASS
    return Verdict.INCONCLUSIVE


def overall_words(verdict: Verdict, verdicts: Sequence[ArmVerdict]) -> str:
    """Return the words of the whole verdict, with the challengers' tails."""
    if verdict is not Verdict.PASS:
        return verdict.value
    return pass_words(one.reads for one in verdicts if not one.is_null)
