"""A bandwidth to the wire that it sits on: 119 MB/s is what 1 Gbit/s carries.

A plateau just below the rate of a usual link says more than its part of the link that was expected:
that another one was taken, or that one was set to a lower rate.
"""

from __future__ import annotations

_RATES_MBIT = (10, 100, 1_000, 2_500, 5_000, 10_000, 25_000, 40_000, 50_000, 56_000, 100_000,
               200_000, 400_000, 800_000)  # fmt: skip
"""Rates of Ethernet (IEEE 802.3), Slingshot and InfiniBand links, MBit/s."""

_LEAST = 0.90
"""Part of a rate that messages reach at least: TCP with frames of 1500 bytes loses 5 to 6 % of it
to headers, Slingshot's larger ones 4 to 7 % (`knowledge/limits.yaml`)."""


def wire_of(mb_s: float) -> int | None:
    """Return the rate in MBit/s of the usual link that a plateau sits on, None for none."""
    for rate in _RATES_MBIT:
        if _LEAST * rate <= 8 * mb_s <= rate:
            return rate
    return None


def wire_text(mb_s: float) -> str:
    """Return `what a link of 1 Gbit/s carries` of such a plateau, empty for any other."""
    rate = wire_of(mb_s)
    if rate is None:
        return ""
    name = f"{rate} Mbit/s" if rate < 1000 else f"{rate / 1000:g} Gbit/s"
    return f"what a link of {name} carries"
