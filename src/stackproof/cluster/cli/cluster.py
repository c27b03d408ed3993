"""`stackproof cluster ACTION`: nodes on this machine, each in namespaces of its own."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from stackproof.cluster import model
from stackproof.cluster.effects import exec as cluster_exec
from stackproof.cluster.effects import plugin, power, up
from stackproof.cluster.effects import slurm as cluster_slurm
from stackproof.cluster.effects import state as cluster_state
from stackproof.cluster.model import ClusterSpec, ClusterState
from stackproof.cluster.slurm import SlurmOptions, parse_count, slurm_spec
from stackproof.core import noun
from stackproof.core.cli import progress
from stackproof.core.cli.parsing import read
from stackproof.core.errors import ExitCode, StackproofError


def run_up(args: argparse.Namespace) -> int:
    """Bring a cluster up and print what it is."""
    nodes = parse_count(args.nodes, "nodes", f"1 to {model.MAX_NODES}")
    options = read(
        SlurmOptions,
        args,
        wanted=args.slurm,
        users=tuple(args.user),
        settings=tuple(args.set),
    )
    slurm, note = plugin.with_own(slurm_spec(options), options)
    spec = ClusterSpec(
        name=args.name,
        nodes=nodes,
        rate=args.rate,
        delay=args.delay,
        shared=tuple(map(os.path.abspath, args.share)),
        slurm=slurm,
    )
    state = up.up(spec, progress.monitor(quiet=args.json))
    if note:  # a list of packages, which a refusal has as well
        print(f"note: {note}", file=sys.stderr)
    _show(state, as_json=args.json)
    return int(ExitCode.DONE)


def run_down(args: argparse.Namespace) -> int:
    """Take a cluster down; that there was none is worth a word, not an error."""
    existed = up.down(args.name)
    if args.json:
        print(json.dumps({"name": args.name, "up": False, "was_up": existed}, indent=1))
    else:
        said = "is down" if existed else "was not up"
        print(f"cluster `{args.name}` {said}", file=sys.stderr)
    return int(ExitCode.DONE)


def run_status(args: argparse.Namespace) -> int:
    """Print the state of a cluster; NOT_POSSIBLE when it is not up or has lost something."""
    state = up.status(args.name)
    if state is not None:
        _show(state, as_json=args.json)
    elif args.json:
        print(json.dumps({"name": args.name, "up": False}, indent=1))
    try:
        up.require(args.name)
    except StackproofError as error:
        if not args.json:
            raise
        print(error, file=sys.stderr)  # standard output has its JSON already
        return int(error.reason.exit_code)
    return int(ExitCode.DONE)


def run_list(args: argparse.Namespace) -> int:
    """Print a line for each cluster, also for what is left of one that is not up."""
    found = cluster_state.every()
    if args.json:
        print(json.dumps([_brief(name, state) for name, state in found.items()], indent=1))
        return int(ExitCode.DONE)
    if not found:
        print("note: there is no cluster", file=sys.stderr)
        return int(ExitCode.DONE)
    width = max(len("CLUSTER"), *map(len, found))
    print(f"{'CLUSTER':<{width}}  NODES  {'RATE':<9}  {'SLURM':<7}  STATE")
    for name, state in found.items():
        if state is None:
            print(
                f"{name:<{width}}  {'-':<5}  {'-':<9}  {'-':<7}  not up: `cluster down` removes it"
            )
            continue
        alive = f"up, {len(state.faults)} faults" if state.faults else "up"
        slurm = state.slurm.version if state.slurm else "-"
        rate = state.spec.rate or "unlimited"
        print(f"{name:<{width}}  {len(state.nodes):<5}  {rate:<9}  {slurm:<7}  {alive}")
    return int(ExitCode.DONE)


def _brief(name: str, state: ClusterState | None) -> dict[str, object]:
    if state is None:
        return {"name": name, "up": False}
    return {
        "name": name, "up": True, "nodes": len(state.nodes), "rate": state.spec.rate,
        "slurm": state.slurm.version if state.slurm else None, "faults": list(state.faults),
        "folder": state.folder,
    }  # fmt: skip


def run_kill(args: argparse.Namespace) -> int:
    """Kill a node or its daemon; that it was dead already is worth a word, not an error."""
    killed = power.kill(args.name, args.node, daemon=args.daemon)
    what = "its Slurm daemon" if args.daemon else "it"
    if args.json:
        print(json.dumps({"name": args.name, "node": args.node, "killed": killed}, indent=1))
    else:
        said = f"{what} was killed" if killed else f"{what} was not running"
        print(f"{args.node} of cluster `{args.name}`: {said}", file=sys.stderr)
    return int(ExitCode.DONE)


def run_restart(args: argparse.Namespace) -> int:
    """Start a node or its daemon again and print the cluster."""
    state = power.restart(args.name, args.node, daemon=args.daemon)
    _show(state, as_json=args.json)
    return int(ExitCode.DONE)


def run_exec(args: argparse.Namespace) -> int:
    """Run a command in a cluster, also in one that has lost a node."""
    command = args.rest[1:] if args.rest[:1] == ["--"] else args.rest
    if not command:
        raise args.parser.wrong("say what to run: -- COMMAND")
    state = up.reach(args.name)
    who = cluster_exec.user(state, args.who) if args.who else None
    return cluster_exec.execute(state, args.on, command, who=who, cwd=os.getcwd())


def _show(state: ClusterState, *, as_json: bool) -> None:
    seen = cluster_slurm.node_states(state)
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
