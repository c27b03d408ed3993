"""Rules for reading an MPI's words, and what was read, looked up by rank.

A rule is a pattern with the group `value`, and `rank`, `peer` and `locality` where the words name
them; lines that fit no rule say nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from stackproof.core import harmless, limits
from stackproof.core.value import Value
from stackproof.results.case import Locality
from stackproof.results.path import Medium, Statement, Topic

LONGEST_LINE = limits.STATEMENT.bytes
"""Characters of a line that are looked at."""
MOST_LINES = limits.SAID.count
MOST_STATEMENTS = limits.STATEMENTS.count
"""Statements that are kept; equal ones count once."""
_QUOTE = 240

Line = tuple[int | None, str]


class LineRule(Value, kw_only=False):
    """What a line means: its topic, and the value where the words have none of their own."""

    topic: Topic
    pattern: re.Pattern[str]
    value: str = "{value}"


def rule(topic: Topic, pattern: str, value: str = "{value}") -> LineRule:
    """Return a rule; `value` may use groups of the pattern."""
    return LineRule(topic, re.compile(pattern), value)


def read(rules: Iterable[LineRule], lines: Iterable[Line]) -> tuple[Statement, ...]:
    """Return what the lines state, each statement once, in order; never raises."""
    known = tuple(rules)
    found: dict[tuple[object, ...], Statement] = {}
    for number, (rank, line) in enumerate(lines):
        if number >= MOST_LINES or len(found) >= MOST_STATEMENTS:
            break
        for one in known:
            match = one.pattern.search(line, 0, LONGEST_LINE)
            if match is not None:
                statement = _statement(one, match, rank, line)
                key = (statement.topic, statement.value, statement.rank, statement.peer,
                       statement.locality)  # fmt: skip
                found.setdefault(key, statement)
    return tuple(found.values())


def _statement(one: LineRule, match: re.Match[str], rank: int | None, line: str) -> Statement:
    groups = {name: text or "" for name, text in match.groupdict().items()}
    return Statement(
        topic=one.topic,
        value=harmless.line(one.value.format(**groups).strip()[:_QUOTE]),
        rank=_number(groups.get("rank")) if groups.get("rank") else rank,
        peer=_number(groups.get("peer")),
        locality=groups.get("locality", ""),
        quote=harmless.line(line.strip()[:_QUOTE]),
    )


def _number(text: str | None) -> int | None:
    return int(text) if text and len(text) < 10 else None


class Words:
    """Statements by topic and rank."""

    def __init__(self, statements: Iterable[Statement]) -> None:
        self._by_topic: dict[Topic, list[Statement]] = {}
        for one in statements:
            self._by_topic.setdefault(one.topic, []).append(one)

    def of(self, topic: Topic, rank: int, peer: int | None = None) -> list[Statement]:
        """Return what a rank said, of that peer alone where one is given."""
        found = [one for one in self._by_topic.get(topic, ()) if one.rank == rank]
        return found if peer is None else [one for one in found if one.peer == peer]

    def one(self, topic: Topic, rank: int) -> Statement | None:
        """Return what a rank said, if it is one thing; else what rank 0 said for all of them.

        A rank that said several things has said nothing that could be relied on.
        """
        for who in (rank, 0):
            found = self.of(topic, who)
            if found:
                return found[0] if len({one.value for one in found}) == 1 else None
        return None


class Pair(Value):
    """Two ranks, and the variables that they got."""

    rank: int
    peer: int
    locality: Locality
    env: Mapping[str, str]

    @property
    def local(self) -> bool:
        """Return whether they share a node."""
        return self.locality is Locality.INTRA


class Carrier(Value):
    """What one rank sends to another by.

    `medium` None is one that is not known here. `provider` is libfabric's, empty where messages do
    not go through libfabric. `told` False: the MPI does not say it, it follows from its settings.
    """

    name: str
    medium: Medium | None
    provider: str = ""
    told: bool = True
    quote: str = ""


Ways = Sequence[tuple[str, str]]
"""Ways of GPUs' buffers that follow from settings, each with its variable."""


def no_ways(*_: object) -> Ways:
    """Return nothing, for an MPI whose settings do not tell."""
    return ()


class Probe(Value):
    """How one MPI family talks.

    `settings` are the variables that make it talk, and change no path; `rules` read its words, and
    those of the libraries below it. `carrier` gives that from one rank to the other, None where
    nothing tells; `gpu_ways` the ways of GPUs' buffers by variables, by what it said of
    `Topic.LAYER`, by the names of files that it loaded, and by the locality of all ranks.
    """

    settings: Mapping[str, str]
    rules: tuple[LineRule, ...]
    carrier: Callable[[Words, Pair], Carrier | None]
    gpu_ways: Callable[[Mapping[str, str], Collection[str], Iterable[str], Locality], Ways] = (
        no_ways
    )


_MEDIA: Mapping[str, Medium] = {
    **dict.fromkeys(
        ("sm", "vader", "smcuda", "shm", "sm2", "sysv", "posix", "cma", "xpmem", "knem"),
        Medium.MEMORY,
    ),
    **dict.fromkeys(("tcp", "sockets", "net", "udp"), Medium.TCP),
    "cxi": Medium.SLINGSHOT,
}
"""Byte transfer layers of Open MPI, transports of UCX and providers of libfabric."""


_BESIDE = frozenset({"off_coll"})
"""Providers that carry no messages: this one offers collectives above others."""


def medium_of(name: str, locality: Locality) -> Medium | None:
    """Return what carries bytes under a layer's or provider's name, None for one not known.

    Utility providers stand behind the one that they use (`tcp;ofi_rxm`, fi_provider(7)); a link of
    lnx (`shm+cxi:lnx`) has one for each locality.
    """
    names = [part.split(";")[0] for part in name.removesuffix(":lnx").split("+")]
    media = [_MEDIA.get(part) for part in names]
    if len(media) == 1:
        return media[0]
    inside = [one for one in media if one is Medium.MEMORY]
    outside = [one for one in media if one is not Medium.MEMORY]
    chosen = inside if locality is Locality.INTRA and inside else outside
    return chosen[0] if len(set(chosen)) == 1 else None


def by_provider(words: Words, pair: Pair, layer: str) -> Carrier | None:
    """Return the provider of libfabric that the MPI said it chose; `layer` is the part above it.

    Rank 0 may speak for all. Only what the rank opened as well is believed, and where it opened
    one alone and another than rank 0 said, that is the one.
    """
    own = words.of(Topic.PROVIDER, pair.rank)
    said = own or words.of(Topic.PROVIDER, 0)
    opened = [one for one in words.of(Topic.OPENED, pair.rank) if one.value not in _BESIDE]
    names = {one.value for one in opened}
    true = [one for one in said if names & set(re.split(r"[;+:]", one.value))]
    if said and not true and not own and len(names) == 1:
        true = opened
    if len({one.value for one in true}) != 1:
        return None
    return provided(words, pair, true[0], layer)


def provided(words: Words, pair: Pair, said: Statement, layer: str) -> Carrier:
    """Return the carrier that a provider is, which a statement names."""
    link = said.value
    if link == "lnx":
        joined = words.one(Topic.LINK, pair.rank)
        link = joined.value if joined else pair.env.get("FI_LNX_PROV_LINKS", "").split("|")[0]
    return Carrier(
        name=f"`{layer}` with libfabric's `{said.value}`",
        medium=medium_of(link, pair.locality),
        provider=said.value,
        quote=said.quote,
    )
