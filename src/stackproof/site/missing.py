"""A site file and what its machine says, to what the file does not state: `site probe --missing`.

A login node is asked what holds for the machine: what starts jobs and ranks, the vendor's software,
compilers. A node in a job is asked what it is: its processor, GPUs, network cards, limits.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from stackproof.core.value import Value, replace
from stackproof.site.capture import PARTITION
from stackproof.site.model import (
    DECIDES,
    Site,
    Source,
    to_document,
)

Keys = tuple[str, ...]

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
    """A fact of a file that the machine says otherwise."""

    fact: str
    stated: Any
    asked: Any


class Unstated(Value):
    """What a site file does not state, as a document, by name, and what it states otherwise."""

    document: Mapping[str, Any]
    facts: tuple[str, ...] = ()
    differs: tuple[OtherFact, ...] = ()


class Asking(Value):
    """Which part of a machine was asked, on which host, and what partition its node is of."""

    part: Part
    partition: str
    host: str | None = None


def find_unstated(data: Mapping[str, Any], site: Site, asking: Asking) -> Unstated:
    """Return what a site's document does not state of what was found on its machine."""
    unstated: dict[str, Any] = {}
    facts: dict[str, str] = {}
    sources: dict[str, Any] = {}
    differs: list[OtherFact] = []
    document = to_document(site)
    refused = _other_kinds(data, document)
    for path, value in _asked(document, asking):
        stated, old = _at(data, path)
        fact = ".".join(path)
        decides = path[0] in refused and path[1] == DECIDES[path[0]]
        if decides or (stated and path[0] not in refused):
            if old != value and not _alike(old, value):
                differs.append(OtherFact(fact=fact, stated=old, asked=value))
            continue
        if path[0] in refused:
            continue
        own = ".".join((path[0], PARTITION, *path[2:]) if path[0] == "partitions" else path)
        (name,) = site.facts[own]
        facts[fact] = f"{name}--{asking.partition if _is_of_nodes(path) else _LOGIN}"
        sources[facts[fact]] = _source(replace(site.sources[name], host=asking.host))
        _put(unstated, path, value)
    if facts:
        known = data.get("sources") or {}
        new = {name: source for name, source in sources.items() if name not in known}
        unstated |= {**({"sources": new} if new else {}), "facts": facts}
    return Unstated(document=unstated, facts=tuple(facts), differs=tuple(differs))


def _put(document: dict[str, Any], path: Keys, value: Any) -> None:
    for key in path[:-1]:
        document = document.setdefault(key, {})
    document[path[-1]] = value


def render_lines(unstated: Mapping[str, Any], data: Any) -> str:
    """Return a document as text to be pasted into a file, with a mark at keys that it has."""
    import yaml  # noqa: PLC0415 - only for this form

    lines = ""
    for key, value in unstated.items():
        below = data.get(key) if isinstance(data, Mapping) else None
        if isinstance(value, Mapping) and below is not None:
            lines += f"{key}:  # is there\n" + textwrap.indent(render_lines(value, below), "  ")
        else:
            flow = False if not isinstance(value, (Mapping, list)) else None  # innermost ones
            lines += yaml.safe_dump(
                {key: value},
                default_flow_style=flow,
                sort_keys=False,
                allow_unicode=True,
                width=1000,
            )
    return lines


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


def _other_kinds(data: Mapping[str, Any], document: Mapping[str, Any]) -> frozenset[str]:
    """Return the sections of which the file and the machine do not mean the same thing."""
    kinds = {section: _at(data, (section, key)) for section, key in DECIDES.items()}
    return frozenset(
        section
        for section, (stated, value) in kinds.items()
        if stated
        and _at(document, (section, DECIDES[section])) not in {(True, value), (False, None)}
    )


def _at(data: Any, path: Keys) -> tuple[bool, Any]:
    for key in path:
        if not isinstance(data, Mapping) or key not in data:
            return False, None
        data = data[key]
    return data is not None, data


def _source(source: Source) -> dict[str, Any]:
    keys = ("title", "kind", "date", "host")
    values = {key: getattr(source, key) for key in keys}
    return {key: str(value) for key, value in values.items() if value is not None}


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
    return f"{start} stackproof site probe --missing {file}{named}{choice}"


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
            "a launcher: `srun --version` says nothing here; if jobs have one, state "
            "`launchers: {mpiexec: {version: VERSION}}`, or another name"
        )
    if asking.part is not Part.LOGIN:
        found += _not_found_of_nodes(site, asking.partition)
    return tuple(found)


def _not_found_of_nodes(site: Site, partition: str) -> Iterator[str]:
    node = site.partitions.get(partition)
    if node is None or not node.microarchitecture:
        yield (
            "the microarchitecture: `pip install archspec` where stackproof is, and ask again; or "
            f"state `microarchitecture` below `partitions: {partition}:`, as `spack arch` says it"
        )
    if node is None or (node.gpu is None and node.gpus is None):
        yield (
            f"GPUs: no driver shows one; state `gpus: 0` below `partitions: {partition}:` if there "
            "is none, or `gpu`, its maker's name"
        )
    if site.fabric.limit_mb_s is None:
        yield (
            "what a network card carries: state `limit-mb-s` below `fabric:`, and reports compare "
            "bandwidths with it"
        )


def has_prefix(site: Site, name: str) -> bool:
    """Return whether a site says which version of a software it has, and where."""
    external = site.externals.get(name)
    return external is not None and bool(external.version and external.path)


def command(file: str) -> str:
    """Return the command that asks a machine what its site file does not state."""
    return f"stackproof site probe --missing {file}"
