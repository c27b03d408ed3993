"""What a probe's words mean: the verdict on the path between each pair of ranks.

Two kinds of evidence are held against the transport that was asked for: what the MPI said, and the
bytes that its node's interfaces sent. Either may contradict; only together do they confirm.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from stackproof.core.errors import Problem, Reason
from stackproof.core.value import Value, replace
from stackproof.knowledge.evidence import Evidence, FactValue, redacted, relevant
from stackproof.mpi import families, transports
from stackproof.mpi.path_logs import Carrier, Pair, Words
from stackproof.mpi.transports import Profile
from stackproof.mpi.transports.traffic import counted
from stackproof.results.case import Case, Locality, Placement
from stackproof.results.measurement import Check, Output, State
from stackproof.results.path import MessagePaths, Override, Route, Statement, Topic

_EVERY_PAIR = 64
"""Ranks up to which every pair is looked at; above only neighbours, and rank 0 with all."""

_LAUNCHER_WORDS = {"prte": "mpirun", "hydra": "mpiexec", "intel-hydra": "mpiexec"}
"""Launchers as rules call them."""

_STEERING = re.compile(
    r"^(?:FI_(?:PROVIDER|TCP_IFACE|LNX_\w+|CXI_DEVICE_NAME|SHM_\w+)"
    r"|OMPI_MCA_(?:pml|mtl|btl|pml_base_include|mtl_ofi_provider_\w+|btl_tcp_if_\w+"
    r"|opal_common_ofi_provider_\w+)"
    r"|UCX_(?:TLS|NET_DEVICES)|MPICH_OFI_\w+|MPICH_NO_LOCAL"
    r"|MPIR_CVAR_(?:NOLOCAL|CH4_NETMOD|ODD_EVEN_CLIQUES|CH4_SHM|OFI_USE_PROVIDER)"
    r"|I_MPI_(?:FABRICS|OFI_PROVIDER|SHM|DEVICE))$"
)


class Probed(Value):
    """One probe: what was asked for, what came back. `env` is what the ranks got at the end."""

    family: str
    case: Case
    profile: Profile
    env: Mapping[str, str]
    statements: tuple[Statement, ...]
    output: Output


def judged(found: MessagePaths, probed: Probed) -> MessagePaths:
    """Return what a probe found with all that follows from what came back."""
    return replace(
        found,
        expect=probed.profile.expect,
        program=probed.case.program,
        mpi_library=probed.output.mpi_library,
        env=probed.env,
        overrides=overrides(probed.profile, probed.env),
        statements=probed.statements,
        ranks=probed.output.ranks,
        sent=counted(probed.output, probed.case).sent,
        routes=routes(probed),
        buffers=gpu_path(probed.family, probed.case, probed.env, probed.output, probed.statements),
    )


def overrides(profile: Profile, env: Mapping[str, str]) -> tuple[Override, ...]:
    """Return the variables of a transport that ranks got otherwise."""
    return tuple(
        Override(name=name, wanted=wanted, found=env.get(name))
        for name, wanted in sorted(profile.env.set.items())
        if env.get(name) != wanted
    )


def steering(profile: Profile, env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that choose a path and that the transport did not set."""
    return {
        name: value
        for name, value in sorted(env.items())
        if _STEERING.match(name) and name not in profile.env.set
    }


def routes(probed: Probed) -> tuple[Route, ...]:
    """Return the verdict on every pair of ranks; of those that are alike the first one's words."""
    words = Words(probed.statements)
    traffic = transports.get(probed.case.transport).check(probed.output, probed.case)
    groups: dict[tuple[Locality, str, State], list[tuple[int, int]]] = {}
    first: dict[tuple[Locality, str, State], _Verdict] = {}
    for pair in _pairs(probed.case.placement, probed.env):
        one = _verdict(probed, words, pair, traffic)
        key = (pair.locality, one.carrier, one.state)
        groups.setdefault(key, []).append((pair.rank, pair.peer))
        first.setdefault(key, one)
    return tuple(
        Route(
            locality=locality,
            pairs=tuple(pairs),
            carrier=carrier,
            state=state,
            reason=first[locality, carrier, state].reason,
            evidence=first[locality, carrier, state].evidence,
        )
        for (locality, carrier, state), pairs in groups.items()
    )


def _pairs(placement: Placement, env: Mapping[str, str]) -> Iterator[Pair]:
    ranks = placement.ranks
    for one in range(len(ranks)):
        for other in range(one + 1, len(ranks)):
            if len(ranks) > _EVERY_PAIR and one and other > one + 1:
                break
            local = ranks[one].node == ranks[other].node
            locality = Locality.INTRA if local else Locality.INTER
            yield Pair(rank=one, peer=other, locality=locality, env=env)


class _Verdict(Value, kw_only=False):
    carrier: str
    state: State
    reason: str
    evidence: str


def _verdict(probed: Probed, words: Words, pair: Pair, traffic: Check) -> _Verdict:
    """Return the verdict on a pair: the worse of its two directions."""
    probe = families.probe_of(probed.family)
    back = Pair(rank=pair.peer, peer=pair.rank, locality=pair.locality, env=pair.env)
    there = [
        (way, probe.carrier(words, way) if probe is not None else None) for way in (pair, back)
    ]
    names = list(dict.fromkeys(carrier.name for _, carrier in there if carrier is not None))
    name = " one way, the other ".join(names) or "not told"
    each = [
        list(_faults(probed, words, way, carrier)) for way, carrier in there if carrier is not None
    ]
    # Both directions of a pair mostly say the same; one is enough to read.
    faults = next((found for found in each if found), [])
    faults += [f"the MPI says: {one.value}" for one in _fallbacks(probed)]
    if traffic.state is State.BAD:
        faults.append(traffic.evidence)
    if faults:
        text = "; ".join([*faults, *_because(probed)])
        return _Verdict(name, State.BAD, Reason.WRONG_TRANSPORT.value, text)
    silent = [f"rank {way.rank} did not tell" for way, carrier in there if carrier is None]
    if silent:
        text = "; ".join([" and ".join(silent), traffic.evidence, *_overridden(probed)])
        return _Verdict(name, State.UNKNOWN, "", text)
    guessed = any(carrier is not None and not carrier.told for _, carrier in there)
    if guessed and (traffic.state is State.UNKNOWN or not probed.output.ranks):
        text = "; ".join(["the MPI does not say so", traffic.evidence, *_overridden(probed)])
        return _Verdict(name, State.UNKNOWN, "", text)
    return _Verdict(name, State.OK, "", "; ".join([traffic.evidence, *_overridden(probed)]))


def _faults(probed: Probed, words: Words, pair: Pair, carrier: Carrier) -> Iterator[str]:
    """Yield what of a carrier contradicts the transport, with the MPI's own words."""
    profile = probed.profile
    wanted = profile.inside if pair.local else profile.between
    quote = f" (`{carrier.quote}`)" if carrier.quote else ""
    whom = f"rank {pair.rank} sends to rank {pair.peer} by {carrier.name}"
    if profile.by_provider and not carrier.provider:
        yield f"{whom}, not by libfabric's `{profile.expect}`{quote}"
    elif profile.by_provider and not _is(carrier.provider, profile.expect):
        yield f"{whom}, not by `{profile.expect}`{quote}"
    elif wanted and carrier.medium is not None and carrier.medium not in wanted:
        yield f"{whom}, not by {' or '.join(wanted)}{quote}"
    interface = probed.case.placement.interface
    if interface is None or pair.local:
        return
    known = {name for rank in probed.output.ranks for name in rank.tx_bytes}
    used = [one for one in words.of(Topic.DEVICE, pair.rank) if one.value in known]
    for one in used:
        if one.value != interface:
            yield f"rank {pair.rank} uses `{one.value}`, not `{interface}` (`{one.quote}`)"


def _is(provider: str, expected: str) -> bool:
    """Return whether a provider is the expected one, itself or below a utility (`tcp;ofi_rxm`)."""
    return provider == expected or provider.partition(";")[0] == expected


def _because(probed: Probed) -> Iterator[str]:
    """Yield which variables could be the reason."""
    yield from _overridden(probed)
    others = steering(probed.profile, probed.env)
    if others:
        yield f"also set: {', '.join(f'`{name}={value}`' for name, value in others.items())}"


def _overridden(probed: Probed) -> Iterator[str]:
    for one in overrides(probed.profile, probed.env):
        found = "is not set" if one.found is None else f"is `{one.found}`"
        yield f"`{one.name}` {found}, where the transport sets `{one.wanted}`"


def _fallbacks(probed: Probed) -> list[Statement]:
    return [one for one in probed.statements if one.topic is Topic.FALLBACK]


def hints(profile: Profile, env: Mapping[str, str]) -> str:
    """Return which variables of an arm oppose or add to its transport; empty for none."""
    found = [f"{one.name}={one.found}" for one in overrides(profile, env) if one.found is not None]
    found += [f"{name}={value}" for name, value in steering(profile, env).items()]
    return ", ".join(found)


def check_of(found: MessagePaths) -> Check:
    """Return the check that every launch of the probed arm and placement carries."""
    order = (State.BAD, State.UNKNOWN, State.OK)
    told = sorted(found.routes, key=lambda route: order.index(route.state))
    parts = [
        f"{route.locality}: {route.carrier}"
        + (f" ({route.evidence})" if route.state is not State.OK else "")
        for route in told
        if route.state is found.state
    ]
    reason = next((route.reason for route in told if route.reason), "")
    text = "; ".join(dict.fromkeys(parts)) or "the probe told nothing"
    return Check(
        name="path",
        state=found.state,
        reason=reason,
        evidence="; ".join(
            part for part in (f"{text}{_quiet(found.quiet)}", found.buffers) if part
        ),
    )


def _quiet(why: str) -> str:
    return f"; the MPI could not be made to talk: {why}" if why else ""


def problem_of(found: MessagePaths) -> Problem | None:
    """Return the contradiction that a probe found, None for none."""
    bad = [route for route in found.routes if route.state is State.BAD]
    if not bad:
        return None
    facts = "\n".join(_summary(found))
    return Problem(
        reason=Reason(bad[0].reason),
        message=f"{found.arm}, {found.placement.name}: the transport `{found.transport}` was asked "
        f"for, and {bad[0].evidence}",
        hint="take the variables that oppose it out of the arm and its view, or ask for the "
        "transport that is meant; `auto` leaves the choice to the MPI",
        detail=facts or None,
    )


def _summary(found: MessagePaths) -> Iterator[str]:
    """Yield what the probe was told, one line each, the most telling topics first."""
    for topic in (Topic.LAYER, Topic.PROVIDER, Topic.CARRIER, Topic.DEVICE, Topic.FALLBACK):
        for one in found.statements:
            if one.topic is topic and one.value != "self" and one.quote:
                yield one.quote


def evidence_of_run(found: MessagePaths) -> Evidence:
    """Return what a probe shows, as the evidence that rules on known problems are decided on."""
    origin = f"probe of {found.arm}, {found.placement.name}"
    versions = {found.family: found.version}
    for one in found.statements:
        component, _, number = one.value.partition(" ")
        if one.topic is Topic.VERSION and component == "libfabric":
            versions.setdefault(component, number.partition("-")[0])
    facts: dict[str, FactValue] = {
        "mpi": found.family,
        "transport": found.transport,
        "placement": found.placement.locality.value,
        "launcher": _LAUNCHER_WORDS.get(found.launcher, found.launcher),
        "nodes": float(len(found.placement.nodes)),
    }
    variables = relevant(found.env)
    lines = [one.quote for one in found.statements if one.quote]
    lines += [route.evidence for route in found.routes if route.state is State.BAD]
    log = redacted("\n".join(dict.fromkeys(lines)))
    return Evidence(
        versions=versions,
        variables=variables,
        facts=facts,
        logs={origin: log} if log else {},
        origins={
            **{f"version {name}": origin for name in versions},
            **{f"fact {name}": origin for name in facts},
            **{f"variable {name}": origin for name in variables},
        },
        partial=("logs", "variables"),
        taken=found.started,
    )


# UCX's transports by name: openucx.readthedocs.io, FAQ, "Working with GPU".
_UCX = {
    "cuda_ipc": "IPC",
    "rocm_ipc": "IPC",
    "gdr_copy": "GDRCopy",
    "cuda_copy": "staged",
    "rocm_copy": "staged",
}
_GDRCOPY = "libgdrapi"


def gpu_path(
    family: str, case: Case, env: Mapping[str, str], output: Output, said: Iterable[Statement]
) -> str:
    """Return the way in words with its evidence; empty where all buffers were the host's."""
    kinds = sorted(set(case.memory) - {"host"})
    if not kinds:
        return ""
    libraries = sorted(
        {path.rpartition("/")[2] for rank in output.ranks for path in rank.libraries}
    )
    statements = tuple(said)
    found = list(dict.fromkeys(_by_words(statements)))
    found = found or list(_by_settings(family, case, env, statements, libraries))
    gdrcopy = next((name for name in libraries if name.startswith(_GDRCOPY)), "")
    if gdrcopy and env.get("FI_HMEM_CUDA_USE_GDRCOPY") != "0":
        found.append(f"GDRCopy for small messages (`{gdrcopy}` is loaded)")
    told = "; ".join(found) or "neither the MPI nor its settings say by which way"
    return f"buffers in memory of {' and '.join(kinds)}: {told}"


def _by_words(statements: Iterable[Statement]) -> Iterator[str]:
    for one in statements:
        parts = one.value.replace("/", " ").split() if one.topic is Topic.CARRIER else []
        for part in parts:
            if part in _UCX:
                yield f"{_UCX[part]} (UCX says `{part}`)"


def _by_settings(
    family: str,
    case: Case,
    env: Mapping[str, str],
    statements: Iterable[Statement],
    libraries: Iterable[str],
) -> Iterator[str]:
    probe = families.probe_of(family)
    if probe is not None:
        layers = {one.value for one in statements if one.topic is Topic.LAYER}
        for way, name in probe.gpu_ways(env, layers, libraries, case.placement.locality):
            yield _as_set(way, name, env)


def _as_set(way: str, name: str, env: Mapping[str, str]) -> str:
    value = env.get(name)
    return f"{way}, as `{name}` {'is not set' if value is None else f'is `{value}`'}"
