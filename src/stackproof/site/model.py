"""The site noun: what a machine offers; every fact remembers where it comes from.

A fact is a leaf of the site document, named by its path (`fabric.limit-mb-s`,
`partitions.cpu.nodes`). `Site.facts` maps paths to ids of `Site.sources`; a path covers everything
below it, and the longest one counts. What is not known is left out: a key that is there is true.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, ClassVar

from msgspec import field

from stackproof.core import document as documents
from stackproof.core import limits, noun
from stackproof.core.document import Document
from stackproof.core.errors import Problem, Reason, StackproofError, did_you_mean
from stackproof.core.mountlist import bad_mount_point
from stackproof.core.value import Value, replace

# Keys of a site that are not facts about the machine.
_NOT_FACTS = ("name", "description", "sources", "facts")
_OWN = "own"
_LIBFABRIC = "/opt/cray/libfabric"
# Sections of which a part means nothing without this key: they are taken whole from one side.
DECIDES = {"fabric": "type", "scheduler": "type", "vendor-mpi": "family"}
# Keys whose value maps names to nouns.
_NAMED = ("partitions", "launchers", "externals", "interfaces", "tools", "sources")


class FabricType(StrEnum):
    """What joins the nodes."""

    SLINGSHOT_11 = "slingshot-11"
    INFINIBAND = "infiniband"
    ETHERNET = "ethernet"
    NONE = "none"


class SourceKind(StrEnum):
    """What a fact was taken from: a public document, or a file or command of the machine."""

    DOCUMENT = "document"
    FILE = "file"
    COMMAND = "command"


class Source(Value):
    """Where facts come from.

    `title` is a public document's title, or the path or command line that was read; `date` is the
    document's date or the time of the reading (ISO 8601, as exact as it is known). `host` is the
    machine that was asked, where it is told.
    """

    title: str
    kind: SourceKind = SourceKind.DOCUMENT
    authors: tuple[str, ...] = ()
    date: str | None = None
    host: str | None = None
    url: str | None = None
    note: str | None = None


class Partition(Value):
    """Nodes of one kind; all numbers but `nodes` are per node.

    `architecture` is the machine name as `uname -m` gives it, `cpu` the processor as its maker
    names it, `cores` are physical ones. `memory_gb` and the limit are in 10^9 bytes and
    10^6 bytes per second, per direction, between two GPUs of a node.
    """

    nodes: int | None = None
    architecture: str | None = None
    cpu: str | None = None
    microarchitecture: str | None = None
    sockets: int | None = None
    cores: int | None = None
    memory_gb: float | None = None
    gpu: str | None = None
    gpus: int | None = None
    gpu_pair_limit_mb_s: float | None = None
    nics: int | None = None


class StepSize(Value):
    """A message size after which a curve steps on healthy hardware, and the reason."""

    bytes: int
    why: str


class Fabric(Value):
    """The network between nodes; limits are for one NIC, in MB/s of 10^6 bytes.

    `limit_mb_s` is what passes in one direction, `bidirectional_limit_mb_s` what passes in both
    together; None means unknown, and then no percentage of it may be shown.
    """

    type: FabricType | None = None
    nic: str | None = None
    limit_mb_s: float | None = None
    bidirectional_limit_mb_s: float | None = None
    step_sizes: tuple[StepSize, ...] = ()


class SiteLauncher(Value):
    """What starts ranks; `pmi` are the wire-up kinds that it can serve (`srun --mpi=KIND`)."""

    version: str | None = None
    pmi: tuple[str, ...] = ()
    note: str | None = None


class SiteScheduler(Value):
    """What starts jobs: `slurm`, `pbs` or `flux`; `queues` are what jobs can ask for by name."""

    type: str
    version: str | None = None
    queues: tuple[str, ...] = ()


class VendorMpi(Value):
    """The vendor's MPI, the natural baseline; `family` is a name in `stackproof.mpi.families`."""

    family: str
    version: str | None = None
    path: str | None = None
    note: str | None = None


class External(Value):
    """Software that the machine brings: a library such as `libfabric`, or a program."""

    version: str | None = None
    path: str | None = None
    note: str | None = None


class Interface(Value):
    """A network interface of a node; `speed_mb_s` is its rate in one direction, 10^6 B/s."""

    speed_mb_s: float | None = None
    up: bool | None = None


class Limits(Value):
    """What a user without special rights may do on a node; `shm_gb` is /dev/shm in 10^9 bytes.

    `process_vm_readv` says whether a process may read the memory of its sibling, which MPI
    libraries use to copy a message once (CMA).
    """

    user_namespaces: bool | None = None
    fuse: bool | None = None
    process_vm_readv: bool | None = None
    shm_gb: float | None = None


class SpackOffer(Value):
    """What a machine offers to Spack.

    `packages` is in the form of Spack's packages.yaml: what is not built there, and how the rest
    is; the compiler of the system belongs to it. `mpi` maps the MPIs that stacks may ask for to
    the specs that are installed with each. `cluster_config` is instead the path, relative to the
    site's file, of a folder that says both as Stackinator has it.
    """

    cluster_config: str | None = None
    packages: Mapping[str, Any] = field(default_factory=dict)
    mpi: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Site(Value):
    """A machine; the meaning of each key is in `schemas/site.json`."""

    SCHEMA: ClassVar[str] = "stackproof/site/1"

    name: str
    description: str = ""
    partitions: Mapping[str, Partition] = field(default_factory=dict)
    fabric: Fabric = field(default_factory=Fabric)
    launchers: Mapping[str, SiteLauncher] = field(default_factory=dict)
    scheduler: SiteScheduler | None = None
    vendor_mpi: VendorMpi | None = None
    externals: Mapping[str, External] = field(default_factory=dict)
    mount_points: tuple[str, ...] = ()
    interfaces: Mapping[str, Interface] = field(default_factory=dict)
    tools: Mapping[str, External] = field(default_factory=dict)
    os: str | None = None
    kernel: str | None = None
    glibc: str | None = None
    limits: Limits = field(default_factory=Limits)
    spack: SpackOffer | None = None
    sources: Mapping[str, Source] = field(default_factory=dict)
    facts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def architectures(self) -> tuple[str, ...]:
        """Return the machine names of its partitions that are known, each once."""
        found = (partition.architecture for partition in self.partitions.values())
        return tuple(dict.fromkeys(name for name in found if name))

    def libfabric_file(self) -> str:
        """Return the file of its own libfabric; empty where the site does not tell.

        A file is told by its path, or by that of HPE's folder of releases and the release.
        """
        own = self.externals.get("libfabric", External())
        path, release = (own.path or "").rstrip("/"), own.version or ""
        if ".so" in path.rpartition("/")[2]:
            return path
        if not release or path not in {_LIBFABRIC, f"{_LIBFABRIC}/{release}"}:
            return ""
        return f"{_LIBFABRIC}/{release}/lib64/libfabric.so.1"

    def sources_of(self, path: str) -> tuple[Source, ...]:
        """Return where the fact at `path` comes from; empty for a path without a source."""
        return tuple(self.sources[name] for name in covering(self.facts, path))


def parse_site(document: Document, *, own: Source | None = None) -> Site:
    """Return the site that a document holds; one without sources has all its facts from `own`.

    Raises `StackproofError` with every problem of the document at once; what the schema already
    complained about is not reported a second time.
    """
    if own is not None and is_without_sources(document.data):
        document = replace(document, data=_sourced(document.data, own))
    found = [*documents.problems(document, "site")]
    if isinstance(document.data, dict):
        places = {problem.where for problem in found}
        found += [new for new in _meaning_problems(document) if new.where not in places]
    if found:
        raise StackproofError(*sorted(found, key=_place))
    return from_document(document.data, file=document.file)


def is_without_sources(data: Any) -> bool:
    """Return true where a site's document states facts, and nothing of their sources."""
    if not isinstance(data, dict) or data.get("sources") or data.get("facts"):
        return False
    return any(key not in _NOT_FACTS for key in data)


def _sourced(data: Mapping[str, Any], own: Source) -> dict[str, Any]:
    facts = {str(key): _OWN for key in data if key not in _NOT_FACTS and [*_leaves(data[key])]}
    return {**data, "sources": {_OWN: _plain(own)}, "facts": facts}


def from_document(data: Mapping[str, Any], *, file: str) -> Site:
    """Return the site of document data that has no problems, the reverse of `to_document`.

    Raises `StackproofError` (WRONG_TYPE) for data that `parse_site` would have refused.
    """
    given: dict[str, Any] = {"schema": Site.SCHEMA}
    for key, value in data.items():
        name = key.replace("-", "_")
        if key in _NAMED:
            given[name] = {entry: _underscored(body or {}) for entry, body in value.items()}
        elif key == "facts":
            given[name] = {p: [ids] if isinstance(ids, str) else ids for p, ids in value.items()}
        else:
            given[name] = _underscored(value)
    return noun.from_data(Site, given, file=file)


def to_document(site: Site) -> dict[str, Any]:
    """Return the data of the site's YAML document: what is unknown or empty is left out."""
    data: dict[str, Any] = _plain(site)
    for path, ids in data.get("facts", {}).items():
        data["facts"][path] = ids[0] if len(ids) == 1 else ids
    return data


def leaves(site: Site) -> dict[str, Any]:
    """Return every fact of a site by its path; a list is one fact."""
    data = to_document(site)
    return dict(_leaves({key: data[key] for key in data if key not in _NOT_FACTS}))


def merge(declared: Site, probed: Site) -> Site:
    """Return one site of both: declared facts beat probed ones, fact by fact.

    Each fact keeps its own source; a probed source whose id is taken by another one gets a new id.
    """
    ours, theirs = to_document(declared), to_document(_rename_sources(probed, declared.sources))
    for section, key in DECIDES.items():
        mine, other = ours.get(section, {}).get(key), theirs.get(section, {}).get(key)
        if mine is not None and mine != other:
            theirs.pop(section, None)
    merged = overlay(theirs, ours)
    merged["facts"] = {**_facts_by_leaf(theirs), **_facts_by_leaf(ours)}
    return from_document(merged, file="<merged>")


def _rename_sources(site: Site, taken: Mapping[str, Source]) -> Site:
    """Return the site with other ids for sources whose id means something else in `taken`."""
    names: dict[str, str] = {}
    for name, source in site.sources.items():
        new, number = name, 2
        while taken.get(new, source) != source or new in names.values():
            new, number = f"{name}-{number}", number + 1
        names[name] = new
    return replace(
        site,
        sources={names[name]: source for name, source in site.sources.items()},
        facts={path: tuple(names[name] for name in ids) for path, ids in site.facts.items()},
    )


def overlay(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with another above it, whose values count where both have one."""
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        result[key] = overlay(old or {}, value) if both else value
    return result


def _facts_by_leaf(data: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the sources of every single fact, so that two sites' facts cannot cover each other."""
    facts = data.get("facts", {})
    body = {key: value for key, value in data.items() if key not in _NOT_FACTS}
    found = ((path, covering(facts, path)) for path, _ in _leaves(body))
    return {path: list(ids) for path, ids in found if ids}


def covering(facts: Mapping[str, Any], path: str) -> tuple[str, ...]:
    """Return the source ids of the longest path in `facts` that covers `path`."""
    while path:
        if path in facts:
            ids = facts[path]
            return (ids,) if isinstance(ids, str) else tuple(ids)
        path = path.rpartition(".")[0]
    return ()


def _leaves(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if not isinstance(data, dict):
        yield path, data
        return
    for key, value in data.items():
        yield from _leaves(value, f"{path}.{key}" if path else key)


def _plain(value: Any) -> Any:
    """Return a noun as document data: keys with hyphens, unknown and empty values left out."""
    if isinstance(value, Value):
        pairs = ((key.replace("_", "-"), getattr(value, key)) for key in value.__struct_fields__)
        plain = {key: _plain(item) for key, item in pairs if item is not None}
        return {key: item for key, item in plain.items() if item not in ({}, [], "")}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, StrEnum) else value


def _underscored(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key.replace("-", "_"): item for key, item in value.items()}


def _meaning_problems(document: Document) -> list[Problem]:
    """Return what the schema cannot say; values of a wrong type are left to the schema."""
    found = itertools.chain(
        _source_problems(document),
        _uncovered_problems(document),
        _fabric_problems(document),
        _mount_point_problems(document),
    )
    return list(itertools.islice(found, limits.PROBLEMS.count))


def _place(problem: Problem) -> tuple[int, int]:
    return (problem.where.line, problem.where.column) if problem.where else (0, 0)


def _body(document: Document) -> dict[str, Any]:
    return {key: value for key, value in document.data.items() if key not in _NOT_FACTS}


def _mapping(data: Any, key: str) -> dict[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def _dotted(before: str, key: str) -> str:
    return f"{before}.{key}"


def _source_problems(document: Document) -> Iterator[Problem]:
    """Yield what is wrong with `facts`: paths that lead nowhere, sources that are not there."""
    known = [path for path, _ in _leaves(_body(document))]
    stated = {prefix for path in known for prefix in itertools.accumulate(path.split("."), _dotted)}
    sources = _mapping(document.data, "sources")
    for path, ids in _mapping(document.data, "facts").items():
        if path not in stated:
            yield Problem(
                reason=Reason.UNKNOWN_KEY,
                message=f"`facts` names `{path}`, which this site does not state",
                hint=did_you_mean(path, known).strip() or "remove the line",
                where=document.where_key("facts", path),
            )
        for name in [ids] if isinstance(ids, str) else ids if isinstance(ids, list) else []:
            if isinstance(name, str) and name not in sources:
                yield document.problem(
                    ("facts", path),
                    f"`{name}` is not one of this site's `sources`",
                    did_you_mean(name, sources).strip() or "add it to `sources`",
                )


def _uncovered_problems(document: Document) -> Iterator[Problem]:
    """Yield a problem for each section with facts that have no source."""
    facts = _mapping(document.data, "facts")
    for section, value in _body(document).items():
        bare = [path for path, _ in _leaves(value, section) if not covering(facts, path)]
        if bare:
            more = f" (and {len(bare) - 1} more in `{section}`)" if len(bare) > 1 else ""
            yield Problem(
                reason=Reason.MISSING_KEY,
                message=f"no source is given for `{bare[0]}`{more}",
                hint=f"say in `facts` where it is from: `{section}: ID`, with ID in `sources`",
                where=document.where_key(section),
            )


def _fabric_problems(document: Document) -> Iterator[Problem]:
    fabric = _mapping(document.data, "fabric")
    one, both = fabric.get("limit-mb-s"), fabric.get("bidirectional-limit-mb-s")
    if (
        isinstance(one, int | float)
        and isinstance(both, int | float)
        and not one <= both <= 2 * one
    ):
        yield document.problem(
            ("fabric", "bidirectional-limit-mb-s"),
            f"`bidirectional-limit-mb-s` {both} does not fit `limit-mb-s` {one}",
            "both directions together carry between once and twice what one carries",
        )
    if fabric.get("type") == FabricType.NONE and len(fabric) > 1:
        yield document.problem(
            ("fabric", "type"),
            "a fabric of type `none` has no NIC, limits or steps",
            "leave the other keys out, or state the fabric's type",
        )


def _mount_point_problems(document: Document) -> Iterator[Problem]:
    paths = document.data.get("mount-points")
    for index, path in enumerate(paths if isinstance(paths, list) else []):
        if isinstance(path, str) and (fault := bad_mount_point(path)):
            yield document.problem(
                ("mount-points", index),
                f"`{path}` cannot be a mount point: {fault}",
                "use a path of its own, for example /user-environment",
                reason=Reason.BAD_MOUNT_POINT,
            )
