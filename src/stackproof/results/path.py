"""The nouns of a probe: what an MPI, told to be talkative, said of the path of its messages."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from msgspec import field

from stackproof.core.value import Value
from stackproof.results.case import Locality, Placement
from stackproof.results.measurement import Check, RankFacts, State


class Medium(StrEnum):
    """What carries bytes from one rank to another, whoever drives it."""

    MEMORY = "shared memory"
    TCP = "TCP"
    SLINGSHOT = "Slingshot"


class Topic(StrEnum):
    """What a statement is about."""

    LAYER = "layer"
    """The part of the MPI that sends: `ob1`, `cm`, `ch4:ofi`, `shm:ofi`."""
    CARRIER = "carrier"
    """What one rank sends to another by, or to all peers of a locality."""
    PROVIDER = "provider"
    """The provider of libfabric that the MPI says it chose."""
    OPENED = "opened"
    """A provider that libfabric opened."""
    DEVICE = "device"
    """The network interface, NIC or domain."""
    LINK = "link"
    """What lnx joins."""
    SENT = "sent"
    """How many messages a part of lnx sent: `shm 42`."""
    COPY = "copy"
    """How large messages are copied inside a node: `cma`, `xpmem`."""
    VERSION = "version"
    """The release of a library: `libfabric 2.4.0`."""
    FALLBACK = "fallback"
    """The MPI's own words that it does not do what it was told."""


class Statement(Value):
    """One thing that was said, with the words it was said in.

    `rank` is who said it, None where that is not known; `peer` or `locality` of whom, None and
    empty for all.
    """

    topic: Topic
    value: str
    rank: int | None = None
    peer: int | None = None
    locality: str = ""
    quote: str = ""


class Override(Value):
    """A variable of the transport that ranks got with another value; `found` None: not at all."""

    name: str
    wanted: str
    found: str | None


class Route(Value):
    """The verdict on pairs of ranks whose messages took the same path.

    `carrier` says what it was, in words; `reason` is a value of `errors.Reason`.
    """

    locality: Locality
    pairs: tuple[tuple[int, int], ...]
    carrier: str
    state: State
    evidence: str
    reason: str = ""


class MessagePaths(Value):
    """What one probe of an arm at a placement found.

    `identity` tells whether a stored one still holds: a digest of images, variables, command line
    and placement. `expect` is the provider that was asked for, empty for none. `env` are the
    variables that the deployment set, `settings` those that made the MPI talk. `sent` are bytes by
    node and interface. `checks` are those of the launch that was the probe. `started` is UTC ISO
    8601, `seconds` its wall time. `quiet` says why the MPI had to be run without `settings`,
    `buffers` which way those in a GPU's memory took.
    """

    SCHEMA: ClassVar[str] = "stackproof/message-paths/1"

    arm: str
    placement: Placement
    transport: str
    family: str
    version: str
    launcher: str
    identity: str
    started: str
    seconds: float
    expect: str = ""
    program: str = ""
    mpi_library: str = ""
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    overrides: tuple[Override, ...] = ()
    statements: tuple[Statement, ...] = ()
    ranks: tuple[RankFacts, ...] = ()
    sent: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    routes: tuple[Route, ...] = ()
    checks: tuple[Check, ...] = ()
    quiet: str = ""
    buffers: str = ""

    @property
    def state(self) -> State:
        """Return the worst answer of all pairs; UNKNOWN when there is none."""
        states = {route.state for route in self.routes}
        for state in (State.BAD, State.UNKNOWN, State.OK):
            if state in states:
                return state
        return State.UNKNOWN
