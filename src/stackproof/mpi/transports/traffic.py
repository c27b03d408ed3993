"""How many bytes a launch must have moved, and how many each interface sent.

What others sent by the same interfaces cannot be told from an arm's own by a total: a slow arm
moves less in the same time, so that others' traffic would look like its own more often. So the
parts are compared one by one, each with what it must have moved: others' traffic would have to be
faster than every one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from stackproof.core.value import Value
from stackproof.results.case import Case
from stackproof.results.measurement import Check, Output, Series, State

NOISE = 1 << 20
"""Bytes an idle interface may have sent during a launch: the launcher's own messages, others'."""

QUIET_MB_S = 1.0
"""Rate of others' traffic, over the timed parts, that is not worth a word."""

STRAY = 0.05
"""Part of what was moved that an interface may lack before it counts as a second path."""

LOOPBACK = "lo"
_ALL_TO_ALL = frozenset({"alltoall"})
_HALVES = frozenset({"message_rate"})
_WINDOWED = frozenset({"bandwidth", "bibandwidth", "message_rate"})
_BOTH_WAYS = frozenset({"latency", "bibandwidth"})


class TimedPart(Value):
    """What is timed of one benchmark and size: the least that it moved, and `sent` as below."""

    name: str
    payload: int
    sent: Mapping[str, Mapping[str, int]]

    def on(self, *interfaces: str) -> int:
        """Return the bytes that these interfaces of all nodes sent."""
        return sum(found.get(name, 0) for found in self.sent.values() for name in interfaces)

    def total(self) -> int:
        """Return the bytes that all interfaces sent."""
        return sum(count for found in self.sent.values() for count in found.values())


class Traffic(Value):
    """What was counted: `sent[node][interface]` and the least that the timed part moved, bytes.

    `payload` counts the messages of the timed operations, without headers, warm-up and, in most
    collectives, all messages of an operation but one. Real traffic is larger. `parts` are those
    that moved more than noise, none for a program that does not count them. `seconds` is how long
    all timed parts took, 0 where that is not known.
    """

    payload: int
    sent: Mapping[str, Mapping[str, int]]
    parts: tuple[TimedPart, ...] = ()
    seconds: float = 0.0

    def on(self, *interfaces: str) -> int:
        """Return the bytes that these interfaces of all nodes sent."""
        return sum(found.get(name, 0) for found in self.sent.values() for name in interfaces)

    def off(self, *interfaces: str) -> int:
        """Return the bytes that all interfaces but these sent."""
        return sum(
            count
            for found in self.sent.values()
            for name, count in found.items()
            if name not in interfaces
        )

    @property
    def whole(self) -> tuple[TimedPart, ...]:
        """Return the parts, or all of the launch as one where parts were not counted."""
        return self.parts or (TimedPart(name="the launch", payload=self.payload, sent=self.sent),)

    def carried_everywhere(self) -> bool:
        """Return whether in every part the interfaces sent all that was moved."""
        return all(part.total() >= part.payload for part in self.whole)

    def is_quiet(self, count: int) -> bool:
        """Return whether so many bytes of others are next to nothing, whatever the arm moved."""
        return count <= max(NOISE, int(QUIET_MB_S * 1e6 * self.seconds))

    @property
    def text(self) -> str:
        """Return the counts as words, the busiest interface first, idle ones left out."""
        nodes = []
        for node, found in sorted(self.sent.items()):
            busy = sorted(((n, name) for name, n in found.items() if n), reverse=True)
            words = ", ".join(f"{name} {amount(n)}" for n, name in busy)
            nodes.append(f"{node}: {words or 'none'}")
        return f"sent {'; '.join(nodes)}; timed messages alone are {amount(self.payload)}"


def counted(output: Output, case: Case) -> Traffic:
    """Return the traffic of a launch; ranks of one node counted the same interfaces."""
    sent: dict[str, dict[str, int]] = {}
    for rank in output.ranks:
        node = sent.setdefault(rank.host, {}) if rank.tx_bytes else {}
        for name, count in rank.tx_bytes.items():
            node[name] = max(node.get(name, 0), count)
    walls = [rank.disturbance.wall_s or 0.0 for rank in output.ranks if rank.disturbance]
    return Traffic(
        payload=sum(_moved(series, case) for series in output.series),
        sent=sent,
        parts=tuple(_parts(output, case)),
        seconds=max(walls, default=0.0),
    )


def _parts(output: Output, case: Case) -> Iterator[TimedPart]:
    nodes = {rank.host: rank.parts for rank in output.ranks if rank.parts}
    for series in output.series:
        name, payload = f"{series.benchmark} {series.size}", _moved(series, case)
        if payload >= NOISE and nodes and all(name in parts for parts in nodes.values()):
            sent = {node: parts[name] for node, parts in nodes.items()}
            yield TimedPart(name=name, payload=payload, sent=sent)


def _moved(series: Series, case: Case) -> int:
    """Return the least that the timed operations of a series moved from one rank to another."""
    name, ranks = series.benchmark, max(2, len(case.placement.ranks))
    messages = case.window if name in _WINDOWED else 1
    messages *= 2 if name in _BOTH_WAYS else ranks // 2 if name in _HALVES else 1
    messages *= ranks * (ranks - 1) if name in _ALL_TO_ALL else 1
    return series.size * series.iterations * len(series.values) * messages


def amount(count: int) -> str:
    """Return a number of bytes for a reader, in decimal units."""
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def unseen(name: str, traffic: Traffic, case: Case) -> Check | None:
    """Return the check that cannot tell, when a node counted nothing or too little was moved."""
    if len(traffic.sent) < len(case.placement.nodes):
        what = "not every node counted" if traffic.sent else "no interface was counted"
        return Check(name=name, state=State.UNKNOWN, evidence=what)
    if traffic.payload < NOISE:
        return Check(
            name=name, state=State.UNKNOWN, evidence=f"too little was moved: {traffic.text}"
        )
    return None
