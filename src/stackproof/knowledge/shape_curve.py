"""The noun of a curve whose shape is looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import field

from stackproof.core.value import Value
from stackproof.knowledge.reference_curves import BufferPlace
from stackproof.results.case import Locality


class ShapeCurve(Value):
    """A curve to be looked at: `values` by size in bytes, in µs or MB/s (10^6 B).

    `transport` is the path that was asked for, empty or `auto` where none was.

    `launches` holds the value of each launch by size; it is empty for a published curve, which is
    taken as it stands. `link` is what one
    NIC carries in one direction, `gpu_link` what joins two GPUs (MB/s), None where not known.
    `windowed` says that many messages are under way. `meant` names the MPI that the arm was to
    load: arms that mean the same may well be alike.
    """

    arm: str
    benchmark: str
    placement: str
    locality: Locality
    memory: BufferPlace
    values: Mapping[int, float]
    launches: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    ranks: int = 2
    link: float | None = None
    gpu_link: float | None = None
    slingshot: bool | None = None
    windowed: bool = True
    library: str = ""
    program: str = ""
    transport: str = ""
    meant: str = ""

    @property
    def limit(self) -> float | None:
        """Return the rate that the link carries in this benchmark's accounting, MB/s."""
        if self.link is None:
            return None
        return 2 * self.link if self.benchmark == "bibandwidth" else self.link

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the sizes above zero, rising."""
        return tuple(size for size in sorted(self.values) if size > 0)

    @property
    def best(self) -> float:
        """Return the largest value."""
        return max(self.values[size] for size in self.sizes)

    @property
    def last(self) -> float:
        """Return the value at the largest size."""
        return self.values[self.sizes[-1]]

    def rate(self, size: int) -> float:
        """Return messages a second at a size."""
        return self.values[size] * 1e6 / size

    def doublings(self) -> Iterator[tuple[int, int, float]]:
        """Yield each size with its double and how the value grows."""
        for size in self.sizes:
            if 2 * size in self.values and self.values[size] > 0:
                yield size, 2 * size, self.values[2 * size] / self.values[size]
