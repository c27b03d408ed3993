"""Nodes as `tests/captures/topology` describes them, as files of `/sys` and as hwloc's XML."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import yaml

from stackproof.core.value import Value
from stackproof.site import sysfs, topology
from stackproof.site.topology import Topology

FOLDER = Path(__file__).parent / "captures" / "topology"
NAMES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
_PCI = {"cuda": "0302 [10de:2342] [10de:16eb] a1", "rocm": "0380 [1002:7408] [1002:0b0c] 01"}


def described(name: str) -> dict[str, Any]:
    """Return what is written of a machine."""
    return yaml.safe_load((FOLDER / f"{name}.yaml").read_text())


def ranges(cpus: Iterable[int]) -> str:
    """Return a list of CPUs as the kernel writes it."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and parts[-1][1] == cpu - 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


class Node(Value, kw_only=False):
    """A node that a description means."""

    data: Mapping[str, Any]

    @property
    def cores(self) -> int:
        """Return how many cores it has."""
        return self.data["sockets"] * self.per_socket

    @property
    def per_numa(self) -> int:
        return self.data["l3"] * self.data["cores"]

    @property
    def per_socket(self) -> int:
        return self.data["numa"] * self.per_numa

    @property
    def allowed(self) -> tuple[int, ...]:
        """Return the CPUs that a job may have, one of each core."""
        return tuple(c for c in range(self.cores) if c not in self.data.get("reserved", ()))

    def threads(self, first: int, count: int) -> list[int]:
        """Return the CPUs of so many cores."""
        turns = range(self.data["threads"])
        return [c + t * self.cores for t in turns for c in range(first, first + count)]

    def device(self, numa: int) -> dict[str, str]:
        near = ranges(self.threads(numa * self.per_numa, self.per_numa))
        return {"numa_node": f"{numa}\n", "local_cpulist": f"{near}\n"}

    def files(self) -> dict[str, str]:
        """Return the files of `/sys` and `/proc`."""
        data = self.data
        found = {"/sys/devices/system/cpu/online": ranges(self.threads(0, self.cores)) + "\n"}
        for cpu in self.threads(0, self.cores):
            core = cpu % self.cores
            place, l3 = f"/sys/devices/system/cpu/cpu{cpu}", core // data["cores"]
            shared = ranges(self.threads(l3 * data["cores"], data["cores"]))
            found |= {
                f"{place}/topology/physical_package_id": f"{core // self.per_socket}\n",
                f"{place}/topology/thread_siblings_list": f"{ranges(self.threads(core, 1))}\n",
                f"{place}/cache/index0/level": "1\n",
                f"{place}/cache/index3/level": "3\n",
                f"{place}/cache/index3/shared_cpu_list": f"{shared}\n",
            }
        for numa in range(self.cores // self.per_numa):
            text = ranges(self.threads(numa * self.per_numa, self.per_numa))
            found[f"/sys/devices/system/node/node{numa}/cpulist"] = f"{text}\n"
        for numa in data.get("gpu-memory", ()):
            found[f"/sys/devices/system/node/node{numa}/cpulist"] = "\n"
        for number, numa in enumerate(data.get("nics", ())):
            for name, text in self.device(numa).items():
                found[f"/sys/class/cxi/cxi{number}/device/{name}"] = text
        for number, numa in enumerate(data.get("gpus", ())):
            address = self.address(number)
            for name, text in self.device(numa).items():
                found[f"/sys/bus/pci/devices/{address}/{name}"] = text
            if data["gpu"] == "cuda":
                found[f"/proc/driver/nvidia/gpus/{address}/information"] = "Model: NVIDIA\n"
            else:
                place = f"/sys/class/kfd/kfd/topology/nodes/{number + 4}"
                where = int(address[5:7], 16) << 8
                found[f"{place}/gpu_id"] = f"{4711 + number}\n"
                found[f"{place}/properties"] = f"simd_count 440\nlocation_id {where}\ndomain 0\n"
        if data.get("gpu") == "rocm":
            for number in range(4):  # processors are nodes of amdkfd, too
                found[f"/sys/class/kfd/kfd/topology/nodes/{number}/gpu_id"] = "0\n"
        return found

    def address(self, gpu: int) -> str:
        """Return the PCI address of a GPU."""
        if self.data["gpu"] == "cuda":
            return f"00{gpu}9:01:00.0" if gpu else "0009:01:00.0"
        return f"0000:{0xC1 + 5 * gpu:02x}:00.0"

    def topology(self) -> Topology:
        """Return what is read from the files."""
        return topology.parse_topology(self.gathered())

    def gathered(self) -> dict[str, object]:
        """Return what a node would say of itself."""
        files = self.files()
        folders: dict[str, set[str]] = {}
        for path in files:
            parts = path.split("/")
            for depth in range(2, len(parts)):
                folders.setdefault("/".join(parts[:depth]), set()).add(parts[depth])
        return sysfs.gather(lambda path: files.get(path, ""), lambda path: folders.get(path, ()))

    def xml(self) -> str:
        """Return the XML that hwloc 2 would write."""
        data = self.data
        lines = ['<?xml version="1.0" encoding="UTF-8"?>',
                 '<!DOCTYPE topology SYSTEM "hwloc2.dtd">', '<topology version="2.0">']  # fmt: skip

        def open_(kind: str, cpus: Iterable[int] | None = None, **more: object) -> None:
            extra = {"cpuset": bitmap(cpus)} if cpus is not None else {}
            words = {"type": kind, **extra, **more}
            lines.append(
                "<object " + " ".join(f"{k}={quoteattr(str(v))}" for k, v in words.items()) + ">"
            )

        def close(count: int = 1) -> None:
            lines.extend(["</object>"] * count)

        open_("Machine", self.threads(0, self.cores), os_index=0)
        lines.append('<info name="Architecture" value="any"/>')
        for socket in range(data["sockets"]):
            base = socket * self.per_socket
            open_("Package", self.threads(base, self.per_socket), os_index=socket)
            for part in range(data["numa"]):
                numa = socket * data["numa"] + part
                first = numa * self.per_numa
                open_("Group", self.threads(first, self.per_numa))
                open_("NUMANode", self.threads(first, self.per_numa), os_index=numa)
                close()
                for extra in data.get("gpu-memory", ())[numa : numa + 1]:
                    open_("NUMANode", self.threads(first, self.per_numa), os_index=extra,
                          subtype="GPUMemory")  # fmt: skip
                    close()
                for l3 in range(data["l3"]):
                    start = first + l3 * data["cores"]
                    open_("L3Cache", self.threads(start, data["cores"]))
                    for core in range(start, start + data["cores"]):
                        open_("Core", self.threads(core, 1), os_index=core)
                        for cpu in self.threads(core, 1):
                            open_("PU", [cpu], os_index=cpu)
                            close()
                        close()
                    close()
                for number, where in enumerate(data.get("nics", ())):
                    if where == numa:
                        open_("Bridge", bridge_type="0-1", depth=0)
                        open_("PCIDev", pci_busid=f"0000:{0x10 + number:02x}:00.0",
                              pci_type="0200 [17db:0501] [17db:0501] 00")  # fmt: skip
                        open_("OSDev", name=f"hsn{number}", osdev_type=2)
                        close()
                        open_("OSDev", name=f"cxi{number}", osdev_type=3)
                        close(3)
                for number, where in enumerate(data.get("gpus", ())):
                    if where == numa:
                        open_("PCIDev", pci_busid=self.address(number), pci_type=_PCI[data["gpu"]])
                        close()
                close()
            close()
        close()
        return "\n".join([*lines, "</topology>", ""])


def bitmap(cpus: Iterable[int]) -> str:
    """Return CPUs as hwloc writes them."""
    whole = sum(1 << cpu for cpu in cpus)
    words = []
    while whole:
        words.append(f"0x{whole & 0xFFFFFFFF:08x}" if whole & 0xFFFFFFFF else "")
        whole >>= 32
    return ",".join(reversed(words)) or "0x0"


def node(name: str) -> Node:
    """Return the node of a machine."""
    return Node(described(name))
