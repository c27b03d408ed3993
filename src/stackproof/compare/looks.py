"""When to look at results that are still coming in."""

from __future__ import annotations

from collections.abc import Sequence

FIRST_LOOK = 8
"""With fewer pairs no swap of arms is as rare as a look's level, so that nothing can be decided."""

_GROWTH = 1.38  # 8, 11, 15, 20, 28, 40: whoever looks more often has less to spend on each


def planned(most: int) -> tuple[int, ...]:
    """Return after how many launches per arm to look, `most` last."""
    found, look = [most], most / _GROWTH
    while look > FIRST_LOOK - 0.5:
        found.append(round(look))
        look /= _GROWTH
    return tuple(reversed(found))


def taken(looks: Sequence[int], launches: int) -> tuple[int, ...]:
    """Return the looks that are possible with so many launches per arm."""
    return tuple(look for look in looks if look <= launches)
