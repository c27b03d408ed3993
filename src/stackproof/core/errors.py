"""Why something failed, where, and what to do about it.

A `Reason` is the stable name of a kind of failure: it decides the exit code, and tests assert on
it, never on prose. Problems are collected and raised together in one `StackproofError`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from stackproof.core import harmless

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from typing import Self


class ExitCode(IntEnum):
    """Exit codes of every `stackproof` verb, and what they mean (docs/reference/exit-codes.md)."""

    text: str

    def __new__(cls, value: int, text: str = "") -> Self:
        """Make a member whose value is the code."""
        member = int.__new__(cls, value)
        member._value_ = value
        member.text = text
        return member

    DONE = 0, "The command did what it was asked."
    BUG = 1, "Stackproof itself is at fault."
    USAGE = 2, "The command line is wrong."
    INVALID = 3, "A recipe, site, bench specification, lock or other file is not valid."
    NOT_POSSIBLE = 4, "This machine lacks a tool, a right, a kernel feature, space or the network."
    BUILD = 5, "A build step failed."
    IMAGE = 6, "An image cannot be read or mounted."
    JOB = 7, "A benchmark job failed or its output cannot be trusted."
    WORSE = 8, "The verdict is FAIL: of a comparison, or of the check of an injection."
    UNKNOWN = 9, "No decision: of a comparison, of an injection, or on the cause of a failure."
    STEPS = 10, "The injection works, but only with the steps that were printed."
    NO_WORK = 11, "The work was not done: nothing ran, or every rank was alone."
    INTERRUPTED = 130, "The user, or a signal, stopped the command."


class Reason(StrEnum):
    """The closed list of failure kinds: the stable name, the exit code, and what it means."""

    exit_code: ExitCode
    text: str

    def __new__(cls, value: str, exit_code: ExitCode = ExitCode.BUG, text: str = "") -> Self:
        """Make a member whose value is its name in messages."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.exit_code = exit_code
        member.text = text
        return member

    # fmt: off
    BUG = "bug", ExitCode.BUG, "Stackproof itself is at fault."
    USAGE = "usage", ExitCode.USAGE, "The command line is not one that the verb takes."
    NOT_REPLACED = ("not-replaced", ExitCode.USAGE,
        "A file or folder would be replaced that is an input, or not of the kind that is written.")
    # documents
    FILE_MISSING = "file-missing", ExitCode.INVALID, "A file that was named does not exist."
    TOO_LARGE = ("too-large", ExitCode.INVALID,
        "A document is larger, or expands to more, than a document may.")
    YAML_SYNTAX = "yaml-syntax", ExitCode.INVALID, "A file is not YAML, JSON or UTF-8."
    UNSAFE_TAG = ("unsafe-tag", ExitCode.INVALID,
        "A YAML tag would build something other than plain data.")
    DUPLICATE_KEY = "duplicate-key", ExitCode.INVALID, "A key stands twice in one mapping."
    UNKNOWN_KEY = "unknown-key", ExitCode.INVALID, "A key is not one that its place knows."
    MISSING_KEY = "missing-key", ExitCode.INVALID, "A key that must be there is not."
    WRONG_TYPE = "wrong-type", ExitCode.INVALID, "A value is of another type than its key takes."
    INVALID_VALUE = ("invalid-value", ExitCode.INVALID,
        "A value has the right type and still cannot be.")
    BAD_MOUNT_POINT = ("bad-mount-point", ExitCode.INVALID,
        "A mount point is not absolute, or is a path of the system.")
    UNKNOWN_VERSION = "unknown-version", ExitCode.INVALID, "No such version was ever published."
    UNSUPPORTED = ("unsupported", ExitCode.INVALID,
        "The document is valid, but this version of stackproof cannot do what it asks.")
    LOCK_MISMATCH = "lock-mismatch", ExitCode.INVALID, "A lock file belongs to another recipe."
    # machine
    TOOL_MISSING = "tool-missing", ExitCode.NOT_POSSIBLE, "A program is not installed."
    SITE_INCOMPLETE = ("site-incomplete", ExitCode.NOT_POSSIBLE,
        "A site does not state what a recipe asks for; who can look at the machine can state it.")
    NO_USER_NAMESPACES = ("no-user-namespaces", ExitCode.NOT_POSSIBLE,
        "The kernel does not let this user make a user namespace.")
    NO_FUSE = "no-fuse", ExitCode.NOT_POSSIBLE, "FUSE cannot be used here."
    NOT_PERMITTED = "not-permitted", ExitCode.NOT_POSSIBLE, "This user lacks a right."
    NO_NETWORK = ("no-network", ExitCode.NOT_POSSIBLE,
        "A package index or another server cannot be reached.")
    REGISTRY_ANSWER = ("registry-answer", ExitCode.NOT_POSSIBLE,
        "A registry answered what is no image, or what its protocol does not have.")
    REGISTRY_BUSY = ("registry-busy", ExitCode.NOT_POSSIBLE,
        "A server has too much to do, and asks for more patience than there is.")
    REGISTRY_FAILED = "registry-failed", ExitCode.NOT_POSSIBLE, "A server failed by itself."
    REGISTRY_DENIED = ("registry-denied", ExitCode.NOT_POSSIBLE,
        "A registry knows this user, who lacks a right there.")
    REGISTRY_UNABLE = ("registry-unable", ExitCode.NOT_POSSIBLE,
        "A registry does not do what it is asked for, or not as it is set up.")
    LOGIN_NEEDED = "login-needed", ExitCode.NOT_POSSIBLE, "A registry does not know this user."
    ANSWER_TRUNCATED = ("answer-truncated", ExitCode.NOT_POSSIBLE,
        "The answer of a server ended too early.")
    REDIRECT_REFUSED = ("redirect-refused", ExitCode.NOT_POSSIBLE,
        "A server sends on to an address that is not followed.")
    CERTIFICATE = ("certificate", ExitCode.NOT_POSSIBLE,
        "The certificate of a server is not accepted.")
    NOT_REDISTRIBUTABLE = ("not-redistributable", ExitCode.NOT_POSSIBLE,
        "An image holds files that their vendor lets nobody hand on.")
    NO_GPU = ("no-gpu", ExitCode.NOT_POSSIBLE,
        "A rank sees no GPU for its message buffers, or its MPI takes no such buffers.")
    DISK_FULL = "disk-full", ExitCode.NOT_POSSIBLE, "No space is left."
    BUSY = "busy", ExitCode.NOT_POSSIBLE, "Another stackproof is doing the same and does not end."
    CLUSTER_DOWN = "cluster-down", ExitCode.NOT_POSSIBLE, "No cluster is running."
    CLUSTER_FAILED = "cluster-failed", ExitCode.NOT_POSSIBLE, "A cluster could not be started."
    # build
    DIGEST_MISMATCH = ("digest-mismatch", ExitCode.BUILD,
        "A downloaded file is not the one that the lock names.")
    BAD_SIGNATURE = ("bad-signature", ExitCode.BUILD,
        "A cache holds an entry that was changed after it was signed.")
    BUILD_FAILED = "build-failed", ExitCode.BUILD, "A step of a build failed."
    # image
    IMAGE_MISSING = "image-missing", ExitCode.IMAGE, "An image file does not exist."
    IMAGE_UNREADABLE = "image-unreadable", ExitCode.IMAGE, "An image file cannot be read."
    IMAGE_NOT_SQUASHFS = "image-not-squashfs", ExitCode.IMAGE, "A file is no SquashFS image."
    IMAGE_TRUNCATED = "image-truncated", ExitCode.IMAGE, "An image is shorter than it says itself."
    IMAGE_DAMAGED = ("image-damaged", ExitCode.IMAGE,
        "The bytes of an image are not those that were recorded of it.")
    UNSIGNED = ("unsigned", ExitCode.IMAGE,
        "An image has no signature, or none by anybody who is known.")
    SIGNATURE_INVALID = ("signature-invalid", ExitCode.IMAGE,
        "A signature is not one of the statement beside it, or cannot be read.")
    SIGNATURE_OF_ANOTHER = ("signature-of-another", ExitCode.IMAGE,
        "A signature is one of another image.")
    ANOTHER_LABEL = ("another-label", ExitCode.IMAGE,
        "An image is signed, but as another label than it was asked for.")
    DOCUMENT_OF_ANOTHER = ("document-of-another", ExitCode.IMAGE,
        "A verdict is one of another image.")
    WRONG_SIGNER = ("wrong-signer", ExitCode.IMAGE,
        "A signature is by a key that is nobody's here, or by one who may not sign this label.")
    KEY_EXPIRED = "key-expired", ExitCode.IMAGE, "A signature is by a key that is no longer good."
    CLOCK_SKEW = ("clock-skew", ExitCode.IMAGE,
        "A signature, or the key that made it, is of a time that has not come yet.")
    IMAGE_NO_META = "image-no-meta", ExitCode.IMAGE, "An image has no usable `meta/env.json`."
    UNKNOWN_VIEW = "unknown-view", ExitCode.IMAGE, "An image has no view of this name."
    LABEL_AMBIGUOUS = "label-ambiguous", ExitCode.USAGE, "A label means several images."
    TAG_MOVED = ("tag-moved", ExitCode.IMAGE,
        "A tag of a registry is that of another image than a moment before.")
    LABELS_LOST = ("labels-lost", ExitCode.USAGE,
        "Deleting an image of a registry takes further labels along.")
    LABEL_TAKEN = "label-taken", ExitCode.USAGE, "A label is that of another image already."
    REPOSITORY_DAMAGED = ("repository-damaged", ExitCode.IMAGE,
        "The index of a repository of images cannot be read, or does not fit what lies there.")
    META_MISMATCH = ("meta-mismatch", ExitCode.IMAGE,
        "The metadata attached to an image in a registry is not what was recorded of it.")
    META_AMBIGUOUS = ("meta-ambiguous", ExitCode.IMAGE,
        "An image in a registry has several metadata, and does not say which is its own.")
    MOUNT_POINT_MISSING = ("mount-point-missing", ExitCode.IMAGE,
        "A mount point does not exist and cannot be made.")
    MOUNT_POINT_OCCUPIED = ("mount-point-occupied", ExitCode.IMAGE,
        "Something is at the mount point already.")
    MOUNT_POINT_CLASH = ("mount-point-clash", ExitCode.IMAGE,
        "Two images want one mount point, or one inside the other.")
    MOUNT_FAILED = ("mount-failed", ExitCode.IMAGE,
        "The kernel or squashfuse refused to mount an image.")
    COMMAND_NOT_FOUND = ("command-not-found", ExitCode.IMAGE,
        "The command is not there, with the images mounted.")
    # programs and libraries
    NOT_ELF = "not-elf", ExitCode.INVALID, "A file is no program and no library."
    ELF_DAMAGED = ("elf-damaged", ExitCode.INVALID,
        "The parts of a program or library do not fit together.")
    NO_MPI = "no-mpi", ExitCode.INVALID, "There is no MPI where one was looked for."
    # job
    JOB_FAILED = "job-failed", ExitCode.JOB, "A benchmark job ended badly."
    RANK_CRASHED = "rank-crashed", ExitCode.JOB, "A rank was killed by a signal."
    JOB_TIMEOUT = "job-timeout", ExitCode.JOB, "A job did not end within its time limit."
    GARBAGE_OUTPUT = "garbage-output", ExitCode.JOB, "A benchmark printed what is no result."
    TRUNCATED_OUTPUT = ("truncated-output", ExitCode.JOB,
        "A benchmark's output ends before its results do.")
    VALIDATION_FAILED = ("validation-failed", ExitCode.JOB,
        "Received bytes were not the ones that were sent.")
    NODE_UNREACHABLE = "node-unreachable", ExitCode.JOB, "A node does not answer."
    NOTHING_RAN = ("nothing-ran", ExitCode.NO_WORK,
        "There was nothing to do, or nothing of it was done.")
    SINGLETONS = ("singletons", ExitCode.NO_WORK,
        "Ranks are alone, or fewer than asked for found each other.")
    WRONG_PLACEMENT = ("wrong-placement", ExitCode.JOB,
        "Ranks ran elsewhere than they were asked to.")
    WRONG_TRANSPORT = ("wrong-transport", ExitCode.JOB,
        "Messages took another path than was asked for.")
    CLOCK_JUMPED = ("clock-jumped", ExitCode.JOB,
        "A clock that a launch was timed by jumped, or is not the one that it should be.")
    WRONG_MPI = "wrong-mpi", ExitCode.JOB, "Another MPI library was loaded than the one under test."
    NOT_LOADED = ("not-loaded", ExitCode.JOB,
        "A library that an arm preloads, or a folder that it puts first, is not among the ranks'.")
    TOO_FEW_LAUNCHES = ("too-few-launches", ExitCode.JOB,
        "There are not enough good launches to compare.")
    NO_RESULTS = "no-results", ExitCode.JOB, "There are no results where they were looked for."
    NOT_TRUSTED = ("not-trusted", ExitCode.JOB,
        "Results are not what they say: changed, incomplete, or of another machine or time.")
    # verdict
    WORSE = "worse", ExitCode.WORSE, "The verdict of a comparison is FAIL."
    UNDECIDED = "undecided", ExitCode.UNKNOWN, "The verdict of a comparison is INCONCLUSIVE."
    INJECTION_FAILS = ("injection-fails", ExitCode.WORSE,
        "A program would not work with the MPI that was to be injected.")
    INJECTION_UNKNOWN = ("injection-unknown", ExitCode.UNKNOWN,
        "Whether an injection works cannot be told from the files.")
    INJECTION_STEPS = ("injection-steps", ExitCode.STEPS,
        "An injection works with further steps only.")
    INTERRUPTED = "interrupted", ExitCode.INTERRUPTED, "The user, or a signal, stopped the command."
    # fmt: on


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
        return self.worded("error")

    def worded(self, kind: str) -> str:
        """Return the problem for people, as `error`, `warning` or `note`.

        An error says the name of its reason, by which the documentation finds it.
        """
        name = f" [{self.reason}]" if kind == "error" else ""
        lines = [f"{kind}: {harmless.indented(self.message, '  | ')}{name}"]
        if self.where:
            lines.append(f"  --> {harmless.line(str(self.where))}")
        if self.detail:
            lines.append(f"  | {harmless.indented(self.detail, '  | ')}")
        if self.hint:
            lines.append(f"hint: {harmless.indented(self.hint, '  | ')}")
        return "\n".join(lines)

    def data(self, severity: str = "error") -> dict[str, object]:
        """Return the problem as one entry of `problems_data`."""
        where = self.where or Location(file="")
        return {
            "severity": severity,
            "reason": str(self.reason),
            "message": self.message,
            "hint": self.hint,
            "detail": self.detail,
            "file": where.file,
            "line": where.line,
            "column": where.column,
        }


def problems_data(
    exit_code: int, problems: Sequence[Problem], notes: Sequence[Problem] = ()
) -> dict[str, object]:
    """Return problems and notes as the JSON that every verb with `--json` prints of a failure.

    Its form is `schemas/problems.json`.
    """
    return {
        "schema": "stackproof/problems/1",
        "exit_code": int(exit_code),
        "problems": [*(one.data() for one in problems), *(one.data("note") for one in notes)],
    }


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


_MOST_GUESSES = 2000  # comparing a word with one name takes some 10 us


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return the beginning of a hint that guesses at a mistyped name; empty where none is near."""
    import difflib  # noqa: PLC0415 - only where something was mistyped

    known = list(itertools.islice(names, _MOST_GUESSES))
    bare = word.lstrip("-")
    begun = [name for name in known if bare and name.lstrip("-").startswith(bare)]
    close = begun if len(begun) == 1 else difflib.get_close_matches(word, known, n=1)
    return f"did you mean `{close[0]}`? " if close else ""
