"""MPICH: rank 0 names the network module and the provider it chose."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from stackproof.mpi.path_logs import libfabric, ucx
from stackproof.mpi.path_logs.patterns import Carrier, Pair, Probe, Ways, Words, by_provider, rule
from stackproof.results.case import Locality
from stackproof.results.path import Medium, Topic

# Values of a boolean variable that mean yes: src/mpl/src/str/mpl_env.c (MPL_env2bool).
_YES = frozenset({"1", "yes", "true", "on"})


def _carrier(words: Words, pair: Pair) -> Carrier | None:
    """Return the provider or UCX's transport; inside a node ch4's own memory unless forbidden.

    MPICH does not say that it uses its own memory.
    """
    layer = words.one(Topic.LAYER, pair.rank)
    if layer is None:
        return None
    if pair.local and pair.env.get("MPIR_CVAR_NOLOCAL", "").lower() not in _YES:
        return Carrier(name="ch4's shared memory", medium=Medium.MEMORY, told=False)
    if layer.value == "ch4:ucx":
        return ucx.carrier(words, pair)
    return by_provider(words, pair, layer.value)


def _gpu_ways(
    env: Mapping[str, str], _: Collection[str], __: Iterable[str], locality: Locality
) -> Ways:
    """Return the way between nodes; the default is 0 (src/mpid/ch4, init_settings.c)."""
    direct = env.get("MPIR_CVAR_CH4_OFI_ENABLE_HMEM") == "1"
    way = ("GPU-direct" if direct else "staged", "MPIR_CVAR_CH4_OFI_ENABLE_HMEM")
    return (way,) if locality is Locality.INTER else ()


# MPICH 4 and 5 with the device ch4; ch3 of MPICH 3 says nothing.
PROBE = Probe(
    settings={"MPIR_CVAR_DEBUG_SUMMARY": "1", **libfabric.SETTINGS, **ucx.SETTINGS},
    rules=(
        rule(Topic.LAYER, r"^==== Capability set configuration ====", "ch4:ofi"),
        rule(Topic.LAYER, r"^==== UCX netmod Capability ====", "ch4:ucx"),
        rule(Topic.PROVIDER, r"^libfabric provider: (?P<value>\S+)"),
        rule(Topic.DEVICE, r"^libfabric provider: \S+ - (?P<value>\S+)"),
        *libfabric.RULES,
        *ucx.RULES,
    ),
    carrier=_carrier,
    gpu_ways=_gpu_ways,
)
