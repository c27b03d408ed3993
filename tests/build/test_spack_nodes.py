"""An installation on the nodes of a Slurm job for real: joined, cut short, lost, not to be seen.

The program that is run is a script in the place of Spack but for one test, which has the real one.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tinysources
from clusters import inside, told, wait_until
from need import need
from stackproof.build.engines.spack.effects import nodes as spack_nodes
from stackproof.build.engines.spack.workers import Workers
from stackproof.cluster.effects import up as cluster_up
from stackproof.cluster.model import ClusterSpec, ClusterState
from stackproof.cluster.slurm import MUNGE_SOCKET, SlurmSpec
from stackproof.core.command import Command, Completed
from stackproof.core.errors import Reason, StackproofError
from stackproof.core.monitor import Event

pytestmark = pytest.mark.machine

SETTINGS = ("SlurmdTimeout=5", "KillWait=1", f"AuthInfo=socket={MUNGE_SOCKET},cred_expire=5")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterState]:
    need("slurm", "netns")
    runtime = tmp_path_factory.mktemp("runtime")
    runtime.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", os.fspath(runtime))
        name = f"workers-{os.getpid()}"
        spec = ClusterSpec(name=name, nodes=2, slurm=SlurmSpec(pin=False, settings=SETTINGS))
        try:
            yield cluster_up.up(spec)
        finally:
            cluster_up.down(name)


def install(
    cluster: ClusterState, folder: Path, script: str, **more: object
) -> tuple[Completed, list[str], list[Event]]:
    """Run a script as both workers, in a folder that they share."""
    lines: list[str] = []
    events: list[Event] = []
    done = spack_nodes.install(
        Command(argv=("sh", "-c", textwrap.dedent(script), os.fspath(folder), "install")),
        Workers(nodes=2, cluster=cluster.name, **more),  # type: ignore[arg-type]
        folder,
        events.append,
        log=folder / "logs" / "install-1.log",
        watch=lines.append,
    )
    return done, lines, events


def test_both_nodes_work_and_the_first_good_end_counts(
    cluster: ClusterState, tmp_path: Path
) -> None:
    done, lines, _ = install(
        cluster,
        tmp_path,
        """
        echo "at $SLURMD_NODENAME with $2"; umask > "$0/mask.$SLURMD_NODENAME"
        case "$SLURMD_NODENAME" in node2) exit 3;; esac
        """,
    )
    assert done.returncode == 0
    cores = len(os.sched_getaffinity(0))
    assert sorted(lines) == [f"at node1 with --jobs={cores}", f"at node2 with --jobs={cores}"]
    assert done.stdout.decode().splitlines()[:2] == sorted(lines)
    assert {path.read_text() for path in tmp_path.glob("mask.*")} == {"0022\n"}
    assert "--nodes=2" in (tmp_path / "logs" / "install-1.log").read_text()


def test_nobody_ends_well(cluster: ClusterState, tmp_path: Path) -> None:
    done, _, _ = install(cluster, tmp_path, "echo the reason; exit 5", jobs=3)
    assert done.returncode == 5
    assert done.stdout.decode().splitlines()[:2] == ["the reason", "the reason"]


def test_slurm_refuses(cluster: ClusterState, tmp_path: Path) -> None:
    with pytest.raises(StackproofError) as caught:
        install(cluster, tmp_path, "true", options={"partition": "none"})
    assert caught.value.reason is Reason.JOB_FAILED
    assert "none" in (caught.value.problems[0].detail or "")


def test_a_folder_that_the_nodes_do_not_see(cluster: ClusterState) -> None:
    """A file of the same name is not enough: nodes have a /dev/shm of their own."""
    here = Path(f"/dev/shm/stackproof-test-{os.getpid()}")
    here.mkdir()
    try:
        told(cluster, "node1", "sh", "-c", f"mkdir {here}; echo '{{}}' > {here}/workers.json")
        with pytest.raises(StackproofError) as caught:
            install(cluster, here, "true")
    finally:
        subprocess.run(["rm", "-r", here], check=True)
        inside(cluster, "node1", "rm", "-r", str(here))
    assert caught.value.reason is Reason.FILE_MISSING
    assert "`node1`" in caught.value.problems[0].message
    assert "`node2`" in caught.value.problems[0].message


def test_an_interrupt_ends_what_runs_on_the_nodes(cluster: ClusterState, tmp_path: Path) -> None:
    code = f"""
        import sys
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        from pathlib import Path
        from stackproof.cluster.effects import up as host_cluster
        from test_spack_nodes import install
        try:
            install(host_cluster.reach({cluster.name!r}), Path({os.fspath(tmp_path)!r}),
                    'echo x > $0/began.$SLURMD_NODENAME; sleep 100')
        except KeyboardInterrupt:
            sys.exit(130)
    """
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], env=env)
    try:
        assert wait_until(lambda: len(list(tmp_path.glob("began.*"))) == 2, 30)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.wait()
    queue = ("squeue", "--noheader", "--states=running,pending")
    assert wait_until(lambda: not told(cluster, None, *queue), 30)


def test_in_a_job_its_nodes_are_used(cluster: ClusterState, tmp_path: Path) -> None:
    code = f"""
        import sys
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        from pathlib import Path
        from stackproof.core.command import Command
        from stackproof.build.engines.spack.workers import Workers
        from stackproof.build.engines.spack.effects import nodes as spack_nodes
        folder = Path({os.fspath(tmp_path)!r})
        command = Command(argv=("sh", "-c", "echo at $SLURMD_NODENAME in $SLURM_JOB_ID", "install"))
        done = spack_nodes.install(command, Workers(nodes=2), folder, print,
                                   log=folder / "install-1.log", watch=print)
        sys.exit(done.returncode)
    """
    cluster_up.share(cluster, (os.fspath(tmp_path),))
    own = {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    words = ("salloc", "--quiet", "--nodes=2", sys.executable, "-c", textwrap.dedent(code))
    lines = [line for line in told(cluster, None, *words, **own).splitlines() if "at node" in line]
    assert [line.split()[1] for line in sorted(lines)] == ["node1", "node2"]
    assert len({line.split()[-1] for line in lines}) == 1


def test_spack_itself_on_two_nodes(cluster: ClusterState, tmp_path: Path) -> None:
    need("spack", "bubblewrap", "mksquashfs", "gcc")
    _, recipe = tinysources.write_recipes(tmp_path, tinysources.fill(tmp_path / "mirror"))
    argv = [sys.executable, "-m", "stackproof", "build", os.fspath(recipe), "--site", "site",
            "--mirror", "mirror"]  # fmt: skip
    nodes = ["--on", "slurm", "--nodes", "2", "--cluster", cluster.name]
    cache = Path(os.environ["STACKPROOF_CACHE"])
    digests = set()
    for more in (nodes, ["--in-memory=no"]):
        for home in cache.glob("builds/tiny-*"):
            shutil.rmtree(home)
        shutil.rmtree(cache / "spack" / "packages", ignore_errors=True)
        done = subprocess.run([*argv, *more, "--json"], cwd=tmp_path, capture_output=True,
                              text=True, timeout=900, check=False)  # fmt: skip
        assert done.returncode == 0, done.stderr
        digests.add(json.loads(done.stdout)["sha256"])
        (log,) = cache.glob("builds/tiny-*/logs/install-default-1.log")
        ends = [line for line in log.read_text().splitlines() if '"code": 0' in line]
        assert len(ends) == (2 if more is nodes else 0)
    assert len(digests) == 1


def test_a_lost_node_leaves_the_work_to_the_other(cluster: ClusterState, tmp_path: Path) -> None:
    """The last test: the cluster has a node less then."""

    def kill() -> None:
        if wait_until(lambda: len(list(tmp_path.glob("began.*"))) == 2, 30):
            cluster_up.kill(cluster.name, "node2")

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        begin = time.monotonic()
        done, _, events = install(
            cluster,
            tmp_path,
            """
            echo x > "$0/began.$SLURMD_NODENAME"
            case "$SLURMD_NODENAME" in node2) sleep 100;; *) sleep 2;; esac
            """,
        )
    finally:
        killer.join()
    assert time.monotonic() - begin < 90
    assert done.returncode == 0
    assert any("`node2` was lost" in event.text for event in events)
