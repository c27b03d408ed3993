"""A site, an image, an environment, results: what is at hand to the evidence that rules ask for."""

from __future__ import annotations

import json
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stackproof.build.engines.spack.stackinator.facts import facts_of_site
from stackproof.core.errors import Reason
from stackproof.core.value import Value
from stackproof.doctor.evidence import log
from stackproof.doctor.evidence.cores import of_cores
from stackproof.doctor.evidence.variables import of_interfaces
from stackproof.image.model import Image
from stackproof.knowledge.evidence import Evidence, FactValue, merged, relevant
from stackproof.knowledge.reference_curves import BufferPlace, memory_of
from stackproof.mpi import families
from stackproof.results.case import Locality
from stackproof.results.measurement import Measurement, State
from stackproof.results.metrics import METRICS
from stackproof.results.model import Results
from stackproof.site.model import FabricType, Site, SiteLauncher

_EXTERNALS = {
    "libfabric": "libfabric",
    "libcxi": "libcxi",
    "slingshot-host-software": "shs",
    "nvidia-driver": "nvidia-driver",
}
"""Names in a site's externals -> component."""

_LAUNCHERS = {"srun": "srun", "mpirun": "mpirun", "prterun": "mpirun", "mpiexec": "mpiexec"}
_PACKAGES = ("libfabric", "libcxi", *families.REGISTRY, "prrte")
"""Packages of a bill of materials that are components of rules."""

_LNX = re.compile(r"(^|[,:])lnx(,|$)")

LOCAL = "local"
"""The site that stands for the machine stackproof runs on."""

_SMALL = 1024
_DIRECTIONS = {"bandwidth": 1, "bibandwidth": 2}
"""Bandwidths by benchmark: how many directions of a link they add up."""
_PLATEAU = 1 << 18
"""A size at which the link, not the cost of a message, decides."""
_LARGE = 4 << 20


class MeasuredCurve(Value):
    """A curve of one arm: `values` by size in bytes, in µs or MB/s (10^6 B).

    `link` is what one NIC carries in one direction (MB/s), None where that is not known.
    """

    arm: str
    benchmark: str
    placement: str
    program: str
    locality: Locality
    memory: BufferPlace
    values: Mapping[int, float]
    link: float | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the sizes above zero, rising."""
        return tuple(size for size in sorted(self.values) if size > 0)

    @property
    def best(self) -> float:
        """Return the largest value."""
        return max(self.values[size] for size in self.sizes)


class _Pieces:
    """Evidence that is being put together: each piece with its origin."""

    def __init__(self, origin: str) -> None:
        self.versions: dict[str, str] = {}
        self.facts: dict[str, FactValue] = {}
        self.origins: dict[str, str] = {}
        self._origin = origin

    def version(self, component: str, value: str | None) -> None:
        if value:
            self.versions[component] = value
            self.origins[f"version {component}"] = self._origin

    def fact(self, name: str, value: FactValue | None) -> None:
        if value is not None and value != ():
            self.facts[name] = value
            self.origins[f"fact {name}"] = self._origin


def of_site(site: Site, *, vendor: bool) -> Evidence:
    """Return what a site says; with `vendor` its own MPI is the one in question.

    The libfabric of a machine is the one below the vendor's MPI; an image may have its own.
    """
    pieces = _Pieces(f"site {site.name}")
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
    return Evidence(versions=pieces.versions, facts=pieces.facts, origins=pieces.origins)


def _pmix_loads(srun: SiteLauncher) -> bool | None:
    """Return false where a site says that its srun cannot start ranks by PMIx."""
    lacks = _NO_PMIX.search(srun.note or "") or (
        srun.pmi and not any(kind.startswith("pmix") for kind in srun.pmi)
    )
    return False if lacks else None


_NO_PMIX = re.compile(r"\b(?:no|lacks|without) PMIx\b")


def _machine(site: Site, pieces: _Pieces) -> None:
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
    pieces = _Pieces(f"image {image.name}")
    if image.mpi is not None:
        pieces.fact("mpi", image.mpi.family)
        pieces.version(image.mpi.family, image.mpi.version)
    name = view or image.default_view
    chosen = image.views.get(name) if name else None
    variables = relevant(chosen.env.set) if chosen is not None else {}
    origins = {f"variable {key}": f"view {name} of the image" for key in variables}
    return Evidence(
        versions=pieces.versions,
        variables=variables or None,
        facts=pieces.facts,
        origins={**pieces.origins, **origins},
        partial=("variables",) if variables else (),
    )


def of_bill(text: str, origin: str) -> Evidence:
    """Return what a bill of materials (CycloneDX JSON) tells of packages that run.

    A package that is there in two versions tells nothing, and a text that is no bill neither.
    """
    pieces = _Pieces(origin)
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
    return Evidence(versions=pieces.versions, facts=pieces.facts, origins=pieces.origins)


def _spack_facts(found: Mapping[str, Sequence[Mapping[str, Any]]], pieces: _Pieces) -> None:
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
    text = f"{own} of {evidence.origin('version', 'pmix')}; Slurm has {', '.join(slurm)}"
    return Evidence(
        facts={"pmix-majors-differ": own.partition(".")[0] not in slurm},
        origins={"fact pmix-majors-differ": text},
    )


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
    return Evidence(
        facts={"transport": transport}, origins={"fact transport": f"{name} asks for it"}
    )


def of_nodes(results: Results, arm: str) -> Evidence:
    """Return evidence of the nodes of results: their interfaces, and others on the cores.

    Variables are held against the interfaces of the nodes that the ranks ran on, and not against
    those of the machine that asks.
    """
    launches = [one for one in results.measurements if one.arm == arm]
    ranks = [rank for one in launches for rank in one.output.ranks]
    there = sorted({name for rank in ranks for name in (*rank.tx_bytes, *rank.interfaces)})
    hosts = sorted({rank.host for rank in ranks})
    variables = {name: value for one in launches for name, value in one.env.items()}
    found = of_interfaces(variables, there, f"the nodes ({', '.join(hosts)})")
    return merged(found, of_cores(results, arm))


# --- results --------------------------------------------------------------------------------


def of_results(results: Results, arm: str) -> Evidence:
    """Return what the launches of one arm show.

    Their variables are those that the deployment set, not the whole environment.
    """
    launches = [one for one in results.measurements if one.arm == arm]
    pieces = _Pieces(f"results, arm {arm}")
    for one in launches:
        found = families.identify(one.output.mpi_library) if one.output.mpi_library else None
        if found is not None:
            pieces.fact("mpi", found[0])
            pieces.version(found[0], found[1])
    _cases(launches, pieces)
    curves = curves_of(results)
    between = _plateaus(curves, arm)
    pieces.fact("share-of-link", _share_of_link(between))
    pieces.fact("both-ways-over-one-way", _both_over_one(between))
    pieces.fact("small-message-rate-lnx-over-cxi", _lnx_over_cxi(results, curves))
    pieces.fact("device-over-host-bandwidth", _device_over_host(curves, arm))
    fabric = results.spec.host.get("fabric")
    pieces.fact("fabric", fabric if isinstance(fabric, str) else None)
    variables = relevant({name: value for one in launches for name, value in one.env.items()})
    origins = {f"variable {name}": f"results, arm {arm}" for name in variables}
    logs = {f"launches of {arm}": text} if (text := _said(launches)) else {}
    return Evidence(
        versions=pieces.versions,
        variables=variables,
        facts=pieces.facts,
        logs=logs,
        origins={**pieces.origins, **origins},
        partial=("logs", "variables"),
        taken=results.spec.created,
    )


def _cases(launches: Sequence[Measurement], pieces: _Pieces) -> None:
    """Note how the launches of an arm were made, and how they ended."""
    localities = dict.fromkeys(one.case.placement.locality.value for one in launches)
    memories = dict.fromkeys(memory_of(one.host_facts).value for one in launches)
    transports = dict.fromkeys(
        one.case.transport for one in launches if one.case.transport != "auto"
    )
    uses = dict.fromkeys(name for one in launches for name in one.case.benchmarks)
    launchers = dict.fromkeys(
        _LAUNCHERS[name] for one in launches if (name := _program(one)) in _LAUNCHERS
    )
    kinds = dict.fromkeys(
        word.partition("=")[2] for one in launches for word in one.argv if word.startswith("--mpi=")
    )
    pieces.fact("placement", tuple(localities))
    pieces.fact("memory", tuple(memories))
    pieces.fact("transport", tuple(transports))
    pieces.fact("uses", tuple(uses))
    pieces.fact("launcher", tuple(launchers))
    pieces.fact("pmi", tuple(kinds))
    if launches:
        pieces.fact("worlds", float(max(one.output.worlds for one in launches)))
        pieces.fact("nodes", float(max(len(one.case.placement.nodes) for one in launches)))
        pieces.fact("ended", _ended(launches))
        pieces.fact("cut-short", _cut_short(launches))
        validated = [
            one.output.validation_errors
            for one in launches
            if one.output.validation_errors or any(series.validated for series in one.output.series)
        ]
        pieces.fact("wrong-bytes", float(sum(validated)) if validated else None)


def _program(one: Measurement) -> str:
    return one.argv[0].rpartition("/")[2] if one.argv else ""


def _ended(launches: Sequence[Measurement]) -> str:
    bad = {
        check.reason: check.evidence
        for launch in launches
        for check in launch.checks
        if check.state is State.BAD
    }
    ends = {"hang": Reason.JOB_TIMEOUT, "crash": Reason.RANK_CRASHED,
            "node-lost": Reason.NODE_UNREACHABLE}  # fmt: skip
    # The check quotes the launcher's own words.
    if log.KILLED.search(bad.get(Reason.RANK_CRASHED, "")) and Reason.JOB_TIMEOUT not in bad:
        return "killed"
    last = "crash" if Reason.JOB_FAILED in bad else "ok"
    return next((name for name, reason in ends.items() if reason in bad), last)


def _cut_short(launches: Sequence[Measurement]) -> bool:
    """Return true where an output stopped before its end and the program said nothing of it."""
    return any(
        check.reason == Reason.TRUNCATED_OUTPUT and check.state is State.BAD
        for one in launches
        for check in one.checks
        if one.output.worlds == 1
    )


def _said(launches: Sequence[Measurement]) -> str:
    """Return what launches left of words that are not results."""
    lines = [line for one in launches for line in one.output.garbage]
    lines += [
        check.evidence for one in launches for check in one.checks if check.state is State.BAD
    ]
    return "\n".join(dict.fromkeys(lines))


def _lnx_over_cxi(results: Results, curves: Sequence[MeasuredCurve]) -> float | None:
    """Return how the rate of small messages over lnx compares with that over cxi alone."""
    transports = {one.arm: one.case.transport for one in results.measurements}
    ratios = [
        lnx.values[size] / cxi.values[size]
        for lnx in curves
        for cxi in curves
        if (transports[lnx.arm], transports[cxi.arm]) == ("lnx", "cxi")
        and (lnx.benchmark, lnx.placement) == ("bandwidth", cxi.placement)
        and cxi.benchmark == "bandwidth"
        for size in lnx.sizes
        if size <= _SMALL and size in cxi.values
    ]
    return statistics.median(ratios) if ratios else None


def _plateaus(curves: Sequence[MeasuredCurve], arm: str) -> list[MeasuredCurve]:
    """Return an arm's bandwidths between nodes that have large messages."""
    return [
        curve
        for curve in curves
        if curve.arm == arm
        and curve.benchmark in _DIRECTIONS
        and curve.locality is Locality.INTER
        and max(curve.sizes, default=0) >= _PLATEAU
    ]


def _share_of_link(between: Sequence[MeasuredCurve]) -> float | None:
    """Return the best bandwidth as a part of what the link carries, the least of all curves."""
    return min(
        (
            curve.best / (_DIRECTIONS[curve.benchmark] * curve.link)
            for curve in between
            if curve.link is not None
        ),
        default=None,
    )


def _both_over_one(between: Sequence[MeasuredCurve]) -> float | None:
    """Return how both directions together compare with one alone, the least of all curves."""
    one_way = {
        (curve.placement, curve.program): curve.best
        for curve in between
        if curve.benchmark == "bandwidth"
    }
    return min(
        (
            curve.best / one_way[curve.placement, curve.program]
            for curve in between
            if curve.benchmark == "bibandwidth" and (curve.placement, curve.program) in one_way
        ),
        default=None,
    )


def _device_over_host(curves: Sequence[MeasuredCurve], arm: str) -> float | None:
    values: dict[BufferPlace, float] = {
        curve.memory: curve.values[_LARGE]
        for curve in curves
        if (curve.arm, curve.benchmark, curve.locality) == (arm, "bandwidth", Locality.INTER)
        and _LARGE in curve.values
    }
    if len(values) < len(BufferPlace):
        return None
    return values[BufferPlace.DEVICE] / values[BufferPlace.HOST]


def curves_of(results: Results) -> tuple[MeasuredCurve, ...]:
    """Return the curves of all arms: of each size the median over launches of their medians.

    Launches that are not usable, and the warm-up, do not count.
    """
    observed: dict[tuple[str, str, str], dict[int, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    first: dict[tuple[str, str, str], Measurement] = {}
    for one in results.measurements:
        if not one.usable or one.block <= 0:
            continue
        for benchmark, size, value in _medians(one):
            key = (one.arm, one.case.placement.name, benchmark)
            first.setdefault(key, one)
            observed[key][size].append(value)
    return tuple(_curve(key, sizes, first[key], results) for key, sizes in observed.items())


def _medians(one: Measurement) -> Iterator[tuple[str, int, float]]:
    for series in one.output.series:
        if series.benchmark in METRICS and series.values:
            yield series.benchmark, series.size, statistics.median(series.values)


def _curve(
    key: tuple[str, str, str],
    sizes: Mapping[int, Sequence[float]],
    one: Measurement,
    results: Results,
) -> MeasuredCurve:
    arm, placement, benchmark = key
    link = results.spec.limits.get(placement, {}).get("MB/s")
    return MeasuredCurve(
        arm=arm,
        benchmark=benchmark,
        placement=placement,
        program=one.case.program,
        locality=one.case.placement.locality,
        memory=memory_of(one.host_facts),
        values={size: statistics.median(values) for size, values in sorted(sizes.items())},
        link=float(link) if isinstance(link, int | float) else None,
    )
