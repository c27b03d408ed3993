"""Slurm on a cluster that is up: its daemons, and what they say of themselves.

The cluster is the same with Slurm and without. Once its network is there, munged and slurmctld are
started on the head and a slurmd on each node, each as a child of the first process there, which
reaps it and with which it dies. One munged serves all: its socket is a file that all of them see.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from stackproof.cluster import model, slurm
from stackproof.cluster.effects import link, rights
from stackproof.cluster.effects import plugin as cluster_plugin
from stackproof.cluster.model import ClusterNode, ClusterSpec, ClusterState
from stackproof.cluster.slurm import NodeState, SlurmFacts, SlurmSpec, User
from stackproof.core.command import Command
from stackproof.core.effects.run import run
from stackproof.core.errors import Problem, Reason, StackproofError, fail
from stackproof.core.value import replace

# --------------------------------------------------------------------------------------------------
# Slurm's configuration for a cluster of one machine, as text: from a specification to files.
#
# Keys are those that every release from 22.05 to 25.11 takes (src/common/read_config.c at their
# tags); what is a default everywhere is left out, such as plug-ins named `none`, which newer
# releases do without. Meanings: slurm.conf(5), mpi.conf(5), cgroup.conf(5), plugstack.conf in
# spank(7).

# Keys that may stand several times; a setting of one is a line more and replaces nothing.
_LISTS = frozenset({"nodename", "partitionname", "downnodes", "nodeset"})
_MEMORY_MB = 8000


def conf_files(count: int, spec: SlurmSpec, *, version: str, logs: str) -> dict[str, str]:
    """Return the files of Slurm below /etc of a cluster with `count` nodes, by their path there.

    `version` is Slurm's, such as `22.05.8`; `logs` the folder of the daemons' logs.
    """
    # From 24.05 on Slurm can be told that nothing needs control groups (`disabled`: cgroup.conf(5)
    # of that release). Before, the plug-in for version 1 is the one that does nothing until it is
    # asked for a group, while that for version 2 wants systemd (init() of src/plugins/cgroup/v1 and
    # v2 at the tag slurm-22-05-8-1). What is no version counts as the newest.
    release = re.match(r"(\d+)\.(\d+)", version)
    old = release is not None and (int(release[1]), int(release[2])) < (24, 5)
    # The user's file, then the single plug-ins: `required`, since a task that goes on without its
    # plug-in would measure something else.
    plugins = ["include /etc/slurm/plugstack.user.conf"] if spec.plugstack else []
    plugins += [" ".join(("required", one.inside, *one.arguments)) for one in spec.spank]
    return {
        "slurm/slurm.conf": _text(*_slurm_conf(count, spec, logs)),
        # PMIx clients without munge know only the server's `native` security; psec is PMIx's
        # framework for it. Since 22.05 (src/plugins/mpi/pmix/mpi_pmix.c at that tag).
        "slurm/mpi.conf": _text("PMIxEnv=PMIX_MCA_psec=native"),
        "slurm/cgroup.conf": _text(f"CgroupPlugin={'cgroup/v1' if old else 'disabled'}"),
        "slurm/plugstack.conf": _text(*plugins),
    }


def _slurm_conf(count: int, spec: SlurmSpec, logs: str) -> list[str]:
    lines = {key.lower(): f"{key}={value}" for key, value in _general(logs)}
    more = []
    for setting in spec.settings:
        key = setting.partition("=")[0].lower()
        if key in _LISTS:
            more.append(setting)
        else:
            lines[key] = setting
    nodes = [
        f"NodeName={name} NodeAddr={model.address_of(name)} CPUs={spec.cpus} "
        f"RealMemory={_MEMORY_MB} State=UNKNOWN"
        for name in model.node_names(count)
    ]
    partition = "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP"
    return [*lines.values(), *nodes, partition, *more]


def _general(logs: str) -> tuple[tuple[str, str], ...]:
    return (
        ("ClusterName", "stackproof"),
        ("SlurmctldHost", f"{model.HEAD}({model.address_of(model.HEAD)})"),
        ("SlurmctldPort", str(slurm.CONTROLLER_PORT)),
        ("SlurmdPort", str(slurm.NODE_PORT)),
        ("SlurmUser", "root"),
        ("SlurmdUser", "root"),
        ("AuthType", "auth/munge"),
        ("AuthInfo", f"socket={slurm.MUNGE_SOCKET}"),
        ("CredType", "cred/munge"),
        ("StateSaveLocation", f"{slurm.CONTROLLER_SPOOL}/state"),
        ("SlurmctldPidFile", f"{slurm.CONTROLLER_SPOOL}/slurmctld.pid"),
        ("SlurmdSpoolDir", slurm.NODE_SPOOL),
        ("SlurmdPidFile", f"{slurm.NODE_SPOOL}/slurmd.pid"),
        ("SlurmctldLogFile", f"{logs}/slurmctld.log"),
        ("SlurmdLogFile", f"{logs}/slurmd-%n.log"),
        # Every finished job stays readable, also after MinJobAge.
        ("JobCompType", "jobcomp/filetxt"),
        ("JobCompLoc", f"{slurm.CONTROLLER_SPOOL}/jobcomp.txt"),
        ("MinJobAge", "3600"),
        ("MailProg", "/bin/true"),
        # By process tree: control groups of several clusters would share one name, and stay.
        ("ProctrackType", "proctrack/linuxproc"),
        ("SelectType", "select/cons_tres"),
        ("SelectTypeParameters", "CR_CPU"),
        # A node may claim more CPUs and memory than it finds.
        ("SlurmdParameters", "config_overrides"),
        # A job does not wait for the next round of the scheduler; sched_min_interval is in us.
        ("SchedulerParameters", "batch_sched_delay=0,sched_min_interval=50000,bf_interval=1"),
        ("PropagateResourceLimits", "NONE"),
        # A node that comes back is used again, whatever took it away.
        ("ReturnToService", "2"),
        ("SlurmdTimeout", "20"),
        ("KillWait", "3"),
        # A slurmstepd waits a minute for those below it that went with their node
        # (REVERSE_TREE_CHILDREN_TIMEOUT); a step called unkillable before that drains its node.
        ("UnkillableStepTimeout", "120"),
        ("PlugStackConfig", "/etc/slurm/plugstack.conf"),
    )


def with_users(name: str, host: str, users: tuple[User, ...]) -> str:
    """Return the text of /etc/passwd or /etc/group: the machine's, and the users of the cluster."""
    rows = {
        "passwd": [f"{u.name}:x:{u.uid}:{u.gid}::{u.home}:/bin/sh" for u in users],
        "group": [f"{user.name}:x:{user.gid}:" for user in users],
    }
    begin = host if not host or host.endswith("\n") else f"{host}\n"
    return begin + "".join(f"{line}\n" for line in rows[name])


def _text(*lines: str) -> str:
    return "\n".join(("# written by stackproof cluster", *lines)) + "\n"


_DAEMON_S = 30.0
_ASK_S = 10.0
_PAUSE_S = 0.01
_LISTEN = "0A"  # TCP_LISTEN in include/net/tcp_states.h, as /proc/net/tcp writes it
_KEY_BYTES = 1024
_TAIL_LINES = 12
_TOOLS = ("slurmctld", "slurmd", "srun", "sinfo", "scontrol", "munged", "taskset")
_BAD = re.compile(r"\b(error|fatal): ")
# States in which Slurm gives a node no job, or not yet; `*` after any: no answer. See sinfo(1).
_UNUSABLE = ("down", "unknown", "future", "power", "reboot")


def problems(spec: SlurmSpec, *, root: bool) -> tuple[Problem, ...]:
    """Return everything that keeps this machine from running that Slurm."""
    found: list[Problem] = []
    if not root:
        found.append(
            Problem(
                reason=Reason.NOT_PERMITTED,
                message="a cluster with Slurm needs root: its daemons start jobs as other users",
                hint=f"run it as root: {rights.as_root('cluster up --slurm …')}; or leave out "
                "--slurm: a cluster without it needs none",
            )
        )
    files = [(plugin.path, "SPANK plug-in") for plugin in spec.spank]
    files += [(spec.plugstack, "plugstack.conf")] if spec.plugstack else []
    found += [
        Problem(reason=Reason.FILE_MISSING, message=f"the {what} `{path}` does not exist")
        for path, what in files
        if not os.path.isfile(path)
    ]
    tables = _read("/etc/passwd") + _read("/etc/group")
    known = {line.split(":")[0] for line in tables.splitlines()}
    found += [
        Problem(
            reason=Reason.INVALID_VALUE,
            message=f"this machine has a user or group `{user.name}` already",
            hint="it is in the cluster without --user; choose another name for another user",
        )
        for user in spec.users
        if user.name in known
    ]
    return tuple(found)


def missing() -> tuple[str, ...]:
    """Return what Slurm needs and is not installed; with it what its plug-in for images needs.

    What the plug-in alone lacks keeps no cluster down, so that is nothing.
    """
    names = tuple(name for name in _TOOLS if not _find(name))
    return (*names, *cluster_plugin.missing()) if names else ()


def files(spec: ClusterSpec, folder: Path) -> dict[str, str]:
    """Return what a cluster with Slurm has below its /etc, by path there."""
    if spec.slurm is None:
        return {}
    wanted = conf_files(spec.nodes, spec.slurm, version=_version(), logs=os.fspath(_logs(folder)))
    if spec.slurm.plugstack:
        wanted["slurm/plugstack.user.conf"] = _read(spec.slurm.plugstack)
    if spec.slurm.users:
        for name in ("passwd", "group"):
            wanted[name] = with_users(name, _read(f"/etc/{name}"), spec.slurm.users)
    return wanted


def shared(spec: SlurmSpec) -> tuple[str, ...]:
    """Return the folders that its plug-ins and programs need; only those below /tmp matter."""
    tools = [os.path.dirname(path) for name in _TOOLS if (path := _find(name))]
    given = (os.path.dirname(plugin.path) for plugin in spec.spank if not plugin.copied)
    return (*given, *tools)


def start(state: ClusterState, spec: SlurmSpec) -> SlurmFacts:
    """Start the daemons and wait until every node can take a job.

    Raises `StackproofError` (CLUSTER_FAILED) with the ends of the daemons' logs.
    """
    _logs(Path(state.folder)).mkdir(mode=0o700)
    _make_spool(state, spec)
    try:
        _start_munged(state)
        _start_slurmctld(state)
        for node in state.nodes:
            _daemon(state, node.name, (_find("slurmd"), "-D"))
        facts = SlurmFacts(version=_version(), mpi=_mpi_types(state))
        for node in state.nodes:
            _await_node(state, node)
    except _NotReadyError as error:
        raise _failure(state, str(error)) from None
    return facts


class _NotReadyError(Exception):
    """What did not come up."""


# ----------------------------------------------------------------------------------------- daemons


def _start_slurmctld(state: ClusterState) -> None:
    _daemon(state, None, (_find("slurmctld"), "-D", "-i"))
    # A slurmd that finds no controller tries again only seconds later.
    log = _logs(Path(state.folder)) / f"{model.HEAD}.err"
    _await("slurmctld", log, lambda: _listens(state.head, slurm.CONTROLLER_PORT))


def dead(state: ClusterState) -> tuple[str, ...]:
    """Return the daemons that do not run on those nodes that live."""
    wanted = [
        (state.head, f"{slurm.SPOOL}/munge/munged.pid", "munged"),
        (state.head, f"{slurm.CONTROLLER_SPOOL}/slurmctld.pid", "slurmctld"),
        *((node, f"{slurm.NODE_SPOOL}/slurmd.pid", "slurmd") for node in state.nodes),
    ]
    return tuple(
        f"`{program}` on `{node.name}`"
        for node, path, program in wanted
        if node.alive and _daemon_pid(node, path, program) is None
    )


def with_faults(state: ClusterState) -> ClusterState:
    """Return a state with the daemons that have died, if there is a Slurm at all."""
    if state.slurm is None:
        return state
    return replace(state, slurm=replace(state.slurm, dead=dead(state)))


def _start_munged(state: ClusterState) -> None:
    spool = f"{slurm.SPOOL}/munge"
    argv = (
        _find("munged"), "--force", f"--socket={slurm.MUNGE_SOCKET}", f"--key-file={spool}/key",
        f"--pid-file={spool}/munged.pid", f"--seed-file={spool}/seed",
        f"--log-file={_logs(Path(state.folder))}/munged.log", "--num-threads=2",
    )  # fmt: skip
    # It goes into the background by itself, once it takes connections.
    done = run(Command(argv=model.enter_argv(state, None, argv), timeout_s=_DAEMON_S))
    if done.returncode != 0:
        raise _NotReadyError(f"munged: {done.stderr.decode(errors='replace').strip()}")


def _daemon(state: ClusterState, node: str | None, argv: tuple[str, ...]) -> None:
    """Start a program as a child of a node's first process.

    It keeps its log by itself; what it says before it does, or of its end, is in NODE.err.
    """
    environment = {"PATH": link.search_path(), "LANG": "C.UTF-8"}
    with open(_logs(Path(state.folder)) / f"{node or model.HEAD}.err", "wb") as errors:
        subprocess.run(  # noqa: S603 - Slurm's programs, named in full
            model.enter_argv(state, node, ("setsid", "--fork", *argv)),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
            env=environment, timeout=_DAEMON_S, check=False,
        )  # fmt: skip


def _make_spool(state: ClusterState, spec: SlurmSpec) -> None:
    """Make what the daemons and users write to, from outside, in the head's own /var/spool."""
    root = f"/proc/{state.head.pid}/root"
    for path in (f"{slurm.SPOOL}/munge", slurm.CONTROLLER_SPOOL, slurm.HOMES):
        os.mkdir(root + path, mode=0o755)
        os.chmod(root + path, 0o755)  # noqa: S103 - users reach munge and their homes
    os.mkdir(f"{root}{slurm.CONTROLLER_SPOOL}/state", mode=0o700)
    key = f"{root}{slurm.SPOOL}/munge/key"
    with open(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
        stream.write(os.urandom(_KEY_BYTES))
    if copied := [plugin for plugin in spec.spank if plugin.copied]:
        os.mkdir(root + slurm.PLUGINS, mode=0o755)
        os.chmod(root + slurm.PLUGINS, 0o755)  # noqa: S103 - every command of Slurm loads them
    for plugin in copied:
        shutil.copyfile(plugin.path, root + plugin.inside)
        os.chmod(root + plugin.inside, 0o755)  # noqa: S103 - the same
    for user in spec.users:
        os.mkdir(root + user.home, mode=0o700)
        os.chown(root + user.home, user.uid, user.gid)


# ------------------------------------------------------------------------------------------ looking


def node_states(state: ClusterState) -> tuple[NodeState, ...]:
    """Return the nodes as the controller sees them; empty without one that answers."""
    # sinfo itself waits long for a controller that is not there.
    if not state.slurm or not _listens(state.head, slurm.CONTROLLER_PORT):
        return ()
    argv = ("sinfo", "--noheader", "--Node", "--format=%N|%T|%E")
    done = run(Command(argv=model.enter_argv(state, None, argv), timeout_s=_ASK_S))
    if done.returncode != 0:
        return ()
    found: dict[str, NodeState] = {}
    for line in done.stdout.decode(errors="replace").splitlines():
        name, word, reason = line.split("|", 2)
        found[name] = NodeState(
            name=name, state=word, reason=None if reason in {"none", ""} else reason
        )
    return tuple(found[name] for name in sorted(found))


def _mpi_types(state: ClusterState) -> tuple[str, ...]:
    """Return what `srun --mpi` takes here; releases differ in which stream tells it."""
    argv = model.enter_argv(state, None, ("srun", "--mpi=list"))
    done = run(Command(argv=argv, timeout_s=_ASK_S))
    text = (done.stdout + done.stderr).decode(errors="replace")
    words = re.findall(r"^\s*(?:srun: )?([a-z0-9_]+)\s*$", text, re.MULTILINE)
    return tuple(sorted(set(words)))


def _daemon_pid(node: ClusterNode, path: str, program: str) -> int | None:
    """Return the pid of a living daemon as its node counts, by its file; None if there is none."""
    root = f"/proc/{node.pid}/root"
    try:
        pid = int(_read(root + path))
        with open(f"{root}/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:
            name, _, rest = stream.read().partition("(")[2].rpartition(")")
    except (OSError, ValueError):
        return None
    return pid if name == program and rest.split()[0] not in {"Z", "X"} else None


def _listens(node: ClusterNode, port: int) -> bool:
    """Return whether somebody listens there: looked up, as a connection would be an event."""
    with contextlib.suppress(OSError), open(f"/proc/{node.pid}/net/tcp", encoding="ascii") as table:
        for line in table:
            words = line.split()
            if words[1].endswith(f":{port:04X}") and words[3] == _LISTEN:
                return True
    return False


def _await_node(state: ClusterState, node: ClusterNode) -> None:
    """Wait until a node's slurmd listens and the controller has heard of it."""
    what, log = f"slurmd on {node.name}", _logs(Path(state.folder)) / f"{node.name}.err"
    _await(what, log, lambda: _listens(node, slurm.NODE_PORT))

    def usable() -> bool:
        return any(
            seen.name == node.name
            and not seen.state.endswith("*")
            and not seen.state.startswith(_UNUSABLE)
            for seen in node_states(state)
        )

    _await(what, log, usable)


def _await(what: str, log: Path, ready: Callable[[], bool]) -> None:
    end = time.monotonic() + _DAEMON_S
    while not ready():
        if "fatal:" in _read(log):
            raise _NotReadyError(f"{what} gave up")
        if time.monotonic() > end:
            raise _NotReadyError(f"{what} was not ready within {_DAEMON_S:.0f} s")
        time.sleep(_PAUSE_S)


def _failure(state: ClusterState, said: str) -> StackproofError:
    tails = []
    for path in sorted(_logs(Path(state.folder)).glob("*.err")):
        lines = [line for line in _read(path).splitlines() if _BAD.search(line)]
        tails += [f"{path.stem}: {line}" for line in lines[-_TAIL_LINES:]]
    return fail(
        Reason.CLUSTER_FAILED,
        f"Slurm did not start: {said}",
        detail="\n".join(tails) or None,
        hint="a line of --set may be wrong, or this machine's Slurm lacks a plug-in",
    )


def _logs(folder: Path) -> Path:
    return folder / "log"


def _version() -> str:
    done = run(Command(argv=(_find("slurmctld"), "-V"), timeout_s=_ASK_S))
    words = done.stdout.decode(errors="replace").split()
    return words[-1] if words else "unknown"


def _find(name: str) -> str:
    return shutil.which(name, path=link.search_path()) or ""


def _read(path: os.PathLike[str] | str) -> str:
    return Path(path).read_text(encoding="utf-8", errors="surrogateescape")
