"""Ranks placed by the topology of their nodes: which core, and which NIC and GPU are nearest.

A layout is a name such as `4x8-by-gpu` or `2x16-by-l3-packed`: nodes by ranks on each, the kind of
parts that the ranks are dealt to, and whether they are dealt in turns or fill one after another;
`-membind` behind it binds the memory of each rank to its NUMA node.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum

from stackproof.core.errors import Reason, fail
from stackproof.core.value import Value, replace
from stackproof.results.case import Rank
from stackproof.site.topology import UNKNOWN, Core, Device, Topology


class By(StrEnum):
    """The parts of a node that ranks are dealt to."""

    L3 = "l3"
    NUMA = "numa"
    SOCKET = "socket"
    CORE = "core"
    NODE = "node"
    """Nodes themselves: one rank on each of them before the next one on the first."""
    NIC = "nic"
    GPU = "gpu"


PATTERN = (
    r"^[1-9][0-9]{0,3}x[1-9][0-9]{0,3}"
    r"(-by-(l3|numa|socket|core|node|nic|gpu)(-packed)?(-membind)?)?$"
)
"""What a placement by its shape is called; the schema has the same."""


class Layout(Value):
    """A name taken apart: so many nodes with `each` ranks; `by` None is in blocks, any cores.

    `membind` binds the memory of each rank to the NUMA node of its core.
    """

    nodes: int
    each: int
    by: By | None = None
    packed: bool = False
    membind: bool = False


def parse_layout(name: str) -> Layout:
    """Return the layout of a name that fits `PATTERN`; raises `ValueError` for any other."""
    if not is_layout(name):
        raise ValueError(f"not a layout: {name}")
    shape, _, rest = name.partition("-by-")
    nodes, _, each = shape.partition("x")
    by, *more = rest.split("-")
    return Layout(
        nodes=int(nodes),
        each=int(each),
        by=By(by) if by else None,
        packed="packed" in more,
        membind="membind" in more,
    )


def is_layout(name: str) -> bool:
    """Return True if a name is that of a layout."""
    return re.fullmatch(PATTERN, name) is not None


def names_of(shape: str) -> tuple[str, ...]:
    """Return the names of all layouts of a shape."""
    return (shape, *(layout_name(shape, by, packed=p) for by in By for p in (False, True)))


def layout_name(shape: str, by: str, *, packed: bool, membind: bool = False) -> str:
    """Return the name of a layout."""
    return f"{shape}-by-{by}{'-packed' if packed else ''}{'-membind' if membind else ''}"


def ranks_by(
    name: str,
    layout: Layout,
    nodes: Mapping[str, tuple[int, ...]],
    topologies: Mapping[str, Topology],
    *,
    one_machine: bool = False,
) -> tuple[Rank, ...]:
    """Return the ranks of a layout, each with a core of its own.

    `nodes` are as many as the layout has, with the CPUs that ranks may have. Where they are
    namespaces of one machine, a CPU that a rank of another node has is taken last. Raises
    `StackproofError` (UNSUPPORTED) where a node has not enough cores, or none of the parts.
    """
    by_node: list[list[Rank]] = []
    taken: set[int] = set()
    before: _Node | None = None
    for node, cpus in nodes.items():
        topology = topologies.get(node, Topology(cores=()))
        elsewhere = frozenset(taken) if one_machine else frozenset()
        here = _Node(name=name, node=node, topology=topology, cpus=cpus, elsewhere=elsewhere)
        if before is not None and here == replace(before, node=node):
            by_node.append([replace(rank, node=node) for rank in by_node[-1]])
        else:
            by_node.append(here.ranks(layout))
        before = here
        taken |= {rank.cpu for rank in by_node[-1] if rank.cpu is not None}
    if layout.by is By.NODE:
        return tuple(rank for turn in zip(*by_node, strict=True) for rank in turn)
    return tuple(rank for ranks in by_node for rank in ranks)


def share_cpus(
    name: str, layout: Layout, topology: Topology, cpus: tuple[int, ...]
) -> tuple[tuple[Rank, tuple[int, ...]], ...]:
    """Return the ranks of one node, each with all CPUs of its own, for programs with threads.

    A rank has the part that it was dealt to; those of one part divide its cores. No two ranks have
    the same core. Raises as `ranks_by`.
    """
    here = _Node(name=name, node="this node", topology=topology, cpus=cpus, elsewhere=frozenset())
    dealt = [(rank, here.core(rank), part.cores) for rank, part in here.dealt(layout)]
    outside = {core for _, core, cores in dealt if core not in cores}
    users = Counter(cores for _, core, cores in dealt if core in cores)
    turn: Counter[tuple[Core, ...]] = Counter()
    shares = []
    for rank, core, cores in dealt:
        own = [core]
        if core in cores:
            free = [spare for spare in cores if spare not in outside]
            first, last = (
                (turn[cores] + more) * len(free) // users[cores] for more in (False, True)
            )
            own = free[first:last]
            turn[cores] += 1
        threads = sorted(cpu for core in own for cpu in core.cpus if cpu in cpus)
        shares.append((rank, tuple(threads)))
    return tuple(shares)


class _Part(Value):
    """Cores that ranks are dealt to, and the device that they are near, if it is about devices."""

    cores: tuple[Core, ...]
    device: Device | None = None


class _Node(Value):
    """One node while its ranks are placed."""

    name: str
    node: str
    topology: Topology
    cpus: tuple[int, ...]
    elsewhere: frozenset[int]

    def ranks(self, layout: Layout) -> list[Rank]:
        """Return the ranks of this node in order."""
        return [rank for rank, _ in self.dealt(layout)]

    def dealt(self, layout: Layout) -> list[tuple[Rank, _Part]]:
        """Return the ranks of this node in order, each with the part that it was dealt to."""
        cores = self._cores()
        if len(cores) < layout.each:
            have = f"`{self.node}` has {len(cores)} for them"
            if not self.topology.cores:
                have = f"`{self.node}` does not tell its cores"
            raise fail(
                Reason.UNSUPPORTED,
                f"the placement `{self.name}` needs {layout.each} cores on each node; {have}",
                hint="take fewer ranks, or ask for more cores: ranks that share one cannot be "
                "timed",
            )
        parts = self._parts(layout.by or By.CORE, cores)
        free = list(cores)
        used: Counter[str] = Counter()
        ranks = []
        for number in range(layout.each):
            part = _dealt(parts, number, layout, free)
            core = next((core for core in part.cores if core in free), free[0])
            free.remove(core)
            ranks.append((self._rank(core, part.device, used), part))
        if layout.membind and (unknown := [rank for rank, _ in ranks if rank.numa is None]):
            raise fail(
                Reason.UNSUPPORTED,
                f"the placement `{self.name}`: `{self.node}` does not tell the NUMA node of CPU "
                f"{unknown[0].cpu}",
                hint="leave `-membind` out",
            )
        return ranks

    def core(self, rank: Rank) -> Core:
        """Return the core of a rank that was dealt here."""
        return next(core for core in self.topology.cores if rank.cpu in core.cpus)

    def _cores(self) -> list[Core]:
        """Return the cores that ranks may have, those last whose CPU is taken on another node."""
        allowed = {*self.cpus}
        cores = [core for core in self.topology.cores if allowed & {*core.cpus}]
        return sorted(cores, key=lambda core: self._cpu(core) in self.elsewhere)

    def _cpu(self, core: Core) -> int:
        return next(cpu for cpu in core.cpus if cpu in self.cpus)

    def _parts(self, by: By, cores: Sequence[Core]) -> list[_Part]:
        if by in {By.NIC, By.GPU}:
            devices = self.topology.nics if by is By.NIC else self.topology.gpus
            if not devices:
                raise _nothing(self.name, self.node, by)
            return [
                _Part(
                    cores=tuple(
                        core for core in self.topology.near(device, devices) if core in cores
                    ),
                    device=device,
                )
                for device in devices
            ]
        if any(_part_of(core, by) == UNKNOWN for core in cores):
            raise _nothing(self.name, self.node, by)
        groups: dict[int, list[Core]] = {}
        for core in cores:
            groups.setdefault(_part_of(core, by), []).append(core)
        return [_Part(cores=tuple(group)) for group in groups.values()]

    def _rank(self, core: Core, device: Device | None, used: Counter[str]) -> Rank:
        """Return a rank on a core, with the NIC and GPU that are nearest and least used."""
        gpus, nics = self.topology.gpus, self.topology.nics
        gpu = device if device in gpus else self._nearest(gpus, core, None, used)
        nic = device if device in nics else self._nearest(nics, core, gpu, used)
        used.update(near.name for near in (gpu, nic) if near is not None)
        return Rank(
            node=self.node,
            cpu=self._cpu(core),
            numa=None if core.numa == UNKNOWN else core.numa,
            nic=nic.name if nic else "",
            gpu=gpu.number if gpu else None,
        )

    def _nearest(
        self, devices: Sequence[Device], core: Core, beside: Device | None, used: Counter[str]
    ) -> Device | None:
        """Return the nearest of the devices to a core, or to the device that is used with it."""
        if not devices:
            return None
        sockets = {neighbour.numa: neighbour.socket for neighbour in self.topology.cores}
        near = {device.name: {*self.topology.near(device, devices)} for device in devices}

        def distance(device: Device) -> tuple[bool, bool, bool, bool, int]:
            numa = beside.numa if beside and beside.numa != UNKNOWN else core.numa
            return (
                device.numa != numa,
                core not in near[device.name],
                device.numa != core.numa,
                sockets.get(device.numa) != core.socket,
                used[device.name],
            )

        return min(devices, key=distance)


def _part_of(core: Core, by: By) -> int:
    """Return the number of the part that a core is in; a node is one part."""
    if by is By.NODE:
        return 0
    return {By.L3: core.l3, By.NUMA: core.numa, By.SOCKET: core.socket}.get(by, core.cpus[0])


def _dealt(parts: Sequence[_Part], number: int, layout: Layout, free: Sequence[Core]) -> _Part:
    """Return the part that gets the rank of this number on its node."""
    if parts[0].device is not None:
        place = number * len(parts) // layout.each if layout.packed else number % len(parts)
        return parts[place]
    if layout.packed:
        return next(part for part in parts if any(core in free for core in part.cores))
    turned = [parts[(number + turn) % len(parts)] for turn in range(len(parts))]
    return next(part for part in turned if any(core in free for core in part.cores))


def _nothing(name: str, node: str, by: By) -> Exception:
    what = {By.NIC: "NIC of a fabric", By.GPU: "GPU"}.get(by, f"{by}")
    shows = f"`{node}` shows no {what}"
    hint = "choose another `by`"
    if by is By.GPU:
        hint = "ask for GPUs, for example with the scheduler's option `gpus-per-node`, or choose "
        hint += "another `by`"
    elif by is not By.NIC:
        shows = f"`{node}` does not tell which {what} its cores have"
    return fail(Reason.UNSUPPORTED, f"the placement `{name}`: {shows}", hint=hint)
