"""UCX: which transports it uses to peers inside the node and on others."""

from __future__ import annotations

from stackproof.bench.path_logs.patterns import Carrier, Pair, Words, medium_of, rule
from stackproof.results.path import Topic

SETTINGS = {"UCX_LOG_LEVEL": "info"}

RULES = (
    rule(
        Topic.CARRIER,
        r"UCX +INFO +.*\b(?P<locality>int(?:ra|er)-node) cfg#\d+ tag\((?P<value>[^)]+)\)",
    ),
    rule(Topic.VERSION, r"UCX +INFO +Version (?P<value>[\w.]+)", "ucx {value}"),
)


def carrier(words: Words, pair: Pair) -> Carrier | None:
    """Return what UCX says of peers of the pair's locality; the first transport sends first."""
    for one in words.of(Topic.CARRIER, pair.rank):
        if one.locality == pair.locality.value:
            first = one.value.split()[0].split("/")[0]
            return Carrier(
                name=f"UCX's `{one.value}`",
                medium=medium_of(first, pair.locality),
                quote=one.quote,
            )
    return None
