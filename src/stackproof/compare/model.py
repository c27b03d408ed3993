"""The nouns of comparing: results that were measured, and the comparison made of them.

`Results` is a results folder as a value (`bench.json` and every launch). `Comparison` holds
everything a reader needs to believe or doubt a verdict: curves, cells, what was discarded, and how
each arm was made and run. Ratios are always oriented so that more than 1 means that the challenger
is better.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from math import log
from typing import ClassVar

from msgspec import field

from stackproof.core.value import Value, replace
from stackproof.results.digests import Integrity
from stackproof.results.measurement import Check, State
from stackproof.results.model import ResultsSpec
from stackproof.results.path import MessagePaths

DEFAULT_MARGINS: Mapping[str, float] = {
    "latency": 0.10,
    "bandwidth": 0.05,
    "rate": 0.10,
    "collective": 0.10,
}
"""How much worse a challenger may be, as a fraction of the baseline, by kind of metric."""

MOST_LAUNCHES = 40
"""Launches per arm after which an experiment ends that would go on until all is decided."""

NULL_FAMILY_ERROR = 0.01
"""The chance, over everything measured, that the null arm FAILs on a machine without fault."""

TAIL_ERROR = 0.05
"""The chance, for the tails of one curve together, of one false FAIL at the tails' margin."""

ENOUGH_CALM = 0.75
"""Share of pairs without disturbance that need only point the same way, and not decide alone."""

TABLE_SIZES: tuple[int, ...] = (8, 1024, 8192, 65536, 1 << 20, 1 << 22)
"""Message sizes of the verdict table, in bytes."""


class Verdict(StrEnum):
    """The three answers of a comparison."""

    PASS = "PASS"  # noqa: S105 - a verdict, not a password
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"


class Why(StrEnum):
    """Why a cell is INCONCLUSIVE, and that it is the tail which makes a cell FAIL."""

    NOT_TRUSTED = "not-trusted"
    """The results are not what they say, see `Integrity`."""

    WITHHELD = "withheld"
    """Nothing is said of the arm, see `ArmVerdict.overruled`."""

    NO_PAIRS = "no-pairs"
    """No block has a usable launch of both arms."""
    TOO_FEW = "too-few-launches"
    INTERVAL = "interval-crosses-margin"
    CHANCE = "not-beyond-chance"
    """The interval is below the margin, but so many sizes were looked at that it may be chance."""
    NOISE = "within-noise-floor"
    """The difference is not larger than what the baseline shows against itself."""
    DISTURBED = "disturbed"
    """Something else was at a rank's CPU, and launches without that do not bear the verdict out."""
    TAIL = "tail"
    """The median passes: the tail FAILs, or it is undecided and a margin is stated for it."""
    TAIL_BEYOND = "tail-beyond-margin"
    """The median passes, and the estimate of a tail that is not decided lies beyond its margin."""
    NO_TAIL = "no-tail-measured"
    """The median passes, and no tail was measured though a margin is stated for it."""


_SAY_NOTHING = frozenset({Why.NOT_TRUSTED, Why.WITHHELD, Why.NO_PAIRS, Why.TOO_FEW})


class CompareOptions(Value):
    """How to compare.

    `margins` override those of the specification. `confidence` is the coverage of the two-sided
    intervals; `family_error` the chance, for the sizes of one curve together, of one false FAIL
    when the challenger stands exactly at the margin. `minimum_launches` None takes the
    specification's.
    """

    margins: Mapping[str, float] = field(default_factory=dict)
    confidence: float = 0.95
    family_error: float = 0.05
    minimum_launches: int | None = None


class Curve(Value):
    """What identifies a curve: one benchmark of one program at one placement.

    `nodes` and `ranks` are those of the placement, 0 where they are not known.
    """

    placement: str
    locality: str
    program: str
    benchmark: str
    title: str
    unit: str
    kind: str
    higher_is_better: bool
    sized: bool = True
    nodes: int = 0
    ranks: int = 0

    @property
    def key(self) -> tuple[str, str, str]:
        """Return placement, program and benchmark."""
        return (self.placement, self.program, self.benchmark)


class Point(Value):
    """One arm at one size: the per-launch medians (`values`, one per block) and their summary.

    All values are in the curve's unit. `percent_of_limit` is None where no limit is stated or the
    metric has none. `outliers` are blocks outside Tukey's fences; they stay in. `tails` are the
    medians over launches of `mean` and `p95`, and `p99` of the samples of all launches together,
    as far as there are enough samples.
    """

    size: int
    median: float
    minimum: float
    maximum: float
    blocks: tuple[int, ...]
    values: tuple[float, ...]
    percent_of_limit: float | None = None
    outliers: tuple[int, ...] = ()
    tails: Mapping[str, float] = field(default_factory=dict)

    def __hash__(self) -> int:
        return hash((self.size, self.values))


class Fit(Value):
    """Hockney's model T(s) = T0 + s / B of one arm's curve.

    `t0_us` in µs, `bandwidth` in MB/s (10^6 B), `half_size` in bytes: where half of the bandwidth
    is reached. None where the sizes measured do not determine it.
    """

    t0_us: float | None = None
    bandwidth: float | None = None
    half_size: float | None = None


class ArmCurve(Value):
    """One arm's points of a curve, by growing size; `transport` is the path it was forced on."""

    arm: str
    points: tuple[Point, ...]
    fit: Fit | None = None
    transport: str = ""


class Tail(Value):
    """The judgement of one statistic of the samples of a launch: `mean`, `p95` or `p99`.

    The fields are those of a `Cell`. `ratio` is the typical one of the means of two launches, or
    that of the percentiles of all samples of the arms.
    """

    statistic: str
    blocks: int
    verdict: Verdict
    margin: float
    why: Why | None = None
    ratio: float | None = None
    p: float | None = None
    floor: float | None = None
    launches_needed: int | None = None


class Cell(Value):
    """The judgement of one challenger at one size.

    `blocks` counts the pairs used. `ratio` with `low` and `high` is the typical ratio of the two
    launches of a block and its interval; `p` the adjusted p-value of "not worse than the FAIL
    margin", for the null arm "nor better". `margin` is the stated
    margin, `floor` the noise floor (None without a null arm). `launches_needed` estimates how many
    launches per arm would settle an INCONCLUSIVE cell; None when no sensible number would. These
    are of the medians; `tails` holds what else was judged, and `words` what the cell reads:
    `PASS, tail undecided`.
    """

    size: int
    blocks: int
    verdict: Verdict
    margin: float
    why: Why | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    floor: float | None = None
    launches_needed: int | None = None
    tails: tuple[Tail, ...] = ()
    words: str = ""

    @property
    def reads(self) -> str:
        """Return the verdict with what is to be said of the tail."""
        return self.words or self.verdict.value

    @property
    def by_tail(self) -> Tail | None:
        """Return the tail that is worst where a tail makes the cell FAIL, else None."""
        failed = [tail for tail in self.tails if tail.verdict is Verdict.FAIL]
        if self.why is not Why.TAIL or not failed:
            return None
        return max(failed, key=lambda tail: abs(log(tail.ratio or 1.0)))

    @property
    def seems_slower(self) -> bool:
        """Return whether the whole interval lies below the margin, and FAIL is not proven.

        An interval of too few launches says nothing yet.
        """
        known = self.verdict is Verdict.INCONCLUSIVE and self.is_judged
        return known and self.high is not None and self.high < 1 - self.margin

    @property
    def is_judged(self) -> bool:
        """Return false where its numbers say nothing, as those of too few launches."""
        return self.why not in _SAY_NOTHING


class Regime(Value):
    """Geometric mean of the ratios of a range of sizes, with its interval."""

    name: str
    sizes: tuple[int, ...]
    ratio: float
    low: float
    high: float


class ArmJudgement(Value):
    """One challenger on one curve: a cell for every size, and the regimes."""

    arm: str
    cells: tuple[Cell, ...]
    regimes: tuple[Regime, ...] = ()


class Panel(Value):
    """Everything about one curve: all arms' points and all challengers' judgements."""

    curve: Curve
    limit: float | None
    limit_source: str
    arms: tuple[ArmCurve, ...]
    judgements: tuple[ArmJudgement, ...]

    def points(self, arm: str) -> Mapping[int, Point]:
        """Return an arm's points by size."""
        return {p.size: p for curve in self.arms if curve.arm == arm for p in curve.points}

    def transport(self, arm: str) -> str:
        """Return the path that an arm was forced on here, empty when it was not measured."""
        return next((curve.transport for curve in self.arms if curve.arm == arm), "")

    def judgement(self, arm: str) -> ArmJudgement | None:
        """Return a challenger's judgement, None when it was not measured here."""
        return next((j for j in self.judgements if j.arm == arm), None)

    def cell(self, arm: str, size: int) -> Cell | None:
        """Return the judgement of a challenger at one size, None when there is none."""
        judgement = self.judgement(arm)
        cells = judgement.cells if judgement else ()
        return next((cell for cell in cells if cell.size == size), None)


def is_too_many(disturbed: int, launches: int) -> bool:
    """Return true where too many launches were disturbed for a verdict."""
    return disturbed > (1 - ENOUGH_CALM) * launches


def change_cells(panels: Sequence[Panel], change: Callable[[str, Cell], Cell]) -> tuple[Panel, ...]:
    """Return panels with cells that `change` makes of the arm and the cell."""

    def changed(judgement: ArmJudgement) -> ArmJudgement:
        cells = tuple(change(judgement.arm, cell) for cell in judgement.cells)
        return replace(judgement, cells=cells)

    return tuple(
        replace(panel, judgements=tuple(map(changed, panel.judgements))) for panel in panels
    )


class ArmVerdict(Value):
    """The verdict of one challenger (or of the null arm) over all its cells.

    Of those that are `inconclusive`, `unproven` look slower (`Cell.seems_slower`). `words` are as
    those of a cell. `overruled` is empty, or says in a few words what overrules the cells.
    """

    arm: str
    verdict: Verdict
    is_null: bool
    passed: int
    failed: int
    inconclusive: int
    sentence: str
    unproven: int = 0
    words: str = ""
    overruled: str = ""

    @property
    def reads(self) -> str:
        """Return the verdict with what is to be said of the tail."""
        return self.words or self.verdict.value


class Best(Value):
    """The sizes of a curve at which one arm is better than every other, the baseline included."""

    program: str
    benchmark: str
    arm: str
    transport: str
    sizes: tuple[int, ...]


class Ranking(Value):
    """Which arm is best at one placement, where arms took different paths.

    `points` counts sizes of curves at which several arms were measured, `open_points` those at
    which no arm stands above every other.
    """

    placement: str
    best: tuple[Best, ...]
    points: int
    open_points: int
    sentence: str


class Validated(Value):
    """A launch that was made to check what is received, with ranks that may share CPUs.

    It was not timed. `received` is the number of bytes that were compared; `evidence` says what
    was found.
    """

    arm: str
    placement: str
    locality: str
    nodes: int
    ranks: int
    program: str
    transport: str
    benchmarks: tuple[str, ...]
    sizes: tuple[int, ...]
    received: int
    state: State
    evidence: str


class Discarded(Value):
    """A launch, or part of one, that did not enter: `reason` is a value of `errors.Reason`."""

    what: str
    reason: str
    evidence: str
    arm: str = ""
    block: int | None = None
    placement: str = ""
    program: str = ""


class RankPlace(Value):
    """Where one rank really was: host, processor, affinity mask, and its NUMA node, NIC and GPU.

    `nic` and `gpu` are what its placement gave it; empty and None where nobody chose. `verified`
    names what of its placement the rank itself said: node, core, NUMA, NIC, GPU; `wrong` is what
    it said otherwise.
    """

    rank: int
    host: str
    cpu: int | None
    cpus: tuple[int, ...]
    numa: int | None = None
    nic: str = ""
    gpu: int | None = None
    verified: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()


class ArmLaunch(Value):
    """How one arm was launched at one placement: the first usable launch stands for all.

    `checks` are those of all launches, each different evidence once.
    """

    arm: str
    placement: str
    program: str
    count: int
    argv: tuple[str, ...]
    env: Mapping[str, str]
    mpi_library: str
    program_version: str
    ranks: tuple[RankPlace, ...]
    checks: tuple[Check, ...]
    libraries: tuple[str, ...] = ()
    host_facts: Mapping[str, str] = field(default_factory=dict)
    clock: Mapping[str, float] = field(default_factory=dict)


class Note(Value):
    """Something the reader must know; `level` is `warning` or `note`."""

    level: str
    text: str


class Comparison(Value):
    """The verdict and everything behind it.

    `margins`, `minimum_launches`, `confidence` and `family_error` are those that were used; `words`
    are as those of a cell. `paths`
    is what the probes found. `rankings` is empty where all arms took the same paths. Of all
    launches, `read`, others ran at a CPU of the ranks in those `disturbed`. `unfinished` results
    lack launches that were planned.
    """

    SCHEMA: ClassVar[str] = "stackproof/comparison/1"

    verdict: Verdict
    verdicts: tuple[ArmVerdict, ...]
    panels: tuple[Panel, ...]
    discarded: tuple[Discarded, ...]
    launches: tuple[ArmLaunch, ...]
    notes: tuple[Note, ...]
    spec: ResultsSpec
    margins: Mapping[str, float]
    minimum_launches: int
    confidence: float
    family_error: float
    paths: tuple[MessagePaths, ...] = ()
    rankings: tuple[Ranking, ...] = ()
    validated: tuple[Validated, ...] = ()
    integrity: Integrity | None = None
    words: str = ""
    read: int = 0
    disturbed: int = 0
    unfinished: bool = False

    @property
    def reads(self) -> str:
        """Return the verdict with what is to be said of the tails."""
        return self.words or self.verdict.value

    @property
    def is_disturbed(self) -> bool:
        """Return true where more launches like these would decide nothing."""
        return is_too_many(self.disturbed, self.read)

    @property
    def arms(self) -> tuple[str, ...]:
        """Return every arm: baseline, null arm, challengers."""
        null = () if self.spec.null is None else (self.spec.null,)
        return (self.spec.baseline, *null, *self.spec.challengers)

    @property
    def challengers(self) -> tuple[str, ...]:
        """Return the arms that were judged, the null arm last."""
        null = () if self.spec.null is None else (self.spec.null,)
        return (*self.spec.challengers, *null)

    def verdict_of(self, arm: str) -> ArmVerdict:
        """Return the verdict of one challenger; raises `KeyError` for an arm not judged."""
        for verdict in self.verdicts:
            if verdict.arm == arm:
                return verdict
        raise KeyError(arm)
