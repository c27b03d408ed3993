"""UCX: which transports it uses to peers inside the node and on others."""

from __future__ import annotations

from stackproof.mpi.path_logs.patterns import Carrier, Pair, Words, medium_of, rule
from stackproof.results.path import Topic

SETTINGS = {"UCX_LOG_LEVEL": "info"}

RULES = (
    rule(
        Topic.CARRIER,
        r"UCX +INFO +.*\b(?P<locality>int(?:ra|er)-node) cfg#\d+ tag\((?P<value>[^)]+)\)",
    ),
    # 1.13.1 numbers its configurations and does not say whose they are; that to itself goes first.
    rule(Topic.CARRIER, r"UCX +INFO +ep_cfg\[\d+\]: tag\((?!self/)(?P<value>[^)]+)\)"),
    rule(Topic.VERSION, r"UCX +INFO +Version (?P<value>[\w.]+)", "ucx {value}"),
)


def carrier(words: Words, pair: Pair) -> Carrier | None:
    """Return what UCX says of peers of the pair's locality; the first transport sends first.

    Where it does not say whose a configuration is, the only one is the peer's.
    """
    said = words.of(Topic.CARRIER, pair.rank)
    fit = [one for one in said if one.locality == pair.locality.value]
    if not fit and len(said) == 1 and not said[0].locality:
        fit = said
    if not fit:
        return None
    first = fit[0].value.split()[0].split("/")[0]
    return Carrier(
        name=f"UCX's `{fit[0].value}`", medium=medium_of(first, pair.locality), quote=fit[0].quote
    )
