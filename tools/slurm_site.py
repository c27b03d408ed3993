"""A Slurm cluster on this machine with the plug-in, two users and images; what it must not keep.

Used by `slurm_matrix.py`. Everything is looked at from outside, as root of the machine: whatever is
in a namespace of the cluster has a process, a mount or a loop device here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stackproof.core.value import Value

USERS = {"alice": 42001, "bob": 42002}
_SECONDS = 60.0
# From 8 nodes on, the slurmstepd of the first node waits a minute for those below it that are gone
# with their node (REVERSE_TREE_CHILDREN_TIMEOUT of Slurm's slurmstepd), image or not.
_SETTLE_SECONDS = 100.0
_PAUSE = 0.05
_CPUS = 4
# The topology and the socket of a slurmstepd, which stay when it is killed; credentials.
_OF_SLURM = re.compile(r"/(hwloc_topo_[\d.]+\.xml|node\d+_[\d.]+|cred_state.*|.*\.pid)$")

# Prints who it is and what it sees: `seen HOST RANK NAMES MARKER VIEWS`, and waits where HOLD says
# so. NAMES are the folders below /mnt in which something can be read, joined by `+`.
_SEEN = """#!/bin/sh
names=
for folder in /mnt/*; do
  [ ! -r "$folder/meta/env.json" ] || names="$names${names:++}${folder##*/}"
done
rank=${PMI_RANK:-${SLURM_PROCID:-0}}
echo "seen $(uname -n) $rank ${names:--} ${STACKPROOF_MOUNTED:--} $MPI_VIEW_ONE$MPI_VIEW_TWO"
[ -z "$HOLD" ] || {
  : >"$HOLD/$(uname -n).$SLURM_JOB_ID.$SLURM_STEP_ID.$rank"
  while [ ! -e "$HOLD/go" ]; do sleep 0.05; done
}
"""


class Wrong(Exception):  # noqa: N818 - what a case says when it is not as it should be
    """Why a case failed."""


def expect(holds: object, what: str) -> None:
    """Raise `Wrong` unless something holds."""
    if not holds:
        raise Wrong(what)


class Seen(Value, kw_only=False):
    """One line of a task: what it saw."""

    host: str
    rank: int
    names: str
    marker: str
    views: str


class Ended(Value, kw_only=False):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def seen(self) -> list[Seen]:
        """Return the lines of the tasks, by rank."""
        return read_seen(self.out)


def read_seen(text: str) -> list[Seen]:
    """Return the lines of tasks in a text, by rank."""
    found = []
    for line in text.splitlines():
        words = line.split(" ")
        if words[0] == "seen":
            found.append(Seen(words[1], int(words[2]), words[3], words[4], words[5]))
    return sorted(found, key=lambda item: item.rank)


class Site:
    """The cluster, its images, and what was there before the first job."""

    def __init__(
        self, folder: Path, *, nodes: int, plugin: Path, name: str, settings: Sequence[str] = (),
        python: str = sys.executable,
    ) -> None:  # fmt: skip
        """Take what the site is made of; `python` runs stackproof for its users."""
        self.folder = folder
        self._python = python
        self.nodes = nodes
        self.name = name
        self._plugin = plugin
        self._settings = settings
        self._before: set[str] = set()
        self._head = ""
        self.seen = str(folder / "seen.sh")
        self.program = str(folder / "stackproof")

    # -------------------------------------------------------------------------------- up and down

    def up(self) -> None:
        """Make images and users' folders, start the cluster, and look at it once."""
        if not os.path.exists(self.seen):
            self._make_files()
        self._before = set()
        self._cluster(
            "up", "--slurm", "--nodes", str(self.nodes), "--cpus", str(_CPUS),
            *(word for user, uid in USERS.items() for word in ("--user", f"{user}:{uid}")),
            "--share", str(self.folder), *self._shared_python(),
            *(word for line in self._settings for word in ("--set", line)),
            "--spank", f"{self.folder}/stackproof_spank.so=stackproof={self.program}",
        )  # fmt: skip
        self._head = str(self._state()["head"]["pid"])
        self.run(
            "sh", "-c", "mkdir /etc/stackproof && cat >/etc/stackproof/mount.conf", user=None,
            text="".join(f"mount-point = /mnt/{name}\n" for name in ("one", "two", "mpi")),
        )  # fmt: skip
        for node in (None, *self.node_names):
            self.prepare_node(node)
        self.srun("true", user="alice")
        self.srun("true", user="bob")
        self.settle()
        self.remember()

    def renew(self) -> None:
        """Start the cluster again, without what a case may have left."""
        self.down()
        for text in self.loops():
            subprocess.run(["losetup", "--detach", f"/dev/{text.split()[0]}"], check=False)  # noqa: S603, S607 - a number that losetup printed
        self.up()

    def _make_files(self) -> None:
        self.folder.chmod(0o755)
        write_program(self.folder / "seen.sh", _SEEN)
        write_program(
            self.folder / "stackproof", f'#!/bin/sh\nexec {self._python} -m stackproof "$@"\n'
        )
        for user, number in USERS.items():
            (self.folder / user).mkdir()
            os.chown(self.folder / user, number, number)
        for image in ("one", "two"):
            self.make_image(image)
        shutil.copy(self._plugin, self.folder / "stackproof_spank.so")
        helper = self._plugin.parents[1] / "helper/stackproof-mount"
        if helper.exists():
            shutil.copy(helper, self.folder)
            (self.folder / helper.name).chmod(0o4755)

    def down(self) -> None:
        """Take the cluster down."""
        self._cluster("down")

    @property
    def node_names(self) -> tuple[str, ...]:
        """Return node1, node2, ...."""
        return tuple(f"node{number}" for number in range(1, self.nodes + 1))

    def prepare_node(self, node: str | None) -> None:
        """Make the mount points of a node or of the head, as its administrator would."""
        script = "mount -t tmpfs -o mode=755 tmpfs /mnt && mkdir /mnt/one /mnt/two /mnt/mpi"
        self.run("sh", "-c", script, user=None, node=node)

    def kill(self, node: str) -> None:
        """Take a node away at once."""
        self._cluster("kill", node)

    def _cluster(self, *words: str) -> str:
        argv = [sys.executable, "-m", "stackproof", "cluster", *words, "--name", self.name]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603 - words of our own tests
        expect(done.returncode == 0, f"cluster {words[0]}: {done.stderr.strip()}")
        return done.stdout

    def _shared_python(self) -> list[str]:
        """Return the options that let nodes see a Python below /tmp, which is their own."""
        paths = {sys.prefix, sys.base_prefix, str(Path(__file__).resolve().parents[1])}
        paths.add(str(Path(self._python).parents[2]))  # environment, and what lies beside it
        return [word for path in sorted(paths) if path.startswith("/tmp/")  # noqa: S108 - as above
                for word in ("--share", path)]  # fmt: skip

    def make_image(self, name: str, *, mount: str | None = None) -> Path:
        """Make an image for /mnt/NAME with the views `default` and `other`."""
        mount = mount or f"/mnt/{name}"
        variable = f"MPI_VIEW_{name.upper()}"
        views = {
            view: {"root": mount, "env": {"values": {"scalar": {variable: f"{name}-{view}"}}}}
            for view in ("default", "other")
        }
        data = {"name": name, "mount": mount, "default-view": "default", "views": views}
        tree = self.folder / f"{name}.tree"
        (tree / "meta").mkdir(parents=True)
        (tree / "meta" / "env.json").write_text(json.dumps(data))
        image = self.folder / f"{name}.squashfs"
        options = ("-all-root", "-noappend", "-no-progress", "-quiet")
        argv = ["mksquashfs", str(tree), str(image), *options]
        subprocess.run(argv, check=True, timeout=60, capture_output=True)  # noqa: S603 - words of our own tests
        shutil.rmtree(tree)
        image.chmod(0o644)
        return image

    # ------------------------------------------------------------------------------------ commands

    def argv(self, *words: str, user: str | None, node: str | None = None) -> list[str]:
        """Return the argv that runs a command on the head or a node, as root or a user."""
        where = [*(("--on", node) if node else ()), *(("--as", user) if user else ())]
        start = [sys.executable, "-m", "stackproof", "cluster", "exec", "--name", self.name]
        return [*start, *where, "--", *words]

    def run(
        self,
        *words: str,
        user: str | None,
        node: str | None = None,
        text: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Ended:
        """Run a command to its end; in the folder of the user, with a small environment."""
        done = subprocess.run(  # noqa: S603 - words of our own tests
            self.argv(*words, user=user, node=node), cwd=self._folder_of(user), text=True,
            input=text or "", env=self.environment(env), capture_output=True, timeout=_SECONDS,
            check=False,
        )  # fmt: skip
        return Ended(done.returncode, done.stdout, done.stderr)

    def _folder_of(self, user: str | None) -> Path:
        return self.folder / user if user else self.folder

    @staticmethod
    def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return a small environment: nothing of the caller's may decide a case."""
        return {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C", **(more or {})}

    def srun(self, *words: str, user: str = "alice", env: Mapping[str, str] | None = None) -> Ended:
        """Run srun with one task on each node, unless the words say more."""
        count = str(self.nodes)
        return self.run("srun", "-N", count, "-n", count, *words, user=user, env=env)

    def batch(
        self,
        script: str,
        *words: str,
        user: str = "alice",
        env: Mapping[str, str] | None = None,
    ) -> tuple[str, Path]:
        """Submit a script; return the job's number and the file of its output."""
        out = self.folder / user / f"out-{time.monotonic_ns()}"
        words = ("sbatch", "--parsable", "-o", str(out), "-N", str(self.nodes), *words)
        done = self.run(*words, user=user, text=f"#!/bin/sh\n{script}\n", env=env)
        expect(done.code == 0, f"sbatch: {done.err.strip()}")
        return done.out.strip(), out

    def state(self, job: str) -> str:
        """Return the state of a job in Slurm's words, all of them where it has several parts."""
        return self.run("squeue", "-h", "-t", "all", "-j", job, "-o", "%T", user=None).out.strip()

    def await_job(self, job: str, *wanted: str) -> None:
        """Wait until every part of a job is in one of these states."""
        await_that(
            lambda: bool(parts := set(self.state(job).split())) and parts <= set(wanted),
            lambda: f"job {job} is {self.state(job)}",
        )

    # ---------------------------------------------------------------------------------- held tasks

    def hold(self) -> Hold:
        """Return a place where tasks wait."""
        return Hold(self.folder)

    @contextmanager
    def held(
        self, *words: str, tasks: int, user: str = "alice"
    ) -> Iterator[tuple[Hold, subprocess.Popen[str]]]:
        """Run a command whose tasks wait; go on when they all do. They are let go at the end."""
        hold = self.hold()
        process = subprocess.Popen(  # noqa: S603 - words of our own tests
            self.argv(*words, user=user), cwd=self._folder_of(user), text=True,
            env=self.environment({"HOLD": str(hold.folder)}), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            hold.await_tasks(tasks, process)
            yield hold, process
        finally:
            hold.go()
            if process.poll() is None:
                try:
                    process.wait(_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
            for stream in (process.stdout, process.stderr):
                if stream and process.returncode is not None and not stream.closed:
                    stream.read()
                    stream.close()

    # ------------------------------------------------------------------------------ what is left

    def _processes(self, first: str = "") -> Iterator[tuple[Path, dict[str, str]]]:
        """Yield the folder in /proc and the status of a process and all that it has started.

        `first` is its number; without it they are those of the cluster.
        """
        first = first or self._head
        statuses = {}
        for process in Path("/proc").glob("[0-9]*"):
            try:
                lines = (process / "status").read_text().splitlines()
            except OSError:  # it has just ended
                continue
            statuses[process.name] = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        for number, status in statuses.items():
            ancestor = number
            while ancestor in statuses and ancestor != first:
                ancestor = statuses[ancestor]["PPid"]
            if ancestor == first:
                yield Path("/proc") / number, status

    def mounts(self) -> list[str]:
        """Return the mounts of our images in any process of the cluster, as `PID MOUNT`."""
        found = []
        for process, _ in self._processes():
            try:
                lines = (process / "mountinfo").read_text().splitlines()
            except OSError:
                continue
            found += [
                f"{process.name} {line.split()[4]}"
                for line in lines
                if " - squashfs " in line and line.split()[4].startswith("/mnt/")
            ]
        return found

    def loops(self) -> list[str]:
        """Return the loop devices that have one of our images."""
        found = []
        for file in Path("/sys/block").glob("loop*/loop/backing_file"):
            try:
                image = file.read_text().strip()
            except OSError:
                continue
            if image.startswith(str(self.folder)):
                found.append(f"{file.parts[3]} {image}")
        return found

    def processes(self) -> list[str]:
        """Return the processes of the cluster's users, and slurmstepds, as `PID NAME`."""
        return [
            f"{process.name} {status['Name']}"
            for process, status in self._processes()
            if int(status["Uid"].split()[0]) in USERS.values() or status["Name"] == "slurmstepd"
            if "Z" not in status["State"]
        ]

    def below(self, process: subprocess.Popen[str], name: str) -> list[str]:
        """Return the numbers of the programs `name` that a command on the head has become."""
        found = self._processes(str(process.pid))
        return [folder.name for folder, status in found if status["Name"] == name]

    def _files(self) -> set[str]:
        """Return what lies in the nodes' own folders, but for what Slurm keeps for itself."""
        found = set()
        for node, pid in self._first_processes().items():
            root = f"/proc/{pid}/root"
            for folder in ("/tmp", "/dev/shm", "/var/spool/slurmd"):  # noqa: S108 - looked at
                paths = _entries(root + folder)
                found |= {f"{node}:{path.removeprefix(root)}" for path in paths}
        return {path for path in found if not _OF_SLURM.search(path)}

    def _first_processes(self) -> dict[str, int]:
        """Return the first process of each node."""
        return {node["name"]: node["pid"] for node in self._state()["nodes"]}

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self._cluster("status", "--json"))
        return state

    def remember(self) -> None:
        """Take the files that are there now for those that may be there."""
        self._before = self._files()

    def leftovers(self) -> list[str]:
        """Return everything that a job has left, and nodes that are not idle."""
        nodes = self.run("sinfo", "-h", "-N", "-o", "%N %T", user=None).out.splitlines()
        return [
            *(f"mount {text}" for text in self.mounts()),
            *(f"loop device {text}" for text in self.loops()),
            *(f"process {text}" for text in self.processes()),
            *(f"node {text}" for text in nodes if not text.endswith(" idle")),
        ]

    def settle(self) -> None:
        """Wait until nothing is left; raise `Wrong` where something stays."""
        await_that(
            lambda: not self.leftovers(),
            lambda: "left: " + "; ".join(self.leftovers()),
            seconds=_SETTLE_SECONDS,
        )
        extra = self._files() - self._before if self._before else set()
        expect(not extra, f"left: {', '.join(sorted(extra))}")


def _entries(top: str) -> Iterator[str]:
    """Return everything in a folder that is on the same file system."""
    device = os.stat(top).st_dev
    for parent, folders, files in os.walk(top):
        folders[:] = [name for name in folders if os.lstat(f"{parent}/{name}").st_dev == device]
        yield from (f"{parent}/{name}" for name in (*folders, *files))


class Hold:
    """A folder where each task leaves a file, and waits for the file `go`."""

    def __init__(self, parent: Path) -> None:
        self.folder = parent / f"hold-{time.monotonic_ns()}"
        self.folder.mkdir()
        self.folder.chmod(0o1777)

    def waiting(self) -> int:
        """Return how many tasks wait here."""
        return len(list(self.folder.iterdir())) - (self.folder / "go").exists()

    def await_tasks(self, count: int, process: subprocess.Popen[str] | None = None) -> None:
        """Wait until `count` tasks wait here."""

        def done() -> bool:
            if process and process.poll() is not None and self.waiting() < count:
                raise Wrong(f"it ended: {process.communicate()}")
            return self.waiting() >= count

        await_that(done, lambda: f"{self.waiting()} of {count} tasks have come")

    def go(self) -> None:
        """Let the tasks go on."""
        (self.folder / "go").touch()


def await_that(
    holds: Callable[[], bool], otherwise: Callable[[], str], *, seconds: float = _SECONDS
) -> None:
    """Wait until something holds; raise `Wrong` with what `otherwise` says when it is too late."""
    end = time.monotonic() + seconds
    while not holds():
        expect(time.monotonic() < end, otherwise())
        time.sleep(_PAUSE)


def write_program(path: Path, text: str) -> None:
    """Write an executable file."""
    path.write_text(text)
    path.chmod(0o755)


def output_of(process: subprocess.Popen[str]) -> Ended:
    """Return how a process ended, and what it wrote."""
    out, err = process.communicate(timeout=_SECONDS)
    return Ended(process.returncode, out, err)


def names(seen: Sequence[Seen]) -> set[str]:
    """Return what tasks saw, all together."""
    return {item.names for item in seen}
