"""The links of a running cluster: their rate, their delay, and what the delay really is.

A delay is made by the kernel's netem where it has one, else by a switch in user space
(`csrc/delay_switch.c`, compiled on first use). Either way it is measured, and a delay that is not
there is an error.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import signal
import socket
import statistics
import subprocess
import sys
from pathlib import Path

from stackproof.cluster import model
from stackproof.cluster.effects import node as cluster_node
from stackproof.cluster.effects.agent import started
from stackproof.cluster.model import ClusterNode, ClusterSpec, ClusterState, DelayFacts
from stackproof.core.command import Command
from stackproof.core.effects import cache_kinds, files
from stackproof.core.effects.run import base_environment, failure, run
from stackproof.core.effects.sandbox import package_hint
from stackproof.core.errors import Reason, StackproofError, fail
from stackproof.core.value import replace

_TOOL_S = 30.0
_READY_S = 10.0
_LEAST_SHARE = 0.8
"""A measured delay below this share of the one asked for is none, if it is so every time."""
_TRIES = 3
"""How often it is measured: noise makes a delay longer, and the link before it as well."""


def shape(state: ClusterState, spec: ClusterSpec) -> ClusterState:
    """Give the links of a cluster the rate and delay of `spec`; return the new state.

    Raises `StackproofError` (TOOL_MISSING, CLUSTER_FAILED); links are then as they were, but for
    a delay that did not work, which is taken away.
    """
    wanted = None if spec.delay is None else model.parse_delay(spec.delay)
    have = state.delay.asked_us if state.delay else None
    if wanted == have:
        _set_queues(state, spec.rate, _netem_of(state.delay))
        return replace(state, spec=spec)
    state = _without_delay(state)
    _set_queues(state, spec.rate, None)
    state = replace(state, spec=replace(spec, delay=None))
    if wanted is None:
        return state
    for _ in range(_TRIES):
        before = _round_trips(state)
        facts = _add_delay(state, wanted)
        delayed = replace(state, spec=spec, delay=facts)
        try:
            facts = _seen(facts, before, _round_trips(delayed))
        except BaseException:
            _without_delay(delayed)
            raise
        if facts.seen_us is None or facts.seen_us >= _LEAST_SHARE * wanted:
            return replace(delayed, delay=facts)
        _without_delay(delayed)
    raise _no_delay(facts)


def _alive(state: ClusterState) -> tuple[ClusterNode, ...]:
    return tuple(node for node in state.nodes if node.alive)


def tool(name: str) -> str:
    """Return the path of a program, its name where it is not installed."""
    return shutil.which(name, path=search_path()) or name


def search_path() -> str:
    """Return where programs are looked for: an ordinary user's PATH often lacks /usr/sbin."""
    return f"{base_environment()['PATH']}:/usr/sbin:/sbin:/usr/bin:/bin"


def _netem_of(delay: DelayFacts | None) -> float | None:
    return delay.asked_us if delay and delay.method == "netem" else None


# ---------------------------------------------------------------------------------- rate and delay


def _set_queues(state: ClusterState, rate_text: str | None, netem_us: float | None) -> None:
    """Set rate (both ends of each link) and netem (the node's end: what the node sends)."""
    rate = None if rate_text is None else model.parse_rate(rate_text)
    head: list[str] = []
    for node in _alive(state):
        port = model.port_of(node.name)
        head += model.shape_lines(port, rate=rate, buckets=model.PORT_BUCKETS)
        lines = model.shape_lines(node.interface, rate=rate, netem_us=netem_us)
        _batch(state, node.name, "tc", lines)
    _batch(state, model.HEAD, "tc", tuple(head))


def _batch(state: ClusterState, node: str, program: str, lines: tuple[str, ...]) -> None:
    """Run lines of `ip` or `tc` on the network of a node."""
    script = Path(state.folder) / f"{program}-{node}.batch"
    with files.translate_errors(script):
        script.write_text("\n".join(lines) + "\n", encoding="ascii")
    argv = model.enter_network_argv(state, node, (tool(program), "-batch", os.fspath(script)))
    command = Command(argv=argv, timeout_s=_TOOL_S)
    done = run(command)
    script.unlink(missing_ok=True)
    if done.returncode != 0:
        raise failure(command, done, log=None, reason=Reason.CLUSTER_FAILED)


def _add_delay(state: ClusterState, delay_us: float) -> DelayFacts:
    if _has_netem(state):
        _set_queues(state, state.spec.rate, delay_us)
        return DelayFacts(method="netem", asked_us=delay_us)
    program = delay_switch()
    names = tuple(node.name for node in _alive(state))
    _batch(state, model.HEAD, "ip", model.switch_on_lines(names))
    try:
        pid = _start_switch(state, program, delay_us)
    except BaseException:
        _batch(state, model.HEAD, "ip", model.switch_off_lines(names))
        raise
    return DelayFacts(method="switch", asked_us=delay_us, pid=pid, started=started(pid))


def _without_delay(state: ClusterState) -> ClusterState:
    delay = state.delay
    if delay is None:
        return state
    if delay.method == "netem":
        _set_queues(state, state.spec.rate, None)
    else:
        if started(delay.pid) == delay.started:
            os.kill(delay.pid, signal.SIGKILL)
        names = tuple(node.name for node in _alive(state))
        _batch(state, model.HEAD, "ip", model.switch_off_lines(names))
    return replace(state, delay=None)


def _has_netem(state: ClusterState) -> bool:
    """Return whether the kernel has netem: tried on the head's loopback, then undone."""
    tc = tool("tc")
    words = (tc, "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1us")
    tried = run(Command(argv=model.enter_network_argv(state, None, words), timeout_s=_TOOL_S))
    if tried.returncode != 0:
        return False
    undo = (tc, "qdisc", "del", "dev", "lo", "root")
    run(Command(argv=model.enter_network_argv(state, None, undo), timeout_s=_TOOL_S))
    return True


# ------------------------------------------------------------------------------------- the switch


def delay_switch() -> Path:
    """Return the compiled delay switch, compiling it first when this source never was.

    Raises `StackproofError` (TOOL_MISSING, BUILD_FAILED, DISK_FULL).
    """
    source = Path(__file__).with_name("csrc") / "delay_switch.c"
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    program = cache_kinds.home("delay-switch") / f"{digest}-{platform.machine()}"
    if program.exists():
        return program
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise fail(
            Reason.TOOL_MISSING,
            "this kernel has no netem, and the switch that delays packets in its place has to be "
            "compiled, but `gcc` is not installed",
            hint=package_hint("gcc"),
        )
    with files.translate_errors(program.parent):
        program.parent.mkdir(parents=True, exist_ok=True)
    fresh = program.with_name(f".{program.name}.{os.getpid()}")
    command = Command(
        argv=(compiler, "-std=c11", "-O2", "-o", os.fspath(fresh), os.fspath(source)),
        timeout_s=_TOOL_S,
    )
    try:
        done = run(command)
        if done.returncode != 0:
            raise failure(command, done, log=None)
        fresh.replace(program)
    finally:
        fresh.unlink(missing_ok=True)
    return program


def _start_switch(state: ClusterState, program: Path, delay_us: float) -> int:
    """Start the switch on the head as a child of its first process; return the switch's pid."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    # By its descriptor: the head may not see the path, since it has a /tmp of its own.
    executable = os.open(program, os.O_RDONLY)
    try:
        with ours, theirs:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            ours.settimeout(_READY_S)
            path = f"/proc/self/fd/{executable}"
            names = tuple(node.name for node in _alive(state))
            argv = model.switch_argv(path, names, delay_us)
            with subprocess.Popen(  # noqa: S603 - a program of ours, by descriptor
                model.enter_argv(state, None, ("setsid", "--fork", *argv)),
                stdin=subprocess.DEVNULL, stdout=theirs.fileno(), stderr=theirs.fileno(),
                pass_fds=(executable,), env=base_environment(),
            ) as process:  # fmt: skip
                theirs.close()
                process.wait(_READY_S)
            said, pid = cluster_node.receive_text_with_pid(ours)
    except OSError as error:
        said, pid = str(error), 0
    finally:
        os.close(executable)
    if not said.startswith("ready"):
        raise fail(Reason.CLUSTER_FAILED, "the delay switch did not start", detail=said or None)
    return pid


# ------------------------------------------------------------------------------------- the measure


def _round_trips(state: ClusterState) -> list[float]:
    """Return round-trip times between the first two nodes, us; empty when there is one node."""
    if len(state.nodes) == 1:
        return []
    first, second = state.nodes[:2]
    script = (sys.executable, "-I", "-S", cluster_node.__file__)
    with subprocess.Popen(  # noqa: S603 - this Python and a file of ours
        model.enter_argv(state, second.name, (*script, "echo")),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=base_environment(),
    ) as echo:  # fmt: skip
        try:
            port = echo.stdout.readline().decode().strip() if echo.stdout else ""
            words = (*script, "probe", second.address, port or "0")
            command = Command(argv=model.enter_argv(state, first.name, words), timeout_s=_TOOL_S)
            done = run(command)
        finally:
            echo.kill()
    if done.returncode != 0:
        raise failure(command, done, log=None, reason=Reason.CLUSTER_FAILED)
    times: list[float] = json.loads(done.stdout)
    if not times:
        raise fail(
            Reason.CLUSTER_FAILED,
            f"`{first.name}` gets no answer from `{second.name}`",
            hint="see whether a firewall of the machine filters bridges: "
            "sysctl net.bridge.bridge-nf-call-iptables",
        )
    return times


def _seen(facts: DelayFacts, before: list[float], after: list[float]) -> DelayFacts:
    """Return the facts with what was measured, if anything was."""
    if not before:
        return facts
    seen = (statistics.median(after) - statistics.median(before)) / 2
    low, _, high = statistics.quantiles(after, n=4)
    return replace(facts, seen_us=round(seen, 1), spread_us=round((high - low) / 2, 1))


def _no_delay(facts: DelayFacts) -> StackproofError:
    return fail(
        Reason.CLUSTER_FAILED,
        f"a delay of {facts.asked_us:g} us was asked for, and {facts.seen_us:.1f} us were measured "
        f"(made by {facts.method}; {_TRIES} times)",
        hint="try again when the machine is less busy, or choose a longer delay",
    )
