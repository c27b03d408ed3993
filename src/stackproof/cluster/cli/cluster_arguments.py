"""Arguments of `cluster`."""

from __future__ import annotations

import argparse

from stackproof.core import choices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `cluster`."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, title="actions")
    text = "bring a cluster up; nothing happens when the same one is up already"
    up = actions.add_parser("up", help=text, description=text)
    up.add_argument(
        "--nodes", metavar="N", default="2", help=f"1 to {choices.MOST_NODES} nodes; default: 2"
    )
    up.add_argument(
        "--rate",
        metavar="R",
        help="rate of each link, such as 1gbit, 500mbit or 100MB/s (default: as fast as can be)",
    )
    up.add_argument(
        "--delay",
        metavar="D",
        help="delay of what a node sends, such as 20us or 1ms (default: none)",
    )
    up.add_argument(
        "--share", metavar="PATH", action="append", default=[],
        help="path below /tmp that the nodes see; each has a /tmp of its own otherwise",
    )  # fmt: skip
    _add_slurm(up)
    _add_common(up)
    up.set_defaults(run="cluster.cli.cluster:run_up")

    text = "take a cluster down with everything that runs in it"
    down = actions.add_parser("down", help=text, description=text)
    _add_common(down)
    down.set_defaults(run="cluster.cli.cluster:run_down")

    text = "show a cluster; exit code 4 when it is not up or not whole"
    status = actions.add_parser("status", help=text, description=text)
    _add_common(status)
    status.set_defaults(run="cluster.cli.cluster:run_status")

    text = "list the clusters of this user on this machine"
    every = actions.add_parser("list", help=text, description=text)
    every.add_argument("--json", action="store_true", help="print the list as JSON")
    every.set_defaults(run="cluster.cli.cluster:run_list")

    _add_exec(actions)
    _add_power(actions)


def _add_slurm(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("Slurm", "a cluster with Slurm needs root")
    group.add_argument(
        "--slurm", action="store_true", help="start Slurm: its controller, and slurmd on each node"
    )
    group.add_argument(
        "--user", metavar="NAME:UID", action="append", default=[],
        help="a user who exists in the cluster only; may be repeated",
    )  # fmt: skip
    group.add_argument(
        "--spank", metavar="PLUGIN[=ARGUMENTS]", action="append", default=[],
        help="SPANK plug-in for every job: the absolute path of its .so, and its arguments with "
        "blanks between them; may be repeated",
    )  # fmt: skip
    group.add_argument(
        "--no-images", action="store_true",
        help="do not load stackproof's own plug-in, which gives srun and sbatch --image; it is not "
        "loaded either where --spank names it, or --plugstack a whole configuration",
    )  # fmt: skip
    group.add_argument("--plugstack", metavar="FILE", help="a whole plugstack.conf instead")
    group.add_argument(
        "--cpus", metavar="N", help=f"CPUs that each node claims; default: {choices.NODE_CPUS}"
    )
    group.add_argument(
        "--no-pin", action="store_true", help="let each node run on all cores, not on one"
    )
    group.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[],
        help="a line of slurm.conf; may be repeated",
    )  # fmt: skip


def _add_exec(actions: Any) -> None:
    text = "run a command in a cluster: on its head, or on a node"
    run = actions.add_parser("exec", help=text, description=text)
    run.usage = (
        "stackproof cluster exec [--name NAME] [--on NODE] [--as USER] -- COMMAND [ARGUMENT…]"
    )
    run.add_argument("--name", default="default", help="name of the cluster; default: default")
    run.add_argument("--on", metavar="NODE", help="node1, node2, …; default: head")
    run.add_argument(
        "--as", metavar="USER", dest="who", help="a user of the cluster; default: who you are"
    )
    run.add_argument("rest", nargs=argparse.REMAINDER, metavar="COMMAND", help="what to run")
    run.epilog = (
        "folder, environment and terminal are kept, signals passed on; exit codes: those of the "
        "command, 128+N when signal N killed it; 127 when it is not found, 126 when it cannot be "
        "executed; 2, 3 and 4 as everywhere when it was not started"
    )
    run.set_defaults(run="cluster.cli.cluster:run_exec", parser=run)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", default="default", help="name of the cluster; default: default")
    parser.add_argument("--json", action="store_true", help="print the state as JSON")


def _add_power(actions: Any) -> None:
    for name, text in (
        ("kill", "take a node away at once, as a lost power supply does"),
        ("restart", "start a node again, as after a reboot"),
    ):
        action = actions.add_parser(name, help=text, description=text)
        action.add_argument("node", metavar="NODE", help="node1, node2, …")
        action.add_argument(
            "--daemon", action="store_true",
            help="only its Slurm daemon: slurmd, or slurmctld of `head`; jobs stay",
        )  # fmt: skip
        _add_common(action)
        action.set_defaults(run=f"cluster.cli.cluster:run_{name}")
