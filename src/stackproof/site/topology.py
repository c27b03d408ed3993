"""The topology noun: cores of a node, what they share, and the NICs and GPUs near them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stackproof.core.value import Value, replace
from stackproof.site.sysfs import MOST_CPUS, cpu_list

UNKNOWN = -1
"""A NUMA node, a socket or a cache that the machine does not tell."""

MOST_PARTS = 1 << 12
"""How many caches, NUMA nodes and cores of a node are looked at."""


class Core(Value):
    """A core: its `cpus` (hardware threads, by number), and which NUMA node, socket and L3 it has.

    `l3` counts the node's caches of the third level from 0; the others are the system's numbers.
    """

    cpus: tuple[int, ...]
    numa: int = UNKNOWN
    socket: int = UNKNOWN
    l3: int = UNKNOWN


class Device(Value):
    """A NIC or GPU: its name, its NUMA node, and the CPUs that the system calls local to it.

    `number` counts those of its kind from 0; `kind` says by which runtime a GPU is numbered, `cuda`
    or `rocm`, and is empty for a NIC.
    """

    name: str
    number: int = 0
    numa: int = UNKNOWN
    cpus: tuple[int, ...] = ()
    kind: str = ""


class Topology(Value):
    """The inside of a node; NICs and GPUs in the order of their numbers."""

    cores: tuple[Core, ...]
    nics: tuple[Device, ...] = ()
    gpus: tuple[Device, ...] = ()

    def core_of(self, cpu: int) -> Core | None:
        """Return the core that a CPU is of, None where it is not known."""
        return next((core for core in self.cores if cpu in core.cpus), None)

    def near(self, device: Device, among: Sequence[Device]) -> tuple[Core, ...]:
        """Return the cores that a device is for, the others of its kind being `among`.

        These are the cores of its NUMA node, else those that the system calls local. Where several
        devices have the same cores, their L3 caches are divided in the order of both: so an MI250X
        lies, which has a link from each of its two dies to one of the two L3 regions of its NUMA
        node (Frontier User Guide, "Frontier Compute Nodes").
        """
        own = self._around(device)
        peers = [one for one in among if self._around(one) == own]
        caches = list(dict.fromkeys(core.l3 for core in own))
        if len(peers) < 2 or len(caches) % len(peers) or UNKNOWN in caches:
            return own
        share = len(caches) // len(peers)
        first = peers.index(device) * share
        return tuple(core for core in own if core.l3 in caches[first : first + share])

    def _around(self, device: Device) -> tuple[Core, ...]:
        if device.numa != UNKNOWN:
            found = tuple(core for core in self.cores if core.numa == device.numa)
            if found:
                return found
        local = {*device.cpus}
        return tuple(core for core in self.cores if local & {*core.cpus}) or self.cores


def parse_topology(data: Any) -> Topology:
    """Return the topology in what `site.sysfs.gather` made; what makes no sense is left out.

    Without a word on its cores the topology has none.
    """
    if not isinstance(data, Mapping):
        return Topology(cores=())
    numa, sockets = _owners(_numbered(data.get("numa"))), _owners(_numbered(data.get("sockets")))
    caches = _owners(dict(enumerate(_texts(data.get("l3")))))
    cores: dict[int, Core] = {}
    for text in _texts(data.get("threads")):
        cpus = cpu_list(text)
        if cpus and cpus[0] not in cores:
            cores[cpus[0]] = Core(
                cpus=cpus,
                numa=numa.get(cpus[0], UNKNOWN),
                socket=sockets.get(cpus[0], UNKNOWN),
                l3=caches.get(cpus[0], UNKNOWN),
            )
    return Topology(
        cores=tuple(core for _, core in sorted(cores.items())),
        nics=tuple(_device(*one) for one in enumerate(_records(data.get("nics")))),
        gpus=tuple(_device(*one) for one in enumerate(_records(data.get("gpus")))),
    )


def seen(topology: Topology, variables: Mapping[str, str]) -> Topology:
    """Return a topology with the GPUs that a task may use, by the variables that say so.

    Names in the place of numbers (`GPU-4f3e…`) only say how many there are. HIP counts what ROCr
    shows it, so that behind ROCR_VISIBLE_DEVICES the numbers begin again. Sources: CUDA C++
    Programming Guide, "CUDA Environment Variables"; ROCm documentation, "GPU isolation techniques".
    """
    gpus = topology.gpus
    kinds = {gpu.kind for gpu in gpus}
    for name, kind in (("CUDA", "cuda"), ("ROCR", "rocm"), ("HIP", "rocm")):
        text = variables.get(f"{name}_VISIBLE_DEVICES")
        if text is None or kind not in kinds:
            continue
        words = [word.strip() for word in text.split(",") if word.strip()]
        numbers = [int(word) for word in words if word.isascii() and word.isdigit()]
        if len(numbers) == len(words):
            gpus = tuple(gpu for number in numbers for gpu in gpus if gpu.number == number)
        elif len(words) != len(gpus):
            gpus = ()
        if name == "ROCR":
            gpus = tuple(replace(gpu, number=place) for place, gpu in enumerate(gpus))
    return replace(topology, gpus=gpus)


def _owners(lists: Mapping[int, str]) -> dict[int, int]:
    """Return which number each CPU belongs to."""
    return {cpu: number for number, text in lists.items() for cpu in cpu_list(text)}


def _numbered(value: Any) -> dict[int, str]:
    found = value if isinstance(value, Mapping) else {}
    return {
        int(key): text
        for key, text in list(found.items())[:MOST_PARTS]
        if isinstance(key, str) and key.isascii() and key.isdigit() and len(key) < 7
        and isinstance(text, str)
    }  # fmt: skip


def _texts(value: Any) -> list[str]:
    found = value if isinstance(value, list) else []
    return [text for text in found[:MOST_PARTS] if isinstance(text, str)]


def _records(value: Any) -> list[Mapping[str, Any]]:
    found = value if isinstance(value, list) else []
    return [one for one in found[:256] if isinstance(one, Mapping)]


def _device(number: int, data: Mapping[str, Any]) -> Device:
    numa = data.get("numa")
    return Device(
        number=number,
        name=str(data.get("name", ""))[:64],
        numa=numa if isinstance(numa, int) and 0 <= numa < MOST_CPUS else UNKNOWN,
        cpus=cpu_list(str(data.get("cpus", ""))),
        kind=str(data.get("kind", ""))[:8],
    )
