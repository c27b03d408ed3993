"""What a sweep found, in words: the best setting by size, with its interval."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from markupsafe import Markup

from stackproof.compare.model import Choice, Comparison, SweepOutcome
from stackproof.core.numbers import ranges_text, ratio_text
from stackproof.report.markup import element, table

_HEADS = ("Benchmark", "Sizes", "Best setting", "Ratio", "Not told apart")
_EXPLAINED = (
    "Ratios are to the baseline, above 1 where the setting is better; intervals hold for all looks "
    "and settings together. A setting is given up when others are as good at every size, within "
    "the margin."
)


def outcome_sentence(comparison: Comparison, found: SweepOutcome) -> str:
    """Return which setting serves most sizes, and what it cost to know."""
    share = f"{found.launches} of {found.grid} launches of a full grid"
    if found.best == comparison.spec.baseline:
        return f"No setting serves more sizes than `{found.best}` as it is ({share})."
    return f"`{found.best}` serves most sizes ({share})."


def best_lines(found: SweepOutcome) -> tuple[str, ...]:
    """Return a line for each range of sizes at which the same setting is best."""
    return tuple(
        f"{benchmark}{f', {sizes}' if sizes else ''}: {arm}"
        + (f", {ratio} of the baseline" if ratio else "")
        + (f"; not told apart: {equal}" if equal else "")
        for benchmark, sizes, arm, ratio, equal in _rows(found)
    )


def sweep_part(comparison: Comparison) -> Markup | None:
    """Return the part of a report with the best settings; None where there was no sweep."""
    found = comparison.sweep
    if found is None:
        return None
    return element(
        "section",
        element("h2", "Settings"),
        element("p", outcome_sentence(comparison, found)),
        table("The best setting by size", _HEADS, _rows(found)),
        element("p", _EXPLAINED),
        id="settings",
    )


def _rows(found: SweepOutcome) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield benchmark, sizes, best setting, its ratio, and what is not told from it."""
    for (title, program, placement), group in groupby(
        found.choices, key=lambda one: (one.title, one.program, one.placement)
    ):
        choices = list(group)
        sized = len({one.size for one in choices}) > 1
        programs = {one.program for one in found.choices}
        head = f"{title}{f' ({program})' if len(programs) > 1 else ''} at {placement}"
        sizes = [one.size for one in choices]
        for _, same in groupby(choices, key=lambda one: "" if one.equal else one.arm):
            range_ = list(same)
            at = ranges_text([one.size for one in range_], sizes) if sized else ""
            arm, equal = range_[0].arm, sorted({name for one in range_ for name in one.equal})
            told = arm if not equal else "none stands out"
            others = ", ".join(sorted({*equal, *(one.arm for one in range_)})) if equal else ""
            yield head, at, told, "" if equal else _ratio_text(range_), others


def _ratio_text(choices: Sequence[Choice]) -> str:
    """Return `1.18 to 1.21 (1.15 to 1.24)`: the ratios and the widest of their intervals."""
    known = [one for one in choices if one.ratio and one.low and one.high]
    if not known:
        return ""
    ratios = sorted(one.ratio for one in known if one.ratio)
    first, last = ratio_text(ratios[0]), ratio_text(ratios[-1])
    low = ratio_text(min(one.low for one in known if one.low))
    high = ratio_text(max(one.high for one in known if one.high))
    return f"{first if first == last else f'{first} to {last}'} ({low} to {high})"
