"""Open MPI: it names the layer of every rank, and of ob1 the transfer layer to every peer."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from stackproof.mpi.path_logs import libfabric, ucx
from stackproof.mpi.path_logs.patterns import (
    Carrier,
    Pair,
    Probe,
    Ways,
    Words,
    by_provider,
    medium_of,
    rule,
)
from stackproof.results.case import Locality
from stackproof.results.path import Topic


def _carrier(words: Words, pair: Pair) -> Carrier | None:
    """Return the transfer layer under ob1, the provider under cm, UCX under ucx."""
    layer = words.one(Topic.LAYER, pair.rank)
    if layer is None:
        return None
    if layer.value == "cm":
        return by_provider(words, pair, layer.value)
    if layer.value == "ucx":
        return ucx.carrier(words, pair)
    used = words.of(Topic.CARRIER, pair.rank, pair.peer)
    names = list(dict.fromkeys(one.value for one in used))
    if not names:
        return None
    media = {medium_of(name, pair.locality) for name in names}
    return Carrier(
        name=f"`{layer.value}` with {' and '.join(f'`{name}`' for name in names)}",
        medium=media.pop() if len(media) == 1 else None,
        quote="; ".join(one.quote for one in used),
    )


def _gpu_ways(
    env: Mapping[str, str], layers: Collection[str], _: Iterable[str], locality: Locality
) -> Ways:
    """Return the way below cm: the provider gets the GPU's address (ompi/mca/mtl/ofi)."""
    if "cm" not in layers:
        return ()
    off = env.get("OMPI_MCA_mtl_ofi_disable_hmem") == "1"
    direct = "GPU-direct" if locality is Locality.INTER else "IPC or GPU-direct"
    return (("staged" if off else direct, "OMPI_MCA_mtl_ofi_disable_hmem"),)


# Open MPI 4.1 and 5; names of the variables as `ompi_info --all` has them.
PROBE = Probe(
    settings={
        "OMPI_MCA_pml_base_verbose": "10",
        "OMPI_MCA_mtl_base_verbose": "10",
        "OMPI_MCA_btl_base_verbose": "100",
        "OMPI_MCA_smsc_base_verbose": "100",
        "OMPI_MCA_opal_common_ofi_verbose": "10",
        **libfabric.SETTINGS,
        **ucx.SETTINGS,
    },
    rules=(
        rule(Topic.LAYER, r"\] selected (?P<value>\w+) best priority \d"),
        rule(
            Topic.CARRIER,
            r"mca: bml: Using (?P<value>\w+) btl for send to \[\[\d+,\d+\],(?P<peer>\d+)\]",
        ),
        rule(Topic.PROVIDER, r"mtl:ofi:prov(?:ider)?: (?P<value>\S+)"),
        rule(Topic.DEVICE, r"mtl:ofi:prov(?:ider)?:domain: (?P<value>\S+)"),
        rule(Topic.DEVICE, r"btl:tcp: \S+: if (?P<value>\S+) kidx "),
        rule(Topic.COPY, r"selected shared-memory single-copy component: (?P<value>\w+)"),
        *libfabric.RULES,
        *ucx.RULES,
    ),
    carrier=_carrier,
    gpu_ways=_gpu_ways,
)
