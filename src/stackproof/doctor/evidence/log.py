"""What a job printed, to evidence: which MPI answered, how many worlds there were, how it ended.

Read are the records of the benchmark program that comes with stackproof, words by which MPIs,
launchers and providers betray themselves, and what they say of a failure. Labels of launchers may
stand before lines. What cannot be understood tells nothing, never an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from stackproof.doctor.log import grammar, story
from stackproof.doctor.log.lines import plain
from stackproof.knowledge.evidence import Evidence, FactValue, Pieces
from stackproof.launch.launchers import messages
from stackproof.mpi import families

_RECORD = re.compile(r'(?:^|\s)(\{"kind":".*\})\s*$')
_ALONE = re.compile(grammar.ALONE)
_FEWEST_ALONE = 2
_RELEASE = re.compile(r"\d+(?:\.\d+)*")
_SINGLETONS = re.compile(r"(?<!\d)(\d{1,9}) singletons will be started")  # Open MPI 5.0.11
_OSU_ROW = r"^\d+(?:[ \t]+[\d.]+)+[ \t]+"
"""Within a line: a log may be one long column of numbers."""
_OSU_WRONG = re.compile(rf"DATA VALIDATION ERROR|{_OSU_ROW}Fail[ \t]*$", re.MULTILINE)
_OSU_RIGHT = re.compile(rf"{_OSU_ROW}Pass[ \t]*$", re.MULTILINE)
_OVER_TIME = re.compile(r"CANCELLED AT \S+ DUE TO TIME LIMIT|APPLICATION TIMED OUT")
"""Before anything that the end itself made ranks print."""
KILLED = re.compile(r"signal:? 9\b|SIGNAL: 9\b|EXIT CODE: 9\b")
"""How launchers say that signal 9 ended a rank."""

_KILLED_STEP = re.compile(r"^srun: error: \S+: tasks? \S+: Killed", re.MULTILINE)
_MPIS = grammar.compile_words(grammar.MPIS)
_VERSIONS = tuple((name, re.compile(pattern)) for name, pattern in grammar.VERSIONS)
_LAUNCHERS = grammar.compile_words(grammar.LAUNCHERS, re.MULTILINE)


class _Run(Struct):
    """One world: a program that called itself rank 0."""

    size: int = 0
    ended: bool = False
    alone: bool = False


class _Records(Struct):
    """What the records of the benchmark program add up to."""

    runs: dict[str, _Run] = field(default_factory=dict)
    most_at_once: int = 0
    wrong: int = 0
    validated: bool = False
    failed: bool = False
    library: str = ""


def of_log(text: str, origin: str, numbers: tuple[int, ...] = ()) -> Evidence:
    """Return what the output of a job tells without any rule: facts, and the MPI's version."""
    records, log, pieces = _records(text), plain(text, numbers), Pieces(origin)
    facts = _betrayed(log.text, pieces)
    if records.library and (known := families.identify(records.library)):
        facts["mpi"] = known[0]
        pieces.version(*known)
    worlds = _worlds(records, log.text)
    wrong = records.wrong + len(_OSU_WRONG.findall(log.text))
    alone = worlds > 1
    facts |= {
        "worlds": float(worlds) if worlds else None,
        "cut-short": not all(run.ended for run in records.runs.values()) if records.runs else None,
        "wrong-bytes": float(wrong)
        if wrong or records.validated or _OSU_RIGHT.search(log.text)
        else None,
        "ended": _ended(records, log.text) or None,
        "signal": story.signals(log.text),
    }
    told = story.story_of(Evidence(logs={origin: text}, line_numbers={origin: numbers}))
    facts["went-on"] = not alone and (facts["ended"] == "ok" or story.went_on(log))
    facts["failed"] = bool(told.fatal) and not facts["went-on"]
    for name, value in facts.items():
        pieces.fact(name, value)
    for fact, pattern in (("nested-launcher", grammar.NESTED), ("worlds", _ALONE)):
        line = next((line for line in log.lines if pattern.search(line.text)), None)
        if line is not None and (fact != "worlds" or alone):
            place = f"{origin}:{line.number}: {line.text.strip()[:_SHOWN]}"
            pieces.fact(fact, facts.get(fact, True), place)
    return pieces.evidence()


_SHOWN = 100


def _betrayed(text: str, pieces: Pieces) -> dict[str, FactValue | None]:
    """Return the MPI, launcher and provider that a log's words belong to; note their releases."""
    said = []
    for name, pattern in _VERSIONS:
        match = pattern.search(text)
        release = next((group for group in match.groups() if group), "") if match else ""
        if _RELEASE.fullmatch(release):
            pieces.version(name, release)
            said += [name] if name != "libfabric" else []
    named = (name for name, pattern in _MPIS if pattern.search(text))
    provider = grammar.PROVIDERS.search(text)
    return {
        # Who says his release is asked first; words of Open MPI also stand where it only started
        # ranks of another one.
        "mpi": next(iter(said), None) or next(named, None),
        "launcher": next((name for name, one in _LAUNCHERS if one.search(text)), None),
        "provider": next(filter(None, provider.groups())).partition(";")[0] if provider else None,
    }


def is_killed(text: str) -> bool:
    """Return whether words of a launcher say that signal 9 ended a rank, and nothing before it."""
    said = messages.crashed(text)
    if said:
        return KILLED.search(said) is not None
    return _KILLED_STEP.search(text) is not None and not messages.not_started(text)


def _records(text: str) -> _Records:
    found = _Records()
    for record in _lines(text):
        run, kind = record.get("run"), record.get("kind")
        if not isinstance(run, str):
            continue
        if kind == "start":
            found.runs[run] = _Run(size=_number(record, "world_size"))
            library = record.get("mpi_library")
            found.library = library if isinstance(library, str) else found.library
            open_now = sum(not one.ended for one in found.runs.values())
            found.most_at_once = max(found.most_at_once, open_now)
        elif run not in found.runs:
            continue
        elif kind == "series" and isinstance(record.get("validated"), int):
            found.validated = True
            found.wrong += _number(record, "errors")
        elif kind == "error":
            found.runs[run].ended = found.failed = True
            found.runs[run].alone = record.get("reason") == "world-size"
        elif kind == "end":
            found.runs[run].ended = True
            found.failed = found.failed or record.get("ok") is not True
    return found


def _lines(text: str) -> Iterator[Mapping[str, Any]]:
    """Yield the records that are whole; two ranks may have written into one line."""
    for line in text.splitlines():
        match = _RECORD.search(line)
        if match is None:
            continue
        try:
            record = json.loads(match[1])
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            yield record


def _number(record: Mapping[str, Any], name: str) -> int:
    value = record.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _worlds(records: _Records, text: str) -> int:
    """Return how many programs were rank 0 at a time; launches one after another are one each."""
    alone = sum(run.alone and run.size == 1 for run in records.runs.values())
    told = max((int(number) for number in _SINGLETONS.findall(text)), default=0)
    words = len(_ALONE.findall(text))
    words = words if words >= _FEWEST_ALONE or "two processes" in text else 0
    return max(records.most_at_once, alone, told, words)


def _ended(records: _Records, text: str) -> str:
    how = story.ended_by(text)
    if how in {"node-lost", "killed"}:
        return how
    if is_killed(text):
        return "killed"
    if _OVER_TIME.search(text):
        return "hang"
    if messages.crashed(text) or messages.not_started(text) or messages.no_program(text):
        return "crash"
    if how:
        return how
    whole = bool(records.runs) and all(run.ended for run in records.runs.values())
    return "ok" if whole and not records.failed else ""
