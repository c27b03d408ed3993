"""Results to whether they are what they say: digests, and what launches tell of each other.

What is looked for is what somebody who wants another verdict would do: leave launches out, copy
one over others, give one arm the launches of another or of another machine or year, change what was
planned. Numbers that were changed are told by digests alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from stackproof.compare import launch_checks, overrule
from stackproof.compare.model import Comparison, Verdict, Why
from stackproof.core.value import replace
from stackproof.knowledge.evidence import relevant
from stackproof.mpi import families
from stackproof.results.digests import Doubt, DoubtKind, Integrity
from stackproof.results.measurement import Measurement
from stackproof.results.model import Results

_FEWEST_VALUES = 8
"""So many different values two launches cannot have in common by chance."""

_LONGEST_BLOCK = timedelta(hours=24)
"""Launches of one block follow each other; more between them is another experiment."""

PATH_CHECK = "path"
"""The check of a launch that repeats what the probe before it found."""

_UNTRUE = "not judged: these results are not what they say"
_IMPORTED = "imported from"
_MACHINE = {"kernel": DoubtKind.KERNEL, "cpu": DoubtKind.HOST}
"""Facts of a launch that must be those of the others in its block."""

_MOST = 12
"""Doubts of one kind that are listed one by one."""


def look(results: Results) -> Integrity:
    """Return whether results can be trusted, with everything that speaks against it."""
    by_digests = results.digests or Integrity()
    texts = (
        *_of(DoubtKind.SPECIFICATION, _struck(results)),
        *_of(DoubtKind.MISSING, _shortened(_unprobed(results))),
        *_of(DoubtKind.MISSING, _shortened(_unchecked(results))),
        *_of(DoubtKind.SWAPPED, _shortened(_swapped(results))),
        *_of(DoubtKind.DOUBLED, _shortened(_doubled(results))),
        *(doubt for group in _blocks(results.measurements) for doubt in _of_block(group)),
        *_machines(results),
        *_of(DoubtKind.ENVIRONMENT, _environments(results)),
        *_of(DoubtKind.LIBRARY, _libraries(results)),
    )
    doubts = (*by_digests.doubts, *(Doubt(kind=kind, text=text) for kind, text in texts))
    return replace(by_digests, doubts=tuple(dict.fromkeys(doubts)))


def _of(kind: DoubtKind, texts: Iterable[str]) -> Iterator[tuple[DoubtKind, str]]:
    return ((kind, text) for text in texts)


def withheld(comparison: Comparison, integrity: Integrity) -> Comparison:
    """Return a comparison without any verdict: its results are not what they say."""
    if integrity.trusted:
        return replace(comparison, integrity=integrity)
    return replace(
        comparison,
        integrity=integrity,
        verdict=Verdict.INCONCLUSIVE,
        words=Verdict.INCONCLUSIVE.value,
        verdicts=tuple(
            overrule.without_verdict(one, _UNTRUE, f"{one.arm} is {_UNTRUE}.")
            for one in comparison.verdicts
        ),
        panels=overrule.without_answers(comparison.panels, comparison.arms, Why.NOT_TRUSTED),
    )


def is_imported(launch: Measurement) -> bool:
    """Return true for an output of another program, which the user gave."""
    return _IMPORTED in launch.host_facts


def find_gaps(results: Results) -> tuple[list[str], bool]:
    """Return the arms with gaps at each placement, and whether planned launches were not made.

    Where it was looked while launches came in, an arm may end early; but it may have no gaps.
    """
    blocks: dict[tuple[str, str], dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for one in results.measurements:
        if one.block > 0 and one.case.placement.timed:
            blocks[one.case.placement.name, one.case.program][one.arm].add(one.block)
    least = min((len(seen) for by_arm in blocks.values() for seen in by_arm.values()), default=0)
    if not results.spec.looks:
        return [], least < results.spec.launches
    gaps = []
    for (placement, program), by_arm in blocks.items():
        few = [f"{len(seen)} of {arm}" for arm, seen in by_arm.items() if len(seen) < max(seen)]
        if few:
            gaps.append(
                f"launches at {placement} with {program} have gaps: there are {', '.join(few)}, "
                "and later ones"
            )
    return gaps, False


# --- what launches tell of each other -------------------------------------------------------


def _name(one: Measurement) -> str:
    return f"launch {one.order} ({one.arm}, block {one.block}, {one.case.placement.name})"


def _shortened(texts: Iterable[str]) -> list[str]:
    """Return the first doubts of a kind, and how many more there are."""
    found = list(texts)
    more = len(found) - _MOST
    return [*found[:_MOST], *([f"and so are {more} more launches"] if more > 0 else [])]


def _struck(results: Results) -> Iterator[str]:
    """Yield the arms that were measured and are no longer in the specification."""
    spec = results.spec
    known = {spec.baseline, spec.null, *spec.challengers}
    counts = Counter(one.arm for one in results.measurements if one.arm not in known)
    for arm, count in counts.items():
        yield (
            f"{count} launches are of the arm `{arm}`, which the specification has not: it was "
            "struck out"
        )


def _unprobed(results: Results) -> Iterator[str]:
    """Yield the probes that launches carry the answer of, and that are not there.

    The null arm is the baseline once more, and may have its probe.
    """
    spec = results.spec
    there = {(one.arm, one.placement.name) for one in results.paths}
    there |= {(spec.null, place) for arm, place in there if spec.null and arm == spec.baseline}
    told = {
        (one.arm, one.case.placement.name): None
        for one in sorted(results.measurements, key=lambda one: one.order)
        if any(check.name == PATH_CHECK for check in one.checks)
    }
    for arm, place in told:
        if (arm, place) not in there:
            yield f"the probe of {arm} at {place}, which its launches tell of, is missing (probes/)"


def _unchecked(results: Results) -> Iterator[str]:
    """Yield timed launches without a check: `bench` makes none without; warm-ups may have none."""
    for launch in _ours(results):
        if launch.block and not launch.checks:
            yield f"the checks of {_name(launch)} are missing"


def _swapped(results: Results) -> Iterator[str]:
    """Yield launches that were made with another image, or file, than their arm says."""
    images = {name: arm.image_sha256 for name, arm in results.spec.arms.items()}
    files = results.files or ("",) * len(results.measurements)
    for one, file in zip(results.measurements, files, strict=True):
        planned = images.get(one.arm, "")
        if planned and one.image_sha256 and planned != one.image_sha256:
            owners = [name for name, image in images.items() if image == one.image_sha256]
            whose = f"that of {' or '.join(owners)}" if owners else "one that no arm has"
            yield f"{_name(one)} was not made with the image of its arm, but with {whose}"
        elif one.image_sha256 and file and not _fits_name(one, file):
            yield f"{_name(one)} lies in `{file}`, another launch's file"


def _fits_name(one: Measurement, file: str) -> bool:
    """Return whether a file has the name that `bench` gives to this launch (`jobs.Launch`)."""
    beginning, dash, rest = file.partition("-")
    if not dash or not beginning.isdecimal():
        return True  # not a name that bench gave
    return int(beginning) == one.order and rest.startswith(f"{one.arm}-{one.case.placement.name}-")


def _doubled(results: Results) -> Iterator[str]:
    """Yield launches whose every measured value is that of another launch."""
    first: dict[tuple[object, ...], Measurement] = {}
    for one in results.measurements:
        values = tuple((s.benchmark, s.size, s.values) for s in one.output.series)
        if len({value for part in values for value in part[2]}) < _FEWEST_VALUES:
            continue
        before = first.setdefault(values, one)
        if before is not one and not is_imported(one):
            yield f"{_name(one)} has every value of {_name(before)}: it is a copy"


def _blocks(measurements: Sequence[Measurement]) -> Iterator[Sequence[Measurement]]:
    """Yield the launches that are compared with each other, in the order in which they ran.

    Those that failed are not: one may be older than those that its block was made again with.
    """
    groups: dict[tuple[int, str, str], list[Measurement]] = defaultdict(list)
    for one in sorted(measurements, key=lambda one: one.order):
        if one.usable and not is_imported(one):
            groups[one.block, one.case.placement.name, one.case.program].append(one)
    yield from groups.values()


def _of_block(group: Sequence[Measurement]) -> Iterator[tuple[DoubtKind, str]]:
    """Yield where the launches of a block were made on other nodes, or at another time."""
    hosts: dict[tuple[str, ...], Measurement] = {}
    last: tuple[datetime, Measurement] | None = None
    for one in group:
        where = tuple(sorted({rank.host for rank in one.output.ranks if rank.host}))
        if where:
            other = next((seen for seen in hosts if seen != where), None)
            if other is not None:
                here, there = ", ".join(where), ", ".join(other)
                text = f"{_name(one)} ran on {here}, and {_name(hosts[other])} on {there}"
                yield DoubtKind.HOST, text
            hosts.setdefault(where, one)
        for fact, kind in _MACHINE.items():
            own, first = one.host_facts.get(fact), group[0].host_facts.get(fact)
            if own and first and own != first:
                made = f"{_name(one)} was made with the {fact} `{own}`"
                yield kind, f"{made}, {_name(group[0])} with `{first}`"
        at = _time(one.started)
        if at is None:
            continue
        if last is not None and (at < last[0] or at - last[0] > _LONGEST_BLOCK):
            before = f"{_name(last[1])}, before it in the same block, at {last[1].started}"
            yield DoubtKind.TIME, f"{_name(one)} began at {one.started}, and {before}"
        last = (at, one)


def _time(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return None if at.tzinfo is None else at


def _machines(results: Results) -> Iterator[tuple[DoubtKind, str]]:
    """Yield launches that were made below another kernel, or on another machine, than was said."""
    for fact, kind in _MACHINE.items():
        said = {one.host_facts[fact]: one for one in _ours(results) if one.host_facts.get(fact)}
        wanted = results.spec.host.get(fact)
        if said and isinstance(wanted, str) and wanted and wanted not in said:
            (text, one), *_ = said.items()
            yield kind, f"the specification has the {fact} `{wanted}`, and {_name(one)} `{text}`"


def machine_words(results: Results) -> list[str]:
    """Return where whole blocks were made on another machine, or below another kernel."""
    return [
        f"blocks were made with different values of {fact}: {', '.join(sorted(said))}"
        for fact in _MACHINE
        if len(said := {one.host_facts.get(fact, "") for one in _ours(results)} - {""}) > 1
    ]


def _ours(results: Results) -> Iterator[Measurement]:
    return (one for one in results.measurements if not is_imported(one))


def _many(ones: Sequence[Measurement]) -> str:
    if len(ones) == 1:
        return f"{_name(ones[0])} was made"
    return f"{_name(ones[0])} and {len(ones) - 1} more were made"


def _libraries(results: Results) -> Iterator[str]:
    """Yield launches of an arm that another MPI answered in than in its others, or than planned.

    The null arm is the baseline once more, so one library answers in both.
    """
    spec = results.spec
    groups: dict[tuple[str, str], dict[str, list[Measurement]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for launch in _ours(results):
        text = launch.output.mpi_library.strip()
        if text and launch.usable:
            arm = spec.baseline if launch.arm == spec.null else launch.arm
            groups[arm, launch.case.program][text].append(launch)
    for (arm, _), answers in groups.items():
        mpi = spec.arms[arm].mpi if arm in spec.arms else {}
        family, version = (str(mpi.get(key, "")) for key in ("family", "version"))
        known = family in families.REGISTRY and bool(version)
        usual = max(answers, key=lambda text: len(answers[text]))
        for text, launches in answers.items():
            planned = f"{family} {version}" if known else f"`{usual.splitlines()[0]}`"
            is_other = text != usual
            if known:
                is_other |= not launch_checks.is_release(text, family, version)
            if is_other:
                here = text.splitlines()[0]
                yield f"{_many(launches)} with `{here}`, and the MPI of {arm} is {planned}"


def _variables(one: Measurement) -> dict[str, str]:
    """Return the variables of a launch: those of its deployment, and those of its arm's ranks."""
    return {**one.env, **one.case.env}


def _environments(results: Results) -> Iterator[str]:
    """Yield launches of an arm whose variables are not those of its other launches."""
    groups: dict[tuple[str, str, str, str], list[Measurement]] = defaultdict(list)
    for one in results.measurements:
        key = (one.arm, one.case.placement.name, one.case.program, one.case.transport)
        groups[key].append(one)
    for group in groups.values():
        seen: dict[tuple[tuple[str, str], ...], list[Measurement]] = defaultdict(list)
        for one in group:
            seen[tuple(sorted(relevant(_variables(one)).items()))].append(one)
        if len(seen) < 2:
            continue
        (usual, _), *others = sorted(seen.items(), key=lambda item: -len(item[1]))
        for variables, ones in others:
            names = sorted({name for name, _ in {*usual} ^ {*variables}})
            yield (
                f"{_many(ones)} with another environment than the other launches of "
                f"{ones[0].arm}: {', '.join(names)}"
            )
    for arm, planned in results.spec.arms.items():
        ones = [one for one in results.measurements if one.arm == arm and _variables(one)]
        for name, value in planned.env.items():
            other = [one for one in ones if _variables(one).get(name) != value]
            if other:
                yield (
                    f"{_many(other)} without {name}={value}, which the specification sets for {arm}"
                )
