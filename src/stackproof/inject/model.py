"""What is said of an injection: a verdict, the way to do it, and every reason with its evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import ClassVar

from msgspec import field

from stackproof.core.value import Value


class Effect(StrEnum):
    """What a finding means for the program."""

    FAILS = "fails"
    """It does not start, crashes, or computes with single ranks."""
    CANNOT_TELL = "cannot-tell"
    """The files do not decide it."""
    STEP = "step"
    """It works when something more is done."""
    NOTE = "note"
    """Worth knowing; it changes nothing."""


class Cause(StrEnum):
    """The closed list of what can be found."""

    NO_LOADER = "no-loader"
    OTHER_C_LIBRARY = "other-c-library"
    STATIC = "static"
    NO_MPI = "no-mpi"
    NOT_INJECTED = "not-injected"
    LIBRARY_MISSING = "library-missing"
    LIBRARY_UNREADABLE = "library-unreadable"
    OTHER_MACHINE = "other-machine"
    VERSION_MISSING = "version-missing"
    NO_VERSIONS = "no-versions"
    SYMBOL_MISSING = "symbol-missing"
    OTHER_ABI = "other-abi"
    ABI_UNKNOWN = "abi-unknown"
    PARTIAL = "partial"
    MIXED = "mixed"
    TWO_VERSIONS = "two-versions"
    TWO_COPIES = "two-copies"
    COPY_SIZE = "copy-size"
    ALIAS = "alias"
    PRELOAD = "preload"
    RPATH = "rpath"
    RELOCATED = "relocated"
    LAUNCHER = "launcher"
    NAMESPACES = "namespaces"
    PLUGIN = "plugin"
    INSTRUCTIONS = "instructions"
    GTL = "gtl"
    GPU = "gpu"
    AUDIT = "audit"
    HOST = "host"
    OPENED_LATER = "opened-later"
    CONSTANTS = "constants"
    MORE_RIGHTS = "more-rights"
    UNNAMEABLE = "unnameable"
    TOOL = "tool"
    NOT_JUDGED = "not-judged"


class InjectionVerdict(StrEnum):
    """The answer for one program, the worst one last."""

    WORKS = "works"
    STEPS = "works-with-steps"
    UNKNOWN = "cannot-tell"
    FAILS = "fails"


class Finding(Value):
    """One reason: where it shows, and what to do.

    `file` is the object that asks, by default the program, `provider` the one that should answer;
    `symbols` are names that share the reason, `version` a version node. `before` says that it is so
    without the injection already.
    """

    cause: Cause
    effect: Effect
    message: str
    file: str = ""
    provider: str = ""
    symbols: tuple[str, ...] = ()
    version: str = ""
    remedy: str = ""
    before: bool = False


class Way(Value):
    """How the replacement is made: variables, links to be made, a new DT_RPATH, or nothing.

    `links` maps the path of a link to the file that it must point to, by its absolute path.
    `opened` is what whoever opens a module has opened before it, for all to see.
    """

    name: str
    library_path: tuple[str, ...] = ()
    preload: tuple[str, ...] = ()
    links: Mapping[str, str] = field(default_factory=dict)
    rpath: tuple[str, ...] = ()
    opened: tuple[str, ...] = ()


class TreeLine(Value):
    """One line of who loads what: `depth` from the program; `root` is the origin it belongs to.

    `again` says that the object stands further up, with all that it needs.
    """

    depth: int
    name: str
    path: str
    how: str
    root: str
    again: bool = False


class Judgement(Value):
    """The answer for one program and one replacement."""

    SCHEMA: ClassVar[str] = "stackproof/injection/1"

    program: str
    replacement: str
    verdict: InjectionVerdict
    abi: str
    family: str
    way: Way
    environment: Mapping[str, str]
    findings: tuple[Finding, ...]
    tree: tuple[TreeLine, ...]


def has_mpi_inside(judgement: Judgement) -> bool:
    """Return True for a program that runs as it is, and keeps the MPI that is a part of it."""
    fails = {one.cause for one in judgement.findings if one.effect is Effect.FAILS}
    return fails == {Cause.STATIC}


_VERDICTS = {
    Effect.NOTE: InjectionVerdict.WORKS,
    Effect.STEP: InjectionVerdict.STEPS,
    Effect.CANNOT_TELL: InjectionVerdict.UNKNOWN,
    Effect.FAILS: InjectionVerdict.FAILS,
}


def verdict_of(findings: Sequence[Finding]) -> InjectionVerdict:
    """Return the worst that the findings say."""
    return worst([_VERDICTS[finding.effect] for finding in findings])


def worst(verdicts: Sequence[InjectionVerdict]) -> InjectionVerdict:
    """Return the worst of some verdicts; works when there are none."""
    order = [*InjectionVerdict]
    return max(verdicts, key=order.index, default=InjectionVerdict.WORKS)
