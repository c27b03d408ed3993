"""A site, an image, an environment: what is at hand to the evidence that rules ask for."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stackproof.build.engines.spack.stackinator.facts import facts_of_site
from stackproof.knowledge.evidence import Evidence, Pieces, merged, relevant
from stackproof.mpi import families
from stackproof.site.model import FabricType, Site, SiteLauncher

if TYPE_CHECKING:
    from stackproof.image.model import Image

_EXTERNALS = {
    "libfabric": "libfabric",
    "libcxi": "libcxi",
    "slingshot-host-software": "shs",
    "nvidia-driver": "nvidia-driver",
}
"""Names in a site's externals -> component."""

_PACKAGES = ("libfabric", "libcxi", *families.REGISTRY, "prrte")
"""Packages of a bill of materials that are components of rules."""

_LNX = re.compile(r"(^|[,:])lnx(,|$)")

LOCAL = "local"
"""The site that stands for the machine stackproof runs on."""


def of_site(site: Site, *, vendor: bool) -> Evidence:
    """Return what a site says; with `vendor` its own MPI is the one in question.

    The libfabric of a machine is the one below the vendor's MPI; an image may have its own.
    """
    pieces = Pieces(f"site {site.name}")
    known = facts_of_site(site)
    for name in ("fabric", "gpu"):
        pieces.fact(name, known.get(name))
    nics = {partition.nics for partition in site.partitions.values()}
    if len(nics) == 1 and (count := nics.pop()) is not None:
        pieces.fact("nics-per-node", float(count))
    _machine(site, pieces)
    if "srun" in site.launchers:
        pieces.fact("scheduler", "slurm")
        pieces.version("slurm", site.launchers["srun"].version)
        pieces.fact("pmix-loads", _pmix_loads(site.launchers["srun"]))
    for name, component in _EXTERNALS.items():
        if name in site.externals and (vendor or component != "libfabric"):
            pieces.version(component, site.externals[name].version)
    if vendor and site.vendor_mpi is not None:
        pieces.fact("mpi", site.vendor_mpi.family)
        if site.vendor_mpi.family:
            pieces.version(site.vendor_mpi.family, site.vendor_mpi.version)
    return pieces.evidence()


def _pmix_loads(srun: SiteLauncher) -> bool | None:
    """Return false where a site says that its srun cannot start ranks by PMIx."""
    lacks = _NO_PMIX.search(srun.note or "") or (
        srun.pmi and not any(kind.startswith("pmix") for kind in srun.pmi)
    )
    return False if lacks else None


_NO_PMIX = re.compile(r"\b(?:no|lacks|without) PMIx\b")


def _machine(site: Site, pieces: Pieces) -> None:
    """Note which devices the nodes have, and what kind they are."""
    if site.fabric.type is not None:
        pieces.fact("cxi-device", site.fabric.type is FabricType.SLINGSHOT_11)
    has_xpmem = "xpmem" in site.externals and site.externals["xpmem"].path is not None
    if has_xpmem or site.name == LOCAL:  # only here was it looked for
        pieces.fact("xpmem-device", has_xpmem)
    models = " ".join(
        f"{partition.cpu} {partition.gpu}" for partition in site.partitions.values()
    ).lower()
    pieces.fact("sibling-memory", site.limits.process_vm_readv)
    if "gh200" in models or "grace hopper" in models:
        pieces.fact("node", "gh200")


def of_image(image: Image, view: str | None = None) -> Evidence:
    """Return what an image says of itself: its MPI, and the variables that a view sets."""
    pieces = Pieces(f"image {image.name}")
    if image.mpi is not None:
        pieces.fact("mpi", image.mpi.family)
        pieces.version(image.mpi.family, image.mpi.version)
    name = view or image.default_view
    chosen = image.views.get(name) if name else None
    variables = relevant(chosen.env.set) if chosen is not None else {}
    partial = ("variables",) if variables else ()
    return pieces.evidence(variables or None, f"view {name} of the image", partial=partial)


def of_bill(text: str, origin: str) -> Evidence:
    """Return what a bill of materials (CycloneDX JSON) tells of packages that run.

    A package that is there in two versions tells nothing, and a text that is no bill neither.
    """
    pieces = Pieces(origin)
    try:
        components = json.loads(text)["components"]
        running = [one for one in components if one.get("scope", "required") == "required"]
        found: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for one in running:
            found[one["name"]].append(one)
        for name in _PACKAGES:
            versions = {str(one["version"]) for one in found.get(name, ())}
            if len(versions) == 1:
                pieces.version(name, versions.pop())
        if any(str(one.get("bom-ref", "")).startswith("spack:") for one in running):
            _spack_facts(found, pieces)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Evidence()
    return pieces.evidence()


def _spack_facts(found: Mapping[str, Sequence[Mapping[str, Any]]], pieces: Pieces) -> None:
    """Note what the variants of Spack's packages say; its bills name every package."""
    pieces.fact("xpmem-built", "xpmem" in found)
    for package, fact, value in (
        *(
            (name, "ofi-support", "ofi")
            for name, mpi in families.REGISTRY.items()
            if mpi.ofi_plug_in
        ),
        ("libfabric", "cxi-provider", "cxi"),
    ):
        for one in found.get(package, ()):
            variants = {entry["name"]: entry["value"] for entry in one.get("properties", ())}
            fabrics = variants.get("spack:variant:fabrics")
            if fabrics is not None:
                pieces.fact(fact, value in fabrics.split(","))


def implied(evidence: Evidence) -> Evidence:
    """Return what follows from evidence: what variables ask for, how two releases of PMIx stand."""
    return merged(_transport(evidence), _pmix(evidence))


def _pmix(evidence: Evidence) -> Evidence:
    own, slurm = evidence.versions.get("pmix", ""), evidence.facts.get("slurm-pmix")
    if "pmix-majors-differ" in evidence.facts or not own or not isinstance(slurm, tuple | list):
        return Evidence()
    pieces = Pieces(f"{own} of {evidence.origin('version', 'pmix')}; Slurm has {', '.join(slurm)}")
    pieces.fact("pmix-majors-differ", own.partition(".")[0] not in slurm)
    return pieces.evidence()


def _transport(evidence: Evidence) -> Evidence:
    """Return which transport the variables ask for, where nothing else says it."""
    variables = evidence.variables or {}
    include = "OMPI_MCA_opal_common_ofi_provider_include"
    origins = {
        name: transport
        for transport, names in (
            ("cxi", [one for one in ("FI_PROVIDER", include) if variables.get(one) == "cxi"]),
            ("lnx", [one for one in ("FI_PROVIDER", include) if _LNX.search(variables.get(one, ""))]
             + [one for one in ("FI_LNX_PROV_LINKS",) if one in variables]),
        )
        for name in names
    }  # fmt: skip
    if not origins or "transport" in evidence.facts:
        return Evidence()
    name, transport = list(origins.items())[-1]
    pieces = Pieces(f"{name} asks for it")
    pieces.fact("transport", transport)
    return pieces.evidence()
