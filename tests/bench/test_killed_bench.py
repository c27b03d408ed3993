"""A bench killed at any moment, it alone or with its ranks, leaves nothing once another one ran.

`STACKPROOF_KILLS` says how often each verb is killed; a bench gets a fifth. The benches have a
/dev/shm and a temporary folder of their own, so that whatever is in these afterwards is theirs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchroom import write_spec
from need import need
from stackproof.compare.effects.results import load_results
from stackproof.launch.effects import leftovers

pytestmark = [
    pytest.mark.machine,
    pytest.mark.guarantee(
        "Foreign trees",
        "A command killed at any moment loses nothing.",
    ),
    pytest.mark.guarantee(
        "Folders of several users",
        "What a killed launch left is cleared, and nothing else.",
    ),
]
KILLS = max(2, int(os.environ.get("STACKPROOF_KILLS") or 10) // 5)
_PRIVATE = 'mount -t tmpfs -o mode=1777 shm /dev/shm && exec "$@"'
_DRIVER = """
import json, os, random, signal, subprocess, sys, time

spec, count, choose = sys.argv[1], int(sys.argv[2]), random.Random(7)
start = [sys.executable, "-m", "stackproof", "bench", spec, "--no-verdict", "-o"]

def below(pid):
    try:
        children = [int(word) for task in os.listdir(f"/proc/{pid}/task")
                    for word in open(f"/proc/{pid}/task/{task}/children").read().split()]
    except OSError:
        return []
    return [one for child in children for one in (child, *below(child))]

def ranks(pid):
    return [one for one in below(pid) if name(one) == "stackproof-benc"]

def name(pid):
    try:
        return open(f"/proc/{pid}/comm").read().strip()
    except OSError:
        return ""

def alive(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False

def kill(pids):
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

begun = time.monotonic()
subprocess.run([*start, "whole"], check=True)
whole_s, most, folders = time.monotonic() - begun, 0, []
for number in range(count):
    with subprocess.Popen([*start, "killed"], stderr=subprocess.DEVNULL) as bench:
        time.sleep(whole_s * (0.1 + 0.7 * (number + choose.random()) / count))
        # Every second one in the middle of a launch, while its ranks have memory in common.
        while number % 2 == 0 and bench.poll() is None and len(ranks(bench.pid)) < 2:
            time.sleep(0.01)
        inner = below(bench.pid)
        # All at once, its ranks alone, or the bench alone
        who = number % 3
        kill({0: [bench.pid, *inner], 1: ranks(bench.pid), 2: [bench.pid]}[who])
        if who == 1:
            try:
                bench.wait(60)
            except subprocess.TimeoutExpired:
                kill([bench.pid])
    end = time.monotonic() + 600
    while any(map(alive, inner)) and time.monotonic() < end:
        time.sleep(0.05)
    kill(inner)
    most = max(most, len(os.listdir("/dev/shm")))
subprocess.run([*start, "killed"], check=True)
print(json.dumps({"most": most, "shm": os.listdir("/dev/shm"), "temporary": [
    os.path.join(place, name) for place, _, names in os.walk(os.environ["TMPDIR"])
    for name in [*names, place]]}))
"""


@pytest.mark.parametrize("arm", ["installed", "image"])
def test_nothing_is_left_and_the_results_are_whole(
    arm: str, bench_folder: Path, tmp_path: Path
) -> None:
    need("root", "installed-mpis")
    temporary = tmp_path / "t"
    temporary.mkdir()
    arms = {
        "installed": {"name": "base", "prefix": "/usr/bin/mpicc.openmpi"},
        "image": {"name": "base", "image": str(bench_folder / "mpich.squashfs")},
    }
    spec = write_spec(tmp_path, "killed", baseline=arms[arm], launches=2)
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", _PRIVATE, "sh",
         sys.executable, "-c", _DRIVER, spec, str(KILLS)],
        cwd=tmp_path, env={**os.environ, "TMPDIR": str(temporary)}, stdout=subprocess.PIPE,
        timeout=600 * (KILLS + 2), check=True,
    )  # fmt: skip
    told = json.loads(done.stdout.splitlines()[-1])
    # In a container nobody can tell whether a process outside needs a file.
    if os.stat("/proc/self/ns/pid").st_ino == leftovers._FIRST_PROCESSES:
        assert told["shm"] == []
        own = temporary / f"stackproof-launches-{os.geteuid()}"
        assert set(told["temporary"]) <= {str(temporary), str(own)}
    for name in ("whole", "killed"):
        results = load_results(tmp_path / name)
        # A launch that lost its ranks is made again, and kept beside.
        # Ranks killed after their last word make such a launch, too: only its end tells.
        assert sum(one.usable and one.output.complete for one in results.measurements) == 3
