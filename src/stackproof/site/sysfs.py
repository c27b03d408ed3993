"""What `/sys` and `/proc` say of a node's cores, NICs and GPUs, as data that lines can carry.

A task of every node gathers this before a launch, so this imports next to nothing; `site.topology`
makes a noun of it. Files: Documentation/ABI/stable/sysfs-devices-system-cpu, sysfs-devices-node and
testing/sysfs-bus-pci of Linux; those of AMD's GPUs are drivers/gpu/drm/amd/amdkfd/kfd_topology.c.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False  # `typing` takes longer to import than this to run
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Read = Callable[[str], str]
    Names = Callable[[str], Iterable[str]]

_CPU, _NODE = "/sys/devices/system/cpu", "/sys/devices/system/node"
_CXI, _IB = "/sys/class/cxi", "/sys/class/infiniband"
_PCI, _NVIDIA = "/sys/bus/pci/devices", "/proc/driver/nvidia/gpus"
_KFD = "/sys/class/kfd/kfd/topology/nodes"
MOST_CPUS = 1 << 13
"""As many as Linux can have (NR_CPUS of x86)."""
_MOST_DEVICES = 256


def cpu_list(text: str) -> tuple[int, ...]:
    """Return the numbers of a kernel CPU list, such as `0-3,8`; empty for what is none."""
    found: list[int] = []
    for part in text.strip().split(","):
        match = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", part)
        if match is None:
            return ()
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < MOST_CPUS or len(found) > MOST_CPUS:
            return ()
        found += range(first, last + 1)
    return tuple(found)


def cpu_text(cpus: Iterable[int]) -> str:
    """Return numbers of CPUs as the kernel writes them: `0-3,8`; empty for none."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and cpu == parts[-1][1] + 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def gather(read: Read, names: Names) -> dict[str, object]:
    """Return what a node says of itself.

    `read` returns the text of a file, empty where there is none, `names` the names in a folder.
    `threads` has the CPUs of each core, `l3` those that share a cache, `sockets` and `numa` those
    of each by its number; a device has a `name`, its `numa` node (-1 where the machine does not
    say) and its `cpus`. GPUs are in the order of their driver's numbers.
    """
    threads: dict[str, None] = {}
    shared: dict[str, None] = {}
    sockets: dict[str, list[int]] = {}
    inside: set[int] = set()
    for cpu in cpu_list(read(f"{_CPU}/online")):
        place = f"{_CPU}/cpu{cpu}"
        threads.setdefault(read(f"{place}/topology/thread_siblings_list").strip() or str(cpu))
        sockets.setdefault(read(f"{place}/topology/physical_package_id").strip(), []).append(cpu)
        if cpu not in inside:
            cache = _third_level(read, names, place)
            shared.setdefault(cache)
            inside.update(cpu_list(cache))
    nodes = [name for name in names(_NODE) if re.fullmatch(r"node[0-9]{1,5}", name)]
    return {
        "threads": [*threads],
        "l3": [cache for cache in shared if cache],
        "sockets": {name: ",".join(map(str, cpus)) for name, cpus in sockets.items()},
        "numa": {name[4:]: read(f"{_NODE}/{name}/cpulist").strip() for name in nodes},
        "nics": _nics(read, names),
        "gpus": _gpus(read, names),
    }


def _third_level(read: Read, names: Names, place: str) -> str:
    for name in ["index3", *names(f"{place}/cache")]:
        if read(f"{place}/cache/{name}/level").strip() == "3":
            return read(f"{place}/cache/{name}/shared_cpu_list").strip()
    return ""


def _nics(read: Read, names: Names) -> list[dict[str, object]]:
    """Return the NICs that MPIs choose among: Slingshot's, else InfiniBand's."""
    for kind in (_CXI, _IB):
        found = sorted(names(kind), key=_numbered)[:_MOST_DEVICES]
        if found:
            return [_device(read, name, f"{kind}/{name}/device") for name in found]
    return []


def _gpus(read: Read, names: Names) -> list[dict[str, object]]:
    found = [("cuda", name.lower()) for name in sorted(names(_NVIDIA))]
    for node in sorted(names(_KFD), key=_numbered):
        if read(f"{_KFD}/{node}/gpu_id").strip() in {"", "0"}:
            continue  # a processor
        words = dict(
            line.split()[:2]
            for line in read(f"{_KFD}/{node}/properties").splitlines()
            if len(line.split()) > 1
        )
        found.append(("rocm", _address(words.get("domain", "0"), words.get("location_id", ""))))
    return [
        {"kind": kind, **_device(read, name, f"{_PCI}/{name}")}
        for kind, name in found[:_MOST_DEVICES]
    ]


def _address(domain: str, location: str) -> str:
    """Return a PCI address from what amdkfd says: bus, device and function in one number."""
    if not re.fullmatch(r"[0-9]{1,10}", domain) or not re.fullmatch(r"[0-9]{1,10}", location):
        return ""
    place = int(location)
    return f"{int(domain):04x}:{place >> 8 & 255:02x}:{place >> 3 & 31:02x}.{place & 7}"


def _device(read: Read, name: str, place: str) -> dict[str, object]:
    number = read(f"{place}/numa_node").strip()
    return {
        "name": name,
        "numa": int(number) if re.fullmatch(r"[0-9]{1,5}", number) else -1,
        "cpus": read(f"{place}/local_cpulist").strip(),
    }


def _numbered(name: str) -> tuple[str, int]:
    found = re.fullmatch(r"(.*?)([0-9]{0,9})", name)
    return (found[1], int(found[2] or 0)) if found else (name, 0)
