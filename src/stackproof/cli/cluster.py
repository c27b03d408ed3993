"""`stackproof cluster ACTION`: nodes on this machine, each in namespaces of its own."""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from stackproof import cluster, cluster_slurm, noun
from stackproof.cli import progress
from stackproof.cluster import ClusterSpec, ClusterState
from stackproof.cluster_slurm import SlurmSpec
from stackproof.errors import ExitCode, Problem, Reason, StackproofError, fail
from stackproof.host import cluster as host_cluster
from stackproof.host import cluster_exec, cluster_power
from stackproof.host import cluster_slurm as cluster_slurm_host

Value = TypeVar("Value")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `cluster`."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, title="actions")
    text = "bring a cluster up; nothing happens when the same one is up already"
    up = actions.add_parser("up", help=text, description=text, allow_abbrev=False)
    up.add_argument(
        "--nodes", metavar="N", default="2", help=f"1 to {cluster.MAX_NODES} nodes; default: 2"
    )
    up.add_argument(
        "--rate", metavar="R", help="rate of each link, such as 1gbit, 500mbit or 100MB/s"
    )
    up.add_argument("--delay", metavar="D", help="delay of what a node sends, such as 20us or 1ms")
    up.add_argument(
        "--share", metavar="PATH", action="append", default=[],
        help="path below /tmp that the nodes see; each has a /tmp of its own otherwise",
    )  # fmt: skip
    _add_slurm(up)
    _add_common(up)
    up.set_defaults(run=run_up)

    text = "take a cluster down with everything that runs in it"
    down = actions.add_parser("down", help=text, description=text, allow_abbrev=False)
    _add_common(down)
    down.set_defaults(run=run_down)

    text = "show a cluster; exit code 4 when it is not up or not whole"
    status = actions.add_parser("status", help=text, description=text, allow_abbrev=False)
    _add_common(status)
    status.set_defaults(run=run_status)

    _add_exec(actions)
    _add_power(actions)


def _add_slurm(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("Slurm", "a cluster with Slurm needs root")
    group.add_argument(
        "--slurm", action="store_true", help="start Slurm: its controller, and slurmd on each node"
    )
    group.add_argument(
        "--user", metavar="NAME:UID", action="append", default=[],
        help="a user who exists in the cluster only; may be repeated",
    )  # fmt: skip
    group.add_argument(
        "--spank", metavar="PLUGIN[=ARGUMENTS]", action="append", default=[],
        help="SPANK plug-in for every job: the absolute path of its .so, and its arguments with "
        "blanks between them; may be repeated",
    )  # fmt: skip
    group.add_argument("--plugstack", metavar="FILE", help="a whole plugstack.conf instead")
    group.add_argument(
        "--cpus", metavar="N", help=f"CPUs that each node claims; default: {SlurmSpec().cpus}"
    )
    group.add_argument(
        "--no-pin", action="store_true", help="let each node run on all cores, not on one"
    )
    group.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[],
        help="a line of slurm.conf; may be repeated",
    )  # fmt: skip


def _add_exec(actions: Any) -> None:
    text = "run a command in a cluster: on its head, or on a node"
    run = actions.add_parser("exec", help=text, description=text, allow_abbrev=False)
    run.usage = (
        "stackproof cluster exec [--name NAME] [--on NODE] [--as USER] -- COMMAND [ARGUMENT…]"
    )
    run.add_argument("--name", default="default", help="name of the cluster; default: default")
    run.add_argument("--on", metavar="NODE", help="node1, node2, …; default: head")
    run.add_argument(
        "--as", metavar="USER", dest="who", help="a user of the cluster; default: who you are"
    )
    run.add_argument("rest", nargs=argparse.REMAINDER, metavar="COMMAND", help="what to run")
    run.epilog = (
        "folder, environment and terminal are kept, signals passed on; exit codes: those of the "
        "command, 128+N when signal N killed it; 127 when it is not found, 126 when it cannot be "
        "executed; 2, 3 and 4 as everywhere when it was not started"
    )
    run.set_defaults(run=functools.partial(run_exec, run))


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", default="default", help="name of the cluster; default: default")
    parser.add_argument("--json", action="store_true", help="print the state as JSON")


def _add_power(actions: Any) -> None:
    for name, run, text in (
        ("kill", run_kill, "take a node away at once, as a lost power supply does"),
        ("restart", run_restart, "start a node again, as after a reboot"),
    ):
        action = actions.add_parser(name, help=text, description=text, allow_abbrev=False)
        action.add_argument("node", metavar="NODE", help="node1, node2, …")
        action.add_argument(
            "--daemon", action="store_true",
            help="only its Slurm daemon: slurmd, or slurmctld of `head`; jobs stay",
        )  # fmt: skip
        _add_common(action)
        action.set_defaults(run=run)


def run_up(args: argparse.Namespace) -> int:
    """Bring a cluster up and print what it is."""
    spec = ClusterSpec(
        name=args.name,
        nodes=_number(args.nodes, "nodes", f"1 to {cluster.MAX_NODES}"),
        rate=args.rate,
        delay=args.delay,
        shared=tuple(map(os.path.abspath, args.share)),
        slurm=_slurm(args),
    )
    state = host_cluster.up(spec, progress.monitor(quiet=args.json))
    _show(state, as_json=args.json)
    return int(ExitCode.DONE)


def run_down(args: argparse.Namespace) -> int:
    """Take a cluster down; that there was none is worth a word, not an error."""
    existed = host_cluster.down(args.name)
    if args.json:
        print(json.dumps({"name": args.name, "up": False, "was_up": existed}, indent=1))
    else:
        said = "is down" if existed else "was not up"
        print(f"cluster `{args.name}` {said}", file=sys.stderr)
    return int(ExitCode.DONE)


def run_status(args: argparse.Namespace) -> int:
    """Print the state of a cluster; NOT_POSSIBLE when it is not up or has lost something."""
    state = host_cluster.status(args.name)
    if state is not None:
        _show(state, as_json=args.json)
    elif args.json:
        print(json.dumps({"name": args.name, "up": False}, indent=1))
    host_cluster.require(args.name)
    return int(ExitCode.DONE)


def run_kill(args: argparse.Namespace) -> int:
    """Kill a node or its daemon; that it was dead already is worth a word, not an error."""
    killed = cluster_power.kill(args.name, args.node, daemon=args.daemon)
    what = "its Slurm daemon" if args.daemon else "it"
    if args.json:
        print(json.dumps({"name": args.name, "node": args.node, "killed": killed}, indent=1))
    else:
        said = f"{what} was killed" if killed else f"{what} was not running"
        print(f"{args.node} of cluster `{args.name}`: {said}", file=sys.stderr)
    return int(ExitCode.DONE)


def run_restart(args: argparse.Namespace) -> int:
    """Start a node or its daemon again and print the cluster."""
    state = cluster_power.restart(args.name, args.node, daemon=args.daemon)
    _show(state, as_json=args.json)
    return int(ExitCode.DONE)


def run_exec(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    """Run a command in a cluster, also in one that has lost a node."""
    command = args.rest[1:] if args.rest[:1] == ["--"] else args.rest
    if not command:
        parser.print_usage(sys.stderr)
        raise fail(Reason.USAGE, "say what to run: -- COMMAND")
    state = host_cluster.reach(args.name)
    who = cluster_exec.user(state, args.who) if args.who else None
    return cluster_exec.execute(state, args.on, command, who=who, cwd=os.getcwd())


def _slurm(args: argparse.Namespace) -> SlurmSpec | None:
    """Return what is wanted of Slurm; every option of it without --slurm is a slip."""
    given = [
        f"--{name}" for name in ("user", "spank", "plugstack", "cpus", "no_pin", "set")
        if getattr(args, name)
    ]  # fmt: skip
    if not args.slurm:
        if given:
            words = ", ".join(name.replace("_", "-") for name in given)
            raise fail(Reason.USAGE, f"{words} means nothing without --slurm")
        return None
    wrong: list[Problem] = []
    users = _parsed(cluster_slurm.parse_user, args.user, wrong)
    spank = _parsed(cluster_slurm.parse_spank, args.spank, wrong)
    counts = [args.cpus] if args.cpus else []
    cpus = _parsed(lambda text: _number(text, "CPUs", "1 to 256"), counts, wrong)
    if wrong:
        raise StackproofError(*wrong)
    return SlurmSpec(
        users=users,
        spank=spank,
        plugstack=None if args.plugstack is None else os.path.abspath(args.plugstack),
        cpus=cpus[0] if cpus else SlurmSpec().cpus,
        pin=not args.no_pin,
        settings=tuple(args.set),
    )


def _parsed(
    parse: Callable[[str], Value], texts: list[str], wrong: list[Problem]
) -> tuple[Value, ...]:
    """Return what words stand for; what is wrong with them is added to `wrong`."""
    found: list[Value] = []
    for text in texts:
        try:
            found.append(parse(text))
        except StackproofError as error:
            wrong += error.problems
    return tuple(found)


def _number(text: str, what: str, possible: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise fail(
            Reason.INVALID_VALUE, f"`{text}` is not a number of {what}", hint=f"choose {possible}"
        )
    return int(text)


def _show(state: ClusterState, *, as_json: bool) -> None:
    seen = cluster_slurm_host.node_states(state)
    if as_json:
        data: dict[str, Any] = noun.to_data(state)
        data |= {
            "name": state.name,
            "up": True,
            "rate_mb_s": state.rate_mb_s,
            "faults": list(state.faults),
        }
        if state.slurm:
            data["slurm_nodes"] = [noun.to_data(node) for node in seen]
        print(json.dumps(data, indent=1))
        return
    for label, value in _summary(state):
        print(f"{label:<8} {value}")
    words = {
        node.name: f"{node.state} ({node.reason})" if node.reason else node.state for node in seen
    }
    column = "  SLURM" if state.slurm else ""
    print(f"\n{'NODE':<8} {'ADDRESS':<14} {'INTERFACE':<10} {'PID':>8}  STATE{column}")
    for node in (state.head, *state.nodes):
        alive = f"{'alive' if node.alive else 'dead':<6} {words.get(node.name, '')}".rstrip()
        print(f"{node.name:<8} {node.address:<14} {node.interface:<10} {node.pid:>8}  {alive}")


def _summary(state: ClusterState) -> list[tuple[str, str]]:
    rate = state.rate_mb_s
    rows = [
        ("cluster", f"{state.name}, {len(state.nodes)} nodes{_owner(state)}"),
        ("rate", f"{state.spec.rate} ({rate:g} MB/s)" if rate else "unlimited"),
        ("delay", _delay(state)),
        ("agent", state.agent),
    ]
    if state.slurm:
        types = ", ".join(state.slurm.mpi) or "none"
        rows.append(("slurm", f"{state.slurm.version}; srun --mpi takes {types}"))
    return rows + [("note", note) for note in state.notes]


def _owner(state: ClusterState) -> str:
    return ", in a user namespace" if state.rootless else ""


def _delay(state: ClusterState) -> str:
    facts = state.delay
    if facts is None:
        return "none"
    if facts.seen_us is None:
        return f"{facts.asked_us:g} us by {facts.method}, not measured with one node"
    return (
        f"{facts.asked_us:g} us by {facts.method}, "
        f"measured {facts.seen_us:g} us (quartiles ±{facts.spread_us:g} us)"
    )
