"""Why something failed, where, and what to do about it.

A `Reason` is the stable name of a kind of failure: it decides the exit code, and tests assert on
it, never on prose. Problems are collected and raised together in one `StackproofError`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import EnumType, IntEnum, StrEnum

from stackproof.core import harmless

TYPE_CHECKING = False  # `typing` is slow to import
if TYPE_CHECKING:
    from typing import Any, Self


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


class _NamedByThemselves(EnumType):
    """Gives each member the value that its name says: that of `DISK_FULL` is `disk-full`."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: Any) -> Any:
        """Put the value before what stands in the class."""
        for word in body._member_names:  # noqa: SLF001 - of the class that is being made
            dict.__setitem__(body, word, (word.lower().replace("_", "-"), *body[word]))
        return super().__new__(cls, name, bases, body)


class Reason(StrEnum, metaclass=_NamedByThemselves):
    """The closed list of failure kinds: the stable name, the exit code, and what it means."""

    exit_code: ExitCode
    text: str

    def __new__(cls, value: str, exit_code: int = 1, text: str = "") -> Self:
        """Make a member whose value is its name in messages."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.exit_code = ExitCode(exit_code)
        member.text = text
        return member

    # fmt: off
    BUG = 1, "Stackproof itself is at fault."
    USAGE = 2, "The command line is not one that the verb takes."
    NOT_REPLACED = (2,
        "A file or folder would be replaced that is an input, or not of the kind that is written.")
    # documents
    FILE_MISSING = 3, "A file that was named does not exist."
    TOO_LARGE = 3, "A document is larger, or expands to more, than a document may."
    YAML_SYNTAX = 3, "A file is not YAML, JSON or UTF-8."
    UNSAFE_TAG = 3, "A YAML tag would build something other than plain data."
    DUPLICATE_KEY = 3, "A key stands twice in one mapping."
    UNKNOWN_KEY = 3, "A key is not one that its place knows."
    MISSING_KEY = 3, "A key that must be there is not."
    WRONG_TYPE = 3, "A value is of another type than its key takes."
    INVALID_VALUE = 3, "A value has the right type and still cannot be."
    BAD_MOUNT_POINT = 3, "A mount point is not absolute, or is a path of the system."
    UNKNOWN_VERSION = 3, "No such version was ever published."
    UNSUPPORTED = 3, "The document is valid, but this version of stackproof cannot do what it asks."
    LOCK_MISMATCH = 3, "A lock file belongs to another recipe."
    # machine
    TOOL_MISSING = 4, "A program is not installed."
    SITE_INCOMPLETE = (4,
        "A site does not state a fact that a recipe asks for; look at the machine and state it.")
    NO_USER_NAMESPACES = 4, "The kernel does not let this user make a user namespace."
    NO_FUSE = 4, "FUSE cannot be used here."
    NOT_PERMITTED = 4, "This user lacks a right."
    NO_NETWORK = 4, "A package index or another server cannot be reached."
    REGISTRY_ANSWER = 4, "A registry answered what is no image, or what its protocol does not have."
    REGISTRY_BUSY = 4, "A server has too much to do, and asks for more patience than there is."
    REGISTRY_FAILED = 4, "A server failed by itself."
    REGISTRY_DENIED = 4, "A registry knows this user, who lacks a right there."
    REGISTRY_UNABLE = 4, "A registry does not do what a client asks for, or is set up not to."
    LOGIN_NEEDED = 4, "A registry does not know this user."
    ANSWER_TRUNCATED = 4, "The answer of a server ended too early."
    REDIRECT_REFUSED = 4, "A server sends on to an address that is not followed."
    CERTIFICATE = 4, "The certificate of a server is not accepted."
    NOT_REDISTRIBUTABLE = 4, "An image holds files that their vendor lets nobody hand on."
    NO_GPU = 4, "A rank sees no GPU for its message buffers, or its MPI takes no such buffers."
    DISK_FULL = 4, "No space is left."
    BUSY = 4, "Another stackproof is doing the same and does not end."
    CLUSTER_DOWN = 4, "No cluster is running."
    CLUSTER_FAILED = 4, "A cluster could not be started."
    # build
    DIGEST_MISMATCH = 5, "A downloaded file is not the one that the lock names."
    BAD_SIGNATURE = 5, "A cache holds an entry that was changed after it was signed."
    BUILD_FAILED = 5, "A step of a build failed."
    # image
    IMAGE_MISSING = 6, "An image file does not exist."
    IMAGE_UNREADABLE = 6, "An image file cannot be read."
    IMAGE_NOT_SQUASHFS = 6, "A file is no SquashFS image."
    IMAGE_TRUNCATED = 6, "An image is shorter than it says itself."
    IMAGE_DAMAGED = 6, "The bytes of an image are not those that were recorded of it."
    UNSIGNED = 6, "An image has no signature, or none by anybody who is known."
    SIGNATURE_INVALID = 6, "A signature is not one of the statement beside it, or cannot be read."
    SIGNATURE_OF_ANOTHER = 6, "A signature is one of another image."
    ANOTHER_LABEL = 6, "An image is signed, but as another label than it was asked for."
    DOCUMENT_OF_ANOTHER = 6, "A verdict is one of another image."
    WRONG_SIGNER = (6,
        "A signature is by a key that is nobody's here, or by one who may not sign this label.")
    KEY_EXPIRED = 6, "A signature is by a key that is no longer good."
    CLOCK_SKEW = 6, "A signature, or the key that made it, is of a time that has not come yet."
    IMAGE_NO_META = 6, "An image has no usable `meta/env.json`."
    UNKNOWN_VIEW = 6, "An image has no view of this name."
    LABEL_AMBIGUOUS = 2, "A label means several images."
    TAG_MOVED = 6, "A tag of a registry is that of another image than a moment before."
    LABELS_LOST = 2, "Deleting an image of a registry takes further labels along."
    LABEL_TAKEN = 2, "A label is that of another image already."
    REPOSITORY_DAMAGED = (6,
        "The index of a repository of images cannot be read, or does not fit what lies there.")
    META_MISMATCH = (6,
        "The metadata attached to an image in a registry is not what was recorded of it.")
    META_AMBIGUOUS = (6,
        "An image in a registry has several metadata, and does not say which is its own.")
    MOUNT_POINT_MISSING = 6, "A mount point does not exist and cannot be made."
    MOUNT_POINT_OCCUPIED = 6, "Something is at the mount point already."
    MOUNT_POINT_CLASH = 6, "Two images want one mount point, or one inside the other."
    MOUNT_FAILED = 6, "The kernel or squashfuse refused to mount an image."
    COMMAND_NOT_FOUND = 6, "The command is not there, with the images mounted."
    # programs and libraries
    NOT_ELF = 3, "A file is no program and no library."
    ELF_DAMAGED = 3, "The parts of a program or library do not fit together."
    NO_MPI = 3, "There is no MPI where one was looked for."
    # job
    JOB_FAILED = 7, "A benchmark job ended badly."
    RANK_CRASHED = 7, "A rank was killed by a signal."
    JOB_TIMEOUT = 7, "A job did not end within its time limit."
    GARBAGE_OUTPUT = 7, "A benchmark printed what is no result."
    TRUNCATED_OUTPUT = 7, "A benchmark's output ends before its results do."
    VALIDATION_FAILED = 7, "Received bytes were not the ones that were sent."
    NODE_UNREACHABLE = 7, "A node does not answer."
    NOTHING_RAN = 11, "There was nothing to do, or nothing of it was done."
    SINGLETONS = 11, "Ranks are alone, or fewer than asked for found each other."
    WRONG_PLACEMENT = 7, "Ranks ran elsewhere than they were asked to."
    WRONG_TRANSPORT = 7, "Messages took another path than was asked for."
    CLOCK_JUMPED = (7,
        "A clock that a launch was timed by jumped, or is not the one that it should be.")
    WRONG_MPI = 7, "Another MPI library was loaded than the one under test."
    NOT_LOADED = (7,
        "A library that an arm preloads, or a folder that it puts first, is not among the ranks'.")
    TOO_FEW_LAUNCHES = 7, "There are not enough good launches to compare."
    NO_RESULTS = 7, "There are no results where they were looked for."
    NOT_TRUSTED = (7,
        "Results are not what they say: changed, incomplete, or of another machine or time.")
    # verdict
    WORSE = 8, "The verdict of a comparison is FAIL."
    UNDECIDED = 9, "The verdict of a comparison is INCONCLUSIVE."
    INJECTION_FAILS = 8, "A program would not work with the MPI that was to be injected."
    INJECTION_UNKNOWN = 9, "Whether an injection works cannot be told from the files."
    INJECTION_STEPS = 10, "An injection works with further steps only."
    INTERRUPTED = 130, "The user, or a signal, stopped the command."
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
