"""Intel MPI: rank 0 names the fabrics, by the tuning file it loads, the provider and each NIC."""

from __future__ import annotations

from stackproof.mpi.path_logs import libfabric
from stackproof.mpi.path_logs.patterns import Carrier, Pair, Probe, Words, by_provider, rule
from stackproof.results.path import Medium, Topic


def _carrier(words: Words, pair: Pair) -> Carrier | None:
    """Return the provider, and inside a node its own memory where the fabrics have it."""
    layer = words.one(Topic.LAYER, pair.rank)
    if layer is None:
        return None
    if pair.local and layer.value != "ofi":
        of = "" if layer.value == "shm" else f" of `{layer.value.replace('-', ':')}`"
        return Carrier(
            name=f"the fabric `shm`{of}",
            medium=Medium.MEMORY,
            told=layer.value == "shm",
            quote=layer.quote,
        )
    return by_provider(words, pair, layer.value.replace("-", ":"))


# Intel MPI 2021; I_MPI_DEBUG is described in its developer reference.
PROBE = Probe(
    settings={"I_MPI_DEBUG": "10", **libfabric.SETTINGS},
    rules=(
        rule(
            Topic.LAYER,
            r"MPI startup\(\): Load tuning file: \"[^\"]*_(?P<value>shm-ofi|shm|ofi)[._]",
        ),
        rule(Topic.PROVIDER, r"MPI startup\(\): libfabric provider: (?P<value>\S+)"),
        rule(Topic.VERSION, r"libfabric version: (?P<value>\S+)", "libfabric {value}"),
        # Rank, thread and NIC; the table of CPUs has four columns.
        rule(Topic.DEVICE, r"MPI startup\(\): (?P<rank>\d+) +\d+ +(?P<value>[A-Za-z]\S*)$"),
        rule(Topic.FALLBACK, r"MPI startup\(\): (?P<value>.*Fallback to .*?)\.?$"),
        *libfabric.RULES,
    ),
    carrier=_carrier,
)
