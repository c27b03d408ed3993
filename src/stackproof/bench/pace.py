"""Launches to how long they take: before anything was measured, and from what was.

What a launch takes at first is worked out from its case: each size is run until its cap of seconds
is used up, or once where one exchange takes longer, which the link's rate decides. What launches
took then corrects that, arm by arm where there are launches of the arm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from stackproof.bench.schedule import Launch
from stackproof.bench.spec import BenchSpec
from stackproof.compare import disturbance
from stackproof.core.numbers import duration_text
from stackproof.core.value import Value, replace
from stackproof.results.case import Case, Locality
from stackproof.results.measurement import Measurement
from stackproof.results.metrics import METRICS

# --------------------------------------------------------------------------------------------------
# When a bench is given up: other programs disturbed nearly every launch, so nothing is decided.
#
# Only that others ran beside the ranks counts, and for how long: never what was measured. So giving
# up selects no results, and verdicts err as seldom as without it. A slow MPI on a quiet machine has
# all the time it needs, and so have programs whose ranks do not tell what disturbed them.

LEAST_S = 60.0
"""How long is measured before a bench is given up; with the launches that end it, two minutes."""

CLOSING_S = 30.0
"""How long launches are made at the end all the same, so that each arm has an estimate."""

FEWEST = 3
"""How many launches must have told what disturbed them. Fewer are enough if all were disturbed and
the machine is busy still: on such a machine the probes and a launch take half a minute each."""

SHARE = 0.9
"""Share of these that were disturbed from which on nothing will be decided: verdicts need three of
four pairs without disturbance, or those alone must decide (`compare.disturbance`)."""


class SpentPatienceError(Exception):
    """Other programs disturb nearly every launch."""


class Patience(Value):
    """How many launches told what disturbed them, how many were, and what the last of them said."""

    began: float
    told: int = 0
    hurt: int = 0
    example: str = ""

    def after(self, made: Measurement) -> Patience:
        """Return the patience after one more launch."""
        if not (made.usable and made.case.placement.timed):
            return self
        if all(rank.disturbance is None for rank in made.output.ranks):
            return self
        texts = [one.text for one in disturbance.disturbed((made,))]
        return replace(
            self,
            told=self.told + 1,
            hurt=self.hurt + bool(texts),
            example=texts[0] if texts else self.example,
        )

    def is_spent(self, now: float, is_busy: Callable[[], bool]) -> bool:
        """Return true where it makes no sense to go on; `is_busy` looks, and is seldom called."""
        if now - self.began < LEAST_S:
            return False
        if self.told >= FEWEST:
            return self.hurt >= SHARE * self.told
        return 0 < self.told == self.hurt and is_busy()


def of_bench(spec: BenchSpec, began: float) -> Patience | None:
    """Return the patience with a bench that began then, None for one in a batch job."""
    return None if spec.is_submitted else Patience(began=began)


def describe_disturbance(patience: Patience, last: int) -> str:
    """Return the reason for giving a bench up; `last` launches are made all the same."""
    more = f"; {_count(last, 'last launch')} for a number of each arm" if last else ""
    return (
        f"giving up: other programs disturbed {patience.hurt} of {patience.told} launches "
        f"({patience.example}), so nothing would be decided{more}"
    )


def describe_remedy(seconds: float, made: str, load: str) -> str:
    """Return the sentence at the end of a bench that is given up: what is there, what helps.

    `load` names the programs that take most time, in backquotes, if there are any.
    """
    end = "end those programs, or " if "`" in load else ""
    return (
        f"given up after {duration_text(seconds)} with {made}; now {load}. What helps: {end}"
        "`--wait-for-quiet 30m`; fewer arms, placements or sizes need a shorter quiet time; "
        "`--no-give-up` measures all the same"
    )


_START_S = 0.5
"""A launcher, two ranks and their libraries until the first message."""

_PROBE_S = 1.0
"""A probe before the launches: a start, and few messages of an MPI that talks."""

# As in `programs/csrc/measure.c`: when a first exchange takes so long there is no second one to
# warm up with, and how much of the cap the warm-up takes.
_STALL_S = 0.25
_WARM_UP = 0.2

# What memory and an unlimited link of this machine carry; they matter for the largest sizes alone.
_MEMORY_MB_S = 5000.0
_LINK_MB_S = 2000.0
_CHECKED_MB_S = 1000.0
_SLOTS_BYTES = 16 << 20
_WINDOWED = frozenset({"bandwidth", "bibandwidth", "message_rate"})


def seconds_of(case: Case, link_mb_s: float | None = None) -> float:
    """Return about how long a launch of a case takes; `link_mb_s` is the rate between its nodes."""
    within = case.placement.locality is Locality.INTRA
    rate = _MEMORY_MB_S if within else link_mb_s or _LINK_MB_S
    sizes = tuple(dict.fromkeys(case.sizes))
    total = _START_S
    for benchmark in case.benchmarks:
        for size in sizes if METRICS[benchmark].sized else (0,):
            total += _seconds_of_size(case, benchmark, size, rate)
    return total


def _seconds_of_size(case: Case, benchmark: str, size: int, rate: float) -> float:
    messages = case.window if benchmark in _WINDOWED else 2 * (len(case.placement.ranks) - 1)
    once = messages * size / rate / 1e6
    cap = case.seconds_per_size
    warm_up = once if once >= max(4 * cap, _STALL_S) else 2 * once + _WARM_UP * cap
    checked = 0.0
    if case.validate:
        window = min(messages, max(_SLOTS_BYTES // max(size, 1), 1))
        checked = 2 * (window * size / rate + 2 * window * size / _CHECKED_MB_S) / 1e6
    return warm_up + max(cap, once) + checked


class Pace(Value):
    """What every launch of a schedule takes by its case, and what those that were made took.

    `expected` has the order of a launch and its seconds, `taken` the same of those that are done.
    """

    launches: tuple[Launch, ...]
    expected: Mapping[int, float]
    taken: Mapping[int, float]

    def without(self, launches: Iterable[Launch]) -> Pace:
        """Return the pace of a schedule of which these launches are not made."""
        dropped = dict.fromkeys((launch.order for launch in launches), 0.0)
        return replace(self, expected={**self.expected, **dropped})

    def with_taken(self, launch: Launch, seconds: float) -> Pace:
        """Return the pace after one more launch."""
        taken = {**self.taken, launch.order: seconds}
        return Pace(launches=self.launches, expected=self.expected, taken=taken)

    @property
    def left_s(self) -> float:
        """Return about how long the launches take that are not done."""
        return self._left_of(self.launches)

    def _left_of(self, launches: Iterable[Launch]) -> float:
        factors = _factors(self)
        return sum(
            self.expected[one.order] * factors(one)
            for one in launches
            if one.order not in self.taken
        )

    def left_within(self, budget_s: float | None) -> float:
        """Return about how long what is not done takes at most, with a budget for timed launches.

        The launches of block 0 only check bytes: they are made beside the budget, as `blocks` of
        `bench/effects/deciding.py` does. So is the first timed block where the budget is too small
        for it.
        """
        timed = [one for one in self.launches if one.block > 0]
        left = self._left_of(timed)
        if budget_s is not None:
            used = sum(self.taken.get(one.order, 0.0) for one in timed)
            first = self._left_of(one for one in timed if one.block == 1)
            left = min(left, max(budget_s - used, first))
        return left + self._left_of(one for one in self.launches if one.block == 0)


def pace_of(
    launches: Sequence[Launch],
    seconds_for: Callable[[Launch], float],
    taken: Mapping[int, float] | None = None,
) -> Pace:
    """Return the pace of a schedule, of which some launches may have been made before.

    `seconds_for` is asked once for all launches of an arm that are alike.
    """
    known: dict[tuple[str, str, str, bool], float] = {}
    expected: dict[int, float] = {}
    for one in launches:
        # Cases of one arm differ between blocks in whether they are checked, and in nothing else.
        key = (one.arm, one.placement, one.program, one.block == 0)
        if key not in known:
            known[key] = seconds_for(one)
        expected[one.order] = known[key]
    given = {order: seconds for order, seconds in (taken or {}).items() if order in expected}
    return Pace(launches=tuple(launches), expected=expected, taken=given)


def _factors(pace: Pace) -> Callable[[Launch], float]:
    """Return by how much longer a launch takes than its case says.

    By launches of the same arm, placement and program, else of the same placement and program, else
    of all. Launches that are timed tell more of others that are than those that check bytes do.
    """
    done = [one for one in pace.launches if one.order in pace.taken]

    def table(key: Callable[[Launch], object]) -> dict[object, float]:
        sums: dict[object, tuple[float, float]] = {}
        for one in done:
            took, meant = sums.get(key(one), (0.0, 0.0))
            sums[key(one)] = (took + pace.taken[one.order], meant + pace.expected[one.order])
        return {name: took / meant for name, (took, meant) in sums.items() if meant > 0}

    keys: tuple[Callable[[Launch], object], ...] = (
        lambda one: (one.arm, one.placement, one.program, one.block == 0),
        lambda one: (one.arm, one.placement, one.program),
        lambda one: (one.placement, one.program, one.block == 0),
        lambda one: (one.placement, one.program),
        lambda _: None,
    )
    tables = [(key, table(key)) for key in keys]

    def factor(one: Launch) -> float:
        return next((found[key(one)] for key, found in tables if key(one) in found), 1.0)

    return factor


def probes_s(launches: Iterable[Launch]) -> float:
    """Return about how long the probes before these launches take."""
    return _PROBE_S * len({(one.arm, one.placement) for one in launches})


def shape_text(launches: Iterable[Launch]) -> str:
    """Return the parts of a schedule: `44 launches: 4 arms, 1 placement, …`."""
    found = tuple(launches)
    arms, places = {one.arm for one in found}, {one.placement for one in found}
    programs = {one.program for one in found}
    blocks = {(one.block, one.allocation) for one in found}
    timed = sum(block > 0 for block, _ in blocks)
    warm_up = "a warm-up and " if timed < len(blocks) else ""
    parts = [_count(len(arms), "arm"), _count(len(places), "placement")]
    parts += [_count(len(programs), "program")] if len(programs) > 1 else []
    parts.append(f"{warm_up}{_count(timed, 'block')}")
    return f"{_count(len(found), 'launch')}: {', '.join(parts)}"


def _count(number: int, what: str) -> str:
    plural = f"{what}es" if what.endswith("h") else f"{what}s"
    return f"{number} {what if number == 1 else plural}"
