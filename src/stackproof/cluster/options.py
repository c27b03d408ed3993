"""Options of `cluster`."""

from __future__ import annotations

from stackproof.core import choices
from stackproof.core.options import Options, argument, flag, option, part

_NAME = option("NAME", "name of the cluster; default: default", default="default")
_JSON = flag("print the state as JSON")


class SlurmOptions(Options):
    """What is said of Slurm, in words; without `wanted` all others mean nothing."""

    wanted: bool = flag("start Slurm: its controller, and slurmd on each node", words="--slurm")
    users: tuple[str, ...] = option(
        "NAME:UID", "a user who exists in the cluster only; may be repeated", words="--user"
    )
    spank: tuple[str, ...] = option(
        "PLUGIN[=ARGUMENTS]", "SPANK plug-in for every job: the absolute path of its .so, and "
        "its arguments with blanks between them; may be repeated",
    )  # fmt: skip
    no_images: bool = flag(
        "do not load stackproof's own plug-in, which gives srun and sbatch --image; it is not "
        "loaded either where --spank names it, or --plugstack a whole configuration"
    )
    plugstack: str | None = option("FILE", "a whole plugstack.conf instead")
    cpus: str | None = option("N", f"CPUs that each node claims; default: {choices.NODE_CPUS}")
    no_pin: bool = flag("let each node run on all cores, not on one")
    settings: tuple[str, ...] = option(
        "KEY=VALUE", "a line of slurm.conf; may be repeated", words="--set"
    )


class ClusterUpOptions(
    Options,
    run="cluster.cli.cluster:run_up",
    text="bring a cluster up; nothing happens when the same one is up already",
):
    """What a cluster is to be like."""

    nodes: str = option("N", f"1 to {choices.MOST_NODES} nodes; default: 2", default="2")
    rate: str | None = option(
        "R", "rate of each link, such as 1gbit, 500mbit or 100MB/s (default: as fast as can be)"
    )
    delay: str | None = option(
        "D", "delay of what a node sends, such as 20us or 1ms (default: none)"
    )
    share: tuple[str, ...] = option(
        "PATH", "path below /tmp that the nodes see; each has a /tmp of its own otherwise"
    )
    slurm: SlurmOptions = part(SlurmOptions, "Slurm", "a cluster with Slurm needs root")
    name: str = _NAME
    json: bool = _JSON


class ClusterDownOptions(
    Options,
    run="cluster.cli.cluster:run_down",
    text="take a cluster down with everything that runs in it",
):
    """Which cluster ends."""

    name: str = _NAME
    json: bool = _JSON


class ClusterStatusOptions(
    Options,
    run="cluster.cli.cluster:run_status",
    text="show a cluster; exit code 4 when it is not up or not whole",
):
    """Which cluster is shown."""

    name: str = _NAME
    json: bool = _JSON


class ClusterListOptions(
    Options,
    run="cluster.cli.cluster:run_list",
    text="list the clusters of this user on this machine, and those that root brought up",
):
    """How clusters are listed."""

    json: bool = flag("print the list as JSON")


class ClusterExecOptions(
    Options,
    run="cluster.cli.cluster:run_exec",
    text="run a command in a cluster: on its head, or on a node",
    usage="stackproof cluster exec [--name NAME] [--on NODE] [--as USER] -- COMMAND [ARGUMENT…]",
    epilog="folder, environment and terminal are kept, signals passed on; exit codes: those of the "
    "command, 128+N when signal N killed it; 127 when it is not found, 126 when it cannot be "
    "executed; 2, 3 and 4 as everywhere when it was not started",
):
    """A command, and which node runs it as whom."""

    name: str = _NAME
    on: str | None = option("NODE", "node1, node2, …; default: head")
    who: str | None = option("USER", "a user of the cluster; default: who you are", words="--as")
    rest: tuple[str, ...] = argument("COMMAND", "what to run", rest=True, must=True)

    def refuse(self) -> None:
        """Raise `StackproofError` (USAGE) for a node that stands where its option would."""
        if self.rest[1:2] == ("--",) and self.rest[0].removeprefix("node").isdecimal():
            from stackproof.core.errors import Reason, fail  # noqa: PLC0415 - for this alone

            raise fail(
                Reason.USAGE,
                f"`{self.rest[0]}` is a node, and stands where the command begins",
                hint=f"name it by --on: stackproof cluster exec --on {self.rest[0]} -- …",
            )


class ClusterKillOptions(
    Options,
    run="cluster.cli.cluster:run_kill",
    text="take a node away at once, as a lost power supply does",
):
    """Which node goes."""

    node: str = argument("NODE", "node1, node2, …")
    name: str = _NAME
    json: bool = _JSON


ACTIONS = {
    "up": ClusterUpOptions,
    "down": ClusterDownOptions,
    "status": ClusterStatusOptions,
    "ls": ClusterListOptions,
    "exec": ClusterExecOptions,
    "kill": ClusterKillOptions,
}
