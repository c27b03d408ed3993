"""Options of `site place`."""

from __future__ import annotations

from stackproof.core.options import Options, argument, flag, option


class PlaceOptions(
    Options,
    run="launch.cli.place:run",
    text="run each rank of a job on its own cores, memory and GPU, or show which these are",
    usage="stackproof site place PLACEMENT [OPTION…] [-- COMMAND [ARGUMENT…]]",
    epilog="exit codes: those of the command; 127 when it is not found, 126 when it cannot be "
    "executed; 2, 3 and 4 as everywhere when it was not started",
):
    """A placement as `bench` has it, and the program that each rank becomes.

    Without a program it is shown which CPUs, memory and devices each rank of a node gets.
    """

    placement: str = argument(
        "PLACEMENT", "nodes by ranks on each, and the parts of a node that they are dealt to, "
        "such as 1x4-by-gpu; with `-membind` behind it memory of the rank's NUMA node only",
    )  # fmt: skip
    mpi: str | None = option(
        "NAME", "give each rank the nearest NIC too, as this MPI is told of it, such as mpich or "
        "cray-mpich; default: the MPI chooses",
    )  # fmt: skip
    topology: str | None = option(
        "FILE", "show it for a node like that of this XML (`lstopo --of xml`); default: this one"
    )
    json: bool = flag("print the table as JSON")
    script: bool = flag(
        "print a script for bash that does the same with taskset and numactl, for nodes of this "
        "kind that have no stackproof", excludes="json",
    )  # fmt: skip
    rest: tuple[str, ...] = argument(
        "COMMAND", "what each rank becomes; default: nothing is started", rest=True, between=True
    )


SITE_ACTIONS = {"place": PlaceOptions}
