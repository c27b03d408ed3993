"""`stackproof cluster ACTION`: nodes on this machine, each in namespaces of its own."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from stackproof.cluster import model
from stackproof.cluster.effects import exec as cluster_exec
from stackproof.cluster.effects import plugin, rights, up
from stackproof.cluster.effects import slurm as cluster_slurm
from stackproof.cluster.effects import state as cluster_state
from stackproof.cluster.model import ClusterSpec, ClusterState
from stackproof.cluster.options import (
    ClusterDownOptions,
    ClusterExecOptions,
    ClusterKillOptions,
    ClusterListOptions,
    ClusterStatusOptions,
    ClusterUpOptions,
)
from stackproof.cluster.slurm import parse_count, slurm_spec
from stackproof.core import noun
from stackproof.core.cli import progress, streams
from stackproof.core.errors import ExitCode, StackproofError


def run_up(asked: ClusterUpOptions) -> int:
    """Bring a cluster up and print what it is."""
    nodes = parse_count(asked.nodes, "nodes", f"1 to {model.MAX_NODES}")
    slurm, note = plugin.with_own(slurm_spec(asked.slurm), asked.slurm)
    spec = ClusterSpec(
        name=asked.name,
        nodes=nodes,
        rate=asked.rate,
        delay=asked.delay,
        shared=tuple(map(os.path.abspath, asked.share)),
        slurm=slurm,
    )
    state = up.up(spec, progress.monitor(quiet=asked.json))
    if note:  # a list of packages, which a refusal has as well
        print(f"note: {note}", file=sys.stderr)
    _show(state, as_json=asked.json)
    return int(ExitCode.DONE)


def run_down(asked: ClusterDownOptions) -> int:
    """Take a cluster down; that there was none is worth a word, not an error."""
    existed = up.down(asked.name)
    if asked.json:
        print(json.dumps({"name": asked.name, "up": False, "was_up": existed}, indent=1))
    else:
        said = "is down" if existed else "was not up"
        print(f"cluster `{asked.name}` {said}", file=sys.stderr)
    if not existed and (owner := cluster_state.describe_owner(asked.name)):
        print(f"note: {owner}", file=sys.stderr)
    return int(ExitCode.DONE)


def run_status(asked: ClusterStatusOptions) -> int:
    """Print the state of a cluster; NOT_POSSIBLE when it is not up or has lost something."""
    state = up.status(asked.name)
    if state is None and asked.name == ClusterSpec().name and _show_owner(as_json=asked.json):
        return int(ExitCode.NOT_POSSIBLE)  # as of every cluster that is not up for this user
    if state is not None:
        _show(state, as_json=asked.json)
    elif asked.json:
        print(json.dumps({"name": asked.name, "up": False}, indent=1))
    try:
        up.require(asked.name)
    except StackproofError as error:
        if not asked.json:
            raise
        print(error, file=sys.stderr)  # standard output has its JSON already
        return int(error.reason.exit_code)
    return int(ExitCode.DONE)


def _show_owner(*, as_json: bool) -> bool:
    """Print whose the cluster is that is up and not this user's; return whether there is one."""
    name = ClusterSpec().name
    owner = cluster_state.list_of_others().get(name)
    if owner is None:
        return False
    if as_json:
        print(json.dumps({"name": name, "up": True, "owner": owner}, indent=1))
        return True
    print(f"cluster  {name}, {owner}'s; you have none that is up")
    use = f"; for {owner}'s: {rights.as_root('cluster status')}" if owner == "root" else ""
    print(f"note: to have your own: stackproof cluster up{use}", file=sys.stderr)
    return True


def run_list(asked: ClusterListOptions) -> int:
    """Print a line for each cluster, also for what is left of one that is not up."""
    found, others = cluster_state.every(), cluster_state.list_of_others()
    if asked.json:
        data = [_brief(name, state) for name, state in found.items()]
        data += [{"name": name, "up": True, "owner": owner} for name, owner in others.items()]
        print(json.dumps(data, indent=1))
        return int(ExitCode.DONE)
    if not found and not others:
        print("note: there is no cluster", file=sys.stderr)
        return int(ExitCode.DONE)
    rows = []
    for name, state in found.items():
        if state is None:
            rows.append((name, "-", "-", "-", "not up: `cluster down` removes it"))
            continue
        alive = f"up, {len(state.faults)} faults" if state.faults else "up"
        slurm = state.slurm.version if state.slurm else "-"
        rows.append((name, str(len(state.nodes)), state.spec.rate or "unlimited", slurm, alive))
    for name, owner in others.items():
        rows.append((name, "-", "-", "-", f"up, {owner}'s{': sudo' if owner == 'root' else ''}"))
    streams.print_table(("CLUSTER", "NODES", "RATE", "SLURM", "STATE"), rows)
    if "root" in others.values():
        print(f"note: for root's: {rights.as_root('cluster ls')}", file=sys.stderr)
    return int(ExitCode.DONE)


def _brief(name: str, state: ClusterState | None) -> dict[str, object]:
    if state is None:
        return {"name": name, "up": False}
    return {
        "name": name, "up": True, "nodes": len(state.nodes), "rate": state.spec.rate,
        "slurm": state.slurm.version if state.slurm else None, "faults": list(state.faults),
        "folder": state.folder,
    }  # fmt: skip


def run_kill(asked: ClusterKillOptions) -> int:
    """Kill a node; that it was dead already is worth a word, not an error."""
    killed = up.kill(asked.name, asked.node)
    if asked.json:
        print(json.dumps({"name": asked.name, "node": asked.node, "killed": killed}, indent=1))
    else:
        end = "was killed" if killed else "was not running"
        print(f"{asked.node} of cluster `{asked.name}`: it {end}", file=sys.stderr)
    return int(ExitCode.DONE)


def run_exec(asked: ClusterExecOptions) -> int:
    """Run a command in a cluster, also in one that has lost a node."""
    state = up.reach(asked.name)
    who = cluster_exec.user(state, asked.who) if asked.who else None
    return cluster_exec.execute(state, asked.on, list(asked.rest), who=who, cwd=os.getcwd())


def _show(state: ClusterState, *, as_json: bool) -> None:
    seen = cluster_slurm.node_states(state)
    if as_json:
        data: dict[str, Any] = noun.to_data(state)
        data |= {"name": state.name, "up": True, "rate_mb_s": state.rate_mb_s}
        data["faults"] = list(state.faults)
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
    owner = ", in a user namespace" if state.rootless else ""
    rows = [
        ("cluster", f"{state.name}, {len(state.nodes)} nodes{owner}"),
        ("rate", f"{state.spec.rate} ({rate:g} MB/s)" if rate else "unlimited"),
        ("delay", _delay(state)),
        ("agent", state.agent),
    ]
    if state.slurm:
        types = ", ".join(state.slurm.mpi) or "none"
        rows.append(("slurm", f"{state.slurm.version}; srun --mpi takes {types}"))
    return rows + [("note", note) for note in state.notes]


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
