"""A comparison to the verdict on one of its images, as it is attached to that image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stackproof.compare.model import ArmVerdict, Comparison, Panel, Verdict
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.core.numbers import size_text
from stackproof.results.model import ComparedArm
from stackproof.share.verdict import AttestedVerdict

_WORST = (Verdict.PASS, Verdict.INCONCLUSIVE, Verdict.FAIL)


def verdict_of(
    comparison: Comparison, *, image: str, sha256: str, specification: str, folder: str
) -> AttestedVerdict:
    """Return the verdict on an image, of all arms that ran it together: the worst one counts.

    `specification` is the digest of `bench.json`. Raises `StackproofError`: NOT_TRUSTED for results
    that are not what they say, or of a null arm that fails, DOCUMENT_OF_ANOTHER where the image is
    no challenger.
    """
    spec, trust = comparison.spec, comparison.integrity
    where = Location(file=folder)
    if trust is not None and not trust.trusted:
        raise fail(
            Reason.NOT_TRUSTED,
            f"the results in `{folder}` cannot be trusted, so there is no verdict to attach",
            detail="\n".join(one.text for one in trust.doubts),
            hint="measure again, or take the folder as `stackproof bench` left it",
            where=where,
        )
    if any(one.is_null and one.verdict is Verdict.FAIL for one in comparison.verdicts):
        raise fail(
            Reason.NOT_TRUSTED,
            f"in `{folder}` the baseline differs from itself, so no verdict of it can be trusted",
            hint="make the machine quiet, or take more launches, and measure again",
            where=where,
        )
    own = [name for name, arm in spec.arms.items() if arm.image_sha256 == sha256]
    judged = [one for one in comparison.verdicts if one.arm in own and not one.is_null]
    if not judged:
        raise _of_another(comparison, image, own, where)
    points = [(name, found) for one in judged for name, found in _points(comparison.panels, one)]
    baseline = spec.arms.get(spec.baseline, ComparedArm())
    return AttestedVerdict(
        image=sha256,
        verdict=max((one.verdict for one in judged), key=_WORST.index),
        specification=specification,
        arms=tuple(one.arm for one in judged),
        baseline=_words(spec.baseline, baseline),
        baseline_image=baseline.image_sha256,
        date=spec.created,
        stackproof=spec.stackproof,
        trust=trust.sentence if trust is not None else "",
        machine={key: str(value) for key, value in spec.host.items() if value},
        margins=comparison.margins,
        passed=tuple(name for name, found in points if found is Verdict.PASS),
        open=tuple(name for name, found in points if found is Verdict.INCONCLUSIVE),
        failed=tuple(name for name, found in points if found is Verdict.FAIL),
    )


def _points(panels: Sequence[Panel], one: ArmVerdict) -> Iterator[tuple[str, Verdict]]:
    """Yield what was judged of an arm: `ARM: PLACEMENT, PROGRAM BENCHMARK, SIZE`."""
    for panel in panels:
        judgement, curve = panel.judgement(one.arm), panel.curve
        for cell in judgement.cells if judgement else ():
            size = f", {size_text(cell.size)}" if curve.sized else ""
            yield (
                f"{one.arm}: {curve.placement}, {curve.program} {curve.benchmark}{size}",
                cell.verdict,
            )


def _words(name: str, arm: ComparedArm) -> str:
    mpi = " ".join(str(arm.mpi[key]) for key in ("family", "version") if arm.mpi.get(key))
    return f"{name} ({mpi})" if mpi else name


def _of_another(
    comparison: Comparison, image: str, own: Sequence[str], where: Location
) -> StackproofError:
    spec = comparison.spec
    rows = [
        f"{name}: {spec.arms[name].image or spec.arms[name].asked}, "
        f"{spec.arms[name].image_sha256[:16] or 'no image'}"
        for name in spec.challengers
        if name in spec.arms
    ]
    if spec.baseline in own:
        text = f"these results judge others by `{image}`, their baseline, and not it"
    else:
        text = f"these results are not of `{image}`: no challenger has its SHA-256"
    return fail(
        Reason.DOCUMENT_OF_ANOTHER,
        text,
        detail="\n".join(rows) or None,
        hint="attach them to the image of a challenger; an image that was built again is another",
        where=where,
    )
