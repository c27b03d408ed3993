"""What launchers and MPIs print when a job fails, read from their words.

The patterns follow captures of Hydra (MPICH 5.0.2), Intel MPI 2021.18.1, PRRTE (Open MPI 5.0.11)
and ORTE (Open MPI 4.1.8), and srun (Slurm 22.05.8). Each function returns the lines that say it,
or an empty text.
"""

from __future__ import annotations

import re

from stackproof.core import limits

# Characters of a line that are looked at: patterns with two open ends take hours on a megabyte.
_LONGEST_LINE = limits.LINE_KEPT.bytes

_UNREACHABLE = tuple(
    re.compile(pattern)
    for pattern in (
        r"^stackproof agent: .*",
        r"^ssh: .*",
        r".*Unable to run bstrap_proxy on .*",
        r".*: Launch proxy failed\.",
        r"^A daemon failed to report back after being spawned\.",
        r"^PRTE has lost communication with a remote daemon\.",
        r"^ORTE was unable to reliably start one or more daemons\.",
        r"^ORTE has lost communication with a remote daemon\.",
        r"^srun: error: Node failure on .*",
        r"^srun: error: Unable to create step for job \d+: Requested node configuration .*",
        r"^\s*Remote host:\s+\S+",
        r"^\s*Remote daemon\s*: .* on node \S+",
    )
)
# `Remote host` alone is also part of other messages of Open MPI.
_UNREACHABLE_ALONE = len(_UNREACHABLE) - 2

_KILLED = (
    re.compile(r"=\s+KILLED BY SIGNAL: (?P<number>\d+) \(.*\)"),
    re.compile(r"TERMINATED WITH THE EXIT STRING: .* \(signal (?P<number>\d+)\)"),
    re.compile(
        r"process rank \d+ with PID \d+ on node \S+ exited on\s+signal (?P<number>\d+) \(.*\)"
    ),
    re.compile(r"=\s+EXIT CODE: (?P<number>\d+)"),
)
# What a launcher ends the other ranks with.
_CLEANING_UP = {9, 15}

_ENDED = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"application called MPI_Abort\(.*",
        r"^MPI_ABORT was invoked on rank \d+.*",
        r"Process name: \[.*\]\s+Exit code: +\d+",
        # srun ends the other ranks with SIGTERM, then SIGKILL.
        r"^srun: error: \S+: tasks? \S+: (?!Terminated|Killed|Exited with exit code 1(?:37|43)$).*",
        # PALS of HPE Cray EX; Slurm's daemon; a shell that started the program itself.
        r"^\S+: rank \d+ died from signal (?!9\b|15\b)\d+.*",
        r"^\S+: rank \d+ exited with code (?!0\b|137\b|143\b)\d+.*",
        r"^slurmstepd: error: .*(?:DUE TO TIME LIMIT|oom[-_ ]kill|OUT OF MEMORY).*",
        r"^\S+: line \d+: +\d+ (?:Segmentation fault|Bus error|Aborted|Illegal instruction)\b.*",
    )
)

_NO_START = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"Fatal error in (?:internal_|P?MPI_)Init(?:_thread)?: .*",
        r"^No components were able to be opened in the \w+ framework\.",
        r"^At least one pair of MPI processes are unable to reach each other.*",
        r"^It looks like MPI_INIT failed.*",
    )
)

_NO_PROGRAM = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        # Ranks fail at the same time, and taskset writes its name and the rest one after the other.
        r"^(?:taskset: )*failed to execute .*",
        r"^error: \[command-not-found\] .*",
        r"execvp error on file .*",
        r"Executable: .*\s+Node: .*",
    )
)

# taskset's name may stand elsewhere here as well.
_NO_CPU = re.compile(r"failed to set pid \d+'s affinity")


def unreachable(text: str) -> str:
    """Return the lines that say that a node cannot be reached, or was lost."""
    found = [
        (index, line.strip())
        for line in _cut(text).split("\n")
        for index, pattern in enumerate(_UNREACHABLE)
        if pattern.match(line)
    ]
    if all(index >= _UNREACHABLE_ALONE for index, _ in found):
        return ""
    return "; ".join(dict.fromkeys(line for _, line in found))


def crashed(text: str) -> str:
    """Return the words about a rank that was killed, stopped the job or ended badly."""
    text = _cut(text)
    killed = [match for pattern in _KILLED for match in pattern.finditer(text)]
    # A launcher tells of the ranks that it ended itself, too.
    own = [match for match in killed if int(match["number"]) not in _CLEANING_UP]
    return _words(own[0][0]) if own else _first(_ENDED, text) or _words(_of(killed))


def not_started(text: str) -> str:
    """Return the words of an MPI that could not start with the settings it was given."""
    return _first(_NO_START, _cut(text))


def no_program(text: str) -> str:
    """Return the words about a program that is not there or cannot be executed."""
    return _first(_NO_PROGRAM, _cut(text))


def no_cpu(text: str) -> str:
    """Return the words about a CPU that a node does not have or does not allow."""
    match = _NO_CPU.search(text)
    return match[0] if match else ""


def _cut(text: str) -> str:
    return "\n".join(line[:_LONGEST_LINE] for line in text.splitlines())


def _first(patterns: tuple[re.Pattern[str], ...], text: str) -> str:
    return next((_words(match[0]) for p in patterns if (match := p.search(text))), "")


def _of(found: list[re.Match[str]]) -> str:
    return found[0][0] if found else ""


def _words(text: str) -> str:
    return " ".join(text.lstrip("= ").split())
