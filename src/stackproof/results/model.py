"""A results folder as a value: what was asked for, every launch, and where its files lie."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from msgspec import field

from stackproof.core.errors import Problem
from stackproof.core.value import Value
from stackproof.results.digests import Integrity
from stackproof.results.measurement import Measurement
from stackproof.results.path import MessagePaths

SPECIFICATION = "bench.json"
ASKED = "spec.json"
LAUNCHES = "launches"
PROBES = "probes"
SET_ASIDE = "set-aside"
"""Names below a results folder: what is measured, the specification as it was asked for, launches,
what the probes found, and launches that do not count."""

RECOMMENDED_LAUNCHES = 10
"""Launches per arm below which nothing is judged unless asked for (docs/explanation/statistics)."""


class ComparedArm(Value):
    """What was compared: an image with its recipe and lock, or another kind of arm.

    `transport`, `env` and `rate` are what the specification asked of this arm alone. `kind` is what
    it is (`stackproof.bench.arms`; an image in results that do not say it), `asked` what the
    specification said, and `found` what that turned out to be, in words.
    """

    image: str = ""
    image_sha256: str = ""
    lock_digest: str = ""
    mpi: Mapping[str, Any] = field(default_factory=dict)
    recipe: str = ""
    lock: str = ""
    view: str | None = None
    transport: Any = None
    env: Mapping[str, str] = field(default_factory=dict)
    rate: Any = None
    kind: str = "image"
    asked: str = ""
    found: Mapping[str, str] = field(default_factory=dict)


class ResultsSpec(Value):
    """What was asked for and where it ran: the file `bench.json` of a results folder.

    `null` is the arm that is the baseline once more. `margins` are fractions by kind of metric;
    `launches` how many blocks were planned at most; `looks` after how many it was looked whether
    more are needed, empty when it was not; `equal` says that challengers must be neither
    slower nor faster than the baseline; `limits` maps a placement's name to `{"MB/s": number or
    null, "source": text}`, the limit of its link in one direction.
    """

    SCHEMA: ClassVar[str] = "stackproof/results/1"

    name: str
    baseline: str
    challengers: tuple[str, ...]
    null: str | None = None
    margins: Mapping[str, float] = field(default_factory=dict)
    launches: int = RECOMMENDED_LAUNCHES
    minimum_launches: int = RECOMMENDED_LAUNCHES
    seed: int = 0
    created: str = ""
    arms: Mapping[str, ComparedArm] = field(default_factory=dict)
    looks: tuple[int, ...] = ()
    equal: bool = False
    host: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    stackproof: str = ""
    versions: Mapping[str, Any] = field(default_factory=dict)


class Results(Value):
    """A results folder: the specification, every launch, and the files that could not be read.

    `paths` is what the probes before the launches found; `digests` what their digests tell,
    None for results that were never in a folder. `files` are the names of the launch files,
    in the order of `measurements`.
    """

    spec: ResultsSpec
    measurements: tuple[Measurement, ...]
    problems: tuple[Problem, ...] = ()
    paths: tuple[MessagePaths, ...] = ()
    digests: Integrity | None = None
    files: tuple[str, ...] = ()
