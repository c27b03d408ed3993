"""A site file and what its machine says, to what is to be written: `site probe --complete`.

A login node is asked what holds for the machine: what starts jobs and ranks, the vendor's software,
compilers. A node in a job is asked what it is: its processor, GPUs, network cards, limits. What a
person stated is kept, also where the machine says otherwise; what was asked before is asked again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from stackproof.core.editing import Keys
from stackproof.core.value import Value, replace
from stackproof.site.capture import PARTITION
from stackproof.site.model import (
    DECIDES,
    Site,
    Source,
    SourceKind,
    covering,
    to_document,
)

# Sections and names that a node of a job is asked for; a login node is asked for all others.
_OF_NODES = frozenset(("partitions", "fabric", "interfaces", "limits", "os", "kernel", "glibc"))
_DRIVERS = frozenset(("gdrcopy", "nvidia-driver"))
# Programs that mount an image on the nodes of a job; the others are for who builds.
_MOUNTING = frozenset(("fusermount3", "ip", "squashfuse_ll", "unshare"))
_LOGIN = "login"
_NO_FACTS = ("name", "description", "sources", "facts")
_NICKNAME = re.compile(r'"[^"]*"')
_FILLER = re.compile(r"processor|cpu|\d+-core")


class Part(StrEnum):
    """What of a machine is asked: a login node, a node in a job, or a machine that is both."""

    LOGIN = "login"
    NODE = "node"
    BOTH = "both"


class OtherFact(Value):
    """A fact of a file that the machine says otherwise, whether it stays or is renewed."""

    fact: str
    stated: Any
    asked: Any


class Completion(Value):
    """What a site file gets: values by their path of keys, and what the person should know."""

    changes: Mapping[Keys, Any]
    added: tuple[str, ...] = ()
    renewed: tuple[OtherFact, ...] = ()
    kept: tuple[OtherFact, ...] = ()


class Asking(Value):
    """Which part of a machine was asked, on which host, and what partition its node is of."""

    part: Part
    partition: str
    host: str | None = None


def complete(data: Mapping[str, Any], found: Site, asking: Asking) -> Completion:
    """Return what a site's document gets of what was found on its machine."""
    values: dict[Keys, Any] = {}
    sources: dict[Keys, Any] = {}
    facts: dict[Keys, Any] = {}
    added: list[str] = []
    renewed: list[OtherFact] = []
    kept: list[OtherFact] = []
    document = to_document(found)
    refused = _other_kinds(data, document, asking)
    for path, value in _asked(document, asking):
        stated, old = _at(data, path)
        fact = ".".join(path)
        if path[0] in refused:
            if path[1] == DECIDES[path[0]]:
                kept.append(OtherFact(fact=fact, stated=old, asked=value))
            continue
        if stated and (old == value or _alike(old, value)):
            continue
        tag = asking.partition if _is_of_nodes(path) else _LOGIN
        if stated and not _is_ours(data, fact, tag):
            kept.append(OtherFact(fact=fact, stated=old, asked=value))
            continue
        own = ".".join((path[0], PARTITION, *path[2:]) if path[0] == "partitions" else path)
        (name,) = found.facts[own]
        identifier = f"{name}--{tag}"
        values[path] = value
        facts["facts", fact] = identifier
        sources["sources", identifier] = _source(replace(found.sources[name], host=asking.host))
        if stated:
            renewed.append(OtherFact(fact=fact, stated=old, asked=value))
        else:
            added.append(fact)
    return Completion(
        changes={**values, **sources, **facts},
        added=tuple(added),
        renewed=tuple(renewed),
        kept=tuple(kept),
    )


def _asked(document: Mapping[str, Any], asking: Asking) -> Iterator[tuple[Keys, Any]]:
    """Yield the facts that this part of a machine is asked for, nodes by their partition's name."""
    parts = {
        Part.LOGIN: (False,),
        Part.NODE: (True,),
        Part.BOTH: (False, True),
    }[asking.part]
    for path, value in _leaves({k: v for k, v in document.items() if k not in _NO_FACTS}, ()):
        if _is_of_nodes(path) in parts:
            named = path[0] == "partitions"
            yield (path[0], asking.partition, *path[2:]) if named else path, value


def _is_of_nodes(path: Keys) -> bool:
    if path[0] == "externals":
        return path[1] in _DRIVERS
    if path[0] == "tools":
        return path[1] in _MOUNTING
    return path[0] in _OF_NODES


def _leaves(data: Any, path: Keys) -> Iterator[tuple[Keys, Any]]:
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from _leaves(value, (*path, key))
    else:
        yield path, int(data) if isinstance(data, float) and data.is_integer() else data


def _alike(stated: Any, asked: Any) -> bool:
    """Return whether two names of hardware say the same, one of them with more words.

    A handbook has `AMD EPYC 7763 "Milan"` where lscpu has `AMD EPYC 7763 64-Core Processor`.
    """
    if not (isinstance(stated, str) and isinstance(asked, str)):
        return False
    one, other = (
        {word for word in _NICKNAME.sub("", text).lower().split() if not _FILLER.fullmatch(word)}
        for text in (stated, asked)
    )
    return bool(one and other) and (one <= other or other <= one)


def _other_kinds(
    data: Mapping[str, Any], document: Mapping[str, Any], asking: Asking
) -> frozenset[str]:
    """Return the sections of which the file and the machine do not mean the same thing."""
    found = set()
    for section, key in DECIDES.items():
        stated, value = _at(data, (section, key))
        there, asked = _at(document, (section, key))
        tag = asking.partition if section in _OF_NODES else _LOGIN
        if stated and there and value != asked and not _is_ours(data, f"{section}.{key}", tag):
            found.add(section)
    return frozenset(found)


def _at(data: Any, path: Keys) -> tuple[bool, Any]:
    for key in path:
        if not isinstance(data, Mapping) or key not in data:
            return False, None
        data = data[key]
    return data is not None, data


def _is_ours(data: Mapping[str, Any], fact: str, tag: str) -> bool:
    """Return whether a fact is what a machine said before, to who asked the same part of it."""
    ids = covering(data.get("facts") or {}, fact)
    sources = data.get("sources") or {}
    kinds = {str((sources.get(name) or {}).get("kind", SourceKind.DOCUMENT)) for name in ids}
    same = all(name.endswith(f"--{tag}") or "--" not in name for name in ids)
    return bool(ids) and SourceKind.DOCUMENT not in kinds and same


def _source(source: Source) -> dict[str, Any]:
    keys = ("title", "kind", "date", "host")
    values = {key: getattr(source, key) for key in keys}
    return {key: str(value) for key, value in values.items() if value is not None}


def unasked(site: Site, asking: Asking) -> tuple[str, ...]:
    """Return what nobody has been asked for: `login`, and names of partitions.

    Where there is no scheduler everything is asked at once.
    """
    if asking.part is Part.BOTH:
        return ()
    names = {name.rpartition("--")[2] for name in site.sources}
    nodes = tuple(site.partitions) or (PARTITION,)
    return tuple(name for name in (_LOGIN, *nodes) if name not in names)


def next_command(site: Site, file: str, partition: str) -> str:
    """Return the command that asks a node of a partition in a job of the site's scheduler."""
    scheduler = site.scheduler
    kind = scheduler.type if scheduler else "slurm"
    queues = scheduler.queues if scheduler else ()
    queue = queues[0] if len(queues) == 1 else "QUEUE"
    start = {
        "slurm": f"srun -N1 -n1 -p {queue}",
        "pbs": f"qsub -I -l select=1 -q {queue} --",
        "flux": f"flux run -N1 -n1 -q {queue}",
    }[kind]
    named = f" --partition {partition}" if len(site.partitions) > 1 else ""
    choice = f" (QUEUE is one of: {', '.join(queues[:12])})" if len(queues) > 1 else ""
    return f"{start} stackproof site probe --complete {file}{named}{choice}"


def not_found(site: Site, asking: Asking) -> tuple[str, ...]:
    """Return what recipes may ask for and the machine did not tell, with what to do."""
    found = []
    if asking.part is not Part.NODE and site.vendor_mpi is None:
        found.append(
            "a vendor's MPI: none in /opt/cray/pe/mpich; state `vendor-mpi` if there is one"
        )
    elif asking.part is not Part.NODE and not has_prefix(site, "cray-mpich"):
        found.append(
            "Cray MPICH for GNU compilers, /opt/cray/pe/mpich/VERSION/ofi/gnu; state `externals: "
            "cray-mpich`, its version and path, if it lies elsewhere"
        )
    if asking.part is not Part.NODE and not site.launchers:
        found.append(
            "a launcher: `srun --version` says nothing here; state `launchers: mpiexec` or "
            "another one, with its version, if jobs have it"
        )
    if asking.part is not Part.LOGIN:
        found += _not_found_of_nodes(site, asking.partition)
    return tuple(found)


def _not_found_of_nodes(site: Site, partition: str) -> Iterator[str]:
    node = site.partitions.get(partition)
    if node is None or not node.microarchitecture:
        yield (
            "the microarchitecture, which archspec tells: install stackproof with its extra "
            "`spack`, or state what `spack arch --target` says"
        )
    if node is None or (node.gpu is None and node.gpus is None):
        yield (
            f"GPUs: no driver shows one; state `partitions: {partition}: gpus: 0` if there is "
            "none, or `gpu`, its maker's name"
        )
    if site.fabric.limit_mb_s is None:
        yield (
            "what a network card carries: state `fabric: limit-mb-s`, and reports compare "
            "bandwidths with it"
        )


def has_prefix(site: Site, name: str) -> bool:
    """Return whether a site says which version of a software it has, and where."""
    external = site.externals.get(name)
    return external is not None and bool(external.version and external.path)


def command(file: str) -> str:
    """Return the command that asks a machine what its site file does not state."""
    return f"stackproof site probe --complete {file}"
