"""What a profile is computed from, and the profile itself."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import field

from stackproof.core.command import EnvPatch
from stackproof.core.value import Value
from stackproof.mpi.families import REGISTRY
from stackproof.results.case import Placement
from stackproof.results.path import Medium

# Values of `site.FabricType`, whose module takes long to import and not every Python has what it
# needs; this here stands before commands of users.
SLINGSHOT = "slingshot-11"
INFINIBAND = "infiniband"
ETHERNET = "ethernet"
# The MPI developers' wheels bring a libfabric of their own, and none of them is linked with libcxi:
# a wheel may need nothing but what every Linux has (PEP 600).
_WHEELS_LACK = {
    name: gpus for family in REGISTRY.values() for name, gpus in family.wheels_lack.items()
}
_PROVIDERS = ("spack:variant:fabrics", "easybuild:providers")
NEWEST_LIBFABRIC = (2, 6)
"""The newest release of libfabric that was looked at, as knowledge/sources.yaml has it."""


class Memory(StrEnum):
    """Where the buffers of messages lie."""

    HOST = "host"
    CUDA = "cuda"
    ROCM = "rocm"


class Libfabric(Value):
    """The libfabric below an MPI: release and providers; nothing where that is not known.

    `lacks` are providers that it is known not to have, also where the others are not known,
    `without` the GPUs' memories that it was built without, and `gdrcopy` whether it was built with
    GDRCopy, None where that is not known.
    """

    version: str = ""
    providers: frozenset[str] = frozenset()
    lacks: frozenset[str] = frozenset()
    without: frozenset[Memory] = frozenset()
    gdrcopy: bool | None = None


class Setup(Value):
    """What a job stands on.

    `family` and `launcher` are names of their registries; `fabric` is a value of `site.FabricType`,
    empty where it is not known; `nics` is the number of a node's Slingshot NICs, 0 for unknown.
    `own_libfabric` is the file of the machine's own libfabric, empty where that is not known.
    `in_slurm_job` says that the launcher runs inside a Slurm job, `without` are the GPUs whose
    memory the MPI is known not to take, `xpmem` whether nodes have XPMEM, None where that is not
    known.
    """

    family: str
    version: str
    placement: Placement
    libfabric: Libfabric = field(default_factory=Libfabric)
    fabric: str = ""
    own_libfabric: str = ""
    nics: int = 0
    memory: Memory = Memory.HOST
    without: frozenset[Memory] = frozenset()
    xpmem: bool | None = None
    launcher: str = ""
    in_slurm_job: bool = False

    @property
    def on_slingshot(self) -> bool:
        """Return whether cxi joins the nodes: the fabric says so, or else libfabric has cxi."""
        if not self.fabric:
            return "cxi" in self.libfabric.providers
        return self.fabric == SLINGSHOT


class Profile(Value):
    """The variables that force a path, what proves that it was taken, and what is not sure.

    `expect` is the name by which the MPI's own words call the provider, empty when no provider is
    used or the MPI chooses; with `by_provider` all messages must go through it. `inside` and
    `between` are what may carry messages inside a node and between nodes, empty for anything.
    `notes` are sentences for the user.
    """

    env: EnvPatch = field(default_factory=EnvPatch)
    expect: str = ""
    by_provider: bool = False
    inside: tuple[Medium, ...] = ()
    between: tuple[Medium, ...] = ()
    notes: tuple[str, ...] = ()


def libfabric_of(bill: str) -> Libfabric:
    """Return the libfabric that a bill of materials (CycloneDX JSON) names.

    Bills of Spack's images have the providers as the variant `fabrics`, and GPUs as variants called
    like them; those of EasyBuild's have the providers as a property of their own. Of a developers'
    wheel it is known what its libfabric lacks. Nothing is known from a text that is no bill, or
    that names several releases.
    """
    try:
        found: dict[str, set[str]] = defaultdict(set)
        without: set[Memory] = set()
        gdrcopy: bool | None = None
        parts = json.loads(bill)["components"]
        wheel = any(_is_wheel(part) for part in parts)
        for part in parts:
            if part["name"] == "libfabric" and part.get("scope", "required") == "required":
                found[str(part["version"])].update(_fabrics(part))
                without.update(_without(part))
                gdrcopy = _variants(part).get("gdrcopy")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Libfabric()
    if not found and wheel:
        return Libfabric(lacks=frozenset({"cxi"}))
    if len(found) != 1:
        return Libfabric()
    version, providers = found.popitem()
    return Libfabric(
        version=version, providers=frozenset(providers), without=frozenset(without), gdrcopy=gdrcopy
    )


def without_by_bill(bill: str, family: str) -> frozenset[Memory]:
    """Return the GPUs that an MPI was built without, by its bill of materials (CycloneDX JSON).

    Nothing is known from a text that is no bill. UCX that was built for a GPU may carry what its
    MPI knows nothing of.
    """
    gpus = frozenset({Memory.CUDA, Memory.ROCM})
    try:
        parts = json.loads(bill)["components"]
        names = {str(part["name"]).replace("_", "-") for part in parts if _is_wheel(part)}
        if names:
            return frozenset(Memory(gpu) for name in names for gpu in _WHEELS_LACK[name])
        own = [part for part in parts if part["name"] == family]
        carriers = [part for part in parts if part["name"] == "ucx"]
        missing = [{*_without(part)} for part in (*own, *carriers)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return frozenset()
    return frozenset.intersection(gpus, *missing) if own else frozenset()


def _is_wheel(part: Mapping[str, Any]) -> bool:
    purl = str(part.get("purl", ""))
    return purl.startswith("pkg:pypi/") and str(part["name"]).replace("_", "-") in _WHEELS_LACK


def _fabrics(part: Mapping[str, Any]) -> list[str]:
    return [
        name
        for entry in part.get("properties", ())
        if entry["name"] in _PROVIDERS
        for name in entry["value"].split(",")
    ]


def _without(part: Mapping[str, Any]) -> list[Memory]:
    """Return the GPUs that a part was built without; of the machine's own that is not known."""
    found = _variants(part)
    return [gpu for gpu in (Memory.CUDA, Memory.ROCM) if found.get(gpu.value) is False]


def _variants(part: Mapping[str, Any]) -> dict[str, bool]:
    """Return which of Spack's variants a part was built with; nothing of the machine's own."""
    values = {entry["name"]: entry["value"] for entry in part.get("properties", ())}
    if values.get("spack:external"):
        return {}
    return {
        name.removeprefix("spack:variant:"): value == "true"
        for name, value in values.items()
        if name.startswith("spack:variant:") and value in {"true", "false"}
    }
