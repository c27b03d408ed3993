"""Links of a cluster for real: their rate and their delay."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from clusters import PAYLOAD, assert_limited, marked, round_trip_us, throughput, told, wait_until
from need import need, works
from refusals import refused
from stackproof.cluster.effects import link
from stackproof.cluster.effects import up as cluster_up
from stackproof.cluster.effects.agent import started
from stackproof.cluster.model import ClusterSpec
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.value import replace

COVERS = ("cluster/effects/link.py",)

pytestmark = [pytest.mark.machine, pytest.mark.usefixtures("runtime")]


@pytest.mark.parametrize(
    ("rate", "total"), [("50mbit", 2_000_000), ("20MB/s", 6_000_000), ("500mbit", 20_000_000)]
)
def test_the_rate_is_kept(rate, total):
    assert_limited(cluster_up.up(ClusterSpec(rate=rate)), total)


def test_the_rate_changes_while_it_is_up():
    state = cluster_up.up(ClusterSpec())
    slow = cluster_up.set_link(state, rate="100mbit", delay=None)
    assert slow.rate_mb_s == 12.5
    assert cluster_up.require() == slow
    assert_limited(slow, 4_000_000)
    again = cluster_up.set_link(slow, rate=None, delay=None)
    assert again.rate_mb_s is None
    assert throughput(again, 40_000_000) > 5 * 12.5e6


def test_both_directions_have_the_rate_at_once():
    state = cluster_up.up(ClusterSpec(rate="100mbit"))
    turned = replace(state, nodes=state.nodes[::-1])
    turned = replace(
        turned,
        nodes=tuple(
            replace(node, name=name)
            for node, name in zip(turned.nodes, ("node1", "node2"), strict=True)
        ),
    )
    rates: list[float] = []
    threads = [
        threading.Thread(target=lambda side=side: rates.append(throughput(side, 4_000_000)))
        for side in (state, turned)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Acknowledgements of the other direction take a share of the link.
    assert len(rates) == 2
    assert min(rates) > 12.5e6 * PAYLOAD * 0.7


@pytest.mark.parametrize(("delay", "asked_us"), [("200us", 200), ("2ms", 2000)])
def test_the_delay_is_there(delay, asked_us):
    if not works("netem"):
        need("gcc")
    state = cluster_up.up(ClusterSpec(delay=delay))
    assert state.delay is not None
    assert state.delay.method == ("netem" if works("netem") else "switch")
    assert state.delay.seen_us is not None
    assert 0.8 * asked_us <= state.delay.seen_us
    # Once per direction, and whatever the scheduler of a busy machine adds to it.
    assert 2 * asked_us <= round_trip_us(state) < 2 * asked_us + 1500


def test_delay_and_rate_go_together():
    if not works("netem"):
        need("gcc")
    state = cluster_up.up(ClusterSpec(rate="100mbit", delay="500us"))
    assert round_trip_us(state) >= 1000
    assert_limited(state, 4_000_000)


def test_the_delay_comes_and_goes_while_it_is_up():
    if not works("netem"):
        need("gcc")
    state = cluster_up.up(ClusterSpec(nodes=3))
    slow = cluster_up.set_link(state, rate=None, delay="3ms")
    assert round_trip_us(slow) >= 6000
    # Every pair and the head still reach each other.
    for here in (None, "node1", "node3"):
        for there in (node.address for node in (slow.head, *slow.nodes)):
            script = f"import socket; socket.socket().connect_ex(('{there}', 9)) in (0, 111) or 1/0"
            told(slow, here, sys.executable, "-I", "-S", "-c", script)
    rated = cluster_up.set_link(slow, rate="1gbit", delay="3ms")
    assert rated.delay == slow.delay
    quick = cluster_up.set_link(rated, rate=None, delay=None)
    assert quick.delay is None
    assert round_trip_us(quick) < 3000


def test_a_dead_delay_switch_is_a_fault():
    if works("netem"):
        pytest.skip("this kernel delays packets itself")
    need("gcc")
    state = cluster_up.up(ClusterSpec(delay="20ms"))
    assert state.delay is not None
    assert started(state.delay.pid) == state.delay.started
    os.kill(state.delay.pid, signal.SIGKILL)
    assert wait_until(lambda: bool(cluster_up.status().faults))  # type: ignore[union-attr]
    assert cluster_up.up(ClusterSpec(delay="20ms")).faults == ()


def test_one_node_can_have_a_delay_that_nobody_measured():
    if not works("netem"):
        need("gcc")
    state = cluster_up.up(ClusterSpec(nodes=1, delay="1ms"))
    assert state.delay is not None
    assert state.delay.seen_us is None


@pytest.mark.parametrize(("busy", "works_out"), [(2, True), (3, False)])
def test_a_delay_hidden_by_noise_is_measured_again(monkeypatch, busy, works_out):
    """The link without the delay seems as slow as with it, as often as `busy` says."""
    answers = [[100.0] * 9, [100.0] * 9] * busy + [[10.0] * 9, [2010.0] * 9]
    monkeypatch.setattr(link, "_round_trips", lambda _: answers.pop(0))
    state = cluster_up.up(ClusterSpec())
    if works_out:
        slow = cluster_up.set_link(state, rate=None, delay="1ms")
        assert slow.delay is not None
        assert slow.delay.seen_us == 1000
        assert round_trip_us(slow) >= 2000
    else:
        with pytest.raises(StackproofError, match=r"1000 us was asked for, and 0\.0 us") as caught:
            cluster_up.set_link(state, rate=None, delay="1ms")
        assert "3 times" in str(caught.value)
        assert round_trip_us(state) < 2000  # it is taken away


def test_without_netem_and_compiler_there_is_an_error_and_no_cluster(
    monkeypatch, tmp_path, runtime
):
    if works("netem"):
        pytest.skip("this kernel delays packets itself")
    monkeypatch.setenv("STACKPROOF_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("ip", "tc", "unshare", "nsenter", "setsid", "env", "sh"):
        (folder / name).symlink_to(told_which(name))
    monkeypatch.setenv("PATH", str(folder))
    with refused(Reason.TOOL_MISSING):
        cluster_up.up(ClusterSpec(delay="1ms", shared=(str(tmp_path),)))
    assert cluster_up.status() is None
    assert wait_until(lambda: not marked(runtime))


def told_which(name: str) -> str:
    folders = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    found = [Path(folder) / name for folder in folders.split(":") if (Path(folder) / name).exists()]
    return os.path.realpath(found[0])
