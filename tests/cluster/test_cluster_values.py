"""Clusters as values: rates and delays with units, what is wrong with a wish, command lines."""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from stackproof.cluster import model
from stackproof.cluster.effects import agent
from stackproof.cluster.model import ClusterNode, ClusterSpec, ClusterState, DelayFacts
from stackproof.cluster.slurm import parse_spank, parse_user
from stackproof.core import noun
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.value import replace


def node(name: str, pid: int, **changes: object) -> ClusterNode:
    made = ClusterNode(
        name=name,
        address=model.address_of(name),
        interface="eth0",
        pid=pid,
        head_pid=pid - 99,
        started=1000 + pid,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def state(**changes: object) -> ClusterState:
    made = ClusterState(
        spec=ClusterSpec(rate="1gbit"),
        folder="/run/user/7/stackproof/default",
        agent="/run/user/7/stackproof/default/agent",
        rootless=False,
        head=node("head", 100),
        nodes=(node("node1", 103), node("node2", 104)),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def reasons(spec: ClusterSpec) -> list[Reason]:
    return [problem.reason for problem in model.problems(spec)]


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("1gbit", 125_000_000),
        ("500mbit", 62_500_000),
        ("1000kbit", 125_000),
        ("100MB/s", 100_000_000),
        ("1.5GB/s", 1_500_000_000),
        ("2000 kB/s", 2_000_000),
        ("10Gbit", 1_250_000_000),
        ("10gbit/s", 1_250_000_000),
        (" 1mbit ", 125_000),
        ("400gbit", 50_000_000_000),
    ],
)
def test_a_rate_has_a_unit(text, rate):
    assert model.parse_rate(text) == rate


@pytest.mark.parametrize(
    ("text", "delay_us"),
    [("20us", 20), ("1ms", 1000), ("0.5ms", 500), ("1s", 1e6), ("1.5 us", 1.5)],
)
def test_a_delay_has_a_unit(text, delay_us):
    assert model.parse_delay(text) == pytest.approx(delay_us)


WRONG = {
    model.parse_rate: (
        "", "1", "gbit", "1 g bit", "1gbps", "100Mb/s", "100MB", "-1gbit", "+1gbit", "1e3mbit",
        "1,5gbit", "nan mbit", "0gbit", "1kbit", "401gbit", "1gbit;reboot", "\uff11gbit",
        "1" * 400 + "gbit",
    ),
    model.parse_delay: (
        "", "20", "us", "20ns", "0us", "0.5us", "2s", "1m", "20US", "-1us", "1e3us", "1us1us",
    ),
    parse_user: (
        "", "alice", "alice:", ":2001", "alice:0", "alice:-1", "alice:x", "Alice:2001", "a b:2001",
        "alice:2001:3", "../x:2001", "alice\n:2001", "root:x:2001", "alice:\u0663", "a" * 32 + ":1",
        "alice:99999999999",
    ),
    parse_spank: ("", "b.so", "./b.so", "/a b.so", "/a#b.so", "/a\n/b.so", "=x"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("parse", "text"), [(parse, text) for parse, texts in WRONG.items() for text in texts]
)
def test_other_texts_are_errors(parse, text):
    with refused(Reason.INVALID_VALUE):
        parse(text)


@given(st.text(max_size=40))
def test_any_text_is_a_value_or_an_error_of_ours(text):
    for parse in WRONG:
        try:
            made = parse(text)
        except StackproofError as error:
            assert error.reason is Reason.INVALID_VALUE  # noqa: PT017 - either way is right
        else:
            assert "\n" not in str(made)


@given(st.integers(min_value=1_000, max_value=400_000_000))
def test_a_rate_means_the_same_in_bits_and_bytes(kbit):
    assert model.parse_rate(f"{kbit}kbit") == kbit * 125
    assert model.parse_rate(f"{kbit * 125 / 1e6:.6f}MB/s") == kbit * 125


def test_a_plain_wish_is_right():
    assert reasons(ClusterSpec()) == []
    assert reasons(ClusterSpec(name="a-b_2", nodes=32, rate="1gbit", delay="20us")) == []


def test_everything_wrong_is_said_at_once():
    spec = ClusterSpec(name="../x", nodes=33, rate="fast", delay="slow", shared=("here", "/tmp/x"))
    assert reasons(spec) == [Reason.INVALID_VALUE] * 5


@pytest.mark.parametrize(
    "name", ["", "A", "a/b", ".", "..", "-a", "a-", "a b", "ä", "a" * 33, "a\n"]
)
def test_a_name_is_part_of_a_path_and_of_a_command(name):
    assert reasons(ClusterSpec(name=name)) == [Reason.INVALID_VALUE]


@pytest.mark.parametrize("count", [-1, 0, 33, 1000])
def test_there_are_one_to_thirty_two_nodes(count):
    assert reasons(ClusterSpec(nodes=count)) == [Reason.INVALID_VALUE]


def test_addresses_and_ports_are_all_different():
    names = (model.HEAD, *model.node_names(model.MAX_NODES))
    assert len({model.address_of(name) for name in names}) == model.MAX_NODES + 1
    assert len({model.port_of(name) for name in names}) == model.MAX_NODES + 1
    macs = [word for line in model.head_network(model.MAX_NODES) for word in line.split()
            if word.startswith("02:")]  # fmt: skip
    assert len(macs) == 1 + 3 * model.MAX_NODES  # a neighbour is a node's own, once more
    assert len(set(macs)) == 1 + 2 * model.MAX_NODES
    assert model.address_of("node3") == "10.77.0.3"


def test_every_node_is_named_in_hosts():
    lines = model.hosts_text(2).splitlines()
    assert "127.0.0.1 localhost" in lines
    assert {"10.77.0.254 head", "10.77.0.1 node1", "10.77.0.2 node2"} < set(lines)


def test_the_bridge_has_a_fixed_address():
    made = [line for line in model.head_network(2) if "type bridge" in line]
    assert len(made) == 1
    assert " address 02:00:0a:4d:00:fe " in made[0]


def test_neighbours_are_known_beforehand():
    known = [line.split()[2] for line in model.node_network("node2", 3) if "neigh" in line]
    assert known == ["10.77.0.254", "10.77.0.1", "10.77.0.3"]


def test_a_link_without_shape_has_no_queue():
    assert model.shape_lines("eth0", rate=None) == ("qdisc replace dev eth0 root noqueue",)


def test_the_bucket_holds_a_fixed_time():
    (_, line) = model.shape_lines("eth0", rate=125_000_000)
    assert "root handle 2: tbf rate 1000000000bit burst 16000b limit 1266000b" in line


def test_a_slow_bucket_still_takes_whole_packets():
    (_, line) = model.shape_lines("eth0", rate=125_000)
    assert " burst 4096b " in line


def test_netem_is_first_and_the_bucket_its_child():
    (_, netem, bucket) = model.shape_lines("eth0", rate=125_000_000, netem_us=20.5)
    assert "root handle 1: netem delay 20.5us" in netem
    assert " parent 1:1 " in bucket


def test_the_switch_is_told_nanoseconds_and_ports():
    argv = model.switch_argv("/cache/switch", ("node1", "node2"), 20.5)
    assert argv == ("/cache/switch", "20500", "head1", "port1", "port2")


def test_switching_off_undoes_switching_on():
    names = ("node1", "node2")
    on, off = (
        " ".join(model.switch_on_lines(names)),
        " ".join(model.switch_off_lines(names)),
    )
    for port in ("port1", "port2"):
        assert f"set {port} nomaster arp off" in on
        assert f"set {port} arp on master br0" in off


def test_entering_keeps_the_environment_and_sets_the_folder():
    argv = model.enter_argv(state(), "node2", ("hostname", "-f"))
    assert argv[:3] == ("nsenter", "--target", "104")
    assert argv[-5:] == ("--", "env", "--chdir=/", "hostname", "-f")
    assert "--user" not in argv
    assert not [word for word in argv if "ignore" in word]


def test_without_a_node_it_is_the_head():
    assert model.enter_argv(state(), None, ("true",))[2] == "100"
    assert model.enter_argv(state(), "head", ("true",))[2] == "100"


def test_a_cluster_without_rights_is_entered_by_its_user_namespace():
    argv = model.enter_argv(state(rootless=True), None, ("true",))
    assert {"--user", "--preserve-credentials"} < set(argv)
    assert {"--user", "--net"} < set(
        model.enter_network_argv(state(rootless=True), "node1", ("tc",))
    )


def test_an_unknown_node_cannot_be_entered():
    with refused(Reason.NODE_UNREACHABLE):
        model.enter_argv(state(), "node3", ("true",))


def test_a_state_survives_its_file():
    facts = DelayFacts(method="switch", asked_us=20, seen_us=21.5, spread_us=0.5, pid=9, started=8)
    made = state(delay=facts, notes=("one",), rootless=True)
    assert noun.from_json(ClusterState, noun.to_json(made)) == made


def test_the_rate_is_in_megabytes():
    assert state().rate_mb_s == 125
    assert state(spec=ClusterSpec()).rate_mb_s is None


def test_faults_say_what_has_died():
    assert state().faults == ()
    dead = state(
        nodes=(node("node1", 103), node("node2", 104, alive=False)),
        delay=DelayFacts(method="switch", asked_us=20, pid=9, started=8, alive=False),
    )
    assert len(dead.faults) == 2
    assert "node2" in dead.faults[0]


def test_the_command_of_a_hint_brings_the_same_up():
    assert model.up_command(ClusterSpec()) == "stackproof cluster up"
    spec = ClusterSpec(name="x", nodes=3, rate="1gbit", delay="20us")
    assert model.up_command(spec).split()[3:] == [
        "--name", "x", "--nodes", "3", "--rate", "1gbit", "--delay", "20us",
    ]  # fmt: skip


# ---------------------------------------------------------------- the agent, in the place of ssh


@pytest.mark.parametrize(
    ("words", "host", "command"),
    [
        (["node1", "hostname"], "node1", "hostname"),
        (["-x", "node1", "env", "A=b c", "prog"], "node1", "env A=b c prog"),
        (["-p", "22", "-oBatchMode=yes", "-o", "A=b", "root@node2", "x"], "node2", "x"),
        (["-xp22", "-q", "node1", "x", "-p", "y"], "node1", "x -p y"),
        (["-xp", "22", "node1", "x"], "node1", "x"),
        (["--", "node1", "x"], "node1", "x"),
        (
            ["node1", '"/a/proxy"', "--control-port", "head:1"],
            "node1",
            '"/a/proxy" --control-port head:1',
        ),
    ],
)
def test_the_agent_is_called_like_ssh(words, host, command):
    assert agent.split(words) == (host, command)


@pytest.mark.parametrize("words", [[], ["-x"], ["-p", "22"], ["node1"], ["--", "node1"]])
def test_the_agent_needs_a_host_and_a_command(words):
    with pytest.raises(agent.UnreachableError):
        agent.split(words)


def as_read(made: ClusterState) -> dict[str, object]:
    data: dict[str, object] = json.loads(noun.to_json(made))
    return data


def test_the_agent_refuses_what_it_does_not_know():
    with pytest.raises(agent.UnreachableError, match="node1, node2"):
        agent.argv_for(as_read(state()), "node7", "true", {})


def test_the_agent_refuses_a_pid_that_is_another_process_now():
    with pytest.raises(agent.UnreachableError, match="not running"):
        agent.argv_for(as_read(state()), "node1", "true", {})


@pytest.mark.parametrize("host", ["node1", "10.77.0.1"])
def test_the_agent_lets_the_shell_of_the_node_run_the_words(host, monkeypatch):
    monkeypatch.setattr(agent, "started", lambda pid: 1103 if pid == 4 else 0)
    argv = agent.argv_for(as_read(state()), host, "a 'b c'", {})
    assert argv[:3] == ["nsenter", "--target", "4"]
    assert argv[-4:] == ["--", "sh", "-c", "a 'b c'"]


def test_the_agent_mounts_once_for_everything_on_the_node(monkeypatch):
    monkeypatch.setattr(agent, "started", lambda _: 1103)
    argv = agent.argv_for(as_read(state()), "node1", "x", {"STACKPROOF_MOUNTS": "/i:/m,/j:/n"})
    assert argv[-5:] == ["/i:/m,/j:/n", "--", "sh", "-c", "x"]
    assert argv[-6] == "--own-shm"
    assert argv[-7].endswith("/mount/effects/mount_exec.py")


def test_a_process_that_is_not_there_never_started():
    assert agent.started(0) == 0
    assert agent.started(os.getpid()) > 0
