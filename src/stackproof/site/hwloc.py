"""hwloc's XML, as `lstopo --of xml` writes it (versions 1 and 2), to a topology.

Elements and attributes: hwloc.dtd and hwloc2.dtd of hwloc. An XML that declares entities is
refused: hwloc writes none, and they are how a small file becomes a large one.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from xml.parsers import expat

from msgspec import Struct, field

from stackproof.core import limits
from stackproof.core.errors import Location, Reason, StackproofError, fail
from stackproof.site.sysfs import MOST_CPUS
from stackproof.site.topology import MOST_PARTS, UNKNOWN, Core, Device, Topology

# PCI classes of GPUs (VGA, 3D, display controller, processing accelerator), and who makes them.
_GPU = re.compile(r"(0300|0302|0380|1200) \[(10de|1002):([0-9a-f]{4})\]")
# Management boards of servers carry a graphics chip of ATI's (ES1000, RN50, Rage, Radeon 7000) with
# the class VGA. AMD's chips that compute have these device ids; source: the table `pciidlist` of
# amdgpu_drv.c in Linux, which begins with Southern Islands.
_AMD_COMPUTES = re.compile(r"6[6-9a-f]..|7[3-9a-f]..|1[356]..")
_KINDS = {"10de": "cuda", "1002": "rocm"}
_NIC = re.compile(r"(?:cxi|mlx[0-9]+_|hfi1_)[0-9]+")
_WORD = re.compile(r"0x[0-9a-fA-F]{1,8}")
_MOST_WORDS = MOST_CPUS // 32
_MOST_THREADS = 8
"""Hardware threads of a core, POWER's."""
_MOST_DEVICES = 256


class _Object(Struct):
    """An `object` element: its attributes, what is in it, and what it is in."""

    attributes: dict[str, str]
    parent: _Object | None = None
    inner: list[_Object] = field(default_factory=list)

    def all(self) -> Iterator[_Object]:
        """Yield this and everything in it, in order."""
        todo = [self]
        while todo:
            one = todo.pop()
            yield one
            todo += reversed(one.inner)

    @property
    def kind(self) -> str:
        """Return the type by its name in version 2."""
        name = self.attributes.get("type", "")
        level = self.attributes.get("depth", "")
        renamed = {"Socket": "Package", "Cache": f"L{level}Cache"}
        return renamed.get(name, name)

    @property
    def cpus(self) -> tuple[int, ...]:
        """Return its CPUs, else those of what it is in."""
        one: _Object | None = self
        while one is not None:
            if "cpuset" in one.attributes:
                return bitmap(one.attributes["cpuset"])
            one = one.parent
        return ()

    @property
    def number(self) -> int:
        """Return the system's number, `UNKNOWN` where there is none."""
        text = self.attributes.get("os_index", "")
        return int(text) if re.fullmatch(r"[0-9]{1,5}", text) else UNKNOWN


@functools.lru_cache(maxsize=1024)
def bitmap(text: str) -> tuple[int, ...]:
    """Return the numbers in a bitmap such as `0x0000ffff,,0x1`; empty for what is none."""
    words = text.strip().split(",")
    if len(words) > _MOST_WORDS:
        return ()
    found: list[int] = []
    for place, word in enumerate(reversed(words)):
        if word and not _WORD.fullmatch(word):
            return ()
        bits = int(word, 16) if word else 0
        found += [32 * place + bit for bit in range(32) if bits >> bit & 1]
    return tuple(found)


def parse_hwloc(text: bytes, *, file: str = "<xml>") -> Topology:
    """Return the topology in an XML; raises `StackproofError` (YAML_SYNTAX, UNSUPPORTED)."""
    machine = _read(text, file)
    objects = list(machine.all())
    caches = _owners([one for one in objects if one.kind == "L3Cache"], by_order=True)
    sockets = _owners([one for one in objects if one.kind == "Package"])
    # A GPU's memory is a NUMA node, too, with the CPUs of the socket that it is on.
    nodes = [
        one
        for one in objects
        if one.kind == "NUMANode" and one.attributes.get("subtype") != "GPUMemory"
    ]
    numa = _owners(sorted(nodes, key=lambda one: -one.number))
    cores = [
        Core(
            cpus=cpus,
            numa=numa.get(cpus[0], UNKNOWN),
            socket=sockets.get(cpus[0], UNKNOWN),
            l3=caches.get(cpus[0], UNKNOWN),
        )
        for one in [one for one in objects if one.kind == "Core"][:MOST_PARTS]
        if 0 < len(cpus := one.cpus) <= _MOST_THREADS
    ]
    if not cores:
        raise fail(
            Reason.UNSUPPORTED,
            f"`{file}` tells of no core",
            where=Location(file=file),
            hint="write it with `lstopo --of xml FILE` on a compute node, in a job",
        )
    return Topology(
        cores=tuple(sorted(cores, key=lambda core: core.cpus)),
        nics=_nics(objects, numa),
        gpus=_gpus(objects, numa),
    )


def _owners(objects: list[_Object], *, by_order: bool = False) -> dict[int, int]:
    return {
        cpu: place if by_order else one.number
        for place, one in enumerate(objects[:MOST_PARTS])
        for cpu in one.cpus
    }


def _nics(objects: list[_Object], numa: dict[int, int]) -> tuple[Device, ...]:
    found = {
        one.attributes["name"]: one
        for one in objects
        if one.kind == "OSDev" and _NIC.fullmatch(one.attributes.get("name", ""))
    }
    slingshot = [name for name in found if name.startswith("cxi")]
    names = sorted(slingshot or found, key=lambda name: (len(name), name))
    return tuple(
        _device(name, found[name], numa, number=number)
        for number, name in enumerate(names[:_MOST_DEVICES])
    )


def _gpus(objects: list[_Object], numa: dict[int, int]) -> tuple[Device, ...]:
    found = []
    for one in objects:
        kind = _gpu_kind(one.attributes.get("pci_type", "")) if one.kind == "PCIDev" else ""
        if kind:
            found.append((kind, one.attributes.get("pci_busid", ""), one))
    return tuple(
        _device(name, one, numa, number=number, kind=kind)
        for number, (kind, name, one) in enumerate(sorted(found, key=lambda entry: entry[:2]))
        if number < _MOST_DEVICES
    )


def _gpu_kind(pci_type: str) -> str:
    """Return the kind of a GPU that ranks can compute on, empty for another PCI device."""
    match = _GPU.match(pci_type.lower())
    if match is None:
        return ""
    pci_class, vendor, device = match.groups()
    if pci_class == "0300" and vendor == "1002" and not _AMD_COMPUTES.fullmatch(device):
        return ""
    return _KINDS[vendor]


def _device(
    name: str, one: _Object, numa: dict[int, int], *, number: int, kind: str = ""
) -> Device:
    cpus = one.cpus
    nodes = {numa.get(cpu, UNKNOWN) for cpu in cpus}
    return Device(
        name=name[:64],
        number=number,
        numa=nodes.pop() if len(nodes) == 1 else UNKNOWN,
        cpus=cpus,
        kind=kind,
    )


def _read(text: bytes, file: str) -> _Object:
    """Return the outermost object, bounded in depth and number."""
    where = Location(file=file)
    top = _Object({})
    here, depth, count = top, 0, 0
    parser = expat.ParserCreate()

    def begin(name: str, attributes: dict[str, str]) -> None:
        nonlocal here, depth, count
        depth, count = depth + 1, count + 1
        if depth > limits.HWLOC.depth or count > limits.HWLOC.count:
            raise fail(Reason.UNSUPPORTED, f"`{file}` is larger than any machine", where=where)
        if name == "object":
            one = _Object(attributes, parent=here)
            here.inner.append(one)
            here = one

    def end(name: str) -> None:
        nonlocal here, depth
        depth -= 1
        if name == "object" and here.parent is not None:
            here = here.parent

    def refuse(*_: object) -> None:
        raise fail(
            Reason.UNSUPPORTED, f"`{file}` declares entities, which hwloc never does", where=where
        )

    parser.StartElementHandler, parser.EndElementHandler = begin, end
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(text, True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise _broken(file, error) from None
    return top


def _broken(file: str, error: Exception) -> StackproofError:
    line = getattr(error, "lineno", 1)
    return fail(
        Reason.YAML_SYNTAX,
        f"not XML of hwloc: {error}",
        where=Location(file=file, line=line),
        hint="write it with `lstopo --of xml FILE`",
    )
