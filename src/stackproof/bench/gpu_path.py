"""What an MPI said, was told and has loaded, to the way that buffers of a GPU took.

The ways have the names of the field: GPU-direct, where the NIC reads and writes a GPU's memory;
IPC, where one GPU reads another's inside a node; GDRCopy, where the processor copies small messages
through a window on the GPU's memory; staged, where all goes through the host. What the MPI said
wins over what it was told; where neither says it, it is not guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from stackproof.mpi import families
from stackproof.results.case import Case, Locality
from stackproof.results.measurement import Output
from stackproof.results.path import Statement, Topic

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
        inside = case.placement.locality is Locality.INTRA
        layers = {one.value for one in statements if one.topic is Topic.LAYER}
        for way, name in probe.gpu_ways(env, layers, libraries, inside=inside):
            yield _as_set(way, name, env)


def _as_set(way: str, name: str, env: Mapping[str, str]) -> str:
    value = env.get(name)
    return f"{way}, as `{name}` {'is not set' if value is None else f'is `{value}`'}"
