"""Nouns and arrows of a cluster on one machine: what it should be, what it is, how to enter it.

A cluster is a *head* (where launchers run) and 1 to 32 *nodes*, each with namespaces of its own,
joined by a bridge. Links have a rate (a token bucket on both ends of each node's link) and a
delay (added once to every packet that a node sends). Nothing here touches the machine;
`stackproof.cluster.effects.up` does.

    rate  = number ( "kbit" | "mbit" | "gbit" | "kB/s" | "MB/s" | "GB/s" )
    delay = number ( "us" | "ms" | "s" )
    number = digits [ "." digits ]

Units are decimal: `1gbit` is 10^9 bits in a second, `100MB/s` is 10^8 bytes in a second.
"""

from __future__ import annotations

import re
from typing import ClassVar

from stackproof.cluster import slurm as cluster_slurm
from stackproof.cluster.slurm import NODE_SPOOL, SLURM_CONF, SlurmFacts, SlurmSpec
from stackproof.core.errors import Problem, Reason, StackproofError, fail
from stackproof.core.value import Value

MAX_NODES = 32
INTERFACE = "eth0"
BRIDGE = "br0"
HEAD = "head"
SWITCH_PORT = "head1"
"""The head's port of the delay switch; its peer `head0` is a port of the bridge."""

_PREFIX = "10.77.0"
_HEAD_HOST = 254
# Bits may be written in any case, and with a `/s` behind them.
_RATE_UNITS = {"kbit": 125, "mbit": 125_000, "gbit": 125_000_000}
_RATE_UNITS_BYTES = {"kb/s": 1_000, "mb/s": 1_000_000, "gb/s": 1_000_000_000}
_RATES = (125_000, 50_000_000_000)
_DELAY_UNITS = {"us": 1.0, "ms": 1_000.0, "s": 1_000_000.0}
_DELAYS_US = (1.0, 1_000_000.0)
_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]+(?:/s)?)")
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,30}[a-z0-9])?")

# A bucket that holds 128 us of the rate: 16 kB at 1 Gbit/s. Larger ones let messages below the
# bucket's size through at several times the rate, since it refills while the peer answers.
_BURST_SECONDS = 128e-6
_MIN_BURST = 4_096
# What comes from one node has its rate already. The head's end of a link limits only what several
# nodes send to one, and a bucket as tight as the first would lose rate a second time whenever the
# machine is late.
PORT_BUCKETS = 4
_QUEUE_SECONDS = 0.01
_MIN_QUEUE = 131_072
_NETEM_PACKETS = 100_000


class ClusterSpec(Value):
    """What a user asks for.

    `rate` and `delay` are text in the grammar of this module, None for an unlimited rate and no
    added delay. `shared` are absolute paths below `/tmp` that the head and the nodes see (each
    has a `/tmp` of its own otherwise). `slurm` is None for a cluster without Slurm.
    """

    name: str = "default"
    nodes: int = 2
    rate: str | None = None
    delay: str | None = None
    shared: tuple[str, ...] = ()
    slurm: SlurmSpec | None = None


class ClusterNode(Value):
    """The head or a node of a running cluster.

    `pid` is its first process as this machine sees it, `head_pid` as the head sees it, `started`
    that process's start time in clock ticks since boot (field 22 of /proc/PID/stat), by which a
    pid that was given to another process is told apart. `alive` is what the last look found.
    `core` is the one core that it runs on, kept there by the control group in the folder `group`,
    by affinity alone where there is none.
    """

    name: str
    address: str
    interface: str
    pid: int
    head_pid: int
    started: int
    alive: bool = True
    core: int | None = None
    group: str | None = None


class DelayFacts(Value):
    """How a delay is made and what was measured when it was set.

    `method` is `netem` (the kernel's) or `switch` (a user-space switch of this package), `pid`
    the switch's first process as this machine sees it (0 for netem) and `started` its start time.
    `seen_us` is half of what the round trip of a small UDP packet between the first two nodes
    grew by (median), `spread_us` half of the distance between its quartiles; both are None when
    there is only one node.
    """

    method: str
    asked_us: float
    seen_us: float | None = None
    spread_us: float | None = None
    pid: int = 0
    started: int = 0
    alive: bool = True


class ClusterState(Value):
    """A running cluster, as its state file describes it.

    `folder` holds the state file; `agent` is the program that starts a command on a node, to be
    given to MPI launchers in the place of ssh. `notes` are things this machine could not do.
    """

    SCHEMA: ClassVar[str] = "stackproof/cluster/1"

    spec: ClusterSpec
    folder: str
    agent: str
    rootless: bool
    head: ClusterNode
    nodes: tuple[ClusterNode, ...]
    delay: DelayFacts | None = None
    notes: tuple[str, ...] = ()
    slurm: SlurmFacts | None = None

    @property
    def name(self) -> str:
        """Return the cluster's name."""
        return self.spec.name

    @property
    def rate_mb_s(self) -> float | None:
        """Return the rate of each link in one direction, MB/s (10^6 bytes), None if unlimited.

        Ethernet, IP and TCP headers count: of 1514 bytes on the link 1448 are a user's.
        """
        return None if self.spec.rate is None else parse_rate(self.spec.rate) / 1e6

    @property
    def faults(self) -> tuple[str, ...]:
        """Return what has died since the cluster came up; a cluster with faults is of no use."""
        dead = [f"`{node.name}` has died" for node in self.nodes if not node.alive]
        if self.delay and not self.delay.alive:
            dead.append("the delay switch has died")
        if self.slurm:
            dead += [f"{daemon} has died" for daemon in self.slurm.dead]
        return tuple(dead)

    def node(self, name: str | None) -> ClusterNode:
        """Return a node by its name, the head for None or `head`.

        Raises `StackproofError` (NODE_UNREACHABLE) when the cluster has no such node.
        """
        for node in (self.head, *self.nodes):
            if node.name == (name or HEAD):
                return node
        raise fail(
            Reason.NODE_UNREACHABLE,
            f"cluster `{self.name}` has no node `{name}`",
            hint=f"its nodes are: {', '.join(node.name for node in self.nodes)}",
        )


def parse_rate(text: str) -> int:
    """Return a rate such as `1gbit`, `500mbit` or `100MB/s` in bytes per second.

    Raises `StackproofError` (INVALID_VALUE) for other text, and below 1 Mbit/s or above
    400 Gbit/s.
    """
    number, unit = _split(text)
    in_bytes = unit.endswith("B/s") and _RATE_UNITS_BYTES.get(unit.lower())
    factor = in_bytes or _RATE_UNITS.get(unit.lower().removesuffix("/s"))
    if factor is None:
        hint = "write a number and a unit, as in `1gbit`, `500mbit` or `100MB/s`"
        raise fail(Reason.INVALID_VALUE, f"`{text}` is not a rate", hint=hint)
    rate = number * factor
    if not _RATES[0] <= rate <= _RATES[1]:
        hint = "choose one from 1mbit to 400gbit, or none for an unlimited link"
        raise fail(Reason.INVALID_VALUE, f"a link cannot have the rate `{text}`", hint=hint)
    return round(rate)


def parse_delay(text: str) -> float:
    """Return a delay such as `20us` or `1ms` in microseconds.

    Raises `StackproofError` (INVALID_VALUE) for other text, and below 1 us or above 1 s.
    """
    number, unit = _split(text)
    if unit not in _DELAY_UNITS:
        hint = "write a number and a unit, as in `20us` or `1ms`"
        raise fail(Reason.INVALID_VALUE, f"`{text}` is not a delay", hint=hint)
    delay = number * _DELAY_UNITS[unit]
    if not _DELAYS_US[0] <= delay <= _DELAYS_US[1]:
        hint = "choose one from 1us to 1s, or none"
        raise fail(Reason.INVALID_VALUE, f"a link cannot have the delay `{text}`", hint=hint)
    return delay


def _split(text: str) -> tuple[float, str]:
    match = _NUMBER.fullmatch(text.strip())
    return (float(match[1]), match[2]) if match else (0.0, "")


def problems(spec: ClusterSpec) -> tuple[Problem, ...]:
    """Return everything that is wrong with a specification."""
    found: list[Problem] = []

    def wrong(message: str, hint: str) -> None:
        found.append(Problem(reason=Reason.INVALID_VALUE, message=message, hint=hint))

    if not _NAME.fullmatch(spec.name):
        letters = "use 1 to 32 of a-z, 0-9, - and _, beginning and ending with one of the first two"
        wrong(f"a cluster cannot have the name `{spec.name}`", letters)
    if not 1 <= spec.nodes <= MAX_NODES:
        wrong(f"a cluster cannot have {spec.nodes} nodes", f"choose 1 to {MAX_NODES}")
    for text, parse in ((spec.rate, parse_rate), (spec.delay, parse_delay)):
        try:
            if text is not None:
                parse(text)
        except StackproofError as error:
            found += error.problems
    for path in spec.shared:
        if not path.startswith("/"):
            wrong(f"the shared path `{path}` is not absolute", "write the whole path")
    return (*found, *(cluster_slurm.problems(spec.slurm) if spec.slurm else ()))


def up_command(spec: ClusterSpec) -> str:
    """Return the command that brings such a cluster up, for a hint."""
    words = ["stackproof cluster up"]
    words += [f"--name {spec.name}"] if spec.name != ClusterSpec().name else []
    words += [f"--nodes {spec.nodes}"] if spec.nodes != ClusterSpec().nodes else []
    words += [f"--rate {spec.rate}"] if spec.rate else []
    words += [f"--delay {spec.delay}"] if spec.delay else []
    words += cluster_slurm.up_words(spec.slurm) if spec.slurm else ()
    return " ".join(words)


def node_names(count: int) -> tuple[str, ...]:
    """Return the names of the nodes, which are node1, node2 and so on."""
    return tuple(f"node{number}" for number in range(1, count + 1))


def address_of(name: str) -> str:
    """Return the IPv4 address of `head` or `nodeN`."""
    return f"{_PREFIX}.{_number(name)}"


def port_of(name: str) -> str:
    """Return the interface in the head that is the other end of a node's link."""
    return f"port{_number(name)}"


def _number(name: str) -> int:
    return _HEAD_HOST if name == HEAD else int(name.removeprefix("node"))


def _mac(name: str, kind: int = 0) -> str:
    """Return a locally administered MAC; kind 0 is the host itself, 1 its port in the head.

    The delay switch knows a frame's destination by the last byte. The bridge needs a fixed one
    as well: else it takes the lowest MAC of its ports and changes it as ports are added.
    """
    return f"02:00:0a:4d:{kind:02x}:{_number(name):02x}"


def hosts_text(count: int) -> str:
    """Return /etc/hosts of the head and the nodes."""
    lines = [f"{address_of(name)} {name}" for name in (HEAD, *node_names(count))]
    return "\n".join(("# written by stackproof cluster", "127.0.0.1 localhost", *lines)) + "\n"


def head_network(count: int) -> tuple[str, ...]:
    """Return the lines for `ip -batch` in the head; `@nodeN@` stands for that node's pid."""
    head = f"""
        link set lo up
        link add {BRIDGE} address {_mac(HEAD)} type bridge mcast_snooping 0
        addr add {address_of(HEAD)}/24 dev {BRIDGE}
        link set {BRIDGE} up"""
    return _lines(head, *(_link(name, f"@{name}@") for name in node_names(count)))


def _link(name: str, pid: str) -> str:
    """Return the lines that join the node of this process."""
    port, mac = port_of(name), _mac(name)
    peer = f"peer name {INTERFACE} address {mac} netns {pid}"
    return f"""
        link add {port} address {_mac(name, 1)} type veth {peer}
        link set {port} master {BRIDGE} up
        neigh replace {address_of(name)} lladdr {mac} dev {BRIDGE} nud permanent"""


def _lines(*texts: str) -> tuple[str, ...]:
    return tuple(line.strip() for text in texts for line in text.splitlines() if line.strip())


def node_network(name: str, count: int) -> tuple[str, ...]:
    """Return the lines for `ip -batch` in a node.

    Neighbours are permanent, so that no address resolution falls into a measurement.
    """
    own = f"""
        link set lo up
        addr add {address_of(name)}/24 dev {INTERFACE}
        link set {INTERFACE} up"""
    return _lines(own, *(
        f"neigh replace {address_of(peer)} lladdr {_mac(peer)} dev {INTERFACE} nud permanent"
        for peer in (HEAD, *node_names(count)) if peer != name
    ))  # fmt: skip


def shape_lines(
    interface: str, *, rate: int | None, netem_us: float | None = None, buckets: int = 1
) -> tuple[str, ...]:
    """Return the lines for `tc -batch` that give an interface this rate and netem delay.

    `rate` is in bytes per second; the bucket holds `buckets` times what it usually does.
    Parameters of the bucket: see tc-tbf(8); that a rate is a child of netem: see "Rate control"
    of the netem documentation, as netem's own queue must be the first.
    """
    # `noqueue` first, whatever there was: a bucket cannot replace a netem that has another handle.
    queues = ["root noqueue"]
    if netem_us is not None:
        queues.append(f"root handle 1: netem delay {netem_us:g}us limit {_NETEM_PACKETS}")
    if rate is not None:
        burst = max(_MIN_BURST, round(rate * _BURST_SECONDS)) * buckets
        queue = max(_MIN_QUEUE, round(rate * _QUEUE_SECONDS)) + burst
        parent = "root" if netem_us is None else "parent 1:1"
        bucket = f"tbf rate {rate * 8}bit burst {burst}b limit {queue}b"
        queues.append(f"{parent} handle 2: {bucket}")
    return tuple(f"qdisc replace dev {interface} {row}" for row in queues)


def node_settings(spec: ClusterSpec, node: ClusterNode) -> dict[str, object]:
    """Return what the first process of a node is told of it, besides its name."""
    return {
        "network": node_network(node.name, spec.nodes),
        "memory": NODE_SPOOL if spec.slurm else None,
        "group": node.group,
        "core": node.core,
    }


def switch_on_lines(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the lines for `ip -batch` in the head that take nodes' ports out of the bridge.

    The ports answer no address requests then, since the head's own answer is the switch's task.
    """
    peer = f"peer name {SWITCH_PORT} address {_mac(HEAD, 1)}"
    head = f"""
        link add head0 address {_mac(HEAD, 2)} type veth {peer}
        link set head0 master {BRIDGE} up
        link set {SWITCH_PORT} arp off up"""
    return _lines(head, *(f"link set {port_of(name)} nomaster arp off" for name in names))


def switch_off_lines(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the lines for `ip -batch` in the head that undo `switch_on_lines`."""
    ports = (f"link set {port_of(name)} arp on master {BRIDGE}" for name in names)
    return ("link del head0", *ports)


def switch_argv(program: str, names: tuple[str, ...], delay_us: float) -> tuple[str, ...]:
    """Return the command line of the delay switch: nanoseconds, the head's port, the nodes'."""
    ports = (SWITCH_PORT, *map(port_of, names))
    return (program, str(round(delay_us * 1000)), *ports)


def enter_argv(state: ClusterState, node: str | None, argv: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command line that runs `argv` on a node, on the head for None, in its root folder.

    The environment is kept; with Slurm, SLURM_CONF is added. The exit code is the program's own; a
    missing program is 127 (env(1)). Raises `StackproofError` (NODE_UNREACHABLE) when there is no
    such node.
    """
    target = state.node(node)
    # Without --preserve-credentials nsenter calls setgroups, which a user namespace made without
    # rights denies.
    entering = ("--user", "--preserve-credentials") if state.rootless else ()
    settings = (f"SLURM_CONF={SLURM_CONF}",) if state.slurm else ()
    return (
        *_pinned(target), "nsenter", "--target", str(target.pid), *entering,
        "--mount", "--uts", "--ipc", "--net", "--pid", "--", "env", "--chdir=/", *settings, *argv,
    )  # fmt: skip


def _pinned(node: ClusterNode) -> tuple[str, ...]:
    """Return the start of a command line that stays on a node's core."""
    if node.group:
        # 0 is the writer itself, see cgroups(7).
        return ("sh", "-c", 'echo 0 >"$0/cgroup.procs" && exec "$@"', node.group)
    return () if node.core is None else ("taskset", "--cpu-list", str(node.core))


def enter_network_argv(
    state: ClusterState, node: str | None, argv: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the command line that runs a program of this machine on a node's network."""
    user = ("--user", "--preserve-credentials") if state.rootless else ()
    return ("nsenter", "--target", str(state.node(node).pid), *user, "--net", "--", *argv)
