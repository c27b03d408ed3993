"""Slurm's configuration for a cluster of one machine, as text: from a specification to files.

Keys are those that every release from 22.05 to 25.11 takes (src/common/read_config.c at their
tags); what is a default everywhere is left out, such as plug-ins named `none`, which newer releases
do without. Meanings: slurm.conf(5), mpi.conf(5), cgroup.conf(5), plugstack.conf in spank(7).
"""

from __future__ import annotations

import re

from stackproof.cluster import model, slurm
from stackproof.cluster.slurm import SlurmSpec, User

# Keys that may stand several times; a setting of one is a line more and replaces nothing.
_LISTS = frozenset({"nodename", "partitionname", "downnodes", "nodeset"})
_MEMORY_MB = 8000


def files(count: int, spec: SlurmSpec, *, version: str, logs: str) -> dict[str, str]:
    """Return the files of Slurm below /etc of a cluster with `count` nodes, by their path there.

    `version` is Slurm's, such as `22.05.8`; `logs` the folder of the daemons' logs.
    """
    return {
        "slurm/slurm.conf": slurm_conf(count, spec, logs=logs),
        "slurm/mpi.conf": mpi_conf(),
        "slurm/cgroup.conf": cgroup_conf(version),
        "slurm/plugstack.conf": plugstack_conf(spec),
    }


def slurm_conf(count: int, spec: SlurmSpec, *, logs: str) -> str:
    """Return slurm.conf."""
    lines = {key.lower(): f"{key}={value}" for key, value in _general(logs)}
    for setting in spec.settings:
        key = setting.partition("=")[0].lower()
        if key not in _LISTS:
            lines[key] = setting
    nodes = [
        f"NodeName={name} NodeAddr={model.address_of(name)} CPUs={spec.cpus} "
        f"RealMemory={_MEMORY_MB} State=UNKNOWN"
        for name in model.node_names(count)
    ]
    more = [line for line in spec.settings if line.partition("=")[0].lower() in _LISTS]
    partition = "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP"
    return _text(*lines.values(), *nodes, partition, *more)


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


def mpi_conf() -> str:
    """Return mpi.conf: PMIx clients without munge know only the server's `native` security.

    PMIxEnv is there since 22.05 (src/plugins/mpi/pmix/mpi_pmix.c at the tag slurm-22-05-8-1); psec
    is PMIx's framework for security.
    """
    return _text("PMIxEnv=PMIX_MCA_psec=native")


def cgroup_conf(version: str) -> str:
    """Return cgroup.conf: no plug-in that is configured needs control groups.

    From 24.05 on Slurm can be told so (`disabled`: cgroup.conf(5) of that release). Before, the
    plug-in for version 1 is the one that does nothing until it is asked for a group, while that for
    version 2 wants systemd (init() of src/plugins/cgroup/v1 and v2 at the tag slurm-22-05-8-1).
    """
    quiet = "disabled" if _release(version) >= (24, 5) else "cgroup/v1"
    return _text(f"CgroupPlugin={quiet}")


def plugstack_conf(spec: SlurmSpec) -> str:
    """Return plugstack.conf: what the user's file holds, then the single plug-ins.

    `required`, since a task that goes on without its plug-in would measure something else.
    """
    lines = ["include /etc/slurm/plugstack.user.conf"] if spec.plugstack else []
    lines += [" ".join(("required", plugin.inside, *plugin.arguments)) for plugin in spec.spank]
    return _text(*lines)


def passwd(host: str, users: tuple[User, ...]) -> str:
    """Return the text of /etc/passwd: the machine's, and the users of the cluster."""
    return _more(host, [f"{u.name}:x:{u.uid}:{u.gid}::{u.home}:/bin/sh" for u in users])


def group(host: str, users: tuple[User, ...]) -> str:
    """Return /etc/group: the machine's, and a group for each user of the cluster."""
    return _more(host, [f"{user.name}:x:{user.gid}:" for user in users])


def _more(text: str, lines: list[str]) -> str:
    begin = text if not text or text.endswith("\n") else text + "\n"
    return begin + "".join(f"{line}\n" for line in lines)


def _release(version: str) -> tuple[int, int]:
    """Return `(22, 5)` for 22.05.8; what is no version counts as the newest."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (999, 0)


def _text(*lines: str) -> str:
    return "\n".join(("# written by stackproof cluster", *lines)) + "\n"
