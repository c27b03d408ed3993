"""`stackproof site place PLACEMENT [-- COMMAND]`: a rank on its CPUs, its memory and its GPU."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path

from stackproof.core import limits, noun
from stackproof.core.cli.streams import print_table
from stackproof.core.effects import files
from stackproof.core.effects.libc import MountFailure
from stackproof.core.errors import Reason, fail
from stackproof.launch import places
from stackproof.launch.effects import task
from stackproof.launch.options import PlaceOptions
from stackproof.mount.effects import mount_exec
from stackproof.mpi import families
from stackproof.site import hwloc, topology
from stackproof.site.effects import node_files
from stackproof.site.sysfs import cpu_text


def run(options: PlaceOptions) -> int:
    """Become the command as this rank, or show what each rank gets."""
    if options.mpi and options.mpi not in families.REGISTRY:
        raise fail(
            Reason.INVALID_VALUE,
            f"there is no MPI `{options.mpi}`",
            hint=f"there are: {', '.join(families.REGISTRY)}",
        )
    if not options.rest:
        return _show(options)
    if options.topology or options.json or options.script:
        raise fail(
            Reason.USAGE, "`--topology`, `--json` and `--script` go without a command",
            hint="leave either out",
        )  # fmt: skip
    number = places.local_rank(os.environ)
    own = places.place_of(_places(options), number, options.placement)
    try:
        task.bind_cpus({*own.cpus})
        if own.memory is not None:
            task.bind_memory(own.memory)
        mount_exec.become(options.rest, {**os.environ, **own.variables})
    except MountFailure as failure:
        print(f"error: {failure.message}", file=sys.stderr)
        return failure.exit_code


def _places(options: PlaceOptions) -> tuple[places.NodeShare, ...]:
    """Return the share of each rank of the node; raises `StackproofError`."""
    if options.topology:
        path = Path(options.topology)
        inside = hwloc.parse_hwloc(files.read_bounded(path, limits.HWLOC), file=os.fspath(path))
        cpus = [cpu for core in inside.cores for cpu in core.cpus]
    else:
        inside = topology.seen(topology.parse_topology(node_files.gather()), os.environ)
        cpus = _all_cpus(inside)
    return places.share_node(options.placement, inside, cpus, options.mpi, os.environ)


def _all_cpus(inside: topology.Topology) -> list[int]:
    """Return the CPUs that the job has here, also where its launcher bound this rank to fewer.

    The kernel takes those away that the job's cgroup has not: sched_setaffinity(2).
    """
    if every := {cpu for core in inside.cores for cpu in core.cpus}:
        with contextlib.suppress(OSError):  # then it stays as it is bound
            os.sched_setaffinity(0, every)
    return sorted(os.sched_getaffinity(0))


def _show(options: PlaceOptions) -> int:
    shares = _places(options)
    if options.script:
        print(places.render_script(options.placement, shares), end="")
    elif options.json:
        print(json.dumps([noun.to_data(place) for place in shares], indent=1))
    else:
        rows = [
            [
                str(number), cpu_text(place.cpus), "" if place.numa is None else str(place.numa),
                "any" if place.memory is None else str(place.memory),
                " ".join(f"{key}={text}" for key, text in place.variables.items()),
            ]
            for number, place in enumerate(shares)
        ]  # fmt: skip
        print_table(("rank", "CPUs", "NUMA", "memory", "variables"), rows)
    return 0
