"""When a bench is given up: other programs disturbed nearly every launch, so nothing is decided.

Only that others ran beside the ranks counts, and for how long: never what was measured. So giving
up selects no results, and verdicts err as seldom as without it. A slow MPI on a quiet machine has
all the time it needs, and so have programs whose ranks do not tell what disturbed them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from stackproof.bench.schedule import Launch
from stackproof.bench.spec import BenchSpec
from stackproof.compare import disturbance
from stackproof.core.value import Value, replace
from stackproof.results.measurement import Measurement

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


def sentence(patience: Patience, now: float, load: str) -> str:
    """Return the reason for giving a bench up, and a remedy."""
    return (
        f"given up after {now - patience.began:.0f} s: other programs disturbed {patience.hurt} of "
        f"{patience.told} launches ({patience.example}), so no point would be decided; now "
        f"{load}. What helps: end those programs, or `--wait-for-quiet 1h`; fewer arms, placements "
        "or sizes need a shorter quiet time; `--no-give-up` goes on. The same command continues"
    )


def closing_groups(plan: Sequence[Launch], done: Iterable[str]) -> tuple[tuple[Launch, ...], ...]:
    """Return the launches that show an estimate of every arm, those of each placement together.

    These are what is missing of the first timed block, as they would have been made: first where
    there is a launch already. `done` are the files of launches that were made.
    """
    have = set(done)
    groups: dict[tuple[str, str], list[Launch]] = {}
    for launch in plan:
        if launch.block == 1:
            groups.setdefault((launch.placement, launch.program), []).append(launch)
    begun = sorted(groups.values(), key=lambda group: all(o.file_name not in have for o in group))
    missing = (tuple(one for one in group if one.file_name not in have) for group in begun)
    return tuple(filter(None, missing))
