"""The part of the report that shows which path messages took, as the probes found it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from markupsafe import Markup

from stackproof.compare.model import Comparison
from stackproof.report.markup import DASH, details, element, joined, table
from stackproof.results.measurement import RankFacts, State
from stackproof.results.path import MessagePaths, Route, Statement, Topic

_STATE_CLASS = {State.BAD: "fail", State.UNKNOWN: "open", State.OK: "pass"}
_FEW_PAIRS = 4
_MOST_ROWS = 200
_ROUTES = ("arm", "placement", "asked for", "ranks", "carried by", "answer", "evidence")
_STATEMENTS = ("rank", "of", "said", "in the MPI's words")


def probes_part(comparison: Comparison) -> Markup | None:
    """Return the verdicts on every path and what they rest on; None for results without probes."""
    if not comparison.paths:
        return None
    order = {arm: number for number, arm in enumerate(comparison.arms)}
    probes = sorted(
        comparison.paths, key=lambda one: (one.placement.name, order.get(one.arm, len(order)))
    )
    rows = [_row(probe, route) for probe in probes for route in probe.routes]
    return element(
        "section",
        element("h2", "What the MPIs said of their paths"),
        element(
            "p",
            "Before anything was timed, each arm ran once at each placement with its MPI made to "
            "talk. What it said of its path, and the bytes that interfaces sent, are held against "
            "the transport that was asked for; a contradiction ends a bench before it is timed.",
        ),
        table("Paths by arm and placement", _ROUTES, rows, class_="settings"),
        joined(_evidence(probe) for probe in probes),
        id="probes",
    )


def _row(probe: MessagePaths, route: Route) -> list[str | Markup]:
    quiet = f"; the MPI could not be made to talk: {probe.quiet}" if probe.quiet else ""
    return [
        probe.arm,
        probe.placement.name,
        probe.transport,
        _pairs(route),
        _plain(route.carrier),
        element("td", route.state.value, class_=f"state {_STATE_CLASS[route.state]}"),
        _plain(route.evidence) + quiet,
    ]


def _plain(text: str) -> str:
    """Return a sentence without the marks of words that are typed, for a table of such words."""
    return text.replace("`", "")


def _pairs(route: Route) -> str:
    few = ", ".join(f"{one}\N{EN DASH}{other}" for one, other in route.pairs[:_FEW_PAIRS])
    if len(route.pairs) > _FEW_PAIRS:
        return f"{few}, … ({len(route.pairs)} pairs)"
    return few


def _evidence(probe: MessagePaths) -> Markup:
    """Return everything that one probe found, folded."""
    told = [_statement(one) for one in probe.statements[:_MOST_ROWS]]
    settings = " ".join(f"{name}={value}" for name, value in sorted(probe.settings.items()))
    libraries = list(_libraries(probe.ranks))
    return details(
        f"Evidence: {probe.arm}, {probe.placement.name} ({probe.transport})",
        element(
            "p",
            f"{probe.started}, {probe.seconds:.2f} s, by {probe.launcher}; made to talk by: ",
            element("code", settings or "nothing"),
        ),
        table("What was said", _STATEMENTS, told, class_="settings")
        if told
        else element("p", "The MPI said nothing of its path.", class_="quiet"),
        table("Where ranks ran", ("rank", "host", "CPUs", "shared memory mapped"), _ranks(probe))
        if probe.ranks
        else None,
        table("Libraries in the ranks", ("library", "build-id", "ranks"), libraries)
        if libraries
        else None,
    )


def _statement(one: Statement) -> list[str | Markup]:
    whom = f"rank {one.peer}" if one.peer is not None else one.locality
    return [
        "all" if one.rank is None else str(one.rank),
        f"{_TOPICS[one.topic]} to {whom}" if whom else _TOPICS[one.topic],
        one.value,
        element("td", element("code", one.quote)),
    ]


_TOPICS = {
    Topic.LAYER: "layer of the MPI",
    Topic.CARRIER: "carrier",
    Topic.PROVIDER: "provider of libfabric",
    Topic.OPENED: "opened by libfabric",
    Topic.DEVICE: "interface or NIC",
    Topic.LINK: "link of lnx",
    Topic.SENT: "messages by part of lnx",
    Topic.COPY: "copies inside a node",
    Topic.VERSION: "release",
    Topic.FALLBACK: "falling back",
}


def _ranks(probe: MessagePaths) -> Iterator[list[str]]:
    for rank in probe.ranks[:_MOST_ROWS]:
        cpus = ", ".join(map(str, rank.cpus)) or DASH
        yield [str(rank.rank), rank.host, cpus, _segments(rank.shared)]


def _segments(shared: Iterable[str]) -> str:
    """Return the names of segments; those that differ in a random part counted together."""
    names = sorted(name.removesuffix(" (deleted)").rpartition("/")[2] for name in shared)
    counts = [(key, len(list(same))) for key, same in groupby(names, key=_stem)]
    return ", ".join(f"{key}… ({n})" if n > 1 else f"{key}…" for key, n in counts) or DASH


def _stem(name: str) -> str:
    return name[:9]


def _libraries(ranks: Iterable[RankFacts]) -> Iterator[list[str]]:
    """Yield each file with its build-id and the ranks that have it mapped."""
    found: dict[tuple[str, str], list[int]] = {}
    for rank in ranks:
        for path in rank.libraries:
            found.setdefault((path, rank.build_ids.get(path, "")), []).append(rank.rank)
    every = {rank.rank for rank in ranks}
    for (path, identity), who in sorted(found.items()):
        shown = "all" if set(who) == every else ", ".join(map(str, who))
        yield [path, identity or "none", shown]
