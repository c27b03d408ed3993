"""Clusters without rights: those of a user, and those that cannot be."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from clusters import (
    SOURCE,
    marked,
)
from need import as_unprivileged, need, private_namespaces, works
from stackproof.cluster.effects import up as cluster_up
from stackproof.cluster.model import ClusterSpec

pytestmark = [pytest.mark.machine, pytest.mark.usefixtures("runtime")]


_ROOTLESS = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
import clusters as t
from stackproof.cluster.model import ClusterSpec
from stackproof.cluster.effects import up as cluster
state = cluster.up(ClusterSpec(rate="100mbit"))
names = t.namespaces(state)
t.assert_limited(state, 4_000_000)
facts = {
    "rootless": state.rootless,
    "uid": os.getuid(),
    "names": [t.told(state, n, "hostname") for n in (None, "node1", "node2")],
    "network": t.told(state, "node1", "ls", "/sys/class/net").split(),
    "agent": t.program(state, "node2", "hostname").stdout,
    "same": cluster.up(ClusterSpec(rate="100mbit")).head == state.head,
    "faster": cluster.set_link(state, rate="1gbit", delay=None).rate_mb_s,
}
if sys.argv[2] == "delay":
    facts["trip"] = t.round_trip_us(cluster.set_link(state, rate=None, delay="2ms"))
cluster.end_processes(state)
facts["down"] = cluster.down()
facts["gone"] = t.wait_until(lambda: not t.held(names))
print(json.dumps(facts))
"""


def test_a_user_without_rights_has_a_cluster(for_everybody):
    need("root", "unprivileged-user", "unprivileged-userns")
    python, checkout = for_everybody
    tests = str(checkout / "tests")
    delay = "delay" if works("netem") or works("gcc") else "none"
    # A folder of that user's own: what pytest makes is root's, and closed to others.
    # The shell stays as the first process of the namespace: it reaps orphans, and Python would not.
    script = 'mount -t tmpfs -o mode=0700,uid=65534,gid=65534 none /mnt; cd /; "$@"; exit $?'
    argv = as_unprivileged([python, "-c", _ROOTLESS, tests, delay])
    done = subprocess.run(
        [*private_namespaces(), "sh", "-c", script, "sh", *argv],
        env={
            "PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": "/mnt", "HOME": "/mnt",
            "STACKPROOF_CACHE": "/mnt/cache", "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    trip = facts.pop("trip", 4000)
    assert facts == {
        "rootless": True,
        "uid": 65534,
        "names": ["head", "node1", "node2"],
        "network": ["eth0", "lo"],
        "agent": "node2\n",
        "same": True,
        "faster": 125,
        "down": True,
        "gone": True,
    }
    assert trip >= 4000


def test_a_user_sees_roots_cluster_and_is_sent_to_sudo(for_everybody):
    need("root", "unprivileged-user")
    python, checkout = for_everybody
    cluster_up.up(ClusterSpec(name="of-root", nodes=1))
    # A folder of that user's own, and the processes of all.
    script = 'mount -t tmpfs -o mode=0700,uid=65534,gid=65534 none /mnt; cd /; exec "$@"'

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        argv = as_unprivileged([python, "-m", "stackproof", "cluster", *words])
        return subprocess.run(
            ["unshare", "--mount", "sh", "-c", script, "sh", *argv],
            env={
                "PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": "/mnt", "HOME": "/mnt",
                "PYTHONPATH": str(checkout / "src"), "PYTHONDONTWRITEBYTECODE": "1",
            },
            capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip

    rows = [line.split(maxsplit=4) for line in call("ls").stdout.splitlines()]
    assert ["of-root", "-", "-", "-", "up, root's: sudo"] in rows
    done = call("exec", "--name", "of-root", "--", "true")
    assert done.returncode == 4
    assert "the cluster `of-root` is root's [not-permitted]" in done.stderr


def test_no_namespaces_is_an_error_that_says_so(runtime):
    """A user namespace in which no further one may be made, and no right to do without."""
    need("root", "unprivileged-user")
    script = (
        "import ctypes, os, sys\n"
        "from stackproof.cluster.model import ClusterSpec\nfrom stackproof.core.errors import StackproofError\n"
        "from stackproof.cluster.effects import up as cluster, state as cluster_state\n"
        "open('/proc/sys/user/max_net_namespaces', 'w').write('0')\n"
        "try:\n    cluster.up(ClusterSpec())\n"
        "except StackproofError as error:\n    print(error.reason, os.listdir(cluster_state.base()))\n"
    )
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": SOURCE}, stdout=subprocess.PIPE, text=True,
        timeout=600, check=True,
    )  # fmt: skip
    assert done.stdout.split(maxsplit=1)[0] in {"no-user-namespaces", "not-permitted"}
    assert done.stdout.split(maxsplit=1)[1] == "['.default.lock']\n"
    assert marked(runtime) == []


def test_a_full_disk_is_an_error_that_leaves_no_cluster():
    need("root")
    script = (
        "import os\n"
        "from stackproof.cluster.model import ClusterSpec\nfrom stackproof.core.errors import StackproofError\n"
        "from stackproof.cluster.effects import up as cluster, state as cluster_state\n"
        "folder = cluster_state.base()\n"
        "try:\n    open('/mnt/filler', 'wb').write(bytes(1 << 20))\nexcept OSError:\n    pass\n"
        "try:\n    cluster.up(ClusterSpec(rate='1gbit'))\n"
        "except StackproofError as error:\n    print(error.reason)\n"
        "print(cluster.status())\n"
        "print([e for e in os.scandir('/proc') if e.name.isdigit() and b'host/cluster_' + b'node' in\n"
        "       open(f'{e.path}/cmdline', 'rb').read()])\n"
    )
    mount = 'mount -t tmpfs -o size=64k,mode=0700 none /mnt && exec "$@"'
    done = subprocess.run(
        [*private_namespaces(), "sh", "-c", mount, "sh", sys.executable, "-c", script],
        env={**os.environ, "XDG_RUNTIME_DIR": "/mnt", "PYTHONPATH": SOURCE},
        stdout=subprocess.PIPE, text=True, timeout=600, check=True,
    )  # fmt: skip
    assert done.stdout.split("\n")[:3] == ["disk-full", "None", "[]"]
