"""Why something failed, where, and what to do about it.

A `Reason` is the stable name of a kind of failure: it decides the exit code, and tests assert on
it, never on prose. Problems are collected and raised together in one `StackproofError`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class ExitCode(IntEnum):
    """Exit codes of every `stackproof` verb (documented in docs/reference/exit-codes.md)."""

    DONE = 0
    BUG = 1
    USAGE = 2
    INVALID = 3
    """A recipe, site, bench specification or lock is not valid."""
    NOT_POSSIBLE = 4
    """This machine lacks a tool, a right, a kernel feature, space or the network."""
    BUILD = 5
    """A build step failed."""
    IMAGE = 6
    """An image cannot be read or mounted."""
    JOB = 7
    """A benchmark job failed or its output cannot be trusted."""
    WORSE = 8
    """The comparison's verdict is FAIL."""
    INTERRUPTED = 130


class Reason(StrEnum):
    """The closed list of failure kinds."""

    BUG = "bug"
    USAGE = "usage"
    # documents
    FILE_MISSING = "file-missing"
    TOO_LARGE = "too-large"
    YAML_SYNTAX = "yaml-syntax"
    UNSAFE_TAG = "unsafe-tag"
    DUPLICATE_KEY = "duplicate-key"
    UNKNOWN_KEY = "unknown-key"
    MISSING_KEY = "missing-key"
    WRONG_TYPE = "wrong-type"
    INVALID_VALUE = "invalid-value"
    BAD_MOUNT_POINT = "bad-mount-point"
    UNKNOWN_VERSION = "unknown-version"
    UNSUPPORTED = "unsupported"
    LOCK_MISMATCH = "lock-mismatch"
    # machine
    TOOL_MISSING = "tool-missing"
    NO_USER_NAMESPACES = "no-user-namespaces"
    NO_FUSE = "no-fuse"
    NOT_PERMITTED = "not-permitted"
    NO_NETWORK = "no-network"
    DISK_FULL = "disk-full"
    BUSY = "busy"
    CLUSTER_DOWN = "cluster-down"
    CLUSTER_FAILED = "cluster-failed"
    # build
    DIGEST_MISMATCH = "digest-mismatch"
    BUILD_FAILED = "build-failed"
    # image
    IMAGE_MISSING = "image-missing"
    IMAGE_UNREADABLE = "image-unreadable"
    IMAGE_NOT_SQUASHFS = "image-not-squashfs"
    IMAGE_TRUNCATED = "image-truncated"
    IMAGE_NO_META = "image-no-meta"
    UNKNOWN_VIEW = "unknown-view"
    MOUNT_POINT_MISSING = "mount-point-missing"
    MOUNT_POINT_OCCUPIED = "mount-point-occupied"
    MOUNT_POINT_CLASH = "mount-point-clash"
    MOUNT_FAILED = "mount-failed"
    COMMAND_NOT_FOUND = "command-not-found"
    # job
    JOB_FAILED = "job-failed"
    RANK_CRASHED = "rank-crashed"
    JOB_TIMEOUT = "job-timeout"
    GARBAGE_OUTPUT = "garbage-output"
    TRUNCATED_OUTPUT = "truncated-output"
    VALIDATION_FAILED = "validation-failed"
    NODE_UNREACHABLE = "node-unreachable"
    SINGLETONS = "singletons"
    WRONG_PLACEMENT = "wrong-placement"
    WRONG_TRANSPORT = "wrong-transport"
    WRONG_MPI = "wrong-mpi"
    TOO_FEW_LAUNCHES = "too-few-launches"
    NO_RESULTS = "no-results"
    # verdict
    WORSE = "worse"
    INTERRUPTED = "interrupted"

    @property
    def exit_code(self) -> ExitCode:
        """Return the exit code that a command ends with for this reason."""
        return _EXIT_CODES[self]


def _codes(code: ExitCode, *reasons: Reason) -> dict[Reason, ExitCode]:
    return dict.fromkeys(reasons, code)


_EXIT_CODES: dict[Reason, ExitCode] = {
    Reason.BUG: ExitCode.BUG,
    Reason.USAGE: ExitCode.USAGE,
    **_codes(
        ExitCode.INVALID,
        Reason.FILE_MISSING, Reason.TOO_LARGE, Reason.YAML_SYNTAX, Reason.UNSAFE_TAG,
        Reason.DUPLICATE_KEY, Reason.UNKNOWN_KEY, Reason.MISSING_KEY, Reason.WRONG_TYPE,
        Reason.INVALID_VALUE, Reason.BAD_MOUNT_POINT, Reason.UNKNOWN_VERSION, Reason.UNSUPPORTED,
        Reason.LOCK_MISMATCH,
    ),
    **_codes(
        ExitCode.NOT_POSSIBLE,
        Reason.TOOL_MISSING, Reason.NO_USER_NAMESPACES, Reason.NO_FUSE, Reason.NOT_PERMITTED,
        Reason.NO_NETWORK, Reason.DISK_FULL, Reason.BUSY, Reason.CLUSTER_DOWN,
        Reason.CLUSTER_FAILED,
    ),
    **_codes(ExitCode.BUILD, Reason.DIGEST_MISMATCH, Reason.BUILD_FAILED),
    **_codes(
        ExitCode.IMAGE,
        Reason.IMAGE_MISSING, Reason.IMAGE_UNREADABLE, Reason.IMAGE_NOT_SQUASHFS,
        Reason.IMAGE_TRUNCATED, Reason.IMAGE_NO_META, Reason.UNKNOWN_VIEW,
        Reason.MOUNT_POINT_MISSING, Reason.MOUNT_POINT_OCCUPIED, Reason.MOUNT_POINT_CLASH,
        Reason.MOUNT_FAILED, Reason.COMMAND_NOT_FOUND,
    ),
    **_codes(
        ExitCode.JOB,
        Reason.JOB_FAILED, Reason.RANK_CRASHED, Reason.JOB_TIMEOUT, Reason.GARBAGE_OUTPUT,
        Reason.TRUNCATED_OUTPUT, Reason.VALIDATION_FAILED, Reason.NODE_UNREACHABLE,
        Reason.SINGLETONS, Reason.WRONG_PLACEMENT, Reason.WRONG_TRANSPORT, Reason.WRONG_MPI,
        Reason.TOO_FEW_LAUNCHES, Reason.NO_RESULTS,
    ),
    Reason.WORSE: ExitCode.WORSE,
    Reason.INTERRUPTED: ExitCode.INTERRUPTED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A place in a file; line and column count from 1, 0 when only the file is known."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong: what (`message`), where, and what to do (`hint`).

    `message` is lower case, without a full stop, literals in backticks. `detail` holds further
    lines that belong to the problem, such as the last lines of a log.
    """

    reason: Reason
    message: str
    hint: str | None = None
    where: Location | None = None
    detail: str | None = None

    def __str__(self) -> str:
        lines = [f"error: {self.message}"]
        if self.where:
            lines.append(f"  --> {self.where}")
        if self.detail:
            lines += [f"  | {line}" for line in self.detail.rstrip("\n").split("\n")]
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)


class StackproofError(Exception):
    """One or more problems that stop a command."""

    def __init__(self, *problems: Problem) -> None:
        if not problems:
            raise ValueError("a StackproofError needs at least one problem")
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems

    @property
    def reason(self) -> Reason:
        """Return the reason of the first problem, the one that decides the exit code."""
        return self.problems[0].reason


def fail(
    reason: Reason,
    message: str,
    *,
    hint: str | None = None,
    where: Location | None = None,
    detail: str | None = None,
) -> StackproofError:
    """Return a `StackproofError` of one problem, to be raised by the caller."""
    return StackproofError(
        Problem(reason=reason, message=message, hint=hint, where=where, detail=detail)
    )
