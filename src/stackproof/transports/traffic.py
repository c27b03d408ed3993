"""How many bytes a launch must have moved, and how many each interface sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stackproof.measurement import Check, Output, State

NOISE = 1 << 20
"""Bytes an idle interface may have sent during a launch: the launcher's own messages, others'."""

STRAY = 0.05
"""Part of the traffic that may be elsewhere before it counts as a second path."""

LOOPBACK = "lo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What was counted: `sent[node][interface]` and the least that the timed part moved, bytes.

    `payload` counts one message per timed operation, from one rank to another, without headers,
    warm-up and the further messages of a window or a collective. Real traffic is larger.
    """

    payload: int
    sent: Mapping[str, Mapping[str, int]]

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
    def text(self) -> str:
        """Return the counts as words, interfaces that sent nothing left out."""
        nodes = [
            f"{node}: " + (", ".join(f"{name} {amount(n)}" for name, n in sorted(busy)) or "none")
            for node, found in sorted(self.sent.items())
            for busy in [[(name, count) for name, count in found.items() if count]]
        ]
        return f"sent {'; '.join(nodes)}; timed messages alone are {amount(self.payload)}"


def counted(output: Output) -> Traffic:
    """Return the traffic of a launch; ranks of one node counted the same interfaces."""
    sent: dict[str, dict[str, int]] = {}
    for rank in output.ranks:
        node = sent.setdefault(rank.host, {}) if rank.tx_bytes else {}
        for name, count in rank.tx_bytes.items():
            node[name] = max(node.get(name, 0), count)
    payload = sum(series.size * series.iterations * len(series.values) for series in output.series)
    return Traffic(payload=payload, sent=sent)


def amount(count: int) -> str:
    """Return a number of bytes for a reader, in decimal units."""
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def unseen(name: str, traffic: Traffic) -> Check | None:
    """Return the check that cannot tell, when nothing was counted or too little was moved."""
    if not traffic.sent:
        return Check(name=name, state=State.UNKNOWN, evidence="no interface was counted")
    if traffic.payload < NOISE:
        return Check(
            name=name, state=State.UNKNOWN, evidence=f"too little was moved: {traffic.text}"
        )
    return None
