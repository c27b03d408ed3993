"""Options of `inject prove`."""

from __future__ import annotations

from stackproof.core import choices
from stackproof.core.options import WAIT_FOR_QUIET, Options, argument, flag, option, required


class ProveRequest(
    Options,
    run="prove.cli.prove:run",
    text="run a program with its own MPI, with another one and with a wrong one, and compare",
):
    """A proof, in the words of a command line."""

    replacement: str = required(
        "IMAGE|FOLDER", "what is injected: IMAGE[:MOUNT], or an MPI's prefix", words="--with"
    )
    own: str | None = option(
        "IMAGE|FOLDER", "the program's own MPI; left out: the one that it finds by itself"
    )
    wrong: str | None = option(
        "IMAGE|FOLDER", "an MPI that must be refused and must fail; left out: an installed one "
        "of another ABI",
    )  # fmt: skip
    ranks: int = option("N", "ranks (default: 2)", default=2)
    launches: int = option(
        "N", "launches of each arm for its speed (default: 10, the fewest; 0: leave speed out)",
        default=10,
    )  # fmt: skip
    wait_for_quiet: str | None = WAIT_FOR_QUIET
    cluster: str | None = option("NAME", "run on the nodes of this cluster")
    transport: str = option(
        choices.TRANSPORTS, "path of messages, for images (default: shm on one node, tcp between "
        "nodes)", default="",
    )  # fmt: skip
    variables: tuple[str, ...] = option("NAME=VALUE", "a variable for all arms", words="--set")
    expect: str = option("REGEX", "text that the output of a good run has", default="")
    timeout_s: float = option(
        "S", "seconds of a launch (default: 60)", words="--timeout", default=60.0
    )
    output: str = option("FOLDER", "results (default: proof)", words="-o --output", default="proof")
    json: bool = flag("print the proof as JSON")
    command: tuple[str, ...] = argument(
        "PROGRAM", "its path, or its name in --own's image; with arguments: -- PROGRAM ARGUMENT…"
    )


ACTIONS = {"prove": ProveRequest}
